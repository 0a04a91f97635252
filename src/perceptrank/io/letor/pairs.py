"""Parse the feature:value pairs of a line of LETOR text.

Fields are delimited by bit masks over 16 bytes: on typical data no branch depends on a digit. While the ids of a line
are sorted, the text of the next id is known and is compared instead of parsed.
"""

from typing import Any, TypeAlias

import numpy as np

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
    LATE_END,
    LATE_START,
    MINUS,
    N_LATE,
    N_SPARSE,
    NEWLINE,
    ORDERED,
    SPACE,
    UNORDERED,
    WIDEST,
    ZERO,
)
from perceptrank.io.letor.decimals import NO_NUMBER, POWERS_OF_TEN, UNDECIDED, parse_number
from perceptrank.io.letor.words import WORD_BYTES, byte_at, digit_bits, load_word, point_bits, trailing_zeros
from perceptrank.kernels.arrays import Bytes, Features, Floats, IntRows, Ints, Words
from perceptrank.kernels.compiled import compiled, compiled_allocating

Numbers: TypeAlias = tuple[IntRows, Ints, Floats]  # late, known_at and known, as for `parse_lines`

ZEROS = np.uint64(ZERO * 0x0101010101010101)
_SIXTEEN = np.uint64(1 << 16)

# Masks of the last n bytes of a word; empty for more bytes than a word has.
LAST_BYTES = np.array([2**64 - 2 ** (64 - 8 * count) if count <= 8 else 0 for count in range(17)], dtype=np.uint64)


@compiled_allocating
def name_columns(width: int, base: int) -> tuple[Words, Words]:
    """Return the text "id:" of each column as a word, and the mask of the bits that it fills."""
    words, masks = np.zeros(width, np.uint64), np.zeros(width, np.uint64)
    for column in range(width):
        number = column + base
        word = np.uint64(COLON)
        length = 1
        while length == 1 or number > 0:
            word = word << np.uint64(8) | np.uint64(ZERO + number % 10)
            number //= 10
            length += 1
        if length < WORD_BYTES:
            words[column] = word
            masks[column] = (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        else:
            words[column] = np.uint64(1)  # never matches: the mask is empty
    return words, masks


@compiled
def is_blank(byte: Any) -> bool:
    """Test for a field separator: space, tab, carriage return, vertical tab or form feed."""
    return byte == SPACE or (9 <= byte <= 13 and byte != NEWLINE)


@compiled
def ends_field(byte: Any) -> bool:
    """Test for a byte that ends a field: a separator, a newline or a hash."""
    return byte in (SPACE, HASH) or 9 <= byte <= 13


@compiled
def caller_value(numbers: Numbers, start: int, end: int, found: Ints) -> float:
    """Return the value of a number that the caller has converted; if it has not yet, record its span and return 0."""
    late, known_at, known = numbers
    k = np.searchsorted(known_at, start)
    if k < len(known_at) and known_at[k] == start:
        return known[k]
    n = found[N_LATE]
    found[N_LATE] += 1
    if n < len(late):
        late[n, LATE_START] = start
        late[n, LATE_END] = end
    return 0.0


@compiled
def as_eight_digits(digits: Any) -> Any:
    """Combine eight digits, the most significant in the lowest byte, into a number."""
    pairs = digits * np.uint64(2561) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(6553601) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    return fours * np.uint64(42949672960001) >> np.uint64(32)


@compiled
def parse_pairs(
    text: Bytes,
    start: int,
    dense: tuple[Features, Ints, Words, Words],
    row: int,
    numbers: Numbers,
    base: int,
    limit: int,
    bound: float,
    found: Ints,
) -> tuple[int, int]:
    """Parse the pairs ``id:value`` of a line into a row of X; arguments are those of `parse_lines`.

    Returns (FINE, end of the pairs) or (error code, offset of the error).
    """
    X, marks, words, masks = dense
    ordered = found[ORDERED] == 1
    pos: Any = start
    width = X.shape[1]
    column = 0 if ordered else width  # the next one expected, while ids are sorted
    marks[len(marks) - 1] += 1
    stamp = marks[len(marks) - 1]  # unique to this line, so that marks need no clearing
    cleared = not ordered
    if cleared:
        for k in range(width):
            X[row, k] = 0
    while True:
        if column < width and load_word(text, pos) & masks[column] == words[column]:
            pos += np.int64(trailing_zeros(~masks[column]) >> np.uint64(3))
            this = column
            column += 1
        else:
            byte = text[pos]
            if is_blank(byte):
                pos += 1
                continue
            if byte in (NEWLINE, HASH):
                break
            begin = pos
            n_digits = trailing_zeros(~digit_bits(text, pos))
            pos += np.int64(n_digits)
            if n_digits == 0 or byte_at(text, pos) != COLON:
                return BAD_PAIR, begin
            if n_digits > 8:
                return ID_BEYOND, begin
            digits = (load_word(text, pos - WORD_BYTES) ^ ZEROS) & LAST_BYTES[n_digits]
            number = np.int64(as_eight_digits(digits))
            pos += 1
            this = number - base
            if this < 0:
                return ID_ZERO, begin
            if this >= limit:
                return ID_BEYOND, begin
            if this >= width or not ordered:
                found[WIDEST] = max(found[WIDEST], this)
                if marks[this] == stamp:
                    return DUPLICATE, begin
                marks[this] = stamp
            else:
                if this < column:
                    return UNORDERED, begin
                if this > column and not cleared:
                    for k in range(column, width):
                        X[row, k] = 0
                    cleared = True
                column = this + 1
        begin = pos
        if byte_at(text, pos + 1) == SPACE and this < width:  # fast path for the most frequent kind: one digit
            digit = np.int64(byte_at(text, pos)) - ZERO
            if 0 <= digit <= 9:
                X[row, np.uint64(this)] = min(np.float64(digit), bound)
                pos += 2
                continue
        minus = np.uint64(byte_at(text, pos) == MINUS)
        points = point_bits(text, pos)
        length = trailing_zeros(~(digit_bits(text, pos) | points | minus))
        point = min(trailing_zeros(points | _SIXTEEN), length)
        has_point = np.uint64(point < length)
        n_digits = length - minus - has_point
        n_decimals = length - point - has_point
        pos += np.int64(length)
        if (
            byte_at(text, pos) == SPACE
            and n_digits - np.uint64(1) < np.uint64(8)
            and this < width
            and (points & points - np.uint64(1)) << (np.uint64(63) - length) == 0
        ):
            tail = LAST_BYTES[n_decimals]
            digits = load_word(text, pos - WORD_BYTES) & tail
            digits |= load_word(text, pos - WORD_BYTES - np.int64(has_point)) & ~tail
            digits = (digits ^ ZEROS) & LAST_BYTES[n_digits]
            value = np.float64(np.int64(as_eight_digits(digits))) / POWERS_OF_TEN[n_decimals]
            value = min(-value if minus else value, bound)
            X[row, np.uint64(this)] = max(value, -bound)
            pos += 1
        else:
            outcome, value, pos = parse_number(text, begin)
            if outcome == NO_NUMBER or not ends_field(text[pos]):
                return BAD_VALUE, begin
            if outcome == UNDECIDED:
                value = caller_value(numbers, begin, pos, found)
            if bound < np.inf:
                value = min(max(value, -bound), bound)
            if not np.isfinite(np.float32(value) if X.itemsize == 4 else value):
                return INFINITE_VALUE, begin
            if this < width:
                X[row, this] = value
    if cleared or column < width:
        found[N_SPARSE] += 1
    if not cleared:
        for k in range(column, width):
            X[row, k] = 0
    if ordered:
        found[WIDEST] = max(found[WIDEST], column - 1)
    return FINE, pos
