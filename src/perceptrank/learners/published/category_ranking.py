"""Crammer and Singer's category ranking."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from perceptrank.kernels.arrays import Floats, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.rounds import list_pass
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import ListSettings
from perceptrank.measures import MeasureLike
from perceptrank.stream.validation import check_choice
from perceptrank.theory import theorems
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem

PAIRS = ("uniform", "max")


@helper
def category_ranking_rule(settings: tuple[bool], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Move the most misordered pair, or all misordered ones in equal parts."""
    (widest_only,) = settings
    scores, grades, _, _, _ = query
    if widest_only:
        return move_widest_pair(len(scores), scores, grades, coefficients)
    return move_misordered_pairs(len(scores), scores, grades, coefficients)


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


class CategoryRanking(Startable, CompiledLearner):
    """Move along all misordered pairs in equal parts, or along the most misordered one.

    Misordered are pairs of grades R_i > R_j with scores s_i ≤ s_j. If there are any, w += learning_rate * the sum of
    a_ij (x_i - x_j), a being 1 over their number (`pairs="uniform"`, called MMP), or all on one maximal pair. Learns
    from lists, independently of the measure; rankings do not depend on the learning rate.

    Number of imperfectly ranked queries on a stream that a unit vector ranks with margin γ: at most D² / γ²,
    D the largest distance between two differently graded documents of a query (Lemma 2 of docs/theory/).

    Parameters
    ----------
    pairs : either "uniform" or "max"
        All misordered pairs in equal parts, or the most misordered one.
    measure : "ndcg" or "ap", or a Measure
        "ap" makes grades binary, relevant or not; otherwise it is only the measure recorded by default.

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
    cost = "m d + m²"
    depends_on_rate = False
    kernel = list_pass(category_ranking_rule)

    pairs: str = "uniform"
    _: KW_ONLY
    measure: MeasureLike = "ndcg"
    learning_rate: float = 1.0

    @property
    def theorem(self) -> Theorem:
        return self._model.beginning.theorem(theorems.pair_perceptron())

    def _make_settings(self) -> ListSettings:
        check_choice("pairs", self.pairs, PAIRS)
        return list_settings(self, self.pairs == "max", binary=weighing_of(self.measure)[0])
