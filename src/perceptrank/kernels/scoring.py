"""The loops that read features: scores out of weights, and a step out of coefficients."""

from collections.abc import Callable

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints, SparseArrays
from perceptrank.kernels.compiled import by_layout, compiled_sums, helper_sums


@compiled_sums
def score_rows(X: Features, start: int, stop: int, weights: Floats, scores: Floats) -> bool:
    """Make scores = X[start:stop] @ weights; return whether all are finite."""
    zero = 0.0
    for i in range(start, stop):
        score = 0.0
        for j in range(X.shape[1]):
            score += X[i, j] * weights[j]
        scores[i - start] = score
        zero += score * 0.0
    return zero == 0.0


@helper_sums
def score_row(X: Features, i: int, weights: Floats) -> float:
    """Return X[i] @ weights."""
    score = 0.0
    for j in range(X.shape[1]):
        score += X[i, j] * weights[j]
    return score


@helper_sums
def score_rows_twice(
    X: Features, start: int, stop: int, weights: Floats, scores: Floats, others: Floats, other_scores: Floats
) -> bool:
    """Make scores = X[start:stop] @ weights and other_scores[start:stop] = X[start:stop] @ others, reading X once."""
    zero = 0.0
    for i in range(start, stop):
        score = 0.0
        other = 0.0
        for j in range(X.shape[1]):
            score += X[i, j] * weights[j]
            other += X[i, j] * others[j]
        scores[i - start] = score
        other_scores[i] = other
        zero += score * 0.0 + other * 0.0
    return zero == 0.0


@compiled_sums
def squared_norm(vector: Floats) -> float:
    """Sum of squares."""
    norm = 0.0
    for j in range(len(vector)):
        norm += vector[j] * vector[j]
    return norm


@helper_sums
def add_rows(X: Features, start: int, rows: Ints, n_rows: int, coefficients: Floats, step: Floats) -> None:
    """Make step += the sum of coefficients[i] * X[start + i] over the first n_rows of rows, six rows at a time."""
    whole = n_rows - n_rows % 6
    for p in range(0, whole, 6):
        a, b, c, d, e, f = rows[p], rows[p + 1], rows[p + 2], rows[p + 3], rows[p + 4], rows[p + 5]
        ca, cb, cc, cd = coefficients[a], coefficients[b], coefficients[c], coefficients[d]
        ce, cf = coefficients[e], coefficients[f]
        a, b, c, d, e, f = start + a, start + b, start + c, start + d, start + e, start + f
        for j in range(X.shape[1]):
            step[j] += ca * X[a, j] + cb * X[b, j] + cc * X[c, j] + cd * X[d, j] + ce * X[e, j] + cf * X[f, j]
    for p in range(whole, n_rows):
        a, ca = start + rows[p], coefficients[rows[p]]
        for j in range(X.shape[1]):
            step[j] += ca * X[a, j]


@helper_sums
def score_sparse_rows(X: SparseArrays, start: int, stop: int, weights: Floats, scores: Floats) -> bool:
    """As `score_rows`, for sparse features."""
    values, indices, starts = X
    zero = 0.0
    for i in range(start, stop):
        score = 0.0
        for k in range(starts[i], starts[i + 1]):
            score += np.float64(values[k]) * weights[indices[k]]
        scores[i - start] = score
        zero += score * 0.0
    return zero == 0.0


@helper_sums
def add_sparse_rows(X: SparseArrays, start: int, rows: Ints, n_rows: int, coefficients: Floats, step: Floats) -> None:
    """As `add_rows`, for sparse features, one row at a time."""
    values, indices, starts = X
    for p in range(n_rows):
        i = start + rows[p]
        for k in range(starts[i], starts[i + 1]):
            step[indices[k]] += coefficients[rows[p]] * values[k]


score_any_rows: Callable[..., bool] = by_layout(score_rows, score_sparse_rows)
add_any_rows: Callable[..., None] = by_layout(add_rows, add_sparse_rows)
