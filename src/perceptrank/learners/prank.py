"""PRank."""

from typing import ClassVar

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.single_documents import prank_pass
from perceptrank.learners.sequential import SequentialLearner, check_room
from perceptrank.learners.state import State
from perceptrank.stream.validation import check_positive_whole
from perceptrank.transforms.scaling import ScalingLike


class PRank(SequentialLearner):
    """Learn grades, one document at a time: a score and thresholds b_1 <= ... <= b_n between neighbouring grades.

    For a document of grade y and every threshold r, the score should be above b_r if y >= r, and below it if not. With
    s_r = 1 or -1 for thresholds where that is wrong and 0 for others, w += (the sum of s_r) x and b_r -= s_r. A list is
    ranked by score.

    With n thresholds, on documents that a unit vector (w*, b*) puts on the right sides of all thresholds with margin
    gamma, the sum over documents of how many thresholds are wrong is at most n (R^2 + 1) / gamma^2, R the largest norm
    of a document.

    Parameters
    ----------
    n_grades : int
        Grades are 0 to n_grades - 1; larger ones count as the largest.
    average, scaling
        As in `SlamPerceptron`.

    Reference: K. Crammer and Y. Singer, "Pranking with Ranking".

    >>> ranker = PRank(n_grades=3)
    >>> ranker.learn_one([[1.0, 2.0]], [2])  # the score 0 is not above either threshold: both move, twice x
    True
    >>> ranker.weights, ranker.thresholds
    (array([2., 4.]), array([-1., -1.]))
    """

    algorithm = "prank"
    fixed: ClassVar[tuple[str, ...]] = ("n_grades",)
    cost = "m (d + g)"
    promise = "thresholds wrong ≤ n (R² + 1)/γ²"
    takes = "documents"
    depends_on_rate = False

    n_members = 1
    share = 1.0
    seed = 0

    def __init__(self, n_grades: int = 5, *, average: bool = False, scaling: ScalingLike = None) -> None:
        self.n_grades = n_grades
        self.average = average
        self.scaling = scaling
        self._start()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_positive_whole("n_grades", self.n_grades) < 2:
            raise ValueError(f"n_grades must be at least 2, got {self.n_grades}")

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        n = self.n_members
        check_room(f"{n} times {self.n_grades} grades and {n_features} features", n * (self.n_grades + n_features))
        return {"members": np.zeros((n, n_features)), "thresholds": np.zeros((n, self.n_grades - 1))}

    @property
    def thresholds(self) -> Floats:
        """The thresholds, smallest first."""
        thresholds: Floats = self._learned().more["thresholds"].mean(axis=0)
        return thresholds

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
