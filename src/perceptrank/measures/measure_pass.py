"""One compiled pass that measures a ranking of every query."""

import math

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows, Ints
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import FEW_LEVELS, count_at_least, highest_below
from perceptrank.kernels.list_pass import longest_query
from perceptrank.kernels.ordering import break_ties, select_documents, sort_by_key
from perceptrank.kernels.scratch import GRADES, IDEAL, ORDER, SCORES, SUMS, allocate_floats, allocate_ints
from perceptrank.kernels.scratch import WEIGHTS as TIEBREAK
from perceptrank.measures.weights import AP, ERR, NDCG, PRECISION, RECIPROCAL_RANK, gain_of, gain_shift, judge

WORST, STABLE, REVERSE, RANDOM, EXPECTED = range(5)
SKIP, ONE, ZERO = range(3)


@compiled
def measure_pass(
    measure: int,
    cutoff: int,
    gain: int,
    max_grade: float,
    ties: int,
    empty: int,
    seed: int,
    first_round: int,
    scores: Floats,
    relevance: Floats,
    offsets: Ints,
    discounts: Floats,
    values: Floats,
) -> None:
    """values[q] = the measure of query q's documents ranked by scores; NaN where the query is left out."""
    longest = longest_query(offsets)
    floats, ints = allocate_floats(longest), allocate_ints(longest)
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        for i in range(m):
            floats[SCORES, i] = scores[start + i]
        n_relevant = judge(measure, relevance, start, m, floats)
        if n_relevant <= 0:
            values[q] = math.nan if empty == SKIP else (1.0 if empty == ONE else 0.0)
            continue
        highest = highest_below(floats, GRADES, m, math.inf)
        k = m if cutoff == 0 else min(cutoff, m)
        if ties == EXPECTED:
            sort_by_key(floats, ints, SCORES, m, ORDER)
            value = expected_measure(
                measure, cutoff, gain, max_grade, n_relevant, m, k, highest, discounts, floats, ints
            )
        else:
            n = select_documents(floats, ints, SCORES, m, k, ORDER)
            if ties != STABLE and has_ties(floats, ints, n):
                order_ties(ties, m, seed, first_round + q, floats)
                break_ties(floats, ints, SCORES, TIEBREAK, n, ORDER)
            value = measure_of(measure, cutoff, gain, max_grade, n_relevant, m, k, highest, discounts, floats, ints)
        if measure == NDCG:
            best = best_gain(gain, m, k, highest, discounts, floats, ints)
            value = value / best if best > 0.0 else 1.0
        values[q] = value


@compiled
def has_ties(floats: FloatRows, ints: IntRows, n: int) -> bool:
    """Whether two neighbours among the first n of the ranking have the same score."""
    tied = 0
    for p in range(1, n):
        tied += 1 if floats[SCORES, ints[ORDER, p]] == floats[SCORES, ints[ORDER, p - 1]] else 0
    return tied > 0


@compiled
def order_ties(ties: int, m: int, seed: int, round_number: int, floats: FloatRows) -> None:
    """Row TIEBREAK = what decides among equal scores; the larger comes first."""
    for i in range(m):
        if ties == WORST:
            floats[TIEBREAK, i] = -floats[GRADES, i]
        elif ties == REVERSE:
            floats[TIEBREAK, i] = i
        else:
            floats[TIEBREAK, i] = noise(seed, round_number, i)


@compiled
def stop_probability(measure: int, grade: float, max_grade: float) -> float:
    """Probability that a reader is satisfied: graded for ERR, all or nothing for the reciprocal rank."""
    if measure == ERR:
        return 2.0 ** (grade - max_grade) - 2.0 ** (-max_grade)
    return 1.0 if grade > 0.0 else 0.0


@compiled
def best_gain(gain: int, m: int, k: int, highest: float, discounts: Floats, floats: FloatRows, ints: IntRows) -> float:
    """The largest DCG at k that any ranking of the grades can have."""
    shift = gain_shift(gain, highest)
    value = 0.0
    p = 0
    grade = highest
    for _ in range(FEW_LEVELS):
        stop = min(count_at_least(floats, m, grade), k)
        level_gain = gain_of(gain, grade, shift)
        while p < stop:
            value += level_gain * discounts[p]
            p += 1
        if p == k:
            return value
        grade = highest_below(floats, GRADES, m, grade)
    sort_by_key(floats, ints, GRADES, m, IDEAL)
    while p < k:
        value += gain_of(gain, floats[GRADES, ints[IDEAL, p]], shift) * discounts[p]
        p += 1
    return value


@compiled
def measure_of(
    measure: int,
    cutoff: int,
    gain: int,
    max_grade: float,
    n_relevant: int,
    m: int,
    k: int,
    highest: float,
    discounts: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """A measure of the first k documents of row ORDER; for NDCG the DCG, which the caller divides by the best one."""
    shift = gain_shift(gain, highest)
    value = 0.0
    found = 0
    going = 1.0
    for p in range(k):
        grade = floats[GRADES, ints[ORDER, p]]
        if measure == NDCG:
            value += gain_of(gain, grade, shift) * discounts[p]
        elif measure in (ERR, RECIPROCAL_RANK):
            stopping = stop_probability(measure, grade, max_grade)
            value += going * stopping / (p + 1)
            going *= 1.0 - stopping
        elif grade > 0.0:
            found += 1
            value += found / (p + 1)
    if measure == PRECISION:
        return found / (cutoff if cutoff > 0 else m)
    if measure == AP:
        return value / n_relevant
    return value


@compiled
def expected_measure(
    measure: int,
    cutoff: int,
    gain: int,
    max_grade: float,
    n_relevant: int,
    m: int,
    k: int,
    highest: float,
    discounts: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """`measure_of` averaged over all orders of tied documents, one group of equal scores after the other."""
    shift = gain_shift(gain, highest)
    value = 0.0
    found = 0
    going = 1.0
    start = 0
    while start < k:
        stop = start
        relevant = 0
        gains = 0.0
        while stop < m and floats[SCORES, ints[ORDER, stop]] == floats[SCORES, ints[ORDER, start]]:
            grade = floats[GRADES, ints[ORDER, stop]]
            relevant += 1 if grade > 0.0 else 0
            gains += gain_of(gain, grade, shift)
            stop += 1
        n = stop - start
        last = min(stop, k)
        if measure == NDCG:
            for p in range(start, last):
                value += gains / n * discounts[p]
        elif measure == AP:
            for p in range(start, last):
                others = (p - start) * (relevant - 1) / (n - 1) if n > 1 else 0.0
                value += relevant / n * (found + 1.0 + others) / (p + 1)
        elif measure == PRECISION:
            value += relevant * (last - start) / n
        else:
            average_going(measure, max_grade, start, n, floats, ints)
            for p in range(start, last):
                value += going * (floats[SUMS, p - start] - floats[SUMS, p - start + 1]) / (p + 1)
            going *= floats[SUMS, n]
        found += relevant
        start = stop
    if measure == PRECISION:
        return value / (cutoff if cutoff > 0 else m)
    if measure == AP:
        return value / n_relevant
    return value


@compiled
def average_going(measure: int, max_grade: float, start: int, n: int, floats: FloatRows, ints: IntRows) -> None:
    """Row SUMS, for t = 0..n: the chance to go past t documents of a tied group, in the mean over all its orders."""
    floats[SUMS, 0] = 1.0
    for t in range(1, n + 1):
        going_on = 1.0 - stop_probability(measure, floats[GRADES, ints[ORDER, start + t - 1]], max_grade)
        floats[SUMS, t] = floats[SUMS, t - 1] * going_on
        for u in range(t - 1, 0, -1):
            floats[SUMS, u] = (floats[SUMS, u] * (t - u) + floats[SUMS, u - 1] * going_on * u) / t
