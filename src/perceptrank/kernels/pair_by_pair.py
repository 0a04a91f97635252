"""The pass of learners that take the pairs of a query one after the other.

State, outputs and early stop as in `single_documents`. Pairs R_i > R_j come in the order of i, then of j.
"""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.list_pass import longest_query, score_query
from perceptrank.kernels.scoring import squared_norm
from perceptrank.kernels.single_documents import close_round, is_grade

PASSIVE_AGGRESSIVE, DIAGONAL, FULL = range(3)


@compiled
def solar_pass(
    kind: int,
    averaging: bool,
    limit: float,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    total: Floats,
    tally: Floats,
    covariance: FloatRows,
    predicted: Floats,
    masses: Floats,
) -> int:
    """SOLAR: passive-aggressive steps, or steps by a covariance that shrinks where something was learned."""
    d = len(weights)
    mean, x, spread, scores = np.empty(d), np.empty(d), np.empty(d), np.empty(longest_query(offsets))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not score_query(averaging, X, start, stop, weights, total, tally, mean, scores, predicted):
            return q
        n_moved = 0
        for i in range(start, stop):
            if not is_grade(relevance[i]):
                return q
        for i in range(start, stop):
            for j in range(start, stop):
                if relevance[i] <= relevance[j]:
                    continue
                lead = 0.0
                for k in range(d):
                    x[k] = np.float64(X[i, k]) - np.float64(X[j, k])
                    lead += weights[k] * x[k]
                loss = 1.0 - lead
                if not loss > 0.0:
                    if math.isnan(loss):
                        return q
                    continue
                if learn_pair(kind, limit, loss, x, spread, weights, covariance):
                    n_moved += 1
        masses[q] = n_moved
        if not close_round(masses[q], weights, total, tally):
            return q
    return len(offsets) - 1


@compiled
def learn_pair(
    kind: int, limit: float, loss: float, x: Floats, spread: Floats, weights: Floats, covariance: FloatRows
) -> bool:
    """One step along x, or along the covariance times x; returns whether there was anywhere to go."""
    d = len(x)
    if kind == PASSIVE_AGGRESSIVE:
        length = squared_norm(x)
        if not length > 0.0:
            return False
        rate = min(limit, loss / length)
        for k in range(d):
            weights[k] += rate * x[k]
        return True
    if kind == DIAGONAL:
        for k in range(d):
            spread[k] = covariance[0, k] * x[k]
    else:
        for k in range(d):
            product = 0.0
            for m in range(d):
                product += covariance[k, m] * x[m]
            spread[k] = product
    along = 0.0
    for k in range(d):
        along += x[k] * spread[k]
    if not along > 0.0:
        return False
    share = 1.0 / (along + limit)
    for k in range(d):
        weights[k] += loss * share * spread[k]
    if kind == DIAGONAL:
        for k in range(d):
            covariance[0, k] -= share * spread[k] * spread[k]
    else:
        for k in range(d):
            for m in range(d):
                covariance[k, m] -= share * spread[k] * spread[m]
    return True
