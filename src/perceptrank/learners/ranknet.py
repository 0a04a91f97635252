"""Pairwise logistic regression, which is RankNet with a linear scorer."""

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
from perceptrank.stream.validation import check_positive
from perceptrank.theory import theorems
from perceptrank.transforms.transform import TransformLike

RankNetRule = tuple[bool, float, bool]  # averaging, learning_rate, binary


@compiled
def ranknet_pass(rule: RankNetRule, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, learning_rate, binary = rule
    _, relevance, offsets, _ = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, moved = floats[0], floats[1], floats[2], ints[0]
    mean, step = vectors[0], vectors[1]
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if not open_query(averaging, block, q, state, mean, scores, record):
            return q
        n_relevant = read_grades(relevance, offsets[q], m, binary, grades)
        if n_relevant < 0:
            return q
        for i in range(m):
            coefficients[i] = 0.0
        mass = 0.0
        if grades_differ(grades, m, n_relevant):
            mass = descend_logistic_loss(m, scores, grades, coefficients)
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


@helper
def descend_logistic_loss(m: int, scores: Floats, grades: Floats, coefficients: Floats) -> float:
    """Write the gradient of the mean of log(1 + exp(s_j - s_i)) over all pairs R_i > R_j."""
    n_pairs = 0
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


class RankNet(CompiledLearner):
    """Online gradient descent on the mean of log(1 + exp(s_j - s_i)) over all pairs of grades R_i > R_j.

    One step for every query whose grades differ. Learns from lists, independently of the measure. It has the regret
    bound of gradient descent and none on a ranking measure.

    Parameters
    ----------
    learning_rate : float > 0
        Factor of every step.
    average : bool
        Rank with the mean of all iterates instead of the last one.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first.
    **start
        Initial weights, and features whose weights keep a sign: `initial_weights`, `positive`, `negative` and `zero` of
        `Learner`.

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
    accepts_sparse = True
    accepts_weights = True
    cost = "m d + m²"
    theorem = theorems.gradient_descent()
    kernel = ranknet_pass
    rows = 3, 1, 2

    def __init__(
        self,
        learning_rate: float = 0.1,
        *,
        average: bool = False,
        transforms: TransformLike = None,
        **start: Unpack[StartSettings],
    ) -> None:
        self.learning_rate = learning_rate
        self.average = average
        self.transforms = transforms
        super().__init__(**start)

    def _make_rule(self) -> RankNetRule:
        return bool(self.average), check_positive("learning_rate", self.learning_rate), False
