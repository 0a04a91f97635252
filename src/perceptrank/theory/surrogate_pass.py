"""The cumulative surrogate of a fixed ranker over a block."""

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import order_ideally
from perceptrank.kernels.list_pass import longest_query
from perceptrank.kernels.list_rules import LEVEL_PAIR, TOP, find_best_below, grades_differ, move_widest_pair
from perceptrank.kernels.places import raise_lower_grades
from perceptrank.kernels.scoring import add_rows, score_rows
from perceptrank.kernels.scratch import (
    BEST,
    COEFFICIENTS,
    IDEAL,
    ORDER,
    RIVAL,
    SCORES,
    WEIGHTS,
    allocate_floats,
    allocate_ints,
)
from perceptrank.measures.weights import BY_SCORE, judge, lay_weights


@compiled
def add_hinges(n: int, floats: FloatRows, ints: IntRows) -> float:
    """SLAM with margin 1 for the first n documents of row IDEAL; row COEFFICIENTS receives a subgradient."""
    value = 0.0
    for p in range(n):
        i, rival, weight = ints[IDEAL, p], ints[RIVAL, p], floats[WEIGHTS, p]
        hinge = 1.0 + (floats[BEST, p] - floats[SCORES, i]) if rival >= 0 else 0.0
        if hinge > 0.0:
            value += weight * hinge
            floats[COEFFICIENTS, i] -= weight
            floats[COEFFICIENTS, rival] += weight
    return value


@compiled
def surrogate_pass(
    kind: int,
    measure: int,
    cutoff: int,
    gain: int,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    discounts: Floats,
    weights: Floats,
    gradient: Floats,
) -> float:
    """The sum over queries of SLAM (TOP), MAX_PAIR or LEVEL_PAIR, margin 1, SLAM's weights laid so that it is largest.

    In each relevance class the documents of the smallest scores have the largest weights. That is a maximum of convex
    functions of the ranker, hence convex, and at least as large as with any other order inside the classes. Adds a
    subgradient to `gradient`; NaN if a score is not finite or a grade not sound.
    """
    longest = longest_query(offsets)
    floats, ints = allocate_floats(longest), allocate_ints(longest)
    scores, g, moved = floats[SCORES], floats[COEFFICIENTS], ints[ORDER]
    total = 0.0
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_rows(X, start, stop, weights, scores, 0):
            return np.nan
        n_relevant = judge(measure, relevance, start, m, floats)
        if n_relevant < 0:
            return np.nan
        if not grades_differ(floats, m, n_relevant):
            continue
        for i in range(m):
            scores[i] = -scores[i]
            g[i] = 0.0
        order_ideally(floats, ints, m, n_relevant)
        for i in range(m):
            scores[i] = -scores[i]
        if kind == LEVEL_PAIR:
            raise_lower_grades(1.0, m, SCORES, floats)
        find_best_below(floats, ints, m, n_relevant)
        lay_weights(measure, cutoff, gain, BY_SCORE, n_relevant, discounts, floats, ints)
        if kind != TOP:
            total += move_widest_pair(n_relevant, 0.0 if kind == LEVEL_PAIR else 1.0, floats, ints)[1]
        else:
            total += add_hinges(n_relevant, floats, ints)
        n_moved = 0
        for i in range(m):
            moved[n_moved] = i
            n_moved += 1 if g[i] != 0.0 else 0
        add_rows(X, start, moved, n_moved, g, gradient)
    return total
