"""Random numbers that are the same on every machine, with every version of NumPy and for ever.

Models are saved with a seed in place of what was drawn. NumPy promises the bits of its generators but not those of the
distributions, and the last bits of a logarithm or a sine depend on the machine. So words come from SplitMix64 (G. L.
Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators"), the numbers from them by Box and
Muller's method, and logarithms and sines by sums, products and quotients of double precision, taken one by one, which
IEEE 754 leaves no choice about.
"""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints, Words

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOG_2 = 0.6931471805599453
_N_LOG, _N_SINE = 12, 15  # terms after which those of logarithm and sine are below 1e-17
_MOST_TRIES = 64

_Numbers: TypeAlias = npt.NDArray[Any]


def draw_words(seed: int, purpose: int, first: int, n: int) -> Words:
    """Return words number first, first + 1, ... of SplitMix64, started by the seed and the purpose."""
    begin = int(_mix(np.array([int(_mix(np.array([seed + _GOLDEN], np.uint64))[0]) ^ purpose], np.uint64))[0])
    steps = np.arange(first + 1, first + n + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return _mix(np.uint64(begin) + steps)


def draw_uniform(seed: int, purpose: int, first: int, n: int) -> Floats:
    """Return numbers between 0 and 1: the middles of 2^53 equal parts."""
    return (draw_words(seed, purpose, first, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def draw_signs(seed: int, purpose: int, first: int, n: int) -> Floats:
    """Return 1 and -1, each with chance 1/2."""
    return 1.0 - 2.0 * (draw_words(seed, purpose, first, n) >> np.uint64(63)).astype(np.float64)


def draw_order(seed: int, purpose: int, first: int, n: int) -> Ints:
    """Return 0, 1, ..., n - 1 in random order: that of n words."""
    return np.argsort(draw_words(seed, purpose, first, n), kind="stable")


def draw_normal(seed: int, purpose: int, first: int, n: int) -> Floats:
    """Return standard normal numbers; `first` must be even.

    Numbers 2i and 2i + 1 are √(-2 log u) times cosine and sine of v turns, for u and v of words 2i and 2i + 1.
    """
    pairs = draw_uniform(seed, purpose, first, n + n % 2).reshape(-1, 2)
    length = np.sqrt(-2.0 * _log(pairs[:, 0]))
    numbers = np.empty_like(pairs)
    numbers[:, 0], numbers[:, 1] = length * _cosine(pairs[:, 1]), length * _sine(pairs[:, 1])
    return numbers.ravel()[:n]


def draw_lengths(seed: int, purpose: int, first: int, n: int, dimension: int) -> Floats:
    """Return the lengths of standard normal vectors of at least 2 dimensions; `first` must be even.

    The square of a length is twice a γ variable with shape dimension / 2. G. Marsaglia and W. W. Tsang, "A Simple
    Method for Generating Gamma Variables": with c = shape - 1/3, the number c (1 + x / (3 √(c)))^3 for a normal x is
    taken if it is positive and a uniform u satisfies log u < x² / 2 + c - cv + c log v; else x and u are drawn again.
    """
    c = dimension / 2.0 - 1.0 / 3.0
    lengths = np.zeros(n)
    missing: Any = np.arange(n)
    for number in range(_MOST_TRIES):
        x = draw_normal(seed, purpose + (2 * number + 1 << 32), first, n)[missing]
        u = draw_uniform(seed, purpose + (2 * number + 2 << 32), first, n)[missing]
        root = 1.0 + x / (3.0 * math.sqrt(c))
        v = root * root * root
        positive = v > 0.0
        log_v = _log(np.where(positive, v, 1.0))
        taken = positive & (_log(u) < 0.5 * x * x + c - c * v + c * log_v)
        lengths[missing[taken]] = np.sqrt(2.0 * c * v[taken])
        missing = missing[~taken]
        if not len(missing):
            break
    return lengths


def _mix(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _log(x: _Numbers) -> _Numbers:
    """Return logarithms of positive numbers: of a power of 2, and of the rest m by its series in (m - 1) / (m + 1)."""
    rest, power = np.frexp(x)
    is_small = rest < math.sqrt(0.5)
    rest, power = np.where(is_small, 2.0 * rest, rest), power - is_small
    s = (rest - 1.0) / (rest + 1.0)
    return power * _LOG_2 + 2.0 * s * _horner([1.0 / (2 * k + 1) for k in range(_N_LOG)], s * s)


def _sine(turns: _Numbers) -> _Numbers:
    angle = 2.0 * math.pi * (turns - np.rint(turns))
    return angle * _horner([(-1.0) ** k / math.factorial(2 * k + 1) for k in range(_N_SINE)], angle * angle)


def _cosine(turns: _Numbers) -> _Numbers:
    angle = 2.0 * math.pi * (turns - np.rint(turns))
    return _horner([(-1.0) ** k / math.factorial(2 * k) for k in range(_N_SINE)], angle * angle)


def _horner(coefficients: list[float], x: _Numbers) -> _Numbers:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total
