"""The weights v that tie a surrogate to a measure, and the order of documents they are laid along."""

import math

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled

NDCG, AP, PRECISION, RECIPROCAL_RANK, ERR = range(5)
EXP2, LINEAR = range(2)
BY_SCORE, BY_MEAN, BY_INDEX = range(3)

LOG_2 = math.log(2.0)
LARGEST_SAFE_GRADE = 512.0


@compiled
def gain_of(gain: int, grade: float, shift: float) -> float:
    """2^(grade - shift) - 2^(-shift), or the grade itself. Every use divides by a sum of gains, so shift drops out."""
    if gain == LINEAR:
        return grade
    if shift == 0.0 and grade < 32.0 and grade == math.floor(grade):
        return float((1 << int(grade)) - 1)
    if shift == 0.0:
        return math.expm1(grade * LOG_2)
    return 2.0 ** (grade - shift) - 2.0 ** (-shift)


@compiled
def gain_shift(highest: float) -> float:
    """How far exponents are lowered so that 2^grade stays finite."""
    return math.floor(highest) if highest > LARGEST_SAFE_GRADE else 0.0


@compiled
def judge(measure: int, relevance: Floats, grades: Floats) -> int:
    """Copy one query's grades, as the measure sees them; returns how many are positive."""
    n_relevant = 0
    for i in range(len(relevance)):
        n_relevant += 1 if relevance[i] > 0.0 else 0
    if measure == AP:
        for i in range(len(relevance)):
            grades[i] = 1.0 if relevance[i] > 0.0 else 0.0
    else:
        for i in range(len(relevance)):
            grades[i] = relevance[i]
    return n_relevant


@compiled
def lay_weights(
    measure: int,
    cutoff: int,
    gain: int,
    class_order: int,
    grades: Floats,
    ideal: Ints,
    n: int,
    discounts: Floats,
    v: Floats,
) -> None:
    """v[p] = weight of document ideal[p], p < n, where ideal[:n] holds relevant documents, best grade first.

    AP: 1/n. NDCG: gain * discount / ideal DCG in the first `cutoff` positions, 0 after them.
    """
    if measure == AP:
        for p in range(n):
            v[p] = 1.0 / n
        return
    counted = n if cutoff == 0 else min(cutoff, n)
    shift = gain_shift(grades[ideal[0]])
    best = 0.0
    for p in range(counted):
        v[p] = gain_of(gain, grades[ideal[p]], shift) * discounts[p]
        best += v[p]
    if best > 0.0:  # it is 0 when every gain underflows
        for p in range(counted):
            v[p] /= best
    for p in range(counted, n):
        v[p] = 0.0
    if class_order == BY_MEAN:
        share_in_classes(grades, ideal, n, v)


@compiled
def share_in_classes(grades: Floats, ideal: Ints, n: int, v: Floats) -> None:
    """Give every document of a relevance class the mean weight of its class."""
    start = 0
    while start < n:
        stop = start
        weight = 0.0
        while stop < n and grades[ideal[stop]] == grades[ideal[start]]:
            weight += v[stop]
            stop += 1
        for p in range(start, stop):
            v[p] = weight / (stop - start)
        start = stop
