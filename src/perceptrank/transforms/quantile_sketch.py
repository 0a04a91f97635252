"""Quantiles of all features at once, from a summary of bounded size."""

import copy
from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Features, Floats

CAPACITY = 256
_MOST_LEVELS = 50


class QuantileSketch:
    """A summary of the documents so far, from which ranks and quantiles of each feature are estimated.

    Items of level h stand for 2^h values each. Values enter level 0. A level with `CAPACITY` items or more is sorted,
    and of the sorted items the first, third, ... go up one level and the others are dropped; the next time, the
    second, fourth, ... go up. All features do so at once, since each has as many values as there are documents.

    Dropping items of weight w changes the rank of no value by more than w, upwards the first time and downwards the
    next, so two times together by no more than w either. A rank is therefore wrong by at most the sum over all levels
    of w times half the number of times, rounded up. For n documents that is about
    n log2(n / CAPACITY) / (2 CAPACITY): 124 of 10,000, and nothing while there are fewer than `CAPACITY`.

    A sketch is never changed: adding and merging return new ones, which share what stays the same.
    """

    def __init__(self, n_features: int) -> None:
        self.count = 0  # documents
        self.levels: list[Floats] = [np.empty((n_features, 0))]
        # How many times each level was halved: pairs of times, one each way, and times without a counterpart yet.
        self.pairs, self.unpaired = [0], [0]
        self.smallest: Floats = np.full(n_features, np.inf)
        self.largest: Floats = np.full(n_features, -np.inf)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.smallest)

    def add(self, X: Features) -> "QuantileSketch":
        """Return the sketch of the documents so far and those of X."""
        sketch = self._own_lists()
        columns = X.T + np.float64(0.0)  # which makes -0 the same as 0
        start, n = 0, len(X)
        while start < n:
            stop = min(n, start + CAPACITY - sketch.levels[0].shape[1])
            sketch.levels[0] = np.concatenate([sketch.levels[0], columns[:, start:stop]], axis=1)
            sketch._halve_full_levels()
            start = stop
        sketch.count += n
        sketch.smallest = np.minimum(self.smallest, columns.min(axis=1, initial=np.inf))
        sketch.largest = np.maximum(self.largest, columns.max(axis=1, initial=-np.inf))
        return sketch

    def merge(self, other: "QuantileSketch") -> "QuantileSketch":
        """Return the sketch of the documents of both; the bounds on the errors of ranks add up, and grow by halving."""
        sketch = self._own_lists()
        for h, items in enumerate(other.levels):
            sketch._reach(h)
            sketch.levels[h] = np.concatenate([sketch.levels[h], items], axis=1)
            sketch.pairs[h] += other.pairs[h]
            sketch.unpaired[h] += other.unpaired[h]
        sketch._halve_full_levels()
        sketch.count += other.count
        sketch.smallest = np.minimum(self.smallest, other.smallest)
        sketch.largest = np.maximum(self.largest, other.largest)
        return sketch

    def quantiles(self, n_parts: int) -> Floats:
        """Return the values at the shares 0, 1 / n_parts, ..., 1 of each feature, the smallest items of that weight."""
        items = np.concatenate(self.levels, axis=1)
        weights = np.repeat([1 << h for h in range(len(self.levels))], [level.shape[1] for level in self.levels])
        order = np.argsort(items, axis=1)
        ranks = np.cumsum(weights[order], axis=1)
        values = np.empty((self.n_features, n_parts + 1))
        values[:, 0], values[:, -1] = self.smallest, self.largest
        # The ranks of one feature come after all those of the features before it, so that one search finds all.
        after = (self.count + 1) * np.arange(self.n_features)[:, None]
        targets = -(-np.arange(1, n_parts) * self.count // n_parts) + after
        places = np.searchsorted((ranks + after).ravel(), targets)
        values[:, 1:-1] = np.take_along_axis(items, order, axis=1).ravel()[places]
        return values

    def _own_lists(self) -> Self:
        sketch = copy.copy(self)
        sketch.levels, sketch.pairs, sketch.unpaired = self.levels.copy(), self.pairs.copy(), self.unpaired.copy()
        return sketch

    def _reach(self, level: int) -> None:
        if level == len(self.levels):
            self.levels.append(np.empty((self.n_features, 0)))
            self.pairs.append(0)
            self.unpaired.append(0)

    def _halve_full_levels(self) -> None:
        h = 0
        while h < len(self.levels):
            n = self.levels[h].shape[1]
            if n >= CAPACITY:
                items = np.sort(self.levels[h], axis=1)
                takes_second = self.unpaired[h] > 0
                self.unpaired[h] += -1 if takes_second else 1
                self.pairs[h] += 1 if takes_second else 0
                self._reach(h + 1)
                even = n - n % 2  # of an odd number, the largest stays
                taken = items[:, 1 if takes_second else 0 : even : 2]
                self.levels[h + 1] = np.concatenate([self.levels[h + 1], taken], axis=1)
                self.levels[h] = items[:, even:].copy()
            h += 1

    def state(self) -> dict[str, Any]:
        """Return everything as numbers and lists."""
        return {
            "levels": [items.tolist() for items in self.levels],
            "pairs": self.pairs,
            "unpaired": self.unpaired,
            "smallest": self.smallest.tolist(),
            "largest": self.largest.tolist(),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "QuantileSketch":
        """Return the sketch that `state` came from; raise if it is inconsistent."""
        n_features = len(state["smallest"])
        sketch = cls(n_features)
        sketch.smallest = finite_numbers("smallest", state["smallest"], n_features)
        sketch.largest = finite_numbers("largest", state["largest"], n_features)
        n_levels = len(state["levels"])
        if n_features == 0 or not 1 <= n_levels <= _MOST_LEVELS:
            raise ValueError("a sketch must have features and levels")
        for name in ("pairs", "unpaired"):
            if not isinstance(state[name], list) or len(state[name]) != n_levels:
                raise ValueError(f"{name} must be {n_levels} whole numbers")
            setattr(sketch, name, [whole_number(name, number) for number in state[name]])
        sketch.levels = []
        for h, rows in enumerate(state["levels"]):
            n_items = len(rows[0]) if isinstance(rows, list) and len(rows) == n_features else CAPACITY
            if n_items >= CAPACITY:
                raise ValueError(f"levels must have fewer than {CAPACITY} items of each of {n_features} features")
            items = np.array([finite_numbers("items", row, n_items) for row in rows]).reshape(n_features, n_items)
            if (items < sketch.smallest[:, None]).any() or (items > sketch.largest[:, None]).any():
                raise ValueError("items must be between smallest and largest")
            sketch.levels.append(items)
            sketch.count += n_items << h
        if sketch.count == 0:
            raise ValueError("a sketch must have items")
        return sketch
