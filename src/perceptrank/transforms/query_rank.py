"""Replacing each query's features by their ranks within the query."""

from __future__ import annotations

import math

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.transforms.column_ranks import add_places, write_scores
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.transform import ColumnTransform


class QueryRank(ColumnTransform):
    """Replace each feature by its rank within the query, from -1 for the smallest value to 1 for the largest.

    Equal values have the mean of their ranks; constant features and single documents become 0.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [30.0, 5.0], [2.0, 5.0], [2.0, 5.0]], [0, 1, 0, 0])
    >>> QueryRank().transform(stream).X[:, 0]
    array([-1.,  1.,  0.,  0.])
    """

    name = "query-rank"
    rises = True
    scope = "query"
    label, unit = "rank", "step from the middle to the top of the ranks within its query"
    spread = 1.0 / math.sqrt(3.0)

    def write_columns(self, X: Features, offsets: Ints, outputs: Features, first: int) -> None:
        write_scores(X, offsets, outputs, first, rank_scores)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        total, m = nodes.as_double(add_places(nodes, X, n_features)), nodes.as_double(nodes.rows(X))
        before = nodes.add("Sub", m, 1.0)
        return str(nodes.add("Div", nodes.add("Sub", total, before), nodes.add("Max", before, 1.0)))

    def largest_norm(self, n_features: int, longest: int) -> float:
        return math.sqrt(n_features) if longest > 1 else 0.0


def rank_scores(m: int) -> Floats:
    """Return the ranks of m documents, from -1 to 1, by the sum of their first and last place, which count from 0."""
    return np.arange(1.0 - m, m) / max(m - 1, 1)
