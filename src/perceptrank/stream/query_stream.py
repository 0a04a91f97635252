"""Judged queries, or impressions with clicks, as arrays, validated once, when a stream is constructed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.columns import (
    CLICKED,
    COMMENT,
    DOCID,
    EXAMINED,
    OF_JUDGED,
    PLACE,
    PROPENSITY,
    QID,
    RELEVANCE,
    WEIGHT,
    Values,
    convert_columns,
    find_column,
    join_columns,
    optional_columns,
    take_rows,
)
from perceptrank.stream.grouping import as_sizes, group_rows
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures, concatenate_features, dense
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import (
    as_any_features,
    as_features,
    as_names,
    as_offsets,
    check_choice,
    check_finite,
    column_names,
    read_only,
    without_missing,
)

BLOCK_BYTES = 16 * 2**20
MISSING = ("error", "keep", "zero")
_FIXED = frozenset(("X", "offsets", "columns", "relevance", "qids", "comments", "docids", "query_weights"))
_FIXED |= {PLACE, CLICKED, EXAMINED, PROPENSITY}
_NO_COLUMNS: Mapping[str, Any] = {}


class _JudgedDocuments(NamedTuple):
    X: AnyFeatures
    relevance: Floats
    qid: Hashable


class Query(_JudgedDocuments):
    """The judged documents of one query; as a tuple, ``(X, relevance, qid)``.

    Attributes
    ----------
    X : array of shape (documents, features)
    relevance : array of shape (documents,)
        Grades; None in a stream without grades.
    qid : hashable
        Identifier of the query.
    docids : Texts or None
        Identifiers of the documents.
    weight : float
        Weight of the query.
    columns : mapping of str to array, `Texts` or scalar
        Values of the other columns of the stream: several if the column is per document, one if it is per query.
    """

    docids: Texts | None
    weight: float
    columns: Mapping[str, Any] = _NO_COLUMNS

    def __new__(
        cls, X: AnyFeatures, relevance: Floats, qid: Hashable, docids: Texts | None = None, weight: float = 1.0
    ) -> Query:
        """Hold the arrays of a query."""
        query = super().__new__(cls, X, relevance, qid)
        query.docids, query.weight = docids, weight
        return query


class QueryStream:
    """A sequence of judged queries, or of impressions, stored as one ragged batch.

    An impression is a query with the places of its documents, and the clicks; a stream has grades, clicks or both. The
    constructor takes rows that are grouped by query; `from_arrays` groups them. All arrays are read-only.

    Parameters
    ----------
    X : array of shape (documents, features), sparse matrix or SparseFeatures
        Finite features; sparse ones stay sparse. float32 and float64 are kept, without a copy if C-contiguous (so X may
        be memory-mapped); others become float32 if it holds them exactly (small integers, booleans, float16), else
        float64. A log of clicks may have no features, shape (documents, 0).
    relevance : array of shape (documents,), or None
        Grades, finite and non-negative; None if there are clicks only.
    offsets : array of int of shape (queries + 1,)
        Rows ``offsets[q] : offsets[q + 1]`` belong to query q.
    qids : array of shape (queries,), optional
        Identifier of each query; default 0, 1, ….
    feature_names : sequence of str, optional
        One name per column of `X`.
    comments : sequence of str, optional
        One text per document, such as a note.
    docids : sequence of str, optional
        One identifier per document; whole numbers become text.
    query_weights : array of shape (queries,), optional
        Weight of each query, finite and not negative: it scales the step of learners, and the query's share of means.
    place : array of int of shape (documents,), optional
        Place at which each document was shown, from 1 on; 0 if it was not shown. Two documents of a query cannot have
        the same place.
    clicked : array of shape (documents,), optional
        1 for a click, 0 for none, or a number in between, such as a weight by the time that was spent reading.
    examined : array of shape (documents,), optional
        1 if the user looked at the document, 0 if not, NaN if that is unknown.
    propensity : array of shape (documents,), optional
        Probability that the policy shows the document at its place, given the coins that it logs; NaN if unknown.
    columns : mapping of str to array, optional
        Values of other columns, one per document or per query. Impressions have ``time``, ``policy``, ``session`` and
        ``user_query``, the text that many of them share; `perceptrank.stream.columns.declare` adds others. Values per
        query, such as weights, may also be given for each document, the same for all documents of a query.
    missing : "error", "keep", or "zero"
        What to do with features that are NaN: refuse them, keep them for a learner whose first transform is `Missing`,
        or take them for 0.

    Examples
    --------
    >>> stream = QueryStream.from_arrays([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]], [1, 0, 2], qid=["a", "a", "b"])
    >>> stream
    QueryStream(2 queries, 3 documents, 2 features)
    >>> [query.qid for query in stream]
    ['a', 'b']
    >>> QueryStream.from_arrays([[1.0], [2.0], [3.0]], place=[1, 2, 0], clicked=[0, 1, 0])
    QueryStream(1 queries, 3 documents, 1 features, 2 shown, 1 clicked)
    """

    X: AnyFeatures
    offsets: Ints
    feature_names: tuple[str, ...] | None
    _documents: dict[str, Any]  # columns per document
    _queries: dict[str, Any]  # columns per query
    _has_added: bool  # columns that are not attributes of a query

    def __init__(
        self,
        X: npt.ArrayLike | SparseFeatures,
        relevance: npt.ArrayLike | None,
        offsets: npt.ArrayLike,
        *,
        qids: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        comments: Sequence[str] | npt.NDArray[Any] | None = None,
        docids: Sequence[str] | npt.NDArray[Any] | None = None,
        query_weights: npt.ArrayLike | None = None,
        place: npt.ArrayLike | None = None,
        clicked: npt.ArrayLike | None = None,
        examined: npt.ArrayLike | None = None,
        propensity: npt.ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
        missing: Literal["error", "keep", "zero"] = "error",
    ) -> None:
        check_choice("missing", missing, MISSING)
        given = {RELEVANCE: relevance, DOCID: docids, WEIGHT: query_weights, COMMENT: comments}
        given |= {PLACE: place, CLICKED: clicked, EXAMINED: examined, PROPENSITY: propensity}
        values = _by_column(given, columns)
        features = as_any_features(X, feature_names, may_be_empty=values[CLICKED] is not None)
        if features.shape[0] == 0:
            raise ValueError("X must hold at least one document, got none")
        names = as_names(feature_names, features.shape[1])
        if missing == "zero":
            features = without_missing(features)
        check_finite(features, names, keep_missing=missing == "keep")
        bounds = as_offsets(offsets, features.shape[0]).copy()
        self._set(features, bounds, *convert_columns({QID: qids, **values}, bounds), names)

    def _set(
        self,
        X: AnyFeatures,
        offsets: Ints,
        documents: Mapping[str, Values | None],
        queries: Mapping[str, Values | None],
        feature_names: tuple[str, ...] | None,
    ) -> None:
        vars(self).update(
            X=read_only(X),
            offsets=read_only(offsets),
            feature_names=feature_names,
            _documents={name: read_only(values) for name, values in documents.items() if values is not None},
            _queries={name: read_only(values) for name, values in queries.items() if values is not None},
        )
        vars(self)["_has_added"] = not (self._documents.keys() <= OF_JUDGED and self._queries.keys() <= OF_JUDGED)

    def __setattr__(self, name: str, value: Any) -> None:
        # Compiled code does not check again that the arrays fit together.
        if name in _FIXED:
            raise AttributeError(f"{name} of a stream cannot be replaced: make a new stream, as with_features does")
        super().__setattr__(name, value)

    @classmethod
    def _trusted(
        cls,
        X: AnyFeatures,
        offsets: Ints,
        documents: Mapping[str, Values | None],
        queries: Mapping[str, Values | None],
        feature_names: tuple[str, ...] | None = None,
    ) -> QueryStream:
        """Construct a stream from valid arrays, columns per document and columns per query; None is no column."""
        stream = cls.__new__(cls)
        stream._set(X, offsets, documents, queries, feature_names)
        return stream

    def _without_grades(self) -> QueryStream:
        documents = {name: values for name, values in self._documents.items() if name != RELEVANCE}
        return QueryStream._trusted(self.X, self.offsets, documents, self._queries, self.feature_names)

    @property
    def columns(self) -> Mapping[str, Values]:
        """All columns by name, such as ``qid``, ``relevance``, ``docid``, ``query_weight`` and ``clicked``."""
        return MappingProxyType({**self._documents, **self._queries})

    @property
    def relevance(self) -> Floats:
        """Grades of the documents; `ValueError` if there are none."""
        if RELEVANCE not in self._documents:
            raise missing_columns(self, "this", (RELEVANCE,))
        return cast(Floats, self._documents[RELEVANCE])

    @property
    def place(self) -> npt.NDArray[np.int32] | None:
        """Places at which documents were shown, from 1 on; 0 for those that were not."""
        return self._documents.get(PLACE)

    @property
    def clicked(self) -> Floats | None:
        """Clicks on documents, from 0 to 1."""
        return self._documents.get(CLICKED)

    @property
    def examined(self) -> Floats | None:
        """1 for documents that the user looked at, 0 for others, NaN where that is unknown."""
        return self._documents.get(EXAMINED)

    @property
    def propensity(self) -> Floats | None:
        """Probability that the policy shows the document at its place; NaN where it is unknown."""
        return self._documents.get(PROPENSITY)

    @property
    def qids(self) -> npt.NDArray[Any]:
        """Identifiers of the queries."""
        return cast(npt.NDArray[Any], self._queries[QID])

    @property
    def docids(self) -> Texts | None:
        """Identifiers of the documents."""
        return self._documents.get(DOCID)

    @property
    def comments(self) -> Texts | None:
        """A text for each document."""
        return self._documents.get(COMMENT)

    @property
    def query_weights(self) -> Floats | None:
        """Query weights; None if all are 1."""
        return self._queries.get(WEIGHT)

    @classmethod
    def from_arrays(
        cls,
        X: npt.ArrayLike | SparseFeatures,
        relevance: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        comments: Sequence[str] | npt.NDArray[Any] | None = None,
        docids: Sequence[str] | npt.NDArray[Any] | None = None,
        query_weights: npt.ArrayLike | None = None,
        place: npt.ArrayLike | None = None,
        clicked: npt.ArrayLike | None = None,
        examined: npt.ArrayLike | None = None,
        propensity: npt.ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
        missing: Literal["error", "keep", "zero"] = "error",
    ) -> QueryStream:
        """Build a stream from arrays with one row per document; other parameters are those of `QueryStream`.

        Parameters
        ----------
        qid : array of shape (documents,), optional
            Query of each row; rows of a query need not be adjacent. Queries are ordered by their first row.
        group : array of int of shape (queries,), optional
            Number of consecutive rows of each query; `ValueError` beside `qid`. Without either, all rows are one query.
        feature_names : sequence of str, optional
            One name per column; default the column names of `X` if it is a data frame.
        query_weights : array, optional
            One weight per query, in the order of the queries' first rows, or one per document.
        """
        if feature_names is None:
            feature_names = column_names(X)
        if qid is not None and group is not None:
            raise ValueError("give qid or group, not both")
        given = {RELEVANCE: relevance, DOCID: docids, WEIGHT: query_weights, COMMENT: comments}
        given |= {PLACE: place, CLICKED: clicked, EXAMINED: examined, PROPENSITY: propensity}
        values = _by_column(given, columns)
        features = as_any_features(X, feature_names, may_be_empty=values[CLICKED] is not None)
        n_documents = features.shape[0]
        qids = None
        if qid is None:
            sizes = np.array([n_documents]) if group is None else as_sizes(group, n_documents)
            offsets = np.concatenate([[0], np.cumsum(sizes)])
        else:
            rows, offsets, qids = group_rows(qid, n_documents)
            if rows is not None:
                features = features[rows]
                values = {name: _in_order(name, column, rows, len(qids)) for name, column in values.items()}
        return QueryStream(
            features,
            values.pop(RELEVANCE),
            offsets,
            qids=qids,
            feature_names=feature_names,
            columns=values,
            missing=missing,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        qid: str = "qid",
        relevance: str = "relevance",
        features: Sequence[str] | None = None,
        categories: Sequence[str] = (),
        missing: Literal["error", "keep", "zero"] = "error",
    ) -> QueryStream:
        """Build a stream from a pandas or polars data frame with one row per document.

        Declared columns, such as ``docid``, ``query_weight`` and, if it has text, ``comment``, become columns of the
        stream, unless they are among `features`; those of impressions do if ``place`` and ``clicked`` are both there.

        Parameters
        ----------
        frame : data frame of pandas or polars
        qid, relevance : str
            Columns of the query identifiers and the grades; impressions need no grades, and no features.
        features : sequence of str, optional
            Feature columns, or the one column of lists; default all other columns. ``"colour=red"`` is 1 where the
            column ``colour`` has that value, so that ``ranker.feature_names_in_`` encodes later data alike.
        categories : str or sequence of str
            Columns of text or numbers to encode, by a feature such as ``colour=red`` for each value that occurs; one
            that is missing has none. Learners encode later frames alike; new values count as missing, with a warning.
        missing : "error", "keep", or "zero"
            See `QueryStream`.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": [1, 1], "relevance": [1, 0], "price": [2.0, 3.0], "colour": ["red", "blue"]})
        >>> stream = QueryStream.from_frame(frame, categories=["colour"])
        >>> stream.feature_names, stream.X.tolist()
        (('price', 'colour=blue', 'colour=red'), [[2.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
        """
        from perceptrank.stream.frames import split_frame

        X, names, columns = split_frame(frame, qid, relevance, features, categories)
        grades, queries = columns.pop(RELEVANCE, None), columns.pop(QID)
        return QueryStream.from_arrays(X, grades, qid=queries, feature_names=names, columns=columns, missing=missing)

    def to_frame(self, library: str = "pandas") -> Any:
        """Convert to a data frame with one row per document.

        The columns are `qid`, `relevance`, the features by name (``f1``, ``f2``, … without names), and the others that
        the stream has. Sparse features become dense.

        Parameters
        ----------
        library : either "pandas" or "polars"
            Library of the frame; it must be installed.
        """
        from perceptrank.stream.frames import feature_columns, make_frame

        sizes = np.diff(self.offsets)
        columns: dict[str, Any] = {QID: np.repeat(self.qids, sizes)}
        columns |= {RELEVANCE: self.relevance} if RELEVANCE in self._documents else {}
        names = feature_columns(self.feature_names, self.n_features, self.columns)
        X = dense(self.X)
        columns |= {name: X[:, j] for j, name in enumerate(names)}
        return make_frame(columns | self.per_document(), library)

    def per_document(self) -> dict[str, Values]:
        """Return all columns but query ids and grades with one value per document, repeating those per query."""
        columns: dict[str, Values] = {}
        for name in optional_columns():
            if name in self._documents:
                columns[name] = self._documents[name]
            elif name in self._queries:
                columns[name] = self._queries[name][np.repeat(np.arange(self.n_queries), np.diff(self.offsets))]
        return columns

    @classmethod
    def concatenate(cls, streams: Iterable[QueryStream]) -> QueryStream:
        """Concatenate streams with the same features.

        Parameters
        ----------
        streams : iterable of QueryStream
        """
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
        n_documents = [part.n_documents for part in parts]
        offsets = [part.offsets[1:] + start for part, start in zip(parts[1:], accumulate(n_documents), strict=False)]
        return QueryStream._trusted(
            concatenate_features([part.X for part in parts]),
            np.concatenate([first.offsets, *offsets]),
            join_columns([part._documents for part in parts], n_documents),
            join_columns([part._queries for part in parts], [part.n_queries for part in parts]),
            first.feature_names,
        )

    @property
    def n_queries(self) -> int:
        """Number of queries; also `len(stream)`."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """Number of documents, over all queries."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def __len__(self) -> int:
        return self.n_queries

    @property
    def is_sparse(self) -> bool:
        """True if the features are sparse."""
        return isinstance(self.X, SparseFeatures)

    def __repr__(self) -> str:
        sparse = f", {self.X.n_nonzeros} non-zeros" if isinstance(self.X, SparseFeatures) else ""
        counts = f"{self.n_queries} queries, {self.n_documents} documents, {self.n_features} features"
        clicks = ""
        if (place := self.place) is not None:
            clicks += f", {np.count_nonzero(place)} shown"
        if (clicked := self.clicked) is not None:
            clicks += f", {np.count_nonzero(clicked)} clicked"
        return f"QueryStream({counts}{sparse}{clicks})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first documents."""
        from perceptrank.stream.frames import first_documents

        return first_documents(self)

    def __iter__(self) -> Iterator[Query]:
        return (self[q] for q in range(self.n_queries))

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice | npt.ArrayLike) -> QueryStream: ...
    def __getitem__(self, index: Any) -> Query | QueryStream:
        """Select one query by its number, or several by a slice or an array of numbers or booleans.

        Contiguous slices are views; other selections are copies.
        """
        if isinstance(index, (int, np.integer)):
            bounds = self.offsets
            q = range(len(bounds) - 1)[index]
            rows = slice(bounds[q], bounds[q + 1])
            documents, queries = self._documents, self._queries
            qid, docids, weights = queries[QID][q], documents.get(DOCID), queries.get(WEIGHT)
            query = Query(
                self.X[rows],
                cast(Floats, None if (grades := documents.get(RELEVANCE)) is None else grades[rows]),
                qid.item() if isinstance(qid, np.generic) else qid,
                None if docids is None else docids[rows],
                1.0 if weights is None else float(weights[q]),
            )
            if self._has_added:
                added = {name: values[rows] for name, values in documents.items() if name not in OF_JUDGED}
                query.columns = added | {name: values[q] for name, values in queries.items() if name not in OF_JUDGED}
            return query
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(self.n_queries)
            stop = max(start, stop)
            rows = slice(self.offsets[start], self.offsets[stop])
            offsets = self.offsets[start : stop + 1] - self.offsets[start]
            offsets.flags.writeable = False
            stream = QueryStream.__new__(QueryStream)
            vars(stream).update(  # slices of read-only arrays are read-only
                X=self.X[rows],
                offsets=offsets,
                feature_names=self.feature_names,
                _documents=take_rows(self._documents, rows),
                _queries=take_rows(self._queries, slice(start, stop)),
                _has_added=self._has_added,
            )
            return stream
        chosen = np.asarray(index) if not isinstance(index, slice) else index
        if not isinstance(chosen, slice) and (chosen.ndim != 1 or chosen.dtype.kind not in "iub"):
            raise TypeError(f"index must be an integer, a slice, or a list of integers or booleans, got {index!r}")
        return self._take(np.arange(self.n_queries)[chosen])

    def _take(self, queries: Ints, rng: np.random.Generator | None = None) -> QueryStream:
        """Copy the given queries in the given order, with documents shuffled inside each query if `rng` is given."""
        sizes = np.diff(self.offsets)[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - self.offsets[:-1][queries], sizes)
        if rng is not None:
            inside = np.lexsort((rng.random(len(rows)), np.repeat(np.arange(len(queries)), sizes)))
            rows = rows[inside]
        return QueryStream._trusted(
            self.X[rows],
            offsets,
            take_rows(self._documents, rows),
            take_rows(self._queries, queries),
            self.feature_names,
        )

    def __add__(self, other: QueryStream) -> QueryStream:
        return self.concatenate([self, other])

    def blocks(self, max_bytes: int = BLOCK_BYTES) -> Iterator[QueryStream]:
        """Iterate over consecutive blocks of whole queries, as views.

        Parameters
        ----------
        max_bytes : int
            Upper bound on the size of a block's features, except for a single query that is larger.
        """
        if isinstance(self.X, SparseFeatures):
            sizes, most = self.X.starts[self.offsets], max_bytes // (self.X.values.itemsize + self.X.indices.itemsize)
        else:
            sizes, most = self.offsets, max_bytes // max(1, self.n_features * self.X.itemsize)
        start = 0
        while start < self.n_queries:
            stop = int(np.searchsorted(sizes, sizes[start] + max(1, most), side="right")) - 1
            stop = max(stop, start + 1)
            yield self[start:stop]
            start = stop

    def shuffled(self, seed: int | np.random.Generator, *, documents: bool = False) -> QueryStream:
        """Copy the stream with its queries in random order.

        Parameters
        ----------
        seed : int or numpy.random.Generator
        documents : bool
            Also shuffle the documents inside each query.
        """
        rng = np.random.default_rng(seed)
        return self._take(rng.permutation(self.n_queries), rng if documents else None)

    def split(self, *fractions: float, seed: int | np.random.Generator | None = None) -> list[QueryStream]:
        """Split the stream into consecutive parts.

        Parameters
        ----------
        *fractions : float
            Share of the queries in each part, at most 1 in total. The remainder, if any, is one more part.
        seed : int or numpy.random.Generator, optional
            Shuffle the queries first.

        Examples
        --------
        >>> stream = QueryStream.from_arrays(np.eye(10), np.arange(10), group=[1] * 10)
        >>> [len(part) for part in stream.split(0.8)], [len(part) for part in stream.split(0.5, 0.25, 0.25)]
        ([8, 2], [5, 3, 2])
        """
        if not all(isinstance(fraction, (int, float, np.floating)) for fraction in fractions):
            raise TypeError(f"fractions must be numbers, as in split(0.8) or split(0.6, 0.2, 0.2), got {fractions}")
        if not fractions or not all(fraction > 0 for fraction in fractions) or sum(fractions) > 1 + 1e-9:
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

    def to_dense(self) -> QueryStream:
        """Return the stream with dense features: itself if they are; raise `MemoryError` if they would not fit."""
        return self if not self.is_sparse else self.with_features(dense(self.X))

    def to_sparse(self) -> QueryStream:
        """Return the stream with sparse features: itself if they are."""
        return self if isinstance(self.X, SparseFeatures) else self.with_features(SparseFeatures.from_dense(self.X))

    def with_features(self, X: AnyFeatures, *, feature_names: Sequence[str] | None = None) -> QueryStream:
        """Replace the features, keeping grades and clicks.

        Parameters
        ----------
        X : array of shape (documents, features)
            Finite features; they are not checked again.
        feature_names : list of str, optional
            Their names; by default those they had, if the number of features is the same.
        """
        X = as_any_features(X, may_be_empty=CLICKED in self._documents)
        if X.shape[0] != self.n_documents:
            raise ValueError(f"X must have {self.n_documents} rows, got {X.shape[0]}")
        names = self.feature_names if X.shape[1] == self.n_features else None
        if feature_names is not None:
            names = as_names(feature_names, X.shape[1])
        return QueryStream._trusted(X, self.offsets, self._documents, self._queries, names)

    def select(self, names: Sequence[str]) -> QueryStream:
        """Copy the stream with some of its features, by their names and in the order given.

        Parameters
        ----------
        names : sequence of str

        Examples
        --------
        >>> stream = QueryStream.from_arrays([[1.0, 2.0, 3.0]], [1], feature_names=["a", "b", "c"])
        >>> stream.select(["c", "a"]).X.tolist()
        [[3.0, 1.0]]
        """
        chosen = as_names([str(name) for name in names], len(names))
        if self.feature_names is None or chosen is None:
            raise ValueError("features are selected by their names, and those of this stream have none")
        if chosen == self.feature_names:
            return self
        places = {name: column for column, name in enumerate(self.feature_names)}
        for name in chosen:
            if name not in places:
                raise ValueError(f"the stream has no feature {name!r}; it has {', '.join(self.feature_names)}")
        columns, X = np.array([places[name] for name in chosen]), self.X
        selected = X.select(columns) if isinstance(X, SparseFeatures) else as_features(X[:, columns])
        return QueryStream._trusted(selected, self.offsets, self._documents, self._queries, chosen)

    def with_query_weights(self, query_weights: npt.ArrayLike | None) -> QueryStream:
        """Replace the query weights.

        Parameters
        ----------
        query_weights : array of shape (queries,), or None
            Finite and not negative; None for a stream without weights.

        Examples
        --------
        >>> stream = QueryStream.from_arrays(np.eye(4), [1, 0, 2, 0], group=[2, 2])
        >>> stream.with_query_weights([0.5, 2.0])[1].weight
        2.0
        """
        return self.with_columns({WEIGHT: query_weights})

    def with_columns(self, columns: Mapping[str, Any]) -> QueryStream:
        """Add or replace columns.

        Parameters
        ----------
        columns : mapping of str to array or None
            Values of columns that are declared, one per document or per query; None for a stream without the column.

        Examples
        --------
        >>> stream = QueryStream.from_arrays(np.eye(4), [1, 0, 2, 0], group=[2, 2])
        >>> stream.with_columns({"docid": ["a", "b", "c", "d"]})[1].docids.tolist()
        ['c', 'd']
        """
        if QID in columns and columns[QID] is None:
            raise ValueError("a stream must have the column 'qid', got None")
        _check_judged({**self._documents, **columns})
        clicks = (PLACE, CLICKED)
        among = {name: self._documents.get(name) for name in clicks} if any(name in columns for name in clicks) else {}
        documents, queries = convert_columns({QID: self.qids, **among, **columns}, self.offsets)
        absent = dict.fromkeys(columns)
        return QueryStream._trusted(
            self.X,
            self.offsets,
            {**self._documents, **absent, **documents},
            {**self._queries, **absent, **queries},
            self.feature_names,
        )


def _by_column(given: dict[str, Any], others: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of columns that are given by arguments, and those of other columns, by name."""
    for name in others or ():
        if given.get(name) is not None or name == QID:
            raise ValueError(f"columns must not have {name!r}, which is an argument of its own")
    columns = given | dict(others or {})
    _check_judged(columns)
    return columns


def _check_judged(columns: Mapping[str, Any]) -> None:
    """Raise if there are neither grades nor clicks."""
    if columns.get(RELEVANCE) is None and columns.get(CLICKED) is None:
        raise ValueError("a stream must have grades (relevance) or clicks (clicked), got None for both")


def missing_columns(stream: QueryStream, needing: str, names: Sequence[str]) -> ValueError:
    """Return the error for a stream without columns that something needs."""
    *others, last = [repr(name) for name in names if name not in stream.columns]
    missing = f"columns {', '.join(others)} and {last}" if others else f"column {last}"
    has, advice = ", ".join(stream.columns), ""
    if RELEVANCE in names and RELEVANCE not in stream.columns and CLICKED in stream.columns:
        ways = "the learner clicks learns from them, and `clicks.judgements` makes judgements of them"
        advice = f"; clicks are not grades: {ways}"
    return ValueError(f"{needing} needs the {missing}, and the stream has only {has}{advice}")


def _in_order(name: str, values: Any, rows: Ints, n_queries: int) -> Any:
    """Put the values of documents in the order of rows; values per query stay as they are."""
    if values is None:
        return None
    column = find_column(name)
    is_per_document = column.per == "document" or (n_queries != len(rows) == len(values))
    return column.convert(values, len(rows), "document")[rows] if is_per_document else values
