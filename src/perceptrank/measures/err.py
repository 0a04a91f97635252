"""Expected reciprocal rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import read_grades
from perceptrank.kernels.scratch import Scratch
from perceptrank.measures import ranking
from perceptrank.measures.measure import Measure
from perceptrank.measures.ranking import Ranked, Settings, rank_first
from perceptrank.stream.validation import check_positive


@compiled
def err_pass(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write ERR of every query; the policy's value where no document is relevant."""
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
            value, going = 0.0, 1.0
            for p in range(k):
                stopping = 2.0 ** (grades[order[p]] - max_grade) - 2.0 ** (-max_grade)
                value += going * stopping / (p + 1)
                going *= 1.0 - stopping
            values[q] = value


@dataclass(frozen=True, repr=False)
class ERR(Measure):
    """Expected reciprocal rank of the document at which a reader of the first k stops.

    Parameters
    ----------
    k : int, optional
        Cut-off: the number of documents from the top that count; all if None.
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
    code: ClassVar[int] = ranking.ERR
    kernel: ClassVar[Callable[..., None]] = err_pass

    k: int | None = None
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
