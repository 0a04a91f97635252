"""Structured large-margin steps for NDCG."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows, Ints, Query, Rows
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.ordering import sort_descending
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.measures import NDCG, MeasureLike, parse
from perceptrank.measures.gains import EXP2, gain_of, gain_shift
from perceptrank.stream.validation import ParameterError
from perceptrank.theory.surrogates import weighing_of


@helper
def structured_ndcg_rule(settings: tuple[int, int], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write the discounts of the worst ranking minus those of the ideal one, if its loss plus lead is above 0."""
    cutoff, gain = settings
    scores, grades, _, _, _ = query
    floats, ints = rows
    lower_first, discount, gains = floats[0], floats[1], floats[2]
    ideal, buckets, spare, place_of = ints[0], ints[1], ints[2], ints[3]
    m = len(scores)
    for i in range(m):
        lower_first[i] = -scores[i]
    sort_descending(grades, lower_first, m, ideal, buckets, spare)
    counted = m if cutoff == 0 else min(cutoff, m)
    lead = share_gains(gain, m, counted, scores, grades, ideal, discount, gains)
    if not lead < math.inf:
        return 0.0
    worst = find_worst_ranking(m, counted, scores, gains, discount, place_of, floats[3:], ints[4:])
    if not 1.0 + worst - lead > 1e-12:
        return 0.0
    for p in range(m):
        i = ideal[p]
        coefficients[i] = discount[place_of[i]] - discount[p]
    return 1.0


@helper
def share_gains(
    gain: int, m: int, counted: int, scores: Floats, grades: Floats, ideal: Ints, discount: Floats, gains: Floats
) -> float:
    """Write discounts and each document's gain over the ideal DCG; return the joint score of the ideal ranking.

    The joint score of a ranking is the sum of scores times 1 / log2(1 + place). Infinity if all gains underflow.
    """
    shift = gain_shift(gain, grades[ideal[0]])
    best, lead = 0.0, 0.0
    for p in range(m):
        discount[p] = 1.0 / math.log2(2.0 + p)
        lead += discount[p] * scores[ideal[p]]
        if p < counted:
            best += gain_of(gain, grades[ideal[p]], shift) * discount[p]
    if not best > 0.0:
        return math.inf
    for i in range(m):
        gains[i] = gain_of(gain, grades[i], shift) / best
    return lead


@compiled
def find_worst_ranking(
    m: int,
    counted: int,
    scores: Floats,
    gains: Floats,
    discount: Floats,
    place_of: Ints,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Write the places that make the joint score minus NDCG the largest, and return that largest value.

    An assignment problem in which document i gains discount[p] * (score - gain if p < counted) at place p. The
    Hungarian method by shortest augmenting paths, in time cubic in the number of documents. Reference: R. Jonker and
    A. Volgenant, "A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems".
    """
    row_price, column_price, distance = floats[0], floats[1], floats[2]
    taken_by, before, done = ints[0], ints[1], ints[2]
    for j in range(m + 1):
        row_price[j], column_price[j], taken_by[j], before[j] = 0.0, 0.0, 0, 0
    for i in range(1, m + 1):  # documents and places count from 1; place 0 is where a new document starts
        taken_by[0] = i
        column = 0
        for j in range(m + 1):
            distance[j], done[j] = math.inf, 0
        while taken_by[column] != 0:
            done[column] = 1
            row, shortest, following = taken_by[column], math.inf, 0
            for j in range(1, m + 1):
                if done[j] == 0:
                    value = discount[j - 1] * (scores[row - 1] - (gains[row - 1] if j - 1 < counted else 0.0))
                    length = -value - row_price[row] - column_price[j]
                    if length < distance[j]:
                        distance[j], before[j] = length, column
                    if distance[j] < shortest:
                        shortest, following = distance[j], j
            for j in range(m + 1):
                if done[j] == 1:
                    row_price[taken_by[j]] += shortest
                    column_price[j] -= shortest
                else:
                    distance[j] -= shortest
            column = following
        while column != 0:
            taken_by[column] = taken_by[before[column]]
            column = before[column]
    total = 0.0
    for j in range(1, m + 1):
        i = taken_by[j] - 1
        place_of[i] = j - 1
        total += discount[j - 1] * (scores[i] - (gains[i] if j - 1 < counted else 0.0))
    return total


class StructuredNdcg(Startable, CompiledLearner):
    """Subgradient descent on the structured hinge of NDCG: 1 - NDCG of a ranking plus its lead in score.

    The joint score of a ranking is the sum over documents of their score divided by log2(1 + place). The loss of a
    query is the largest 1 - NDCG + joint score - joint score of the ideal ranking, over all rankings; in the ideal
    ranking, documents of one grade are ordered by score. Finding that ranking is an assignment problem, solved in time
    cubic in the number of documents of a query: some tenths of a second for 1,000. Learns from lists.

    Parameters
    ----------
    measure : either "ndcg" or "ndcg@k"
        The measure that is learned.

    References
    ----------
    - O. Chapelle, Q. Le and A. Smola, "Large Margin Optimization of Ranking Measures".
    - S. Chakrabarti, R. Khanna, U. Sawant and C. Bhattacharyya, "Structured Learning for Non-Smooth Ranking Losses".

    Examples
    --------
    >>> ranker = StructuredNdcg(learning_rate=1.0)
    >>> ranker.learn_one([[1.0], [0.0]], [1, 0])  # the wrong order loses 1 - 1 / log2(3) for a lead of 0
    True
    >>> ranker.weights  # 1 - 1 / log2(3)
    array([0.36907025])
    """

    algorithm = "structured-ndcg"
    cost = "m d + m³"
    longest_query = 1000
    kernel = list_pass(structured_ndcg_rule, floats=6, ints=7)

    measure: MeasureLike = "ndcg@10"
    _: KW_ONLY
    learning_rate: float = 0.1

    def _make_settings(self) -> ListSettings:
        parsed = parse(self.measure)
        if not isinstance(parsed, NDCG) or parsed.gain != "exp2":
            raise ParameterError("measure", "must be ndcg or ndcg@k", str(parsed))
        return list_settings(self, weighing_of(parsed)[1], EXP2)
