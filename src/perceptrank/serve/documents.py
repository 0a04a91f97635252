"""Documents of a request, and the matrix of their features in the order of a model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Annotated, Any, TypeVar, cast

import msgspec
import numpy as np

from perceptrank.io.letor.decimals import EXACT, parse_number, short_decimal
from perceptrank.io.letor.words import (
    BLOCK_BYTES,
    PADDING,
    WORD_BYTES,
    byte_at,
    digit_bits,
    load_word,
    point_bits,
    trailing_zeros,
)
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

    In the usual form each document has all features of the model, in an order that they share. A plain decoder and
    `arrange` return the same in three times the time, because they make an object for each value; they also report
    the errors of other bodies.
    """
    n = current.n_features
    try:
        message: Any = _raw_decoder(kind).decode(body)
        documents = message.documents
        if n is None or not 0 < n <= MOST_FEATURES or len(documents) * n > MOST_VALUES:
            return None
        raw = [document.features for document in documents]
        columns = list(range(n))
        if bytes(raw[0])[:1] == b"{":
            places = {name: j for j, name in enumerate(msgspec.json.decode(raw[0]))}
            columns = [places[name] for name in current.names or ()]
            if len(columns) != len(places):
                return None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, KeyError):
        return None
    ids, X = [document.id for document in documents], np.empty((len(raw), n))
    text = np.frombuffer(b"".join([_ZEROS, *raw, _ZEROS]), np.uint8)
    if len(set(ids)) < len(ids) or not read_rows(text, np.empty((n, 2), np.int64), X):
        return None
    if columns != list(range(n)):
        X = X[:, columns]
    if _is_invalid(X, current).any():
        return None
    message.documents = Arranged(ids, read_only(X + 0.0), current.names)  # -0 is 0
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


class _RawDocument(msgspec.Struct, forbid_unknown_fields=True):
    id: Id
    features: msgspec.Raw


@lru_cache
def _raw_decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    documents = Annotated[list[_RawDocument], msgspec.Meta(min_length=1, max_length=MOST_DOCUMENTS)]
    return msgspec.json.Decoder(
        msgspec.defstruct(kind.__name__, [("documents", documents)], bases=(kind,), kw_only=True)
    )


@compiled
def read_rows(text: Bytes, keys: IntRows, X: Floats) -> bool:
    """Read JSON lists of numbers, or objects with keys that are spelled alike, into the rows of X; null is NaN.

    `text` is valid JSON, one list or object directly after the other, between `PADDING` bytes of 0 on both sides.
    `keys` is for the places of the keys in the first object. Returns False if the values are of another form.
    """
    pos, n = PADDING, X.shape[1]
    opening = byte_at(text, pos)
    closing = opening + 2  # "]" after "[", "}" after "{"
    if opening != ord("[") and opening != ord("{"):
        return False
    for i in range(len(X)):
        if byte_at(text, pos) != opening:
            return False
        for j in range(n):
            pos = _skip_space(text, pos + 1)
            if opening == ord("{"):
                if i == 0:
                    keys[j, 0], keys[j, 1] = pos, _end_of_string(text, pos)
                for key in range(keys[j, 0], keys[j, 1], WORD_BYTES):
                    differing = load_word(text, pos) ^ load_word(text, key)
                    n_bytes = min(keys[j, 1] - key, WORD_BYTES)
                    if differing << np.uint64(8 * (WORD_BYTES - n_bytes)) != 0:
                        return False
                    pos += n_bytes
                pos = _skip_space(text, _skip_space(text, pos) + 1)
            if byte_at(text, pos) == ord("n"):
                X[i, j] = np.nan
                pos += len("null")
            else:
                outcome, X[i, j], pos = _parse_number(text, pos)
                if outcome != EXACT:
                    return False
            pos = _skip_space(text, pos)
            if byte_at(text, pos) != (ord(",") if j + 1 < n else closing):
                return False
        pos += 1
    return True


@helper_inlined
def _skip_space(text: Bytes, pos: int) -> int:
    while 0 < byte_at(text, pos) <= ord(" "):
        pos += 1
    return pos


@helper_inlined
def _parse_number(text: Bytes, start: int) -> tuple[int, float, int]:
    """Do what `parse_number` does, faster if the number has at most 8 digits and no exponent."""
    minus = np.uint64(byte_at(text, start) == ord("-"))
    points = point_bits(text, start)
    length = trailing_zeros(~(digit_bits(text, start) | points | minus))
    point = min(trailing_zeros(points | np.uint64(1 << BLOCK_BYTES)), length)
    has_point = np.uint64(point < length)
    n_digits = length - minus - has_point
    end: Any = start + np.int64(length)
    if n_digits - np.uint64(1) >= np.uint64(WORD_BYTES) or byte_at(text, end) | 32 == ord("e"):
        return parse_number(text, start)
    value = short_decimal(text, end, n_digits, length - point - has_point, has_point)
    return EXACT, -value if minus else value, end


@helper
def _end_of_string(text: Bytes, pos: int) -> int:
    """Return the place after the string that starts at a quotation mark; the place itself if there is none."""
    if byte_at(text, pos) != ord('"'):
        return pos
    pos += 1
    while byte_at(text, pos) != ord('"'):
        pos += 2 if byte_at(text, pos) == ord("\\") else 1
    return pos + 1


def arrange(documents: Sequence[Document] | Arranged, current: Current) -> Arranged:
    """Return the features of documents in the order of the model; for one that knows none yet, in theirs."""
    if isinstance(documents, Arranged):
        if documents.names == current.names and documents.X.shape[1] == current.n_features:
            return documents
        documents = documents.as_documents()
    if not documents:
        raise InvalidRequestError("documents must not be empty", "send at least one document")
    if len(documents) > MOST_DOCUMENTS:
        raise TooLargeError(
            f"a query may have {MOST_DOCUMENTS} documents, got {len(documents)}", "send the best ones only"
        )
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
        raise TooLargeError(
            f"a query may have {MOST_VALUES} values of features, got {len(documents) * n}", "send fewer documents"
        )
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
    ids: list[str],
    rows: list[Sequence[float | None]],
    n_features: int,
    names: tuple[str, ...] | None,
    current: Current,
) -> Floats:
    try:
        values = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * n_features)
    except TypeError:  # some are None
        filled = (math.nan if value is None else value for value in chain.from_iterable(rows))
        values = np.fromiter(filled, np.float64, len(rows) * n_features)
    if current.zero_missing:
        values[np.isnan(values)] = 0.0
    X = values.reshape(len(rows), n_features)
    bad = _is_invalid(X, current)
    if bad.any():
        i, j = map(int, np.argwhere(bad)[0])
        raise InvalidRequestError(
            f"features must be finite numbers, got {X[i, j]} for feature {(names[j] if names else j + 1)!r} of "
            f"document {ids[i]!r}",
            _MISSING,
        )
    return cast(Floats, read_only(X + 0.0))  # -0 is 0


def _is_invalid(X: Floats, current: Current) -> np.ndarray:
    return np.isinf(X) if current.takes_missing else ~np.isfinite(X)


def graded(arranged: Arranged, grades: Mapping[str, float], *, omit: bool) -> tuple[list[str], Floats, Floats]:
    """Return ids, features and grades of the documents that are learned from; those without a grade have 0, or go."""
    if not grades:
        raise InvalidRequestError("grades must not be empty", "send the grade of at least one document, be it 0")
    known = set(arranged.ids)
    for name, grade in grades.items():
        if name not in known:
            raise UnknownError(
                f"there is no document {name!r} in the ranking", "grade documents by the ids they were ranked with"
            )
        if not 0.0 <= grade < math.inf:
            raise InvalidRequestError(f"grades must be finite and not negative, got {grade} for {name!r}", "send 0")
    if omit and len(grades) < len(known):
        rows = [i for i, name in enumerate(arranged.ids) if name in grades]
        kept = [arranged.ids[i] for i in rows]
        return kept, arranged.X[rows], np.array([grades[name] for name in kept])
    return arranged.ids, arranged.X, np.array([grades.get(name, 0.0) for name in arranged.ids])
