"""What the pairs of a list teach: rules of related systems, which look at every pair of documents of one query.

Every rule writes row COEFFICIENTS, minus the direction of the step in the scores, and returns how much weight moved, 0
for "no update". "Outranked" is as everywhere: a tie counts as ranked in the worst order.
"""

import math
from typing import NamedTuple

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.assignment import best_assignment
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import order_by_grade
from perceptrank.kernels.list_rules import grades_differ
from perceptrank.kernels.ordering import break_ties, sort_by_key
from perceptrank.kernels.scratch import (
    COEFFICIENTS,
    GRADES,
    IDEAL,
    KEYS,
    ORDER,
    PLACE,
    SCORES,
    SHARE,
    SUMS,
)
from perceptrank.measures.weights import EXP2, gain_of, gain_shift, judge

MISORDERED, WIDEST, UNEVEN, POSITIONS, LOGISTIC, PUSH, PUSH_SQUARED, MEAN_PRECISION, STRUCTURED_GAIN = range(9)


class PairRule(NamedTuple):
    """Everything that distinguishes one pair rule from another."""

    kind: int
    measure: int = 0
    cutoff: int = 0
    averaging: bool = False
    learning_rate: float = 1.0
    margin: float = 0.0


@compiled
def pair_coefficients(rule: PairRule, relevance: Floats, start: int, m: int, floats: FloatRows, ints: IntRows) -> float:
    """Coefficients of one query of m documents, whose scores stand in row SCORES; -1 if a grade is not sound."""
    n_relevant = judge(rule.measure, relevance, start, m, floats)
    if n_relevant < 0:
        return -1.0
    for i in range(m):
        floats[COEFFICIENTS, i] = 0.0
    if not grades_differ(floats, m, n_relevant):
        return 0.0
    if rule.kind == MISORDERED:
        return against_misordered(m, floats)
    if rule.kind == WIDEST:
        return against_widest(m, floats)
    if rule.kind == UNEVEN:
        return against_uneven(m, rule.margin, floats)
    if rule.kind == POSITIONS:
        return towards_ideal_positions(m, rule.cutoff, floats, ints)
    if rule.kind == LOGISTIC:
        return against_logistic(m, floats)
    if rule.kind == STRUCTURED_GAIN:
        return against_worst_gain(m, rule.cutoff, floats, ints)
    if rule.kind == MEAN_PRECISION:
        return against_worst_precision(m, n_relevant, floats, ints)
    return push_top(m, n_relevant, rule.kind == PUSH_SQUARED, floats)


@compiled
def against_misordered(m: int, floats: FloatRows) -> float:
    """Category ranking: all pairs R_i > R_j with s_i <= s_j, in equal parts that add up to 1."""
    n_pairs = 0
    for i in range(m):
        for j in range(m):
            if floats[GRADES, i] > floats[GRADES, j] and floats[SCORES, i] <= floats[SCORES, j]:
                floats[COEFFICIENTS, i] -= 1.0
                floats[COEFFICIENTS, j] += 1.0
                n_pairs += 1
    if n_pairs == 0:
        return 0.0
    for i in range(m):
        floats[COEFFICIENTS, i] /= n_pairs
    return 1.0


@compiled
def against_widest(m: int, floats: FloatRows) -> float:
    """Category ranking: the pair R_i > R_j with the largest s_j - s_i, the first of them, if that is not negative."""
    widest, higher, lower = -math.inf, -1, -1
    for i in range(m):
        for j in range(m):
            gap = floats[SCORES, j] - floats[SCORES, i]
            if floats[GRADES, i] > floats[GRADES, j] and gap > widest:
                widest, higher, lower = gap, i, j
    if widest < 0.0:
        return 0.0
    floats[COEFFICIENTS, higher] = -1.0
    floats[COEFFICIENTS, lower] = 1.0
    return 1.0


@compiled
def against_uneven(m: int, margin: float, floats: FloatRows) -> float:
    """Uneven margins: ranks p < q by grade, equal grades sharing the best; pairs closer than margin (1/p - 1/q)."""
    for i in range(m):
        rank = 1
        for j in range(m):
            rank += 1 if floats[GRADES, j] > floats[GRADES, i] else 0
        floats[SHARE, i] = 1.0 / rank
    mass = 0.0
    for i in range(m):
        for j in range(m):
            gap = floats[SHARE, i] - floats[SHARE, j]
            if gap > 0.0 and floats[SCORES, i] - floats[SCORES, j] < margin * gap:
                floats[COEFFICIENTS, i] -= gap
                floats[COEFFICIENTS, j] += gap
                mass += gap
    return mass


@compiled
def towards_ideal_positions(m: int, cutoff: int, floats: FloatRows, ints: IntRows) -> float:
    """Predtron: the place in the ideal ranking minus the place in the ranking, if the first `cutoff` grades differ."""
    sort_by_key(floats, ints, SCORES, m, ORDER)
    order_by_grade(floats, ints, m)
    for p in range(m):
        floats[COEFFICIENTS, ints[IDEAL, p]] = p
    for i in range(m):
        floats[SUMS, i] = -floats[GRADES, i]
    break_ties(floats, ints, SCORES, SUMS, m, ORDER)
    counted = m if cutoff == 0 else min(cutoff, m)
    mistaken = False
    for p in range(counted):
        mistaken = mistaken or floats[GRADES, ints[ORDER, p]] != floats[GRADES, ints[IDEAL, p]]
    for p in range(m):
        floats[COEFFICIENTS, ints[ORDER, p]] -= p
    if not mistaken:
        for i in range(m):
            floats[COEFFICIENTS, i] = 0.0
        return 0.0
    return 1.0


@compiled
def against_logistic(m: int, floats: FloatRows) -> float:
    """RankNet: the gradient of the mean of log(1 + exp(s_j - s_i)) over all pairs R_i > R_j."""
    n_pairs = 0
    for i in range(m):
        for j in range(m):
            if floats[GRADES, i] > floats[GRADES, j]:
                apart = floats[SCORES, i] - floats[SCORES, j]
                slope = 1.0 / (1.0 + math.exp(apart)) if apart <= 0.0 else math.exp(-apart) / (1.0 + math.exp(-apart))
                floats[COEFFICIENTS, i] -= slope
                floats[COEFFICIENTS, j] += slope
                n_pairs += 1
    for i in range(m):
        floats[COEFFICIENTS, i] /= n_pairs
    return 1.0


@compiled
def push_top(m: int, n_relevant: int, squared: bool, floats: FloatRows) -> float:
    """TopPush: the hinges of all relevant documents against the best irrelevant one, or half their squares; means."""
    rival, top = -1, -math.inf
    for j in range(m):
        if floats[GRADES, j] == 0.0 and floats[SCORES, j] > top:
            rival, top = j, floats[SCORES, j]
    mass = 0.0
    for i in range(m):
        hinge = 1.0 + top - floats[SCORES, i]
        if floats[GRADES, i] > 0.0 and hinge > 0.0:
            slope = (hinge if squared else 1.0) / n_relevant
            floats[COEFFICIENTS, i] -= slope
            floats[COEFFICIENTS, rival] += slope
            mass += 1.0 / n_relevant
    return mass


@compiled
def against_worst_gain(m: int, cutoff: int, floats: FloatRows, ints: IntRows) -> float:
    """Structured NDCG: the ranking that 1 - NDCG plus its lead in the joint score makes worst, an assignment problem.

    The joint score of a ranking is the sum of scores times 1 / log2(1 + place).
    """
    sort_by_key(floats, ints, SCORES, m, ORDER)
    order_by_grade(floats, ints, m)
    counted = m if cutoff == 0 else min(cutoff, m)
    shift = gain_shift(EXP2, floats[GRADES, ints[IDEAL, 0]])
    best, lead = 0.0, 0.0
    for p in range(m):
        floats[SHARE, p] = 1.0 / math.log2(2.0 + p)
        lead += floats[SHARE, p] * floats[SCORES, ints[IDEAL, p]]
        if p < counted:
            best += gain_of(EXP2, floats[GRADES, ints[IDEAL, p]], shift) * floats[SHARE, p]
    if not best > 0.0:
        return 0.0
    values, place_of = np.empty((m, m)), np.empty(m, np.int64)
    for i in range(m):
        gain = gain_of(EXP2, floats[GRADES, i], shift) / best
        for p in range(m):
            values[i, p] = floats[SHARE, p] * (floats[SCORES, i] - (gain if p < counted else 0.0))
    if not 1.0 + best_assignment(values, place_of) - lead > 1e-12:
        return 0.0
    for p in range(m):
        i = ints[IDEAL, p]
        floats[COEFFICIENTS, i] = floats[SHARE, place_of[i]] - floats[SHARE, p]
    return 1.0


@compiled
def against_worst_precision(m: int, a: int, floats: FloatRows, ints: IntRows) -> float:
    """SVM-MAP: the ranking that 1 - AP plus its lead in the joint score makes worst, found greedily.

    Both classes go by score. Every irrelevant document j is put just before the relevant one, k-th of a, that makes the
    sum of what it costs to be before k, k + 1, ..., a the largest, or after all if no such sum is positive.
    """
    b = m - a
    sort_by_key(floats, ints, SCORES, m, ORDER)
    order_by_grade(floats, ints, m)  # the first a places of row IDEAL are relevant, all by score
    for p in range(m):
        floats[KEYS, p] = floats[SCORES, ints[IDEAL, p]]
    value = 0.0
    for p in range(a):
        ints[PLACE, p] = 0  # how many irrelevant documents come before the relevant one at place p
    for j in range(1, b + 1):
        best, best_k, total = 0.0, a + 1, 0.0
        for i in range(a, 0, -1):
            gain = (i / (i + j - 1.0) - i / (i + j + 0.0)) / a
            total += gain - 2.0 * (floats[KEYS, i - 1] - floats[KEYS, a + j - 1]) / (a * b)
            if total > best:
                best, best_k = total, i
        value += best
        for i in range(best_k, a + 1):
            ints[PLACE, i - 1] += 1
        floats[COEFFICIENTS, ints[IDEAL, a + j - 1]] = 2.0 * (a + 1 - best_k) / (a * b)
    if value <= 0.0:
        for i in range(m):
            floats[COEFFICIENTS, i] = 0.0
        return 0.0
    for p in range(a):
        floats[COEFFICIENTS, ints[IDEAL, p]] = -2.0 * ints[PLACE, p] / (a * b)
    return 1.0
