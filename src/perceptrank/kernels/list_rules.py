"""What a list teaches: the scores and grades of one query become a coefficient per document.

Every rule writes row COEFFICIENTS, a subgradient of its surrogate in the scores, weights held fixed, and returns the
total weight of the documents that moved, 0 for "no update".
"""

import math
from typing import NamedTuple

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.compiled import compiled, compiled_extrema
from perceptrank.kernels.levels import NO_GRADE, highest_below, order_by_grade, order_ideally
from perceptrank.kernels.ordering import sort_by_key
from perceptrank.kernels.places import against_places, raise_lower_grades
from perceptrank.kernels.scratch import (
    BEST,
    COEFFICIENTS,
    COUNTS,
    GRADES,
    IDEAL,
    ORDER,
    PLACE,
    RANKED,
    RANKED_GRADES,
    REACH,
    RIVAL,
    SCORES,
    SHARE,
    SUMS,
    WEIGHTS,
    allocate_floats,
    allocate_ints,
)
from perceptrank.measures.weights import BY_INDEX, BY_MEAN, BY_SCORE, EXP2, gain_of, judge, lay_weights

TOP, UNIFORM, PLACES, MAX_PAIR, LEVEL_PAIR, SOFTMAX, SOFTMAX_GAINS = range(7)


class ListRule(NamedTuple):
    """Everything that distinguishes one list learner from another."""

    kind: int
    measure: int = 0
    cutoff: int = 0
    gain: int = 0
    class_order: int = BY_SCORE
    mistakes_only: bool = False
    averaging: bool = False
    learning_rate: float = 1.0
    margin: float = 0.0
    relative_margin: float = 0.0


@compiled
def is_active(score: float, rival: float, margin: float) -> bool:
    """Whether a lower-graded rival violates the margin; without a margin, a tie does."""
    return rival > score - margin or rival >= score


@compiled
def list_coefficients(
    rule: ListRule,
    margin: float,
    relevance: Floats,
    start: int,
    m: int,
    discounts: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Coefficients of one query of m documents, whose scores stand in row SCORES; -1 if a grade is not sound."""
    n_relevant = judge(rule.measure, relevance, start, m, floats)
    if n_relevant < 0:
        return -1.0
    for i in range(m):
        floats[COEFFICIENTS, i] = 0.0
    if not grades_differ(floats, m, n_relevant):
        return 0.0
    if rule.kind >= SOFTMAX:
        return against_softmax(m, rule.kind == SOFTMAX_GAINS, floats)
    if rule.kind == UNIFORM:
        return against_all(rule, margin, m, n_relevant, discounts, floats, ints)
    if rule.kind == PLACES:
        weighing = rule.measure, rule.cutoff, rule.gain, rule.class_order
        return against_places(*weighing, margin, m, n_relevant, discounts, floats, ints)
    mass, _ = against_best(rule, margin, m, n_relevant, discounts, floats, ints)
    return mass


@compiled
def grades_differ(floats: FloatRows, m: int, n_relevant: int) -> bool:
    """Whether there is a pair of documents that can be misordered."""
    if n_relevant < m:
        return n_relevant > 0
    return highest_below(floats, GRADES, m, highest_below(floats, GRADES, m, math.inf)) != NO_GRADE


@compiled
def hinge_surrogate(rule: ListRule, scores: Floats, relevance: Floats, discounts: Floats, g: Floats) -> float:
    """Value of SLAM, max-pair or level-pair for a single query, whose grades are sound; g receives a subgradient."""
    m = len(scores)
    floats, ints = allocate_floats(m), allocate_ints(m)
    for i in range(m):
        floats[SCORES, i] = scores[i]
        floats[COEFFICIENTS, i] = 0.0
    n_relevant = judge(rule.measure, relevance, 0, m, floats)
    value = 0.0
    if grades_differ(floats, m, n_relevant):
        margin = rule.margin
        if rule.kind == LEVEL_PAIR:
            raise_lower_grades(margin, m, SCORES, floats)
            margin = 0.0
        _, value = against_best(rule, margin, m, n_relevant, discounts, floats, ints)
    for i in range(m):
        g[i] = floats[COEFFICIENTS, i]
    return value


@compiled
def against_best(
    rule: ListRule, margin: float, m: int, n_relevant: int, discounts: Floats, floats: FloatRows, ints: IntRows
) -> tuple[float, float]:
    """SLAM, max-pair and level-pair: each relevant document against the best-scored document of a lower grade.

    Returns the weight that moved and the surrogate's value.
    """
    counted = n_relevant if rule.cutoff == 0 else min(rule.cutoff, n_relevant)
    n = counted if rule.kind == TOP and rule.class_order != BY_MEAN else n_relevant
    ordered = False
    if rule.mistakes_only:
        order_ideally(floats, ints, m, counted)
        find_best_below(floats, ints, m, counted)
        mistaken = False
        for p in range(counted):
            mistaken = mistaken or floats[BEST, p] >= floats[SCORES, ints[IDEAL, p]]
        if not mistaken:
            return 0.0, 0.0
        ordered = n == counted and rule.class_order != BY_INDEX
    if not ordered:
        if rule.kind != TOP or rule.class_order == BY_INDEX:
            for i in range(m):
                ints[ORDER, i] = i
            order_by_grade(floats, ints, m)
        else:
            order_ideally(floats, ints, m, n)
        find_best_below(floats, ints, m, n)
    if rule.kind != TOP:
        return move_widest_pair(n, margin, floats, ints)
    lay_weights(rule.measure, rule.cutoff, rule.gain, rule.class_order, n, discounts, floats, ints)
    mass, value = 0.0, 0.0
    for p in range(n):
        i, rival, weight = ints[IDEAL, p], ints[RIVAL, p], floats[WEIGHTS, p]
        if weight > 0.0 and rival >= 0 and is_active(floats[SCORES, i], floats[BEST, p], margin):
            mass += weight
            value += weight * max(0.0, margin + (floats[BEST, p] - floats[SCORES, i]))
            floats[COEFFICIENTS, i] -= weight
            floats[COEFFICIENTS, rival] += weight
    return mass, value


@compiled
def find_best_below(floats: FloatRows, ints: IntRows, m: int, n: int) -> None:
    """Rows BEST and RIVAL, for the first n documents of row IDEAL: the best score of a lower grade, and who has it.

    Row IDEAL runs from the best grade down and only its last class may be incomplete, so what lies in and below that
    class is found by scans over all documents, and the classes above it along row IDEAL itself.
    """
    floor = floats[GRADES, ints[IDEAL, n - 1]]
    top, top_rival = first_best(floats, m, 0.0, floor)
    p = n - 1
    while p >= 0:
        grade = floats[GRADES, ints[IDEAL, p]]
        class_top, class_rival = -math.inf, -1
        while p >= 0 and floats[GRADES, ints[IDEAL, p]] == grade:
            j = ints[IDEAL, p]
            floats[BEST, p], ints[RIVAL, p] = top, top_rival
            score = floats[SCORES, j]
            if score > class_top or (score == class_top and j < class_rival):
                class_top, class_rival = score, j
            p -= 1
        if p >= 0 and grade == floor:
            class_top, class_rival = first_best(floats, m, floor, floats[GRADES, ints[IDEAL, p]])
        if class_top > top or (class_top == top and class_rival < top_rival):
            top, top_rival = class_top, class_rival


@compiled_extrema
def larger_within(best: float, score: float, grade: float, low: float, high: float) -> float:
    """The larger of two scores, the second of which counts only if low <= grade < high."""
    candidate = score if grade < high else -math.inf
    candidate = candidate if grade >= low else -math.inf
    return candidate if candidate > best else best


@compiled_extrema
def best_score(floats: FloatRows, m: int, low: float, high: float) -> float:
    """The largest score among low <= grade < high, minus infinity if there is none; four at once."""
    a, b, c, d = -math.inf, -math.inf, -math.inf, -math.inf
    for q in range(m // 4):
        a = larger_within(a, floats[SCORES, 4 * q], floats[GRADES, 4 * q], low, high)
        b = larger_within(b, floats[SCORES, 4 * q + 1], floats[GRADES, 4 * q + 1], low, high)
        c = larger_within(c, floats[SCORES, 4 * q + 2], floats[GRADES, 4 * q + 2], low, high)
        d = larger_within(d, floats[SCORES, 4 * q + 3], floats[GRADES, 4 * q + 3], low, high)
    for i in range(m - m % 4, m):
        a = larger_within(a, floats[SCORES, i], floats[GRADES, i], low, high)
    return max(a, b, c, d)


@compiled
def first_best(floats: FloatRows, m: int, low: float, high: float) -> tuple[float, int]:
    """The largest score among low <= grade < high and the first document that has it, -1 if there is none."""
    best = best_score(floats, m, low, high)
    for j in range(m):
        if floats[SCORES, j] == best and low <= floats[GRADES, j] < high:
            return best, j
    return best, -1


@compiled
def move_widest_pair(n: int, margin: float, floats: FloatRows, ints: IntRows) -> tuple[float, float]:
    """Max-pair: the single pair whose order is violated most, the first of them by index."""
    widest, higher, lower = -math.inf, -1, -1
    for p in range(n):
        i = ints[IDEAL, p]
        if ints[RIVAL, p] >= 0:
            gap = floats[BEST, p] - floats[SCORES, i]
            if gap > widest or (gap == widest and i < higher):
                widest, higher, lower = gap, i, ints[RIVAL, p]
    if higher < 0 or not is_active(floats[SCORES, higher], floats[SCORES, lower], margin):
        return 0.0, 0.0
    floats[COEFFICIENTS, higher] = -1.0
    floats[COEFFICIENTS, lower] = 1.0
    return 1.0, max(0.0, margin + widest)


@compiled
def against_all(
    rule: ListRule, margin: float, m: int, n_relevant: int, discounts: Floats, floats: FloatRows, ints: IntRows
) -> float:
    """Listwise, uniform violators: each active document against all lower grades that violate it, in equal parts.

    In the ranking, the documents close enough to violate the one at place p are those at places before row REACH's p.
    Per grade, one sum along the ranking counts violators, and one from its end collects what each violator is due.
    """
    if rule.class_order == BY_INDEX:
        for i in range(m):
            ints[ORDER, i] = i
        order_by_grade(floats, ints, m)
    sort_by_key(floats, ints, SCORES, m, ORDER)
    if rule.class_order != BY_INDEX:
        order_by_grade(floats, ints, m)
    lay_weights(rule.measure, rule.cutoff, rule.gain, rule.class_order, n_relevant, discounts, floats, ints)
    for p in range(m):
        i = ints[ORDER, p]
        ints[PLACE, i] = p
        floats[RANKED, p] = floats[SCORES, i]
        floats[RANKED_GRADES, p] = floats[GRADES, i]
        floats[SHARE, p] = 0.0
    find_reach(floats, ints, m, margin)

    mass = 0.0
    start = 0
    while start < n_relevant:
        grade = floats[GRADES, ints[IDEAL, start]]
        lower = 0
        ints[COUNTS, 0] = 0
        for p in range(m):
            lower += 1 if floats[RANKED_GRADES, p] < grade else 0
            ints[COUNTS, p + 1] = lower
        while start < n_relevant and floats[GRADES, ints[IDEAL, start]] == grade:
            i, weight = ints[IDEAL, start], floats[WEIGHTS, start]
            violators = ints[COUNTS, ints[REACH, ints[PLACE, i]]]
            if violators > 0 and weight > 0.0:
                floats[SHARE, ints[PLACE, i]] = weight / violators
                floats[COEFFICIENTS, i] -= weight
                mass += weight
            start += 1
    if mass > 0.0:
        hand_out_shares(floats, ints, m)
    return mass


@compiled
def hand_out_shares(floats: FloatRows, ints: IntRows, m: int) -> None:
    """Give every violator the sum of the shares of those it violates."""
    first = COUNTS  # the best place that the document at a place violates; REACH never decreases, nor does it
    for p in range(m + 1):
        ints[first, p] = 0
    for p in range(m):
        ints[first, ints[REACH, p]] += 1
    for p in range(m):
        ints[first, p + 1] += ints[first, p]
    start = 0
    while start < m and floats[GRADES, ints[IDEAL, start]] == floats[GRADES, ints[IDEAL, 0]]:
        start += 1
    while start < m:
        grade = floats[GRADES, ints[IDEAL, start]]
        for p in range(m):
            floats[SUMS, p] = floats[SHARE, p] if floats[RANKED_GRADES, p] > grade else 0.0
        sum_from_end(floats, m)
        while start < m and floats[GRADES, ints[IDEAL, start]] == grade:
            j = ints[IDEAL, start]
            floats[COEFFICIENTS, j] += floats[SUMS, ints[first, ints[PLACE, j]]]
            start += 1


@compiled
def sum_from_end(floats: FloatRows, m: int) -> None:
    """Make each entry of row SUMS the sum of itself and all after it. Both halves at once: each addition must wait."""
    half = m // 2
    floats[SUMS, m] = 0.0
    upper, lower = 0.0, 0.0
    if m % 2:
        lower = floats[SUMS, m - 1]
    for p in range(1, half + 1):
        upper += floats[SUMS, half - p]
        lower += floats[SUMS, 2 * half - p]
        floats[SUMS, half - p] = upper
        floats[SUMS, 2 * half - p] = lower
    for p in range(half):
        floats[SUMS, p] += lower


@compiled
def find_reach(floats: FloatRows, ints: IntRows, m: int, margin: float) -> None:
    """Row REACH, for each place of the ranking: how many documents, from the top, are too close to it or above it."""
    reached = 0
    for p in range(m):
        while reached < m and is_active(floats[RANKED, p], floats[RANKED, reached], margin):
            reached += 1
        ints[REACH, p] = reached


@compiled
def against_softmax(m: int, of_gains: bool, floats: FloatRows) -> float:
    """ListNet: softmax(scores) - softmax(grades), or of gains 2^grade - 1 in the place of grades."""
    if of_gains:
        for i in range(m):
            floats[GRADES, i] = gain_of(EXP2, floats[GRADES, i], 0.0)
    top_score, top_grade = floats[SCORES, 0], floats[GRADES, 0]
    for i in range(m):
        top_score, top_grade = max(top_score, floats[SCORES, i]), max(top_grade, floats[GRADES, i])
    score_sum, grade_sum = 0.0, 0.0
    for i in range(m):
        predicted = math.exp(floats[SCORES, i] - top_score)
        target = 1.0 if floats[GRADES, i] == top_grade else math.exp(floats[GRADES, i] - top_grade)
        floats[COEFFICIENTS, i], floats[SHARE, i] = predicted, target
        score_sum += predicted
        grade_sum += target
    for i in range(m):
        floats[COEFFICIENTS, i] = floats[COEFFICIENTS, i] / score_sum - floats[SHARE, i] / grade_sum
    return 1.0
