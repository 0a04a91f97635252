"""A matrix that is filled from several threads while neither its length nor its width is known."""

import numpy as np
import numpy.typing as npt

from perceptrank.io.letor.jobs import Rows
from perceptrank.io.letor.parsing import narrow_rows, widen_rows
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.memory import check_memory

_SPARE = 1.03


class Matrix:
    """Rows of features, and a grade for each, in memory that is reserved ahead but not touched until it is needed.

    Only `take` and what it hands out may be used while threads write. Everything else moves memory.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.width = 0
        self._flat: Features = np.empty(0, dtype)
        self._relevance: Floats = np.empty(0)
        self._n_rows = self._capacity = 0

    def take(self, n_rows: int) -> Rows:
        """Room for so many rows, after those that were taken before."""
        self._n_rows += n_rows
        return Rows(self._arrays, self._n_rows - n_rows)

    def _arrays(self) -> tuple[Features, Floats]:
        return self._flat[: self._capacity * self.width].reshape(self._capacity, self.width), self._relevance

    def has_room(self, n_rows: int) -> bool:
        """Whether so many rows can be taken."""
        return self._n_rows + n_rows <= self._capacity

    def make_room(self, n_rows: int, share: float) -> None:
        """Make room for so many rows, and for `share` times all that there are then, if that is more."""
        needed = self._n_rows + n_rows
        check_memory(needed, self.width, self._flat.dtype)
        self._resize(max(needed, int(needed * max(share, 1.0) * _SPARE) + 1), self.width)

    def widen(self, width: int) -> None:
        """Make it at least so wide. It grows by a quarter or more, lest it be moved over and over."""
        old = self.width
        if width <= old:
            return
        width = max(width, old + old // 4)
        check_memory(self._n_rows, width, self._flat.dtype)
        self._resize(self._capacity, width)
        widen_rows(self._flat, self._n_rows, old, width)

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
        """All rows of the parts, given by first row and number, next to each other and `width` wide."""
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
            narrow_rows(self._flat, n_rows, self.width, width)
        self._flat.resize(n_rows * width, refcheck=False)
        self._relevance.resize(n_rows, refcheck=False)
        return self._flat.reshape(n_rows, width), self._relevance
