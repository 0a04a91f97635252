"""Online TopPush."""

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
from perceptrank.stream.validation import check_choice, check_positive
from perceptrank.transforms.transform import TransformLike

LOSSES = ("squared", "hinge")
TopPushRule = tuple[bool, float, bool, bool]  # averaging, learning_rate, binary, squared


@compiled
def toppush_pass(rule: TopPushRule, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, learning_rate, binary, squared = rule
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
            mass = push_relevant(m, n_relevant, squared, scores, grades, coefficients)
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


@helper
def push_relevant(
    m: int, n_relevant: int, squared: bool, scores: Floats, grades: Floats, coefficients: Floats
) -> float:
    """Write the gradient of the mean hinge, or half its square, of relevant documents; return the mass."""
    rival, top = -1, -math.inf
    for j in range(m):
        if grades[j] == 0.0 and scores[j] > top:
            rival, top = j, scores[j]
    mass = 0.0
    for i in range(m):
        hinge = 1.0 + top - scores[i]
        if grades[i] > 0.0 and hinge > 0.0:
            slope = (hinge if squared else 1.0) / n_relevant
            coefficients[i] -= slope
            coefficients[rival] += slope
            mass += 1.0 / n_relevant
    return mass


class TopPush(CompiledLearner):
    """Push every relevant document above the best-scored irrelevant one.

    Online gradient descent, one step per query, on the mean over relevant documents i of max(0, 1 + s* - s_i), s* the
    largest score of an irrelevant document (`loss="hinge"`, which is SLAM with the weights of AP), or of half its
    square (`"squared"`). Learns from lists; a document is relevant if its grade is positive.

    Parameters
    ----------
    learning_rate : float > 0
        Factor of every step.
    loss : either "squared" or "hinge"
        Half the square of each hinge, or the hinge itself.
    average : bool
        Rank with the mean of all iterates instead of the last one.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first.
    **start
        Initial weights, and features whose weights keep a sign: `initial_weights`, `positive`, `negative` and `zero` of
        `Learner`.

    References
    ----------
    N. Li, R. Jin and Z.-H. Zhou, "Top Rank Optimization in Linear Time".

    Examples
    --------
    >>> ranker = TopPush(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], [0, 1, 1])  # both hinges are 1, the rival is the first
    True
    >>> ranker.weights
    array([-1. ,  1.5])
    """

    algorithm = "toppush"
    accepts_sparse = True
    accepts_weights = True
    cost = "m d"
    kernel = toppush_pass
    rows = 3, 1, 2

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        loss: str = "squared",
        average: bool = False,
        transforms: TransformLike = None,
        **start: Unpack[StartSettings],
    ) -> None:
        self.learning_rate = learning_rate
        self.loss = loss
        self.average = average
        self.transforms = transforms
        super().__init__(**start)

    def _make_rule(self) -> TopPushRule:
        check_choice("loss", self.loss, LOSSES)
        return bool(self.average), check_positive("learning_rate", self.learning_rate), True, self.loss == "squared"
