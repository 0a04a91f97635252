"""The cumulative surrogate of a fixed ranker over a block."""

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.scoring import add_any_rows, score_any_rows
from perceptrank.theory.hinges import HINGE_ROWS
from perceptrank.theory.surrogates import descend_hinges
from perceptrank.theory.weights import Weighing

ROWS = 4 + HINGE_ROWS[0], 1 + HINGE_ROWS[1]


@compiled
def surrogate_pass(
    kind: int,
    weighing: Weighing,
    X: Features | SparseArrays,
    relevance: Floats,
    offsets: Ints,
    discounts: Floats,
    weights: Floats,
    gradient: Floats,
    query_weights: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Return the sum over queries of SLAM, max-pair or level-pair, margin 1, SLAM's weights laid so that it is largest.

    In each relevance class the documents of the smallest scores have the largest weights. That is a maximum of convex
    functions of the ranker, hence convex, and at least as large as with any other order inside the classes. Adds a
    subgradient to `gradient`; NaN if a score is infinite or a grade invalid. The weights of queries, of each term of
    the sum, are all 1 if there are none.
    """
    scores, grades, coefficients, keys, moved = floats[0], floats[1], floats[2], floats[3], ints[0]
    total = 0.0
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_any_rows(X, start, stop, weights, scores):
            return np.nan
        n_relevant = read_grades(relevance, start, m, weighing[0], grades)
        if n_relevant < 0:
            return np.nan
        if not grades_differ(grades, m, n_relevant):
            continue
        for i in range(m):
            coefficients[i], keys[i] = 0.0, -scores[i]
        query = scores[:m], grades[:m], n_relevant, 1.0, discounts
        value = descend_hinges(kind, weighing, query, keys, coefficients, (floats[4:], ints[1:]))
        if len(query_weights) > 0:
            value *= query_weights[q]
            for i in range(m):
                coefficients[i] *= query_weights[q]
        total += value
        n_moved = start - start
        for i in range(m):
            moved[n_moved] = i
            n_moved += 1 if coefficients[i] != 0.0 else 0
        add_any_rows(X, start, moved, n_moved, coefficients, gradient)
    return total
