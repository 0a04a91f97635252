"""Chunks of text parsed by several threads, taken over in order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from perceptrank.arrays import Features, Floats
from perceptrank.data.letor_lines import LineParser, Parsed
from perceptrank.data.text import Chunk
from perceptrank.validation import check_positive_whole

T = TypeVar("T")

_ONE_THREAD_BYTES = 4 * 2**20


class Rows(NamedTuple):
    """Where a chunk's documents go: the arrays, asked for when they are written to, and the first row in them."""

    arrays: Callable[[], tuple[Features, Floats]]
    first: int


class Pool:
    """Threads, or none if one is enough. `depth` is how many jobs keep them all busy."""

    def __init__(self, n_threads: int | None, n_bytes: int) -> None:
        if n_threads is None:
            n_threads = _n_processors() if n_bytes > _ONE_THREAD_BYTES else 1
        check_positive_whole("n_threads", n_threads)
        self._executor = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self.depth = n_threads + 1 if n_threads > 1 else 0

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have a function called."""
        if self._executor is not None:
            return self._executor.submit(function, *arguments)
        done: Future[T] = Future()
        done.set_result(function(*arguments))
        return done

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class Job:
    """A chunk on its way to rows."""

    def __init__(self, pool: Pool, parser: LineParser, chunk: Chunk, rows: Rows) -> None:
        self.chunk, self.rows = chunk, rows
        self._pool, self._parser = pool, parser
        self._future = pool.submit(self._run)

    def _run(self) -> Parsed:
        return self._parser.parse(self.chunk, *self.rows.arrays(), self.rows.first)

    def result(self) -> Parsed:
        """What is in the chunk; an error in it is raised."""
        return self._future.result()

    def repeat_if_wider_than(self, width: int) -> None:
        """Start again if rows had no room for all features, now that they have; `width` is what they had."""
        if self.result().width > width:
            self._future = self._pool.submit(self._run)


def in_order(pool: Pool, chunks: Iterable[Chunk], work: Callable[[Chunk], T]) -> Iterator[tuple[Chunk, T]]:
    """What is made of each chunk, a few being worked on at a time."""
    under_way: deque[tuple[Chunk, Future[T]]] = deque()
    for chunk in chunks:
        under_way.append((chunk, pool.submit(work, chunk)))
        if len(under_way) > pool.depth:
            first, future = under_way.popleft()
            yield first, future.result()
    for rest, future in under_way:
        yield rest, future.result()


def check_memory(n_rows: int, width: int, dtype: npt.DTypeLike) -> None:
    """Raise if so many rows cannot be held: to be told is better than to be ended by the system."""
    needed = n_rows * width * np.dtype(dtype).itemsize
    if needed > _free_memory():
        raise MemoryError(
            f"{n_rows} documents of {width} features take {needed / 1e9:.1f} GB, more than there is; "
            "scan_letor reads block by block, and n_features declares which feature ids there are"
        )


def _free_memory() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return np.inf


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
