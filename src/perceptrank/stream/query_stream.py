"""Judged queries as arrays: `Query` is one of them, `QueryStream` many.

A stream is checked once, when it is made. Learning and evaluation take an iterable of streams ("blocks") as well as one
stream, so data larger than memory needs no second code path.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.frames import make_frame
from perceptrank.stream.validation import (
    as_comments,
    as_features,
    as_grades,
    as_identifiers,
    as_names,
    check_finite,
    column_names,
    read_only,
)

BLOCK_BYTES = 16 * 2**20


class Query(NamedTuple):
    """The documents of one query: features (documents x features), grades, and the query's identifier."""

    X: Features
    relevance: Floats
    qid: Hashable


class QueryStream:
    """A sequence of judged queries, stored as one ragged batch.

    ``X`` holds the features of all documents (float32 or float64, C-contiguous, possibly memory-mapped), ``relevance``
    their grades, ``offsets`` where each query starts (rows ``offsets[q] : offsets[q + 1]`` are query q's), ``qids`` one
    identifier per query. ``feature_names`` and ``comments`` (a text per document) are None where there are none. All
    arrays are read-only; the features are a view of what was given wherever possible.

    >>> stream = QueryStream.from_arrays([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]], [1, 0, 2], qid=["a", "a", "b"])
    >>> stream
    QueryStream(2 queries, 3 documents, 2 features)
    >>> [query.qid for query in stream]
    ['a', 'b']
    """

    X: Features
    relevance: Floats
    offsets: Ints
    qids: npt.NDArray[Any]
    feature_names: tuple[str, ...] | None
    comments: npt.NDArray[Any] | None

    def __init__(
        self,
        X: npt.ArrayLike,
        relevance: npt.ArrayLike,
        offsets: npt.ArrayLike,
        *,
        qids: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        comments: Sequence[str] | npt.NDArray[Any] | None = None,
    ) -> None:
        """Make a stream of rows that already stand query by query; see `from_arrays` for rows that do not."""
        features = as_features(X)
        if features.shape[0] == 0:
            raise ValueError("X must hold at least one document, got none")
        names = as_names(feature_names, features.shape[1])
        check_finite(features, names)
        grades = as_grades(relevance, features.shape[0]).copy()
        bounds = np.asarray(offsets)
        if bounds.dtype.kind not in "iu":
            raise ValueError(f"offsets must be whole numbers, got {offsets!r}")
        bounds = bounds.astype(np.int64)
        if bounds.ndim != 1 or len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != len(features):
            raise ValueError(f"offsets must run from 0 to the number of documents ({len(features)}), got {offsets!r}")
        if not (bounds[1:] > bounds[:-1]).all():
            q = int(np.argmin(bounds[1:] > bounds[:-1]))
            raise ValueError(f"offsets must increase, every query having a document, but not after query number {q}")
        n_queries = len(bounds) - 1
        identifiers = np.arange(n_queries) if qids is None else np.asarray(qids)
        if identifiers.shape != (n_queries,):
            raise ValueError(f"qids must name each of the {n_queries} queries, got shape {identifiers.shape}")
        self._set(features, grades, bounds, identifiers, names, as_comments(comments, len(features)))

    def _set(
        self,
        X: Features,
        relevance: Floats,
        offsets: Ints,
        qids: npt.NDArray[Any],
        feature_names: tuple[str, ...] | None,
        comments: npt.NDArray[Any] | None,
    ) -> None:
        self.X = read_only(X)
        self.relevance = read_only(relevance)
        self.offsets = read_only(offsets)
        self.qids = read_only(qids)
        self.feature_names = feature_names
        self.comments = None if comments is None else read_only(comments)

    @classmethod
    def _trusted(
        cls,
        X: Features,
        relevance: Floats,
        offsets: Ints,
        qids: npt.NDArray[Any],
        feature_names: tuple[str, ...] | None,
        comments: npt.NDArray[Any] | None = None,
    ) -> "QueryStream":
        """A stream of parts that come from a checked one."""
        stream = cls.__new__(cls)
        stream._set(X, relevance, offsets, qids, feature_names, comments)
        return stream

    @classmethod
    def from_arrays(
        cls,
        X: npt.ArrayLike,
        relevance: npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        comments: Sequence[str] | npt.NDArray[Any] | None = None,
    ) -> "QueryStream":
        """Make a stream of one row per document.

        Parameters
        ----------
        X : array of shape (documents, features)
            float32 and float64 are kept as they are, without a copy if C-contiguous; of other types, those that
            float32 holds exactly (small integers, booleans, float16) become float32, the rest float64.
        relevance : array of shape (documents,)
            Grades: finite numbers, not negative.
        qid : array of shape (documents,), optional
            The query of each row, in any order. Queries come in the order of their first row.
        group : array of shape (queries,), optional
            Instead of qid: how many consecutive rows each query has. With neither, all rows are one query.
        feature_names : sequence of str, optional
            One name per column. Column names of a data frame are taken by themselves.
        comments : sequence of str, optional
            A text per document, such as its name; kept with it.
        """
        if feature_names is None:
            feature_names = column_names(X)
        if qid is not None and group is not None:
            raise ValueError("give qid or group, not both")
        features = as_features(X)
        grades = as_grades(relevance, len(features))
        if qid is None:
            sizes = np.array([len(features)]) if group is None else as_sizes(group, len(features))
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            return QueryStream(features, grades, offsets, feature_names=feature_names, comments=comments)
        rows, offsets, qids = group_rows(qid, len(features))
        texts = as_comments(comments, len(features))
        if rows is not None:
            features, grades = features[rows], grades[rows]
            texts = None if texts is None else texts[rows]
        return QueryStream(features, grades, offsets, qids=qids, feature_names=feature_names, comments=texts)

    @classmethod
    def from_frame(
        cls, frame: Any, *, qid: str = "qid", relevance: str = "relevance", features: Sequence[str] | None = None
    ) -> "QueryStream":
        """Make a stream of a pandas or polars data frame with one row per document.

        `qid` and `relevance` name their columns; `features` the feature columns, or the one column of lists, by default
        all others. A column called ``comment`` becomes the stream's comments, if it holds text.
        """
        if not hasattr(frame, "columns") or not hasattr(frame, "to_numpy"):
            raise TypeError(f"frame must be a pandas or polars DataFrame, got {type(frame).__name__}")
        if isinstance(features, str):
            features = [features]
        columns = list(frame.columns)
        missing = [name for name in [qid, relevance, *(features or [])] if name not in columns]
        if missing:
            raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}; it has {columns}")
        comments = _text_column(frame, "comment") if "comment" not in (features or ()) else None
        kept = (qid, relevance) if comments is None else (qid, relevance, "comment")
        chosen = [name for name in columns if name not in kept] if features is None else list(features)
        if not chosen:
            raise ValueError(f"the frame has no feature columns, only {columns}")
        lists = _list_column(frame, chosen[0]) if len(chosen) == 1 else None
        return QueryStream.from_arrays(
            frame[chosen].to_numpy() if lists is None else lists,
            frame[relevance].to_numpy(),
            qid=frame[qid].to_numpy(),
            feature_names=None if lists is not None else [str(name) for name in chosen],
            comments=comments,
        )

    def to_frame(self, library: str = "pandas") -> Any:
        """A data frame with one row per document: columns `qid`, `relevance`, the features, and `comment` if there are.

        Features are called by their names, or ``f1``, ``f2``, …. `library` is "pandas" or "polars", which must be
        installed.
        """
        columns: dict[str, Any] = {"qid": np.repeat(self.qids, np.diff(self.offsets)), "relevance": self.relevance}
        columns |= {name: self.X[:, j] for j, name in enumerate(frame_columns(self))}
        if self.comments is not None:
            columns["comment"] = self.comments.tolist()
        return make_frame(columns, library)

    @classmethod
    def concatenate(cls, streams: Iterable["QueryStream"]) -> "QueryStream":
        """One stream of all queries of several, in order."""
        parts = list(streams)
        if not parts:
            raise ValueError("concatenate needs at least one stream, got none")
        first = parts[0]
        for part in parts[1:]:
            if part.n_features != first.n_features or part.feature_names != first.feature_names:
                raise ValueError(
                    f"streams must have the same features, got {first.n_features} ({first.feature_names}) "
                    f"and {part.n_features} ({part.feature_names})"
                )
        starts = np.cumsum([0] + [part.n_documents for part in parts])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
        return QueryStream._trusted(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.relevance for part in parts]),
            np.concatenate([*offsets, starts[-1:]]),
            np.concatenate([part.qids for part in parts]),
            first.feature_names,
            _concatenate_comments(parts),
        )

    @property
    def n_queries(self) -> int:
        """Number of queries; also `len(stream)`."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """Number of documents of all queries."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of a document."""
        return int(self.X.shape[1])

    def __len__(self) -> int:
        return self.n_queries

    def __repr__(self) -> str:
        return f"QueryStream({self.n_queries} queries, {self.n_documents} documents, {self.n_features} features)"

    def __iter__(self) -> Iterator[Query]:
        for q in range(self.n_queries):
            yield self[q]

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: "slice | npt.ArrayLike") -> "QueryStream": ...
    def __getitem__(self, index: Any) -> "Query | QueryStream":
        """A number gives a `Query`; a slice, or an array of numbers or booleans, a stream of those queries."""
        if isinstance(index, (int, np.integer)):
            q = range(self.n_queries)[index]
            rows = slice(self.offsets[q], self.offsets[q + 1])
            qid = self.qids[q]
            return Query(self.X[rows], self.relevance[rows], qid.item() if isinstance(qid, np.generic) else qid)
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(self.n_queries)
            stop = max(start, stop)
            rows = slice(self.offsets[start], self.offsets[stop])
            return QueryStream._trusted(
                self.X[rows],
                self.relevance[rows],
                self.offsets[start : stop + 1] - self.offsets[start],
                self.qids[start:stop],
                self.feature_names,
                None if self.comments is None else self.comments[rows],
            )
        chosen = np.asarray(index) if not isinstance(index, slice) else index
        if not isinstance(chosen, slice) and (chosen.ndim != 1 or chosen.dtype.kind not in "iub"):
            raise TypeError(f"queries are chosen by a number, a slice, or a list of numbers or booleans, got {index!r}")
        return self._take(np.arange(self.n_queries)[chosen])

    def _take(self, queries: Ints, rng: np.random.Generator | None = None) -> "QueryStream":
        """Copies of the given queries in the given order, the documents inside each shuffled if there is an rng."""
        sizes = np.diff(self.offsets)[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - self.offsets[:-1][queries], sizes)
        if rng is not None:
            inside = np.lexsort((rng.random(len(rows)), np.repeat(np.arange(len(queries)), sizes)))
            rows = rows[inside]
        comments = None if self.comments is None else self.comments[rows]
        return QueryStream._trusted(
            self.X[rows], self.relevance[rows], offsets, self.qids[queries], self.feature_names, comments
        )

    def __add__(self, other: "QueryStream") -> "QueryStream":
        return self.concatenate([self, other])

    def blocks(self, max_bytes: int = BLOCK_BYTES) -> Iterator["QueryStream"]:
        """The stream in consecutive pieces of at most max_bytes of features, without copies; a query is never split."""
        rows = max(1, max_bytes // max(1, self.n_features * self.X.itemsize))
        start = 0
        while start < self.n_queries:
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + rows, side="right")) - 1
            stop = max(stop, start + 1)
            yield self[start:stop]
            start = stop

    def shuffled(self, seed: int | np.random.Generator, *, documents: bool = False) -> "QueryStream":
        """A copy with the queries in random order and, if asked, the documents inside each query too."""
        rng = np.random.default_rng(seed)
        return self._take(rng.permutation(self.n_queries), rng if documents else None)

    def split(self, *fractions: float, seed: int | np.random.Generator | None = None) -> list["QueryStream"]:
        """Cut the stream into parts with these fractions of its queries; what is left, if anything, is one more part.

        >>> stream = QueryStream.from_arrays(np.eye(10), np.arange(10), group=[1] * 10)
        >>> [len(part) for part in stream.split(0.8)], [len(part) for part in stream.split(0.5, 0.25, 0.25)]
        ([8, 2], [5, 3, 2])
        """
        if not all(isinstance(one, (int, float, np.floating)) for one in fractions):
            raise TypeError(f"fractions must be numbers, as in split(0.8) or split(0.6, 0.2, 0.2), got {fractions}")
        if not fractions or not all(one > 0 for one in fractions) or sum(fractions) > 1 + 1e-9:
            raise ValueError(f"fractions must be positive and add up to at most 1, got {fractions}")
        stream = self if seed is None else self.shuffled(seed)
        total = sum(fractions)
        cuts = [round(self.n_queries * float(share)) for share in np.cumsum(fractions)]
        bounds = [0, *cuts] if total > 1 - 1e-9 else [0, *cuts, self.n_queries]
        parts = [stream[start:stop] for start, stop in pairwise(bounds)]
        if not all(len(part) for part in parts):
            sizes = [len(part) for part in parts]
            raise ValueError(f"a stream of {self.n_queries} queries is too short for fractions {fractions}: {sizes}")
        return parts

    def with_features(self, X: Features) -> "QueryStream":
        """The same judgments over other features, finite numbers, one row per document."""
        X = as_features(X)
        if X.shape[0] != self.n_documents:
            raise ValueError(f"X must have {self.n_documents} rows, got {X.shape[0]}")
        names = self.feature_names if X.shape[1] == self.n_features else None
        return QueryStream._trusted(X, self.relevance, self.offsets, self.qids, names, self.comments)


def frame_columns(stream: QueryStream) -> tuple[str, ...]:
    """What features are called as columns of a table, beside those for query, grade and comment."""
    names = stream.feature_names or tuple(f"f{j + 1}" for j in range(stream.n_features))
    taken = {"qid", "relevance", "comment"} & set(names)
    if taken or len(set(names)) < len(names):
        raise ValueError(f"feature names must be distinct, and not {sorted(taken)}, to be names of columns")
    return names


def _list_column(frame: Any, name: str) -> npt.NDArray[Any] | None:
    """A column of lists as a matrix; None if it is an ordinary one."""
    values = frame[name].to_numpy()
    if values.ndim == 2:
        return cast(npt.NDArray[Any], values)
    if len(values) == 0 or not isinstance(values[0], (list, np.ndarray)):
        return None
    lengths = {len(one) if isinstance(one, (list, np.ndarray)) else 0 for one in values}
    if len(lengths) > 1:
        raise ValueError(f"the lists of column {name!r} must have one length, got {sorted(lengths)}")
    return np.stack(list(values))


def _text_column(frame: Any, name: str) -> list[str] | None:
    """A column of a frame, if it is there and text, nothing where it is missing."""
    if name not in list(frame.columns):
        return None
    values = frame[name].to_list()
    texts = ["" if one is None or one != one else one for one in values]  # noqa: PLR0124
    return texts if any(isinstance(one, str) for one in values) and all(isinstance(one, str) for one in texts) else None


def _concatenate_comments(parts: list[QueryStream]) -> npt.NDArray[Any] | None:
    if all(part.comments is None for part in parts):
        return None
    return np.concatenate(
        [np.full(part.n_documents, "", object) if part.comments is None else part.comments for part in parts]
    )


class Scan:
    """Blocks that are made anew each time they are gone through: streams that need not fit into memory.

    `learn`, `evaluate`, `compare` and all that write streams take a scan too.
    """

    def __init__(self, start: Callable[[], Iterator[QueryStream]], description: str) -> None:
        self._start, self._description = start, description

    def __iter__(self) -> Iterator[QueryStream]:
        return self._start()

    def __repr__(self) -> str:
        return f"Scan({self._description})"


Blocks: TypeAlias = QueryStream | Iterable[QueryStream]


def check_repeatable(stream: Blocks) -> None:
    """Raise if a stream can be gone through only once."""
    if not isinstance(stream, QueryStream) and iter(stream) is stream:
        raise TypeError("the stream must be one that can be gone through again: a QueryStream, a Scan, or a list")


def as_blocks(stream: Blocks) -> Iterator[QueryStream]:
    """The streams of an iterable, or the one stream there is, without those that have no queries."""
    if not isinstance(stream, Iterable):
        raise TypeError(f"a QueryStream or an iterable of them is needed, got {type(stream).__name__}")
    for block in [stream] if isinstance(stream, QueryStream) else stream:
        if not isinstance(block, QueryStream):
            raise TypeError(f"a QueryStream or an iterable of them is needed, got one of {type(block).__name__}")
        if len(block) > 0:
            yield block


def as_sizes(group: npt.ArrayLike, n_documents: int) -> Ints:
    """How many documents each query has, checked."""
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu":
        raise ValueError(f"group must be a list of whole numbers, one per query, got {group!r}")
    if sizes.min() < 1:
        q = int(np.argmax(sizes < 1))
        raise ValueError(f"group must give every query at least one document, got {sizes[q]} for query number {q}")
    if sizes.max() > n_documents or sizes.sum() != n_documents:
        total = sum(sizes.tolist())
        raise ValueError(f"group must add up to the number of documents ({n_documents}), got {total}")
    return sizes.astype(np.int64)


def group_rows(qid: npt.ArrayLike, n_documents: int) -> tuple[Ints | None, Ints, npt.NDArray[Any]]:
    """(rows, offsets, qids): which rows, in order, make up the queries; rows is None if they stand that way already."""
    identifiers = as_identifiers(qid)
    if identifiers.shape != (n_documents,):
        raise ValueError(f"qid must have one entry per document ({n_documents}), got shape {identifiers.shape}")
    if n_documents == 0:
        raise ValueError("X must hold at least one document, got none")
    starts = np.concatenate([[0], np.flatnonzero(identifiers[1:] != identifiers[:-1]) + 1])
    return group_runs(identifiers[starts], np.append(starts, n_documents))


def group_runs(qids: npt.NDArray[Any], bounds: Ints) -> tuple[Ints | None, Ints, npt.NDArray[Any]]:
    """As `group_rows`, for runs of rows, those between two bounds, each with its query's id."""
    seen: dict[Any, int] = {}
    try:
        codes = np.array([seen.setdefault(name, len(seen)) for name in qids.tolist()])
    except TypeError as error:
        raise TypeError(f"qid must hold values that can be compared and hashed: {error}") from None
    if len(seen) == len(qids):
        return None, bounds, qids
    query_of_row = np.repeat(codes, np.diff(bounds))
    rows = np.argsort(query_of_row, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query_of_row))])
    _, first_runs = np.unique(codes, return_index=True)
    return rows, offsets, qids[first_runs]
