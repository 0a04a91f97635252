"""Collect parsed text as compressed sparse rows, several chunks at a time."""

from collections.abc import Callable, Iterable

import numpy as np

from perceptrank.io.growing import GrowingArray
from perceptrank.io.letor.error_policy import ErrorPolicy
from perceptrank.io.letor.jobs import Pool, in_order
from perceptrank.io.letor.lines import LineParser, Parsed, SparseRoom, Widest
from perceptrank.io.letor.runs import Runs
from perceptrank.io.text import Chunk, TextReader
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.memory import free_memory
from perceptrank.stream.sparse import SparseFeatures


class SparseFiller:
    """Parses chunks into rows that are appended in the order of the text; nothing is ever as wide as the features."""

    def __init__(self, pool: Pool, parser: LineParser, policy: ErrorPolicy, reader: TextReader) -> None:
        self.runs = Runs()
        self.n_filled = 0
        self._pool, self._parser, self._policy, self._reader = pool, parser, policy, reader
        self._values, self._indices = GrowingArray(parser.settings.dtype), GrowingArray(np.int32)
        self._starts, self._relevance = GrowingArray(np.int64), GrowingArray(np.float64)
        self._widest = Widest()
        self._room = 0
        self._starts.extend(np.zeros(1, np.int64))

    @property
    def width(self) -> int:
        """Number of features: those declared or named, or the largest id found."""
        return max(1, self._parser.min_width, self._widest.width)

    def fill(self, chunks: Iterable[Chunk], report: Callable[[], object]) -> None:
        """Parse and collect chunks; call `report` after each."""
        spare: list[SparseRoom] = []  # memory that was touched before is faster to write to

        def parse(chunk: Chunk) -> tuple[SparseRoom, Parsed]:
            room = self._parser.room_for(chunk, spare)
            return room, self._parser.parse_sparse(chunk, room)

        for chunk, (room, parsed) in in_order(self._pool, chunks, parse, lambda chunk: 3 * chunk.n_bytes):
            self._policy.add(self._parser.problems(chunk, parsed), len(parsed.bad))
            self._widest = max(self._widest, parsed.widest, key=lambda one: one.width)
            self.runs.add(parsed, self.n_filled)
            self._append(room, parsed.n_rows)
            spare.append(room)
            self._reader.release(chunk)
            report()

    def _append(self, room: SparseRoom, n_rows: int) -> None:
        if not n_rows:
            return
        n_values = int(room.ends[n_rows - 1])
        if len(self._values) + n_values > self._room:
            self._make_room(n_values, n_rows)
        self._starts.extend(room.ends[:n_rows] + len(self._values))
        self._values.extend(room.values[:n_values])
        self._indices.extend(room.indices[:n_values])
        self._relevance.extend(room.relevance[:n_rows])
        self.n_filled += n_rows

    def _make_room(self, n_values: int, n_rows: int) -> None:
        """Reserve as much as the rest of the text will need, if that is known; it takes no memory until it is used.

        Raises `MemoryError` if more values exceed the available memory, before the system kills the process.
        """
        needed = len(self._values) + n_values
        if n_values * (self._values.dtype.itemsize + self._indices.dtype.itemsize) > free_memory():
            raise MemoryError(
                f"{self.n_filled} documents have {len(self._values)} non-zeros, and more exceed the available memory; "
                "scan_letor reads block by block"
            )
        n_read, n_bytes = self._reader.n_read, self._reader.n_bytes
        self._room = int(min(max(1.03 * n_bytes / n_read, 1.25) if n_bytes else 1.5, 64) * needed)
        try:
            for array in (self._values, self._indices):
                array.reserve(self._room)
        except MemoryError:  # what is reserved ahead may exceed a limit of the process
            self._room = needed

    def finish(self, width: int) -> tuple[SparseFeatures, Floats]:
        """Return the rows, with `width` columns, and their grades."""
        arrays = self._values.finish(), self._indices.finish(), self._starts.finish()
        return SparseFeatures._trusted(*arrays, width), self._relevance.finish()
