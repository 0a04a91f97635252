"""Piecewise constant and piecewise linear functions of features, between their quantiles."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Columns, Features, FloatRows, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.stream.memory import check_room
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import (
    ParameterError,
    as_grouped,
    bad_feature,
    check_choice,
    check_flag,
    check_positive_whole,
    is_whole,
    read_only,
)
from perceptrank.transforms.forms import Piecewise
from perceptrank.transforms.lineage import Form
from perceptrank.transforms.quantile_sketch import QuantileSketch
from perceptrank.transforms.transform import LearningTransform, WritingTransform, check_width

KINDS = ("hat", "one-hot", "thermometer")
HAT, ONE_HOT, THERMOMETER = range(3)
_LARGEST_N_BINS = 2**16
_MOST_OUTPUTS = 2**31 - 1
_FEW = 32  # edges: comparing a value with each of them is quicker than bisection
_MANY = 2**24  # non-zeros at once, so many that they may not fit into memory

# Edges with a row for each feature; if they are few, also with a column for each; the first edge equal to each.
Tables: TypeAlias = tuple[FloatRows, FloatRows, IntRows]
# Features, the first row and the one after the last, and a number and a place for each feature, as scratch.
Rows: TypeAlias = tuple[Features, int, int, Floats, Ints]


class Bins(LearningTransform, WritingTransform):
    """Replace each feature by functions of it that are bounded by its quantiles, so that a learner fits a curve to it.

    The edges of a feature are its quantiles over the documents so far, those of the query included. They are renewed
    whenever there are a quarter more documents, until a query brings their number to `after`, and come from a
    `QuantileSketch`: for 10,000 documents, an edge is off by at most 124 places among the sorted values.

    - "hat": n_bins edges, the quantiles at 0, 1 / (n_bins - 1), ..., 1. Output b is 1 at edge b, 0 at the others and
      linear between them. Values beyond the first or last edge count as that edge, so outputs add up to 1. Of equal
      edges the first one counts; outputs of the others are 0.
    - "one-hot": n_bins - 1 edges, the quantiles at 1 / n_bins, ..., (n_bins - 1) / n_bins. Output b is 1 if exactly b
      edges are below the value, else 0: bin b goes up to edge b. A bin between equal edges is empty.
    - "thermometer": the same edges. Output b, of n_bins - 1, is 1 if the value is above edge b, else 0.

    The edges of a constant feature are all equal to it. Sketches of several streams can be merged while edges move;
    edges that stay can be merged with equal ones alone.

    Parameters
    ----------
    n_bins : int
        Number of bins, at least 2.
    kind : "hat", "one-hot", or "thermometer"
        What a feature becomes.
    after : int
        Number of documents from which on edges stay as they are.
    sparse : bool
        Return `SparseFeatures`, so that there may be many bins: a feature has at most two non-zeros with hats, one with
        bins, and as many as are 1 with thermometers. Later transforms and the learner must take sparse features.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[0.0], [1.0], [2.0], [7.0], [20.0]], [0, 1, 0, 0, 1])
    >>> bins = Bins(3).learn(stream)
    >>> bins.edges
    array([[ 0.,  2., 20.]])
    >>> bins.apply([[-5.0], [1.5], [11.0]], [0, 3])
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.75, 0.  ],
           [0.  , 0.5 , 0.5 ]])
    """

    name = "bins"
    settles = True

    def __init__(
        self,
        n_bins: int = 8,
        kind: Literal["hat", "one-hot", "thermometer"] = "hat",
        *,
        after: int = 10_000,
        sparse: bool = False,
    ) -> None:
        if not is_whole(n_bins) or not 2 <= n_bins <= _LARGEST_N_BINS:
            raise ParameterError("n_bins", f"must be a whole number from 2 to {_LARGEST_N_BINS}", n_bins)
        check_choice("kind", kind, KINDS)
        self.n_bins, self.kind, self.after = int(n_bins), str(kind), check_positive_whole("after", after)
        self.sparse = check_flag("sparse", sparse)
        self.count, self.frozen = 0, False
        self._due = 1
        self._set_edges(np.empty((0, 1)))
        self._sketch: QuantileSketch | None = None

    @property
    def makes_sparse(self) -> bool:  # type: ignore[override]
        return self.sparse

    @property
    def edges(self) -> Floats:
        """Edges of each feature, in rising order."""
        return self._edges.copy()

    @property
    def _n_each(self) -> int:
        """Number of outputs of a feature."""
        return self.n_bins - 1 if self.kind == "thermometer" else self.n_bins

    def freeze(self) -> Self:
        """Make edges the quantiles of all documents so far, and keep them."""
        self._check_seen()
        self._take(self._sketch, freeze=True)
        return self

    def merge(self, other: Bins) -> Self:
        """Add the documents of another one with the same settings, whose edges still move, to this one's."""
        self._check_kind(other)
        if (self.n_bins, self.kind, self.after) != (other.n_bins, other.kind, other.after):
            raise ValueError(f"{self!r} and {other!r} differ in their settings")
        if self.count and other.count:
            check_width(len(self._edges), len(other._edges))
        if other._sketch is not None and not self.frozen:
            self._take(other._sketch if self._sketch is None else self._sketch.merge(other._sketch))
        elif other.frozen and (self.count == 0 or (self.frozen and np.array_equal(self._edges, other._edges))):
            self.count, self.frozen = self.count + other.count, True
            self._set_edges(other._edges)
        elif other.count:
            raise ValueError("edges that no longer move can be merged with equal ones alone: merge before, or freeze")
        return self

    def _take(self, sketch: QuantileSketch | None, *, freeze: bool = False) -> None:
        """Set the edges to quantiles of a sketch; keep it if edges move on."""
        if sketch is None:  # they do not move
            return
        is_hat = self.kind == "hat"
        self._set_edges(sketch.quantiles(self.n_bins - 1) if is_hat else sketch.quantiles(self.n_bins)[:, 1:-1])
        self.count, self._due = sketch.count, sketch.count + max(1, sketch.count // 4)
        self.frozen = freeze or sketch.count >= self.after
        self._sketch = None if self.frozen else sketch

    def _set_edges(self, edges: Floats) -> None:
        self._edges = edges
        firsts = _first_of_equal(edges) if self.kind == "hat" else np.zeros((1, 1), np.int64)
        across = np.ascontiguousarray(edges.T) if edges.shape[1] <= _FEW else np.empty((0, 0))
        self._tables: Tables = np.ascontiguousarray(edges), across, firsts

    def _apply(self, X: Features, offsets: Ints, *, learning: bool) -> Any:
        if not self.sparse:
            return super()._apply(X, offsets, learning=learning)
        X, offsets = as_grouped(X, offsets)
        n_outputs = self.n_outputs(X.shape[1])
        if n_outputs > _MOST_OUTPUTS:
            raise ValueError(f"{X.shape[1]} features become {n_outputs}, more than {_MOST_OUTPUTS}: take fewer bins")
        parts = [bins._non_zeros(X, *rows) for bins, *rows in self._spans(X, offsets, learning=learning)]
        if not parts:
            return SparseFeatures.from_dense(np.empty((0, n_outputs), X.dtype))
        return parts[0] if len(parts) == 1 else SparseFeatures.concatenate(parts)

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        for bins, start, stop in self._spans(X, offsets, learning=learning):
            rows = read_only(X), start, stop, np.empty(X.shape[1]), np.empty(X.shape[1], np.int64)
            _check_row(X, bins_pass(rows, KINDS.index(self.kind), bins._tables, outputs, first))

    def _spans(self, X: Features, offsets: Ints, *, learning: bool) -> Iterator[tuple[Bins, int, int]]:
        """Iterate over rows from start to stop with the bins to write them by; learn, once all were written."""
        if self.count:
            check_width(len(self._edges), X.shape[1])
        if not learning or self.frozen:
            self._check_seen()
            yield self, 0, len(X)
            return
        if not len(X):
            return
        learned = copy.copy(self)
        if learned._sketch is None:
            learned._sketch = QuantileSketch(X.shape[1])
        start, n_queries = 0, len(offsets) - 1
        while start < n_queries and learned._sketch is not None:
            # Queries that end before edges are due are written with those that there are; the next one with new ones.
            ends = learned.count + offsets[start + 1 :] - offsets[start]
            due = start + int(np.searchsorted(ends, min(learned._due, self.after)))
            here, there = int(offsets[start]), int(offsets[due])
            if there > here:
                learned._sketch = learned._sketch.add(X[here:there])
                learned.count = learned._sketch.count
                yield learned, here, there
            if due < n_queries:
                here, there = there, int(offsets[due + 1])
                learned._take(learned._sketch.add(X[here:there]))
                yield learned, here, there
            start = due + 1
        if start < n_queries:
            yield learned, int(offsets[start]), len(X)
        self.__dict__.update(learned.__dict__)

    def _non_zeros(self, X: Features, start: int, stop: int) -> SparseFeatures:
        n_features, kind = X.shape[1], KINDS.index(self.kind)
        rows = read_only(X), start, stop, np.empty(n_features), np.empty(n_features, np.int64)
        room = n_features * (stop - start) * (2 if kind == HAT else 1)
        if kind == THERMOMETER:
            room = count_above(rows, self._tables)
        if room > _MANY:
            check_room(f"a block of {room} non-zeros of {self!r}", room)
        values, indices = np.empty(room, X.dtype), np.empty(room, np.int32)
        starts = np.zeros(stop - start + 1, np.int64)
        _check_row(X, sparse_bins_pass(rows, kind, self._tables, values, indices, starts))
        return SparseFeatures._trusted(values[: starts[-1]], indices[: starts[-1]], starts, self.n_outputs(n_features))

    def _check_seen(self) -> None:
        if not self.count:
            raise ValueError("bins have no edges before anything was seen: learn from documents first")

    def n_outputs(self, n_features: int) -> int:
        return n_features * self._n_each

    def sources(self, n_features: int) -> Ints:
        own = np.repeat(np.arange(n_features), self._n_each)
        return own if self.kind == "thermometer" else -1 - own

    def piecewise(self, n_features: int) -> Piecewise:
        return Piecewise(self.kind, self.edges)

    def describe(self, form: Form) -> Form:
        return Form("curve", "bin", "the bin")

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return names such as "3.5 < x <= 8" if edges are final, else "x bin 0", ..."""
        if names is None:
            return None
        bins: dict[str, None] = {}
        for j, name in enumerate(names):
            for b, described in enumerate(self._describe_bins(name, j)):
                bins[f"{described} (bin {b})" if described in bins else described] = None
        return tuple(bins)

    def _describe_bins(self, name: str, j: int) -> list[str]:
        if not self.frozen:
            return [f"{name} bin {b}" for b in range(self._n_each)]
        edges = [f"{edge:.6g}" for edge in self._edges[j]]
        if self.kind == "hat":
            return [f"{name} = {edge}" for edge in edges]
        if self.kind == "thermometer":
            return [f"{name} > {edge}" for edge in edges]
        between = [f"{low} < {name} <= {high}" for low, high in pairwise(edges)]
        return [f"{name} <= {edges[0]}", *between, f"{name} > {edges[-1]}"]

    def largest_norm(self, n_features: int, longest: int) -> float:
        return math.sqrt(n_features * (self.n_bins - 1 if self.kind == "thermometer" else 1))

    def state(self) -> dict[str, Any]:
        return self.settings() | {
            "count": self.count,
            "due": self._due,
            "frozen": self.frozen,
            "edges": self._edges.tolist(),
            "sketch": None if self._sketch is None else self._sketch.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.count, self._due = whole_number("count", state["count"]), whole_number("due", state["due"])
        self.frozen, n_edges = state["frozen"], self.n_bins if self.kind == "hat" else self.n_bins - 1
        rows = [finite_numbers("edges", row, n_edges) for row in state["edges"]]
        self._set_edges(np.array(rows).reshape(len(rows), n_edges))
        if (np.diff(self._edges, axis=1) < 0).any():
            raise ValueError("edges must not fall")
        sketch = state["sketch"]
        self._sketch = None if sketch is None else QuantileSketch.restore(sketch)
        if type(self.frozen) is not bool or (self.count > 0) != (len(rows) > 0) or (self.frozen and not self.count):
            raise ValueError("there must be a count and edges, or neither, and edges if frozen is true")
        if (self._sketch is not None) != (self.count > 0 and not self.frozen):
            raise ValueError("there must be a sketch if and only if edges still move")
        if self._sketch is not None and (self._sketch.count, self._sketch.n_features) != (self.count, len(rows)):
            raise ValueError("the sketch must be of as many documents and features as the edges")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # arrays and sketches are replaced, never changed

    def __repr__(self) -> str:
        sparse = ", sparse=True" if self.sparse else ""
        return f"Bins({self.n_bins}, {self.kind!r}, after={self.after}{sparse})"


def _check_row(X: Features, row: int) -> None:
    """Raise if a pass has returned a row with a feature that is not finite, rather than -1."""
    if row >= 0:
        raise bad_feature(X[row : row + 1], row, None)


def _first_of_equal(edges: Floats) -> IntRows:
    """Return for each edge the number of the first one that is equal to it."""
    starts = np.ones(edges.shape, dtype=bool)
    starts[:, 1:] = edges[:, 1:] > edges[:, :-1]
    numbers = np.where(starts, np.arange(edges.shape[1]), 0)
    return np.maximum.accumulate(numbers, axis=1)


@helper
def read_row(X: Features, i: int, values: Floats) -> bool:
    """Copy a row; return whether all its features are finite."""
    zero = 0.0
    for j in range(len(values)):
        x = np.float64(X[i, j])
        zero += x - x
        values[j] = x
    return zero == 0.0


@helper
def find_places(values: Floats, tables: Tables, hats: bool, places: Ints) -> None:
    """Count the edges below each value, or for hats those after the first that are not above it."""
    edges, across, _ = tables
    n_features, n_edges = edges.shape
    first = 1 if hats else 0
    for j in range(n_features):
        places[j] = 0
    if len(across) > 0:
        for b in range(first, n_edges):
            for j in range(n_features):
                is_below = across[b, j] <= values[j] if hats else across[b, j] < values[j]
                places[j] += 1 if is_below else 0
        return
    left = n_edges - first
    while left > 0:  # all features take a step of the bisection together, so that none waits for another one's edge
        half = (left + 1) // 2
        for j in range(n_features):
            edge = edges[j, places[j] + half - 1 + first]
            is_below = edge <= values[j] if hats else edge < values[j]
            places[j] += half if is_below else 0
        left -= half


@helper
def share_after(x: float, edges: FloatRows, j: int, place: int) -> float:
    """Return the height at x of the hat after `place`, the number of the last edge of feature j that is not above x."""
    if place == edges.shape[1] - 1 or x < edges[j, 0]:  # what is beyond the last or the first edge counts as that
        return 0.0
    low, high = edges[j, place], edges[j, place + 1]
    if high - low == math.inf:
        return (0.5 * x - 0.5 * low) / (0.5 * high - 0.5 * low)
    return (x - low) / (high - low)


@compiled
def bins_pass(rows: Rows, kind: int, tables: Tables, outputs: Features, first: int) -> int:
    """Write functions of the features of rows; return the first row with one not finite, or -1."""
    X, start, stop, values, places = rows
    edges, _, firsts = tables
    n_features, n_edges = edges.shape
    n_each = n_edges + 1 if kind == ONE_HOT else n_edges
    for i in range(start, stop):
        if not read_row(X, i, values):
            return i
        if kind == THERMOMETER:
            for j in range(n_features):
                for b in range(n_edges):
                    outputs[i, first + j * n_each + b] = 1.0 if values[j] > edges[j, b] else 0.0
            continue
        for k in range(n_features * n_each):
            outputs[i, first + k] = 0.0
        find_places(values, tables, kind == HAT, places)
        for j in range(n_features):
            begin = first + j * n_each
            if kind == ONE_HOT:
                outputs[i, begin + places[j]] = 1.0
                continue
            place = places[j]
            share = share_after(values[j], edges, j, place)
            outputs[i, begin + firsts[j, place]] = 1.0 - share
            if place < n_edges - 1:
                outputs[i, begin + place + 1] = share
    return -1


@compiled
def sparse_bins_pass(rows: Rows, kind: int, tables: Tables, numbers: Features, indices: Columns, starts: Ints) -> int:
    """Write the non-zeros of what `bins_pass` writes, as compressed sparse rows; return as it does."""
    X, start, stop, values, places = rows
    edges, _, firsts = tables
    n_features, n_edges = edges.shape
    n_each = n_edges + 1 if kind == ONE_HOT else n_edges
    k = 0
    for i in range(start, stop):
        if not read_row(X, i, values):
            return i
        find_places(values, tables, kind == HAT, places)
        for j in range(n_features):
            begin, place = j * n_each, places[j]
            if kind == ONE_HOT:
                numbers[k], indices[k] = 1.0, begin + place
                k += 1
            elif kind == THERMOMETER:
                for b in range(place):
                    numbers[k + b], indices[k + b] = 1.0, begin + b
                k += place
            else:
                share = share_after(values[j], edges, j, place)
                numbers[k], indices[k] = 1.0 - share, begin + firsts[j, place]
                k += 1 if share < 1.0 else 0
                if share > 0.0:  # there is room for two
                    numbers[k], indices[k] = share, begin + place + 1
                    k += 1 if share > 1e-30 or numbers[k] != 0.0 else 0  # in float32, less may be 0
        starts[i - start + 1] = k
    return -1


@compiled
def count_above(rows: Rows, tables: Tables) -> int:
    """Return how many times a feature of rows is above one of its edges."""
    X, start, stop, values, places = rows
    count = 0
    for i in range(start, stop):
        read_row(X, i, values)
        find_places(values, tables, False, places)
        for j in range(len(places)):
            count += places[j]
    return count
