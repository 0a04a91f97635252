"""Parse chunks of text in several threads, and fill a matrix, or sparse rows, with them in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import as_id_array
from perceptrank.io.errors import FormatError
from perceptrank.io.growing import GrowingArray
from perceptrank.io.letor.lines import DenseRoom, DensityLimit, LineParser, Parsed, SparseRoom, Widest
from perceptrank.io.letor.settings import ErrorPolicy
from perceptrank.io.text import Chunk, TextReader
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.processors import n_processors
from perceptrank.stream.memory import check_memory, free_memory
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import check_positive_whole

S = TypeVar("S")
T = TypeVar("T")

MOST_PENDING_BYTES = 32 * 2**20
_ONE_THREAD_BYTES = 4 * 2**20


class Pool:
    """A thread pool that runs jobs at once if one thread is enough; `depth` pending jobs keep all threads busy."""

    def __init__(self, n_threads: int | None, n_bytes: int) -> None:
        if n_threads is None:
            n_threads = n_processors() if n_bytes > _ONE_THREAD_BYTES else 1
        check_positive_whole("n_threads", n_threads)
        self._executor = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self.depth = n_threads + 1 if n_threads > 1 else 0

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Schedule a call."""
        if self._executor is not None:
            return self._executor.submit(function, *arguments)
        done: Future[T] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class Job(NamedTuple):
    """A chunk that is being parsed into rows of a matrix, from `first` on."""

    chunk: Chunk
    first: int
    parsed: "Future[Parsed]"


def in_order(
    pool: Pool, chunks: Iterable[S], work: Callable[[S], T], n_bytes: Callable[[S], int]
) -> Iterator[tuple[S, T]]:
    """Yield (chunk, result) in order while a few chunks are pending, of limited size in `n_bytes`; errors come last."""
    pending: deque[tuple[S, Future[T]]] = deque()
    n_pending_bytes = 0
    errors: list[FormatError] = []
    for chunk in until_error(chunks, errors):
        pending.append((chunk, pool.submit(work, chunk)))
        n_pending_bytes += n_bytes(chunk)
        del chunk
        while pending and (len(pending) > pool.depth or n_pending_bytes > MOST_PENDING_BYTES):
            n_pending_bytes -= n_bytes(pending[0][0])
            yield _oldest(pending)
    while pending:
        yield _oldest(pending)
    if errors:
        raise errors[0]


def until_error(chunks: Iterable[S], errors: list[FormatError]) -> Iterator[S]:
    """Yield chunks up to an error of their own, which is added to `errors`: those of earlier lines come first."""
    try:
        yield from chunks
    except FormatError as error:
        errors.append(error)


def _oldest(pending: "deque[tuple[S, Future[T]]]") -> tuple[S, T]:
    chunk, future = pending.popleft()
    return chunk, future.result()


class Runs:
    """Runs of adjacent documents of one query, over all chunks, their comments and ids."""

    def __init__(self) -> None:
        self._starts = GrowingArray(np.int64)
        self._qids: list[npt.NDArray[Any]] = []
        self._comments: list[str] | None = None
        self._docids: list[Texts] = []
        self._has_docids = False
        self._last: int | str | None = None

    def add(self, parsed: Parsed, n_rows: int) -> None:
        """Add a chunk, after `n_rows` documents; its first query may be the last one of the chunk before."""
        if parsed.comments is not None:
            self._comments = [] if self._comments is None else self._comments
            self._comments += parsed.comments
        self._docids.append(Texts.empty(parsed.n_rows) if parsed.docids is None else parsed.docids)
        self._has_docids |= parsed.docids is not None
        if not parsed.n_rows:
            return
        first, last = parsed.qids[[0, -1]].tolist()
        skipped = int(first == self._last)
        self._last = last
        self._starts.extend(parsed.starts[skipped:] + n_rows)
        self._qids.append(parsed.qids[skipped:])

    def finish(self, n_rows: int) -> tuple[npt.NDArray[Any], Ints, Texts | None, Texts | None]:
        """Return the query ids of the runs of all `n_rows` documents, their bounds, and the comments and ids."""
        self._starts.extend(np.array([n_rows]))
        comments = None if self._comments is None else Texts(self._comments)
        docids = Texts.concatenate(self._docids) if self._has_docids else None
        qids = np.concatenate(self._qids)
        return as_id_array(qids.tolist()) if qids.dtype == object else qids, self._starts.finish(), comments, docids


class SparseFiller:
    """Parses chunks into rows that are appended in the order of the text; nothing is ever as wide as the features."""

    def __init__(self, pool: Pool, parser: LineParser, policy: ErrorPolicy, reader: TextReader) -> None:
        self.runs = Runs()
        self.n_filled = 0
        self._pool, self._parser, self._policy, self._reader = pool, parser, policy, reader
        self._values, self._indices = GrowingArray(parser.settings.dtype), GrowingArray(np.int32)
        self._starts, self._relevance = GrowingArray(np.int64), GrowingArray(np.float64)
        self._widest = Widest()
        self._starts.extend(np.zeros(1, np.int64))

    @property
    def width(self) -> int:
        """Number of features: those declared or named, or the largest id found."""
        return max(1, self._parser.min_width, self._widest.width)

    def fill(self, chunks: Iterable[Chunk], report: Callable[[], object]) -> None:
        """Parse and collect chunks; call `report` after each."""
        spare: list[SparseRoom] = []  # memory that was touched before is faster to write to

        def parse(chunk: Chunk) -> tuple[SparseRoom, Parsed]:
            room = self._parser.sparse_room(chunk, spare)
            return room, self._parser.parse(chunk, room)

        for chunk, (room, parsed) in in_order(self._pool, chunks, parse, lambda chunk: 3 * chunk.n_bytes):
            self._policy.add(self._parser.problems(chunk, parsed), len(parsed.bad))
            self._widest = max(self._widest, parsed.widest, key=lambda widest: widest.width)
            self.runs.add(parsed, self.n_filled)
            if parsed.n_rows:
                self._append(room, parsed.n_rows)
            spare.append(room)
            self._reader.release(chunk)
            report()

    def _append(self, room: SparseRoom, n_rows: int) -> None:
        n_before, n_values = len(self._values), int(room.ends[n_rows - 1])
        n_bytes = n_values * (self._values.dtype.itemsize + self._indices.dtype.itemsize)
        if n_before + n_values > self._values.capacity and n_bytes > free_memory():  # the system would kill the process
            raise MemoryError(
                f"{self.n_filled} documents have {n_before} non-zeros, and more exceed the available memory; "
                "scan_letor reads block by block"
            )
        self._starts.extend(room.ends[:n_rows] + n_before)
        self._values.extend(room.values[:n_values])
        self._indices.extend(room.indices[:n_values])
        self._relevance.extend(room.relevance[:n_rows])
        self.n_filled += n_rows

    def finish(self) -> tuple[SparseFeatures, Floats]:
        """Return the features of the documents, and their grades."""
        arrays = self._values.finish(), self._indices.finish(), self._starts.finish()
        return SparseFeatures._trusted(*arrays, self.width), self._relevance.finish()


_FIRST_BYTES = 16 * 2**20
_PART_BYTES = 32 * 2**20
_FEWEST_DOCUMENTS = 8
_GAP_BYTES = 4 * 2**20


class Matrix:
    """A growable matrix of features with a grade per row; what is reserved and not written takes no memory.

    Threads write to rows that were taken for them, which are then moved up to those that are filled already. While
    threads write, only `take` and `fill` may be called: everything else moves memory.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.width = self.n_filled = 0
        self._flat, self._relevance = GrowingArray(dtype), GrowingArray(np.float64)
        self._n_taken = self._capacity = 0

    @property
    def row_bytes(self) -> int:
        """Size of the features of a document."""
        return self.width * self._flat.dtype.itemsize

    def take(self, n_rows: int) -> int:
        """Allot the next `n_rows` rows, and return the first of them."""
        self._n_taken += n_rows
        return self._n_taken - n_rows

    def arrays(self) -> tuple[Features, Floats]:
        """Return the features and the grades of all rows."""
        flat = self._flat.view()
        return flat[: self._capacity * self.width].reshape(self._capacity, self.width), self._relevance.view()

    def fill(self, first: int, n_rows: int) -> bool:
        """Fill the next rows with `n_rows` rows from `first` on; return True if the gap left behind them is large."""
        if first != self.n_filled:
            for array in self.arrays():
                array[self.n_filled : self.n_filled + n_rows] = array[first : first + n_rows]
        self.n_filled += n_rows
        gap = first + n_rows - self.n_filled
        return gap > self.n_filled // 16 and gap * (self.row_bytes + 8) > _GAP_BYTES

    def rewind(self) -> None:
        """Take back all rows that are not filled."""
        self._n_taken = self.n_filled

    def has_room(self, n_rows: int) -> bool:
        """Return True if `n_rows` more rows can be taken without moving memory."""
        return self._n_taken + n_rows <= self._capacity

    def make_room(self, n_rows: int, share: float) -> None:
        """Reserve `n_rows` more rows than are filled, and about `share` times as many as that, within bounds."""
        self.rewind()
        needed = self.n_filled + n_rows
        check_memory(needed, self.width, self._flat.dtype)
        most = max(2 * needed, _FIRST_BYTES // max(1, self.row_bytes))
        ahead = min(max(int(needed * share), needed + needed // 4), most)
        try:
            self._reserve(ahead, self.width)
        except MemoryError:  # what is reserved ahead may exceed a limit of the process
            self._reserve(needed, self.width)

    def widen(self, width: int) -> None:
        """Grow to `width` columns; rows that are not filled are taken back."""
        old = self.width
        self.rewind()
        check_memory(self.n_filled, width, self._flat.dtype)
        self._reserve(self.n_filled, width)
        _widen_rows(self._flat.view(), self.n_filled, old, width)

    def _reserve(self, capacity: int, width: int) -> None:
        self._flat.reserve(capacity * width)
        self._relevance.reserve(capacity)
        self._capacity, self.width = capacity, width

    def finish(self, width: int) -> tuple[Features, Floats]:
        """Return the filled rows, with `width` columns, and their grades."""
        if width > self.width:
            self.widen(width)
        if width < self.width:
            _narrow_rows(self._flat.view(), self.n_filled, self.width, width)
        X = self._flat.finish(self.n_filled * width).reshape(self.n_filled, width)
        return X, self._relevance.finish(self.n_filled)


@compiled
def _widen_rows(flat: Features, n_rows: int, width: int, wider: int) -> None:
    """Add columns of zeros to the first rows of a contiguous matrix, in place."""
    for i in range(n_rows - 1, -1, -1):
        for k in range(width - 1, -1, -1):
            flat[i * wider + k] = flat[i * width + k]
        for k in range(width, wider):
            flat[i * wider + k] = 0


@compiled
def _narrow_rows(flat: Features, n_rows: int, width: int, narrower: int) -> None:
    """Remove the last columns of the first rows of a contiguous matrix, in place."""
    for i in range(n_rows):
        for k in range(narrower):
            flat[i * narrower + k] = flat[i * width + k]


@compiled
def permute_rows(X: Features, rows: Ints, spare: Features) -> None:
    """Move row ``rows[i]`` to row i, in place; `spare` is one row, `rows` a permutation, which becomes the identity."""
    width = X.shape[1]
    for first in range(len(rows)):
        if rows[first] == first:
            continue
        for k in range(width):
            spare[0, k] = X[first, k]
        to = first
        source = rows[to]
        while source != first:
            for k in range(width):
                X[to, k] = X[source, k]
            rows[to] = to
            to = source
            source = rows[to]
        for k in range(width):
            X[to, k] = spare[0, k]
        rows[to] = to


_UNKNOWN_SHARE = 1.5  # growth of the matrix while the size of the text is unknown
_SPARE = 1.03


class Filler:
    """Parses chunks into one matrix that grows in length and width; results are collected in the order of the text.

    When a part turns out to be wider than the matrix, that is widened, and whatever is pending is split and parsed
    again. `widest` is what is known of the first.
    """

    def __init__(self, pool: Pool, parser: LineParser, policy: ErrorPolicy, reader: TextReader, widest: Widest) -> None:
        self._matrix, self.runs = Matrix(parser.settings.dtype), Runs()
        self._pool, self._parser, self._policy, self._reader = pool, parser, policy, reader
        self._density = DensityLimit(parser)
        self._density.see(widest)
        self._todo: deque[Chunk] = deque()
        self._jobs: deque[Job] = deque()
        self._n_text_bytes = self._n_pending_bytes = 0
        self._has_gap = False

    @property
    def width(self) -> int:
        """Number of features: those declared or named, or the largest id found."""
        return max(1, self._parser.min_width, self._density.widest.width)

    @property
    def n_filled(self) -> int:
        """Number of documents."""
        return self._matrix.n_filled

    def fill(self, chunks: Iterable[Chunk], report: Callable[[], object]) -> None:
        """Parse and collect chunks; call `report` after each. Their own error comes after those of earlier lines."""
        errors: list[FormatError] = []
        for chunk in until_error(chunks, errors):
            self._todo.append(chunk)
            while self._todo:
                self._submit()
            report()
        while self._jobs or self._todo:
            self._finish_all()
            while self._todo:
                self._submit()
        self._density.check(self._matrix.n_filled, self.width, self._n_text_bytes)  # headers may name more features
        if errors:
            raise errors[0]

    def finish(self) -> tuple[Features, Floats]:
        """Return the features of the documents, and their grades."""
        return self._matrix.finish(self.width)

    def _submit(self) -> None:
        """Have the first part of what is to do parsed, or make room for it."""
        matrix = self._matrix
        if matrix.width == 0 and not self._jobs:
            if not (self._parser.min_width or self._density.widest.width):
                self._density.see(self._parser.widest(self._todo[0]))
            matrix.widen(self._parser.min_width or self._density.widest.width)
        part, rest = self._todo[0].split(max(_FEWEST_DOCUMENTS, _PART_BYTES // max(1, matrix.row_bytes)))
        if self._has_gap or not matrix.has_room(part.n_documents):
            if self._jobs:
                self._finish_all()
                return  # there may be other things to do first
            matrix.rewind()
            self._has_gap = False
            if not matrix.has_room(part.n_documents):
                n_read, n_bytes = self._reader.n_read, self._reader.n_bytes
                matrix.make_room(part.n_documents, _SPARE * n_bytes / n_read if n_bytes else _UNKNOWN_SHARE)
        self._todo.popleft()
        if rest is not None:
            self._todo.appendleft(rest)
        first = matrix.take(part.n_documents)
        self._jobs.append(Job(part, first, self._pool.submit(self._parse, part, first)))
        self._n_pending_bytes += part.n_bytes
        while self._jobs and (len(self._jobs) > self._pool.depth or self._n_pending_bytes > MOST_PENDING_BYTES):
            self._finish_oldest()

    def _parse(self, chunk: Chunk, first: int) -> Parsed:  # views of the matrix must be gone when it is done
        return self._parser.parse(chunk, DenseRoom(*self._matrix.arrays(), first))

    def _finish_all(self) -> None:
        while self._jobs:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        """Collect the oldest part; if it is too wide for the matrix, widen that and do all pending parts again."""
        chunk, first, future = self._jobs[0]
        parsed = future.result()
        if parsed.widest.width > self._matrix.width:
            self._widen(parsed.widest, chunk.n_bytes)
            return
        self._jobs.popleft()
        self._n_pending_bytes -= chunk.n_bytes
        self._n_text_bytes += chunk.n_bytes
        self._policy.add(self._parser.problems(chunk, parsed), len(parsed.bad))
        self._density.see(parsed.widest)
        self.runs.add(parsed, self._matrix.n_filled)
        self._has_gap |= self._matrix.fill(first, parsed.n_rows)
        self._density.check(self._matrix.n_filled, self._matrix.width, self._n_text_bytes)
        self._reader.release(chunk)

    def _widen(self, widest: Widest, n_text_bytes: int) -> None:
        for job in self._jobs:
            job.parsed.result()  # no thread may write
        self._density.see(widest)
        self._density.check(self._matrix.n_filled + 1, self.width, self._n_text_bytes + n_text_bytes)
        self._todo.extendleft(job.chunk for job in reversed(self._jobs))
        self._jobs.clear()
        self._n_pending_bytes = 0
        self._matrix.widen(max(widest.width, self._matrix.width + self._matrix.width // 8))  # to amortise the moves
