"""Average precision."""

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

    Parameters
    ----------
    ties : "worst", "stable", "reverse", "random", or "expected"
        Order of documents of equal score: the less relevant first, input order, input order backwards, at random, or
        the mean over all orders.
    empty : "skip", "one", or "zero"
        Value of a query without a relevant document: none (NaN, left out of means), 1 or 0.
    seed : int
        Seed of random ties.

    Examples
    --------
    Relevant documents are in places 1 and 3, (1/1 + 2/3) / 2:

    >>> round(AP()([3.0, 2.0, 1.0], [1, 0, 1]), 4)
    0.8333
    """

    name: ClassVar[str] = "ap"
    code: ClassVar[int] = ranking.AP
    kernel: ClassVar[Callable[..., None]] = ap_pass
