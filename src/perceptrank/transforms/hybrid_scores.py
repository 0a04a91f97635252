"""Normalizing the scores of the clauses of a hybrid query as OpenSearch and Elasticsearch do."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.stream.validation import ParameterError, as_grouped, check_choice, is_whole
from perceptrank.transforms.transform import Transform

LOWEST = np.float32(0.001)  # what OpenSearch makes of the lowest score of a clause, in place of 0
_TINY = np.float32(1e-45)  # where both engines begin to look for a maximum: the smallest number above 0
_SAME = np.float32(1e-6)  # Elasticsearch takes scores, and norms and 0, that differ by less for equal
_ONE = np.float32(1.0)
_TEN_DIGITS = 10**10  # to which OpenSearch rounds one over a rank


class HybridScores(Transform):
    """Normalize each feature within a query as a search engine does with the scores of a hybrid query's clauses.

    A feature has the scores of a clause, NaN for documents that the clause did not return; these become 0. This follows
    the engine's source, in float32 and in its order, so that a model with weights ≥ 0 of the results ranks as the
    engine does; no engine is asked.

    Parameters
    ----------
    engine : "opensearch" or "elasticsearch"
    normalization : "min_max", "l2", "z_score", or "rrf"
        How scores are normalized: "z_score" by OpenSearch alone; "rrf", reciprocal rank fusion, goes by ranks, in which
        documents of equal scores come as they stand in the query.
    rank_constant : int
        What "rrf" adds to ranks, which count from 1.

    Examples
    --------
    >>> import perceptrank as pr
    >>> nan = float("nan")
    >>> X = [[1.0, nan], [3.0, 7.0], [2.0, nan]]
    >>> stream = pr.QueryStream.from_arrays(X, [0, 1, 0], missing="keep")
    >>> HybridScores().transform(stream).X[:, 1], HybridScores("elasticsearch").transform(stream).X[:, 0]
    (array([0., 1., 0.]), array([0. , 1. , 0.5]))
    """

    name = "hybrid"
    accepts_missing = True
    rises = True  # but for LOWEST, and for a score that is the mean, of which OpenSearch's z_score makes the largest
    scope = "query"
    label, unit = "normalized score", "unit of normalized score"

    def __init__(self, engine: str = "opensearch", normalization: str = "min_max", *, rank_constant: int = 60) -> None:
        check_choice("engine", engine, ("opensearch", "elasticsearch"))
        check_choice("normalization", normalization, [which for by, which in _NORMALIZERS if by == engine])
        if not is_whole(rank_constant) or not 1 <= rank_constant <= 10_000:
            raise ParameterError("rank_constant", "must be a whole number from 1 to 10000", rank_constant)
        self.engine, self.normalization, self.rank_constant = engine, normalization, int(rank_constant)

    def apply(self, X: Features, offsets: Ints) -> Features:
        X, offsets = as_grouped(X, offsets)
        outputs = np.zeros_like(X)
        normalize = _NORMALIZERS[self.engine, self.normalization]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scores = X.astype(np.float32) + np.float32(0.0)  # no -0
            for start, stop in pairwise(offsets.tolist()):
                for j, column in enumerate(scores[start:stop].T):
                    returned = np.flatnonzero(~np.isnan(X[start:stop, j]))
                    if len(returned):
                        hits = returned[np.argsort(-column[returned], kind="stable")]
                        outputs[start + hits, j] = normalize(column[hits], self.rank_constant)
        if not (np.isfinite(outputs).all() and np.isfinite(scores[~np.isnan(X)]).all()):
            raise ValueError("scores of clauses must be finite in float32, and so must what the engine makes of them")
        return outputs

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return a bound: a normalized score is at most 1, but for z-scores."""
        return math.inf if self.normalization == "z_score" else math.sqrt(n_features) * (1.0 + 1e-6)

    def __repr__(self) -> str:
        constant = f", rank_constant={self.rank_constant}" if self.normalization == "rrf" else ""
        return f"HybridScores({self.engine!r}, {self.normalization!r}{constant})"


def _opensearch_min_max(falling: Any, _: int) -> Any:
    low, high = falling[-1], max(falling[0], _TINY)
    if low == high:
        return np.ones_like(falling)
    scaled = (falling - low) / (high - low)
    return np.where(scaled == 0.0, LOWEST, scaled)


def _elasticsearch_min_max(falling: Any, _: int) -> Any:
    low, high = falling[-1], max(falling[0], _TINY)
    return np.ones_like(falling) if high - low < _SAME else (falling - low) / (high - low)


def _opensearch_l2(falling: Any, _: int) -> Any:
    norm = np.float32(math.sqrt(np.cumsum(falling * falling, dtype=np.float32)[-1]))
    return falling / norm if norm > 0.0 else np.zeros_like(falling)


def _elasticsearch_l2(falling: Any, _: int) -> Any:
    norm = math.sqrt(np.cumsum(falling * falling, dtype=np.float64)[-1])
    return falling if norm < float(_SAME) else (falling.astype(np.float64) / norm).astype(np.float32)


def _opensearch_z_score(falling: Any, _: int) -> Any:
    """Divide by the unbiased deviation; sums are those of Commons Math, in double precision and in two passes."""
    values, n = falling.astype(np.float64), len(falling)
    rough = _sum(values) / n
    exact = rough + _sum(values - rough) / n
    gaps = values - exact
    variance = (_sum(gaps * gaps) - _sum(gaps) * _sum(gaps) / n) / (n - 1) if n > 1 else 0.0
    mean, deviation = np.float32(exact), np.float32(math.sqrt(variance))
    scaled = (falling - mean) / deviation
    scaled = np.where(scaled <= 0.0, LOWEST, scaled) if deviation > 0.0 else np.full_like(falling, falling[-1])
    return np.where(falling == mean, falling[0], scaled)


def _opensearch_rrf(falling: Any, constant: int) -> Any:
    shares = [(2 * _TEN_DIGITS + rank) // (2 * rank) for rank in range(constant + 1, constant + 1 + len(falling))]
    return (np.array(shares) / _TEN_DIGITS).astype(np.float32)


def _elasticsearch_rrf(falling: Any, constant: int) -> Any:
    return _ONE / np.arange(constant + 1, constant + 1 + len(falling)).astype(np.float32)


def _sum(values: Any) -> float:
    """Return the sum of numbers one after the other, as a loop adds them."""
    return float(np.cumsum(values)[-1])


# What an engine makes of the scores of one clause, which are float32 and in falling order, given the rank constant.
_NORMALIZERS: dict[tuple[str, str], Callable[[Any, int], Any]] = {
    ("opensearch", "min_max"): _opensearch_min_max,
    ("opensearch", "l2"): _opensearch_l2,
    ("opensearch", "z_score"): _opensearch_z_score,
    ("opensearch", "rrf"): _opensearch_rrf,
    ("elasticsearch", "min_max"): _elasticsearch_min_max,
    ("elasticsearch", "l2"): _elasticsearch_l2,
    ("elasticsearch", "rrf"): _elasticsearch_rrf,
}
