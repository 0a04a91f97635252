"""Available memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt

_BYTES_PER_COLUMN = 24
_limit: ContextVar[int | None] = ContextVar("limit", default=None)


class RoomError(ValueError):
    """A model that takes more memory than `limited_room` allows."""


def check_memory(n_rows: int, width: int, dtype: npt.DTypeLike) -> None:
    """Raise `MemoryError` if a matrix exceeds the available memory, before the system kills the process."""
    needed = width * (n_rows * np.dtype(dtype).itemsize + _BYTES_PER_COLUMN)
    if needed > free_memory():
        raise MemoryError(
            f"{n_rows} documents of {width} features take {needed / 1e9:.1f} GB, more than is available; "
            "scan_letor reads block by block, and n_features declares which feature ids there are"
        )


def free_memory() -> float:
    """Return the available memory in bytes, infinity if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return np.inf


@contextmanager
def limited_room(n_bytes: int) -> Iterator[None]:
    """Make `check_room` allow `n_bytes`, whatever is free, so that what fits does not depend on machine or moment."""
    token = _limit.set(n_bytes)
    try:
        yield
    finally:
        _limit.reset(token)


def check_room(what: str, n_numbers: int) -> None:
    """Raise if so many float64 numbers, and a copy to go back to, do not fit into memory.

    The error is a `MemoryError`, or a `RoomError` inside `limited_room`.
    """
    needed, limit = min(16 * n_numbers, 10**300), _limit.get()
    if limit is not None:
        if needed > limit:
            raise RoomError(
                f"{what} takes {1e-9 * needed:.1f} GB of memory, and a model may take {1e-9 * limit:.1f} GB"
            )
        return
    if needed > (free := free_memory()):
        raise MemoryError(f"{what} takes {1e-9 * needed:.1f} GB of memory, and {1e-9 * free:.1f} GB are free")
