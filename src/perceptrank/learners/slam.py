"""Algorithm 2: the SLAM perceptron."""

from perceptrank.kernels.list_rules import TOP, ListRule
from perceptrank.learners.lists import ListLearner, squared_diameter
from perceptrank.measures.measure import MeasureLike
from perceptrank.stream.validation import check_positive
from perceptrank.theory.surrogates import make_rule
from perceptrank.transforms.scaling import ScalingLike


class SlamPerceptron(ListLearner):
    """Descend the SLAM surrogate of a measure on every query that was not ranked perfectly (Algorithm 2).

    On a mistake, w -= learning_rate * X^T g, with g the subgradient of `perceptrank.Slam`: each relevant
    document that is not the margin ahead of all lower grades moves against the best-scored of these, by its weight in
    the measure. Only margin / learning_rate matters: scaling both scales w and changes no ranking.

    Cumulative loss on a stream that a unit vector ranks with margin gamma: at most (D^2 + 2 margin / learning_rate) /
    gamma^2, D the largest distance between two differently graded documents of a query.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k" or "ap", or a Measure
        What is learned. While learning, tied documents always count as ranked in the worst order; a measure's own
        policies are for recording.
    learning_rate, margin : float, positive
    class_order : "score", "mean" or "index"
        How weights are laid inside a relevance class, see `Slam`.
    average : bool
        Predict with the mean of all iterates instead of the last.
    scaling : None, "query-zscore", "query-minmax", "running", a Scaling, or several of them
        What features go through first.

    Reference: S. Chaudhuri and A. Tewari, "Perceptron-like Algorithms for Online Learning to Rank".

    >>> ranker = SlamPerceptron(measure="ap", learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    True
    >>> ranker.weights, ranker.rank([[1.0, 0.0], [0.0, 1.0]])
    (array([-1.,  1.]), array([1, 0]))
    """

    algorithm = "slam"
    cost = "m (d + g)"
    promise = "loss ≤ (D² + 2Δ/η)/γ²"
    compared_by = "slam"

    def __init__(
        self,
        measure: MeasureLike = "ndcg@10",
        *,
        learning_rate: float = 0.1,
        margin: float = 1.0,
        class_order: str = "score",
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.measure = measure
        self.learning_rate = learning_rate
        self.margin = margin
        self.class_order = class_order
        self.average = average
        self.scaling = scaling
        self._start()

    def _constant(self, diameter: float | None, radius: float | None) -> tuple[float, str]:
        return squared_diameter(diameter, radius) + 2 * self.margin / self.learning_rate, "(D² + 2 margin / rate)"

    def _make_rule(self) -> ListRule:
        return make_rule(
            TOP,
            self.measure,
            self.class_order,
            mistakes_only=True,
            averaging=bool(self.average),
            learning_rate=check_positive("learning_rate", self.learning_rate),
            margin=check_positive("margin", self.margin),
        )
