"""Parse the feature:value pairs of a line of LETOR text.

Fields are delimited by bit masks over 16 bytes: on typical data no branch depends on a digit. While the ids of a line
are sorted, the text of the next id is known and is compared instead of parsed.
"""

from typing import Any, TypeAlias

import numpy as np

from perceptrank.io.letor import codes
from perceptrank.io.letor.decimals import NO_NUMBER, UNDECIDED, parse_number, short_decimal, short_integer
from perceptrank.io.letor.words import (
    WORD_BYTES,
    byte_at,
    count_ones,
    digit_bits,
    load_word,
    point_bits,
    trailing_zeros,
    wide_digit_bits,
    wide_pair_bits,
    wide_point_bits,
)
from perceptrank.kernels.arrays import Bytes, Columns, Features, Floats, IntRows, Ints, Words
from perceptrank.kernels.compiled import compiled, compiled_allocating, helper

LONGEST_ID = 10
_NINE_DIGITS = 10**8

Numbers: TypeAlias = tuple[IntRows, Ints, Floats]  # late, known_at and known, as for `parse_lines`

_SIXTEEN = np.uint64(1 << 16)


@compiled_allocating
def name_columns(width: int, base: int) -> tuple[Words, Words]:
    """Return the text "id:" of each column as a word, and the mask of the bits that it fills."""
    words, masks = np.zeros(width, np.uint64), np.zeros(width, np.uint64)
    for column in range(width):
        number = column + base
        word = np.uint64(codes.COLON)
        length = 1
        while length == 1 or number > 0:
            word = word << np.uint64(8) | np.uint64(codes.ZERO + number % 10)
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
    return byte == codes.SPACE or (9 <= byte <= 13 and byte != codes.NEWLINE)


@compiled
def ends_field(byte: Any) -> bool:
    """Test for a byte that ends a field: a separator, a newline or a hash."""
    return byte in (codes.SPACE, codes.HASH) or 9 <= byte <= 13


@compiled
def caller_value(numbers: Numbers, start: int, end: int, found: Ints) -> float:
    """Return the value of a number that the caller has converted; if it has not yet, record its span and return 0."""
    late, known_at, known = numbers
    k = np.searchsorted(known_at, start)
    if k < len(known_at) and known_at[k] == start:
        return known[k]
    n = found[codes.N_LATE]
    found[codes.N_LATE] += 1
    if n < len(late):
        late[n, codes.LATE_START] = start
        late[n, codes.LATE_END] = end
    return 0.0


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
    ordered = found[codes.ORDERED] == 1
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
            if byte in (codes.NEWLINE, codes.HASH):
                break
            begin = pos
            n_digits = trailing_zeros(~digit_bits(text, pos))
            pos += np.int64(n_digits)
            if n_digits == 0 or byte_at(text, pos) != codes.COLON:
                return codes.BAD_PAIR, begin
            if n_digits > 8:
                return codes.ID_BEYOND, begin
            number = short_integer(text, pos, n_digits)
            pos += 1
            this = number - base
            if this < 0:
                return codes.ID_ZERO, begin
            if this >= limit:
                return codes.ID_BEYOND, begin
            if this >= width or not ordered:
                found[codes.WIDEST] = max(found[codes.WIDEST], this)
                if marks[this] == stamp:
                    return codes.DUPLICATE, begin
                marks[this] = stamp
            else:
                if this < column:
                    return codes.UNORDERED, begin
                if this > column and not cleared:
                    for k in range(column, width):
                        X[row, k] = 0
                    cleared = True
                column = this + 1
        begin = pos
        if byte_at(text, pos + 1) == codes.SPACE and this < width:  # fast path for the most frequent kind: one digit
            digit = np.int64(byte_at(text, pos)) - codes.ZERO
            if 0 <= digit <= 9:
                X[row, np.uint64(this)] = min(np.float64(digit), bound)
                pos += 2
                continue
        minus = np.uint64(byte_at(text, pos) == codes.MINUS)
        points = point_bits(text, pos)
        length = trailing_zeros(~(digit_bits(text, pos) | points | minus))
        point = min(trailing_zeros(points | _SIXTEEN), length)
        has_point = np.uint64(point < length)
        n_digits = length - minus - has_point
        n_decimals = length - point - has_point
        pos += np.int64(length)
        if (
            byte_at(text, pos) == codes.SPACE
            and n_digits - np.uint64(1) < np.uint64(8)
            and this < width
            and (points & points - np.uint64(1)) << (np.uint64(63) - length) == 0
        ):
            value = short_decimal(text, pos, n_digits, n_decimals, has_point)
            value = min(-value if minus else value, bound)
            X[row, np.uint64(this)] = max(value, -bound)
            pos += 1
        else:
            outcome, value, pos = parse_number(text, begin)
            if outcome == NO_NUMBER or not ends_field(text[pos]):
                return codes.BAD_VALUE, begin
            if outcome == UNDECIDED:
                value = caller_value(numbers, begin, pos, found)
            if bound < np.inf:
                value = min(max(value, -bound), bound)
            if not np.isfinite(np.float32(value) if X.itemsize == 4 else value):
                return codes.INFINITE_VALUE, begin
            if this < width:
                X[row, this] = value
    if cleared or column < width:
        found[codes.N_SPARSE] += 1
    if not cleared:
        for k in range(column, width):
            X[row, k] = 0
    if ordered:
        found[codes.WIDEST] = max(found[codes.WIDEST], column - 1)
    return codes.FINE, pos


@compiled
def count_colons(text: Bytes, start: int, stop: int) -> int:
    """Return an upper bound on the number of pairs between two offsets: every pair has a colon."""
    piece = text[start:stop]
    count = 0
    for i in range(len(piece)):
        count += piece[i] == codes.COLON
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

    A pair of the usual kind is delimited by bit masks over 32 bytes: where the next one begins depends on little but
    where this one ends, so that several pairs are under way at a time.

    Returns (FINE, end of the pairs, end of the row) or (error code, offset of the error, `first`).
    """
    values, indices, _ = sparse
    pos: Any = start
    n = first
    last: Any = -1
    value: Any = 0.0
    code, rises, n_zeros = codes.FINE, True, 0
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
        minus = np.uint64(byte_at(text, after + 1) == codes.MINUS)
        n_digits = count_ones(digits & below) - id_length
        is_plain = (
            byte_at(text, after) == codes.COLON
            and id_length + n_digits + one + minus + has_point == length  # so there is no other byte, nor two points
            and byte_at(text, pos + np.int64(length)) == codes.SPACE
            and id_length - one < np.uint64(WORD_BYTES)
            and n_digits - one < np.uint64(WORD_BYTES)
        )
        if is_plain:
            number: Any = short_integer(text, after, id_length)
        else:
            byte = text[pos]
            if is_blank(byte):
                pos += 1
                continue
            if byte in (codes.NEWLINE, codes.HASH):
                break
            if id_length == 0 or byte_at(text, after) != codes.COLON:
                code = codes.BAD_PAIR
                break
            if id_length > (WORD_BYTES if limit < _NINE_DIGITS else LONGEST_ID):
                code = codes.ID_BEYOND
                break
            number = 0
            for k in range(begin, after):
                number = 10 * number + np.int64(text[k]) - codes.ZERO
        this = number - base
        if np.uint64(this) >= beyond:
            code = codes.ID_ZERO if this < 0 else codes.ID_BEYOND
            break
        if this <= last:
            if rises and this == last:
                return codes.DUPLICATE, begin, first
            rises = False
        place = np.uint64(n)
        indices[place] = this
        n += 1
        last = this
        if is_plain:
            pos += np.int64(length)
            n_decimals = length - min(trailing_zeros(points), length) - has_point
            value = short_decimal(text, pos, n_digits, n_decimals, has_point)
            n_zeros += value == 0
            if clips:
                value = min(value, bound)
            values[place] = -value if minus else value
            pos += 1
        else:
            begin = after + 1
            outcome, value, pos = parse_number(text, begin)
            if outcome == NO_NUMBER or not ends_field(text[pos]):
                code, pos = codes.BAD_VALUE, begin
                break
            if outcome == UNDECIDED:
                value = caller_value(numbers, begin, pos, found)
            if clips:
                value = min(max(value, -bound), bound)
            if not np.isfinite(np.float32(value) if values.itemsize == 4 else value):
                code, pos = codes.INFINITE_VALUE, begin
                break
            values[place] = value
            n_zeros += values[place] == 0
    if not rises:
        _sort_row(values, indices, first, n)
        for k in range(first + 1, n):
            if indices[k] == indices[k - 1]:
                return codes.DUPLICATE, start, first  # where it is repeated is found for the message
    if code != codes.FINE:
        return code, pos, first
    if n > first:
        found[codes.WIDEST] = max(found[codes.WIDEST], indices[n - 1])
    if n_zeros > 0:
        end = n
        n = first
        for k in range(first, end):
            if values[k] != 0:
                values[n] = values[k]
                indices[n] = indices[k]
                n += 1
    return codes.FINE, pos, n


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
