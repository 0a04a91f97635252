"""Algorithm 3: the minimax perceptron."""

from __future__ import annotations

from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper_inlined
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.measures import MeasureLike
from perceptrank.theory import theorems
from perceptrank.theory.hinges import Weighing, find_hinges, is_mistaken, move_widest_pair
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem


@helper_inlined
def minimax_rule(settings: Weighing, query: Query, coefficients: Floats, rows: Rows) -> float:
    """Move the most violated pair of a mistaken ranking."""
    scores, grades, n_relevant, _, _ = query
    find_hinges(scores, grades, rows)
    if not is_mistaken(settings[1], scores, n_relevant, rows):
        return 0.0
    mass, _ = move_widest_pair(0.0, scores, coefficients, rows)
    return mass


class MinimaxPerceptron(Startable, CompiledLearner):
    """Move along the most violated pair of every query that was not ranked perfectly (Algorithm 3).

    With i, j the pair of grades R_i > R_j whose scores disagree most, w += learning_rate * (x_i - x_j). Rankings do not
    depend on the learning rate. Number of mistakes on a stream that a unit vector ranks with margin γ: at most
    D² / γ², D the largest distance between two differently graded documents of a query, hence at most
    4 R² / γ² for documents of norm at most R.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        The measure that decides whether a ranking was perfect.

    References
    ----------
    S. Chaudhuri and A. Tewari, "Perceptron-like Algorithms for Online Learning to Rank".

    Examples
    --------
    >>> ranker = MinimaxPerceptron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0, 2, 1])
    True
    >>> ranker.weights
    array([-1.,  1.])
    """

    algorithm = "minimax"
    cost = "m (d + g)"
    depends_on_rate = False
    kernel = list_pass(minimax_rule, floats=2, ints=3)

    measure: MeasureLike = "ndcg@10"
    _: KW_ONLY
    learning_rate: float = 1.0

    @property
    def theorem(self) -> Theorem:
        return self._model.beginning.theorem(theorems.pair_perceptron())

    def _make_settings(self) -> ListSettings:
        weighing = weighing_of(self.measure)
        return list_settings(self, *weighing, binary=weighing[0])
