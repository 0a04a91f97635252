"""Listwise, all pairs at once: documents move by the logarithms of their places, grade by grade."""

import math

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import NO_GRADE, count_at_least, highest_below, order_by_grade
from perceptrank.kernels.ordering import break_ties, sort_by_key
from perceptrank.kernels.scratch import (
    BEST,
    COEFFICIENTS,
    GRADES,
    IDEAL,
    ORDER,
    RANKED,
    RANKED_GRADES,
    SCORES,
    SHARE,
    SUMS,
    WEIGHTS,
)
from perceptrank.measures.weights import BY_INDEX, gain_of, gain_shift, lay_weights


@compiled
def against_places(
    measure: int,
    cutoff: int,
    gain: int,
    class_order: int,
    margin: float,
    m: int,
    n_relevant: int,
    discounts: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Row COEFFICIENTS: from each document's place to the one it should have; in all, the weight of the outranked.

    Documents are ranked with the margin against them, see `rank_with_margin`. For every grade but the lowest, those
    that have at least that grade should stand before all others, otherwise in the order they are in. On the way there,
    each document moves by the difference of the logarithms of its two places, times what that grade gains over the
    next. Under a cut-off k, all places after k count as place k + 1, and only grades of the k best documents are
    considered.
    """
    if class_order == BY_INDEX:
        for i in range(m):
            ints[ORDER, i] = i
        order_by_grade(floats, ints, m)
    rank_with_margin(margin, m, floats, ints)
    if class_order != BY_INDEX:
        order_by_grade(floats, ints, m)
    lay_weights(measure, cutoff, gain, class_order, n_relevant, discounts, floats, ints)
    weight = weigh_outranked(m, n_relevant, floats, ints)
    if weight > 0.0:
        moved = move_by_places(gain, cutoff if cutoff > 0 else m, m, discounts, floats, ints)
        if not moved > 0.0:  # the first k places are right, or gains differ by less than rounding
            return 0.0
        for p in range(m):
            floats[COEFFICIENTS, ints[ORDER, p]] = -weight * (floats[SUMS, p] / moved)
    return weight


@compiled
def raise_lower_grades(margin: float, m: int, keys: int, floats: FloatRows) -> None:
    """Row `keys` = scores, each raised by the margin for every higher grade in the query."""
    raised = 0.0
    grade = highest_below(floats, GRADES, m, math.inf)
    while grade != NO_GRADE:
        for i in range(m):
            if floats[GRADES, i] == grade:
                floats[keys, i] = floats[SCORES, i] + raised
        raised += margin
        grade = highest_below(floats, GRADES, m, grade)


@compiled
def rank_with_margin(margin: float, m: int, floats: FloatRows, ints: IntRows) -> None:
    """Row ORDER = the ranking by scores raised by the margin for every higher grade; equals: the lower grade first."""
    raise_lower_grades(margin, m, RANKED, floats)
    for i in range(m):
        floats[SUMS, i] = -floats[GRADES, i]
    sort_by_key(floats, ints, RANKED, m, ORDER)
    break_ties(floats, ints, RANKED, SUMS, m, ORDER)


@compiled
def weigh_outranked(m: int, n_relevant: int, floats: FloatRows, ints: IntRows) -> float:
    """The weight of all documents that have one of a lower grade before them in row ORDER."""
    for i in range(m):
        floats[SHARE, i] = 0.0
    for p in range(n_relevant):
        floats[SHARE, ints[IDEAL, p]] = floats[WEIGHTS, p]
    weight, lowest = 0.0, math.inf
    for p in range(m):
        i = ints[ORDER, p]
        weight += floats[SHARE, i] if floats[GRADES, i] > lowest else 0.0
        lowest = min(lowest, floats[GRADES, i])
    return weight


@compiled
def move_by_places(gain: int, k: int, m: int, discounts: Floats, floats: FloatRows, ints: IntRows) -> float:
    """Row SUMS = how far the document at each place of row ORDER should go up; returns how far all do that go up."""
    for p in range(m):
        floats[BEST, p] = 1.0 / discounts[min(p, k) - 1] if p > 0 else 0.0  # the logarithm of place p + 1
        floats[RANKED_GRADES, p] = floats[GRADES, ints[ORDER, p]]
        floats[SUMS, p] = 0.0
    grade = highest_below(floats, GRADES, m, math.inf)
    shift = gain_shift(gain, grade)
    highest = gain_of(gain, grade, shift)
    total = 0.0
    below = highest_below(floats, GRADES, m, grade)
    while below != NO_GRADE:
        step = (gain_of(gain, grade, shift) - gain_of(gain, below, shift)) / highest
        n_high = count_at_least(floats, m, grade)
        high, low = 0, n_high
        for p in range(m):
            is_high = floats[RANKED_GRADES, p] >= grade
            rise = step * (floats[BEST, p] - floats[BEST, high if is_high else low])
            floats[SUMS, p] += rise
            total += rise if is_high else 0.0
            high += 1 if is_high else 0
            low += 0 if is_high else 1
        if n_high >= k:
            break
        grade = below
        below = highest_below(floats, GRADES, m, grade)
    return total
