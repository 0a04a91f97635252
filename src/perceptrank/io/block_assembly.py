"""Assemble blocks of whole queries from pieces that may split a query."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Ints
from perceptrank.stream.columns import (
    WEIGHT,
    Values,
    concatenate_values,
    differences,
    join_columns,
    split_columns,
    take_rows,
    without_unknown_grades,
)
from perceptrank.stream.memory import free_memory
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, concatenate_features

_LONGEST_PADDED = 64


class Piece(NamedTuple):
    """Consecutive documents; ``starts`` and ``qids`` have the row and the id where each query begins.

    All columns have one value per document, also those of queries; None is no column.
    """

    X: AnyFeatures
    starts: list[int]
    qids: list[Any]
    columns: Mapping[str, Values | None]

    @property
    def n_bytes(self) -> int:
        """Size of the features; clicks without features take memory, too."""
        return self.X.nbytes or 8 * len(self.X)


class RepeatedQueryError(ValueError):
    """A query whose documents are not adjacent; it begins again at row `start` of the current piece."""

    def __init__(self, qid: Any, start: int) -> None:
        super().__init__(f"the documents of query {qid!r} are not adjacent")
        self.start = start


class ValuesOfQueries:
    """The values of columns per query in all pieces so far, to compare those of the next with."""

    def __init__(self, names: Iterable[str]) -> None:
        self._values: dict[str, dict[Any, Any]] = {name: {} for name in names}

    def find_contradiction(self, piece: Piece) -> tuple[int, str] | None:
        """Return a row whose query has another value than before, and the problem; None if there is none."""
        if not len(piece.X):
            return None
        starts: Ints = np.array(piece.starts, dtype=np.int64)
        sizes = np.diff(np.append(starts, len(piece.X)))
        for name, known in self._values.items():
            values = piece.columns.get(name)
            if values is None:
                continue
            firsts = values[starts].tolist()
            each = [known.setdefault(qid, first) for qid, first in zip(piece.qids, firsts, strict=True)]
            expected = np.repeat(np.array(each, dtype=np.asarray(values[:0]).dtype), sizes)
            if (differ := differences(values, expected)).any():
                row = int(np.argmax(differ))
                qid = piece.qids[int(np.searchsorted(starts, row, side="right")) - 1]
                noun = "weights" if name == WEIGHT else f"values of {name}"
                return row, f"query {qid!r} has two {noun}, {expected[row]} and {values[row]}"
        return None


class BlockAssembler:
    """Collects pieces into blocks of about `max_bytes` of features; a query is held back until the next one begins."""

    def __init__(self, max_bytes: int, feature_names: tuple[str, ...] | None = None) -> None:
        self.feature_names = feature_names
        self._max_bytes = max_bytes
        self._pieces: list[Piece] = []
        self.n_rows = self._n_bytes = 0
        self._starts: list[int] = []
        self._qids: list[Any] = []
        self._seen: set[Any] = set()

    def add(self, piece: Piece) -> Iterator[QueryStream]:
        """Add a piece; yield a block if one is complete."""
        if not len(piece.X):
            return
        for start, qid in zip(piece.starts, piece.qids, strict=True):
            if self._qids and self._qids[-1] == qid:
                continue
            if qid in self._seen:
                raise RepeatedQueryError(qid, start)
            self._seen.add(qid)
            self._starts.append(self.n_rows + start)
            self._qids.append(qid)
        self._pieces.append(piece)
        self.n_rows += len(piece.X)
        self._n_bytes += piece.n_bytes
        if self._n_bytes < self._max_bytes:
            return
        if self._n_bytes > free_memory():  # before the system kills the process
            raise MemoryError(
                f"there is no memory for a block of {self.n_rows} documents, {self._n_bytes / 1e9:.1f} GB more: query "
                f"{self._qids[-1]!r} has {self.n_rows - self._starts[-1]} of them or more, and must fit into memory"
            )
        if len(self._starts) > 1:
            yield self._take(self._starts[-1])

    @property
    def is_empty(self) -> bool:
        """True until a document has been added."""
        return not self._seen

    def flush(self) -> Iterator[QueryStream]:
        """Yield the remaining queries, if any."""
        if self.n_rows:
            yield self._take(self.n_rows)

    def _take(self, n_rows: int) -> QueryStream:
        """Remove the first rows, which are whole queries, and return them as a stream."""
        X = concatenate_features([piece.X for piece in self._pieces])
        columns = join_columns([piece.columns for piece in self._pieces], [len(piece.X) for piece in self._pieces])
        n_queries = len(self._starts) - (n_rows < self.n_rows)
        offsets: Ints = np.array([*self._starts[:n_queries], n_rows], dtype=np.int64)
        qids = as_id_array(self._qids[:n_queries])
        taken = split_columns(without_unknown_grades(take_rows(columns, slice(n_rows))), offsets, qids)
        stream = QueryStream._trusted(X[:n_rows], offsets, *taken, self.feature_names)
        rest = {name: concatenate_values([values[n_rows:]]) for name, values in columns.items()}
        left = Piece(concatenate_features([X[n_rows:]]), [], [], rest)
        self._pieces = [left]
        self.n_rows, self._n_bytes = len(left.X), left.n_bytes
        self._starts, self._qids = [0] if len(left.X) else [], self._qids[n_queries:]
        return stream


def as_id_array(qids: list[Any]) -> npt.NDArray[Any]:
    """Convert query ids to an array: int64 if all are integers that fit, float64 if all are floats, else text."""
    if all(isinstance(qid, (int, np.integer)) and -(2**63) <= qid < 2**63 for qid in qids):
        return np.array(qids, dtype=np.int64)
    if all(isinstance(qid, float) for qid in qids):
        return np.array(qids, dtype=np.float64)
    texts = list(map(str, qids))
    is_long = max(map(len, texts)) > _LONGEST_PADDED  # NumPy pads every text to the longest, with NULs
    return np.array(texts, dtype=object) if is_long or any("\0" in text for text in texts) else np.array(texts)
