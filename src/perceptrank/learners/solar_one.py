"""SOLAR-I: passive-aggressive steps on pairs."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.pair_by_pair import PASSIVE_AGGRESSIVE, solar_pass
from perceptrank.learners.sequential import SequentialLearner
from perceptrank.learners.state import State
from perceptrank.stream.validation import check_positive
from perceptrank.transforms.scaling import ScalingLike


class SolarI(SequentialLearner):
    """For one pair of a query after the other, the smallest step that puts it a margin of 1 apart, up to a limit.

    With x = x_i - x_j for grades R_i > R_j and loss = max(0, 1 - w . x), w += min(limit, loss / |x|^2) x. Learns from
    all pairs of a list, in the order of its documents.

    Parameters
    ----------
    limit : float, positive
        How far a step may go, called C.
    average, scaling
        As in `SlamPerceptron`.

    Reference: J. Wang, J. Wan, Y. Zhang and S. C. H. Hoi, "SOLAR: Scalable Online Learning Algorithms for Ranking".

    >>> ranker = SolarI(limit=1.0)
    >>> ranker.learn_one([[2.0, 0.0], [0.0, 0.0]], [1, 0])  # loss 1, squared length 4
    True
    >>> ranker.weights
    array([0.5, 0. ])
    """

    algorithm = "solar-1"
    cost = "m² d"
    takes = "pairs"
    depends_on_rate = False

    def __init__(self, limit: float = 0.001, *, average: bool = False, scaling: ScalingLike = None) -> None:
        self.limit = limit
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("limit", self.limit)

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        none = np.empty((0, 0))
        arrays = X, relevance, offsets, *state.core
        return solar_pass(PASSIVE_AGGRESSIVE, bool(self.average), float(self.limit), *arrays, none, predicted, masses)
