"""Documents of a request straight from its bytes to a matrix, without an object per value.

Only bodies of the usual form are read here: `documents` come first, features are numbers, their names and the ids of
documents have no escapes. Of any other body nothing is said; it is decoded and checked as messages.py and documents.py
describe, which is where all errors come from. What is read here is the same to the bit as what they would make of it.
"""

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from perceptrank.io.letor.decimals import POWERS_OF_TEN, nearest_double
from perceptrank.io.letor.pairs import ZEROS, as_eight_digits
from perceptrank.io.letor.words import WORD_BYTES, byte_at, load_word, trailing_zeros
from perceptrank.kernels.arrays import Bytes, Floats, Ints, Words
from perceptrank.kernels.compiled import compiled, helper, helper_inlined
from perceptrank.serve.documents import LONGEST_ID, MOST_DOCUMENTS, MOST_FEATURES, MOST_VALUES, Arranged
from perceptrank.serve.replay import Current

_UNUSUAL = -1
_LARGEST_EXACT = np.uint64(1 << 53)
_BEYOND_NINE, _HIGH_BITS = np.uint64(0x7676767676767676), np.uint64(0x8080808080808080)
_WHOLE_POWERS = 10 ** np.arange(9, dtype=np.uint64)
_END = bytes(WORD_BYTES)  # ends whatever is being read, and lets a word be loaded from each byte
_FEWEST_BYTES = 2  # of a value, with what stands between it and the next


def _word(text: bytes) -> Bytes:
    return np.frombuffer(text, np.uint8)


_DOCUMENTS, _ID, _FEATURES, _NULL = _word(b'"documents"'), _word(b'"id"'), _word(b'"features"'), _word(b"null")


class _Names(NamedTuple):
    """Names of features with the quotation marks after them, one after the other.

    `words` are their first bytes, and `masks` say how many. `after` is the column that last followed each one.
    """

    text: Bytes
    starts: Ints
    lengths: Ints
    words: Words
    masks: Words
    after: Words


Names: TypeAlias = tuple[Bytes, Ints, Ints, Words, Words, Words]


class Scanned(NamedTuple):
    """Documents of a body as a model takes them, and the other fields of the body, as an object of their own."""

    arranged: Arranged
    others: bytes
    current: Current


def scan(body: bytes, current: Current) -> Scanned | None:
    """Return what a body has; None if it is not of the usual form."""
    n, names, takes_missing = current.n_features, _as_bytes(current.names), current.takes_missing
    if n is None or names is None or not 0 < n <= MOST_FEATURES or len(names.after) not in (0, n):
        return None
    # Missing names take no bytes, so that a document of any length may have all features.
    longest = body.count(b"{") if takes_missing else len(body) // (_FEWEST_BYTES * n) + 1
    most = min(MOST_DOCUMENTS, MOST_VALUES // n, longest)
    text = np.frombuffer(body + _END, np.uint8)
    X, ids = np.empty((most, n)), np.empty(len(text), np.uint8)
    m, end, ids_end = scan_documents(text, names, np.empty(n, np.int64), takes_missing, X, ids)
    if m <= 0:
        return None
    found = ids[:ids_end].tobytes().decode("ascii").split("\n")
    if len(set(found)) < m:
        return None
    X = X[:m].copy()
    X.flags.writeable = False
    return Scanned(Arranged(found, X, current.names), b"{" + body[end:], current)


@lru_cache(maxsize=64)
def _as_bytes(names: tuple[str, ...] | None) -> _Names | None:
    """Return names as they stand in a body; None if one cannot stand there without escapes."""
    joined = "".join(names or ())
    if '"' in joined or "\\" in joined or not all(" " <= one < "\ud800" or one > "\udfff" for one in joined):
        return None
    encoded = [one.encode() + b'"' for one in names or ()]
    words = [int.from_bytes(one[:WORD_BYTES], "little") for one in encoded]
    masks = [(1 << 8 * min(len(one), WORD_BYTES)) - 1 for one in encoded]
    return _Names(
        np.frombuffer(b"".join(encoded) or b" ", np.uint8),
        np.cumsum([0, *map(len, encoded)]),
        np.array([len(one) for one in encoded], np.int64),
        np.array(words, np.uint64),
        np.array(masks, np.uint64),
        np.roll(np.arange(len(encoded), dtype=np.uint64), -1),
    )


@helper_inlined
def _skip(text: Bytes, pos: int) -> int:
    """Return the place of the next byte that is not white space."""
    while byte_at(text, pos) <= 32 and (
        byte_at(text, pos) == 32 or byte_at(text, pos) == 10 or byte_at(text, pos) == 13 or byte_at(text, pos) == 9
    ):
        pos += 1
    return pos


@helper_inlined
def _has(text: Bytes, pos: int, word: Bytes) -> bool:
    """Tell whether a word is at a place."""
    for k in range(len(word)):  # noqa: SIM110
        if byte_at(text, pos + k) != word[k]:
            return False
    return True


@helper_inlined
def _digits(text: Bytes, pos: Any, number: Any) -> tuple[Any, Any]:
    """Append the digits at a place to a number, eight at a time; return it, and where they end."""
    while True:
        digits = load_word(text, pos) ^ ZEROS
        others = ((digits + _BEYOND_NINE) | digits) & _HIGH_BITS
        count = trailing_zeros(others) >> np.uint64(3)
        if count == 0:
            return number, pos
        shift = np.uint64(64) - (count << np.uint64(3))
        number = number * _WHOLE_POWERS[count] + as_eight_digits(digits << shift)
        pos += np.int64(count)
        if count < 8:
            return number, pos


@helper_inlined
def _number(text: Bytes, start: int) -> tuple[float, int]:
    """Return a number as JSON spells it, and its end; an unusual one has none."""
    pos = start
    negative = byte_at(text, pos) == ord("-")
    pos += negative
    first = pos
    digits: Any = np.uint64(0)
    power: Any = 0
    while ord("0") <= byte_at(text, pos) <= ord("9"):
        digits = digits * np.uint64(10) + np.uint64(byte_at(text, pos) - ord("0"))
        pos += 1
    n_digits = pos - first
    if n_digits == 0 or (n_digits > 1 and byte_at(text, first) == ord("0")):
        return 0.0, _UNUSUAL
    whole = True
    if byte_at(text, pos) == ord("."):
        whole = False
        point = pos + 1
        digits, pos = _digits(text, point, digits)
        power = point - pos
        n_digits -= power
        if power == 0:
            return 0.0, _UNUSUAL
    if n_digits > 19:  # more than a word holds
        return 0.0, _UNUSUAL
    if byte_at(text, pos) == ord("e") or byte_at(text, pos) == ord("E"):
        whole = False
        pos += 1
        below_one = byte_at(text, pos) == ord("-")
        if below_one or byte_at(text, pos) == ord("+"):
            pos += 1
        first = pos
        exponent, pos = _digits(text, pos, np.uint64(0))
        if not 0 < pos - first < 10:
            return 0.0, _UNUSUAL
        power += -np.int64(exponent) if below_one else np.int64(exponent)
    if digits <= _LARGEST_EXACT and -22 <= power <= 22:
        value = np.float64(digits) / POWERS_OF_TEN[-power] if power < 0 else np.float64(digits) * POWERS_OF_TEN[power]
    else:
        value = nearest_double(digits, power)
        if value == np.inf:
            return 0.0, _UNUSUAL
    if whole and digits == 0:  # an integer to JSON, of which there is but one 0
        return 0.0, pos
    return value * (1.0 - 2.0 * negative), pos  # signs cannot be foretold: a branch would take longer


@helper_inlined
def _value(text: Bytes, pos: int, takes_missing: bool) -> tuple[float, int]:
    """Return a number, or NaN for null, and the place of what follows it; an unusual one has none."""
    if takes_missing and _has(text, pos, _NULL):
        return np.nan, _skip(text, pos + len(_NULL))
    value, pos = _number(text, pos)
    return value, (_skip(text, pos) if pos >= 0 else pos)


@helper_inlined
def _is_name(text: Bytes, pos: int, names: Names, j: Any) -> bool:
    """Tell whether a name and the quotation mark after it are at a place."""
    known, starts, lengths, words, masks, _ = names
    if load_word(text, pos) & masks[j] != words[j]:
        return False
    for k in range(WORD_BYTES, lengths[j]):  # noqa: SIM110
        if byte_at(text, pos + k) != known[starts[j] + k]:
            return False
    return True


@helper
def _read_object(
    text: Bytes, pos: int, names: Names, column: Any, seen: Ints, takes_missing: bool, X: Floats, row: int, steps: Any
) -> tuple[int, Any, Any]:
    """Read features by name into a row of X, from the brace on; `column` is the last one of the document before.

    Finding a name that is not where it was takes a step for each one that it is compared with. Returns the place of
    the last brace, the last column, and how many of the steps are left.
    """
    _, _, lengths, _, _, after = names
    n_names, n_found = np.uint64(len(after)), 0
    pos = _skip(text, pos + 1)
    is_empty = byte_at(text, pos) == ord("}")
    while not is_empty:
        if byte_at(text, pos) != ord('"'):
            return _UNUSUAL, column, steps
        pos += 1
        j = after[column]
        if not _is_name(text, pos, names, j):
            j = np.uint64(0)
            while j < n_names and not _is_name(text, pos, names, j):
                j += np.uint64(1)
            steps -= np.int64(j)
            if j == n_names or steps < 0:
                return _UNUSUAL, column, steps
            after[column] = j
        if seen[j] == row:
            return _UNUSUAL, column, steps
        seen[j], column = row, j
        pos = _skip(text, pos + lengths[j])
        if byte_at(text, pos) != ord(":"):
            return _UNUSUAL, column, steps
        X[row, j], pos = _value(text, _skip(text, pos + 1), takes_missing)
        if pos < 0:
            return _UNUSUAL, column, steps
        n_found += 1
        if byte_at(text, pos) == ord("}"):
            break
        if byte_at(text, pos) != ord(","):
            return _UNUSUAL, column, steps
        pos = _skip(text, pos + 1)
    if n_found < X.shape[1]:
        if not takes_missing:
            return _UNUSUAL, column, steps
        for k in range(X.shape[1]):
            if seen[k] != row:
                X[row, k] = np.nan
    return pos, column, steps


@helper
def _read_list(text: Bytes, pos: int, takes_missing: bool, X: Floats, row: int) -> int:
    """Read features in the order of the model into a row of X, from the bracket on; return the place of the last."""
    for j in range(X.shape[1]):
        if byte_at(text, pos) != (ord(",") if j > 0 else ord("[")):
            return _UNUSUAL
        X[row, j], pos = _value(text, _skip(text, pos + 1), takes_missing)
        if pos < 0:
            return pos
    return pos if byte_at(text, pos) == ord("]") else _UNUSUAL


@helper
def _read_id(text: Bytes, pos: int, ids: Bytes, ids_end: int) -> tuple[int, int]:
    """Append the id at a quotation mark to the lines of ids; return the place of the last mark, and their end."""
    if byte_at(text, pos) != ord('"'):
        return _UNUSUAL, ids_end
    if ids_end > 0:
        ids[ids_end] = ord("\n")
        ids_end += 1
    first = pos + 1
    while True:
        pos += 1
        byte = byte_at(text, pos)
        if byte == ord('"'):
            break
        if not 32 <= byte < 128 or byte == ord("\\"):
            return _UNUSUAL, ids_end
        ids[ids_end] = byte
        ids_end += 1
    return pos if 0 < pos - first <= LONGEST_ID else _UNUSUAL, ids_end


@helper
def _find_value(text: Bytes, pos: int, field: Bytes) -> int:
    """Return where the value of a field begins, whose name must be at a place."""
    if not _has(text, pos, field):
        return _UNUSUAL
    pos = _skip(text, pos + len(field))
    return _skip(text, pos + 1) if byte_at(text, pos) == ord(":") else _UNUSUAL


@compiled
def scan_documents(
    text: Bytes, names: Names, seen: Ints, takes_missing: bool, X: Floats, ids: Bytes
) -> tuple[int, int, int]:
    """Read the documents of a body that ends with 0s: features to the rows of X, ids to lines.

    `names` is as `_Names` describes, empty if features have none. Returns the number of documents, the place of the
    next field or of the end of the object, and the length of the ids; a number < 1 if the body is not usual.
    """
    n_names, unusual = len(names[5]), (_UNUSUAL, 0, 0)
    steps, column = len(text), np.uint64(max(n_names - 1, 0))
    seen[:] = -1
    m = ids_end = 0
    pos = _skip(text, 0)
    if byte_at(text, pos) != ord("{"):
        return unusual
    pos = _find_value(text, _skip(text, pos + 1), _DOCUMENTS)
    if pos < 0 or byte_at(text, pos) != ord("["):
        return unusual
    while True:
        pos = _skip(text, pos + 1)
        if byte_at(text, pos) != ord("{") or m == len(X):
            return unusual
        has_id = has_features = False
        while not (has_id and has_features):
            if (has_id or has_features) and byte_at(text, pos) != ord(","):
                return unusual
            pos = _skip(text, pos + 1)
            if byte_at(text, pos + 1) == ord("i"):
                pos = _find_value(text, pos, _ID)
                if has_id or pos < 0:
                    return unusual
                has_id = True
                pos, ids_end = _read_id(text, pos, ids, ids_end)
            else:
                pos = _find_value(text, pos, _FEATURES)
                if has_features or pos < 0:
                    return unusual
                has_features = True
                if byte_at(text, pos) == ord("["):
                    pos = _read_list(text, pos, takes_missing, X, m)
                elif byte_at(text, pos) == ord("{") and n_names > 0:
                    pos, column, steps = _read_object(text, pos, names, column, seen, takes_missing, X, m, steps)
                else:
                    return unusual
            if pos < 0:
                return unusual
            pos = _skip(text, pos + 1)
        if byte_at(text, pos) != ord("}"):
            return unusual
        m += 1
        pos = _skip(text, pos + 1)
        if byte_at(text, pos) == ord("]"):
            break
        if byte_at(text, pos) != ord(","):
            return unusual
    pos = _skip(text, pos + 1)
    if byte_at(text, pos) == ord(","):
        pos = _skip(text, pos + 1)
        return (m, pos, ids_end) if byte_at(text, pos) == ord('"') else unusual
    return (m, pos, ids_end) if byte_at(text, pos) == ord("}") else unusual
