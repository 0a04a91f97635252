"""OPAUC: one-pass optimisation of the area under the ROC curve."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.single_documents import opauc_pass
from perceptrank.learners.sequential import SequentialLearner, check_room
from perceptrank.learners.state import State
from perceptrank.stream.validation import check_not_negative, check_positive
from perceptrank.transforms.scaling import ScalingLike


class Opauc(SequentialLearner):
    """Gradient descent on the squared loss of all pairs of relevant and irrelevant documents so far, none of them kept.

    The pairs of a document x with all of the other class enter through that class's mean c and covariance S: for a
    relevant x, w -= learning_rate (decay w - (x - c) + (x - c)(x - c)^T w + S w); for an irrelevant one, the sign of
    the second term is the other. One document at a time, across queries; a document is relevant if its grade is
    positive. Time and memory are quadratic in the number of features.

    Parameters
    ----------
    learning_rate : float, positive
    decay : float, positive or 0
    average, scaling
        As in `SlamPerceptron`.

    Reference: W. Gao, R. Jin, S. Zhu and Z.-H. Zhou, "One-Pass AUC Optimization".

    >>> ranker = Opauc(learning_rate=0.5)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])  # the second meets the mean of the first: +(x - c)
    True
    >>> ranker.weights
    array([ 0.5, -0.5])
    """

    algorithm = "opauc"
    cost = "m d²"
    takes = "documents"

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        decay: float = 0.0,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.decay = decay
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("learning_rate", self.learning_rate)
        check_not_negative("decay", self.decay)

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"the covariance of {n_features} features, twice,", 2 * n_features**2)
        return {
            "counts": np.zeros(2),
            "centers": np.zeros((2, n_features)),
            "moments": np.zeros((2, n_features, n_features)),
        }

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        more = state.more
        return opauc_pass(
            bool(self.average),
            float(self.learning_rate),
            float(self.decay),
            X,
            relevance,
            offsets,
            *state.core,
            state.squares,
            more["counts"],
            more["centers"],
            more["moments"],
            predicted,
            masses,
        )
