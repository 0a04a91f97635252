"""Replacing each query's features by their ranks within the query."""

import math

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.stream.validation import read_only
from perceptrank.transforms.column_ranks import RankScratch, check_ranked, make_rank_scratch, rank_query
from perceptrank.transforms.transform import WritingTransform


class QueryRank(WritingTransform):
    """Replace each feature by its rank within the query, from -1 for the smallest value to 1 for the largest.

    Equal values have the mean of their ranks; constant features and single documents become 0.

    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [30.0, 5.0], [2.0, 5.0], [2.0, 5.0]], [0, 1, 0, 0])
    >>> QueryRank().transform(stream).X[:, 0]
    array([-1.,  1.,  0.,  0.])
    """

    name = "query-rank"

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Write the ranks into columns of an array, from column `first` on."""
        scratch = make_rank_scratch(X, offsets)
        check_ranked(X, offsets, query_rank_pass(read_only(X), read_only(offsets), outputs, first, scratch))

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document."""
        return math.sqrt(n_features) if longest > 1 else 0.0


@helper
def fill_ranks(m: int, table: Floats) -> None:
    """Write numbers from -1 to 1 at equal distances, or 0 for one document."""
    for place in range(2 * m - 1):
        table[place] = (place - (m - 1)) / (m - 1) if m > 1 else 0.0


@compiled
def query_rank_pass(X: Features, offsets: Ints, scores: Features, first: int, scratch: RankScratch) -> int:
    """Replace features of every query by their ranks; return the first query that has one not finite, or -1."""
    table, longest = scratch[6], 0
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if m != longest:
            fill_ranks(m, table)
            longest = m
        if not rank_query(X, offsets[q], offsets[q + 1], scratch, scores, first):
            return q
    return -1
