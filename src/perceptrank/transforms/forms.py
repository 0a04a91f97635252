"""Plain values in which a transform says what it makes of features, for what explains and exports a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from perceptrank.kernels.arrays import Floats

if TYPE_CHECKING:
    from perceptrank.transforms.trees.forest import Forest

_MOST_BYTES = 2**30  # of constants: a file of ONNX has at most twice that


class Nodes(Protocol):
    """The operations of an ONNX graph, which return names; numbers and arrays become constants."""

    def add(self, operation: str, *inputs: str | float | Floats, n_outputs: int = 1, **attributes: Any) -> Any: ...
    def constant(self, value: Any, kind: Any = np.float64) -> str: ...
    def whole(self, *values: int) -> str: ...  # a constant vector of whole numbers
    def number(self, value: int) -> str: ...  # a constant whole number
    def rows(self, value: str) -> str: ...  # how many there are
    def as_double(self, value: str) -> str: ...
    def as_whole(self, value: str) -> str: ...
    def product(self, value: str, matrix: Floats) -> str: ...  # of two matrices; take it in place of MatMul
    def reduce(self, operation: str, value: str) -> str: ...  # each column to one row
    def trees(self, value: str, **attributes: Any) -> str: ...  # TreeEnsemble; arrays are attributes that are tensors
    def slice_rows(self, value: str, first: int, last: int) -> str: ...  # `last` is excluded, may count from the end


class Affine(NamedTuple):
    """A transform that makes (x - mean) * inverse, which is not negative, of each feature x."""

    mean: Floats
    inverse: Floats


class Filling(NamedTuple):
    """A transform that fills in missing values and leaves all others as they are."""

    values: Floats  # of each feature, where it is missing
    has_indicators: bool  # if so, a feature for each follows, which is 1 where the value is missing and 0 elsewhere


class Added(NamedTuple):
    """A forest or another ranker that scores as weights of outputs do, those of features left out."""

    keeps: bool  # True if the features are the first outputs; their weights are then apart from this
    forest: Forest | None = None  # trees, whose leaves have what these add to the score; None if there are none
    ranker: Any = None  # a learner whose score is multiplied by the factor
    factor: float = 0.0


class Folding(NamedTuple):
    """Weights of features before a transform that only adds them up, with signs."""

    weights: Floats
    notes: list[str]  # what must be known of them


class Piecewise(NamedTuple):
    """A transform that makes several functions of each feature, given by edges: those of a feature side by side.

    A "hat" is 1 at an edge, 0 at the others and linear in between; "one-hot" is 1 between two neighbouring edges, the
    upper one included, and beyond the first and last; a "thermometer" is 1 above an edge.
    """

    kind: str
    edges: Floats  # of shape (features, edges), rising for each feature

    @property
    def n_each(self) -> int:
        """Number of functions of a feature."""
        return self.edges.shape[1] + (1 if self.kind == "one-hot" else 0)

    @property
    def has_steps(self) -> bool:
        """True if the functions are constant between edges, False if they are linear."""
        return self.kind != "hat"

    def add_nodes(self, nodes: Nodes, X: str) -> str:
        """Add the functions to an ONNX graph; return the name of their values."""
        width = len(self.edges)
        if 8 * 3 * width * self.n_each > _MOST_BYTES:
            raise ValueError(f"{width} features have more edges than files of ONNX have room for: take fewer bins")
        values = nodes.add("Unsqueeze", X, nodes.whole(2))
        if self.has_steps:
            parts = nodes.as_double(nodes.add("Greater", values, self.edges))
        else:
            parts = self._add_shares(nodes, values)
        if self.kind != "thermometer":
            parts = _add_differences(nodes, parts)
        return str(nodes.add("Reshape", parts, nodes.whole(-1, width * self.n_each)))

    def _add_shares(self, nodes: Nodes, values: str) -> str:
        """Add for all edges but the last how much of the way to the next higher edge a value has gone, from 0 to 1."""
        edges = self.edges
        following = edges.copy()
        for place in range(edges.shape[1] - 2, -1, -1):
            is_equal = edges[:, place] == edges[:, place + 1]
            following[:, place] = np.where(is_equal, following[:, place + 1], edges[:, place + 1])
        lows, gaps = edges[:, :-1], following[:, :-1] - edges[:, :-1]
        if not np.isfinite(gaps).all():
            raise ValueError("edges of bins are further apart than double precision holds: scale the features")
        shares = nodes.add("Div", nodes.add("Sub", values, lows), np.where(gaps > 0.0, gaps, 1.0))
        return str(nodes.add("Mul", nodes.add("Clip", shares, 0.0, 1.0), (gaps > 0.0).astype(np.float64)))


def _add_differences(nodes: Nodes, parts: str) -> str:
    """Add 1 minus the first part, the first minus the second, ..., and the last."""
    before = nodes.add("Pad", parts, nodes.whole(0, 0, 1, 0, 0, 0), nodes.constant(1.0))
    after = nodes.add("Pad", parts, nodes.whole(0, 0, 0, 0, 0, 1), nodes.constant(0.0))
    return str(nodes.add("Sub", before, after))


def add_inverse(nodes: Nodes, value: str, where: str) -> Any:
    """Add 1 over a value where a condition holds, 0 elsewhere."""
    return nodes.add("Where", where, nodes.add("Div", 1.0, value), 0.0)
