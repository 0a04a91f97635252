"""Surrogates of ranking measures: losses of a score vector, with value and subgradient.

With documents i of grade R_i and score s_i, let M_i be the largest score of a document graded below i (minus infinity
if there is none) and K_i the first document that attains it. Delta is the margin.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.kernels import list_rules as kernel
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import weights as weights_kernel
from perceptrank.measures.measure import AP, GAINS, NDCG, Measure, MeasureLike, discounts, parse
from perceptrank.stream.validation import as_grades, as_scores, check_choice, check_positive, read_only

CLASS_ORDERS = {
    "score": weights_kernel.BY_SCORE,
    "mean": weights_kernel.BY_MEAN,
    "index": weights_kernel.BY_INDEX,
}


def parse_learnable(measure: MeasureLike) -> Measure:
    """A measure that has SLAM weights: NDCG, with or without a cut-off, or AP."""
    parsed = parse(measure)
    if not isinstance(parsed, (NDCG, AP)):
        raise ValueError(
            f"measure must be ndcg, ndcg@k or ap to be learned, got {str(parsed)!r}, which can be recorded"
        )
    return parsed


def make_rule(kind: int, measure: MeasureLike, class_order: str = "score", **options: Any) -> kernel.ListRule:
    """A kernel's rule for a measure."""
    parsed = parse_learnable(measure)
    check_choice("class_order", class_order, CLASS_ORDERS)
    return kernel.ListRule(
        kind,
        measure=parsed.kernel_code,
        cutoff=parsed.cutoff or 0,
        gain=GAINS[getattr(parsed, "gain", "exp2")],
        class_order=CLASS_ORDERS[class_order],
        **options,
    )


class Surrogate(ABC):
    """A loss of the scores and grades of one query."""

    @abstractmethod
    def _evaluate(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        """Value and subgradient, for checked arrays."""

    def value(self, scores: npt.ArrayLike, relevance: npt.ArrayLike) -> float:
        """The loss."""
        return self._evaluate(*_checked(scores, relevance))[0]

    def gradient(self, scores: npt.ArrayLike, relevance: npt.ArrayLike) -> Floats:
        """A subgradient in the scores, weights held fixed."""
        return self._evaluate(*_checked(scores, relevance))[1]


class _Hinge(Surrogate):
    """A surrogate made of hinges."""

    _rule: kernel.ListRule

    def _evaluate(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        gradient = np.empty(len(scores))
        table = discounts(len(scores))
        value = kernel.hinge_surrogate(self._rule, read_only(scores), read_only(relevance), table, gradient)
        return value, gradient


class Slam(_Hinge):
    """phi(s, R) = sum of v_i max(0, Delta + M_i - s_i); phi / Delta is at least 1 - measure.

    The weights v add up to 1 and follow the documents sorted by grade: AP gives each of r relevant documents 1/r,
    NDCG_k gives the one in position p <= k its gain times 1 / log2(1 + p), normalised. Inside a grade, positions go by
    score (`class_order="score"`), by index (`"index"`), or are shared equally (`"mean"`).

    For fixed weights phi is convex, and the sum of v_i (e_{K_i} - e_i) over documents whose hinge is positive is a
    subgradient. With `"score"` the weights of NDCG are those at the given scores: `gradient` holds them fixed, as the
    learners do, while `value` at other scores has other weights and is not convex across them.

    >>> loss = Slam(measure="ap")
    >>> loss.value([0.5, 0.0], [0, 1]), loss.gradient([0.5, 0.0], [0, 1])
    (1.5, array([ 1., -1.]))
    """

    def __init__(self, measure: MeasureLike = "ndcg", *, margin: float = 1.0, class_order: str = "score") -> None:
        self.measure = parse_learnable(measure)
        self.margin = check_positive("margin", margin)
        self.class_order = class_order
        self._rule = make_rule(kernel.TOP, self.measure, class_order, margin=self.margin)


class MaxPair(_Hinge):
    """phi(s, R) = the largest max(0, Delta + s_j - s_i) over pairs with R_i > R_j.

    Subgradient: e_j - e_i of the first maximal pair. `measure="ap"` takes grades as relevant or not.

    >>> MaxPair().value([0.5, 0.0, 2.0], [0, 1, 2])
    1.5
    """

    def __init__(self, measure: MeasureLike = "ndcg", *, margin: float = 1.0) -> None:
        self.measure = parse_learnable(measure)
        self.margin = check_positive("margin", margin)
        self._rule = make_rule(kernel.MAX_PAIR, self.measure, margin=self.margin)


class LevelPair(_Hinge):
    """phi(s, R) = the largest max(0, (l_i - l_j) Delta + s_j - s_i) over pairs with R_i > R_j.

    l_i is the number of grades in the query that are lower than R_i, so documents must be the further apart, the more
    grades lie between them. Subgradient: e_j - e_i of the first maximal pair. With two grades its value is
    that of `MaxPair`. `measure="ap"` takes grades as relevant or not.

    >>> LevelPair().value([0.5, 0.0, 2.0], [0, 1, 2])
    1.5
    """

    def __init__(self, measure: MeasureLike = "ndcg", *, margin: float = 1.0) -> None:
        self.measure = parse_learnable(measure)
        self.margin = check_positive("margin", margin)
        self._rule = make_rule(kernel.LEVEL_PAIR, self.measure, margin=self.margin)


class ListNet(Surrogate):
    """phi(s, R) = cross entropy of softmax(R) and softmax(s); gradient: softmax(s) - softmax(R).

    >>> ListNet().gradient([0.0, 0.0], [0.0, 0.0])
    array([0., 0.])
    """

    def _evaluate(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        shifted = scores - scores.max()
        log_sum = np.log(np.exp(shifted).sum())
        target = np.exp(relevance - relevance.max())
        target /= target.sum()
        return float(target @ (log_sum - shifted)), np.exp(shifted - log_sum) - target


def _checked(scores: npt.ArrayLike, relevance: npt.ArrayLike) -> tuple[Floats, Floats]:
    values = as_scores(scores)
    if len(values) == 0:
        raise ValueError("a query must have at least one document, got none")
    return values, as_grades(relevance, len(values))
