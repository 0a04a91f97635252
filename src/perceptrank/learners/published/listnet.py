"""Online ListNet, the paper's baseline."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.measures.gains import EXP2, gain_of
from perceptrank.stream.validation import check_choice
from perceptrank.theory import theorems

TARGETS = ("grades", "gains")


@helper
def listnet_rule(settings: tuple[bool], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write softmax(scores) - softmax(grades), or of gains 2^grade - 1 in place of grades."""
    (of_gains,) = settings
    scores, grades, _, _, _ = query
    target, m = rows[0][0], len(scores)
    if of_gains:
        for i in range(m):
            grades[i] = gain_of(EXP2, grades[i], 0.0)
    top_score, top_grade = scores[0], grades[0]
    for i in range(m):
        top_score, top_grade = max(top_score, scores[i]), max(top_grade, grades[i])
    score_sum, grade_sum = 0.0, 0.0
    for i in range(m):
        coefficients[i] = math.exp(scores[i] - top_score)
        target[i] = 1.0 if grades[i] == top_grade else math.exp(grades[i] - top_grade)
        score_sum += coefficients[i]
        grade_sum += target[i]
    for i in range(m):
        coefficients[i] = coefficients[i] / score_sum - target[i] / grade_sum
    return 1.0


class OnlineListNet(Startable, CompiledLearner):
    """Online gradient descent on the cross entropy between softmax(grades) and softmax(scores).

    For every query whose grades differ, w -= learning_rate * Xᵀ (softmax(X w) - softmax(R)). It has the regret bound
    of gradient descent and none on the measure itself.

    Parameters
    ----------
    target : either "grades" or "gains"
        Argument of the target's softmax: grades R, or gains 2^R - 1.

    References
    ----------
    Z. Cao, T. Qin, T.-Y. Liu, M.-F. Tsai, H. Li, "Learning to Rank: From Pairwise Approach to Listwise Approach".

    Examples
    --------
    >>> ranker = OnlineListNet(learning_rate=1.0)
    >>> ranker.learn_one([[1.0], [0.0]], [1, 0])
    True
    >>> ranker.weights  # 1 / (1 + exp(-1)) - 1/2
    array([0.23105858])
    """

    algorithm = "listnet"
    cost = "m d"
    theorem = theorems.gradient_descent()
    kernel = list_pass(listnet_rule, floats=1)

    learning_rate: float = 0.01
    _: KW_ONLY
    target: str = "grades"

    def _make_settings(self) -> ListSettings:
        check_choice("target", self.target, TARGETS)
        return list_settings(self, self.target == "gains")
