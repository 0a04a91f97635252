"""Inequalities about moving targets, losses of several learners, and learners other than the perceptrons for lists."""

import numpy as np

import perceptrank as pr
from perceptrank.learners.wrappers.forgetting import choose_leaders
from perceptrank.theory import bounds, drift
from perceptrank.theory.theorem import largest_lost
from support import drifting, twins
from support.climbing import quotient
from support.small_problems import any_stream, beyond, folded, stream_of, surrogate_of

# A moving target


def moving_target(rng):
    state = any_stream(rng)
    n, _, d = state["X"].shape
    length, names = 0.1 * rng.lognormal(), list(drifting.LEARNERS)
    settings = {"name": names[rng.integers(len(names))], "half_life": float(rng.choice([0.5, 3.0, 30.0]))}
    return {"X": state["X"], "grades": state["grades"], "u": length * rng.normal(size=(n, d)), **settings}


def fading(part):
    def ratio(state):
        forever = part == "remembering"
        half_life = 1e15 if forever else state["half_life"]
        S, _, largest, C, growth, c, L = drifting.play(state["name"], half_life, stream_of(state), state["u"])
        if not S:
            return 0.0
        against, path = (float(np.linalg.norm(state["u"], axis=1).max()), L), drifting.path_of(state["u"])
        if forever:
            return beyond(S, largest_lost(C * (against[0] + path) ** 2, 0.0, L), L)
        rate = np.log(2) / half_life
        if part == "norm":
            return quotient(largest, drift.largest_weights(growth, rate, largest_weight=c))
        return beyond(S, drift.fading(C, against, path, rate, growth=growth), L)

    return ratio


# Losses of several learners


def leader(state):
    losses = folded(state["losses"])
    total, lost = np.zeros(len(losses)), 0.0
    for column in losses.T:
        lost += column[np.argmin(total)]
        total += column
    return quotient(lost, bounds.leader(n_learners=len(losses), best_loss=total.min()))


def hedge(state):
    losses, rate = folded(state["losses"]), state["rate"]
    before = np.cumsum(np.column_stack([np.zeros(len(losses)), losses]), axis=1)[:, :-1]
    chances = np.exp(-rate * (before - before.min(axis=0)))
    expected = (chances / chances.sum(axis=0) * losses).sum()
    return quotient(expected, bounds.hedge(n_learners=len(losses), rate=rate, best_loss=losses.sum(axis=1).min()))


def tracking(state):
    """Theorem T with two parts, cut where it is best for the bound."""
    losses, lag = folded(state["losses"]), 1.0 + state["rate"]
    n, T = losses.shape
    chosen = np.empty(T, np.int64)
    choose_leaders(lag, 1 - losses, np.ones(T), np.zeros(n), np.zeros(1), chosen)
    lost = losses[chosen, np.arange(T)].sum()
    parts = [[losses.sum(axis=1).min()]]
    parts += [[losses[:, :t].sum(axis=1).min(), losses[:, t:].sum(axis=1).min()] for t in range(1, T)]
    return quotient(lost, min(drift.tracking(part, n, lag) for part in parts))


def safe_averaging(state):
    """Theorem H for any two sequences of losses."""
    A = E = lost = 0.0
    for a, e in folded(state["losses"][:2]).T:
        lost += a if A <= 2 * E + 1 else e
        A, E = A + a, E + e
    return quotient(lost, bounds.safe_averaging(A, E))


# Other learners


def prank(state):
    """Thresholds on whose wrong side documents are, with a margin of PRank's own; one document after the other."""
    X, margin = state["X"].reshape(-1, state["X"].shape[2]), state["rate"]
    grades, n_grades = state["grades"].ravel(), 3
    learner, wrong = pr.MarginPRank(margin, n_grades=n_grades), 0
    sides = np.where(grades[:, None] >= np.arange(1, n_grades), 1, -1)
    for x, grade, side in zip(X, grades, sides, strict=True):
        score, thresholds = (x @ learner.weights, learner.thresholds) if learner.n_rounds else (0.0, np.zeros(2))
        wrong += int((side * (score - thresholds) <= 0).sum())
        learner.learn_one([x], [grade])
    ideal = np.append(state["u"], state["levels"])
    gamma = (sides * ((X @ state["u"])[:, None] - state["levels"])).min() / max(np.linalg.norm(ideal), 1e-300)
    if not gamma > 0:
        return 0.0
    size = float(np.linalg.norm(X, axis=1).max())
    return quotient(wrong, bounds.prank(n_grades=n_grades, radius=size, margin=gamma, threshold_margin=margin))


def graded_stream(rng):
    state = any_stream(rng)
    state["X"][:, :, 0] = state["grades"] - 1
    return state | {"u": np.eye(state["X"].shape[2])[0], "levels": np.array([-0.5, 0.5])}


def ridge(state):
    d = state["X"].shape[2]
    penalty = 3 * state["rate"]
    twin, losses = twins.TwinRidge(d, penalty), []
    for X, grades in zip(state["X"], state["grades"], strict=True):
        weights, n_before = twin.weights.copy(), len(twin.queries)
        twin.learn_one(X, grades)
        if len(twin.queries) > n_before:
            Z, y = twin.queries[-1]
            losses.append(np.square(y - Z @ weights).sum())
    if not losses:
        return 0.0
    used = twin.units > 0
    regret = bounds.ridge(
        n_features=d,
        n_documents=sum(len(one) for _, one in twin.queries),
        penalty=penalty,
        largest_loss=max(losses),
        n_doublings=round(np.log2(twin.units[used] / twin.first_units[used]).sum()),
    )
    return quotient(sum(losses), twin.objective(twin.weights) + regret)


def listnet(state):
    learner, loss, rate = pr.OnlineListNet(state["rate"]), pr.ListNet(), state["rate"]
    paid = others = 0.0
    for X, grades in zip(state["X"], state["grades"], strict=True):
        paid += loss.value(learner.predict(X) if learner.n_rounds else np.zeros(len(X)), grades)
        others += loss.value(X @ state["u"], grades)
        learner.learn_one(X, grades)
    size = max(np.linalg.norm(X[:, None] - X, axis=2).max() for X in state["X"])
    regret = state["u"] @ state["u"] / (2 * rate) + rate / 2 * len(state["X"]) * size**2
    return beyond(paid, others + regret, others)


def kernel(policy):
    """In the space of a Gaussian kernel, against functions over the documents: exact, or with room for few."""

    def ratio(state):
        n, m, d = state["X"].shape
        X, stream, rule = state["X"].reshape(n * m, d), stream_of(state), state["rule"]
        rho = 0.0 if rule == "minimax" else 1.0
        learner = pr.KernelPerceptron(
            rule=rule,
            width=1.0,
            budget=None if policy == "exact" else 4,
            policy=policy,
            relative_margin=1.0,
            linear=0,
            average=False,
            transforms=None,
        )
        masses = learner.learn(stream, []).masses
        S = masses.sum()
        if not S:
            return 0.0
        K = np.exp(-np.square(X[:, None] - X).sum(-1) / 2)
        scores, U = (K @ state["beta"]).reshape(n, m), float(np.sqrt(max(0.0, state["beta"] @ K @ state["beta"])))
        kind = "level-pair" if rule == "listwise" else "max-pair"
        L = sum(
            surrogate_of(kind, s, g, None, V) for s, g, V in zip(scores, state["grades"], masses, strict=True) if V > 0
        )
        # the diameter of the images, rather than its bound
        apart = np.concatenate(
            [
                (2 - 2 * K[m * t : m * (t + 1), m * t : m * (t + 1)])[np.not_equal.outer(g, g)]
                for t, g in enumerate(state["grades"])
            ]
        )
        C = (1 + 2 * rho) * apart.max(initial=0.0)
        found = learner.model
        if policy == "exact":
            bound = L + U * U * C / 2 + U * np.sqrt(C * L + U * U * C * C / 4)
        elif policy == "forgetron":  # the learner has the bound 2 for the squared diameter
            C = 2 * (1 + 2 * rho)
            bound = 2 * L + C * U * U * (1 + found.shrunk / 2) + found.spent
        else:
            certificate = learner.certificate(comparator=(U, L))
            bound = L + U * (certificate.norm + found.lost)
        return beyond(S, bound, L)

    return ratio


def kernel_stream(rng):
    state = any_stream(rng)
    beta = rng.normal(size=state["grades"].size) * rng.lognormal()
    return {"X": state["X"], "grades": state["grades"], "beta": beta, "rule": str(rng.choice(["listwise", "minimax"]))}


def removal(state):
    """One removal by chance, of the proof of Theorem K, all draws: its cost on average."""
    units, u, delta_times = state["X"][0], state["u"], 1.0 + state["rate"]
    k = len(units)
    decay = min(delta_times, k)
    f, factor = units.sum(axis=0), (k - decay) / (k - 1)
    delta = decay / k
    after = np.mean([np.square(factor * (f - r) - u).sum() for r in units])
    price = delta / (2 - delta) * (u @ u) + np.square(units).sum(axis=1).mean()
    return quotient(after, np.square(f - u).sum() + price)
