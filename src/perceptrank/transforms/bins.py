"""Piecewise constant and piecewise linear functions of features, between their quantiles."""

import copy
import math
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.sparse import dense
from perceptrank.stream.validation import (
    ParameterError,
    bad_feature,
    check_choice,
    check_positive_whole,
    is_whole,
    read_only,
)
from perceptrank.transforms.quantile_sketch import QuantileSketch
from perceptrank.transforms.transform import WritingTransform

KINDS = ("hat", "one-hot", "thermometer")
HAT, ONE_HOT, THERMOMETER = range(3)
_LARGEST_N_BINS = 2**16


class Bins(WritingTransform):
    """Replace each feature by functions of it that are bounded by its quantiles, so that a learner fits a curve to it.

    The edges of a feature are its quantiles over the documents so far, those of the query included. They are found
    anew when there are a quarter more documents than the last time, and stay as they are from the end of the query on
    that brings their number to `after`. Before that, they come from a `QuantileSketch`: for 10,000 documents, an edge
    is off by at most 124 places among the sorted values.

    - "hat": n_bins edges e, the quantiles at 0, 1 / (n_bins - 1), ..., 1. Output b is 1 at edge b, 0 at the others and
      linear between them. A value below the first edge counts as that edge, one above the last as the last, so outputs
      add up to 1. Equal edges count as one, the first of them; outputs of the others are 0.
    - "one-hot": n_bins - 1 edges, the quantiles at 1 / n_bins, ..., (n_bins - 1) / n_bins. Output b is 1 if exactly b
      edges are below the value, so that values above edge b - 1 up to edge b are in bin b; the others are 0. A bin
      between equal edges is empty.
    - "thermometer": the same edges. Output b, of n_bins - 1, is 1 if the value is above edge b, else 0.

    The edges of a constant feature are all equal to it. Sketches of several streams can be merged while edges move;
    edges that stay can be merged with equal ones alone.

    Parameters
    ----------
    n_bins : int
        Number of bins, at least 2.
    kind : "hat", "one-hot" or "thermometer"
        What a feature becomes.
    after : int
        Number of documents from which on edges stay as they are.

    Attributes
    ----------
    count : int
        Number of documents that edges come from.
    frozen : bool
        True if edges stay as they are.

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
    learns = True

    def __init__(
        self, n_bins: int = 8, kind: Literal["hat", "one-hot", "thermometer"] = "hat", *, after: int = 10_000
    ) -> None:
        self._set(n_bins, kind, after)
        self.count, self.frozen = 0, False
        self._due = 1
        self._set_edges(np.empty((0, 1)))
        self._sketch: QuantileSketch | None = None

    def _set(self, n_bins: Any, kind: Any, after: Any) -> None:
        if not is_whole(n_bins) or not 2 <= n_bins <= _LARGEST_N_BINS:
            raise ParameterError("n_bins", f"must be a whole number from 2 to {_LARGEST_N_BINS}", n_bins)
        check_choice("kind", kind, KINDS)
        self.n_bins, self.kind, self.after = int(n_bins), str(kind), check_positive_whole("after", after)

    @property
    def edges(self) -> Floats:
        """Edges of each feature, in rising order."""
        return self._edges.copy()

    @property
    def _n_each(self) -> int:
        """Number of outputs of a feature."""
        return self.n_bins - 1 if self.kind == "thermometer" else self.n_bins

    def learn(self, stream: Blocks) -> Self:
        """Learn edges from the features of a stream, or of an iterable of blocks."""
        for part in as_blocks(stream):
            for block in part.blocks():
                self.learn_and_apply(dense(block.X), block.offsets)
        return self

    def freeze(self) -> Self:
        """Make edges the quantiles of all documents so far, and keep them."""
        self._check_seen()
        self._take(self._sketch, freeze=True)
        return self

    def merge(self, other: "Bins") -> Self:
        """Add the documents of another one with the same settings, whose edges still move, to this one's."""
        if (self.n_bins, self.kind, self.after) != (other.n_bins, other.kind, other.after):
            raise ValueError(f"{self!r} and {other!r} differ in their settings")
        if self.count and other.count:
            self._check_width(len(other._edges))
        if other._sketch is not None and not self.frozen:
            self._take(other._sketch if self._sketch is None else self._sketch.merged(other._sketch))
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
        self._set_edges(self._edges_of(sketch))
        self.count, self._due = sketch.count, _due_after(sketch.count)
        self.frozen = freeze or sketch.count >= self.after
        self._sketch = None if self.frozen else sketch

    def _edges_of(self, sketch: QuantileSketch) -> Floats:
        if self.kind == "hat":
            return sketch.quantiles(self.n_bins - 1)
        return sketch.quantiles(self.n_bins)[:, 1:-1]

    def _set_edges(self, edges: Floats) -> None:
        self._edges = edges
        firsts = _first_of_equal(edges) if self.kind == "hat" else np.zeros((1, 1), np.int64)
        self._tables: tuple[FloatRows, IntRows] = (np.ascontiguousarray(edges.T), np.ascontiguousarray(firsts.T))

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Learn from each query, if asked to and edges move, and write the functions of features, from `first` on."""
        if self.count:
            self._check_width(X.shape[1])
        if not learning or self.frozen:
            self._check_seen()
            self._write(X, 0, len(X), outputs, first)
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
                learned._sketch = learned._sketch.added(X[here:there])
                learned.count = learned._sketch.count
                learned._write(X, here, there, outputs, first)
            if due < n_queries:
                here, there = there, int(offsets[due + 1])
                learned._take(learned._sketch.added(X[here:there]))
                learned._write(X, here, there, outputs, first)
            start = due + 1
        if start < n_queries:
            learned._write(X, int(offsets[start]), len(X), outputs, first)
        self.__dict__.update(learned.__dict__)

    def _write(self, X: Features, start: int, stop: int, outputs: Features, first: int) -> None:
        edges, firsts = self._tables
        scratch = np.empty(X.shape[1]), np.empty(X.shape[1], np.int64)
        row = bins_pass(read_only(X), start, stop, KINDS.index(self.kind), edges, firsts, outputs, first, *scratch)
        if row >= 0:
            raise bad_feature(X[row : row + 1], row, None)

    def _check_seen(self) -> None:
        if not self.count:
            raise ValueError("bins have no edges before anything was seen: learn from documents first")

    def _check_width(self, n_features: int) -> None:
        if len(self._edges) != n_features:
            raise ValueError(f"the transform was learned from {len(self._edges)} features, got {n_features}")

    def n_outputs(self, n_features: int) -> int:
        """Return the number of features that so many become."""
        return n_features * self._n_each

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the features that features of these names become: with the edges, if those are final.

        They are "x = 3.5" for hats, "x > 3.5" for thermometers and "x <= 3.5", "3.5 < x <= 8", "x > 8" for bins; "x bin
        0", "x bin 1", ... as long as edges move. A name that would be there twice has the number of its bin.
        """
        if names is None:
            return None
        made: dict[str, None] = {}
        for j, name in enumerate(names):
            for b, described in enumerate(self._described(name, j)):
                made[f"{described} (bin {b})" if described in made else described] = None
        return tuple(made)

    def _described(self, name: str, j: int) -> list[str]:
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
        """Return an upper bound on the norm of a transformed document."""
        return math.sqrt(n_features * (self.n_bins - 1 if self.kind == "thermometer" else 1))

    def state(self) -> dict[str, Any]:
        """Return the settings, the edges and, while those move, the sketch."""
        return {
            "n_bins": self.n_bins,
            "kind": self.kind,
            "after": self.after,
            "count": self.count,
            "due": self._due,
            "frozen": self.frozen,
            "edges": self._edges.tolist(),
            "sketch": None if self._sketch is None else self._sketch.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned; raise if it is inconsistent."""
        self._set(state["n_bins"], state["kind"], state["after"])
        self.count, self._due = whole_number("count", state["count"]), whole_number("due", state["due"])
        self.frozen, n_edges = state["frozen"], self.n_bins if self.kind == "hat" else self.n_bins - 1
        rows = [finite_numbers("edges", row, n_edges) for row in state["edges"]]
        self._set_edges(np.array(rows).reshape(len(rows), n_edges))
        if (np.diff(self._edges, axis=1) < 0).any():
            raise ValueError("edges must not fall")
        sketch = state["sketch"]
        self._sketch = None if sketch is None else QuantileSketch.restored(sketch)
        if type(self.frozen) is not bool or (self.count > 0) != (len(rows) > 0) or (self.frozen and not self.count):
            raise ValueError("there must be a count and edges, or neither, and edges if frozen is true")
        if (self._sketch is not None) != (self.count > 0 and not self.frozen):
            raise ValueError("there must be a sketch if and only if edges still move")
        if self._sketch is not None and (self._sketch.count, self._sketch.n_features) != (self.count, len(rows)):
            raise ValueError("the sketch must be of as many documents and features as the edges")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # arrays and sketches are replaced, never changed

    def __repr__(self) -> str:
        return f"Bins({self.n_bins}, {self.kind!r}, after={self.after})"


def _due_after(count: int) -> int:
    """Return the number of documents at which edges are found anew."""
    return count + max(1, count // 4)


def _first_of_equal(edges: Floats) -> IntRows:
    """Return for each edge the number of the first one that is equal to it."""
    starts = np.ones(edges.shape, dtype=bool)
    starts[:, 1:] = edges[:, 1:] > edges[:, :-1]
    numbers = np.where(starts, np.arange(edges.shape[1]), 0)
    return np.maximum.accumulate(numbers, axis=1)


@compiled
def bins_pass(
    X: Features,
    start: int,
    stop: int,
    kind: int,
    edges: FloatRows,
    firsts: IntRows,
    outputs: Features,
    first: int,
    values: Floats,
    places: Ints,
) -> int:
    """Write functions of the features of rows start to stop; return the first row with one not finite, or -1.

    Edges have a row for each edge and a column for each feature, so that all features are compared at once.
    """
    n_edges, n_features = edges.shape
    n_each = n_edges + 1 if kind == ONE_HOT else n_edges
    for i in range(start, stop):
        zero = 0.0
        for j in range(n_features):
            x = np.float64(X[i, j])
            zero += x - x
            values[j] = x
            places[j] = 0
        if zero != 0.0:  # so is what is not a number
            return i
        if kind == THERMOMETER:
            for j in range(n_features):
                for b in range(n_edges):
                    outputs[i, first + j * n_each + b] = 1.0 if values[j] > edges[b, j] else 0.0
            continue
        for k in range(n_features * n_each):
            outputs[i, first + k] = 0.0
        if kind == ONE_HOT:
            for b in range(n_edges):
                for j in range(n_features):
                    places[j] += 1 if edges[b, j] < values[j] else 0
            for j in range(n_features):
                outputs[i, first + j * n_each + places[j]] = 1.0
            continue
        for b in range(1, n_edges):  # what is below the first edge counts as that edge
            for j in range(n_features):
                places[j] += 1 if edges[b, j] <= values[j] else 0
        for j in range(n_features):
            place, begin = places[j], first + j * n_each
            if place == n_edges - 1 or values[j] < edges[0, j]:
                outputs[i, begin + firsts[place, j]] = 1.0
                continue
            low, high = edges[place, j], edges[place + 1, j]
            share = (values[j] - low) / (high - low)
            if high - low == math.inf:
                share = (0.5 * values[j] - 0.5 * low) / (0.5 * high - 0.5 * low)
            outputs[i, begin + firsts[place, j]] = 1.0 - share
            outputs[i, begin + place + 1] = share
    return -1
