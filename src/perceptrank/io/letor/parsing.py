"""Parse LETOR text into rows of a matrix, or into compressed sparse rows.

The text ends with a newline, in a buffer that has `PADDING` more bytes on both sides. Fields are delimited by bit masks
over 16 bytes: on typical data no branch depends on a digit. While the ids of a line are sorted, the text of the next id
is known and is compared instead of parsed.
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
from perceptrank.kernels.compiled import compiled, compiled_allocating, helper, helper_inlined

LONGEST_ID = 10
_NINE_DIGITS = 10**8
_QID = np.uint64(int.from_bytes(b"qid:", "little"))
_FOUR_BYTES = np.uint64(2**32 - 1)
_TOO_LARGE = np.uint64(2**63)
_EQUALS = ord("=")

# Arguments of `parse_lines`.
Dense: TypeAlias = tuple[Features, Ints, Words, Words]  # X, marks, words, masks
Sparse: TypeAlias = tuple[Features, Columns, Ints]  # values, indices, ends
Numbers: TypeAlias = tuple[IntRows, Ints, Floats]  # late, known_at, known
Rules: TypeAlias = tuple[int, int, float, int]  # base, limit, bound, where

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
def caller_value(numbers: Numbers, start: int, end: int, state: Ints) -> float:
    """Return the value of a number that the caller has converted; if it has not yet, record its span and return 0."""
    late, known_at, known = numbers
    k = np.searchsorted(known_at, start)
    if k < len(known_at) and known_at[k] == start:
        return known[k]
    n = state[codes.N_LATE]
    state[codes.N_LATE] += 1
    if n < len(late):
        late[n, codes.LATE_START] = start
        late[n, codes.LATE_END] = end
    return 0.0


@compiled
def parse_pairs(
    text: Bytes, start: int, dense: Dense, row: int, numbers: Numbers, rules: Rules, state: Ints
) -> tuple[int, int]:
    """Parse the pairs ``id:value`` of a line into a row of X; arguments are those of `parse_lines`.

    Returns (FINE, end of the pairs) or (error code, offset of the error).
    """
    X, marks, words, masks = dense
    base, limit, bound, _ = rules
    ordered = state[codes.ORDERED] == 1
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
                state[codes.WIDEST] = max(state[codes.WIDEST], this)
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
                value = caller_value(numbers, begin, pos, state)
            if bound < np.inf:
                value = min(max(value, -bound), bound)
            if not np.isfinite(np.float32(value) if X.itemsize == 4 else value):
                return codes.INFINITE_VALUE, begin
            if this < width:
                X[row, this] = value
    if cleared or column < width:
        state[codes.N_SPARSE] += 1
    if not cleared:
        for k in range(column, width):
            X[row, k] = 0
    if ordered:
        state[codes.WIDEST] = max(state[codes.WIDEST], column - 1)
    return codes.FINE, pos


@compiled
def count_bytes(text: Bytes, byte: int, start: int, stop: int) -> int:
    """Count the bytes of one kind between two offsets."""
    piece, wanted = text[start:stop], np.uint8(byte)  # whose kind lets many be compared at once
    count = 0
    for i in range(len(piece)):
        count += piece[i] == wanted
    return count


@helper
def parse_sparse_pairs(
    text: Bytes, start: int, sparse: Sparse, first: int, numbers: Numbers, rules: Rules, state: Ints
) -> tuple[int, int, int]:
    """Parse the pairs ``id:value`` of a line into values and indices from `first` on, sorted and without zeros.

    A pair of the usual kind is delimited by bit masks over 32 bytes: where the next one begins depends on little but
    where this one ends, so that several pairs are under way at a time.

    Returns (FINE, end of the pairs, end of the row) or (error code, offset of the error, `first`).
    """
    values, indices, _ = sparse
    base, limit, bound, _ = rules
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
                value = caller_value(numbers, begin, pos, state)
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
                return codes.DUPLICATE, start, first  # where it is repeated is state for the message
    if code != codes.FINE:
        return code, pos, first
    if n > first:
        state[codes.WIDEST] = max(state[codes.WIDEST], indices[n - 1])
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
def _swap(values: Features, indices: Columns, i: int, k: int) -> None:
    values[i], values[k] = values[k], values[i]
    indices[i], indices[k] = indices[k], indices[i]


@compiled
def parse_lines(
    dense: Dense | None,
    sparse: Sparse | None,
    relevance: Floats,
    first_row: int,
    text: Bytes,
    start: int,
    stop: int,
    runs: IntRows,
    comments: IntRows,
    numbers: Numbers,
    bad: IntRows,
    rules: Rules,
    state: Ints,
) -> None:
    """Parse the lines from start to stop into rows from first_row on, dense or sparse; the other is None.

    Features beyond the width of X are validated but not stored, and state[WIDEST] reports them. `marks` has one entry
    per feature below the `limit`, and one more. A sparse row i is values and indices from ends[i - 1] to ends[i], with
    room for one value per colon of the text.

    Invalid lines are left out and entered in `bad`; when it is full, the pass ends. `late` receives the spans of
    numbers that the caller has to convert; it calls again with their values in `known`, at the offsets `known_at`.
    Those that do not fit in `late` are only counted.
    """
    pos, where = start, rules[3]
    state[:] = 0
    state[codes.WIDEST] = state[codes.ID_START] = -1
    state[codes.ORDERED] = 1
    while pos < stop:
        begin = pos
        while is_blank(text[pos]):
            pos += 1
        if text[pos] != codes.NEWLINE and text[pos] != codes.HASH:
            row, n_pairs = first_row + state[codes.N_ROWS], state[codes.N_PAIRS]
            n_runs, widest = state[codes.N_RUNS], state[codes.WIDEST]
            id_start, id_end = state[codes.ID_START], state[codes.ID_END]
            code, end = _parse_head(text, pos, relevance, row, runs, numbers, where, state)
            if code == codes.FINE:
                fields = end
                if dense is not None:
                    code, end = parse_pairs(text, fields, dense, row, numbers, rules, state)
                    if code == codes.UNORDERED:
                        state[codes.ORDERED] = 0
                        code, end = parse_pairs(text, fields, dense, row, numbers, rules, state)
                if sparse is not None:
                    code, end, n_pairs = parse_sparse_pairs(text, fields, sparse, n_pairs, numbers, rules, state)
            if code == codes.FINE:
                code, end = _parse_tail(text, end, row, runs, comments, where, state)
            if code == codes.FINE:
                if sparse is not None:
                    sparse[2][row] = n_pairs
                    state[codes.N_PAIRS] = n_pairs
                state[codes.N_ROWS] += 1
                if state[codes.WIDEST] > widest:
                    state[codes.WIDEST_LINE] = state[codes.LINE]
            else:
                state[codes.N_RUNS], state[codes.ID_START], state[codes.ID_END] = n_runs, id_start, id_end
                state[codes.WIDEST] = widest
                bad[state[codes.N_BAD], codes.BAD_LINE] = state[codes.LINE]
                bad[state[codes.N_BAD], codes.BAD_START] = begin
                bad[state[codes.N_BAD], codes.BAD_AT] = end
                bad[state[codes.N_BAD], codes.BAD_CODE] = code
                state[codes.N_BAD] += 1
                if state[codes.N_BAD] == len(bad):
                    return
                end = pos
            pos = end
        while text[pos] != codes.NEWLINE:
            pos += 1
        pos += 1
        state[codes.LINE] += 1


@helper_inlined
def _parse_head(
    text: Bytes, start: int, relevance: Floats, row: int, runs: IntRows, numbers: Numbers, where: int, state: Ints
) -> tuple[int, int]:
    """Parse the grade and the query of a line; return (FINE, their end) or (error code, offset of the error)."""
    outcome, grade, pos = parse_number(text, start)
    if outcome == NO_NUMBER or not ends_field(text[pos]):
        return codes.BAD_GRADE, start
    if outcome == UNDECIDED:
        grade = caller_value(numbers, start, pos, state)
    if grade < 0:
        return codes.NEGATIVE_GRADE, start
    if grade == np.inf:
        return codes.INFINITE_GRADE, start
    relevance[row] = grade + 0.0
    while is_blank(text[pos]):
        pos += 1
    if load_word(text, pos) & _FOUR_BYTES == _QID:
        if where == codes.IN_COMMENT:
            return codes.STRAY_QUERY, pos
        begin = pos + 4
        pos = begin
        while not ends_field(text[pos]):
            pos += 1
        if pos == begin:
            return codes.EMPTY_QUERY, begin - 4
        if where == codes.IN_FIELD and not _enter_query(text, begin, pos, row, runs, state):
            return codes.ZERO_BYTE, begin - 4
    elif where == codes.IN_FIELD:
        return codes.NO_QUERY, pos
    return codes.FINE, pos


@helper_inlined
def _parse_tail(
    text: Bytes, start: int, row: int, runs: IntRows, comments: IntRows, where: int, state: Ints
) -> tuple[int, int]:
    """Parse what follows the pairs of a line; return (FINE, its end) or (error code, offset of the error)."""
    pos = start
    if where == codes.NOWHERE and state[codes.N_RUNS] == 0:
        runs[0, codes.RUN_ROW] = row
        runs[0, codes.RUN_LINE] = state[codes.LINE]
        runs[0, codes.RUN_ID] = 0
        runs[0, codes.RUN_START] = -1
        state[codes.N_RUNS] = 1
    if where != codes.IN_COMMENT and len(comments) == 0:
        return codes.FINE, pos
    begin = end = pos
    if text[begin] == codes.HASH:
        begin += 1
        while is_blank(text[begin]):
            begin += 1
        end = begin
        while text[end] != codes.NEWLINE:
            end += 1
        pos = end
        while end > begin and is_blank(text[end - 1]):
            end -= 1
    if len(comments) > 0:
        comments[state[codes.N_ROWS], 0] = begin
        comments[state[codes.N_ROWS], 1] = end
    if where == codes.IN_COMMENT:
        if begin == end:
            return codes.NO_COMMENT, begin
        if not _enter_query(text, begin, end, row, runs, state):
            return codes.ZERO_BYTE, begin
    return codes.FINE, pos


@compiled
def _enter_query(text: Bytes, begin: int, end: int, row: int, runs: IntRows, state: Ints) -> bool:
    """Begin a run of rows if the query id, a span, differs from that of the row before; False if it has a zero byte."""
    same = state[codes.ID_START] >= 0 and state[codes.ID_END] - state[codes.ID_START] == end - begin
    if same:
        for k in range(end - begin):
            if text[state[codes.ID_START] + k] != text[begin + k]:
                same = False
                break
    if same:
        return True
    state[codes.ID_START], state[codes.ID_END] = begin, end
    run = state[codes.N_RUNS]
    state[codes.N_RUNS] += 1
    runs[run, codes.RUN_ROW] = row
    runs[run, codes.RUN_LINE] = state[codes.LINE]
    runs[run, codes.RUN_START] = begin
    runs[run, codes.RUN_END] = end
    first = begin + (text[begin] == codes.MINUS)
    number = np.uint64(0)
    is_number = first < end <= first + 19 and (text[first] != codes.ZERO or end == begin + 1)
    for k in range(first, end):
        if not is_number:
            break
        is_number = codes.ZERO <= text[k] <= codes.NINE
        number = number * np.uint64(10) + np.uint64(text[k] - codes.ZERO)
    if is_number and number < _TOO_LARGE + np.uint64(first - begin):
        runs[run, codes.RUN_ID] = -np.int64(number) if first > begin else np.int64(number)
        runs[run, codes.RUN_START] = -1
        return True
    n_zeros = 0  # which NumPy's arrays of text do not keep at the end
    for k in range(begin, end):
        n_zeros += text[k] == 0
    return n_zeros == 0


@helper
def _is_of_word(byte: int) -> bool:
    is_letter = 0 <= (byte | 32) - ord("a") < 26
    return is_letter or 0 <= byte - ord("0") < 10 or byte == ord("_")


@compiled
def copy_ids(text: Bytes, comments: IntRows, word: Bytes, content: Bytes, starts: Ints) -> None:
    """Copy the ids of documents from comments, given as spans of a text; entry i + 1 of `starts` is the end of id i."""
    pos = 0
    for row in range(len(comments)):
        begin, end = comments[row]
        for at in range(begin, end - len(word)):
            matched = 0
            while matched < len(word) and text[at + matched] == word[matched]:
                matched += 1
            if matched < len(word) or (at > begin and _is_of_word(text[at - 1])):
                continue
            first = at + matched
            while first < end and is_blank(text[first]):
                first += 1
            if first == end or text[first] != _EQUALS:
                continue
            first += 1
            while first < end and is_blank(text[first]):
                first += 1
            if first == end:
                continue
            while first < end and not is_blank(text[first]):
                content[pos] = text[first]
                pos += 1
                first += 1
            break
        starts[row + 1] = pos
