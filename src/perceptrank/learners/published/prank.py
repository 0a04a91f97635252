"""PRank."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scoring import score_row
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import Pass, are_valid, count_round, open_query
from perceptrank.learners.tally import ROUNDS, Block, Iterates, Record
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import ParameterError, check_positive_whole
from perceptrank.theory import theorems

PRankSettings = tuple[bool, float, int, float]  # averaging, share, seed, margin


@compiled
def prank_pass(
    settings: PRankSettings,
    block: Block,
    state: Iterates,
    extra: tuple[FloatRows, FloatRows],
    record: Record,
    scratch: Scratch,
) -> int:
    """Rank each query, then learn from one document after the other; return how many queries were learned.

    Every member learns from a document with probability `share`; the weights are the mean of the members.
    """
    averaging, share, seed, margin = settings
    X, relevance, offsets, _ = block
    weights, _, tally, _ = state
    members, thresholds = extra
    _, masses = record
    scores, mean = scratch[0][0], scratch[2][0]
    n_members, n_thresholds = thresholds.shape
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(averaging, block, q, state, mean, scores, record) or not are_valid(relevance, start, stop):
            return q
        masses[q] = 0.0
        for i in range(start, stop):
            n_wrong = 0
            for member in range(n_members):
                if share < 1.0 and noise(seed, int(tally[ROUNDS]), member) >= share:
                    continue
                score = score_row(X, i, members[member])
                if not math.isfinite(score):
                    return q
                step = 0.0
                for r in range(n_thresholds):
                    side = 1.0 if relevance[i] >= r + 1 else -1.0
                    if (score - thresholds[member, r]) * side <= margin:
                        step += side
                        thresholds[member, r] -= side
                        n_wrong += 1
                for k in range(len(weights)):
                    members[member, k] += step * X[i, k]
                    weights[k] += step * X[i, k] / n_members
            moved = 1.0 if n_wrong > 0 else 0.0
            masses[q] += moved
            if not count_round(moved, state, 1.0):
                return q
    return len(offsets) - 1


class PRank(CompiledLearner):
    """Learn grades, document by document: a score and thresholds b_1 ≤ ... ≤ b_n between neighbouring grades.

    For a document of grade y and every threshold r, the score should be above b_r if y ≥ r, and below it if not. With
    s_r = 1 or -1 for thresholds that violate this and 0 for others, w += (the sum of s_r) x and b_r -= s_r. A list is
    ranked by score.

    With n thresholds, on documents that a unit vector (u, c) puts on the right sides of all thresholds with margin
    γ, the sum over documents of the number of violated thresholds is at most (n R² + 1) / γ², R the largest
    norm of a document (the authors have n (R² + 1); see docs/theory/).

    Parameters
    ----------
    n_grades : int
        Grades are 0 to n_grades - 1; larger ones count as the largest.

    References
    ----------
    K. Crammer and Y. Singer, "Pranking with Ranking".

    Examples
    --------
    >>> ranker = PRank(n_grades=3)
    >>> ranker.learn_one([[1.0, 2.0]], [2])  # the score 0 is not above either threshold: both move, twice x
    True
    >>> ranker.weights, ranker.thresholds
    (array([2., 4.]), array([-1., -1.]))
    """

    algorithm = "prank"
    without_query_weights = "its thresholds stay in order only if all steps have the same length"
    fixed: ClassVar[tuple[str, ...]] = ("n_grades",)
    cost = "m (d + g)"
    takes = "documents"
    depends_on_rate = False

    n_members = 1
    share = 1.0
    seed = 0
    margin = 0.0
    theorem = theorems.prank()
    kernel = Pass(prank_pass, (1, 0, 1))

    n_grades: int = 5

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        n = self.n_members
        check_room(f"{n} times {self.n_grades} grades and {n_features} features", n * (self.n_grades + n_features))
        return {"members": np.zeros((n, n_features)), "thresholds": np.zeros((n, self.n_grades - 1))}

    @property
    def thresholds(self) -> Floats:
        """The thresholds, smallest first."""
        return self._model.require_learned().more["thresholds"].mean(axis=0)

    def _make_settings(self) -> PRankSettings:
        if check_positive_whole("n_grades", self.n_grades) < 2:
            raise ParameterError("n_grades", "must be at least 2", self.n_grades)
        return bool(self.average), float(self.share), int(self.seed), float(self.margin)
