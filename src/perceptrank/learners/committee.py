"""The committee perceptron."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.committee_pass import combine, committee_pass
from perceptrank.learners.sequential import SequentialLearner, check_room
from perceptrank.learners.state import State
from perceptrank.stream.validation import check_positive, check_positive_whole, check_seed
from perceptrank.transforms.scaling import ScalingLike


class CommitteePerceptron(SequentialLearner):
    """A pairwise perceptron that keeps the hypotheses which were right longest, and ranks with their weighted mean.

    The pairs of a query come in random order. A pair of grades R_i > R_j with w . (x_i - x_j) <= 0 moves the current
    hypothesis, w += learning_rate (x_i - x_j); before that, it is offered to a committee of those with the most
    successes in a row. Rankings are by the mean of the committee and the current hypothesis, weighted by successes. A
    query takes memory for all its pairs.

    Parameters
    ----------
    n_members : int
    learning_rate : float, positive
        Rankings do not depend on it.
    seed : int
        Of the order of pairs.
    scaling
        As in `SlamPerceptron`.

    Reference: J. L. Elsas, V. R. Carvalho and J. G. Carbonell, "Fast Learning of Document Ranking Functions with the
    Committee Perceptron".

    >>> ranker = CommitteePerceptron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> ranker.coef_
    array([ 1., -1.])
    """

    algorithm = "committee"
    fixed = ("n_members",)
    cost = "m² d"
    takes = "pairs"
    depends_on_rate = False
    average = False

    def __init__(
        self, n_members: int = 20, *, learning_rate: float = 1.0, seed: int = 0, scaling: ScalingLike = None
    ) -> None:
        self.n_members = n_members
        self.learning_rate = learning_rate
        self.seed = seed
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive_whole("n_members", self.n_members)
        check_positive("learning_rate", self.learning_rate)
        check_seed(self.seed)

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"a committee of {self.n_members}", self.n_members * (n_features + 1))
        members = np.zeros((self.n_members, n_features))
        return {"members": members, "successes": np.zeros(self.n_members), "current": np.zeros(1)}

    def _coefficients(self, state: State) -> Floats:
        mean = np.empty(len(state.weights))
        more = state.more
        combine(state.weights, more["members"], more["successes"], float(more["current"][0]), mean)
        return mean

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        more = state.more
        return committee_pass(
            float(self.learning_rate),
            int(self.seed),
            X,
            relevance,
            offsets,
            *state.core,
            state.squares,
            more["members"],
            more["successes"],
            more["current"],
            predicted,
            masses,
        )
