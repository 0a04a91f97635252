"""Algorithm 2: the SLAM perceptron."""

from __future__ import annotations

from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper_inlined
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream.validation import check_positive
from perceptrank.theory import theorems
from perceptrank.theory.hinges import HINGE_ROWS, Weighing, descend_slam, find_hinges
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem


@helper_inlined
def slam_rule(settings: tuple[bool, Weighing], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Write the subgradient of SLAM, for mistaken rankings only if the settings say so."""
    mistakes_only, weighing = settings
    scores, grades, _, _, _ = query
    n_levels = find_hinges(scores, grades, rows)
    mass, _ = descend_slam(mistakes_only, weighing, query, scores, n_levels, coefficients, rows)
    return mass


SLAM_PASS = list_pass(slam_rule, floats=HINGE_ROWS[0], ints=HINGE_ROWS[1])


class SlamPerceptron(Startable, CompiledLearner):
    """Descend the SLAM surrogate of a measure on every query that was not ranked perfectly (Algorithm 2).

    On a mistake, w -= learning_rate * Xᵀ g, with g the subgradient of `perceptrank.Slam`: each relevant document that
    is not the margin ahead of all lower grades moves against the best-scored of these, by its weight in the measure.
    Rankings depend on margin / learning_rate alone: scaling both scales w.

    Cumulative loss on a stream that a unit vector ranks with margin γ, with D the largest distance between two
    differently graded documents of a query and a = 2 margin / learning_rate: at most D² / γ² if a ≤ D², else
    (D² + a)² / (4 a γ²).

    Parameters
    ----------
    margin : float > 0
        Required lead in score over all lower grades.

    References
    ----------
    S. Chaudhuri and A. Tewari, "Perceptron-like Algorithms for Online Learning to Rank".

    Examples
    --------
    >>> ranker = SlamPerceptron(measure="ap", learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    True
    >>> ranker.weights, ranker.rank([[1.0, 0.0], [0.0, 1.0]])
    (array([-1.,  1.]), array([1, 0]))
    """

    algorithm = "slam"
    cost = "m (d + g)"
    kernel = SLAM_PASS

    measure: MeasureLike = "ndcg@10"
    _: KW_ONLY
    learning_rate: float = 0.1
    margin: float = 1.0
    class_order: str = "score"

    @property
    def theorem(self) -> Theorem:
        promised = theorems.slam(float(self.learning_rate), float(self.margin))
        return self._model.beginning.theorem(theorems.for_top(promised, parse(self.measure).cutoff))

    def _make_settings(self) -> ListSettings:
        margin, weighing = check_positive("margin", self.margin), weighing_of(self.measure, self.class_order)
        return list_settings(self, True, weighing, margin=margin, binary=weighing[0])
