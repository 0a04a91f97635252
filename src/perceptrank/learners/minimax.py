"""Algorithm 3: the minimax perceptron."""

from perceptrank.kernels.list_rules import MAX_PAIR, ListRule
from perceptrank.learners.lists import ListLearner, squared_diameter
from perceptrank.measures.measure import MeasureLike
from perceptrank.stream.validation import check_positive
from perceptrank.theory.surrogates import make_rule
from perceptrank.transforms.scaling import ScalingLike


class MinimaxPerceptron(ListLearner):
    """On every query that was not ranked perfectly, move along the most violated pair (Algorithm 3).

    With i, j the pair of grades R_i > R_j whose scores disagree most, w += learning_rate * (x_i - x_j). Rankings do not
    depend on the learning rate. Number of mistakes on a stream that a unit vector ranks with margin gamma, for
    documents of norm at most R: at most 4 R^2 / gamma^2.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k" or "ap", or a Measure
        What decides whether a ranking was perfect.
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: S. Chaudhuri and A. Tewari, "Perceptron-like Algorithms for Online Learning to Rank".

    >>> ranker = MinimaxPerceptron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0, 2, 1])
    True
    >>> ranker.weights
    array([-1.,  1.])
    """

    algorithm = "minimax"
    cost = "m (d + g)"
    promise = "mistakes ≤ D²/γ²"
    depends_on_rate = False
    compared_by = "max-pair"

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

    def _constant(self, diameter: float | None, radius: float | None) -> tuple[float, str]:
        return squared_diameter(diameter, radius), "D²"

    def _make_rule(self) -> ListRule:
        return make_rule(
            MAX_PAIR,
            self.measure,
            mistakes_only=True,
            averaging=bool(self.average),
            learning_rate=check_positive("learning_rate", self.learning_rate),
        )
