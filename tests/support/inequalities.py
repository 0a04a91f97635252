"""The inequalities of docs/theory/ as ratios that a search tries to bring above 1, on streams of a few documents."""

import numpy as np

import perceptrank as pr
from perceptrank.theory import bounds, theorems
from support import new_inequalities as new
from support import other_inequalities as other
from support import promises, twins
from support.bounding import diameter, named, rounds_of
from support.climbing import Inequality, quotient
from support.small_problems import (
    PLAIN,
    any_stream,
    beyond,
    loss_rows,
    separable_stream,
    stream_of,
    surrogate_of,
)


def of_learner(make, part, *, separable, theorem=lambda learner: learner.theorem):
    """Ratio of what a learner moved, or of the part of outranked documents, or its loss, to the theorem's bound."""

    def ratio(state):
        name, k = state["measure"]
        learner, stream = make(named(name, k), state["rate"]), stream_of(state)
        rounds = list(rounds_of(learner, stream, name, k))
        measured, size = sum(one[part] for one in rounds), diameter(stream, name)
        if not measured:
            return 0.0
        if separable:
            best = pr.theory.margin(stream, named(name, k))
            if not best.lower > 0:
                return 0.0
            L, given = 0.0, {"margin": best.lower}
        else:
            kind, u = learner.theorem.surrogate, state["u"]
            L = sum(surrogate_of(kind, X @ u, grades, v, V) for X, grades, v, V, _, _ in rounds if V > 0)
            given = {"comparator": (float(np.linalg.norm(u)), L)}
        share = bounds.largest_share(named(name, k), state["X"].shape[1]) if part == LOSS else 1.0
        return beyond(measured, theorem(learner).bound(diameter=size, share=share, **given), L)

    return ratio


MOVED, OUTRANKED, LOSS = 3, 4, 5


def slam(measure, rate):
    return pr.SlamPerceptron(measure, learning_rate=rate)


def minimax(measure, rate):
    return pr.MinimaxPerceptron(measure)


def listwise(violators, rho):
    return lambda measure, rate: pr.ListwisePerceptron(measure, violators=violators, relative_margin=rho, **PLAIN)


def both(theorem, learner, make, part, of=lambda learner: learner.theorem):
    """A theorem with a margin, and against every ranker."""
    return [
        Inequality(f"{theorem}, margin", learner, separable_stream, of_learner(make, part, separable=True, theorem=of)),
        Inequality(f"{theorem}, every $`u`$", learner, any_stream, of_learner(make, part, separable=False, theorem=of)),
    ]


def moved_of(learner):
    return learner.theorem.of_moved


def one_ranking(rng):
    state = any_stream(rng)
    return {"X": state["X"][:1, :, :1], "grades": state["grades"][:1], "measure": state["measure"]}


def lemma_1(sharp):
    def ratio(state):
        (name, k), scores, grades = state["measure"], state["X"][0, :, 0], state["grades"][0]
        if not grades.any():
            return 0.0
        v = twins.slam_weights(scores, grades, name, k)
        _, outranked = twins.listwise(scores, twins.judged(grades, name), v, 0.0, "top")
        share = bounds.largest_share(named(name, k), len(grades)) if sharp else 1.0
        return quotient(1 - twins.measure(name, scores, grades, k=k), share * v[outranked].sum())

    return ratio


def gradient_bound(state):
    (name, k), X, grades = state["measure"], state["X"][0], state["grades"][0]
    scores = X @ state["u"]
    if not grades.any() or not twins.is_mistake(scores, grades, name, k):
        return 0.0
    v = twins.slam_weights(scores, grades, name, k)
    value, gradient = twins.slam(scores, twins.judged(grades, name), v, 1.0)
    constant = 4 * min(k or len(X), len(X)) * np.square(X).sum(axis=1).max() * v.max() / v[v > 0].min()
    return quotient(np.square(X.T @ gradient).sum(), constant * value)


def slam_as_in_the_paper(state):
    (name, k), stream, u = state["measure"], stream_of(state), state["u"]
    m, size = state["X"].shape[1], float(np.linalg.norm(stream.X, axis=1).max())
    if not size or not stream.relevance.any():
        return 0.0
    ratio = bounds.weight_ratio(named(name, k), stream)
    constant = 4 * min(k or m, m) * size**2 * ratio
    b = min(state["rate"], 1.9)
    learner, paid, L = pr.SlamPerceptron(named(name, k), learning_rate=b / constant), 0.0, 0.0
    for X, grades in zip(state["X"], state["grades"], strict=True):
        scores = learner.predict(X) if learner.n_rounds else np.zeros(m)
        v, seen = twins.slam_weights(scores, grades, name, k), twins.judged(grades, name)
        if learner.learn_one(X, grades):
            paid += twins.slam(scores, seen, v, 1.0)[0]
            L += twins.slam(X @ u, seen, v, 1.0)[0]
    return beyond(paid, (L + u @ u * constant / (2 * b)) / (1 - b / 2), L)


def perceptron(separable):
    def ratio(state):
        n, m, d = state["X"].shape
        X, labels = state["X"].reshape(n * m, d), np.where(state["grades"].ravel() > 0, 1, -1)
        classifier = pr.Perceptron()
        mistaken = np.array([classifier.learn_one(x, label) for x, label in zip(X, labels, strict=True)])
        size = float(np.linalg.norm(X, axis=1).max())
        if separable:
            margin = (labels * (X @ state["u"])).min() / max(np.linalg.norm(state["u"]), 1e-300)
            return (
                quotient(mistaken.sum(), theorems.perceptron().bound(radius=size, margin=margin)) if margin > 0 else 0.0
            )
        hinges = np.maximum(0, 1 - labels * (X @ state["u"]))[mistaken].sum()
        against = float(np.linalg.norm(state["u"])), float(hinges)
        return beyond(mistaken.sum(), theorems.perceptron().bound(radius=size, comparator=against), against[1])

    return ratio


def classified_stream(rng):
    state = any_stream(rng)
    labels = np.where(state["grades"] > 0, 1, -1)
    state["X"][:, :, 0] = labels * rng.uniform(0.1, 1)
    state["u"] = np.eye(state["X"].shape[2])[0]
    return state


def mixing(state):
    """Two shards, two epochs, mixed half and half; against u."""
    name, k = state["measure"]
    rho, weights, moved, L, u = 0.7, None, 0.0, 0.0, state["u"]
    for _ in range(2):
        ends = []
        for place in range(2):
            shard = state | {key: state[key][place::2] for key in ("X", "grades")}
            if not len(shard["X"]):
                ends.append(0.5 * (np.zeros(len(u)) if weights is None else weights))
                continue
            learner = pr.ListwisePerceptron(
                named(name, k), violators="uniform", relative_margin=rho, initial_weights=weights, **PLAIN
            )
            for X, grades, v, V, _, _ in rounds_of(learner, stream_of(shard), name, k):
                moved += 0.5 * V
                L += 0.5 * twins.slam(X @ u, grades, v, 1.0)[0] if V > 0 else 0.0
            ends.append(0.5 * learner.weights)
        weights = sum(ends)
    against = float(np.linalg.norm(u)), L
    size = diameter(stream_of(state), name)
    return beyond(moved, promises.parameter_mixing(diameter=size, relative_margin=rho, comparator=against), L)


def lower_bound(state):
    """The other way round: what the adversary is sure of, over what a learner with these settings loses."""
    margin = float(np.clip(np.abs(state["margin"][0]), 0.4, 1.0))
    learner = [slam, minimax, listwise("uniform", 1.0), listwise("places", 0.0)][state["kind"]]("ndcg", state["rate"])
    game = pr.theory.play(learner, margin=margin, n_documents=state["m"])
    return quotient(game.lower_bound, game.trace.losses("ndcg").sum())


def any_game(rng):
    settings = {"kind": rng.integers(4), "rate": float(rng.choice([0.05, 1.0])), "m": int(rng.integers(2, 5))}
    return {"margin": rng.uniform(0.4, 1, size=1), **settings}


def regret_of_iterates(state):
    """Theorem G along the path: SLAM of the iterates, in units of the margin, against every ranker."""
    (name, k), stream, rho = state["measure"], stream_of(state), state["rate"]
    size = diameter(stream, name)
    if not size:
        return 0.0
    order = "index"
    learner = pr.ListwisePerceptron(named(name, k), violators="top", margin=rho * size**2, class_order=order, **PLAIN)
    paid = moved = L = 0.0
    for X, relevance in zip(state["X"], state["grades"], strict=True):
        scores = learner.predict(X) if learner.n_rounds else np.zeros(len(X))
        v, seen = twins.slam_weights(scores, relevance, name, k, class_order=order), twins.judged(relevance, name)
        paid += twins.slam(scores, seen, v, rho * size**2)[0] / (rho * size**2)
        L += twins.slam(X @ state["u"], seen, v, 1.0)[0]
        moved += learner.learn(pr.QueryStream.from_arrays(X, relevance), []).masses[0]
    return beyond(paid, L + rho / 2 * size**2 * (state["u"] @ state["u"]) + moved / (2 * rho), L)


def default_learner(state):
    """Theorem H for the learner as it comes, but without its transforms."""
    (name, k), stream = state["measure"], stream_of(state)
    learner = pr.ListwisePerceptron(named(name, k), transforms=None)
    lost = learner.learn(stream, named(name, k)).losses(named(name, k)).sum()
    if not lost:
        return 0.0
    best = pr.theory.margin(stream, named(name, k))
    if not best.lower > 0:
        return 0.0
    return quotient(lost, learner.guarantee(diameter=diameter(stream, name), margin=best.lower))


def from_a_start(state):
    """Theorem S: S - L + p <= U sqrt(W² + C S), as a bound on S, in a cone."""
    (name, k), stream, u, first = state["measure"], stream_of(state), state["u"], state["first"]
    positive = state["positive"]
    if positive:
        u, first = np.abs(u), np.abs(first)
    learner = pr.ListwisePerceptron(
        named(name, k),
        violators="uniform",
        initial_weights=first,
        positive=list(range(len(u))) if positive else None,
        **PLAIN,
    )
    moved = L = 0.0
    for X, grades, v, V, _, _ in rounds_of(learner, stream, name, k):
        moved += V
        L += twins.slam(X @ u, grades, v, 1.0)[0] if V > 0 else 0.0
    bound = learner.theorem.of_moved.bound(
        diameter=diameter(stream, name),
        comparator=(float(np.linalg.norm(u)), L),
        start=float(np.linalg.norm(first)),
        product=float(first @ u),
    )
    return beyond(moved, bound, L - first @ u)


def started_stream(rng):
    state = any_stream(rng)
    return state | {"first": rng.normal(size=len(state["u"])), "positive": bool(rng.random() < 0.5)}


def with_query_weights(state):
    """Theorem W, for the rule by places."""
    (name, k), stream, u = state["measure"], stream_of(state), state["u"]
    learner = pr.ListwisePerceptron(named(name, k), **PLAIN)
    masses = learner.learn(stream, []).masses
    L = sum(
        mass * twins.level_pair(query.X @ u, twins.judged(query.relevance, name))
        for mass, query in zip(masses, stream, strict=True)
    )
    largest = float(stream.query_weights.max())
    if not largest:
        return 0.0
    bound = learner.theorem.of_moved.bound(
        diameter=diameter(stream, name), comparator=(float(np.linalg.norm(u)), L), largest_weight=largest
    )
    return beyond(masses.sum(), bound, L)


def weighted_stream(rng):
    state = any_stream(rng)
    return state | {"weights": rng.lognormal(size=len(state["X"]))}


def bought_margin(state):
    """The margin that is promised after a pass without updates, over the learner's."""
    stream = stream_of(state)
    learner = pr.ListwisePerceptron(violators="uniform", relative_margin=state["rate"], **PLAIN)
    for _ in range(40):
        if learner.learn(stream, []).n_updates == 0:
            break
    else:
        return 0.0
    if not learner.n_updates:
        return 0.0
    best = pr.theory.margin(stream)
    if not best.lower > 0:
        return 0.0
    unit, rho = learner.weights / np.linalg.norm(learner.weights), state["rate"]
    gaps = [
        (X[i] - X[j]) @ unit
        for X, grades in zip(state["X"], state["grades"], strict=True)
        for i, j in twins.pairs_of(grades)
    ]
    reach = learner.model.tally[3] / learner.model.tally[10]
    promised = best.lower * rho / (1 + 2 * rho) * reach / diameter(stream, "ndcg") ** 2
    return quotient(promised, min(gaps))


def inequalities():
    """All of them, in the order of docs/theory/."""
    made = [
        Inequality("Lemma 1", "any ranking", one_ranking, lemma_1(sharp=False)),
        Inequality("Lemma 1′", "any ranking", one_ranking, lemma_1(sharp=True)),
        Inequality("Lemma 1″", "any ranking", one_ranking, new.outranked_last),
        Inequality("mistakes, margin", "`Perceptron`", classified_stream, perceptron(separable=True)),
        Inequality("mistakes, every $`u`$", "`Perceptron`", any_stream, perceptron(separable=False)),
        Inequality("`gradientboundinperceptron`", "`SlamPerceptron`", any_stream, gradient_bound),
        Inequality("as in the paper, every $`u`$", "`SlamPerceptron`", any_stream, slam_as_in_the_paper),
        Inequality("OGD regret", "`OnlineListNet`", any_stream, other.listnet),
        Inequality("NDCG by cross entropy", "any scores", one_ranking, new.from_regression(by_entropy=True)),
        *both("mistakes", "`MinimaxPerceptron`", minimax, MOVED),
        *both("A", "`SlamPerceptron`", slam, MOVED, moved_of),
        *both("A′", "`SlamPerceptron`", slam, OUTRANKED),
        *both("B", '`"uniform"`, ρ = 0', listwise("uniform", 0.0), MOVED),
        Inequality(
            "B with $`c_m`$, margin",
            '`"uniform"`, ρ = 0',
            separable_stream,
            of_learner(listwise("uniform", 0.0), LOSS, separable=True),
        ),
        *both("C", '`"uniform"`, ρ = 1', listwise("uniform", 1.0), MOVED),
        *both("C′", '`"top"`, ρ = 1', listwise("top", 1.0), OUTRANKED),
        Inequality("first place, margin", '`"uniform"`, ρ = 0', new.top_stream, new.first_places("uniform", 0.0)),
        Inequality("first place, margin", '`"top"`, ρ = 1', new.top_stream, new.first_places("top", 1.0)),
        Inequality("first place, margin", '`"places"`, ρ = 0', new.top_stream, new.first_places("places", 0.0)),
        Inequality("what a margin buys", '`"uniform"`', separable_stream, bought_margin),
        Inequality("D, every $`u`$", '`"uniform"`, two shards', any_stream, mixing),
        Inequality("E, from below", "four learners", any_game, lower_bound),
        Inequality("E on simplices, from below", "four learners", new.any_simplex, new.simplices),
        *both("F", '`"places"`, ρ = 1', listwise("places", 1.0), MOVED),
        Inequality("F, every $`u`$", "ERR, RR, P@1", new.stream_of_any_measure, new.other_measure),
        Inequality("G, path-wise", '`"top"`, absolute margin', any_stream, regret_of_iterates),
        Inequality("H, any losses", "safe averaging", loss_rows, other.safe_averaging),
        Inequality("H, margin", "`ListwisePerceptron()`", separable_stream, default_learner),
        Inequality("K, one removal", "any units", any_stream, other.removal),
        Inequality("in the space of a kernel", "`KernelPerceptron`", other.kernel_stream, other.kernel("exact")),
        Inequality("K′, a posteriori", '`"forgetron"`', other.kernel_stream, other.kernel("forgetron")),
        Inequality("K″", '`"merge"`', other.kernel_stream, other.kernel("merge")),
        Inequality("L", "`Tournament`", loss_rows, other.leader),
        Inequality("Hedge, fixed rate", "`Tournament`", loss_rows, other.hedge),
        Inequality("M (a)", "`Fading`", other.moving_target, other.fading("norm")),
        Inequality("M (b)", "`Fading`", other.moving_target, other.fading("moved")),
        Inequality("M (c)", "without forgetting", other.moving_target, other.fading("remembering")),
        Inequality("T", "`Forgetting`", loss_rows, other.tracking),
        Inequality("thresholds wrong", "`MarginPRank`", other.graded_stream, other.prank),
        Inequality("R", "`OnlineRidge`", any_stream, other.ridge),
        Inequality("NDCG by squared loss", "any scores", one_ranking, new.from_regression(by_entropy=False)),
        Inequality("S, every $`u`$ in the cone", '`"uniform"`, any start', started_stream, from_a_start),
        Inequality("W, every $`u`$", '`"places"`, weights', weighted_stream, with_query_weights),
        Inequality("observed preferences, every $`u`$", "`ExaminedPerceptron`, ρ = 0", any_stream, new.observed(0.0)),
        Inequality("observed preferences, every $`u`$", "`ExaminedPerceptron`, ρ = 1", any_stream, new.observed(1.0)),
        Inequality("neighbours", "any ranking", one_ranking, new.neighbours),
    ]
    names = [(one.theorem, one.learner) for one in made]
    assert len(set(names)) == len(names)
    return made
