"""The two loops that read the features: scores out of weights, and a step out of coefficients."""

from perceptrank.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled, compiled_sums


@compiled_sums
def score_rows(X: Features, start: int, stop: int, weights: Floats, scores: Floats) -> None:
    """scores[:stop - start] = X[start:stop] @ weights."""
    for i in range(start, stop):
        score = 0.0
        for j in range(X.shape[1]):
            score += X[i, j] * weights[j]
        scores[i - start] = score


@compiled_sums
def score_rows_twice(
    X: Features, start: int, stop: int, weights: Floats, scores: Floats, other_weights: Floats, other_scores: Floats
) -> None:
    """`score_rows` for two weight vectors while reading X once."""
    for i in range(start, stop):
        score = 0.0
        other = 0.0
        for j in range(X.shape[1]):
            score += X[i, j] * weights[j]
            other += X[i, j] * other_weights[j]
        scores[i - start] = score
        other_scores[i - start] = other


@compiled_sums
def squared_norm(vector: Floats) -> float:
    """Sum of squares."""
    norm = 0.0
    for j in range(len(vector)):
        norm += vector[j] * vector[j]
    return norm


@compiled_sums
def all_finite(scores: Floats) -> bool:
    """Whether no score is infinite or NaN."""
    zero = 0.0
    for i in range(len(scores)):
        zero += scores[i] * 0.0
    return zero == 0.0


@compiled_sums
def add_rows(X: Features, start: int, rows: Ints, n_rows: int, coefficients: Floats, step: Floats) -> None:
    """Step += sum of coefficients[i] * X[start + i] over the first n_rows of rows, four rows at a time."""
    whole = n_rows - n_rows % 4
    for p in range(0, whole, 4):
        a, b, c, d = rows[p], rows[p + 1], rows[p + 2], rows[p + 3]
        ca, cb, cc, cd = coefficients[a], coefficients[b], coefficients[c], coefficients[d]
        a, b, c, d = start + a, start + b, start + c, start + d
        for j in range(X.shape[1]):
            step[j] += (ca * X[a, j] + cb * X[b, j]) + (cc * X[c, j] + cd * X[d, j])
    for p in range(whole, n_rows):
        a, ca = start + rows[p], coefficients[rows[p]]
        for j in range(X.shape[1]):
            step[j] += ca * X[a, j]


@compiled
def score_pass(X: Features, weights: Floats, scores: Floats) -> None:
    """Scores of every row."""
    score_rows(X, 0, X.shape[0], weights, scores)
