"""Gains of grades and discounts of ranks in NDCG, and in the surrogates that bound it."""

import math
from functools import cache

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.compiled import helper
from perceptrank.stream.validation import read_only


@cache
def _table(length: int) -> Floats:
    return read_only(1.0 / np.log2(np.arange(2, length + 2)))


def discounts(longest: int) -> Floats:
    """Return 1 / log2(1 + rank) for ranks 1, 2, … at least up to the longest query."""
    return _table(1 << max(10, int(longest).bit_length()))


EXP2, LINEAR = range(2)
GAINS = {"exp2": EXP2, "linear": LINEAR}

LOG_2 = math.log(2.0)
LARGEST_SAFE_GRADE = 512.0
LARGEST_SAFE_GAIN = 1e290


@helper
def gain_of(gain: int, grade: float, shift: float) -> float:
    """Return 2^(grade - shift) - 2^(-shift), or the grade. Every use divides by a sum of gains: the shift cancels."""
    if gain == LINEAR:
        return grade if shift == 0.0 else grade / shift
    if shift == 0.0 and grade < 32.0 and grade == math.floor(grade):
        return float((1 << int(grade)) - 1)
    if shift == 0.0:
        return math.expm1(grade * LOG_2)
    return 2.0 ** (grade - shift) - 2.0 ** (-shift)


@helper
def gain_shift(gain: int, highest: float) -> float:
    """Return the shift of exponents, or the divisor of linear gains, that keeps sums finite; 0 if none is needed."""
    if gain == LINEAR:
        return highest if highest > LARGEST_SAFE_GAIN else 0.0
    return np.floor(highest) if highest > LARGEST_SAFE_GRADE else 0.0
