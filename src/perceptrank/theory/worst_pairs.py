"""Over all queries, the pair of documents that a ranker orders worst."""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled, compiled_sums
from perceptrank.kernels.levels import order_by_grade
from perceptrank.kernels.list_pass import longest_query
from perceptrank.kernels.scratch import GRADES, IDEAL, ORDER, SCORES, allocate_floats, allocate_ints
from perceptrank.measures.weights import judge


@compiled_sums
def score_from_first(X: Features, start: int, m: int, weights: Floats, floats: FloatRows) -> bool:
    """Row SCORES = by how much each document's score is above the first one's; returns whether all are finite.

    Differences are taken before they are multiplied: what is common to a query's documents may be large.
    """
    zero = 0.0
    for i in range(m):
        score = 0.0
        for j in range(X.shape[1]):
            score += (np.float64(X[start + i, j]) - np.float64(X[start, j])) * weights[j]
        floats[SCORES, i] = score
        zero += score * 0.0
    return zero == 0.0


@compiled
def worst_pairs_pass(
    measure: int,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    gaps: Floats,
    higher: Ints,
    lower: Ints,
) -> int:
    """For each query the smallest score difference of a better and a worse graded document, and their rows.

    A query whose grades are all equal has an infinite gap. Returns how many queries were done before a score that is
    not finite or a grade that is not sound.
    """
    longest = longest_query(offsets)
    floats, ints = allocate_floats(longest), allocate_ints(longest)
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        if not score_from_first(X, start, m, weights, floats) or judge(measure, relevance, start, m, floats) < 0:
            return q
        gaps[q], i, j = worst_pair(m, floats, ints)
        higher[q], lower[q] = (start + i, start + j) if i >= 0 else (-1, -1)
    return len(offsets) - 1


@compiled
def worst_pair(m: int, floats: FloatRows, ints: IntRows) -> tuple[float, int, int]:
    """The smallest lead of a document over one of a lower grade, and the two; infinite if all grades are equal."""
    for i in range(m):
        ints[ORDER, i] = i
    order_by_grade(floats, ints, m)
    gap, higher, lower = math.inf, -1, -1
    weakest, least = -1, math.inf  # of all documents of better grades, the one with the smallest score
    p = 0
    while p < m:
        grade = floats[GRADES, ints[IDEAL, p]]
        strongest, most = -1, -math.inf
        next_weakest, next_least = weakest, least
        while p < m and floats[GRADES, ints[IDEAL, p]] == grade:
            i = ints[IDEAL, p]
            score = floats[SCORES, i]
            if score > most:
                strongest, most = i, score
            if score < next_least:
                next_weakest, next_least = i, score
            p += 1
        if weakest >= 0 and least - most < gap:
            gap, higher, lower = least - most, weakest, strongest
        weakest, least = next_weakest, next_least
    return gap, higher, lower
