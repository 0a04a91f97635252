"""Simulated streams whose target moves."""

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_choice, check_not_negative, check_positive_whole, check_seed

DRIFTS = ("none", "abrupt", "gradual", "rotating")
_SHARES = [0.5, 0.8, 0.93, 0.98]  # of documents below each grade
_MOST_VALUES = 4_000_000  # of features drawn at a time


def drifting(
    n_queries: int,
    *,
    drift: str = "abrupt",
    period: int = 2000,
    n_documents: int = 20,
    n_features: int = 20,
    noise: float = 1.0,
    seed: int = 0,
) -> QueryStream:
    """Simulate queries graded by a linear ranker that changes over time.

    Features are standard normal. Grades 0 to 4 are cut at quantiles of the product with the ranker of the query, a unit
    vector, plus Gaussian noise: their frequencies stay the same, and only what they depend on changes. Other parameters
    are those of `separable`.

    Parameters
    ----------
    drift : "none", "abrupt", "gradual", or "rotating"
        One ranker for all queries; a new random ranker after every `period` queries; a gradual transition between such
        rankers; or one that rotates in a plane, by a right angle per period.
    period : int
        Number of queries until the ranker has changed.
    noise : float
        Standard deviation of the noise, relative to that of the products.

    Examples
    --------
    >>> drifting(100, drift="rotating")
    QueryStream(100 queries, 2000 documents, 20 features)
    """
    check_choice("drift", drift, DRIFTS)
    for name, value in {"n_queries": n_queries, "period": period, "n_documents": n_documents}.items():
        check_positive_whole(name, value)
    check_positive_whole("n_features", n_features, least=2)
    check_not_negative("noise", noise)
    check_seed(seed)
    rng = np.random.default_rng(seed)
    rankers = moving_rankers(rng, n_queries, drift, period, n_features)
    X = np.empty((n_queries * n_documents, n_features), dtype=np.float32)
    heights = np.empty(n_queries * n_documents)
    step = max(1, _MOST_VALUES // (n_documents * n_features))
    for first in range(0, n_queries, step):
        chosen = rankers[first : first + step]
        drawn = rng.normal(size=(len(chosen), n_documents, n_features)).astype(np.float32)
        rows = slice(first * n_documents, (first + len(chosen)) * n_documents)
        X[rows] = drawn.reshape(-1, n_features)
        noises = noise * rng.normal(size=(len(chosen), n_documents))
        heights[rows] = (np.einsum("qmd,qd->qm", drawn, chosen) + noises).ravel()
    grades = np.searchsorted(np.quantile(heights, _SHARES), heights)
    return QueryStream.from_arrays(X, grades, group=[n_documents] * n_queries)


def moving_rankers(rng: np.random.Generator, n: int, drift: str, period: int, n_features: int) -> Floats:
    """Return the unit vector that grades each of n queries."""
    if drift == "rotating":
        plane, _ = np.linalg.qr(rng.normal(size=(n_features, 2)))
        angles = np.pi / 2 * np.arange(n) / period
        turned: Floats = np.column_stack([np.cos(angles), np.sin(angles)]) @ plane.T
        return turned
    n_drawn = 1 if drift == "none" else 2 + (n - 1) // period
    drawn = rng.normal(size=(n_drawn, n_features))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    part, place = np.divmod(np.arange(n), period)
    if drift == "gradual":
        share = (place / period)[:, None]
        rankers = (1 - share) * drawn[part] + share * drawn[part + 1]
    else:
        rankers = drawn[np.zeros(n, np.int64) if drift == "none" else part]
    unit: Floats = rankers / np.linalg.norm(rankers, axis=1, keepdims=True)
    return unit
