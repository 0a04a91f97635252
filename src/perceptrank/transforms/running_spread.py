"""Dividing features by their spread over all documents seen so far, without centring: zeros stay zeros."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import FloatRows, Floats, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.stream.memory import check_room
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import as_any_features, as_offsets, read_only
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.standardizing import RunningScale, check_overflow
from perceptrank.transforms.transform import Transform, check_width

COUNT, MEAN, SQUARES = range(3)
LARGEST_VALUE = np.float64(1e146)


class RunningSpread(RunningScale):
    """Divide each feature by its standard deviation over all documents so far, the current query included.

    `running`, which also subtracts the mean, is this where features are sparse: zeros stay zeros, and a query costs
    time in proportion to its non-zeros. To subtract the same number from a feature of all documents would change no
    ranking. A feature that has been the same in all documents becomes 0. Statistics of two streams can be merged, and
    they can be frozen.

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
        self._moments = np.zeros((0, 3))

    def sparse_form(self) -> Transform:
        return self

    @property
    def deviation(self) -> Floats:  # type: ignore[override]
        """Standard deviation of each feature."""
        n, mean, squares = self._moments.T
        count = max(self.count, 1)
        return np.sqrt((squares + mean * mean * (n * ((count - n) / count))) / count)

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
        held = slice(rows.starts[0], rows.starts[-1])
        too_large = rows.indices[held][~(np.abs(rows.values[held]) <= LARGEST_VALUE)]
        check_overflow(int(too_large[0]) if len(too_large) else -1, X)
        learning = learning and len(X) > 0
        values = np.zeros(rows.n_nonzeros, rows.dtype)
        if learning and len(self._moments) == 0:
            check_room(f"the spread of {rows.n_features} features", 3 * rows.n_features)
            self._moments = np.zeros((rows.n_features, 3))
        if len(self._moments):
            check_width(len(self._moments), rows.n_features)
            spread_pass(rows.arrays, read_only(offsets), learning, float(self.count), self._moments, values)
            self.count += len(X) if learning else 0
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
        counts, means, squares = self._moments[seen].T.tolist()
        return {
            "count": self.count,
            "frozen": self.frozen,
            "features": len(self._moments),
            "seen": seen.tolist(),
            "counts": counts,
            "means": means,
            "squares": squares,
        }

    def restore(self, state: dict[str, Any]) -> None:
        count, n_features = whole_number("count", state["count"]), whole_number("features", state["features"])
        seen = finite_numbers("seen", state["seen"], len(state["seen"]))
        rows = [finite_numbers(name, state[name], len(seen)) for name in ("counts", "means", "squares")]
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
        check_room(f"the spread of {n_features} features", 3 * n_features)
        moments = np.zeros((n_features, 3))
        moments[seen.astype(np.int64)] = np.transpose(rows)
        self.count, self.frozen, self._moments = count, state["frozen"], moments


@helper
def variance_of(moments: FloatRows, j: int, count: float) -> float:
    """Return the variance of feature j over so many documents, those where it was 0 included."""
    n, mean = moments[j, COUNT], moments[j, MEAN]
    return (moments[j, SQUARES] + mean * mean * (n * ((count - n) / count))) / count


@compiled
def spread_pass(
    X: SparseArrays, offsets: Ints, learning: bool, count: float, moments: FloatRows, scaled: Floats
) -> None:
    """Divide every query's values by the deviations of all rows seen so far, its own included."""
    values, indices, starts = X
    base = starts[0]
    for q in range(len(offsets) - 1):
        first, last = starts[offsets[q]], starts[offsets[q + 1]]
        if learning:
            for k in range(first, last):
                value = np.float64(values[k])
                if value != 0.0:
                    j = indices[k]
                    moments[j, COUNT] += 1.0
                    gap = value - moments[j, MEAN]
                    moments[j, MEAN] += gap / moments[j, COUNT]
                    moments[j, SQUARES] += gap * (value - moments[j, MEAN])
            count += float(offsets[q + 1] - offsets[q])
        for k in range(first, last):
            deviation = math.sqrt(variance_of(moments, indices[k], count))
            scaled[k - base] = values[k] / deviation if deviation > 0.0 else 0.0


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
