"""Algorithm 3: the minimax perceptron."""

from __future__ import annotations

from typing import Unpack

from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import find_levels, read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import close_query, open_query
from perceptrank.learners.starting import StartSettings
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.measures import MeasureLike
from perceptrank.stream.validation import check_positive
from perceptrank.theory import theorems
from perceptrank.theory.hinges import find_rivals, is_mistaken, move_widest_pair, order_ideally
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike

MinimaxRule = tuple[bool, float, bool, int]  # averaging, learning_rate, binary, cutoff


@compiled
def minimax_pass(rule: MinimaxRule, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, learning_rate, binary, cutoff = rule
    _, relevance, offsets, _ = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, levels, best_below = floats[0], floats[1], floats[2], floats[3], floats[4]
    chosen_keys, mean, step = floats[5], vectors[0], vectors[1]
    level_of, first, rival, ideal, chosen = ints[0], ints[1], ints[2], ints[3], ints[4]
    order, buckets, spare, moved = ints[5], ints[6], ints[7], ints[8]
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if not open_query(averaging, block, q, state, mean, scores, record):
            return q
        n_relevant = read_grades(relevance, offsets[q], m, binary, grades)
        if n_relevant < 0:
            return q
        mass = 0.0
        n_levels = find_levels(grades, m, levels, first, level_of)
        if n_levels > 1:
            counted = cutoff if 0 < cutoff < n_relevant else n_relevant
            find_rivals(scores, m, n_levels, level_of, best_below, rival)
            order_ideally(scores, level_of, first, counted, ideal, chosen_keys, chosen, order, buckets, spare)
            if is_mistaken(scores, level_of, best_below, ideal, counted):
                for i in range(m):
                    coefficients[i] = 0.0
                mass, _ = move_widest_pair(0.0, m, scores, level_of, best_below, rival, coefficients)
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


class MinimaxPerceptron(CompiledLearner):
    """Move along the most violated pair of every query that was not ranked perfectly (Algorithm 3).

    With i, j the pair of grades R_i > R_j whose scores disagree most, w += learning_rate * (x_i - x_j). Rankings do not
    depend on the learning rate. Number of mistakes on a stream that a unit vector ranks with margin γ: at most
    D² / γ², D the largest distance between two differently graded documents of a query, hence at most
    4 R² / γ² for documents of norm at most R.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        The measure that decides whether a ranking was perfect.
    learning_rate : float > 0
        Factor of every step; rankings do not depend on it.
    average : bool
        Rank with the mean of all iterates instead of the last one.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first.
    **start
        Initial weights, and features whose weights keep a sign: `initial_weights`, `positive`, `negative` and `zero` of
        `Learner`.

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
    accepts_sparse = True
    accepts_weights = True
    cost = "m (d + g)"
    depends_on_rate = False
    kernel = minimax_pass
    rows = 6, 9, 2

    def __init__(
        self,
        measure: MeasureLike = "ndcg@10",
        *,
        learning_rate: float = 1.0,
        average: bool = False,
        transforms: TransformLike = None,
        **start: Unpack[StartSettings],
    ) -> None:
        self.measure = measure
        self.learning_rate = learning_rate
        self.average = average
        self.transforms = transforms
        super().__init__(**start)

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""
        return self.beginning.theorem(theorems.pair_perceptron())

    def _make_rule(self) -> MinimaxRule:
        binary, cutoff, _, _ = weighing_of(self.measure)
        return bool(self.average), check_positive("learning_rate", self.learning_rate), binary, cutoff
