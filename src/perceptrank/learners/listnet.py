"""Online ListNet, the paper's baseline."""

from __future__ import annotations

import math
from typing import Unpack

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import StartSettings
from perceptrank.learners.tally import ListSettings
from perceptrank.measures.gains import EXP2, gain_of
from perceptrank.stream.validation import check_choice
from perceptrank.theory import theorems
from perceptrank.transforms.transform import TransformLike

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


class OnlineListNet(CompiledLearner):
    """Online gradient descent on the cross entropy between softmax(grades) and softmax(scores).

    For every query whose grades differ, w -= learning_rate * Xᵀ (softmax(X w) - softmax(R)). It has the regret bound
    of gradient descent and none on the measure itself.

    Parameters
    ----------
    learning_rate : float > 0
        Factor of every step.
    target : either "grades" or "gains"
        Argument of the target's softmax: grades R, or gains 2^R - 1.
    average : bool
        Rank with the mean of all iterates instead of the last one.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first.
    **start
        Initial weights, and features whose weights keep a sign: `initial_weights`, `positive`, `negative` and `zero` of
        `Learner`.

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
    accepts_sparse = True
    accepts_weights = True
    cost = "m d"
    theorem = theorems.gradient_descent()
    kernel, rows = list_pass(listnet_rule, floats=1)

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        target: str = "grades",
        average: bool = False,
        transforms: TransformLike = None,
        **start: Unpack[StartSettings],
    ) -> None:
        self.learning_rate = learning_rate
        self.target = target
        self.average = average
        self.transforms = transforms
        super().__init__(**start)

    def _make_settings(self) -> ListSettings:
        check_choice("target", self.target, TARGETS)
        return self._list_settings(self.target == "gains")
