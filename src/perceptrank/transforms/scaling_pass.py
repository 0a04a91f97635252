"""Compiled transforms of features, query by query."""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, Ints
from perceptrank.kernels.compiled import compiled

# Below this, one over the spread would overflow.
SMALLEST_SPREAD = 1e-307


@compiled
def describe_rows(X: Features, start: int, stop: int, mean: Floats, squares: Floats) -> None:
    """Mean and sum of squared deviations of each column of X[start:stop].

    Values are taken relative to the first row, so a constant column has exactly zero deviation.
    """
    for j in range(X.shape[1]):
        mean[j], squares[j] = 0.0, 0.0
    for i in range(start, stop):
        for j in range(X.shape[1]):
            mean[j] += X[i, j] - np.float64(X[start, j])
    for j in range(X.shape[1]):
        mean[j] /= stop - start
    for i in range(start, stop):
        for j in range(X.shape[1]):
            deviation = X[i, j] - np.float64(X[start, j]) - mean[j]
            squares[j] += deviation * deviation
    for j in range(X.shape[1]):
        mean[j] += X[start, j]


@compiled
def standardize_rows(X: Features, start: int, stop: int, mean: Floats, inverse: Floats, scaled: Features) -> None:
    """Scaled = (X - mean) * inverse on rows start..stop."""
    for i in range(start, stop):
        for j in range(X.shape[1]):
            scaled[i, j] = (X[i, j] - mean[j]) * inverse[j]


@compiled
def invert_deviations(squares: Floats, count: float, inverse: Floats) -> None:
    """Inverse = 1 / standard deviation, 0 for a constant column."""
    for j in range(len(squares)):
        deviation = math.sqrt(squares[j] / count) if count > 0.0 else 0.0
        inverse[j] = 1.0 / deviation if deviation > 0.0 else 0.0


@compiled
def first_overflow(values: Floats) -> int:
    """The first feature whose value is not finite, -1 if all are."""
    for j in range(len(values)):
        if not math.isfinite(values[j]):
            return j
    return -1


@compiled
def query_zscore_pass(X: Features, offsets: Ints, scaled: Features, vectors: FloatRows) -> int:
    """Each query's features to mean 0 and standard deviation 1 within the query.

    Returns the first feature that is too large for that, -1 if none is.
    """
    mean, squares, inverse = vectors[0], vectors[1], vectors[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        describe_rows(X, start, stop, mean, squares)
        if first_overflow(squares) >= 0:
            return first_overflow(squares)
        invert_deviations(squares, float(stop - start), inverse)
        standardize_rows(X, start, stop, mean, inverse, scaled)
    return -1


@compiled
def query_minmax_pass(X: Features, offsets: Ints, scaled: Features, vectors: FloatRows) -> int:
    """Each query's features to the range 0..1 within the query; constant ones to 0. Returns as `query_zscore_pass`."""
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
        standardize_rows(X, start, stop, low, inverse, scaled)
    return -1


@compiled
def merge_moments(
    count: float, mean: Floats, squares: Floats, other_count: float, other_mean: Floats, other_squares: Floats
) -> float:
    """Add the moments of other rows to (count, mean, squares) in place; returns the new count."""
    merged = count + other_count
    if merged > 0.0:
        for j in range(len(mean)):
            gap = other_mean[j] - mean[j]
            mean[j] += gap * (other_count / merged)
            squares[j] += other_squares[j] + gap * gap * (count * (other_count / merged))
    return merged


@compiled
def running_pass(
    X: Features,
    offsets: Ints,
    learning: bool,
    count: float,
    mean: Floats,
    squares: Floats,
    scaled: Features,
    vectors: FloatRows,
) -> float:
    """Standardise every query by all rows seen so far, its own included; returns the new row count."""
    query_mean, query_squares, inverse = vectors[0], vectors[1], vectors[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if learning:
            describe_rows(X, start, stop, query_mean, query_squares)
            count = merge_moments(count, mean, squares, float(stop - start), query_mean, query_squares)
        invert_deviations(squares, count, inverse)
        standardize_rows(X, start, stop, mean, inverse, scaled)
    return count
