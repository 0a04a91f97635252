"""Convert decimal text to the nearest float64, correctly rounded.

Numbers below 2^53 with a power of ten up to 22 take one exact multiplication or division (Clinger 1990). Others take
the product with a 128-bit approximation of the power (Lemire 2021), which up to 19 digits always suffices (Mushtak and
Lemire 2023). Further digits are truncated; a number for which they could matter is left to the caller.
"""

from typing import Any

import numpy as np

from perceptrank.io.letor.words import WORD_BYTES, as_double, high_product, leading_zeros, load_word
from perceptrank.kernels.arrays import Words
from perceptrank.kernels.compiled import compiled

NO_NUMBER, EXACT, UNDECIDED = 0, 1, 2

_SMALLEST_POWER, _LARGEST_POWER = -342, 308
_MANTISSA_BITS = 52
_EXPONENT_LIMIT = 10**15

POWERS_OF_TEN = 10.0 ** np.arange(23)

_ZEROS = np.uint64(ord("0") * 0x0101010101010101)
# Masks of the last n bytes of a word; empty for more bytes than a word has.
_LAST_BYTES = np.array([2**64 - 2 ** (64 - 8 * count) if count <= 8 else 0 for count in range(17)], dtype=np.uint64)


def _powers_of_five() -> Words:
    """Compute the leading 128 bits of 5^q, as upper and lower half, for each q; rounded up for q < 0."""
    halves = []
    for q in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        if q >= 0:
            power = 5**q
            length = power.bit_length()
            bits = power << (128 - length) if length <= 128 else power >> (length - 128)
        else:
            power = 5**-q
            length = (power - 1).bit_length()
            bits = (1 << (length + 127 if q >= -27 else 2 * length + 128)) // power + 1
            bits >>= max(0, bits.bit_length() - 128)
        halves.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(halves, dtype=np.uint64)


POWERS_OF_FIVE = _powers_of_five()


@compiled
def nearest_double(digits: Any, power: int) -> float:
    """Return the float64 nearest to digits · 10^power, ties to even; infinity on overflow."""
    if digits == 0 or power < _SMALLEST_POWER:
        return 0.0
    if power > _LARGEST_POWER:
        return np.inf
    shift = leading_zeros(digits)
    scaled = digits << shift
    row = power - _SMALLEST_POWER
    low = scaled * POWERS_OF_FIVE[row, 0]
    high = high_product(scaled, POWERS_OF_FIVE[row, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        carry = high_product(scaled, POWERS_OF_FIVE[row, 1])
        low += carry
        if carry > low:
            high += np.uint64(1)
    upper = high >> np.uint64(63)
    cut = upper + np.uint64(64 - _MANTISSA_BITS - 3)
    mantissa = high >> cut
    exponent = (((152170 + 65536) * power) >> 16) + 63 + np.int64(upper) - np.int64(shift) + 1023
    one = np.uint64(1)
    if exponent <= 0:
        if 1 - exponent >= 64:
            return 0.0
        mantissa >>= np.uint64(1 - exponent)
        return as_double((mantissa + (mantissa & one)) >> one)
    halfway = low <= one and -4 <= power <= 23 and mantissa & np.uint64(3) == one
    if halfway and mantissa << cut == high:
        mantissa -= one
    mantissa = (mantissa + (mantissa & one)) >> one
    if mantissa >= np.uint64(2 << _MANTISSA_BITS):
        mantissa = np.uint64(1 << _MANTISSA_BITS)
        exponent += 1
    if exponent >= 0x7FF:
        return np.inf
    mantissa &= np.uint64((1 << _MANTISSA_BITS) - 1)
    return as_double(mantissa | np.uint64(exponent) << np.uint64(_MANTISSA_BITS))


@compiled
def parse_number(text: Any, start: int) -> tuple[int, float, int]:
    """Parse the number at an offset, which a byte that is not part of one must follow; return (outcome, value, end)."""
    pos = start
    negative = text[pos] == ord("-")
    if negative or text[pos] == ord("+"):
        pos += 1
    digits = np.uint64(0)
    n_digits = n_kept = power = 0
    point = nonzero_cut = False
    while True:
        byte = text[pos]
        if ord("0") <= byte <= ord("9"):
            n_digits += 1
            if n_kept < 19:
                digits = digits * np.uint64(10) + np.uint64(byte - ord("0"))
                n_kept += digits != 0
                power -= point
            else:
                nonzero_cut |= byte != ord("0")
                power += not point
        elif byte == ord(".") and not point:
            point = True
        else:
            break
        pos += 1
    if n_digits == 0:
        return NO_NUMBER, 0.0, pos
    if text[pos] == ord("e") or text[pos] == ord("E"):
        pos += 1
        below_one = text[pos] == ord("-")
        if below_one or text[pos] == ord("+"):
            pos += 1
        first = pos
        exponent: Any = 0
        while ord("0") <= text[pos] <= ord("9"):
            exponent = min(exponent * 10 + np.int64(text[pos] - ord("0")), _EXPONENT_LIMIT)
            pos += 1
        if pos == first:
            return NO_NUMBER, 0.0, pos
        power += -exponent if below_one else exponent
    outcome = EXACT
    if digits <= np.uint64(1 << 53) and -22 <= power <= 22 and not nonzero_cut:
        value = np.float64(digits) / POWERS_OF_TEN[-power] if power < 0 else np.float64(digits) * POWERS_OF_TEN[power]
    else:
        value = nearest_double(digits, power)
        if nonzero_cut and nearest_double(digits + np.uint64(1), power) != value:
            outcome = UNDECIDED
    return outcome, -value if negative else value, pos


@compiled
def short_integer(text: Any, end: int, n_digits: Any) -> Any:
    """Return the number whose digits, at most 8, stand before `end`."""
    return np.int64(_as_eight_digits((load_word(text, end - WORD_BYTES) ^ _ZEROS) & _LAST_BYTES[n_digits]))


@compiled
def short_decimal(text: Any, end: int, n_digits: Any, n_decimals: Any, has_point: Any) -> float:
    """Return the number whose digits, at most 8, stand before `end`, the last ones after a point if there is one."""
    tail = _LAST_BYTES[n_decimals]
    digits = load_word(text, end - WORD_BYTES) & tail
    digits |= load_word(text, end - WORD_BYTES - np.int64(has_point)) & ~tail
    digits = (digits ^ _ZEROS) & _LAST_BYTES[n_digits]
    return np.float64(np.int64(_as_eight_digits(digits))) / POWERS_OF_TEN[n_decimals]


@compiled
def _as_eight_digits(digits: Any) -> Any:
    """Combine eight digits, the most significant in the lowest byte, into a number."""
    pairs = digits * np.uint64(2561) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(6553601) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    return fours * np.uint64(42949672960001) >> np.uint64(32)
