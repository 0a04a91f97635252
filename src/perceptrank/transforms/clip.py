"""Clipping features."""

from __future__ import annotations

import math

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import check_positive, read_only
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.lineage import Form
from perceptrank.transforms.transform import ElementwiseTransform


class Clip(ElementwiseTransform):
    """Move features beyond a limit to the limit: after `running`, a single outlier cannot make a step long.

    Parameters
    ----------
    limit : float > 0
        Largest absolute value.

    Examples
    --------
    >>> import perceptrank as pr
    >>> Clip(2).transform(pr.QueryStream.from_arrays([[1.0, -5.0], [30.0, 0.5]], [0, 1])).X
    array([[ 1. , -2. ],
           [ 2. ,  0.5]])
    """

    name = "clip"
    rises = True

    def __init__(self, limit: float = 3.0) -> None:
        self.limit = float(check_positive("limit", limit))

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        clip_pass(read_only(X), self.limit, outputs, first)

    def evaluate(self, X: Floats) -> Floats:
        return np.clip(X, -self.limit, self.limit)

    def describe(self, form: Form) -> Form:
        return Form(f"{form.label}, clipped", f"{form.unit} (within ±{self.limit:g})", form.of)

    def spreads(self, before: Floats) -> Floats:
        return before

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        return str(nodes.add("Clip", X, -self.limit, self.limit))

    def largest_norm(self, n_features: int, longest: int) -> float:
        return self.limit * math.sqrt(n_features)

    def __repr__(self) -> str:
        return f"Clip({self.limit:g})"


@compiled
def clip_pass(X: Features, limit: float, outputs: Features, first: int) -> None:
    """Write features moved to the range from -limit to limit; what is not finite becomes NaN, for others to notice."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[i, j]
            clipped = x if not x > limit else X.dtype.type(limit)
            clipped = clipped if not x < -limit else X.dtype.type(-limit)
            outputs[i, first + j] = clipped - (x - x)  # which is 0 if x is finite, and leaves the sign of a zero alone
