"""One compiled pass that measures a ranking of every query."""

import math

import numpy as np

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import FEW_LEVELS, count_at_least, highest_below
from perceptrank.kernels.list_pass import longest_query
from perceptrank.kernels.ordering import SELECTION_LIMIT, select_documents, sort_documents
from perceptrank.kernels.weights import AP, ERR, NDCG, PRECISION, RECIPROCAL_RANK, gain_of, gain_shift

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
    tiebreak = np.empty(longest)
    ranked = np.empty(longest)
    averages = np.empty(longest + 1)
    maxima = np.empty(SELECTION_LIMIT)
    order = np.empty(longest, np.int64)
    spare = np.empty(longest, np.int64)
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        s, grades = scores[start:stop], relevance[start:stop]
        highest = highest_below(grades, math.inf)
        if highest == 0.0:
            values[q] = math.nan if empty == SKIP else (1.0 if empty == ONE else 0.0)
        else:
            k = m if cutoff == 0 else min(cutoff, m)
            break_ties(ties, grades, seed, first_round + q, tiebreak)
            if ties == EXPECTED:
                sort_documents(s, tiebreak, m, order, spare)
                values[q] = expected_measure(
                    measure, cutoff, gain, max_grade, k, highest, s, grades, order, discounts, averages
                )
            else:
                select_documents(s, tiebreak[:m], k, order, spare, maxima)
                for p in range(k):
                    ranked[p] = grades[order[p]]
                values[q] = measure_of(measure, cutoff, gain, max_grade, k, highest, ranked, grades, discounts)
            if measure == NDCG:
                best = best_gain(gain, k, highest, grades, discounts, order, spare)
                values[q] = values[q] / best if best > 0.0 else 1.0


@compiled
def break_ties(ties: int, grades: Floats, seed: int, round_number: int, tiebreak: Floats) -> None:
    """Write the key that decides among equal scores; the larger comes first, and equal keys leave the input order."""
    for i in range(len(grades)):
        if ties == WORST:
            tiebreak[i] = -grades[i]
        elif ties == REVERSE:
            tiebreak[i] = i
        elif ties == RANDOM:
            tiebreak[i] = noise(seed, round_number, i)
        else:
            tiebreak[i] = 0.0


@compiled
def noise(seed: int, round_number: int, index: int) -> float:
    """A number in [0, 1) that depends on its arguments alone (three rounds of splitmix64's mixer)."""
    mixed = np.uint64(0)
    for word in (seed, round_number, index):
        mixed = (mixed ^ np.uint64(word)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * 2.0**-53


@compiled
def stop_probability(measure: int, grade: float, max_grade: float) -> float:
    """Probability that a reader is satisfied: graded for ERR, all or nothing for the reciprocal rank."""
    if measure == ERR:
        return 2.0 ** (grade - max_grade) - 2.0 ** (-max_grade)
    return 1.0 if grade > 0.0 else 0.0


@compiled
def discounted_gain(gain: int, k: int, highest: float, ranked: Floats, discounts: Floats) -> float:
    """DCG of the first k ranked grades."""
    shift = gain_shift(highest)
    value = 0.0
    for p in range(k):
        value += gain_of(gain, ranked[p], shift) * discounts[p]
    return value


@compiled
def best_gain(gain: int, k: int, highest: float, grades: Floats, discounts: Floats, order: Ints, spare: Ints) -> float:
    """The largest DCG at k that any ranking of these grades can have."""
    shift = gain_shift(highest)
    value = 0.0
    p = 0
    grade = highest
    for _ in range(FEW_LEVELS):
        stop = min(count_at_least(grades, grade), k)
        level_gain = gain_of(gain, grade, shift)
        while p < stop:
            value += level_gain * discounts[p]
            p += 1
        if p == k:
            return value
        grade = highest_below(grades, grade)
    sort_documents(grades, grades, len(grades), order, spare)
    while p < k:
        value += gain_of(gain, grades[order[p]], shift) * discounts[p]
        p += 1
    return value


@compiled
def measure_of(
    measure: int,
    cutoff: int,
    gain: int,
    max_grade: float,
    k: int,
    highest: float,
    ranked: Floats,
    grades: Floats,
    discounts: Floats,
) -> float:
    """A measure of the first k ranked grades; for NDCG the DCG, which the caller divides by the best one."""
    if measure == NDCG:
        return discounted_gain(gain, k, highest, ranked, discounts)
    value = 0.0
    found = 0
    going = 1.0
    for p in range(k):
        if measure in (ERR, RECIPROCAL_RANK):
            stopping = stop_probability(measure, ranked[p], max_grade)
            value += going * stopping / (p + 1)
            going *= 1.0 - stopping
        elif ranked[p] > 0.0:
            found += 1
            value += found / (p + 1)
    if measure == PRECISION:
        return found / (m_or_cutoff(cutoff, k))
    if measure == AP:
        return value / count_relevant(grades)
    return value


@compiled
def m_or_cutoff(cutoff: int, m: int) -> int:
    """What precision divides by: the cut-off, even where the query has fewer documents."""
    return m if cutoff == 0 else cutoff


@compiled
def count_relevant(grades: Floats) -> int:
    """Number of positive grades."""
    n_relevant = 0
    for i in range(len(grades)):
        if grades[i] > 0.0:
            n_relevant += 1
    return n_relevant


@compiled
def expected_measure(
    measure: int,
    cutoff: int,
    gain: int,
    max_grade: float,
    k: int,
    highest: float,
    scores: Floats,
    grades: Floats,
    order: Ints,
    discounts: Floats,
    averages: Floats,
) -> float:
    """`measure_of` averaged over all orders of tied documents, one group of equal scores after the other."""
    m = len(grades)
    shift = gain_shift(highest)
    value = 0.0
    found = 0
    going = 1.0
    start = 0
    while start < k:
        stop = start
        relevant = 0
        gains = 0.0
        while stop < m and scores[order[stop]] == scores[order[start]]:
            if grades[order[stop]] > 0.0:
                relevant += 1
                gains += gain_of(gain, grades[order[stop]], shift)
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
            # averages[t] = mean, over orders of the group, of the chance that nobody stops at its first t documents.
            averages[0] = 1.0
            for t in range(1, n + 1):
                going_on = 1.0 - stop_probability(measure, grades[order[start + t - 1]], max_grade)
                averages[t] = averages[t - 1] * going_on
                for u in range(t - 1, 0, -1):
                    averages[u] = (averages[u] * (t - u) + averages[u - 1] * going_on * u) / t
            for p in range(start, last):
                value += going * (averages[p - start] - averages[p - start + 1]) / (p + 1)
            going *= averages[n]
        found += relevant
        start = stop
    if measure == PRECISION:
        return value / m_or_cutoff(cutoff, m)
    if measure == AP:
        return value / count_relevant(grades)
    return value
