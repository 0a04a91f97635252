"""Surrogates of ranking measures: losses of a score vector, with value and subgradient.

With documents i of grade R_i and score s_i, let M_i be the largest score of a document graded below i (minus infinity
if there is none) and K_i the first document that attains it. Delta is the margin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows, Query, Rows
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.measures import AP, NDCG, Measure, MeasureLike, parse
from perceptrank.measures.gains import GAINS, discounts
from perceptrank.measures.measure import as_ranked_query
from perceptrank.stream.parameter_docs import add_inherited_parameters
from perceptrank.stream.validation import check_choice, check_positive, read_only
from perceptrank.theory.hinges import (
    CLASS_ORDERS,
    HINGE_ROWS,
    Weighing,
    descend_slam,
    find_hinges,
    move_widest_level_pair,
)

SLAM, MAX_PAIR, LEVEL_PAIR = range(3)


def parse_learnable(measure: MeasureLike) -> Measure:
    """Parse a measure that has SLAM weights: NDCG, with or without a cut-off, or AP."""
    parsed = parse(measure)
    if not isinstance(parsed, (NDCG, AP)):
        raise ValueError(f"measure must be ndcg, ndcg@k or ap to learn from, got {str(parsed)!r}, only for recording")
    return parsed


def weighing_of(measure: MeasureLike, class_order: str = "score") -> Weighing:
    """Return the settings by which kernels weight documents: binary grades, cut-off (0 for none), gain, class order."""
    parsed = parse_learnable(measure)
    check_choice("class_order", class_order, CLASS_ORDERS)
    gain = GAINS[getattr(parsed, "gain", "exp2")]
    return isinstance(parsed, AP), parsed.cutoff or 0, gain, CLASS_ORDERS[class_order]


class Surrogate(ABC):
    """A loss of the scores and grades of one query.

    Methods take:

    - `scores`, `relevance`: arrays of shape (documents,).

    Examples
    --------
    >>> import perceptrank as pr
    >>> surrogate = pr.MaxPair()
    >>> surrogate.value([0.0, 0.5], [1, 0]), surrogate.gradient([0.0, 0.5], [1, 0])
    (1.5, array([-1.,  1.]))
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        add_inherited_parameters(cls)

    @abstractmethod
    def _evaluate(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        """Return value and subgradient for validated arrays."""

    def value(self, scores: npt.ArrayLike, relevance: npt.ArrayLike) -> float:
        """Return the loss of one query."""
        return self._evaluate(*as_ranked_query(scores, relevance))[0]

    def gradient(self, scores: npt.ArrayLike, relevance: npt.ArrayLike) -> Floats:
        """Return a subgradient with respect to the scores, weights held fixed."""
        return self._evaluate(*as_ranked_query(scores, relevance))[1]


@compiled
def hinge_surrogate(
    kind: int,
    margin: float,
    weighing: Weighing,
    scores: Floats,
    relevance: Floats,
    discounts: Floats,
    gradient: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Return the surrogate's value for a single query of valid grades; write a subgradient."""
    m, grades = len(scores), floats[0]
    for i in range(m):
        gradient[i] = 0.0
    n_relevant = read_grades(relevance, ints[0][0], m, weighing[0], grades)
    if not grades_differ(grades, m, n_relevant):
        return 0.0
    query = scores, grades[:m], n_relevant, margin, discounts
    return descend_hinges(kind, weighing, query, scores, gradient, (floats[1:], ints))


@helper
def descend_hinges(
    kind: int, weighing: Weighing, query: Query, keys: Floats, coefficients: Floats, rows: Rows
) -> float:
    """Write a subgradient of a surrogate, return its value; `keys` order the documents of a level for SLAM."""
    scores, grades, _, margin, _ = query
    if kind == SLAM:
        n_levels = find_hinges(scores, grades, rows)
        return descend_slam(False, weighing, query, keys, n_levels, coefficients, rows)[1]
    per_level = margin if kind == LEVEL_PAIR else 0.0
    return move_widest_level_pair(per_level, margin - per_level, query, coefficients, rows)[1]


class _Hinge(Surrogate):
    """A surrogate that is a sum or maximum of hinges.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        The measure that is bounded. "ap" makes grades binary: relevant or not.
    margin : float > 0
        Delta.
    """

    kind: ClassVar[int]
    class_order = "score"

    def __init__(self, measure: MeasureLike = "ndcg", *, margin: float = 1.0) -> None:
        self.measure: Measure = parse_learnable(measure)
        self.margin = check_positive("margin", margin)

    def _evaluate(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        m, gradient = len(scores), np.empty(len(scores))
        weighing = weighing_of(self.measure, self.class_order)
        query = read_only(scores), read_only(relevance), discounts(m)
        rows = np.empty((1 + HINGE_ROWS[0], m + 2)), np.zeros((HINGE_ROWS[1], m + 2), np.int64)
        value = hinge_surrogate(self.kind, self.margin, weighing, *query, gradient, *rows)
        return value, gradient


class Slam(_Hinge):
    """SLAM: phi(s, R) = sum of v_i max(0, Delta + M_i - s_i); phi / Delta is at least 1 - measure.

    The weights v sum to 1 and follow the ideal ranking: AP gives each of r relevant documents 1/r, NDCG_k gives the one
    in position p ≤ k its gain times 1 / log2(1 + p), normalised.

    For fixed weights phi is convex, and the sum of v_i (e_{K_i} - e_i) over documents whose hinge is positive is a
    subgradient. With `class_order="score"` the weights of NDCG depend on the scores, but `gradient` holds them fixed.

    Parameters
    ----------
    class_order : "score", "mean", or "index"
        Positions of documents of equal grade in the ideal ranking: by score, shared equally, or by index.

    Examples
    --------
    >>> loss = Slam(measure="ap")
    >>> loss.value([0.5, 0.0], [0, 1]), loss.gradient([0.5, 0.0], [0, 1])
    (1.5, array([ 1., -1.]))
    """

    kind = SLAM

    def __init__(self, measure: MeasureLike = "ndcg", *, margin: float = 1.0, class_order: str = "score") -> None:
        super().__init__(measure, margin=margin)
        check_choice("class_order", class_order, CLASS_ORDERS)
        self.class_order = class_order


class MaxPair(_Hinge):
    """Max-pair: phi(s, R) = the largest max(0, Delta + s_j - s_i) over pairs with R_i > R_j.

    Subgradient: e_j - e_i of the first maximal pair.

    Examples
    --------
    >>> MaxPair().value([0.5, 0.0, 2.0], [0, 1, 2])
    1.5
    """

    kind = MAX_PAIR


class LevelPair(_Hinge):
    """Level-pair: phi(s, R) = the largest max(0, (l_i - l_j) Delta + s_j - s_i) over pairs with R_i > R_j.

    l_i is the number of grades in the query that are lower than R_i: with two grades the value is that of `MaxPair`.
    Subgradient: e_j - e_i of the first maximal pair.

    Examples
    --------
    >>> LevelPair().value([0.5, 0.0, 2.0], [0, 1, 2])
    1.5
    """

    kind = LEVEL_PAIR


class ListNet(Surrogate):
    """ListNet: phi(s, R) = cross entropy of softmax(R) and softmax(s); gradient: softmax(s) - softmax(R).

    Examples
    --------
    >>> ListNet().gradient([0.0, 0.0], [0.0, 0.0])
    array([0., 0.])
    """

    def _evaluate(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        shifted = scores - scores.max()
        log_sum = np.log(np.exp(shifted).sum())
        target = np.exp(relevance - relevance.max())
        target /= target.sum()
        return float(target @ (log_sum - shifted)), np.exp(shifted - log_sum) - target
