"""Documents of a request, and the matrix of their features in the order of a model."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.serve.errors import FeatureMismatchError, InvalidRequestError, TooLargeError, UnknownError
from perceptrank.serve.replay import Current

MOST_DOCUMENTS = 10_000
MOST_FEATURES = 100_000
MOST_VALUES = 5_000_000
LONGEST_ID = 200
_MOST_FIELDS = 256  # of a type of documents: finding a name that is out of order takes a step for each

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]
Features = dict[str, float | None] | list[float | None]


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


def decode_query(kind: type[Message], body: bytes, current: Current) -> Message | None:
    """Return a message whose `documents` have exactly the model's features by name; None for any other body.

    A plain decoder returns the same message in twice the time, with a dict for each document; it also reports errors.
    """
    if current.names is None or (decoder := _query_decoder(kind, current.names, current.takes_missing)) is None:
        return None
    try:
        message: Message = decoder.decode(body)
        return message
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=64)
def _query_decoder(
    kind: type[msgspec.Struct], names: tuple[str, ...], takes_missing: bool
) -> msgspec.json.Decoder[Any] | None:
    if len(names) > _MOST_FIELDS:
        return None
    fields = [(f"f{j}", float | None, None) if takes_missing else (f"f{j}", float) for j in range(len(names))]
    spelled = {f"f{j}": name for j, name in enumerate(names)}
    try:
        row = msgspec.defstruct("Row", fields, rename=spelled, forbid_unknown_fields=True, gc=False)
    except ValueError:  # of names that JSON spells with escapes
        return None
    document = msgspec.defstruct("Document", [("features", row | list[float | None])], bases=(Document,))
    documents = Annotated[list[document], msgspec.Meta(min_length=1, max_length=MOST_DOCUMENTS)]  # type: ignore[valid-type]
    return msgspec.json.Decoder(
        msgspec.defstruct(kind.__name__, [("documents", documents)], bases=(kind,), kw_only=True)
    )


def arrange(documents: Sequence[Document], current: Current) -> Arranged:
    """Return the features of documents in the order of the model; for one that knows none yet, in theirs."""
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
    row_type, fits = None, False
    for document in documents:
        features: Any = document.features
        if isinstance(features, msgspec.Struct):
            if type(features) is not row_type:
                row_type, fits = type(features), features.__struct_encode_fields__ == names
            if fits:
                rows.append(msgspec.structs.astuple(features))
                continue
            features = dict(zip(features.__struct_encode_fields__, msgspec.structs.astuple(features), strict=True))
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
    if lacking and not current.takes_missing:
        raise FeatureMismatchError(
            f"document {document.id!r} lacks the feature {lacking[0]!r}",
            "send a number for it, or serve a model with the transform 'missing' first",
        )
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
    X = values.reshape(len(rows), n_features)
    bad = np.isinf(X) if current.takes_missing else ~np.isfinite(X)
    if bad.any():
        i, j = map(int, np.argwhere(bad)[0])
        raise InvalidRequestError(
            f"features must be finite numbers, got {X[i, j]} for feature {(names[j] if names else j + 1)!r} of "
            f"document {ids[i]!r}",
            "send a number, or serve a model with the transform 'missing' first",
        )
    X.flags.writeable = False
    return X


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
