"""OAP-BPM: a committee of PRanks."""

import numpy as np

from perceptrank.arrays import Features, Floats, Ints
from perceptrank.kernels.single_documents import prank_pass
from perceptrank.learners.sequential import SequentialLearner, check_room
from perceptrank.learners.state import State
from perceptrank.scaling import ScalingLike
from perceptrank.validation import as_number, check_positive_whole, check_seed


class OapBpm(SequentialLearner):
    """Several PRanks, each of which sees each document with some probability; rank with the mean of their weights.

    The mean approximates the Bayes point of the rankers that agree with the data. One document at a time.

    Parameters
    ----------
    n_members : int
    share : float
        The probability with which a member sees a document.
    n_grades : int
        As in `PRank`.
    seed : int
    average, scaling
        As in `SlamPerceptron`.

    Reference: E. F. Harrington, "Online Ranking/Collaborative Filtering Using the Perceptron Algorithm".

    >>> ranker = OapBpm(n_members=2, share=1.0, n_grades=2)
    >>> ranker.learn_one([[1.0, 2.0]], [1])
    True
    >>> ranker.weights
    array([1., 2.])
    """

    algorithm = "oap-bpm"
    fixed = ("n_members", "n_grades")
    cost = "N m (d + g)"
    takes = "documents"
    depends_on_rate = False

    def __init__(
        self,
        n_members: int = 20,
        *,
        share: float = 0.3,
        n_grades: int = 5,
        seed: int = 0,
        average: bool = False,
        scaling: ScalingLike = None,
    ) -> None:
        self.n_members = n_members
        self.share = share
        self.n_grades = n_grades
        self.seed = seed
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive_whole("n_members", self.n_members)
        if check_positive_whole("n_grades", self.n_grades) < 2:
            raise ValueError(f"n_grades must be at least 2, got {self.n_grades}")
        if not 0 < as_number(self.share) <= 1:
            raise ValueError(f"share must be a probability above 0, got {self.share!r}")
        check_seed(self.seed)

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"{self.n_members} members", self.n_members * (self.n_grades + n_features))
        members = np.zeros((self.n_members, n_features))
        return {"members": members, "thresholds": np.zeros((self.n_members, self.n_grades - 1))}

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        more = state.more
        return prank_pass(
            bool(self.average),
            float(self.share),
            int(self.seed),
            X,
            relevance,
            offsets,
            *state.core,
            more["members"],
            more["thresholds"],
            predicted,
            masses,
        )
