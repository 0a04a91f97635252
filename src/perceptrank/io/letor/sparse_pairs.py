"""Parse the feature:value pairs of a line of LETOR text into compressed sparse rows.

A pair of the usual kind is delimited by bit masks over 32 bytes: where the next one begins depends on little but where
this one ends, so that several pairs are under way at a time.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.letor.codes import (
    BAD_PAIR,
    BAD_VALUE,
    COLON,
    DUPLICATE,
    FINE,
    HASH,
    ID_BEYOND,
    ID_ZERO,
    INFINITE_VALUE,
    MINUS,
    NEWLINE,
    SPACE,
    WIDEST,
    ZERO,
)
from perceptrank.io.letor.decimals import NO_NUMBER, POWERS_OF_TEN, UNDECIDED, parse_number
from perceptrank.io.letor.pairs import LAST_BYTES, ZEROS, Numbers, as_eight_digits, caller_value, ends_field, is_blank
from perceptrank.io.letor.words import (
    WORD_BYTES,
    byte_at,
    count_ones,
    load_word,
    trailing_zeros,
    wide_digit_bits,
    wide_pair_bits,
    wide_point_bits,
)
from perceptrank.kernels.arrays import Bytes, Features, Ints
from perceptrank.kernels.compiled import compiled, helper

Columns = npt.NDArray[np.int32]

LONGEST_ID = 10
_NINE_DIGITS = 10**8


@compiled
def count_colons(text: Bytes, start: int, stop: int) -> int:
    """Return an upper bound on the number of pairs between two offsets: every pair has a colon."""
    piece = text[start:stop]
    count = 0
    for i in range(len(piece)):
        count += piece[i] == COLON
    return count


@helper
def parse_sparse_pairs(
    text: Bytes,
    start: int,
    sparse: tuple[Features, Columns, Ints],
    first: int,
    numbers: Numbers,
    base: int,
    limit: int,
    bound: float,
    found: Ints,
) -> tuple[int, int, int]:
    """Parse the pairs ``id:value`` of a line into values and indices from `first` on, sorted and without zeros.

    Returns (FINE, end of the pairs, end of the row) or (error code, offset of the error, `first`).
    """
    values, indices, _ = sparse
    pos: Any = start
    n = first
    last: Any = -1
    value: Any = 0.0
    code, rises, n_zeros = FINE, True, 0
    one, beyond = np.uint64(1), np.uint64(limit)
    clips = bound < np.inf
    while True:
        begin = pos
        digits = wide_digit_bits(text, pos)
        id_length = trailing_zeros(~digits)
        length = trailing_zeros(~wide_pair_bits(text, pos))
        below = (one << length) - one
        points = wide_point_bits(text, pos) & below
        has_point = np.uint64(points != 0)
        after = pos + np.int64(id_length)
        minus = np.uint64(byte_at(text, after + 1) == MINUS)
        n_digits = count_ones(digits & below) - id_length
        is_plain = (
            byte_at(text, after) == COLON
            and id_length + n_digits + one + minus + has_point == length  # so there is no other byte, nor two points
            and byte_at(text, pos + np.int64(length)) == SPACE
            and id_length - one < np.uint64(WORD_BYTES)
            and n_digits - one < np.uint64(WORD_BYTES)
        )
        if is_plain:
            number: Any = np.int64(
                as_eight_digits((load_word(text, after - WORD_BYTES) ^ ZEROS) & LAST_BYTES[id_length])
            )
        else:
            byte = text[pos]
            if is_blank(byte):
                pos += 1
                continue
            if byte in (NEWLINE, HASH):
                break
            if id_length == 0 or byte_at(text, after) != COLON:
                code = BAD_PAIR
                break
            if id_length > (WORD_BYTES if limit < _NINE_DIGITS else LONGEST_ID):
                code = ID_BEYOND
                break
            number = 0
            for k in range(begin, after):
                number = 10 * number + np.int64(text[k]) - ZERO
        this = number - base
        if np.uint64(this) >= beyond:
            code = ID_ZERO if this < 0 else ID_BEYOND
            break
        if this <= last:
            if rises and this == last:
                return DUPLICATE, begin, first
            rises = False
        place = np.uint64(n)
        indices[place] = this
        n += 1
        last = this
        if is_plain:
            pos += np.int64(length)
            n_decimals = length - min(trailing_zeros(points), length) - has_point
            tail = LAST_BYTES[n_decimals]
            word = load_word(text, pos - WORD_BYTES) & tail
            word |= load_word(text, pos - WORD_BYTES - np.int64(has_point)) & ~tail
            word = (word ^ ZEROS) & LAST_BYTES[n_digits]
            n_zeros += word == 0
            value = np.float64(np.int64(as_eight_digits(word))) / POWERS_OF_TEN[n_decimals]
            if clips:
                value = min(value, bound)
            values[place] = -value if minus else value
            pos += 1
        else:
            begin = after + 1
            outcome, value, pos = parse_number(text, begin)
            if outcome == NO_NUMBER or not ends_field(text[pos]):
                code, pos = BAD_VALUE, begin
                break
            if outcome == UNDECIDED:
                value = caller_value(numbers, begin, pos, found)
            if clips:
                value = min(max(value, -bound), bound)
            if not np.isfinite(np.float32(value) if values.itemsize == 4 else value):
                code, pos = INFINITE_VALUE, begin
                break
            values[place] = value
            n_zeros += values[place] == 0
    if not rises:
        _sort_row(values, indices, first, n)
        for k in range(first + 1, n):
            if indices[k] == indices[k - 1]:
                return DUPLICATE, start, first  # where it is repeated is found for the message
    if code != FINE:
        return code, pos, first
    if n > first:
        found[WIDEST] = max(found[WIDEST], indices[n - 1])
    if n_zeros > 0:
        end = n
        n = first
        for k in range(first, end):
            if values[k] != 0:
                values[n] = values[k]
                indices[n] = indices[k]
                n += 1
    return FINE, pos, n


@helper
def _sort_row(values: Features, indices: Columns, first: int, end: int) -> None:
    """Sort the pairs from `first` to `end` by index, in place: a heap takes no quadratic time for any order."""
    size = end - first
    root = size // 2
    while size > 1:
        if root > 0:
            root -= 1
        else:
            size -= 1
            _swap(values, indices, first, first + size)
        parent = root
        while 2 * parent + 1 < size:
            child = 2 * parent + 1
            if child + 1 < size and indices[first + child] < indices[first + child + 1]:
                child += 1
            if indices[first + parent] >= indices[first + child]:
                break
            _swap(values, indices, first + parent, first + child)
            parent = child


@helper
def _swap(values: Features, indices: Columns, one: int, other: int) -> None:
    values[one], values[other] = values[other], values[one]
    indices[one], indices[other] = indices[other], indices[one]
