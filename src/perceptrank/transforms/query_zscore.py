"""Standardising each query's features by the mean and deviation of the query."""

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import as_grouped, read_only
from perceptrank.transforms.scaling import Scaling
from perceptrank.transforms.standardizing import (
    check_overflow,
    describe_rows,
    first_overflow,
    invert_deviations,
    standardize_rows,
)


class QueryZScore(Scaling):
    """Standardise each feature to mean 0 and standard deviation 1 within a query; constant features become 0.

    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0]], [0, 1])
    >>> QueryZScore().transform(stream).X
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    name = "query-zscore"

    def scale(self, X: Features, offsets: Ints) -> Features:
        """Return a scaled copy of the features of queries with these offsets."""
        X, offsets = as_grouped(X, offsets)
        scaled = np.empty_like(X)
        check_overflow(query_zscore_pass(read_only(X), read_only(offsets), scaled, np.empty((3, X.shape[1]))), X)
        return scaled


@compiled
def query_zscore_pass(X: Features, offsets: Ints, scaled: Features, vectors: FloatRows) -> int:
    """Standardise every query by its own mean and deviation; return the first feature that overflows, or -1."""
    mean, squares, inverse = vectors[0], vectors[1], vectors[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        describe_rows(X, start, stop, mean, squares)
        if first_overflow(squares) >= 0:
            return first_overflow(squares)
        invert_deviations(squares, float(stop - start), inverse)
        standardize_rows(X, start, stop, mean, inverse, scaled)
    return -1
