"""Dividing features by their spread over all documents seen so far, without centring: zeros stay zeros."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import FloatRows, Floats, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.fetching import AHEAD, at, fetch
from perceptrank.stream.memory import check_room
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import as_any_features, as_offsets, read_only
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.standardizing import RunningScale, check_overflow
from perceptrank.transforms.transform import Transform, check_width

WIDTH = 3
COUNT, MEAN, SQUARES = range(WIDTH)
_MOMENTS = ("counts", "means", "squares")  # as model files call them
LARGEST_VALUE = np.float64(1e146)


class RunningSpread(RunningScale):
    """Divide each feature by its standard deviation over all documents so far, the current query included.

    `running`, which also subtracts the mean, is this where features are sparse: zeros stay zeros, and a query costs
    time in proportion to its non-zeros. Subtracting means would change no ranking. A feature that has been the same
    in all documents becomes 0. Statistics of two streams can be merged, and they can be frozen.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[2.0, 0.0], [0.0, 0.0], [4.0, 5.0]], [0, 1, 0])
    >>> RunningSpread().learn(stream).deviation
    array([1.63299316, 2.3570226 ])
    """

    name = "running-spread"

    def __init__(self) -> None:
        self.count = 0
        self.frozen = False
        # For each feature how often it was not 0, and then its mean and sum of squared deviations, side by side.
        self._moments = np.zeros((0, WIDTH))

    def sparse_form(self) -> Transform:
        return self

    @property
    def deviation(self) -> Floats:  # type: ignore[override]
        """Standard deviation of each feature."""
        n, mean, squares = self._moments.T
        count = max(self.count, 1)
        return np.sqrt((squares + mean * mean * (n * ((count - n) * (1 / count)))) * (1 / count))

    def evaluate(self, X: Floats) -> Floats:
        if not self.count:
            return np.zeros_like(X)
        deviation = self.deviation
        return np.where(deviation > 0.0, X / np.where(deviation > 0.0, deviation, 1.0), 0.0)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        if not self.count:
            return str(nodes.add("Mul", X, np.zeros(n_features)))
        deviation = self.deviation
        scaled = nodes.add("Div", X, np.where(deviation > 0.0, deviation, 1.0))
        return str(nodes.add("Mul", scaled, (deviation > 0.0).astype(np.float64)))

    def _learn_block(self, block: QueryStream) -> None:
        self.learn_and_apply(block.X, block.offsets)

    def apply(self, X: Any, offsets: Ints) -> Any:
        return self._scaled(X, offsets, learning=False)

    def learn_and_apply(self, X: Any, offsets: Ints) -> Any:
        return self._scaled(X, offsets, learning=not self.frozen)

    def _scaled(self, X: Any, offsets: Ints, *, learning: bool) -> Any:
        X = as_any_features(X)
        offsets = as_offsets(offsets, len(X))
        rows = X if isinstance(X, SparseFeatures) else SparseFeatures.from_dense(X)
        # Squares of larger values, times any number of documents, could overflow.
        held = rows.values[rows.starts[0] : rows.starts[-1]]
        if not max(held.max(initial=0.0), -held.min(initial=0.0)) <= LARGEST_VALUE:
            first = int(np.argmin(np.abs(held) <= LARGEST_VALUE))
            check_overflow(int(rows.indices[rows.starts[0] + first]), X)
        learning = learning and len(X) > 0
        if learning and len(self._moments) == 0:
            check_room(f"the spread of {rows.n_features} features", WIDTH * rows.n_features)
            self._moments = np.zeros((rows.n_features, WIDTH))
        values = np.empty(rows.n_nonzeros, rows.dtype)
        if len(self._moments):
            check_width(len(self._moments), rows.n_features)
            spreads = np.empty(np.diff(rows.starts[offsets]).max(initial=0))
            moments = self._moments.ravel()
            spread_pass(rows.arrays, read_only(offsets), learning, float(self.count), moments, spreads, values)
            self.count += len(X) if learning else 0
        else:
            values[:] = 0.0
        scaled = rows.with_values(values)
        return scaled if isinstance(X, SparseFeatures) else scaled.toarray()

    def merge(self, other: RunningSpread) -> Self:
        self._check_kind(other)
        if other.count > 0:
            if len(self._moments):
                check_width(len(self._moments), len(other._moments))
            moments = self._moments.copy() if len(self._moments) else np.zeros_like(other._moments)
            merge_non_zeros(moments, other._moments)
            self.count, self._moments = self.count + other.count, moments
        return self

    def state(self) -> dict[str, Any]:
        seen = np.flatnonzero(self._moments[:, COUNT])
        plain = {"count": self.count, "frozen": self.frozen, "features": len(self._moments), "seen": seen.tolist()}
        return plain | dict(zip(_MOMENTS, self._moments[seen].T.tolist(), strict=True))

    def restore(self, state: dict[str, Any]) -> None:
        count, n_features = whole_number("count", state["count"]), whole_number("features", state["features"])
        seen = finite_numbers("seen", state["seen"], len(state["seen"]))
        rows = [finite_numbers(name, state[name], len(seen)) for name in _MOMENTS]
        rising = len(seen) == 0 or (seen[0] >= 0 and seen[-1] < n_features and (np.diff(seen) > 0).all())
        if not rising or (seen % 1).any():
            raise ValueError(f"seen must be whole numbers that increase, all below {n_features}")
        if (rows[COUNT] < 1).any() or (rows[COUNT] > count).any() or (rows[SQUARES] < 0).any():
            raise ValueError("counts must be from 1 to count, and squares not negative")
        most = LARGEST_VALUE
        if (np.abs(rows[MEAN]) > most).any() or (rows[SQUARES] / max(count, 1) > 2 * most**2).any():
            raise ValueError(f"means must be from -{most:g} to {most:g}, and squares of such deviations")
        if (count > 0) != (n_features > 0) or not isinstance(state["frozen"], bool):
            raise ValueError("count must be 0 if and only if there are no statistics, and frozen true or false")
        check_room(f"the spread of {n_features} features", WIDTH * n_features)
        moments = np.zeros((n_features, WIDTH))
        moments[seen.astype(np.int64)] = np.transpose(rows)
        self.count, self.frozen, self._moments = count, state["frozen"], moments


@compiled
def spread_pass(
    X: SparseArrays, offsets: Ints, learning: bool, count: float, moments: Floats, spreads: Floats, scaled: Floats
) -> None:
    """Divide every query's values by the deviations of all rows seen so far, its own included.

    `moments` are those of the features one after the other. `spreads` has room for a number per non-zero of a query.
    """
    values, indices, starts = X
    base = starts[0]
    for q in range(len(offsets) - 1):
        first, last = starts[offsets[q]], starts[offsets[q + 1]]
        if learning:
            for i in range(offsets[q], offsets[q + 1]):
                learn_row(X, i, moments)
            count += float(offsets[q + 1] - offsets[q])
        share = 1.0 / count
        for k in range(first, last):
            j = WIDTH * int(np.uint32(at(indices, k)))
            n, mean = moments[j + COUNT], moments[j + MEAN]
            spreads[np.uint64(k - first)] = moments[j + SQUARES] + mean * mean * (n * ((count - n) * share))
        for k in range(last - first):  # apart, as it takes whole vectors at a time
            deviation = math.sqrt(at(spreads, k) * share)
            scaled[np.uint64(first - base + k)] = at(values, first + k) / deviation if deviation > 0.0 else 0.0


@helper
def learn_row(X: SparseArrays, i: int, moments: Floats) -> None:
    """Add the non-zeros of row i to the moments; begin to fetch those that later rows need."""
    values, indices, starts = X
    ahead = min(AHEAD, len(indices) - starts[i + 1])
    for k in range(starts[i], starts[i + 1]):
        later = WIDTH * int(np.uint32(at(indices, k + ahead)))
        fetch(moments, later)
        fetch(moments, later + WIDTH - 1)
        value = np.float64(at(values, k))
        if value != 0.0:
            j = WIDTH * int(np.uint32(at(indices, k)))
            n, gap = moments[j + COUNT] + 1.0, value - moments[j + MEAN]
            mean = moments[j + MEAN] + gap / n
            moments[j + COUNT], moments[j + MEAN] = n, mean
            moments[j + SQUARES] += gap * (value - mean)


@compiled
def merge_non_zeros(moments: FloatRows, others: FloatRows) -> None:
    """Add moments of the non-zeros of other rows in place."""
    for j in range(len(moments)):
        n, other = moments[j, COUNT], others[j, COUNT]
        if other > 0.0:
            gap = others[j, MEAN] - moments[j, MEAN]
            moments[j, COUNT] = n + other
            moments[j, MEAN] += gap * (other / (n + other))
            moments[j, SQUARES] += others[j, SQUARES] + gap * gap * (n * (other / (n + other)))
