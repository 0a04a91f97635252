"""Inequalities about the first places, single rankings, other measures, and clicks, as ratios for the search."""

import numpy as np

import perceptrank as pr
from support import twins
from support.climbing import quotient
from support.small_problems import PLAIN, any_stream, beyond, separable_stream, stream_of


def outranked_last(state):
    """Lemma 1″: the outranked keep at least what they have at the end of the ranking, the best of them last."""
    scores, grades, m = state["X"][0, :, 0], state["grades"][0], state["X"].shape[1]
    if not grades.any():
        return 0.0
    v = twins.slam_weights(scores, grades, "ndcg", None)
    outranked = [i for i in range(m) if any(grades[j] < grades[i] and scores[j] >= scores[i] for j in range(m))]
    gains, discounts = twins.gains(grades), 1 / np.log2(1 + np.arange(1, m + 1))
    kept = np.sort(gains[outranked])[::-1] @ discounts[::-1][: len(outranked)]
    bound = v[outranked].sum() - kept / (np.sort(gains)[::-1] @ discounts)
    return quotient(1 - twins.measure("ndcg", scores, grades), bound)


def from_regression(by_entropy):
    """1 - NDCG against the squared distance of scores and gains, or the divergence of softmax and gains."""

    def ratio(state):
        scores, grades, m = state["X"][0, :, 0], state["grades"][0], state["X"].shape[1]
        if not grades.any():
            return 0.0
        gains, discounts = twins.gains(grades), 1 / np.log2(1 + np.arange(1, m + 1))
        ideal, lost = np.sort(gains)[::-1] @ discounts, 1 - twins.measure("ndcg", scores, grades)
        if not by_entropy:
            errors = gains - scores
            distance = np.linalg.norm(errors - errors.mean())
            return quotient(lost, np.sqrt(2 * (discounts @ discounts)) / ideal * distance)
        shares, own = gains / gains.sum(), twins.softmax(scores)
        held = shares > 0
        divergence = (shares[held] * np.log(shares[held] / own[held])).sum()
        return quotient(lost, gains.sum() / ideal * np.sqrt(2 * max(divergence, 0.0)))

    return ratio


def neighbours(state):
    """What a ranking loses in DCG, against what its neighbours lose."""
    a = np.abs(state["X"][0, :, 0])
    discounts = 1 / np.log2(1 + np.arange(1, len(a) + 1))
    below = np.cumsum(discounts)[:-1] @ np.maximum(np.diff(a), 0)
    return quotient(discounts @ (np.sort(a)[::-1] - a), below)


def first_places(violators, rho):
    """The weight moved against the bound by the margin and the diameter of what belongs in the first place."""

    def ratio(state):
        stream = stream_of(state)
        grades = state["grades"]
        best = np.sort(grades, axis=1)[:, -1:]
        if not (grades < best).any():
            return 0.0
        found = pr.theory.margin(stream, cutoff=1)
        if not found.lower > 0:
            return 0.0
        learner = pr.ListwisePerceptron("ndcg@1", violators=violators, relative_margin=rho, **PLAIN)
        moved = sum(learner.learn(stream, []).masses.sum() for _ in range(2))
        size = pr.theory.diameter(stream, cutoff=1)
        return quotient(moved, learner.theorem.of_moved.bound(margin=found.lower, diameter=size))

    return ratio


def top_stream(rng):
    """A stream whose first feature knows the best documents only."""
    state = separable_stream(rng)
    first = state["grades"] == state["grades"].max(axis=1, keepdims=True)
    state["X"][:, :, 0] = np.where(first, rng.uniform(0.2, 1), 0.0)
    return state


MEASURES = ["err", "rr", "p@1"]


def other_measure(state):
    """What is moved for ERR, reciprocal rank and precision, against every ranker."""
    stream, u, measure = stream_of(state), state["u"], MEASURES[int(state["kind"])]
    learner = pr.ListwisePerceptron(measure, **PLAIN)
    masses = learner.learn(stream, []).masses
    name = "ndcg" if measure == "err" else "ap"
    L = sum(
        mass * twins.level_pair(query.X @ u, twins.judged(query.relevance, name))
        for mass, query in zip(masses, stream, strict=True)
        if mass > 0
    )
    against = float(np.linalg.norm(u)), float(L)
    return beyond(masses.sum(), learner.guarantee(comparator=against, diameter=pr.theory.diameter(stream, name)), L)


def stream_of_any_measure(rng):
    return any_stream(rng) | {"kind": rng.integers(3)}


def simplices(state):
    """The other way round: what the adversary is sure of, over what a learner with these settings loses."""
    norm, loss = (float(value) for value in np.clip(np.abs(state["comparator"]), [0.8, 0.0], [2.0, 5.0]))
    learner = [
        lambda: pr.MinimaxPerceptron("ndcg"),
        lambda: pr.SlamPerceptron("ndcg", learning_rate=0.3),
        lambda: pr.ListwisePerceptron(**PLAIN),
        lambda: pr.OnlineListNet(learning_rate=0.3),
    ][state["kind"]]()
    game = pr.theory.play_simplex(learner, comparator=(norm, loss), n_documents=state["m"])
    return quotient(game.lower_bound, game.trace.losses("ndcg").sum())


def any_simplex(rng):
    return {"comparator": rng.uniform(1, 2, size=2), "kind": int(rng.integers(4)), "m": int(rng.integers(2, 5))}


def observed(rho):
    """Clicks that anybody chooses, all documents being examined: the weight moved against every ranker."""

    def ratio(state):
        u, L, moved, stream = state["u"], 0.0, 0.0, stream_of(state)
        learner = pr.ExaminedPerceptron(relative_margin=rho, average=False, transforms=None)
        for X, grades in zip(state["X"], state["grades"], strict=True):
            clicks = np.minimum(grades, 1.0)
            scores = X @ learner.weights if learner.model.has_begun else np.zeros(len(X))
            shown = learner.show(X, policy="none", rng=0)
            learner.learn_clicks(shown, clicks[shown.order], examined=np.ones(len(X)))
            after = learner.model.counts.mass
            if after > moved:
                v = twins.slam_weights(scores, clicks, "ndcg", None, gain="linear")
                L += twins.slam(X @ u, clicks, v, 1.0)[0]
            moved = after
        size = pr.theory.diameter(stream, "ap")
        return beyond(moved, learner.theorem.of_moved.bound(diameter=size, comparator=(np.linalg.norm(u), L)), L)

    return ratio
