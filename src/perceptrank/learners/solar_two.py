"""SOLAR-II: second-order steps on pairs."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.pair_by_pair import DIAGONAL, FULL, solar_pass
from perceptrank.learners.sequential import SequentialLearner, check_room
from perceptrank.learners.state import State
from perceptrank.stream.validation import check_choice, check_positive
from perceptrank.transforms.scaling import ScalingLike

COVARIANCES = {"diagonal": DIAGONAL, "full": FULL}


class SolarII(SequentialLearner):
    """For one pair of a query after the other, a step along directions of which little was learned so far.

    With x = x_i - x_j for grades R_i > R_j, loss = max(0, 1 - w . x) > 0 and b = 1 / (x^T S x + regularization):
    w += loss b S x and S -= b S x x^T S, S being the identity in the beginning. Learns from all pairs of a list, in the
    order of its documents.

    Parameters
    ----------
    regularization : float, positive
        Called gamma; the larger, the smaller the steps.
    covariance : "diagonal" or "full"
        Full takes time for every pair, and memory, quadratic in the number of features.
    average, scaling
        As in `SlamPerceptron`.

    Reference: J. Wang, J. Wan, Y. Zhang and S. C. H. Hoi, "SOLAR: Scalable Online Learning Algorithms for Ranking".

    >>> ranker = SolarII(regularization=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 0.0]], [1, 0])  # loss 1, b = 1/2
    True
    >>> ranker.weights, ranker.covariance_
    (array([0.5, 0. ]), array([0.5, 1. ]))
    """

    algorithm = "solar-2"
    fixed = ("covariance",)
    cost = "m² d, full: m² d²"
    takes = "pairs"
    depends_on_rate = False

    def __init__(
        self,
        regularization: float = 100.0,
        *,
        covariance: str = "diagonal",
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.regularization = regularization
        self.covariance = covariance
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("regularization", self.regularization)
        check_choice("covariance", self.covariance, COVARIANCES)

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        if self.covariance == "diagonal":
            return {"covariance": np.ones((1, n_features))}
        check_room(f"the covariance of {n_features} features", n_features**2)
        return {"covariance": np.eye(n_features)}

    @property
    def covariance_(self) -> Floats:
        """S, or its diagonal."""
        found = self._learned().more["covariance"]
        return found[0].copy() if self.covariance == "diagonal" else found.copy()

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        arrays = X, relevance, offsets, *state.core, state.more["covariance"]
        kind = COVARIANCES[self.covariance]
        return solar_pass(kind, bool(self.average), float(self.regularization), *arrays, predicted, masses)
