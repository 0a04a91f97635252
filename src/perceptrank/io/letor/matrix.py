"""A growable matrix that several threads fill."""

import numpy as np
import numpy.typing as npt

from perceptrank.io.letor.jobs import Rows
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.memory import check_memory

_SPARE = 1.03


class Matrix:
    """A growable matrix of features with a grade per row.

    Memory is reserved ahead and touched only when it is written. While threads write, only `take` may be called:
    everything else moves memory.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.width = 0
        self._flat: Features = np.empty(0, dtype)
        self._relevance: Floats = np.empty(0)
        self._n_rows = self._capacity = 0

    def take(self, n_rows: int) -> Rows:
        """Allot the next `n_rows` rows."""
        self._n_rows += n_rows
        return Rows(self._arrays, self._n_rows - n_rows)

    def _arrays(self) -> tuple[Features, Floats]:
        return self._flat[: self._capacity * self.width].reshape(self._capacity, self.width), self._relevance

    def has_room(self, n_rows: int) -> bool:
        """Return True if `n_rows` more rows fit without moving memory."""
        return self._n_rows + n_rows <= self._capacity

    def make_room(self, n_rows: int, share: float) -> None:
        """Reserve `n_rows` more rows, or `share` times all rows if that is more."""
        needed = self._n_rows + n_rows
        check_memory(needed, self.width, self._flat.dtype)
        self._resize(max(needed, int(needed * max(share, 1.0) * _SPARE) + 1), self.width)

    def widen(self, width: int) -> None:
        """Grow to at least `width` columns, and by at least a quarter, to amortise the moves."""
        old = self.width
        if width <= old:
            return
        width = max(width, old + old // 4)
        check_memory(self._n_rows, width, self._flat.dtype)
        self._resize(self._capacity, width)
        _widen_rows(self._flat, self._n_rows, old, width)

    def _resize(self, capacity: int, width: int) -> None:
        if self._flat.size == 0:
            self._flat = np.empty(capacity * width, self._flat.dtype)
        else:
            self._flat.resize(capacity * width, refcheck=False)
        if self._capacity == 0:
            self._relevance = np.empty(capacity)
        elif capacity != self._capacity:
            self._relevance.resize(capacity, refcheck=False)
        self._capacity, self.width = capacity, width

    def finish(self, parts: list[tuple[int, int]], width: int) -> tuple[Features, Floats]:
        """Compact the parts, given as (first row, number of rows), to a matrix of `width` columns and its grades."""
        self.widen(width)
        X, relevance = self._arrays()
        n_rows = 0
        for first, count in parts:
            if first != n_rows:
                X[n_rows : n_rows + count] = X[first : first + count]
                relevance[n_rows : n_rows + count] = relevance[first : first + count]
            n_rows += count
        del X, relevance
        if width < self.width:
            _narrow_rows(self._flat, n_rows, self.width, width)
        self._flat.resize(n_rows * width, refcheck=False)
        self._relevance.resize(n_rows, refcheck=False)
        return self._flat.reshape(n_rows, width), self._relevance


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
