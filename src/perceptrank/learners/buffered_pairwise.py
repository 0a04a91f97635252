"""Pairwise gradient descent against a buffer."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.single_documents import buffered_pass
from perceptrank.learners.sequential import SequentialLearner, check_room
from perceptrank.learners.state import State
from perceptrank.stream.validation import check_positive, check_positive_whole, check_seed
from perceptrank.transforms.scaling import ScalingLike


class BufferedPairwise(SequentialLearner):
    """Pairwise hinges of each document against a buffer of earlier ones, in which every one so far has the same chance.

    For a document x, w += learning_rate times the mean, over the kept documents x' of another grade, of x - x' (x' - x
    if x has the lower grade) where the scores are less than the margin apart in the right direction. Then x takes a
    place in the buffer by reservoir sampling. One document at a time, across queries.

    Parameters
    ----------
    learning_rate : float, positive
    buffer_size : int
    margin : float, positive
    seed : int
        Of the sampling.
    average, scaling
        As in `SlamPerceptron`.

    Reference: P. Kar, B. K. Sriperumbudur, P. Jain and H. C. Karnick, "On the Generalization Ability of Online Learning
    Algorithms for Pairwise Loss Functions"; Y. Wang, R. Khardon, D. Pechyony and R. Jones, "Generalization Bounds for
    Online Learning Algorithms with Pairwise Loss Functions".

    >>> ranker = BufferedPairwise(learning_rate=0.5)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> ranker.weights
    array([ 0.5, -0.5])
    """

    algorithm = "buffered-pairwise"
    fixed = ("buffer_size",)
    cost = "s m d"
    takes = "documents"

    def __init__(
        self,
        learning_rate: float = 0.1,
        *,
        buffer_size: int = 100,
        margin: float = 1.0,
        seed: int = 0,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.buffer_size = buffer_size
        self.margin = margin
        self.seed = seed
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("learning_rate", self.learning_rate)
        check_positive("margin", self.margin)
        check_positive_whole("buffer_size", self.buffer_size)
        check_seed(self.seed)

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"a buffer of {self.buffer_size} documents", self.buffer_size * n_features)
        return {"kept": np.zeros((self.buffer_size, n_features)), "grades": np.zeros(self.buffer_size)}

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        return buffered_pass(
            bool(self.average),
            float(self.learning_rate),
            float(self.margin),
            int(self.seed),
            X,
            relevance,
            offsets,
            *state.core,
            state.squares,
            state.more["kept"],
            state.more["grades"],
            predicted,
            masses,
        )
