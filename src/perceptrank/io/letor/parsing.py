"""LETOR text to rows of a matrix.

A text stands between two places of a buffer that has `PADDING` more bytes on both sides, so that words can be loaded
around every byte of it. It ends with a newline. What a line is made of is told apart by masks over 16 bytes: on usual
data no branch depends on a digit. In a line whose features come in order, the text of the next id is known and is
compared, not read.
"""

from typing import Any

import numpy as np

from perceptrank.io.letor.decimals import NO_NUMBER, POWERS_OF_TEN, UNDECIDED, parse_number
from perceptrank.io.letor.words import (
    BLOCK_BYTES,
    WORD_BYTES,
    byte_at,
    digit_bits,
    load_word,
    point_bits,
    trailing_zeros,
)
from perceptrank.kernels.arrays import Bytes, Features, Floats, IntRows, Ints, Words
from perceptrank.kernels.compiled import compiled

PADDING = 2 * BLOCK_BYTES

# What a line turned out to be. From BAD_GRADE on these are errors; UNORDERED asks for a slower look at the line.
(
    FINE,
    UNORDERED,
    BAD_GRADE,
    NEGATIVE_GRADE,
    INFINITE_GRADE,
    NO_QUERY,
    EMPTY_QUERY,
    STRAY_QUERY,
    BAD_PAIR,
    ID_ZERO,
    ID_BEYOND,
    BAD_VALUE,
    INFINITE_VALUE,
    DUPLICATE,
    NO_COMMENT,
) = range(15)

# Where a line's query is named. If it is nowhere, all lines are one query.
IN_FIELD, IN_COMMENT, NOWHERE = 0, 1, 2

# Places in `found`: what a pass has found so far. WIDEST is the last column that has a value.
N_ROWS, N_RUNS, N_LATE, N_BAD, N_SPARSE, WIDEST, ORDERED, ID_START, ID_END, LINE, ERROR, ERROR_AT, N_FOUND = range(13)

# Columns of `runs`: a row and a line where a query begins, its id if that is a number, else the place of its text.
RUN_ROW, RUN_LINE, RUN_ID, RUN_START, RUN_END, N_RUN_COLUMNS = range(6)

# Columns of `late`: where numbers stand that take the caller's arithmetic.
LATE_START, LATE_END, N_LATE_COLUMNS = range(3)

# Columns of `bad`: lines that were skipped.
BAD_LINE, BAD_AT, BAD_CODE, N_BAD_COLUMNS = range(4)

NEWLINE, SPACE, HASH, COLON, POINT, MINUS, ZERO, NINE = (ord(one) for one in "\n #:.-09")
_QID = np.uint64(int.from_bytes(b"qid:", "little"))
_FOUR_BYTES = np.uint64(2**32 - 1)
_ZEROS = np.uint64(ZERO * 0x0101010101010101)
_SIXTEEN = np.uint64(1 << 16)
_TOO_LARGE = np.uint64(2**63)

# A word whose last bytes, so many, are all ones; nothing for more bytes than a word has.
_LAST_BYTES = np.array([2**64 - 2 ** (64 - 8 * count) if count <= 8 else 0 for count in range(17)], dtype=np.uint64)


@compiled
def count_lines(text: Bytes, start: int, stop: int) -> int:
    """How many newlines there are between two places."""
    piece = text[start:stop]
    count = 0
    for i in range(len(piece)):
        count += piece[i] == NEWLINE
    return count


@compiled
def widen_rows(flat: Features, n_rows: int, width: int, wider: int) -> None:
    """Give the first rows of a matrix, which lie one after the other, more columns; zeros fill them."""
    for i in range(n_rows - 1, -1, -1):
        for k in range(width - 1, -1, -1):
            flat[i * wider + k] = flat[i * width + k]
        for k in range(width, wider):
            flat[i * wider + k] = 0


@compiled
def narrow_rows(flat: Features, n_rows: int, width: int, narrower: int) -> None:
    """Leave the first rows of a matrix, which lie one after the other, fewer columns."""
    for i in range(n_rows):
        for k in range(narrower):
            flat[i * narrower + k] = flat[i * width + k]


@compiled
def name_columns(width: int, base: int) -> tuple[Words, Words]:
    """The text "id:" of each column as a word, and the bits of a word that it fills."""
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
            words[column] = np.uint64(1)  # never found: no bit of the text is looked at
    return words, masks


@compiled
def parse_lines(
    text: Bytes,
    start: int,
    stop: int,
    X: Features,
    relevance: Floats,
    first_row: int,
    runs: IntRows,
    comments: IntRows,
    late: IntRows,
    known_at: Ints,
    known: Floats,
    bad: IntRows,
    marks: Ints,
    words: Words,
    masks: Words,
    base: int,
    limit: int,
    bound: float,
    where: int,
    found: Ints,
) -> None:
    """Fill rows of X and relevance, from first_row on, with the lines of the text from start to stop.

    Without room in `bad` the first wrong line ends the pass. Features beyond the width of X are not stored, but checked
    like the others (`marks` has a place for each feature before the `limit`, and one more); found[WIDEST] tells. `late`
    are numbers to be had from the caller, who calls again with their values in `known`, by their places in `known_at`;
    more of them than there is room for are counted only.
    """
    place = start
    found[:] = 0
    found[WIDEST] = found[ID_START] = -1
    found[ORDERED] = 1
    while place < stop:
        while _is_blank(text[place]):
            place += 1
        if text[place] != NEWLINE and text[place] != HASH:
            row = first_row + found[N_ROWS]
            n_runs, id_start, id_end, widest = found[N_RUNS], found[ID_START], found[ID_END], found[WIDEST]
            code, end = _parse_line(
                text,
                place,
                X,
                relevance,
                row,
                runs,
                comments,
                late,
                known_at,
                known,
                marks,
                words,
                masks,
                base,
                limit,
                bound,
                where,
                found,
            )
            if code == FINE:
                found[N_ROWS] += 1
            else:
                found[ERROR], found[ERROR_AT] = code, end
                if len(bad) == 0:
                    return
                found[N_RUNS], found[ID_START], found[ID_END] = n_runs, id_start, id_end
                found[WIDEST] = widest
                bad[found[N_BAD], BAD_LINE] = found[LINE]
                bad[found[N_BAD], BAD_AT] = end
                bad[found[N_BAD], BAD_CODE] = code
                found[N_BAD] += 1
                end = place
            place = end
        while text[place] != NEWLINE:
            place += 1
        place += 1
        found[LINE] += 1
    found[ERROR] = FINE


@compiled
def _is_blank(byte: Any) -> bool:
    """Whether it separates fields: a space, a tab, a carriage return, a vertical tab or a form feed."""
    return byte == SPACE or (9 <= byte <= 13 and byte != NEWLINE)


@compiled
def _ends_field(byte: Any) -> bool:
    return byte in (SPACE, HASH) or 9 <= byte <= 13


@compiled
def _parse_line(
    text: Bytes,
    start: int,
    X: Features,
    relevance: Floats,
    row: int,
    runs: IntRows,
    comments: IntRows,
    late: IntRows,
    known_at: Ints,
    known: Floats,
    marks: Ints,
    words: Words,
    masks: Words,
    base: int,
    limit: int,
    bound: float,
    where: int,
    found: Ints,
) -> tuple[int, int]:
    """(FINE, where the line's features end) or (what is wrong, where)."""
    outcome, grade, place = parse_number(text, start)
    if outcome == NO_NUMBER or not _ends_field(text[place]):
        return BAD_GRADE, start
    if outcome == UNDECIDED:
        grade = _known(late, known_at, known, start, place, found)
    if grade < 0:
        return NEGATIVE_GRADE, start
    if grade == np.inf:
        return INFINITE_GRADE, start
    relevance[row] = grade + 0.0
    while _is_blank(text[place]):
        place += 1
    if load_word(text, place) & _FOUR_BYTES == _QID:
        if where == IN_COMMENT:
            return STRAY_QUERY, place
        begin = place + 4
        place = begin
        while not _ends_field(text[place]):
            place += 1
        if place == begin:
            return EMPTY_QUERY, begin - 4
        if where == IN_FIELD:
            _enter_query(text, begin, place, row, runs, found)
    elif where == IN_FIELD:
        return NO_QUERY, place
    pairs = place
    code, place = _parse_pairs(
        text, pairs, X, row, late, known_at, known, marks, words, masks, base, limit, bound, found[ORDERED] == 1, found
    )
    if code == UNORDERED:
        found[ORDERED] = 0
        code, place = _parse_pairs(
            text, pairs, X, row, late, known_at, known, marks, words, masks, base, limit, bound, False, found
        )
    if code == FINE and where == NOWHERE and found[N_RUNS] == 0:
        runs[0, RUN_ROW] = row
        runs[0, RUN_LINE] = found[LINE]
        runs[0, RUN_ID] = 0
        runs[0, RUN_START] = -1
        found[N_RUNS] = 1
    if code != FINE or (where != IN_COMMENT and len(comments) == 0):
        return code, place
    begin = end = place
    if text[begin] == HASH:
        begin += 1
        while _is_blank(text[begin]):
            begin += 1
        end = begin
        while text[end] != NEWLINE:
            end += 1
        place = end
        while end > begin and _is_blank(text[end - 1]):
            end -= 1
    if len(comments) > 0:
        comments[found[N_ROWS], 0] = begin
        comments[found[N_ROWS], 1] = end
    if where == IN_COMMENT:
        if begin == end:
            return NO_COMMENT, begin
        _enter_query(text, begin, end, row, runs, found)
    return FINE, place


@compiled
def _enter_query(text: Bytes, begin: int, end: int, row: int, runs: IntRows, found: Ints) -> None:
    """Begin a run of rows if the query's id, which is the text from begin to end, is not that of the row before."""
    same = found[ID_START] >= 0 and found[ID_END] - found[ID_START] == end - begin
    if same:
        for k in range(end - begin):
            if text[found[ID_START] + k] != text[begin + k]:
                same = False
                break
    if same:
        return
    found[ID_START], found[ID_END] = begin, end
    run = found[N_RUNS]
    found[N_RUNS] += 1
    runs[run, RUN_ROW] = row
    runs[run, RUN_LINE] = found[LINE]
    runs[run, RUN_START] = begin
    runs[run, RUN_END] = end
    first = begin + (text[begin] == MINUS)
    number = np.uint64(0)
    is_number = first < end <= first + 19 and (text[first] != ZERO or end == begin + 1)
    for k in range(first, end):
        if not is_number:
            break
        is_number = ZERO <= text[k] <= NINE
        number = number * np.uint64(10) + np.uint64(text[k] - ZERO)
    if is_number and number < _TOO_LARGE + np.uint64(first - begin):
        runs[run, RUN_ID] = -np.int64(number) if first > begin else np.int64(number)
        runs[run, RUN_START] = -1


@compiled
def _known(late: IntRows, known_at: Ints, known: Floats, start: int, end: int, found: Ints) -> float:
    """A number that takes the caller's arithmetic, if it is known already; else note where it is, and take 0 for it."""
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
def _as_number(digits: Any) -> Any:
    """The number that eight values of digits make, the first one lowest."""
    pairs = digits * np.uint64(2561) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(6553601) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    return fours * np.uint64(42949672960001) >> np.uint64(32)


@compiled
def _parse_pairs(
    text: Bytes,
    start: int,
    X: Features,
    row: int,
    late: IntRows,
    known_at: Ints,
    known: Floats,
    marks: Ints,
    words: Words,
    masks: Words,
    base: int,
    limit: int,
    bound: float,
    ordered: bool,
    found: Ints,
) -> tuple[int, int]:
    """(FINE, where the pairs end) or (what is wrong, where): all pairs id:value of a line into a row of X."""
    place: Any = start
    width = X.shape[1]
    column = 0 if ordered else width  # the next one, in a line that is ordered
    marks[len(marks) - 1] += 1
    stamp = marks[len(marks) - 1]  # never used before, so that marks need not be wiped
    cleared = not ordered
    if cleared:
        for k in range(width):
            X[row, k] = 0
    while True:
        if column < width and load_word(text, place) & masks[column] == words[column]:
            place += np.int64(trailing_zeros(~masks[column]) >> np.uint64(3))
            this = column
            column += 1
        else:
            byte = text[place]
            if _is_blank(byte):
                place += 1
                continue
            if byte in (NEWLINE, HASH):
                break
            begin = place
            n_digits = trailing_zeros(~digit_bits(text, place))
            place += np.int64(n_digits)
            if n_digits == 0 or byte_at(text, place) != COLON:
                return BAD_PAIR, begin
            if n_digits > 8:
                return ID_BEYOND, begin
            digits = (load_word(text, place - WORD_BYTES) ^ _ZEROS) & _LAST_BYTES[n_digits]
            number = np.int64(_as_number(digits))
            place += 1
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
        begin = place
        if byte_at(text, place + 1) == SPACE and this < width:  # the most frequent kind, and quickly done with
            digit = np.int64(byte_at(text, place)) - ZERO
            if 0 <= digit <= 9:
                X[row, np.uint64(this)] = min(np.float64(digit), bound)
                place += 2
                continue
        minus = np.uint64(byte_at(text, place) == MINUS)
        points = point_bits(text, place)
        length = trailing_zeros(~(digit_bits(text, place) | points | minus))
        point = min(trailing_zeros(points | _SIXTEEN), length)
        has_point = np.uint64(point < length)
        n_digits = length - minus - has_point
        n_decimals = length - point - has_point
        place += np.int64(length)
        if (
            byte_at(text, place) == SPACE
            and n_digits - np.uint64(1) < np.uint64(8)
            and this < width
            and (points & points - np.uint64(1)) << (np.uint64(63) - length) == 0
        ):
            tail = _LAST_BYTES[n_decimals]
            digits = load_word(text, place - WORD_BYTES) & tail
            digits |= load_word(text, place - WORD_BYTES - np.int64(has_point)) & ~tail
            digits = (digits ^ _ZEROS) & _LAST_BYTES[n_digits]
            value = np.float64(np.int64(_as_number(digits))) / POWERS_OF_TEN[n_decimals]
            value = min(-value if minus else value, bound)
            X[row, np.uint64(this)] = max(value, -bound)
            place += 1
        else:
            outcome, value, place = parse_number(text, begin)
            if outcome == NO_NUMBER or not _ends_field(text[place]):
                return BAD_VALUE, begin
            if outcome == UNDECIDED:
                value = _known(late, known_at, known, begin, place, found)
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
    return FINE, place
