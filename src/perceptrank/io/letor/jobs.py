"""Parse chunks of text in several threads, with results in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from perceptrank.io.errors import FormatError
from perceptrank.io.letor.lines import LineParser, Parsed
from perceptrank.io.text import Chunk
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.kernels.processors import n_processors
from perceptrank.stream.validation import check_positive_whole

S = TypeVar("S")
T = TypeVar("T")

_ONE_THREAD_BYTES = 4 * 2**20


class Rows(NamedTuple):
    """Destination of a chunk's documents: a getter of the arrays, which may move until they are written, and a row."""

    arrays: Callable[[], tuple[Features, Floats]]
    first: int


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


class Job:
    """A chunk that is being parsed."""

    def __init__(self, pool: Pool, parser: LineParser, chunk: Chunk, rows: Rows) -> None:
        self.chunk, self.rows = chunk, rows
        self._pool, self._parser = pool, parser
        self._future = pool.submit(self._run)

    def _run(self) -> Parsed:
        return self._parser.parse(self.chunk, *self.rows.arrays(), self.rows.first)

    def result(self) -> Parsed:
        """Return the parsed chunk, or raise its error."""
        return self._future.result()

    def width(self) -> int:
        """Return the number of columns of the chunk; 0 if it has an error."""
        return 0 if self._future.exception() is not None else self._future.result().width

    def repeat_if_wider_than(self, width: int) -> None:
        """Parse again if the rows, which had `width` columns, were too narrow for the chunk."""
        if self.width() > width:
            self._future = self._pool.submit(self._run)


def in_order(pool: Pool, chunks: Iterable[S], work: Callable[[S], T]) -> Iterator[tuple[S, T]]:
    """Yield (chunk, result) in order while a few chunks are pending; errors are raised in the order of the text."""
    pending: deque[tuple[S, Future[T]]] = deque()
    failure: FormatError | None = None
    source = iter(chunks)
    while True:
        try:
            chunk = next(source)
        except StopIteration:
            break
        except FormatError as error:
            failure = error
            break
        pending.append((chunk, pool.submit(work, chunk)))
        if len(pending) > pool.depth:
            first, future = pending.popleft()
            yield first, future.result()
    for rest, future in pending:
        yield rest, future.result()
    if failure is not None:
        raise failure
