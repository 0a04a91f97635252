"""Pieces of a stream, cut anywhere, put together to blocks of whole queries."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.query_stream import QueryStream

_LONGEST_PADDED = 64


class Piece(NamedTuple):
    """Documents one after the other; ``starts`` are the rows where another query begins, ``qids`` what it is called."""

    X: Features
    relevance: Floats
    comments: npt.NDArray[Any] | None
    starts: list[int]
    qids: list[Any]


class RepeatedQueryError(ValueError):
    """A query came back after another one: its id, and the row of the piece at hand."""

    def __init__(self, qid: Any, start: int) -> None:
        super().__init__(f"query {qid!r} again, after others")
        self.qid, self.start = qid, start


class WholeQueries:
    """Collects pieces and hands out blocks; the query that the last piece ended in is kept until it has ended."""

    def __init__(self, max_bytes: int, feature_names: tuple[str, ...] | None = None) -> None:
        self.feature_names = feature_names
        self._max_bytes = max_bytes
        self._pieces: list[Piece] = []
        self._n_rows = self._n_bytes = 0
        self._starts: list[int] = []
        self._qids: list[Any] = []
        self._seen: set[Any] = set()

    def add(self, piece: Piece) -> Iterator[QueryStream]:
        """Take a piece, and hand out a block if there is enough for one."""
        for start, qid in zip(piece.starts, piece.qids, strict=True):
            if self._qids and self._qids[-1] == qid:
                continue
            if qid in self._seen:
                raise RepeatedQueryError(qid, start)
            self._seen.add(qid)
            self._starts.append(self._n_rows + start)
            self._qids.append(qid)
        self._pieces.append(piece)
        self._n_rows += len(piece.X)
        self._n_bytes += piece.X.nbytes
        if self._n_bytes >= self._max_bytes and len(self._starts) > 1:
            yield self._take(self._starts[-1])

    @property
    def is_empty(self) -> bool:
        """Whether there has been no document at all."""
        return not self._seen

    def rest(self) -> Iterator[QueryStream]:
        """Hand out what is left."""
        if self._n_rows:
            yield self._take(self._n_rows)

    def _take(self, n_rows: int) -> QueryStream:
        """The first rows, which are whole queries, as a stream; the others stay."""
        X = np.concatenate([piece.X for piece in self._pieces])
        relevance = np.concatenate([piece.relevance for piece in self._pieces])
        texts = [piece.comments for piece in self._pieces if piece.comments is not None]
        comments: npt.NDArray[Any] | None = np.concatenate(texts) if len(texts) == len(self._pieces) else None
        n_queries = len(self._starts) - (n_rows < self._n_rows)
        offsets: Ints = np.array([*self._starts[:n_queries], n_rows], dtype=np.int64)
        stream = QueryStream._trusted(
            X[:n_rows],
            relevance[:n_rows],
            offsets,
            identifiers(self._qids[:n_queries]),
            self.feature_names,
            None if comments is None else comments[:n_rows],
        )
        left = Piece(
            X[n_rows:].copy(), relevance[n_rows:].copy(), None if comments is None else comments[n_rows:].copy(), [], []
        )
        self._pieces = [left]
        self._n_rows, self._n_bytes = len(left.X), left.X.nbytes
        self._starts, self._qids = [0] if len(left.X) else [], self._qids[n_queries:]
        return stream


def identifiers(qids: list[Any]) -> npt.NDArray[Any]:
    """Query ids as an array: whole numbers if all are and int64 holds them, fractions if all are, else text."""
    if all(isinstance(one, (int, np.integer)) and -(2**63) <= one < 2**63 for one in qids):
        return np.array(qids, dtype=np.int64)
    if all(isinstance(one, float) for one in qids):
        return np.array(qids, dtype=np.float64)
    texts = [str(one) for one in qids]
    is_long = max(map(len, texts)) > _LONGEST_PADDED  # an array of text gives every id the room of the longest
    return np.array(texts, dtype=object) if is_long else np.array(texts)
