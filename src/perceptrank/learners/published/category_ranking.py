"""Crammer and Singer's category ranking."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import close_query, open_query
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.measures import MeasureLike
from perceptrank.stream.validation import check_choice, check_positive
from perceptrank.theory import theorems
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem

PAIRS = ("uniform", "max")
CategoryRankingSettings = tuple[bool, float, bool, bool]  # averaging, learning_rate, binary, widest_only


@compiled
def category_ranking_pass(
    settings: CategoryRankingSettings, block: Block, state: Iterates, record: Record, scratch: Scratch
) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, learning_rate, binary, widest_only = settings
    _, relevance, offsets, _ = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, moved = floats[0], floats[1], floats[2], ints[0]
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
            if widest_only:
                mass = move_widest_pair(m, scores, grades, coefficients)
            else:
                mass = move_misordered_pairs(m, scores, grades, coefficients)
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


@helper
def move_misordered_pairs(m: int, scores: Floats, grades: Floats, coefficients: Floats) -> float:
    """Move all pairs R_i > R_j with s_i ≤ s_j, in equal parts that add up to 1."""
    n_pairs = 0
    for i in range(m):
        for j in range(m):
            if grades[i] > grades[j] and scores[i] <= scores[j]:
                coefficients[i] -= 1.0
                coefficients[j] += 1.0
                n_pairs += 1
    if n_pairs == 0:
        return 0.0
    for i in range(m):
        coefficients[i] /= n_pairs
    return 1.0


@helper
def move_widest_pair(m: int, scores: Floats, grades: Floats, coefficients: Floats) -> float:
    """Move the pair R_i > R_j with the largest s_j - s_i, the first of them, if that is not negative."""
    widest, higher, lower = -math.inf, -1, -1
    for i in range(m):
        for j in range(m):
            gap = scores[j] - scores[i]
            if grades[i] > grades[j] and gap > widest:
                widest, higher, lower = gap, i, j
    if widest < 0.0:
        return 0.0
    coefficients[higher] = -1.0
    coefficients[lower] = 1.0
    return 1.0


class CategoryRanking(CompiledLearner, Startable):
    """Move along all misordered pairs in equal parts, or along the most misordered one.

    Misordered are pairs of grades R_i > R_j with scores s_i ≤ s_j. If there are any, w += learning_rate * the sum of
    a_ij (x_i - x_j), a being 1 over their number (`pairs="uniform"`, called MMP), or all on one maximal pair. Learns
    from lists, independently of the measure; rankings do not depend on the learning rate.

    Number of imperfectly ranked queries on a stream that a unit vector ranks with margin γ: at most D² / γ²,
    D the largest distance between two differently graded documents of a query (Lemma 2 of docs/theory.md).

    Parameters
    ----------
    pairs : either "uniform" or "max"
        All misordered pairs in equal parts, or the most misordered one.
    measure : "ndcg" or "ap", or a Measure
        "ap" makes grades binary, relevant or not; otherwise it is only the measure recorded by default.
    learning_rate : float > 0
        Factor of every step; rankings do not depend on it.

    References
    ----------
    K. Crammer and Y. Singer, "A New Family of Online Algorithms for Category Ranking".

    Examples
    --------
    >>> ranker = CategoryRanking()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1, 0, 0])
    True
    >>> ranker.weights  # half of (1, -1) and half of (1, 0)
    array([ 1. , -0.5])
    """

    algorithm = "category-ranking"
    accepts_sparse = True
    accepts_query_weights = True
    cost = "m d + m²"
    depends_on_rate = False
    kernel = category_ranking_pass
    rows = 3, 1, 2

    pairs: str = "uniform"
    _: KW_ONLY
    measure: MeasureLike = "ndcg"
    learning_rate: float = 1.0

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""
        return self.beginning.theorem(theorems.pair_perceptron())

    def _make_settings(self) -> CategoryRankingSettings:
        check_choice("pairs", self.pairs, PAIRS)
        binary, _, _, _ = weighing_of(self.measure)
        return bool(self.average), check_positive("learning_rate", self.learning_rate), binary, self.pairs == "max"
