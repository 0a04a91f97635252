"""Parse chunks of text in several threads, with results in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from perceptrank.io.errors import FormatError
from perceptrank.io.letor.lines import Parsed
from perceptrank.io.text import Chunk
from perceptrank.kernels.processors import n_processors
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
    """Yield (chunk, result) in order while a few chunks are pending; an error of the chunks is raised after them.

    `n_bytes` is the size of a chunk: fewer are pending if they are large.
    """
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
