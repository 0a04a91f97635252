"""Scaling each query's features to the range from 0 to 1."""

from __future__ import annotations

import math

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import read_only
from perceptrank.transforms.forms import Nodes, add_inverse
from perceptrank.transforms.standardizing import check_overflow, first_overflow, standardize_rows
from perceptrank.transforms.transform import WritingTransform

# Below this, one over the spread would overflow.
SMALLEST_SPREAD = 1e-307


class QueryMinMax(WritingTransform):
    """Scale each feature to the range from 0 to 1 within a query; constant features become 0.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]], [0, 1, 0])
    >>> QueryMinMax().transform(stream).X[:, 0]
    array([0. , 1. , 0.5])
    """

    name = "query-minmax"
    rises = True
    scope = "query"
    label, unit = "min-max", "step from the smallest to the largest value of its query"

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        vectors = np.empty((3, X.shape[1]))
        check_overflow(query_minmax_pass(read_only(X), read_only(offsets), outputs, first, vectors), X)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        low = nodes.reduce("ReduceMin", X)
        spread = nodes.add("Sub", nodes.reduce("ReduceMax", X), low)
        is_spread = nodes.add("GreaterOrEqual", spread, SMALLEST_SPREAD)
        return str(nodes.add("Mul", nodes.add("Sub", X, low), add_inverse(nodes, spread, is_spread)))

    def largest_norm(self, n_features: int, longest: int) -> float:
        return math.sqrt(n_features)


@compiled
def query_minmax_pass(X: Features, offsets: Ints, scaled: Features, first: int, vectors: FloatRows) -> int:
    """Scale every query to the range from 0 to 1; return the first feature that overflows, or -1."""
    low, high, inverse = vectors[0], vectors[1], vectors[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        for j in range(X.shape[1]):
            low[j], high[j] = X[start, j], X[start, j]
        for i in range(start + 1, stop):
            for j in range(X.shape[1]):
                low[j] = min(low[j], X[i, j])
                high[j] = max(high[j], X[i, j])
        for j in range(X.shape[1]):
            high[j] -= low[j]
            inverse[j] = 1.0 / high[j] if high[j] >= SMALLEST_SPREAD else 0.0
        if first_overflow(high) >= 0:
            return first_overflow(high)
        standardize_rows(X, start, stop, low, inverse, scaled, first)
    return -1
