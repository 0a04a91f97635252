"""The pair of documents with the smallest gap in score, query by query."""

import math
from collections.abc import Callable

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, SparseArrays
from perceptrank.kernels.compiled import by_layout, compiled, helper, helper_sums
from perceptrank.kernels.levels import find_levels, read_grades

NO_COLUMN = 2**31 - 1  # beyond all


@helper_sums
def score_from_first(X: Features, start: int, m: int, weights: Floats, scores: Floats) -> bool:
    """Write the difference of each document's score to the first one's; return whether all are finite.

    Features are subtracted before they are multiplied, since their common part may be large.
    """
    zero = 0.0
    for i in range(m):
        score = 0.0
        for j in range(X.shape[1]):
            score += (np.float64(X[start + i, j]) - np.float64(X[start, j])) * weights[j]
        scores[i] = score
        zero += score * 0.0
    return zero == 0.0


@helper
def score_from_first_sparse(X: SparseArrays, start: int, m: int, weights: Floats, scores: Floats) -> bool:
    """As `score_from_first`, for sparse features."""
    values, indices, starts = X
    zero = 0.0
    for i in range(start, start + m):
        score = 0.0
        k, other = starts[i], starts[start]
        while k < starts[i + 1] or other < starts[start + 1]:
            own = indices[k] if k < starts[i + 1] else NO_COLUMN
            theirs = indices[other] if other < starts[start + 1] else NO_COLUMN
            apart = np.float64(0.0)
            if own <= theirs:
                apart += np.float64(values[k])
                k += 1
            if theirs <= own:
                apart -= np.float64(values[other])
                other += 1
            score += apart * weights[min(own, theirs)]
        scores[i - start] = score
        zero += score * 0.0
    return zero == 0.0


score_any_from_first: Callable[..., bool] = by_layout(score_from_first, score_from_first_sparse)


@compiled
def worst_pairs_pass(
    binary: bool,
    X: Features | SparseArrays,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    gaps: Floats,
    higher: Ints,
    lower: Ints,
    floats: FloatRows,
    ints: IntRows,
) -> int:
    """Write for each query the smallest lead of a document over one of a lower grade, and the rows of the two.

    A query whose grades are all equal has an infinite gap. Returns how many queries were done before an infinite score
    or an invalid grade.
    """
    scores, grades, levels, most, least = floats[0], floats[1], floats[2], floats[3], floats[4]
    level_of, first, strongest, weakest = ints[0], ints[1], ints[2], ints[3]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        if (
            not score_any_from_first(X, start, m, weights, scores)
            or read_grades(relevance, start, m, binary, grades) < 0
        ):
            return q
        n_levels = find_levels(grades, m, levels, first, level_of)
        for level in range(n_levels):
            most[level], strongest[level], least[level], weakest[level] = -math.inf, -1, math.inf, -1
        for i in range(m):
            level = level_of[i]
            if scores[i] > most[level]:
                most[level], strongest[level] = scores[i], i
            if scores[i] < least[level]:
                least[level], weakest[level] = scores[i], i
        gaps[q], higher[q], lower[q] = math.inf, -1, -1
        above, weakest_above = math.inf, -1  # of all documents of better grades, the one with the smallest score
        for level in range(n_levels):
            if weakest_above >= 0 and above - most[level] < gaps[q]:
                gaps[q] = above - most[level]
                higher[q], lower[q] = start + weakest_above, start + strongest[level]
            if least[level] < above:
                above, weakest_above = least[level], weakest[level]
    return len(offsets) - 1
