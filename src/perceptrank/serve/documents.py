"""Documents of a request, and the matrix of their features in the order of a model."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Annotated, Any, TypeVar, cast

import msgspec
import numpy as np

from perceptrank.io.letor.decimals import EXACT, parse_number, short_decimal
from perceptrank.io.letor.words import PADDING, WORD_BYTES, byte_at, digit_bits, load_word, point_bits, trailing_zeros
from perceptrank.kernels.arrays import Bytes, Floats, IntRows
from perceptrank.kernels.compiled import compiled, helper, helper_inlined
from perceptrank.learners.score_of import ScoreOf
from perceptrank.serve.errors import FeatureMismatchError, InvalidRequestError, TooLargeError, UnknownError
from perceptrank.serve.replay import Current
from perceptrank.stream.validation import read_only

MOST_DOCUMENTS = 10_000
MOST_FEATURES = 100_000
MOST_VALUES = 5_000_000
LONGEST_ID = 200
LONGEST_NAME = 1000
_ZEROS = bytes(PADDING)
_KEY = b'"documents"'
_MARK = secrets.randbits(62)
# What stands in the list of documents; a space is for any number of them.
_BEFORE_LIST, _BEFORE_ID, _BEFORE_FEATURES, _BEFORE_KEY, _AFTER_KEY, _BEFORE_NEXT, _AFTER_LAST, _NULL = (
    np.frombuffer(form, np.uint8)
    for form in (b" : [", b' { "id" : "', b'" , "features" : ', b' "', b'" : ', b" } ,", b" } ]", b"null")
)
_MISSING = "send a number, or serve a model with the transform 'missing' first or one learned with --zero-missing"

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
# An empty object is a document whose features are all missing; an empty list has no meaning.
Features = (
    Annotated[dict[Name, float | None], msgspec.Meta(max_length=MOST_FEATURES)]
    | Annotated[list[float | None], msgspec.Meta(min_length=1, max_length=MOST_FEATURES)]
)


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """A document to rank; its features are by name, or in the order of the model. None is a missing value."""

    id: Id
    features: Features


Documents = Annotated[list[Document], msgspec.Meta(min_length=1, max_length=MOST_DOCUMENTS)]
Message = TypeVar("Message", bound=msgspec.Struct)


class Arranged(msgspec.Struct, frozen=True):
    """Documents as a model takes them."""

    ids: list[str]
    X: Floats
    names: tuple[str, ...] | None

    def as_documents(self) -> list[Document]:
        """Return the documents as they arrived."""
        rows = ([None if math.isnan(value) else value for value in row] for row in self.X.tolist())
        return [
            Document(name, row if self.names is None else dict(zip(self.names, row, strict=True)))
            for name, row in zip(self.ids, rows, strict=True)
        ]


def decode_query(kind: type[Message], body: bytes, current: Current) -> Message | None:
    """Return a message whose `documents` are `Arranged`; None for bodies that are not of the usual form.

    In the usual form each document is an id without escapes, then all features of the model, in an order and with
    spaces that all documents share. A plain decoder and `arrange` return the same, and report errors, but take several
    times as long.
    """
    n, start = current.n_features or 0, body.find(_KEY)
    text = np.frombuffer(b"".join((_ZEROS, body, _ZEROS)), np.uint8)
    m = count_openings(text) // 2 - 1  # two of each document, of the list, and of the message
    if start < 0 or not (0 < n <= MOST_FEATURES and 0 < m <= MOST_DOCUMENTS and m * n <= MOST_VALUES):
        return None
    start += len(_KEY)
    X, ids, spans = np.empty((m, n)), np.empty(len(text), np.uint8), np.empty((n + 1, 2), np.int64)
    takes_null = current.takes_missing and not current.zero_missing
    end, length = read_documents(text, PADDING + start, takes_null, spans, ids, X)
    if end == 0:
        return None
    try:
        # The rest, with a value of `documents` that no body has: so what was read is the value of this key, only once.
        message: Any = _rest_decoder(kind).decode(b"%b:%d%b" % (body[:start], _MARK, body[end - PADDING :]))
        names = ids[: length - 1].tobytes().decode().split('"')
        first = body[spans[0, 0] - PADDING : spans[n, 1] - PADDING]
        if first[:1] == b"{" and (keys := tuple(msgspec.json.decode(first))) != current.names:
            places = {name: j for j, name in enumerate(keys)}
            columns = [places[name] for name in current.names or ()]
            if len(columns) != n or len(places) != n:
                return None
            X = np.ascontiguousarray(X[:, columns])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, KeyError):
        return None
    if len(set(names)) < m:
        return None
    message.documents = Arranged(names, read_only(X), current.names)
    return cast(Message, message)


class _Query(msgspec.Struct, kw_only=True):
    documents: Documents


def make_example(current: Current) -> Arranged:
    """Return two documents that a model takes, read as those of requests are, so that the compiled code is there."""
    model = current.learner.model
    starts = [model, *(each.ranker.model for each in model.transforms if isinstance(each, ScoreOf))]
    own = (each.feature_names or each.beginning.features for each in starts)
    names = current.names or next(filter(None, own), None)
    n = current.n_features or len(names or "") or max(each.n_inputs for each in starts) or 2
    X = np.zeros((2, n))
    X[0, 0] = 1.0
    documents = Arranged(["1", "2"], X, names).as_documents()
    known = replace(current, n_features=n, names=names)
    query: Any = decode_query(_Query, msgspec.json.encode({"documents": documents}), known)
    return arrange(documents if query is None else query.documents, known)


@lru_cache
def _rest_decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    mark = Annotated[int, msgspec.Meta(ge=_MARK, le=_MARK)]
    return msgspec.json.Decoder(msgspec.defstruct(kind.__name__, [("documents", mark)], bases=(kind,), kw_only=True))


@compiled
def count_openings(text: Bytes) -> int:
    """Return how many brackets and braces open."""
    count = 0
    for byte in text:
        count += byte | 32 == ord("{")
    return count


@compiled
def read_documents(text: Bytes, pos: int, takes_null: bool, spans: IntRows, ids: Bytes, X: Floats) -> tuple[int, int]:
    """Read a colon and a JSON list of documents, their features into the rows of X; null is NaN, and -0 is 0.

    `text` is whatever was sent, between `PADDING` bytes of 0 on both sides. `spans` is for the places, in the first
    document, of what stands before each value and after the last: it must be the same in the other documents. `ids` is
    for the ids, each with the quotation mark after it.

    Returns where the list ends, and the length of the ids; 0 and 0 if it is of another form. The encoding of strings is
    not checked, nor what backslashes in keys of features stand for.
    """
    (m, n), length = X.shape, 0
    pos = _match(text, pos, _BEFORE_LIST)
    for i in range(m):
        pos = _match(text, pos, _BEFORE_ID)
        begin = pos
        while byte_at(text, pos) != ord('"'):
            if byte_at(text, pos) < ord(" ") or byte_at(text, pos) == ord("\\"):
                return 0, 0
            ids[length] = byte_at(text, pos)
            length, pos = length + 1, pos + 1
        if not 0 < pos - begin <= LONGEST_ID:
            return 0, 0
        ids[length] = ord('"')
        length, pos = length + 1, _match(text, pos, _BEFORE_FEATURES)
        opening = byte_at(text, pos)
        for j in range(n + 1):
            if i == 0:
                spans[j, 0], pos = pos, _end_of_span(text, pos, opening, j, n)
                spans[j, 1] = pos
            else:
                if not _is_same(text, pos, spans[j, 0], spans[j, 1]):
                    return 0, 0
                pos += spans[j, 1] - spans[j, 0]
            if j < n:
                X[i, j], pos = _read_value(text, pos, takes_null)
        pos = _match(text, pos, _BEFORE_NEXT if i + 1 < m else _AFTER_LAST)
        if pos == 0:
            return 0, 0
    return pos, length


@helper
def _match(text: Bytes, pos: int, form: Bytes) -> int:
    """Return the place after bytes of a form, in which a space stands for any; 0, where no form is, if they differ."""
    for byte in form:
        if byte == ord(" "):
            pos = _skip_space(text, pos)
        elif byte_at(text, pos) == byte:
            pos += 1
        else:
            return 0
    return pos


@helper_inlined
def _is_same(text: Bytes, pos: int, start: int, end: int) -> bool:
    """Tell whether the bytes from a place on are those from `start` to `end`, of which there are some."""
    while end - start > WORD_BYTES:
        if load_word(text, pos) != load_word(text, start):
            return False
        pos, start = pos + WORD_BYTES, start + WORD_BYTES
    differing = load_word(text, pos) ^ load_word(text, start)
    return bool(differing << np.uint64(8 * (start + WORD_BYTES - end)) == 0)


@helper_inlined
def _skip_space(text: Bytes, pos: int) -> int:
    while byte_at(text, pos) <= ord(" ") and (
        byte_at(text, pos) == ord(" ")
        or byte_at(text, pos) == ord("\n")
        or byte_at(text, pos) == ord("\r")
        or byte_at(text, pos) == ord("\t")
    ):
        pos += 1
    return pos


@helper
def _end_of_span(text: Bytes, pos: int, opening: int, j: int, n: int) -> int:
    """Return where value j begins, from the end of the one before on; after the last, where the features end."""
    pos = _skip_space(text, pos)
    closing = opening + 2  # "]" after "[", "}" after "{"
    expected = opening if j == 0 else ord(",") if j < n else closing
    if byte_at(text, pos) != expected or not (opening == ord("[") or opening == ord("{")):
        return 0
    pos += 1
    if j == n or opening == ord("["):
        return _skip_space(text, pos)
    pos = _match(text, pos, _BEFORE_KEY)
    while byte_at(text, pos) != ord('"'):
        if byte_at(text, pos) < ord(" "):
            return 0
        pos += 2 if byte_at(text, pos) == ord("\\") else 1
    return _match(text, pos, _AFTER_KEY)


@helper_inlined
def _read_value(text: Bytes, start: int, takes_null: bool) -> tuple[float, int]:
    """Do what `_read_any_value` does, faster if it is a number that has at most 8 digits and no exponent."""
    one = np.uint64(1)
    minus = np.uint64(byte_at(text, start) == ord("-"))
    points = point_bits(text, start)
    length = trailing_zeros(~(digit_bits(text, start) | points | minus))
    end: Any = start + np.int64(length)
    points &= (one << length) - one
    point = trailing_zeros(points | one << length)
    has_point = np.uint64(points != 0)
    whole, decimals = point - minus, length - point - has_point
    if (
        whole - one >= np.uint64(WORD_BYTES)
        or (whole > one and byte_at(text, start + np.int64(minus)) == ord("0"))
        or whole + decimals > np.uint64(WORD_BYTES)
        or decimals < has_point
        or points & (points - one) != 0
        or byte_at(text, end) | 32 == ord("e")
    ):
        return _read_any_value(text, start, takes_null)
    value = short_decimal(text, end, whole + decimals, decimals, has_point)
    return (-value if minus else value) + 0.0, end


@helper
def _read_any_value(text: Bytes, start: int, takes_null: bool) -> tuple[float, int]:
    """Return the value at an offset, and where it ends: 0 if it is not one that JSON has and a model takes."""
    first = start + (byte_at(text, start) == ord("-"))
    pos = first
    while _is_digit(text, pos):
        pos += 1
    if pos == first or (pos > first + 1 and byte_at(text, first) == ord("0")):
        return np.nan, _match(text, start, _NULL) if takes_null else 0
    outcome, value, end = parse_number(text, start)
    has_decimals = byte_at(text, pos) != ord(".") or _is_digit(text, pos + 1)
    return value + 0.0, end if outcome == EXACT and has_decimals and np.isfinite(value) else 0


@helper_inlined
def _is_digit(text: Bytes, pos: int) -> bool:
    return bool(ord("0") <= byte_at(text, pos) <= ord("9"))


def arrange(documents: Sequence[Document] | Arranged, current: Current) -> Arranged:
    """Return the features of documents in the order of the model; for one that knows none yet, in theirs."""
    if isinstance(documents, Arranged):
        if documents.names == current.names and documents.X.shape[1] == current.n_features:
            return documents
        documents = documents.as_documents()
    if not documents:
        raise InvalidRequestError("documents must not be empty", "send at least one document")
    if len(documents) > MOST_DOCUMENTS:
        raise TooLargeError(f"a query may have {MOST_DOCUMENTS} documents, got {len(documents)}", "send the best ones")
    ids = [document.id for document in documents]
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidRequestError(f"ids of documents must differ, got {twice!r} twice", "give each an id of its own")
    names, n_features = current.names, current.n_features
    first = documents[0].features
    if names is None and n_features is None:
        n_features = len(first)
        if isinstance(first, dict):
            every = (name for document in documents for name in document.features if isinstance(name, str))
            names = tuple(dict.fromkeys(every))
    n = len(names) if names is not None else n_features or 0
    if not 0 < n <= MOST_FEATURES:
        raise InvalidRequestError(f"a document must have 1 to {MOST_FEATURES} features, got {n}", "send some features")
    if len(documents) * n > MOST_VALUES:
        raise TooLargeError(f"a query may have {MOST_VALUES} values, got {len(documents) * n}", "send fewer documents")
    rows: list[Sequence[float | None]] = []
    pick = itemgetter(*names) if names is not None and n > 1 else None
    for document in documents:
        features = document.features
        if isinstance(features, dict):
            if pick is not None and len(features) == n:
                try:
                    rows.append(pick(features))
                    continue
                except KeyError:
                    pass
            rows.append(_by_name(document, features, names, current))
        else:
            if len(features) != n:
                raise FeatureMismatchError(
                    f"document {document.id!r} has {len(features)} features, expected {n}",
                    "send all features, in the order of GET /v1/model",
                )
            rows.append(features)
    return Arranged(ids, _matrix(ids, rows, n, names, current), names)


def _by_name(
    document: Document, features: Mapping[str, float | None], names: tuple[str, ...] | None, current: Current
) -> Sequence[float | None]:
    if names is None:
        raise FeatureMismatchError(
            f"document {document.id!r} names its features, but those of the ranker have no names",
            "send lists of numbers",
        )
    known = set(names)
    if unknown := [name for name in features if name not in known]:
        raise FeatureMismatchError(
            f"document {document.id!r} has a feature {unknown[0]!r} that the ranker does not know",
            "send those of GET /v1/model only; a new feature needs a new ranker",
        )
    lacking = [name for name in names if name not in features]
    if lacking and not (current.takes_missing or current.zero_missing):
        raise FeatureMismatchError(f"document {document.id!r} lacks the feature {lacking[0]!r}", _MISSING)
    return [features.get(name) for name in names]


def _matrix(
    ids: list[str], rows: list[Sequence[float | None]], n_features: int, names: tuple[str, ...] | None, current: Current
) -> Floats:
    try:
        values = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * n_features)
    except TypeError:  # some are None
        filled = (math.nan if value is None else value for value in chain.from_iterable(rows))
        values = np.fromiter(filled, np.float64, len(rows) * n_features)
    if current.zero_missing:
        values[np.isnan(values)] = 0.0
    X = values.reshape(len(rows), n_features)
    bad = np.isinf(X) if current.takes_missing else ~np.isfinite(X)
    if bad.any():
        i, j = map(int, np.argwhere(bad)[0])
        raise InvalidRequestError(
            f"features must be finite numbers, got {X[i, j]} for feature {(names[j] if names else j + 1)!r} of "
            f"document {ids[i]!r}",
            _MISSING,
        )
    return cast(Floats, read_only(X + 0.0))  # -0 is 0


def graded(arranged: Arranged, grades: Mapping[str, float], *, omit: bool) -> tuple[list[str], Floats, Floats]:
    """Return ids, features and grades of the documents that are learned from; those without a grade have 0, or go."""
    if not grades:
        raise InvalidRequestError("grades must not be empty", "send the grade of at least one document, be it 0")
    known = set(arranged.ids)
    for name, grade in grades.items():
        if name not in known:
            raise UnknownError(f"there is no document {name!r} in the ranking", "grade the ids that were ranked")
        if not 0.0 <= grade < math.inf:
            raise InvalidRequestError(f"grades must be finite and not negative, got {grade} for {name!r}", "send 0")
    if omit and len(grades) < len(known):
        rows = [i for i, name in enumerate(arranged.ids) if name in grades]
        kept = [arranged.ids[i] for i in rows]
        return kept, arranged.X[rows], np.array([grades[name] for name in kept])
    return arranged.ids, arranged.X, np.array([grades.get(name, 0.0) for name in arranged.ids])
