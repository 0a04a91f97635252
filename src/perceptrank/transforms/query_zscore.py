"""Standardising each query's features by the mean and deviation of the query."""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import read_only
from perceptrank.transforms.standardizing import (
    check_overflow,
    describe_rows,
    first_overflow,
    invert_deviations,
    standardize_rows,
)
from perceptrank.transforms.transform import WritingTransform


class QueryZScore(WritingTransform):
    """Standardise each feature to mean 0 and standard deviation 1 within a query; constant features become 0.

    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0]], [0, 1])
    >>> QueryZScore().transform(stream).X
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    name = "query-zscore"

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Write the scaled features into columns of an array, from column `first` on."""
        vectors = np.empty((3, X.shape[1]))
        check_overflow(query_zscore_pass(read_only(X), read_only(offsets), outputs, first, vectors), X)

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document."""
        return math.sqrt(n_features * (longest - 1))


@compiled
def query_zscore_pass(X: Features, offsets: Ints, scaled: Features, first: int, vectors: FloatRows) -> int:
    """Standardise every query by its own mean and deviation; return the first feature that overflows, or -1."""
    mean, squares, inverse = vectors[0], vectors[1], vectors[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        describe_rows(X, start, stop, mean, squares)
        if first_overflow(squares) >= 0:
            return first_overflow(squares)
        invert_deviations(squares, float(stop - start), inverse)
        standardize_rows(X, start, stop, mean, inverse, scaled, first)
    return -1
