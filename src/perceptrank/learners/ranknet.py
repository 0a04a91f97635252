"""Pairwise logistic regression, which is RankNet with a linear scorer."""

from perceptrank.kernels.pair_rules import LOGISTIC, PairRule
from perceptrank.learners.pairs import PairLearner
from perceptrank.transforms.scaling import ScalingLike


class RankNet(PairLearner):
    """Online gradient descent on the mean of log(1 + exp(s_j - s_i)) over all pairs of grades R_i > R_j.

    One step for every query whose grades differ. Learns from lists, whatever the measure. It has the regret bound of
    gradient descent and none on a ranking measure.

    Parameters
    ----------
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: C. Burges, T. Shaked, E. Renshaw, A. Lazier, M. Deeds, N. Hamilton and G. Hullender, "Learning to Rank
    using Gradient Descent".

    >>> ranker = RankNet(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> ranker.weights  # the logistic function at 0
    array([ 0.5, -0.5])
    """

    algorithm = "ranknet"
    cost = "m d + m²"
    promise = "the regret of gradient descent"

    def __init__(
        self,
        learning_rate: float = 0.1,
        *,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        return self._pair_rule(LOGISTIC)
