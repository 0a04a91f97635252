"""What a list teaches: the scores and grades of one query become a coefficient per document.

Every rule writes coefficients g, a subgradient of its surrogate in the scores, and returns the total weight of the
documents that moved, 0 for "no update". For all but the softmax the surrogate's value is margin * weight + g . scores.
"""

import math
from typing import NamedTuple

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled, compiled_extrema
from perceptrank.kernels.levels import assign_levels, highest_below, lowest_of, order_by_level, order_ideally
from perceptrank.kernels.ordering import sort_documents
from perceptrank.kernels.scratch import Scratch, allocate
from perceptrank.kernels.weights import BY_INDEX, BY_MEAN, BY_SCORE, judge, lay_weights

TOP, UNIFORM, MAX_PAIR, SOFTMAX = range(4)


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
    rule: ListRule, margin: float, relevance: Floats, discounts: Floats, room: Scratch, g: Floats
) -> float:
    """Coefficients of one query whose scores stand in room.scores."""
    m = len(relevance)
    grades = room.grades[:m]
    n_relevant = judge(rule.measure, relevance, grades)
    for i in range(m):
        g[i] = 0.0
    if n_relevant == 0 or (n_relevant == m and lowest_of(grades) == highest_below(grades, math.inf)):
        return 0.0
    if rule.kind == SOFTMAX:
        return against_softmax(m, room.scores, grades, g)
    if rule.kind == UNIFORM:
        return against_all(rule, margin, m, n_relevant, discounts, room, g)
    return against_best(rule, margin, m, n_relevant, discounts, room, g)


@compiled
def coefficients_of(rule: ListRule, scores: Floats, relevance: Floats, discounts: Floats, g: Floats) -> float:
    """`list_coefficients` of a single query, with the rule's own margin."""
    room = allocate(len(scores))
    for i in range(len(scores)):
        room.scores[i] = scores[i]
    return list_coefficients(rule, rule.margin, relevance, discounts, room, g)


@compiled
def against_best(
    rule: ListRule, margin: float, m: int, n_relevant: int, discounts: Floats, room: Scratch, g: Floats
) -> float:
    """SLAM and max-pair: each relevant document against the best-scored document of a lower grade."""
    scores, grades, ideal = room.scores[:m], room.grades[:m], room.ideal
    v, best, rival = room.v, room.best, room.rival
    counted = n_relevant if rule.cutoff == 0 else min(rule.cutoff, n_relevant)
    n = counted if rule.kind == TOP and rule.class_order != BY_MEAN else n_relevant
    ordered = False
    if rule.mistakes_only:
        order_ideally(scores, counted, room)
        find_best_below(scores, grades, ideal, counted, best, rival)
        mistaken = False
        for p in range(counted):
            mistaken = mistaken or best[p] >= scores[ideal[p]]
        if not mistaken:
            return 0.0
        ordered = n == counted and rule.class_order != BY_INDEX
    if not ordered:
        keys = scores
        if rule.kind == MAX_PAIR or rule.class_order == BY_INDEX:
            keys = room.keys[:m]
            for i in range(m):
                keys[i] = 0.0
        order_ideally(keys, n, room)
        find_best_below(scores, grades, ideal, n, best, rival)
    if rule.kind == MAX_PAIR:
        return move_widest_pair(scores, ideal, n, margin, best, rival, g)
    lay_weights(rule.measure, rule.cutoff, rule.gain, rule.class_order, grades, ideal, n, discounts, v)
    mass = 0.0
    for p in range(n):
        i = ideal[p]
        if v[p] > 0.0 and rival[p] >= 0 and is_active(scores[i], best[p], margin):
            mass += v[p]
            g[i] -= v[p]
            g[rival[p]] += v[p]
    return mass


@compiled
def find_best_below(scores: Floats, grades: Floats, ideal: Ints, n: int, best: Floats, rival: Ints) -> None:
    """best[p], rival[p] = the largest score among grades below that of ideal[p], and the first document that has it.

    ideal[:n] runs from the best grade down and only its last class may be incomplete, so what lies in and below that
    class is found by scans over all documents, and the classes above it along ideal itself.
    """
    floor = grades[ideal[n - 1]]
    top, top_rival = first_best(scores, grades, 0.0, floor)
    p = n - 1
    while p >= 0:
        grade = grades[ideal[p]]
        class_top, class_rival = -math.inf, -1
        while p >= 0 and grades[ideal[p]] == grade:
            j = ideal[p]
            best[p], rival[p] = top, top_rival
            if scores[j] > class_top or (scores[j] == class_top and j < class_rival):
                class_top, class_rival = scores[j], j
            p -= 1
        if p >= 0 and grade == floor:
            class_top, class_rival = first_best(scores, grades, floor, grades[ideal[p]])
        if class_top > top or (class_top == top and class_rival < top_rival):
            top, top_rival = class_top, class_rival


@compiled_extrema
def best_score(scores: Floats, grades: Floats, low: float, high: float) -> float:
    """The largest score among low <= grade < high, minus infinity if there is none."""
    best = -math.inf
    for j in range(len(scores)):
        score = scores[j] if low <= grades[j] < high else -math.inf
        best = score if score > best else best
    return best


@compiled
def first_best(scores: Floats, grades: Floats, low: float, high: float) -> tuple[float, int]:
    """The largest score among low <= grade < high and the first document that has it, -1 if there is none."""
    best = best_score(scores, grades, low, high)
    for j in range(len(scores)):
        if scores[j] == best and low <= grades[j] < high:
            return best, j
    return best, -1


@compiled
def move_widest_pair(scores: Floats, ideal: Ints, n: int, margin: float, best: Floats, rival: Ints, g: Floats) -> float:
    """Max-pair: the single pair whose order is violated most, the first of them by index."""
    widest, higher, lower = -math.inf, -1, -1
    for p in range(n):
        i = ideal[p]
        if rival[p] >= 0:
            gap = best[p] - scores[i]
            if gap > widest or (gap == widest and i < higher):
                widest, higher, lower = gap, i, rival[p]
    if higher < 0 or not is_active(scores[higher], scores[lower], margin):
        return 0.0
    g[higher] = -1.0
    g[lower] = 1.0
    return 1.0


@compiled
def against_all(
    rule: ListRule, margin: float, m: int, n_relevant: int, discounts: Floats, room: Scratch, g: Floats
) -> float:
    """Listwise, uniform violators: each active document against all lower grades that violate it, in equal parts.

    In the ranking, the documents close enough to violate the one at place p are those at places before reach[p]. Per
    level, one sum along the ranking counts violators, and one from its end collects what each violator is due.
    """
    scores, grades, level = room.scores[:m], room.grades[:m], room.level
    order, ideal, ends, place, reach, counts = room.order, room.ideal, room.ends, room.place, room.reach, room.counts
    v, ranked, share, sums = room.v, room.best, room.keys, room.sums
    n_levels = assign_levels(grades, room)
    if rule.class_order == BY_INDEX:
        for i in range(m):
            order[i] = i
        order_by_level(order, level, m, n_levels, ends, ideal)
    sort_documents(scores, scores, m, order, room.spare)
    if rule.class_order != BY_INDEX:
        order_by_level(order, level, m, n_levels, ends, ideal)
    lay_weights(rule.measure, rule.cutoff, rule.gain, rule.class_order, grades, ideal, n_relevant, discounts, v)
    ranked_level = room.spare
    for p in range(m):
        place[order[p]] = p
        ranked[p] = scores[order[p]]
        ranked_level[p] = level[order[p]]
        share[p] = 0.0
    find_reach(ranked[:m], margin, reach)

    mass = 0.0
    for q in range(n_levels - 1):
        lower = 0
        counts[0] = 0
        for p in range(m):
            lower += 1 if ranked_level[p] < n_levels - 1 - q else 0
            counts[p + 1] = lower
        for c in range(ends[q - 1] if q > 0 else 0, min(ends[q], n_relevant)):
            i = ideal[c]
            violators = counts[reach[place[i]]]
            if violators > 0 and v[c] > 0.0:
                share[place[i]] = v[c] / violators
                g[i] -= v[c]
                mass += v[c]
    if mass == 0.0:
        return 0.0

    first = counts  # first[p] = the best place that the document at place p violates, as reach never decreases
    for p in range(m + 1):
        first[p] = 0
    for p in range(m):
        first[reach[p]] += 1
    for p in range(m):
        first[p + 1] += first[p]
    for q in range(1, n_levels):
        for p in range(m):
            sums[p] = share[p] if ranked_level[p] > n_levels - 1 - q else 0.0
        sums[m] = 0.0
        due = 0.0
        for p in range(m):
            due += sums[m - 1 - p]
            sums[m - 1 - p] = due
        for c in range(ends[q - 1], ends[q]):
            g[ideal[c]] += sums[first[place[ideal[c]]]]
    return mass


@compiled
def find_reach(ranked: Floats, margin: float, reach: Ints) -> None:
    """reach[p] = how many documents, from the top of the ranking, are too close to the one at place p or above it."""
    m = len(ranked)
    reached = 0
    for p in range(m):
        while reached < m and is_active(ranked[p], ranked[reached], margin):
            reached += 1
        reach[p] = reached


@compiled
def against_softmax(m: int, scores: Floats, grades: Floats, g: Floats) -> float:
    """ListNet: softmax(scores) - softmax(grades)."""
    top_score, top_grade = scores[0], grades[0]
    for i in range(m):
        top_score, top_grade = max(top_score, scores[i]), max(top_grade, grades[i])
    score_sum, grade_sum = 0.0, 0.0
    for i in range(m):
        g[i] = math.exp(scores[i] - top_score)
        score_sum += g[i]
        grades[i] = math.exp(grades[i] - top_grade)
        grade_sum += grades[i]
    for i in range(m):
        g[i] = g[i] / score_sum - grades[i] / grade_sum
    return 1.0
