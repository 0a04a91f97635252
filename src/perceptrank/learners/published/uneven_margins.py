"""Shen and Joshi's perceptron with uneven margins."""

from __future__ import annotations

from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.stream.validation import check_positive


@helper
def uneven_margins_rule(settings: tuple[()], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Move pairs of ranks p < q by grade, equal grades sharing the best, that are closer than margin (1/p - 1/q)."""
    scores, grades, _, margin, _ = query
    share, m = rows[0][0], len(scores)
    for i in range(m):
        rank = 1
        for j in range(m):
            rank += 1 if grades[j] > grades[i] else 0
        share[i] = 1.0 / rank
    mass = 0.0
    for i in range(m):
        for j in range(m):
            gap = share[i] - share[j]
            if gap > 0.0 and scores[i] - scores[j] < margin * gap:
                coefficients[i] -= gap
                coefficients[j] += gap
                mass += gap
    return mass


class UnevenMargins(Startable, CompiledLearner):
    """Perceptron with margins that grow with the distance of two ranks and their nearness to the top.

    Documents have ranks 1, 2, ... by grade, equal grades sharing the best. A pair of ranks p < q has the weight
    g = 1/p - 1/q; if its scores are less than margin * g apart, it adds learning_rate * g (x_i - x_j) to the weights,
    all pairs of a query at once. Rankings depend on margin / learning_rate alone. Learns from lists.

    Parameters
    ----------
    margin : float > 0
        Unit of the required differences in score.

    References
    ----------
    L. Shen and A. K. Joshi, "Ranking and Reranking with Perceptron".

    Examples
    --------
    >>> ranker = UnevenMargins(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [2, 1])  # ranks 1 and 2, so g = 1/2
    True
    >>> ranker.weights
    array([ 0.5, -0.5])
    """

    algorithm = "uneven-margins"
    cost = "m d + m²"
    kernel = list_pass(uneven_margins_rule, floats=1)

    learning_rate: float = 0.1
    _: KW_ONLY
    margin: float = 1.0

    def _make_settings(self) -> ListSettings:
        return list_settings(self, margin=check_positive("margin", self.margin))
