"""The cumulative surrogate of a fixed ranker over a block."""

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import find_levels, read_grades
from perceptrank.kernels.scoring import add_any_rows, score_any_rows
from perceptrank.theory.hinges import find_rivals, move_widest_pair, order_ideally, raise_lower_grades
from perceptrank.theory.surrogates import LEVEL_PAIR, SLAM
from perceptrank.theory.weights import lay_weights

ROWS = 8, 9


@helper
def add_hinges(
    n: int,
    scores: Floats,
    level_of: Ints,
    best_below: Floats,
    rival: Ints,
    ideal: Ints,
    weight_at: Floats,
    coefficients: Floats,
) -> float:
    """Return SLAM with margin 1 for the first n documents of an ideal ranking; write a subgradient."""
    value = 0.0
    for p in range(n):
        i, weight = ideal[p], weight_at[p]
        level = level_of[i]
        hinge = 1.0 + (best_below[level] - scores[i]) if rival[level] >= 0 else 0.0
        if hinge > 0.0:
            value += weight * hinge
            coefficients[i] -= weight
            coefficients[rival[level]] += weight
    return value


@compiled
def surrogate_pass(
    kind: int,
    binary: bool,
    cutoff: int,
    gain: int,
    shared: bool,
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
    scores, grades, coefficients, levels, best_below = floats[0], floats[1], floats[2], floats[3], floats[4]
    weight_at, keys, chosen_keys = floats[5], floats[6], floats[7]
    level_of, first, rival, ideal, chosen = ints[0], ints[1], ints[2], ints[3], ints[4]
    order, buckets, spare, moved = ints[5], ints[6], ints[7], ints[8]
    total = 0.0
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_any_rows(X, start, stop, weights, scores):
            return np.nan
        n_relevant = read_grades(relevance, start, m, binary, grades)
        if n_relevant < 0:
            return np.nan
        n_levels = find_levels(grades, m, levels, first, level_of)
        if n_levels < 2:
            continue
        for i in range(m):
            coefficients[i] = 0.0
        value = 0.0
        if kind == SLAM:
            for i in range(m):
                keys[i] = -scores[i]
            order_ideally(keys, level_of, first, n_relevant, ideal, chosen_keys, chosen, order, buckets, spare)
            find_rivals(scores, m, n_levels, level_of, best_below, rival)
            lay_weights(binary, cutoff, gain, shared, n_relevant, n_levels, levels, first, discounts, weight_at)
            value = add_hinges(n_relevant, scores, level_of, best_below, rival, ideal, weight_at, coefficients)
        else:
            per_level = 1.0 if kind == LEVEL_PAIR else 0.0
            raise_lower_grades(per_level, scores, m, n_levels, level_of, weight_at, keys)
            find_rivals(keys, m, n_levels, level_of, best_below, rival)
            value = move_widest_pair(1.0 - per_level, m, keys, level_of, best_below, rival, coefficients)[1]
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
