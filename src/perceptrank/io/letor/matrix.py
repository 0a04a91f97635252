"""A growable matrix that several threads fill."""

import numpy as np
import numpy.typing as npt

from perceptrank.io.growing import GrowingArray
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.memory import check_memory

_FIRST_BYTES = 16 * 2**20
_PART_BYTES = 32 * 2**20
_FEWEST_DOCUMENTS = 8
_GAP_BYTES = 4 * 2**20


class Matrix:
    """A growable matrix of features with a grade per row.

    Threads write to rows that were taken for them. Rows are then filled in order: those that were written are moved
    up to those that are filled already. What is reserved and not written takes no memory. While threads write, only
    `take` and `fill` may be called: everything else moves memory.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.width = self.n_filled = 0
        self._flat, self._relevance = GrowingArray(dtype), GrowingArray(np.float64)
        self._n_taken = self._capacity = 0

    @property
    def row_bytes(self) -> int:
        """Size of the features of a document."""
        return self.width * self._flat.dtype.itemsize

    @property
    def documents_per_part(self) -> int:
        """Number of documents for which rows may be taken at once."""
        return max(_FEWEST_DOCUMENTS, _PART_BYTES // max(1, self.row_bytes))

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
        """Grow to at least `width` columns, and by at least an eighth, to amortise the moves; rows are taken back."""
        self._widen(max(width, self.width + self.width // 8))

    def _widen(self, width: int) -> None:
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
            self._widen(width)
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
