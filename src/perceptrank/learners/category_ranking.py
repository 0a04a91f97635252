"""Crammer and Singer's category ranking."""

from perceptrank.kernels.pair_rules import MISORDERED, WIDEST, PairRule
from perceptrank.learners.lists import squared_diameter
from perceptrank.learners.pairs import PairLearner
from perceptrank.measures.measure import MeasureLike
from perceptrank.stream.validation import check_choice
from perceptrank.transforms.scaling import ScalingLike

PAIRS = {"uniform": MISORDERED, "max": WIDEST}


class CategoryRanking(PairLearner):
    """Move along all misordered pairs in equal parts, or along the most misordered one.

    Misordered are pairs of grades R_i > R_j with scores s_i <= s_j. If there are any, w += learning_rate * the sum of
    a_ij (x_i - x_j), a being 1 over their number (`pairs="uniform"`, called MMP), or all on one maximal pair. Learns
    from lists, whatever the measure; rankings do not depend on the learning rate.

    Number of queries that are not in perfect order, on a stream that a unit vector ranks with margin gamma: at most
    D^2 / gamma^2, D the largest distance between two differently graded documents of a query (Lemma 2 of
    docs/theory.md).

    Parameters
    ----------
    pairs : "uniform" or "max"
    measure : "ndcg" or "ap", or a Measure
        "ap" takes grades as relevant or not; otherwise it matters only for what is recorded by default.
    learning_rate : float, positive
    average, scaling
        As in `SlamPerceptron`.

    Reference: K. Crammer and Y. Singer, "A New Family of Online Algorithms for Category Ranking".

    >>> ranker = CategoryRanking()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1, 0, 0])
    True
    >>> ranker.weights  # half of (1, -1) and half of (1, 0)
    array([ 1. , -0.5])
    """

    algorithm = "category-ranking"
    cost = "m d + m²"
    promise = "mistakes ≤ D²/γ²"
    depends_on_rate = False
    compared_by = "max-pair"

    def __init__(
        self,
        pairs: str = "uniform",
        *,
        measure: MeasureLike = "ndcg",
        learning_rate: float = 1.0,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.pairs = pairs
        self.measure = measure
        self.learning_rate = learning_rate
        self.average = average
        self.scaling = scaling
        self._start()

    def _make_rule(self) -> PairRule:
        check_choice("pairs", self.pairs, PAIRS)
        return self._pair_rule(PAIRS[self.pairs], self.measure)

    def _constant(self, diameter: float | None, radius: float | None) -> tuple[float, str]:
        return squared_diameter(diameter, radius), "D²"
