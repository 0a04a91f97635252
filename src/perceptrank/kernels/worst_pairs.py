"""Over all queries, the pair of documents that a ranker orders worst."""

import math

import numpy as np

from perceptrank.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import NO_GRADE, highest_below
from perceptrank.kernels.list_pass import longest_query
from perceptrank.kernels.scoring import score_rows
from perceptrank.kernels.scratch import GRADES, SCORES, allocate_floats
from perceptrank.kernels.weights import judge


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
    floats = allocate_floats(longest)
    scores = np.empty(longest)
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_rows(X, start, stop, weights, scores, 0) or judge(measure, relevance, start, m, floats) < 0:
            return q
        for i in range(m):
            floats[SCORES, i] = scores[i]
        gaps[q], higher[q], lower[q] = math.inf, -1, -1
        grade = highest_below(floats, GRADES, m, math.inf)
        weakest, least = -1, math.inf  # of all documents of the grades so far, the one with the smallest score
        while grade != NO_GRADE:
            strongest, most = -1, -math.inf
            for i in range(m):
                if floats[GRADES, i] == grade and floats[SCORES, i] > most:
                    strongest, most = i, floats[SCORES, i]
            if weakest >= 0 and least - most < gaps[q]:
                gaps[q], higher[q], lower[q] = least - most, start + weakest, start + strongest
            for i in range(m):
                if floats[GRADES, i] == grade and floats[SCORES, i] < least:
                    weakest, least = i, floats[SCORES, i]
            grade = highest_below(floats, GRADES, m, grade)
    return len(offsets) - 1
