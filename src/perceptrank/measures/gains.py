"""Gains of grades in NDCG, and in the surrogates that bound it."""

import math

import numpy as np

from perceptrank.kernels.compiled import helper

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
