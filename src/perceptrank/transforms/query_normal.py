"""Replacing each query's features by the normal scores of their ranks within the query."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.transforms.column_ranks import write_scores
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.transform import ColumnTransform


class QueryNormal(ColumnTransform):
    """Replace each feature by the normal score of its rank r among the m documents of the query.

    That is the value below which a standard normal variable lies with chance (r - 1/2) / m. Equal values have the mean
    of their ranks; constant features and single documents become 0. It depends on the order of values alone, whatever
    their scale, and says more of the best and the worst documents than the rank itself.

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
        from perceptrank.transforms.rank_nodes import add_normal_scores

        return add_normal_scores(nodes, X, n_features)

    def largest_norm(self, n_features: int, longest: int) -> float:
        # The scores of m documents have a mean square of less than 1; one document cannot have more than the largest.
        return math.sqrt(n_features) * NormalDist().inv_cdf(1 - 0.5 / longest) if longest > 1 else 0.0


def normal_scores(m: int) -> Floats:
    """Return the normal scores of m documents by the sum of their first and last place, which count from 0."""
    quantile = NormalDist().inv_cdf
    scores = np.array([quantile((total + 1) / (2 * m)) for total in range(2 * m - 1)])
    scores[m - 1] = 0.0
    return scores
