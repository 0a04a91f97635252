"""The weights v that tie a surrogate to a measure."""

import math

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.compiled import compiled, compiled_sums
from perceptrank.kernels.scratch import GRADES, IDEAL, WEIGHTS

NDCG, AP, PRECISION, RECIPROCAL_RANK, ERR = range(5)
EXP2, LINEAR = range(2)
BY_SCORE, BY_MEAN, BY_INDEX = range(3)

LOG_2 = math.log(2.0)
LARGEST_SAFE_GRADE = 512.0
LARGEST_SAFE_GAIN = 1e290


@compiled
def gain_of(gain: int, grade: float, shift: float) -> float:
    """2^(grade - shift) - 2^(-shift), or the grade itself. Every use divides by a sum of gains, so shift drops out."""
    if gain == LINEAR:
        return grade if shift == 0.0 else grade / shift
    if shift == 0.0 and grade < 32.0 and grade == math.floor(grade):
        return float((1 << int(grade)) - 1)
    if shift == 0.0:
        return math.expm1(grade * LOG_2)
    return 2.0 ** (grade - shift) - 2.0 ** (-shift)


@compiled
def gain_shift(gain: int, highest: float) -> float:
    """How far exponents are lowered, or what linear gains are divided by, so that sums of gains stay finite; 0: not."""
    if gain == LINEAR:
        return highest if highest > LARGEST_SAFE_GAIN else 0.0
    return np.floor(highest) if highest > LARGEST_SAFE_GRADE else 0.0


@compiled_sums
def judge(measure: int, relevance: Floats, start: int, m: int, floats: FloatRows) -> int:
    """Row GRADES = one query's grades as the measure sees them; returns how many are positive.

    -1 if a grade is negative, infinite or NaN.
    """
    n_relevant, n_negative, n_finite = 0, 0, 0
    for i in range(m):
        grade = relevance[start + i]
        floats[GRADES, i] = grade
        n_relevant += 1 if grade > 0.0 else 0
        n_negative += 1 if grade < 0.0 else 0
        n_finite += 1 if grade < math.inf else 0
    if n_negative > 0 or n_finite < m:
        return -1
    if measure == AP:
        for i in range(m):
            floats[GRADES, i] = 1.0 if floats[GRADES, i] > 0.0 else 0.0
    return n_relevant


@compiled
def lay_weights(
    measure: int, cutoff: int, gain: int, class_order: int, n: int, discounts: Floats, floats: FloatRows, ints: IntRows
) -> None:
    """Row WEIGHTS = the weights of the first n documents of row IDEAL, all relevant, best grade first.

    AP: 1/n. NDCG: gain * discount / ideal DCG in the first `cutoff` positions, 0 after them.
    """
    if measure == AP:
        for p in range(n):
            floats[WEIGHTS, p] = 1.0 / n
        return
    counted = n if cutoff == 0 else min(cutoff, n)
    shift = gain_shift(gain, floats[GRADES, ints[IDEAL, 0]])
    best = 0.0
    for p in range(counted):
        value = gain_of(gain, floats[GRADES, ints[IDEAL, p]], shift) * discounts[p]
        floats[WEIGHTS, p] = value
        best += value
    if best > 0.0:  # it is 0 when every gain underflows
        for p in range(counted):
            floats[WEIGHTS, p] /= best
    for p in range(counted, n):
        floats[WEIGHTS, p] = 0.0
    if class_order == BY_MEAN:
        share_in_classes(n, floats, ints)


@compiled
def share_in_classes(n: int, floats: FloatRows, ints: IntRows) -> None:
    """Give every document of a relevance class the mean weight of its class."""
    start = 0
    while start < n:
        stop = start
        weight = 0.0
        while stop < n and floats[GRADES, ints[IDEAL, stop]] == floats[GRADES, ints[IDEAL, start]]:
            weight += floats[WEIGHTS, stop]
            stop += 1
        for p in range(start, stop):
            floats[WEIGHTS, p] = weight / (stop - start)
        start = stop
