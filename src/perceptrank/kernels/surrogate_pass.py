"""The cumulative surrogate of a fixed ranker over a block."""

import numpy as np

from perceptrank.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import order_ideally
from perceptrank.kernels.list_pass import longest_query
from perceptrank.kernels.list_rules import find_best_below, grades_differ
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
from perceptrank.kernels.weights import BY_SCORE, judge, lay_weights


@compiled
def worst_slam_pass(
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
    """The sum over queries of SLAM with margin 1, weights laid inside each class so that it is largest.

    That is a maximum of convex functions of the ranker, hence convex, and at least as large as with any other order
    inside the classes. Adds a subgradient to `gradient`; NaN if a score is not finite or a grade not sound.
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
        find_best_below(floats, ints, m, n_relevant)
        lay_weights(measure, cutoff, gain, BY_SCORE, n_relevant, discounts, floats, ints)
        for p in range(n_relevant):
            i, rival = ints[IDEAL, p], ints[RIVAL, p]
            hinge = 1.0 + floats[BEST, p] - scores[i] if rival >= 0 else 0.0
            if hinge > 0.0:
                weight = floats[WEIGHTS, p]
                total += weight * hinge
                g[i] -= weight
                g[rival] += weight
        n_moved = 0
        for i in range(m):
            moved[n_moved] = i
            n_moved += 1 if g[i] != 0.0 else 0
        add_rows(X, start, moved, n_moved, g, gradient)
    return total
