"""Algorithm 2: the SLAM perceptron."""

from __future__ import annotations

from typing import Unpack

from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import find_levels, read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import close_query, margin_now, open_query
from perceptrank.learners.starting import StartSettings
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.measures import MeasureLike
from perceptrank.stream.validation import check_positive
from perceptrank.theory import theorems
from perceptrank.theory.hinges import find_rivals, is_mistaken, move_against_best, order_by_index, order_ideally
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem
from perceptrank.theory.weights import BY_INDEX, BY_MEAN, lay_weights
from perceptrank.transforms.transform import TransformLike

# mistakes_only, averaging, learning_rate, margin, relative_margin, binary, cutoff, gain, class_order
SlamRule = tuple[bool, bool, float, float, float, bool, int, int, int]
ROWS = 7, 9, 2


@compiled
def slam_pass(rule: SlamRule, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    mistakes_only, averaging, learning_rate, absolute, relative, binary, cutoff, gain, class_order = rule
    _, relevance, offsets, discounts = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, levels, best_below = floats[0], floats[1], floats[2], floats[3], floats[4]
    weight_at, chosen_keys = floats[5], floats[6]
    level_of, first, rival, ideal, chosen = ints[0], ints[1], ints[2], ints[3], ints[4]
    order, buckets, spare, moved = ints[5], ints[6], ints[7], ints[8]
    mean, step = vectors[0], vectors[1]
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
            n = n_relevant if class_order == BY_MEAN else counted
            order_ideally(scores, level_of, first, n, ideal, chosen_keys, chosen, order, buckets, spare)
            if not mistakes_only or is_mistaken(scores, level_of, best_below, ideal, counted):
                if class_order == BY_INDEX:
                    order_by_index(m, n_levels, level_of, first, order, ideal)
                shared = class_order == BY_MEAN
                lay_weights(binary, cutoff, gain, shared, n_relevant, n_levels, levels, first, discounts, weight_at)
                margin = margin_now(absolute, relative, learning_rate, state)
                for i in range(m):
                    coefficients[i] = 0.0
                mass, _ = move_against_best(
                    margin, n, scores, level_of, best_below, rival, ideal, weight_at, coefficients
                )
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


class SlamPerceptron(CompiledLearner):
    """Descend the SLAM surrogate of a measure on every query that was not ranked perfectly (Algorithm 2).

    On a mistake, w -= learning_rate * Xᵀ g, with g the subgradient of `perceptrank.Slam`: each relevant document that
    is not the margin ahead of all lower grades moves against the best-scored of these, by its weight in the measure.
    Rankings depend on margin / learning_rate alone: scaling both scales w.

    Cumulative loss on a stream that a unit vector ranks with margin γ, with D the largest distance between two
    differently graded documents of a query and a = 2 margin / learning_rate: at most D² / γ² if a ≤ D², else
    (D² + a)² / (4 a γ²).

    Parameters
    ----------
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        The measure that is learned. While learning, tied documents always count as ranked in the worst order; a
        measure's own policies are for recording.
    learning_rate : float > 0
        Factor of every step.
    margin : float > 0
        Required lead in score over all lower grades.
    class_order : "score", "mean", or "index"
        Order of weights inside a relevance class: by score, shared equally, or by index; see `Slam`.
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
    >>> ranker = SlamPerceptron(measure="ap", learning_rate=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    True
    >>> ranker.weights, ranker.rank([[1.0, 0.0], [0.0, 1.0]])
    (array([-1.,  1.]), array([1, 0]))
    """

    algorithm = "slam"
    accepts_sparse = True
    accepts_weights = True
    cost = "m (d + g)"
    kernel = slam_pass
    rows = ROWS

    def __init__(
        self,
        measure: MeasureLike = "ndcg@10",
        *,
        learning_rate: float = 0.1,
        margin: float = 1.0,
        class_order: str = "score",
        average: bool = False,
        transforms: TransformLike = None,
        **start: Unpack[StartSettings],
    ) -> None:
        self.measure = measure
        self.learning_rate = learning_rate
        self.margin = margin
        self.class_order = class_order
        self.average = average
        self.transforms = transforms
        super().__init__(**start)

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""
        return self.beginning.theorem(theorems.slam(float(self.learning_rate), float(self.margin)))

    def _make_rule(self) -> SlamRule:
        rate, margin = check_positive("learning_rate", self.learning_rate), check_positive("margin", self.margin)
        return True, bool(self.average), rate, margin, 0.0, *weighing_of(self.measure, self.class_order)
