"""Structured SVM for mean average precision, one step a query."""

from perceptrank.kernels.pair_rules import MEAN_PRECISION, PairRule
from perceptrank.learners.pairs import PairLearner
from perceptrank.transforms.scaling import ScalingLike


class SvmMap(PairLearner):
    """A subgradient step on the structured hinge of average precision: 1 - AP of a ranking plus its lead in score.

    With psi(ranking) the mean, over pairs of a relevant document i and an irrelevant j, of x_i - x_j if i comes first
    and of x_j - x_i if not, the loss of a query is the largest 1 - AP + w . (psi(ranking) - psi(ideal ranking)) over
    all rankings. A greedy search finds that ranking, in time proportional to the number of pairs. Learns from lists; a
    document is relevant if its grade is positive.

    Parameters
    ----------
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: Y. Yue, T. Finley, F. Radlinski and T. Joachims, "A Support Vector Method for Optimizing Average
    Precision".

    >>> ranker = SvmMap(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])  # the wrong order costs 1/2; psi changes its sign
    True
    >>> ranker.weights
    array([-2.,  2.])
    """

    algorithm = "svm-map"
    cost = "m d + m²"

    def __init__(self, learning_rate: float = 0.1, *, average: bool = False, scaling: ScalingLike = None) -> None:
        self.learning_rate = learning_rate
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        return self._pair_rule(MEAN_PRECISION, "ap")
