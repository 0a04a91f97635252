"""Documents of a request straight from its bytes to a matrix, without an object per value.

Only bodies of the usual form are read here: `documents` come first, features are numbers, their names and the ids of
documents have no escapes. Of any other body nothing is said; it is decoded and checked as messages.py and documents.py
describe, which is where all errors come from. What is read here is the same to the bit as what they would make of it.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from perceptrank.io.letor.decimals import POWERS_OF_TEN, nearest_double
from perceptrank.kernels.arrays import Bytes, Floats, Ints
from perceptrank.kernels.compiled import compiled, helper, helper_inlined
from perceptrank.serve.documents import LONGEST_ID, MOST_DOCUMENTS, MOST_FEATURES, MOST_VALUES, Arranged
from perceptrank.serve.replay import Current

_UNUSUAL = -1
_LARGEST_EXACT = np.uint64(1 << 53)
_FEWEST_BYTES = 2  # of a value, with what stands between it and the next


def _word(text: bytes) -> Bytes:
    return np.frombuffer(text, np.uint8)


_DOCUMENTS, _ID, _FEATURES, _NULL = _word(b'"documents"'), _word(b'"id"'), _word(b'"features"'), _word(b"null")


class _Names(NamedTuple):
    """Names of features as bytes, one after the other; `after` is the column that last followed each in a document."""

    text: Bytes
    bounds: Ints
    after: Ints


def scan(body: bytes, current: Current) -> tuple[Arranged, bytes] | None:
    """Return the documents of a body, and an object of its other fields; None if the body is not of the usual form."""
    n, names, takes_missing = current.n_features, _as_bytes(current.names), current.takes_missing
    if n is None or names is None or not 0 < n <= MOST_FEATURES:
        return None
    # Missing names take no bytes, so that a document of any length may have all features.
    longest = body.count(b"{") if takes_missing else len(body) // (_FEWEST_BYTES * n) + 1
    most = min(MOST_DOCUMENTS, MOST_VALUES // n, longest)
    text = np.frombuffer(body + b"\0", np.uint8)  # the last byte ends whatever is being read
    X, ids = np.empty((most, n)), np.empty(len(text), np.uint8)
    m, end, ids_end = scan_documents(text, names, np.empty(n, np.int64), takes_missing, X, ids)
    if m <= 0:
        return None
    found = ids[:ids_end].tobytes().decode("ascii").split("\n")
    if len(set(found)) < m:
        return None
    X = X[:m].copy()
    X.flags.writeable = False
    return Arranged(found, X, current.names), b"{" + body[end:]


@lru_cache(maxsize=64)
def _as_bytes(names: tuple[str, ...] | None) -> _Names | None:
    """Return names as they stand in a body; None if one cannot stand there without escapes."""
    joined = "".join(names or ())
    if '"' in joined or "\\" in joined or not all(" " <= one < "\ud800" or one > "\udfff" for one in joined):
        return None
    encoded = [one.encode() for one in names or ()]
    bounds = np.cumsum([0, *map(len, encoded)])
    after = np.roll(np.arange(len(encoded)), -1)
    return _Names(np.frombuffer(b"".join(encoded) or b" ", np.uint8), bounds, after)


@helper_inlined
def _skip(text: Bytes, pos: int) -> int:
    """Return the place of the next byte that is not white space."""
    while text[pos] == 32 or text[pos] == 10 or text[pos] == 13 or text[pos] == 9:
        pos += 1
    return pos


@helper_inlined
def _has(text: Bytes, pos: int, word: Bytes, start: int, stop: int) -> bool:
    """Tell whether part of a word is at a place."""
    for k in range(start, stop):
        if text[pos + k - start] != word[k]:
            return False
    return True


@helper
def _number(text: Bytes, start: int) -> tuple[float, int]:
    """Return a number as JSON spells it, and its end; an unusual one has none."""
    pos = start
    negative = text[pos] == ord("-")
    pos += negative
    first = pos
    digits: Any = np.uint64(0)
    power = 0
    while ord("0") <= text[pos] <= ord("9"):
        digits = digits * np.uint64(10) + np.uint64(text[pos] - ord("0"))
        pos += 1
    n_digits = pos - first
    if n_digits == 0 or (n_digits > 1 and text[first] == ord("0")):
        return 0.0, _UNUSUAL
    whole = True
    if text[pos] == ord("."):
        whole = False
        pos += 1
        point = pos
        while ord("0") <= text[pos] <= ord("9"):
            digits = digits * np.uint64(10) + np.uint64(text[pos] - ord("0"))
            pos += 1
        power = point - pos
        n_digits -= power
        if power == 0:
            return 0.0, _UNUSUAL
    if n_digits > 19:  # more than a word holds
        return 0.0, _UNUSUAL
    if text[pos] == ord("e") or text[pos] == ord("E"):
        whole = False
        pos += 1
        below_one = text[pos] == ord("-")
        if below_one or text[pos] == ord("+"):
            pos += 1
        first, exponent = pos, np.int64(0)
        while ord("0") <= text[pos] <= ord("9"):
            exponent = exponent * 10 + np.int64(text[pos] - ord("0"))
            pos += 1
        if not 0 < pos - first < 10:
            return 0.0, _UNUSUAL
        power += -exponent if below_one else exponent
    if digits <= _LARGEST_EXACT and -22 <= power <= 22:
        value = np.float64(digits) / POWERS_OF_TEN[-power] if power < 0 else np.float64(digits) * POWERS_OF_TEN[power]
    else:
        value = nearest_double(digits, power)
        if value == np.inf:
            return 0.0, _UNUSUAL
    # A whole number is an integer to JSON, and there is but one 0 of these.
    return -value if negative and (value != 0.0 or not whole) else value, pos


@compiled
def scan_documents(
    text: Bytes, names: tuple[Bytes, Ints, Ints], seen: Ints, takes_missing: bool, X: Floats, ids: Bytes
) -> tuple[int, int, int]:
    """Read the documents of a body that ends with a 0: features to the rows of X, ids to lines.

    `names` is as `_Names` describes, empty if features have none. Returns the number of documents, the place of the
    next field or of the end of the object, and the length of the ids; a number < 1 if the body is not of the usual form.
    """
    known, bounds, after = names
    n_names, n_features = len(after), X.shape[1]
    unusual = (_UNUSUAL, 0, 0)
    steps = len(text)  # for finding names that are not where they were: more take too long
    seen[:] = -1
    m = ids_end = 0
    pos = _skip(text, 0)
    if text[pos] != ord("{"):
        return unusual
    pos = _skip(text, pos + 1)
    if not _has(text, pos, _DOCUMENTS, 0, len(_DOCUMENTS)):
        return unusual
    pos = _skip(text, pos + len(_DOCUMENTS))
    if text[pos] != ord(":"):
        return unusual
    pos = _skip(text, pos + 1)
    if text[pos] != ord("["):
        return unusual
    column = n_names - 1
    while True:
        pos = _skip(text, pos + 1)
        if text[pos] != ord("{") or m == len(X):
            return unusual
        has_id = has_features = False
        while not (has_id and has_features):
            if (has_id or has_features) and text[pos] != ord(","):
                return unusual
            pos = _skip(text, pos + 1)
            if not has_id and _has(text, pos, _ID, 0, len(_ID)):
                has_id = True
                pos = _skip(text, pos + len(_ID))
                if text[pos] != ord(":"):
                    return unusual
                pos = _skip(text, pos + 1)
                if text[pos] != ord('"'):
                    return unusual
                pos += 1
                first = pos
                if m > 0:
                    ids[ids_end] = ord("\n")
                    ids_end += 1
                while 32 <= text[pos] < 128 and text[pos] != ord('"') and text[pos] != ord("\\"):
                    ids[ids_end] = text[pos]
                    ids_end += 1
                    pos += 1
                if text[pos] != ord('"') or not 0 < pos - first <= LONGEST_ID:
                    return unusual
                pos = _skip(text, pos + 1)
                continue
            if has_features or not _has(text, pos, _FEATURES, 0, len(_FEATURES)):
                return unusual
            has_features = True
            pos = _skip(text, pos + len(_FEATURES))
            if text[pos] != ord(":"):
                return unusual
            pos = _skip(text, pos + 1)
            named = text[pos] == ord("{")
            last = ord("}") if named else ord("]")
            if (named and n_names == 0) or not (named or text[pos] == ord("[")):
                return unusual
            n_found = 0
            pos = _skip(text, pos + 1)
            is_empty = text[pos] == last
            while not is_empty:
                j = n_found
                if named:
                    if text[pos] != ord('"'):
                        return unusual
                    pos += 1
                    j = after[column]
                    length = bounds[j + 1] - bounds[j]
                    if not (_has(text, pos, known, bounds[j], bounds[j + 1]) and text[pos + length] == ord('"')):
                        j = 0
                        while j < n_names and not (
                            _has(text, pos, known, bounds[j], bounds[j + 1])
                            and text[pos + bounds[j + 1] - bounds[j]] == ord('"')
                        ):
                            j += 1
                        steps -= j
                        if j == n_names or steps < 0:
                            return unusual
                        after[column] = j
                    if seen[j] == m:
                        return unusual
                    seen[j], column = m, j
                    pos = _skip(text, pos + bounds[j + 1] - bounds[j] + 1)
                    if text[pos] != ord(":"):
                        return unusual
                    pos = _skip(text, pos + 1)
                elif n_found == n_features:
                    return unusual
                if takes_missing and _has(text, pos, _NULL, 0, len(_NULL)):
                    X[m, j] = np.nan
                    pos += len(_NULL)
                else:
                    X[m, j], pos = _number(text, pos)
                    if pos < 0:
                        return unusual
                n_found += 1
                pos = _skip(text, pos)
                if text[pos] == last:
                    break
                if text[pos] != ord(","):
                    return unusual
                pos = _skip(text, pos + 1)
            if n_found < n_features:
                if not (named and takes_missing):
                    return unusual
                for j in range(n_features):
                    if seen[j] != m:
                        X[m, j] = np.nan
            pos = _skip(text, pos + 1)
        if text[pos] != ord("}"):
            return unusual
        m += 1
        pos = _skip(text, pos + 1)
        if text[pos] == ord("]"):
            break
        if text[pos] != ord(","):
            return unusual
    pos = _skip(text, pos + 1)
    if text[pos] == ord(","):
        pos = _skip(text, pos + 1)
        return (m, pos, ids_end) if text[pos] == ord('"') else unusual
    return (m, pos, ids_end) if text[pos] == ord("}") else unusual
