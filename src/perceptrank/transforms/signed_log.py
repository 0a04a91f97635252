"""Logarithms of features of any sign."""

from __future__ import annotations

import math

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import read_only
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.lineage import Form
from perceptrank.transforms.transform import ElementwiseTransform


class SignedLog(ElementwiseTransform):
    """Replace each feature x by sign(x) log(1 + |x|), for counts and others that are spread over orders of magnitude.

    Examples
    --------
    >>> import perceptrank as pr
    >>> SignedLog().transform(pr.QueryStream.from_arrays([[0.0, 1e6], [-9.0, 1.0]], [0, 1])).X.round(2)
    array([[ 0.  , 13.82],
           [-2.3 ,  0.69]])
    """

    name = "signed-log"
    rises = True

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        signed_log_pass(read_only(X), outputs, first)

    def describe(self, form: Form) -> Form:
        return Form("log", "unit of log(1 + |x|)", "log(1 + |x|)")

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        """Add the logarithm: for y = |x| it is log(u) y / (u - 1), exact also for small y, with u = 1 + y rounded."""
        y = nodes.add("Abs", X)
        u = nodes.add("Add", y, 1.0)
        above = nodes.add("Sub", u, 1.0)
        is_zero = nodes.add("Equal", above, 0.0)
        ratio = nodes.add("Div", y, nodes.add("Where", is_zero, 1.0, above))
        size = nodes.add("Where", is_zero, y, nodes.add("Mul", nodes.add("Log", u), ratio))
        return str(nodes.add("Mul", nodes.add("Sign", X), size))


@compiled
def signed_log_pass(X: Features, outputs: Features, first: int) -> None:
    """Write sign(x) log(1 + |x|) for every feature x."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = float(X[i, j])
            outputs[i, first + j] = math.copysign(math.log1p(abs(x)), x)
