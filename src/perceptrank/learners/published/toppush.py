"""Online TopPush."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.stream.validation import check_choice

LOSSES = ("squared", "hinge")


@helper
def toppush_rule(settings: tuple[bool], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write the gradient of the mean hinge, or half its square, of relevant documents."""
    (squared,) = settings
    scores, grades, n_relevant, _, _ = query
    rival, top = -1, -math.inf
    for j in range(len(scores)):
        if grades[j] == 0.0 and scores[j] > top:
            rival, top = j, scores[j]
    mass = 0.0
    for i in range(len(scores)):
        hinge = 1.0 + top - scores[i]
        if grades[i] > 0.0 and hinge > 0.0:
            slope = (hinge if squared else 1.0) / n_relevant
            coefficients[i] -= slope
            coefficients[rival] += slope
            mass += 1.0 / n_relevant
    return mass


class TopPush(Startable, CompiledLearner):
    """Push every relevant document above the best-scored irrelevant one.

    Online gradient descent, one step per query, on the mean over relevant documents i of max(0, 1 + s* - s_i), s* the
    largest score of an irrelevant document (`loss="hinge"`, which is SLAM with the weights of AP), or of half its
    square (`"squared"`). Learns from lists; a document is relevant if its grade is positive.

    Parameters
    ----------
    loss : either "squared" or "hinge"
        Half the square of each hinge, or the hinge itself.

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
    cost = "m d"
    kernel = list_pass(toppush_rule)

    learning_rate: float = 0.01
    _: KW_ONLY
    loss: str = "squared"

    def _make_settings(self) -> ListSettings:
        check_choice("loss", self.loss, LOSSES)
        return list_settings(self, self.loss == "squared", binary=True)
