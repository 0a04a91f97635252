"""Online ListNet, the paper's baseline."""

from __future__ import annotations

import math
from typing import Unpack

from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import close_query, open_query
from perceptrank.learners.starting import StartSettings
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.measures.gains import EXP2, gain_of
from perceptrank.stream.validation import check_choice, check_positive
from perceptrank.theory import theorems
from perceptrank.transforms.transform import TransformLike

TARGETS = ("grades", "gains")
ListNetRule = tuple[bool, float, bool, bool]  # averaging, learning_rate, binary, of_gains


@compiled
def listnet_pass(rule: ListNetRule, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, learning_rate, binary, of_gains = rule
    _, relevance, offsets, _ = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, target, moved = floats[0], floats[1], floats[2], floats[3], ints[0]
    mean, step = vectors[0], vectors[1]
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if not open_query(averaging, block, q, state, mean, scores, record):
            return q
        n_relevant = read_grades(relevance, offsets[q], m, binary, grades)
        if n_relevant < 0:
            return q
        mass = 0.0
        if grades_differ(grades, m, n_relevant):
            descend_cross_entropy(of_gains, m, scores, grades, target, coefficients)
            mass = 1.0
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


@helper
def descend_cross_entropy(
    of_gains: bool, m: int, scores: Floats, grades: Floats, target: Floats, coefficients: Floats
) -> None:
    """Write softmax(scores) - softmax(grades), or of gains 2^grade - 1 in place of grades, which it overwrites."""
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
    kernel = listnet_pass
    rows = 4, 1, 2

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

    def _make_rule(self) -> ListNetRule:
        check_choice("target", self.target, TARGETS)
        return bool(self.average), check_positive("learning_rate", self.learning_rate), False, self.target == "gains"
