"""Measures of documents that are relevant or not: average precision, precision at k, reciprocal rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.measures import ranking
from perceptrank.measures.measure import Measure
from perceptrank.measures.ranking import Ranked, Settings, rank_first


@compiled
def ap_pass(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write AP of every query; the policy's value where no document is relevant."""
    _, _, when_empty, _, cutoff, _, max_grade = settings
    _, relevance, offsets, _, _ = ranked
    grades, order = scratch[0][0], scratch[1][4]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        n_relevant = read_grades(relevance, start, m, max_grade < 0.0, grades)
        values[q] = when_empty
        if n_relevant > 0:
            k = cutoff if 0 < cutoff < m else m
            rank_first(settings, k, ranked, start, m, grades, scratch)
            value, found = 0.0, 0
            for p in range(k):
                if grades[order[p]] > 0.0:
                    found += 1
                    value += found / (p + 1)
            values[q] = value / n_relevant


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
    code: ClassVar[int] = ranking.AP
    kernel: ClassVar[Callable[..., None]] = ap_pass


@compiled
def precision_pass(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write precision of every query; the policy's value where no document is relevant."""
    _, _, when_empty, _, cutoff, _, max_grade = settings
    _, relevance, offsets, _, _ = ranked
    grades, order = scratch[0][0], scratch[1][4]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        n_relevant = read_grades(relevance, start, m, max_grade < 0.0, grades)
        values[q] = when_empty
        if n_relevant > 0:
            k = cutoff if 0 < cutoff < m else m
            rank_first(settings, k, ranked, start, m, grades, scratch)
            found = 0
            for p in range(k):
                found += 1 if grades[order[p]] > 0.0 else 0
            values[q] = found / (cutoff if cutoff > 0 else m)


@dataclass(frozen=True, repr=False)
class Precision(Measure):
    """Precision: the number of relevant documents among the first k, divided by k.

    The divisor is k even if a query has fewer documents.

    Parameters
    ----------
    k : int, optional
        Cut-off: the number of documents from the top that count; all if None.

    Examples
    --------
    >>> Precision(2)([3.0, 2.0, 1.0], [1, 0, 1])
    0.5
    """

    name: ClassVar[str] = "p"
    code: ClassVar[int] = ranking.PRECISION
    kernel: ClassVar[Callable[..., None]] = precision_pass

    k: int | None = None


@compiled
def reciprocal_rank_pass(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write the reciprocal rank of every query; the policy's value where no document is relevant."""
    _, _, when_empty, _, cutoff, _, max_grade = settings
    _, relevance, offsets, _, _ = ranked
    grades, order = scratch[0][0], scratch[1][4]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        n_relevant = read_grades(relevance, start, m, max_grade < 0.0, grades)
        values[q] = when_empty
        if n_relevant > 0:
            k = cutoff if 0 < cutoff < m else m
            rank_first(settings, k, ranked, start, m, grades, scratch)
            values[q] = 0.0
            for p in range(k):
                if grades[order[p]] > 0.0:
                    values[q] = 1.0 / (p + 1)
                    break


@dataclass(frozen=True, repr=False)
class ReciprocalRank(Measure):
    """Reciprocal rank of the first relevant document; 0 if it comes after rank k.

    Parameters
    ----------
    k : int, optional
        Cut-off: the number of documents from the top that count; all if None.

    Examples
    --------
    >>> ReciprocalRank()([3.0, 2.0, 1.0], [0, 1, 1])
    0.5
    """

    name: ClassVar[str] = "rr"
    code: ClassVar[int] = ranking.RECIPROCAL_RANK
    kernel: ClassVar[Callable[..., None]] = reciprocal_rank_pass

    k: int | None = None
