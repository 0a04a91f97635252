"""Parse LETOR text into rows of a matrix, or into compressed sparse rows.

The text ends with a newline, in a buffer that has `PADDING` more bytes on both sides.
"""

import numpy as np

from perceptrank.io.letor import codes
from perceptrank.io.letor.decimals import NO_NUMBER, UNDECIDED, parse_number
from perceptrank.io.letor.pairs import (
    Numbers,
    caller_value,
    ends_field,
    is_blank,
    parse_pairs,
    parse_sparse_pairs,
)
from perceptrank.io.letor.words import load_word
from perceptrank.kernels.arrays import Bytes, Columns, Features, Floats, IntRows, Ints, Words
from perceptrank.kernels.compiled import compiled, helper_inlined

_QID = np.uint64(int.from_bytes(b"qid:", "little"))
_FOUR_BYTES = np.uint64(2**32 - 1)
_TOO_LARGE = np.uint64(2**63)


@compiled
def parse_lines(
    dense: tuple[Features, Ints, Words, Words] | None,
    sparse: tuple[Features, Columns, Ints] | None,
    relevance: Floats,
    first_row: int,
    text: Bytes,
    start: int,
    stop: int,
    runs: IntRows,
    comments: IntRows,
    numbers: Numbers,
    bad: IntRows,
    base: int,
    limit: int,
    bound: float,
    where: int,
    found: Ints,
) -> None:
    """Parse the lines from start to stop into rows from first_row on, dense or sparse; the other is None.

    `dense` is (X, marks, words, masks); features beyond the width of X are validated but not stored, and found[WIDEST]
    reports them. `marks` has one entry per feature below the `limit`, and one more. `sparse` is (values, indices,
    ends): row i is values and indices from ends[i - 1] to ends[i], with room for one value per colon of the text. The
    compiler leaves out the branch for the other one.

    Invalid lines are left out and entered in `bad`; when it is full, the pass ends. `numbers` is (late, known_at,
    known): `late` receives the spans of numbers that the caller has to convert; it calls again with their values in
    `known`, at the offsets `known_at`. Those that do not fit in `late` are only counted.
    """
    pos = start
    found[:] = 0
    found[codes.WIDEST] = found[codes.ID_START] = -1
    found[codes.ORDERED] = 1
    while pos < stop:
        begin = pos
        while is_blank(text[pos]):
            pos += 1
        if text[pos] != codes.NEWLINE and text[pos] != codes.HASH:
            row, n_pairs = first_row + found[codes.N_ROWS], found[codes.N_PAIRS]
            n_runs, widest = found[codes.N_RUNS], found[codes.WIDEST]
            id_start, id_end = found[codes.ID_START], found[codes.ID_END]
            code, end = _parse_head(text, pos, relevance, row, runs, numbers, where, found)
            if code == codes.FINE:
                fields = end
                if dense is not None:
                    code, end = parse_pairs(text, fields, dense, row, numbers, base, limit, bound, found)
                    if code == codes.UNORDERED:
                        found[codes.ORDERED] = 0
                        code, end = parse_pairs(text, fields, dense, row, numbers, base, limit, bound, found)
                if sparse is not None:
                    code, end, n_pairs = parse_sparse_pairs(
                        text, fields, sparse, n_pairs, numbers, base, limit, bound, found
                    )
            if code == codes.FINE:
                code, end = _parse_tail(text, end, row, runs, comments, where, found)
            if code == codes.FINE:
                if sparse is not None:
                    sparse[2][row] = n_pairs
                    found[codes.N_PAIRS] = n_pairs
                found[codes.N_ROWS] += 1
                if found[codes.WIDEST] > widest:
                    found[codes.WIDEST_LINE] = found[codes.LINE]
            else:
                found[codes.N_RUNS], found[codes.ID_START], found[codes.ID_END] = n_runs, id_start, id_end
                found[codes.WIDEST] = widest
                bad[found[codes.N_BAD], codes.BAD_LINE] = found[codes.LINE]
                bad[found[codes.N_BAD], codes.BAD_START] = begin
                bad[found[codes.N_BAD], codes.BAD_AT] = end
                bad[found[codes.N_BAD], codes.BAD_CODE] = code
                found[codes.N_BAD] += 1
                if found[codes.N_BAD] == len(bad):
                    return
                end = pos
            pos = end
        while text[pos] != codes.NEWLINE:
            pos += 1
        pos += 1
        found[codes.LINE] += 1


@helper_inlined
def _parse_head(
    text: Bytes,
    start: int,
    relevance: Floats,
    row: int,
    runs: IntRows,
    numbers: Numbers,
    where: int,
    found: Ints,
) -> tuple[int, int]:
    """Parse the grade and the query of a line; return (FINE, their end) or (error code, offset of the error)."""
    outcome, grade, pos = parse_number(text, start)
    if outcome == NO_NUMBER or not ends_field(text[pos]):
        return codes.BAD_GRADE, start
    if outcome == UNDECIDED:
        grade = caller_value(numbers, start, pos, found)
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
        if where == codes.IN_FIELD and not _enter_query(text, begin, pos, row, runs, found):
            return codes.ZERO_BYTE, begin - 4
    elif where == codes.IN_FIELD:
        return codes.NO_QUERY, pos
    return codes.FINE, pos


@helper_inlined
def _parse_tail(
    text: Bytes, start: int, row: int, runs: IntRows, comments: IntRows, where: int, found: Ints
) -> tuple[int, int]:
    """Parse what follows the pairs of a line; return (FINE, its end) or (error code, offset of the error)."""
    pos = start
    if where == codes.NOWHERE and found[codes.N_RUNS] == 0:
        runs[0, codes.RUN_ROW] = row
        runs[0, codes.RUN_LINE] = found[codes.LINE]
        runs[0, codes.RUN_ID] = 0
        runs[0, codes.RUN_START] = -1
        found[codes.N_RUNS] = 1
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
        comments[found[codes.N_ROWS], 0] = begin
        comments[found[codes.N_ROWS], 1] = end
    if where == codes.IN_COMMENT:
        if begin == end:
            return codes.NO_COMMENT, begin
        if not _enter_query(text, begin, end, row, runs, found):
            return codes.ZERO_BYTE, begin
    return codes.FINE, pos


@compiled
def _enter_query(text: Bytes, begin: int, end: int, row: int, runs: IntRows, found: Ints) -> bool:
    """Begin a run of rows if the query id, the text from begin to end, differs from that of the previous row.

    Returns False for an id with a zero byte, which NumPy's arrays of text do not keep at the end.
    """
    same = found[codes.ID_START] >= 0 and found[codes.ID_END] - found[codes.ID_START] == end - begin
    if same:
        for k in range(end - begin):
            if text[found[codes.ID_START] + k] != text[begin + k]:
                same = False
                break
    if same:
        return True
    found[codes.ID_START], found[codes.ID_END] = begin, end
    run = found[codes.N_RUNS]
    found[codes.N_RUNS] += 1
    runs[run, codes.RUN_ROW] = row
    runs[run, codes.RUN_LINE] = found[codes.LINE]
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
    n_zeros = 0
    for k in range(begin, end):
        n_zeros += text[k] == 0
    return n_zeros == 0
