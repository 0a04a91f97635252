"""Normalised discounted cumulative gain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.levels import highest_below, read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.measures import ranking
from perceptrank.measures.gains import GAINS, gain_of, gain_shift
from perceptrank.measures.measure import Measure
from perceptrank.measures.ranking import Ranked, Settings, rank_first
from perceptrank.stream.validation import check_choice


@compiled
def ndcg_pass(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write NDCG of every query; the policy's value where no document is relevant."""
    _, _, when_empty, _, cutoff, gain, max_grade = settings
    _, relevance, offsets, discounts, _ = ranked
    grades, order = scratch[0][0], scratch[1][4]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        n_relevant = read_grades(relevance, start, m, max_grade < 0.0, grades)
        values[q] = when_empty
        if n_relevant > 0:
            k = cutoff if 0 < cutoff < m else m
            rank_first(settings, k, ranked, start, m, grades, scratch)
            shift = gain_shift(gain, highest_below(grades, m, math.inf))
            value, best = 0.0, best_gain(gain, shift, k, m, grades, discounts)
            for p in range(k):
                value += gain_of(gain, grades[order[p]], shift) * discounts[p]
            values[q] = value / best if best > 0.0 else 1.0


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


@dataclass(frozen=True, repr=False)
class NDCG(Measure):
    """Normalised discounted cumulative gain of the first k documents, or of all.

    Parameters
    ----------
    k : int, optional
        Cut-off: the number of documents from the top that count; all if None.
    gain : either "exp2" or "linear"
        Gain of grade R: 2^R - 1 or R.

    Examples
    --------
    The relevant document is in place 2, the discount of which is 1 / log2(3):

    >>> NDCG(10)([3.0, 2.0, 1.0], [0, 1, 0])
    0.6309297535714575
    """

    name: ClassVar[str] = "ndcg"
    code: ClassVar[int] = ranking.NDCG
    kernel: ClassVar[Callable[..., None]] = ndcg_pass

    k: int | None = None
    gain: str = field(default="exp2", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("gain", self.gain, GAINS)

    def _settings(self) -> tuple[int, float]:
        return GAINS[self.gain], 0.0
