"""TopPush, online."""

from perceptrank.kernels.pair_rules import PUSH, PUSH_SQUARED, PairRule
from perceptrank.learners.pairs import PairLearner
from perceptrank.stream.validation import check_choice
from perceptrank.transforms.scaling import ScalingLike

LOSSES = {"squared": PUSH_SQUARED, "hinge": PUSH}


class TopPush(PairLearner):
    """Push every relevant document above the best-scored irrelevant one.

    Online gradient descent, one step a query, on the mean over relevant documents i of max(0, 1 + s* - s_i), s* the
    largest score of an irrelevant document (`loss="hinge"`, which is SLAM with the weights of AP), or of half its
    square (`"squared"`). Learns from lists; a document is relevant if its grade is positive.

    Parameters
    ----------
    learning_rate : float, positive
    loss : "squared" or "hinge"
    average, scaling
        As in `SlamPerceptron`.

    Reference: N. Li, R. Jin and Z.-H. Zhou, "Top Rank Optimization in Linear Time".

    >>> ranker = TopPush(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], [0, 1, 1])  # both hinges are 1, the rival is the first
    True
    >>> ranker.weights
    array([-1. ,  1.5])
    """

    algorithm = "toppush"
    cost = "m d"

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        loss: str = "squared",
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.loss = loss
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        check_choice("loss", self.loss, LOSSES)
        return self._pair_rule(LOSSES[self.loss], "ap")
