"""Ranks within a query, and their normal scores, in ONNX operations."""

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.transforms.forms import Nodes

# Rational approximations of the quantile of the normal distribution, from the largest power to the smallest, as
# `statistics.NormalDist` has them: M. J. Wichura, "Algorithm AS241: The Percentage Points of the Normal Distribution".
# The third of them is for chances below exp(-25), which take more documents than fit into memory.
_COEFFICIENTS = """
    2.5090809287301226727e3 3.3430575583588128105e4 6.7265770927008700853e4 4.5921953931549871457e4
    1.3731693765509461125e4 1.9715909503065514427e3 1.3314166789178437745e2 3.3871328727963666080e0
    5.2264952788528545610e3 2.8729085735721942674e4 3.9307895800092710610e4 2.1213794301586595867e4
    5.3941960214247511077e3 6.8718700749205790830e2 4.2313330701600911252e1 1.0
    7.74545014278341407640e-4 2.27238449892691845833e-2 2.41780725177450611770e-1 1.27045825245236838258e0
    3.64784832476320460504e0 5.76949722146069140550e0 4.63033784615654529590e0 1.42343711074968357734e0
    1.05075007164441684324e-9 5.47593808499534494600e-4 1.51986665636164571966e-2 1.48103976427480074590e-1
    6.89767334985100004550e-1 1.67638483018380384940e0 2.05319162663775882187e0 1.0
"""
_NEAR, _FAR = np.reshape(_COEFFICIENTS.split(), (2, 2, 8)).astype(np.float64)  # numerator and denominator of each


def add_places(nodes: Nodes, X: str, width: int) -> str:
    """Return, for each value of a column, the sum of the first and the last place of all that equal it, from 0 on.

    Columns are sorted; equal values are next to each other, and are numbered together. The first and last place of
    each number are found by scattering, and brought back to where the values came from.
    """
    m, shape = nodes.rows(X), nodes.add("Shape", X)
    values, order = nodes.add("TopK", X, nodes.add("Reshape", m, nodes.whole(1)), axis=0, largest=0, n_outputs=2)
    same = nodes.add("Equal", nodes.slice_rows(values, 1, 2**62), nodes.slice_rows(values, 0, -1))
    begins = nodes.as_whole(nodes.add("Not", same))
    runs = nodes.add("Concat", nodes.constant(np.zeros((1, width)), np.int64), begins, axis=0)
    runs = nodes.add("CumSum", runs, nodes.number(0))
    places = nodes.add("Range", nodes.number(0), m, nodes.number(1))
    places = nodes.add("Expand", nodes.add("Unsqueeze", places, nodes.whole(1)), shape)
    zeros, largest = nodes.add("Expand", nodes.number(0), shape), nodes.add("Expand", m, shape)
    first = nodes.add("ScatterElements", largest, runs, places, axis=0, reduction="min")
    last = nodes.add("ScatterElements", zeros, runs, places, axis=0, reduction="max")
    total = nodes.add("GatherElements", nodes.add("Add", first, last), runs, axis=0)
    return str(nodes.add("ScatterElements", zeros, order, total, axis=0))


def add_ranks(nodes: Nodes, X: str, width: int) -> str:
    """Return the ranks of `QueryRank`, from -1 to 1."""
    total, m = nodes.as_double(add_places(nodes, X, width)), nodes.as_double(nodes.rows(X))
    before = nodes.add("Sub", m, 1.0)
    return str(nodes.add("Div", nodes.add("Sub", total, before), nodes.add("Max", before, 1.0)))


def add_normal_scores(nodes: Nodes, X: str, width: int) -> str:
    """Return the normal scores of `QueryNormal`, from a table of all that m documents can have."""
    m = nodes.rows(X)
    size = nodes.add("Sub", nodes.add("Mul", m, nodes.number(2)), nodes.number(1))
    sums = nodes.add("Range", nodes.number(0), size, nodes.number(1))
    twice = nodes.add("Mul", nodes.as_double(m), 2.0)
    chances = nodes.add("Div", nodes.add("Add", nodes.as_double(sums), 1.0), twice)
    is_middle = nodes.add("Equal", nodes.add("Add", sums, nodes.number(1)), m)
    table = nodes.add("Where", is_middle, 0.0, add_quantiles(nodes, chances))
    return str(nodes.add("Gather", table, add_places(nodes, X, width)))


def add_quantiles(nodes: Nodes, p: str) -> str:
    """Return the values below which a standard normal variable lies with chances p, of which none is below exp(-25)."""
    q = nodes.add("Sub", p, 0.5)
    r = nodes.add("Sub", 0.180625, nodes.add("Mul", q, q))
    near = nodes.add("Div", nodes.add("Mul", _polynomial(nodes, _NEAR[0], r), q), _polynomial(nodes, _NEAR[1], r))
    tail = nodes.add("Min", p, nodes.add("Sub", 1.0, p))
    r = nodes.add("Sub", nodes.add("Sqrt", nodes.add("Neg", nodes.add("Log", tail))), 1.6)
    far = nodes.add("Div", _polynomial(nodes, _FAR[0], r), _polynomial(nodes, _FAR[1], r))
    far = nodes.add("Mul", nodes.add("Sign", q), far)
    is_near = nodes.add("LessOrEqual", nodes.add("Abs", q), 0.425)
    return str(nodes.add("Where", is_near, near, far))


def _polynomial(nodes: Nodes, coefficients: Floats, r: str) -> str:
    total: str | float = float(coefficients[0])
    for coefficient in coefficients[1:].tolist():
        total = nodes.add("Add", nodes.add("Mul", total, r), coefficient)
    return str(total)
