"""Predtron, for rankings."""

from perceptrank.kernels.pair_rules import POSITIONS, PairRule
from perceptrank.learners.pairs import PairLearner
from perceptrank.measures.measure import MeasureLike
from perceptrank.transforms.scaling import ScalingLike


class Predtron(PairLearner):
    """A perceptron on representations of predictions: a ranking is represented by minus the place of each document.

    If the ranking was not perfect, w += learning_rate * X^T (p - p*), p the places of the documents in the ranking and
    p* those in the ideal one, in which documents of one grade go by score. That is the sum of x_i - x_j over all
    misordered pairs. Learns from lists; rankings do not depend on the learning rate.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k" or "ap", or a Measure
        What decides whether a ranking was perfect.
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: P. Jain, N. Natarajan and A. Tewari, "Predtron: A Family of Online Algorithms for General Prediction
    Problems"; the representation is ours.

    >>> ranker = Predtron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0, 2, 1])  # worst order: 0, 2, 1; ideal: 1, 2, 0
    True
    >>> ranker.weights
    array([-2.,  2.])
    """

    algorithm = "predtron"
    cost = "m (d + log m)"
    depends_on_rate = False

    def __init__(
        self,
        measure: MeasureLike = "ndcg@10",
        *,
        learning_rate: float = 1.0,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.measure = measure
        self.learning_rate = learning_rate
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        return self._pair_rule(POSITIONS, self.measure)
