"""Predtron, for rankings."""

from __future__ import annotations

from typing import Unpack

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.ordering import sort_descending
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import close_query, open_query
from perceptrank.learners.starting import StartSettings
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.measures import MeasureLike
from perceptrank.stream.validation import check_positive
from perceptrank.theory.surrogates import weighing_of
from perceptrank.transforms.transform import TransformLike

PredtronRule = tuple[bool, float, bool, int]  # averaging, learning_rate, binary, cutoff


@compiled
def predtron_pass(rule: PredtronRule, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, learning_rate, binary, cutoff = rule
    _, relevance, offsets, _ = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, lower_first = floats[0], floats[1], floats[2], floats[3]
    order, ideal, buckets, spare, moved = ints[0], ints[1], ints[2], ints[3], ints[4]
    mean, step = vectors[0], vectors[1]
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if not open_query(averaging, block, q, state, mean, scores, record):
            return q
        n_relevant = read_grades(relevance, offsets[q], m, binary, grades)
        if n_relevant < 0:
            return q
        for i in range(m):
            coefficients[i] = 0.0
        mass = 0.0
        if grades_differ(grades, m, n_relevant):
            mass = move_to_ideal_places(
                m, cutoff, scores, grades, lower_first, order, ideal, buckets, spare, coefficients
            )
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


@helper
def move_to_ideal_places(
    m: int,
    cutoff: int,
    scores: Floats,
    grades: Floats,
    lower_first: Floats,
    order: Ints,
    ideal: Ints,
    buckets: Ints,
    spare: Ints,
    coefficients: Floats,
) -> float:
    """Write the place in the ideal ranking minus the place in the ranking, if the first `cutoff` grades differ."""
    for i in range(m):
        lower_first[i] = -scores[i]
    sort_descending(grades, lower_first, m, ideal, buckets, spare)
    sort_descending(scores, grades, m, order, buckets, spare)
    n_wrong = 0
    for p in range(m if cutoff == 0 else min(cutoff, m)):
        n_wrong += 1 if grades[order[p]] != grades[ideal[p]] else 0
    if n_wrong == 0:
        return 0.0
    for p in range(m):
        coefficients[ideal[p]] += p
        coefficients[order[p]] -= p
    return 1.0


class Predtron(CompiledLearner):
    """A perceptron on representations of predictions: a ranking is represented by minus the place of each document.

    If the ranking was not perfect, w += learning_rate * Xᵀ (p - q), p the places of the documents in the ranking and
    q those in the ideal one, in which documents of one grade are ordered by score. That is the sum of x_i - x_j over
    all misordered pairs. Learns from lists; rankings do not depend on the learning rate.

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
    P. Jain, N. Natarajan and A. Tewari, "Predtron: A Family of Online Algorithms for General Prediction Problems"; the
    representation is ours.

    Examples
    --------
    >>> ranker = Predtron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0, 2, 1])  # worst order: 0, 2, 1; ideal: 1, 2, 0
    True
    >>> ranker.weights
    array([-2.,  2.])
    """

    algorithm = "predtron"
    accepts_sparse = True
    accepts_weights = True
    cost = "m (d + log m)"
    depends_on_rate = False
    kernel = predtron_pass
    rows = 4, 5, 2

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

    def _make_rule(self) -> PredtronRule:
        binary, cutoff, _, _ = weighing_of(self.measure)
        return bool(self.average), check_positive("learning_rate", self.learning_rate), binary, cutoff
