"""Sums of a log by query, document and place: added up block by block, and over machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.columns import CLICKED, DOCID, PLACE, USER_QUERY
from perceptrank.stream.query_stream import QueryStream, missing_columns

_FEW_ROWS = 2**18  # of blocks that are not added up yet
COUNTS = ("shown", "clicks", "above_last", "last", "above_first", "first")


class CountTable(NamedTuple):
    """Counts, one row for each place at which a document of a query was shown, sorted by query, document and place.

    `pair` numbers the documents of queries from 0 on. `above_last` counts impressions in which the place is not below
    the last click, or that have none, and `last` the clicks that were the last; likewise for the first click.
    """

    pair: Ints
    query: Ints
    document: Ints
    place: Ints
    shown: Floats
    clicks: Floats
    above_last: Floats
    last: Floats
    above_first: Floats
    first: Floats

    def per_pair(self, values: Floats) -> Floats:
        """Sum values of the rows for each document of a query."""
        return np.bincount(self.pair, values).astype(float)

    @property
    def firsts(self) -> Ints:
        """First row of each document of a query, that of its smallest place."""
        return np.unique(self.pair, return_index=True)[1]


class JudgementSums:
    """Sums of a log, or of a part of it, from which judgements are made; those of several parts can be added.

    They take about 80 bytes for each place at which a document of a query was shown, and the text of each query and
    each document id once, however many impressions there are.

    Attributes
    ----------
    n_impressions : int
        Impressions so far.
    n_nameless : int
        Documents that were shown and have no id; they are not counted.

    Examples
    --------
    >>> import perceptrank as pr
    >>> log = pr.QueryStream.from_arrays(
    ...     np.empty((4, 0)), qid=[1, 1, 2, 2], docids=["a", "b", "b", "a"], place=[1, 2, 1, 2], clicked=[1, 0, 0, 1],
    ...     columns={"user_query": ["red shoes", "red shoes"]})
    >>> monday, tuesday = pr.clicks.JudgementSums(), pr.clicks.JudgementSums()
    >>> monday.add(log[:1])
    >>> tuesday.add(log[1:])
    >>> judged = pr.clicks.judgements(monday + tuesday, bias=[1.0, 0.5])
    >>> judged.docid.tolist(), judged.clicks.tolist(), judged.exposure.tolist()
    (['a', 'b'], [2.0, 0.0], [1.5, 1.5])
    """

    def __init__(self) -> None:
        self.n_impressions = self.n_nameless = 0
        self._queries: dict[str, int] = {}
        self._documents: dict[str, int] = {}
        none: Any = np.zeros(0, np.int64)
        self._tables = [CountTable(none, none, none, none, *(np.zeros(0) for _ in COUNTS))]

    def add(self, stream: QueryStream) -> None:
        """Add the impressions of a stream.

        Parameters
        ----------
        stream : QueryStream
            With the columns ``place``, ``clicked`` and ``docid``. Impressions are of one query if they have the same
            ``user_query``; where that is unknown, each ``qid`` is a query.
        """
        place, clicked, docids = stream.place, stream.clicked, stream.docids
        if place is None or clicked is None or docids is None:
            raise missing_columns(stream, "judging", (PLACE, CLICKED, DOCID))
        self.n_impressions += stream.n_queries
        is_nameless = (place > 0) & (docids.lengths == 0)
        self.n_nameless += int(is_nameless.sum())
        impression = np.repeat(np.arange(stream.n_queries), np.diff(stream.offsets))
        clicks = np.asarray(clicked, float)
        last, first = _ends(np.asarray(place, np.int64), clicks > 0, impression, stream.n_queries)
        names = query_texts(stream)  # in the order of the log, also those of which nothing was shown
        query = _number(self._queries, names)
        rows = np.flatnonzero((place > 0) & ~is_nameless)
        document = _number(self._documents, docids[rows].tolist())
        at, own, clicks = np.asarray(place[rows], np.int64), impression[rows], clicks[rows]
        last, first = last[own], first[own]
        counts = (
            np.ones(len(rows)),
            clicks,
            (at <= last).astype(float),
            np.where(at == last, clicks, 0.0),
            (at <= first).astype(float),
            np.where(at == first, clicks, 0.0),
        )
        self._tables.append(_table(query[own], document, at, counts))
        self._compact_if_long()

    def __iadd__(self, other: JudgementSums) -> JudgementSums:
        if not isinstance(other, JudgementSums):
            return NotImplemented
        self.n_impressions += other.n_impressions
        self.n_nameless += other.n_nameless
        queries, documents = _number(self._queries, other._queries), _number(self._documents, other._documents)
        self._tables += [
            table._replace(query=queries[table.query], document=documents[table.document]) for table in other._tables
        ]
        self._compact_if_long()
        return self

    def __add__(self, other: JudgementSums) -> JudgementSums:
        if not isinstance(other, JudgementSums):
            return NotImplemented
        total = JudgementSums()
        total += self
        total += other
        return total

    def compact(self) -> None:
        """Add up the rows of different blocks, so that the sums are as small as they can be."""
        self._tables = [_joined(self._tables)]

    def _compact_if_long(self) -> None:
        if sum(len(table.pair) for table in self._tables[1:]) > max(_FEW_ROWS, len(self._tables[0].pair)):
            self.compact()

    def table(self) -> CountTable:
        """Return the counts by query, document and place; queries and documents by their number, as first seen."""
        self.compact()
        return self._tables[0]

    @property
    def queries(self) -> list[str]:
        """Texts of the queries, by number."""
        return list(self._queries)

    @property
    def documents(self) -> list[str]:
        """Ids of the documents, by number."""
        return list(self._documents)


def _number(known: dict[str, int], names: Iterable[str]) -> Ints:
    """Return the number of each name; those that are new get the next ones."""
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def _ends(place: Ints, is_clicked: Any, impression: Ints, n: int) -> tuple[Ints, Ints]:
    """Return the last and the first place with a click of each impression, a place below all others if it has none."""
    none = np.iinfo(np.int64).max
    last, first = np.zeros(n, np.int64), np.full(n, none)
    np.maximum.at(last, impression[is_clicked], place[is_clicked])
    np.minimum.at(first, impression[is_clicked], place[is_clicked])
    return np.where(last > 0, last, none), first


def query_texts(stream: QueryStream) -> list[str]:
    """Return the query of each impression: what the user asked, or its id if that is not known."""
    qids = [str(qid) for qid in stream.qids.tolist()]
    texts: Any = stream.columns.get(USER_QUERY)
    return qids if texts is None else [text or qid for text, qid in zip(texts.tolist(), qids, strict=True)]


def _table(query: Ints, document: Ints, place: Ints, counts: tuple[Floats, ...]) -> CountTable:
    """Sort rows, and add up those of one query, document and place."""
    order = np.lexsort((place, document, query))
    query, document, place = query[order], document[order], place[order]
    is_new_pair = np.ones(len(order), dtype=bool)
    is_new_pair[1:] = (np.diff(query) != 0) | (np.diff(document) != 0)
    is_new = is_new_pair.copy()
    is_new[1:] |= np.diff(place) != 0
    starts = np.flatnonzero(is_new)
    pair = (np.cumsum(is_new_pair) - 1)[starts]
    sums = (np.add.reduceat(values[order], starts) for values in counts)
    return CountTable(pair, query[starts], document[starts], place[starts], *sums)


def _joined(tables: list[CountTable]) -> CountTable:
    if len(tables) == 1:
        return tables[0]
    query, document, place, *counts = (
        np.concatenate([getattr(table, name) for table in tables]) for name in ("query", "document", "place", *COUNTS)
    )
    return _table(query, document, place, tuple(counts))
