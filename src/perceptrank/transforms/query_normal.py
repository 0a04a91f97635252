"""Replacing each query's features by the normal scores of their ranks within the query."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.transforms.column_ranks import add_places, write_scores
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.transform import ColumnTransform

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


class QueryNormal(ColumnTransform):
    """Replace each feature by the normal score of its rank r among the m documents of the query.

    That is the value below which a standard normal variable lies with chance (r - 1/2) / m. Equal values have the mean
    of their ranks; constant features and single documents become 0. It says more of the best and the worst documents
    than the rank itself.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [30.0, 5.0], [2.0, 5.0]], [0, 1, 0])
    >>> QueryNormal().transform(stream).X[:, 0].round(3)
    array([-0.967,  0.967,  0.   ])
    """

    name = "query-normal"
    rises = True
    scope = "query"
    label = "normal score"
    unit = "normal score of its rank within its query (from the median to the 84th percentile)"
    spread = 1.0

    def write_columns(self, X: Features, offsets: Ints, outputs: Features, first: int) -> None:
        write_scores(X, offsets, outputs, first, normal_scores)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        m = nodes.rows(X)
        size = nodes.add("Sub", nodes.add("Mul", m, nodes.number(2)), nodes.number(1))
        sums = nodes.add("Range", nodes.number(0), size, nodes.number(1))
        twice = nodes.add("Mul", nodes.as_double(m), 2.0)
        chances = nodes.add("Div", nodes.add("Add", nodes.as_double(sums), 1.0), twice)
        is_middle = nodes.add("Equal", nodes.add("Add", sums, nodes.number(1)), m)
        table = nodes.add("Where", is_middle, 0.0, _add_quantiles(nodes, chances))
        return str(nodes.add("Gather", table, add_places(nodes, X, n_features)))

    def largest_norm(self, n_features: int, longest: int) -> float:
        # The scores of m documents have a mean square of less than 1; one document cannot have more than the largest.
        return math.sqrt(n_features) * NormalDist().inv_cdf(1 - 0.5 / longest) if longest > 1 else 0.0


def normal_scores(m: int) -> Floats:
    """Return the normal scores of m documents by the sum of their first and last place, which count from 0."""
    quantile = NormalDist().inv_cdf
    scores = np.array([quantile((total + 1) / (2 * m)) for total in range(2 * m - 1)])
    scores[m - 1] = 0.0
    return scores


def _add_quantiles(nodes: Nodes, p: str) -> str:
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
