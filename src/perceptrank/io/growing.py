"""Arrays that grow in place."""

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

_GROWTH = 1.5
_SMALL_BYTES = 2**20
_LARGE_PAGES_BYTES = 4 * 2**20


class GrowingArray:
    """A one-dimensional array that grows without touching memory before it is written.

    On Linux the memory is remapped when it grows, not copied: what is reserved and never written takes no memory. The
    array moves when it grows: views of it must be dropped before.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.capacity = self._n = 0
        self._memory: mmap.mmap | None = None

    def __len__(self) -> int:
        return self._n

    def view(self) -> npt.NDArray[Any]:
        """Return the whole array, with what is reserved."""
        if self._memory is None:
            return np.empty(0, self.dtype)
        return np.frombuffer(self._memory, self.dtype, self.capacity)

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` items, or give back what is beyond them; raise `MemoryError` if there is none."""
        n_bytes = max(1, capacity) * self.dtype.itemsize
        try:
            if self._memory is None:
                self._memory = _map(n_bytes)
            elif sys.platform == "linux":
                self._memory.resize(n_bytes)
                _use_large_pages(self._memory)
            elif capacity > self.capacity:
                moved = _map(n_bytes)
                moved[: len(self._memory)] = self._memory[:]
                self._memory = moved
        except OSError as error:
            raise MemoryError(f"cannot reserve {n_bytes / 1e9:.1f} GB: {error.strerror}") from None
        self.capacity = capacity

    def extend(self, values: npt.NDArray[Any]) -> None:
        """Append values."""
        n = self._n + len(values)
        if n > self.capacity:
            try:
                self.reserve(max(n, int(_GROWTH * self.capacity)))
            except MemoryError:  # what is reserved ahead may exceed a limit of the process
                self.reserve(n)
        self.view()[self._n : n] = values
        self._n = n

    def finish(self, n: int | None = None) -> npt.NDArray[Any]:
        """Return the first `n` items, by default those appended; the array must not be used any more."""
        n = self._n if n is None else n
        if n * self.dtype.itemsize < _SMALL_BYTES:  # a process can have few maps
            return self.view()[:n].copy()
        self.reserve(n)
        return self.view()[:n]


def _map(n_bytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, n_bytes)
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _use_large_pages(memory)
    return memory


def _use_large_pages(memory: mmap.mmap) -> None:
    """Have pages of 2 MiB, where there are any: touching memory for the first time takes a fraction of the time."""
    if sys.platform == "linux" and len(memory) >= _LARGE_PAGES_BYTES:
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
