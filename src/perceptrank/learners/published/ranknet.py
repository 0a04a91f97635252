"""Pairwise logistic regression, which is RankNet with a linear scorer."""

from __future__ import annotations

import math

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.theory import theorems


@helper
def ranknet_rule(settings: tuple[()], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write the gradient of the mean of log(1 + exp(s_j - s_i)) over all pairs R_i > R_j."""
    scores, grades, _, _, _ = query
    m, n_pairs = len(scores), 0
    for i in range(m):
        for j in range(m):
            if grades[i] > grades[j]:
                apart = scores[i] - scores[j]
                slope = 1.0 / (1.0 + math.exp(apart)) if apart <= 0.0 else math.exp(-apart) / (1.0 + math.exp(-apart))
                coefficients[i] -= slope
                coefficients[j] += slope
                n_pairs += 1
    for i in range(m):
        coefficients[i] /= n_pairs
    return 1.0


class RankNet(Startable, CompiledLearner):
    """Online gradient descent on the mean of log(1 + exp(s_j - s_i)) over all pairs of grades R_i > R_j.

    One step for every query whose grades differ. Learns from lists, independently of the measure. It has the regret
    bound of gradient descent and none on a ranking measure.

    References
    ----------
    C. Burges, T. Shaked, E. Renshaw, A. Lazier, M. Deeds, N. Hamilton and G. Hullender, "Learning to Rank using
    Gradient Descent".

    Examples
    --------
    >>> ranker = RankNet(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> ranker.weights  # the logistic function at 0
    array([ 0.5, -0.5])
    """

    algorithm = "ranknet"
    cost = "m d + m²"
    theorem = theorems.gradient_descent()
    kernel = list_pass(ranknet_rule)

    learning_rate: float = 0.1

    def _make_settings(self) -> ListSettings:
        return list_settings(self)
