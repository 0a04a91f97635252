"""Random directions, orthogonal to each other as far as there is room."""

import math
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from perceptrank.kernels.arrays import Features, Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import read_only
from perceptrank.transforms.random.draws import draw_normal
from perceptrank.transforms.random.projection import as_panels

_PURPOSE = 1
_AT_ONCE = 2**20


class Directions:
    """Standard normal vectors, one in each row; those of a block of as many as there are dimensions are orthogonal.

    A row of an orthogonal block has the length of the normal vector that it was made of, and a direction that, like
    that of a normal vector, may be any with the same chance. So each row by itself is standard normal, either way.

    The same rows are drawn once and shared.
    """

    def __init__(self, seed: int, n: int, n_features: int, *, orthogonal: bool) -> None:
        check_room(f"random numbers of {n} directions in {n_features} dimensions", n * n_features)
        rows = np.empty(n * n_features)
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            part[:] = draw_normal(seed, _PURPOSE, start, len(part))
        self.rows: Floats = rows.reshape(n, n_features)
        self.blocks = range(0, n, n_features if orthogonal else 1)
        if orthogonal:
            for start in self.blocks:
                block = self.rows[start : start + n_features]
                make_orthogonal(block, np.zeros((n_features, len(block))), np.zeros((2, len(block))))
        self.rows = read_only(self.rows)
        self._panels: dict[Any, Features] = {}

    def panels(self, dtype: Any) -> Features:
        """Return the rows as `project_tile` takes them."""
        key = np.dtype(dtype)
        if key not in self._panels:
            self._panels[key] = read_only(as_panels(self.rows, key))
        return self._panels[key]

    @cached_property
    def largest_square(self) -> float:
        """Upper bound on the sum of squared products with a unit vector: those of orthogonal blocks add up."""
        squares = np.square(self.rows).sum(axis=1)
        return float(np.maximum.reduceat(squares, list(self.blocks)).sum())


_drawn: WeakValueDictionary[tuple[int, int, int, bool], Directions] = WeakValueDictionary()


def draw_directions(seed: int, n: int, n_features: int, *, orthogonal: bool) -> Directions:
    """Return directions, the same object as long as somebody holds it."""
    key = seed, n, n_features, orthogonal
    directions = _drawn.get(key)
    if directions is None:
        directions = _drawn.setdefault(key, Directions(seed, n, n_features, orthogonal=orthogonal))
    return directions


@compiled
def make_orthogonal(rows: Floats, columns: Floats, vectors: Floats) -> None:
    """Make each row orthogonal to those before it, of the length that it had (Gram and Schmidt, twice over).

    `columns` receives the directions as columns, so that all loops go along memory, and sums are taken in the order of
    features and rows, on every machine.
    """
    n, n_features = rows.shape
    products, lengths = vectors[0], vectors[1]
    for i in range(n):
        lengths[i] = _length(rows, i)
        for _ in range(2):
            for k in range(i):
                products[k] = 0.0
            for j in range(n_features):
                value = rows[i, j]
                for k in range(i):
                    products[k] += columns[j, k] * value
            for k in range(i):
                product = products[k]
                for j in range(n_features):
                    rows[i, j] -= product * rows[k, j]
        rest = _length(rows, i)
        for j in range(n_features):
            rows[i, j] /= rest
            columns[j, i] = rows[i, j]
    for i in range(n):
        for j in range(n_features):
            rows[i, j] *= lengths[i]


@helper
def _length(rows: Floats, i: int) -> float:
    total = 0.0
    for j in range(rows.shape[1]):
        total += rows[i, j] * rows[i, j]
    return math.sqrt(total)
