"""Parse cells of tables with a delimiter: numbers into rows of a matrix, texts into one array of bytes.

What is rare (controls, numbers of more digits than decide their value, words that are no numbers) is refused, and left
to the module csv.
"""

from typing import Any, TypeAlias

import numpy as np

from perceptrank.io.letor.codes import MINUS, NEWLINE, SPACE
from perceptrank.io.letor.decimals import EXACT, parse_number, short_decimal
from perceptrank.io.letor.words import byte_at, digit_bits, point_bits, trailing_zeros
from perceptrank.io.tables.rows import MISSING_WORDS, TRUTHS
from perceptrank.kernels.arrays import Bytes, Features, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled, helper

# Kinds of columns; those of numbers that are no features are called roles.
UNUSED, FEATURE, ROLE, TEXT = range(4)
REFUSED = -1

_TAB, _RETURN = ord("\t"), ord("\r")
_CASE = ord("a") - ord("A")
_SIXTEEN = np.uint64(1 << 16)
_ONE, _EIGHT = np.uint64(1), np.uint64(8)
_LONGEST_WORD = 5
_KNOWN = {word: np.nan for word in sorted(MISSING_WORDS) if word} | TRUTHS
_WORDS = np.array([int.from_bytes(word.encode(), "little") for word in _KNOWN], np.uint64)
_VALUES = np.array(list(_KNOWN.values()))

# For each role, and for each column of texts, one entry per row: numbers, and where texts begin and end.
Outputs: TypeAlias = tuple[Features, Floats, Ints]


@helper
def _parse_any(text: Bytes, begin: int, end: int) -> tuple[bool, float]:
    """Return whether a cell is a number, or a word for one, and its value."""
    while begin < end and (text[begin] == SPACE or text[begin] == _TAB):
        begin += 1
    while end > begin and (text[end - 1] == SPACE or text[end - 1] == _TAB):
        end -= 1
    if begin == end:
        return True, np.nan
    outcome, value, stop = parse_number(text, begin)
    if stop == end and outcome == EXACT:
        return True, value
    if end - begin > _LONGEST_WORD:
        return False, 0.0
    word = np.uint64(0)
    for k in range(end - 1, begin - 1, -1):
        byte = np.int64(text[k])
        byte += _CASE if ord("A") <= byte <= ord("Z") else 0
        word = word << _EIGHT | np.uint64(byte)
    for k in range(len(_WORDS)):
        if _WORDS[k] == word:
            return True, _VALUES[k]
    return False, 0.0


@compiled
def parse_cells(
    text: Bytes, start: int, stop: int, delimiter: int, quote: int, columns: IntRows, outputs: Outputs
) -> int:
    """Parse the records from start to stop, the last of which ends with a newline; return their number, or REFUSED.

    The text has `PADDING` more bytes on both sides. `columns` has the kind of each column, and its number among those
    of its kind. Records that end early go on with empty cells, which as numbers are NaN.
    """
    X, numbers, spans = outputs
    pos: Any = start
    row = 0
    while pos < stop:
        column = 0
        while True:
            if column == len(columns):
                return REFUSED
            kind, place = columns[column, 0], columns[column, 1]
            begin = pos
            is_short = False
            value = 0.0
            if kind in (FEATURE, ROLE):
                minus = np.uint64(byte_at(text, pos) == MINUS)
                points = point_bits(text, pos)
                length = trailing_zeros(~(digit_bits(text, pos) | points | minus))
                point = min(trailing_zeros(points | _SIXTEEN), length)
                has_point = np.uint64(point < length)
                n_digits = length - minus - has_point
                after = byte_at(text, pos + np.int64(length))
                is_short = (
                    (after in (delimiter, NEWLINE))
                    and n_digits - _ONE < _EIGHT
                    and (points & points - _ONE) << (np.uint64(63) - length) == 0
                )
                if is_short:
                    pos += np.int64(length)
                    value = short_decimal(text, pos, n_digits, length - point - has_point, has_point)
                    value = -value if minus else value
            if not is_short:
                if text[pos] == quote:
                    begin += 1
                    pos += 1
                    while text[pos] != quote or text[pos + 1] == quote:
                        pos += 1 + (text[pos] == quote)
                        if pos >= stop:
                            return REFUSED
                    end = pos
                    pos += 1
                else:
                    while text[pos] != delimiter and (text[pos] >= SPACE or text[pos] == _TAB):
                        pos += 1
                    end = pos
                if kind == TEXT:
                    spans[place, row, 0] = begin
                    spans[place, row, 1] = end
                elif kind != UNUSED:
                    is_known, value = _parse_any(text, begin, end)
                    if not is_known:
                        return REFUSED
                if text[pos] == _RETURN and text[pos + 1] == NEWLINE:
                    pos += 1
                after = text[pos]
                if after not in (delimiter, NEWLINE):
                    return REFUSED
            if kind == FEATURE:
                X[row, place] = value
            elif kind == ROLE:
                numbers[place, row] = value
            pos += 1
            column += 1
            if after == NEWLINE:
                break
        for missing in range(column, len(columns)):
            kind, place = columns[missing, 0], columns[missing, 1]
            if kind == FEATURE:
                X[row, place] = np.nan
            elif kind == ROLE:
                numbers[place, row] = np.nan
            elif kind == TEXT:
                spans[place, row, 0] = spans[place, row, 1] = start
        row += 1
    return row


@compiled
def copy_texts(text: Bytes, spans: IntRows, quote: int, content: Bytes, starts: Ints) -> int:
    """Copy texts, with their doubled quotes as one; return how many rows differ from the one before.

    Entry i + 1 of `starts` is the end of text i. Afterwards the first spans are (row, length) where a text differs.
    """
    pos = 0
    n_runs = 0
    for row in range(len(spans)):
        begin, end = spans[row]
        is_quoted = text[begin - 1] == quote
        first = pos
        k = begin
        while k < end:
            content[pos] = text[k]
            pos += 1
            k += 1 + (is_quoted and text[k] == quote)
        starts[row + 1] = pos
        differs = row == 0 or pos - first != first - starts[row - 1]
        if not differs:
            for i in range(pos - first):
                if content[first + i] != content[starts[row - 1] + i]:
                    differs = True
                    break
        if differs:
            spans[n_runs, 0] = row
            n_runs += 1
    return n_runs
