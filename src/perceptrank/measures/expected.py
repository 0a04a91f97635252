"""Expected values of measures over all orders of tied documents."""

import math

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import highest_below, read_grades
from perceptrank.kernels.ordering import sort_descending
from perceptrank.kernels.scratch import Scratch
from perceptrank.measures import kinds
from perceptrank.measures.gains import gain_of, gain_shift
from perceptrank.measures.kinds import best_gain
from perceptrank.measures.measure import Measure
from perceptrank.measures.ranking import AP, ERR, NDCG, PRECISION, RECIPROCAL_RANK, TIES, Ranked, Settings
from perceptrank.stream.validation import ParameterError

# by the kernel of the other tie policies, so that a class with a kernel of its own is another measure
_CODES = {
    kinds.NDCG.kernel: NDCG,
    kinds.AP.kernel: AP,
    kinds.Precision.kernel: PRECISION,
    kinds.ReciprocalRank.kernel: RECIPROCAL_RANK,
    kinds.ERR.kernel: ERR,
}


def expected_code(measure: Measure) -> int:
    """Return the number of a measure in the kernel below; raise if it does not know the measure."""
    code = _CODES.get(type(measure).kernel)
    if code is None:
        others = ", ".join(repr(ties) for ties in TIES if ties != "expected")
        rule = f"of {type(measure).__name__} must be one of {others}, as its mean over all orders is not known"
        raise ParameterError("ties", rule, "expected")
    return code


@compiled
def expected_pass(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write the expected measure of every query; the policy's value where no document is relevant."""
    measure, _, when_empty, _, cutoff, gain, _ = settings
    scores, relevance, offsets, discounts, _ = ranked
    grades, keys = scratch[0][0], scratch[0][1]
    order, buckets, spare = scratch[1][0], scratch[1][1], scratch[1][2]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        n_relevant = read_grades(relevance, start, m, False, grades)
        values[q] = when_empty
        if n_relevant > 0:
            for i in range(m):
                keys[i] = scores[start + i]
            sort_descending(keys, keys, m, order, buckets, spare)
            k = cutoff if 0 < cutoff < m else m
            shift = gain_shift(gain, highest_below(grades, m, math.inf))
            values[q] = expected_measure(settings, n_relevant, m, k, shift, discounts, scratch)
            if measure == NDCG:
                best = best_gain(gain, shift, k, m, grades, discounts)
                values[q] = values[q] / best if best > 0.0 else 1.0


@helper
def expected_measure(
    settings: Settings, n_relevant: int, m: int, k: int, shift: float, discounts: Floats, scratch: Scratch
) -> float:
    """Return a measure, DCG for NDCG, averaged over all orders of tied documents, one group after the other."""
    measure, _, _, _, cutoff, gain, max_grade = settings
    grades, keys, sums, order = scratch[0][0], scratch[0][1], scratch[0][2], scratch[1][0]
    value, going, n_above, start = 0.0, 1.0, 0, 0
    while start < k:
        stop = start
        relevant = 0
        gains = 0.0
        while stop < m and keys[order[stop]] == keys[order[start]]:
            grade = grades[order[stop]]
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
                value += relevant / n * (n_above + 1.0 + others) / (p + 1)
        elif measure == PRECISION:
            value += relevant * (last - start) / n
        else:
            average_going(measure, max_grade, start, n, grades, order, sums)
            for p in range(start, last):
                value += going * (sums[p - start] - sums[p - start + 1]) / (p + 1)
            going *= sums[n]
        n_above += relevant
        start = stop
    if measure == PRECISION:
        return value / (cutoff if cutoff > 0 else m)
    if measure == AP:
        return value / n_relevant
    return value


@helper
def average_going(
    measure: int, max_grade: float, start: int, n: int, grades: Floats, order: Ints, sums: Floats
) -> None:
    """Write for t = 0..n the probability of going past t documents of a tied group, averaged over all its orders."""
    sums[0] = 1.0
    for t in range(1, n + 1):
        grade = grades[order[start + t - 1]]
        stopping = 1.0 if grade > 0.0 else 0.0  # as the reciprocal rank has it
        if measure == ERR:
            stopping = 2.0 ** (grade - max_grade) - 2.0 ** (-max_grade)
        going_on = 1.0 - stopping
        sums[t] = sums[t - 1] * going_on
        for u in range(t - 1, 0, -1):
            sums[u] = (sums[u] * (t - u) + sums[u - 1] * going_on * u) / t
