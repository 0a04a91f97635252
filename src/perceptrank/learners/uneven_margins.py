"""Shen and Joshi's perceptron with uneven margins."""

from perceptrank.kernels.pair_rules import UNEVEN, PairRule
from perceptrank.learners.pairs import PairLearner
from perceptrank.stream.validation import check_positive
from perceptrank.transforms.scaling import ScalingLike


class UnevenMargins(PairLearner):
    """Pairs whose ranks are far apart, and near the top, must be further apart in score.

    Documents have ranks 1, 2, ... by grade, equal grades sharing the best. A pair of ranks p < q has the weight
    g = 1/p - 1/q; if its scores are less than margin * g apart, it adds learning_rate * g (x_i - x_j) to the weights,
    all pairs of a query at once. Only margin / learning_rate matters. Learns from lists, whatever the measure.

    Parameters
    ----------
    learning_rate, margin : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: L. Shen and A. K. Joshi, "Ranking and Reranking with Perceptron".

    >>> ranker = UnevenMargins(learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [2, 1])  # ranks 1 and 2, so g = 1/2
    True
    >>> ranker.weights
    array([ 0.5, -0.5])
    """

    algorithm = "uneven-margins"
    cost = "m d + m²"

    def __init__(
        self, learning_rate: float = 0.1, *, margin: float = 1.0, average: bool = False, scaling: ScalingLike = None
    ) -> None:
        self.learning_rate = learning_rate
        self.margin = margin
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        return self._pair_rule(UNEVEN, margin=check_positive("margin", self.margin))
