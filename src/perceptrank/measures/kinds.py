"""The measures: for each, the formula of one ranking, and the class that names its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.levels import highest_below
from perceptrank.measures.gains import GAINS, gain_of, gain_shift
from perceptrank.measures.measure import Measure
from perceptrank.measures.ranking import Settings, measure_pass
from perceptrank.stream.validation import check_choice, check_positive


@helper
def ap(settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats) -> float:
    """Return the average precision."""
    value, n_above = 0.0, 0
    for p in range(k):
        if grades[order[p]] > 0.0:
            n_above += 1
            value += n_above / (p + 1)
    return value / n_relevant


@dataclass(frozen=True, repr=False)
class AP(Measure):
    """Average precision: the mean, over the relevant documents, of the precision at their rank.

    A document is relevant if its grade is positive.

    Examples
    --------
    Relevant documents are in places 1 and 3, (1/1 + 2/3) / 2:

    >>> round(AP()([3.0, 2.0, 1.0], [1, 0, 1]), 4)
    0.8333
    """

    name: ClassVar[str] = "ap"
    kernel: ClassVar[Callable[..., None]] = measure_pass(ap)


@dataclass(frozen=True, repr=False)
class MeasureAtCutoff(Measure):
    """A measure of the first documents of a ranking.

    Parameters
    ----------
    k : int, optional
        Cut-off: the number of documents from the top that count; all if None.
    """

    k: int | None = None


@helper
def precision(
    settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats
) -> float:
    """Return the precision at the cut-off."""
    n_above = 0
    for p in range(k):
        n_above += 1 if grades[order[p]] > 0.0 else 0
    cutoff = settings[4]
    return n_above / (cutoff if cutoff > 0 else m)


@dataclass(frozen=True, repr=False)
class Precision(MeasureAtCutoff):
    """Precision: the number of relevant documents among the first k, divided by k.

    The divisor is k even if a query has fewer documents.

    Examples
    --------
    >>> Precision(2)([3.0, 2.0, 1.0], [1, 0, 1])
    0.5
    """

    name: ClassVar[str] = "p"
    kernel: ClassVar[Callable[..., None]] = measure_pass(precision)


@helper
def reciprocal_rank(
    settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats
) -> float:
    """Return the reciprocal rank of the first relevant document, 0 if it comes after the cut-off."""
    for p in range(k):
        if grades[order[p]] > 0.0:
            return 1.0 / (p + 1)
    return 0.0


@dataclass(frozen=True, repr=False)
class ReciprocalRank(MeasureAtCutoff):
    """Reciprocal rank of the first relevant document; 0 if it comes after rank k.

    Examples
    --------
    >>> ReciprocalRank()([3.0, 2.0, 1.0], [0, 1, 1])
    0.5
    """

    name: ClassVar[str] = "rr"
    kernel: ClassVar[Callable[..., None]] = measure_pass(reciprocal_rank)


@helper
def err(settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats) -> float:
    """Return the expected reciprocal rank."""
    value, going, max_grade = 0.0, 1.0, settings[6]
    for p in range(k):
        stopping = 2.0 ** (grades[order[p]] - max_grade) - 2.0 ** (-max_grade)
        value += going * stopping / (p + 1)
        going *= 1.0 - stopping
    return value


@dataclass(frozen=True, repr=False)
class ERR(MeasureAtCutoff):
    """Expected reciprocal rank of the document at which a reader of the first k stops.

    Parameters
    ----------
    max_grade : float > 0
        The largest grade of the scale; a document of grade R stops the reader with probability (2^R - 1) /
        2^max_grade.

    Examples
    --------
    The document in place 1 stops a reader with probability (2¹ - 1) / 2⁴, the one in place 2 with (2⁴ - 1) / 2⁴:

    >>> ERR()([2.0, 1.0], [1, 4]) == 1 / 16 + 15 / 16 * 15 / 16 / 2
    True
    """

    name: ClassVar[str] = "err"
    kernel: ClassVar[Callable[..., None]] = measure_pass(err)
    max_grade: float = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("max_grade", self.max_grade)

    def check_grades(self, relevance: Floats) -> None:
        """Raise if a grade is above max_grade."""
        if (highest := float(relevance.max())) > self.max_grade:
            raise ValueError(
                f"{self} is defined for grades up to max_grade={self.max_grade:g}, got {highest:g}; "
                f"ERR(k={self.k}, max_grade={highest:g}) allows it"
            )

    def _settings(self) -> tuple[int, float]:
        return 0, float(self.max_grade)


@helper
def best_gain(gain: int, shift: float, k: int, m: int, grades: Floats, discounts: Floats) -> float:
    """Return the largest DCG at k that any ranking of the grades has."""
    value, p, ceiling = 0.0, 0, math.inf
    while p < k:
        grade = highest_below(grades, m, ceiling)
        level_gain, stop = gain_of(gain, grade, shift), p
        for i in range(m):
            stop += 1 if grades[i] == grade else 0
        while p < stop and p < k:
            value += level_gain * discounts[p]
            p += 1
        ceiling = grade
    return value


@helper
def ndcg(settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats) -> float:
    """Return the normalised discounted cumulative gain at the cut-off."""
    gain = settings[5]
    shift = gain_shift(gain, highest_below(grades, m, math.inf))
    value, best = 0.0, best_gain(gain, shift, k, m, grades, discounts)
    for p in range(k):
        value += gain_of(gain, grades[order[p]], shift) * discounts[p]
    return value / best if best > 0.0 else 1.0


@dataclass(frozen=True, repr=False)
class NDCG(MeasureAtCutoff):
    """Normalised discounted cumulative gain of the first k documents, or of all.

    Parameters
    ----------
    gain : either "exp2" or "linear"
        Gain of grade R: 2^R - 1 or R.

    Examples
    --------
    The relevant document is in place 2, the discount of which is 1 / log2(3):

    >>> NDCG(10)([3.0, 2.0, 1.0], [0, 1, 0])
    0.6309297535714575
    """

    name: ClassVar[str] = "ndcg"
    kernel: ClassVar[Callable[..., None]] = measure_pass(ndcg)
    gain: str = field(default="exp2", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("gain", self.gain, GAINS)

    def _settings(self) -> tuple[int, float]:
        return GAINS[self.gain], 0.0
