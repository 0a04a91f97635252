"""Small problems that a search for counterexamples starts from, and the two sides of an inequality as a ratio."""

import numpy as np

import perceptrank as pr
from support import twins
from support.climbing import quotient

MEASURES = [("ndcg", None), ("ndcg", 2), ("ap", None)]
PLAIN = {"average": False, "transforms": None}


def any_stream(rng):
    """Up to eight queries of two to four documents in two or three features, and a ranker to compare with."""
    n, m, d = rng.integers(1, rng.integers(2, 10)), rng.integers(2, 5), rng.integers(2, 4)
    grades = rng.integers(0, 3, size=(n, m))
    grades[:, :2] = [0, 1] if rng.random() < 0.5 else [1, 0]
    X = rng.normal(size=(n, m, d))
    return {
        "X": X,
        "grades": grades,
        "u": rng.normal(size=d) * rng.lognormal(),
        "measure": MEASURES[rng.integers(len(MEASURES))],
        "rate": float(rng.choice([0.05, 0.3, 1.0, 4.0])),
    }


def separable_stream(rng):
    """The same, ranked rightly by the first feature."""
    state = any_stream(rng)
    state["X"] *= rng.lognormal(-1.5)
    state["X"][:, :, 0] = state["grades"] * rng.uniform(0.1, 1)
    return state


def stream_of(state):
    n, m, d = state["X"].shape
    weights = np.abs(state["weights"]) if "weights" in state else None
    return pr.QueryStream.from_arrays(
        state["X"].reshape(n * m, d), state["grades"].ravel(), group=[m] * n, query_weights=weights
    )


def loss_rows(rng):
    """Losses of some learners in some rounds; the search moves them anywhere, and `folded` puts them back."""
    losses = rng.random((rng.integers(2, 4), rng.integers(1, 13)))
    return {"losses": np.round(losses) if rng.random() < 0.5 else losses, "rate": float(rng.choice([0.1, 1.0, 3.0]))}


def folded(values):
    """Any number as one from 0 to 1, itself if it is there."""
    return np.abs(values - 2 * np.round(values / 2))


def beyond(measured, bound, L):
    """The ratio of what both sides have beyond L, which u = 0 pays for alone; 0 where rounding decides."""
    return quotient(measured - L, bound - L) if bound - L > 1e-6 * bound else 0.0


def surrogate_of(kind, scores, grades, v, V):
    """What a fixed ranker is counted in a round with an update."""
    if kind == "level-pair":
        return V * twins.level_pair(scores, grades)
    if kind == "max-pair":
        pair = twins.widest_pair(scores, grades)
        return max(0.0, 1 + pair[0]) if pair else 0.0
    return twins.slam(scores, grades, v, 1.0)[0]
