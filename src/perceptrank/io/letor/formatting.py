"""Format rows of features as LETOR text that round-trips exactly."""

import math
from typing import Any

import numpy as np

from perceptrank.io.letor.decimals import POWERS_OF_TEN, nearest_double
from perceptrank.io.letor.words import high_product
from perceptrank.kernels.arrays import Bytes, Features, Floats, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled

# Upper bounds on the size of a pair, and of the rest of a line without ids and comments.
PAIR_BYTES, LINE_BYTES = 56, 96

_LARGEST_PLAIN, _SMALLEST_PLAIN = 1e15, 1e-10
_EXACT_INTEGER = 2.0**53
_POWERS_OF_FIVE = np.array([5**power for power in range(28)], dtype=np.uint64)


@compiled
def format_rows(
    dense: Features | None,
    sparse: SparseArrays | None,
    relevance: Floats,
    row: int,
    column: int,
    last_row: int,
    base: int,
    skip_zeros: bool,
    ids: Bytes,
    id_bounds: Ints,
    query_of_row: Ints,
    comments: Bytes,
    comment_bounds: Ints,
    out: Bytes,
    pos: int,
) -> tuple[int, int, int]:
    """Format rows row to last_row; return (row, column, pos) at the end, or at a number left to the caller.

    Rows are dense or sparse; the other is None, and the compiler leaves out its branch. Column -1 is the grade; columns
    of sparse rows are counted among their non-zeros. After the caller has written the number, continue with the next
    column.
    """
    while row < last_row:
        if column == -1:
            end = _write_number(relevance[row], False, out, pos)
            if end < 0:
                return row, column, pos
            pos = end
            column = 0
        if column == 0:
            pos = _write_bytes(ids, id_bounds, query_of_row[row], out, pos)
        if dense is not None:
            for j in range(column, dense.shape[1]):
                value = dense[row, j]
                if not skip_zeros or value != 0 or np.copysign(1.0, value) < 0:
                    pos, is_written = _write_pair(j + base, value, dense.itemsize == 4, out, pos)
                    if not is_written:
                        return row, j, pos
        if sparse is not None:
            values, indices, starts = sparse
            for k in range(starts[row] + column, starts[row + 1]):
                if values[k] != 0:
                    pos, is_written = _write_pair(
                        np.int64(indices[k]) + base, values[k], values.itemsize == 4, out, pos
                    )
                    if not is_written:
                        return row, k - starts[row], pos
        if len(comment_bounds) > 0:
            pos = _write_bytes(comments, comment_bounds, row, out, pos)
        out[pos] = ord("\n")
        pos += 1
        row += 1
        column = -1
    return row, column, pos


@compiled
def _write_pair(feature: Any, value: float, single: bool, out: Bytes, pos: int) -> tuple[int, bool]:
    """Write a feature and its value; return (end, True), or (where the value begins, False) if it needs an exponent."""
    out[pos] = ord(" ")
    pos = _write_integer(feature, out, pos + 1)
    out[pos] = ord(":")
    end = _write_number(np.float64(value), single, out, pos + 1)
    return (end, True) if end >= 0 else (pos + 1, False)


@compiled
def _write_bytes(source: Bytes, bounds: Ints, number: int, out: Bytes, pos: int) -> int:
    for k in range(bounds[number], bounds[number + 1]):
        out[pos] = source[k]
        pos += 1
    return pos


@compiled
def _write_integer(number: Any, out: Bytes, pos: int) -> int:
    length = 1
    rest = number // 10
    while rest > 0:
        length += 1
        rest //= 10
    for k in range(pos + length - 1, pos - 1, -1):
        out[k] = ord("0") + number % 10
        number //= 10
    return pos + length


@compiled
def _write_number(value: float, single: bool, out: Bytes, pos: int) -> int:
    """Write a number with the fewest decimals that round-trip; return the end, or -1 if it needs an exponent.

    Candidates are verified with the arithmetic of the parser.
    """
    size = abs(value)
    if value < 0 or (value == 0 and np.copysign(1.0, value) < 0):
        out[pos] = ord("-")
        pos += 1
    if not size < _LARGEST_PLAIN or 0 < size < _SMALLEST_PLAIN:
        return -1
    if size == np.floor(size):
        return _write_integer(np.int64(size), out, pos)
    for decimals in range(1, 23):
        digits = np.rint(size * POWERS_OF_TEN[decimals])
        if digits > _EXACT_INTEGER:
            break
        near = digits / POWERS_OF_TEN[decimals]
        if (np.float32(near) == np.float32(size)) if single else near == size:
            return _write_decimals(np.int64(digits), decimals, out, pos)
    for decimals in range(1, 28):
        digits = _scaled(size, decimals)
        for candidate in range(digits, digits + 2):
            near = nearest_double(np.uint64(candidate), -decimals)
            if (np.float32(near) == np.float32(size)) if single else near == size:
                return _write_decimals(candidate, decimals, out, pos)
    return -1


@compiled
def _scaled(size: float, decimals: int) -> Any:
    """Return size · 10^decimals, rounded down; it must be less than 2^63."""
    fraction, exponent = math.frexp(size)
    mantissa = np.uint64(fraction * _EXACT_INTEGER)
    shift = 53 - exponent - decimals
    low = mantissa * _POWERS_OF_FIVE[decimals]
    high = high_product(mantissa, _POWERS_OF_FIVE[decimals])
    if shift <= 0:
        return np.int64(low << np.uint64(-shift))
    if shift >= 128:
        return 0
    if shift >= 64:
        return np.int64(high >> np.uint64(shift - 64))
    return np.int64(high << np.uint64(64 - shift) | low >> np.uint64(shift))


@compiled
def _write_decimals(digits: Any, decimals: int, out: Bytes, pos: int) -> int:
    whole = digits
    for _ in range(decimals):
        whole //= 10
    pos = _write_integer(whole, out, pos)
    out[pos] = ord(".")
    for k in range(pos + decimals, pos, -1):
        out[k] = ord("0") + digits % 10
        digits //= 10
    return pos + decimals + 1
