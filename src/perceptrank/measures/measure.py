"""Ranking measures as values: ``NDCG(k=10) == parse("ndcg@10")``.

Formulas, for documents ranked by score (best first) with grades R:

- NDCG_k = sum over ranks i ≤ k of G(R_i) / log2(1 + i), divided by the largest such sum; G(r) = 2^r - 1, or r.
- AP = mean, over the relevant documents (R > 0), of the precision at their rank.
- P_k = relevant documents among the first k, divided by k.
- RR_k = 1 / rank of the first relevant document, 0 if it comes after rank k.
- ERR_k = sum over ranks i ≤ k of p_i / i times the product of (1 - p_j) over j < i, p = (2^R - 1) / 2^max_grade.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.measures.gains import discounts
from perceptrank.measures.ranking import EMPTY, TIES, draw_ties
from perceptrank.stream.parameter_docs import add_inherited_parameters
from perceptrank.stream.validation import (
    ParameterError,
    as_grades,
    as_offsets,
    as_scores,
    check_choice,
    check_seed,
    is_whole,
    read_only,
)

_NO_DRAWS: Floats = np.empty(0)


@dataclass(frozen=True, repr=False)
class Measure:
    """Base class of ranking measures: immutable values with a name, compared by their fields.

    Parameters
    ----------
    ties : "worst", "stable", "reverse", "random", or "expected"
        Order of documents of equal score: the less relevant first, input order, input order backwards, at random, or
        the mean over all orders, which a measure of one's own does not have.
    empty : "skip", "one", or "zero"
        Value of a query without a relevant document: none (NaN, left out of means), 1 or 0.
    seed : int
        Seed of random ties.

    Examples
    --------
    >>> import perceptrank as pr
    >>> measure = pr.parse("ndcg@10:ties=expected")
    >>> measure, str(measure), measure == pr.NDCG(10, ties="expected")
    (NDCG(k=10, ties='expected'), 'ndcg@10:ties=expected', True)
    """

    name: ClassVar[str]
    kernel: ClassVar[Callable[..., None]]  # for every tie policy but expected

    ties: str = field(default="worst", kw_only=True)
    empty: str = field(default="skip", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        add_inherited_parameters(cls)

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, TIES)
        check_choice("empty", self.empty, EMPTY)
        object.__setattr__(self, "seed", check_seed(self.seed))
        k = self.cutoff
        if k is not None:
            if not is_whole(k) or not 1 <= k < 2**31:
                raise ValueError(f"k must be a whole number from 1 to 2**31 - 1, or None for all documents, got {k!r}")
            object.__setattr__(self, "k", int(k))

    @property
    def cutoff(self) -> int | None:
        """Number of documents from the top that count; None if all do."""
        return getattr(self, "k", None)

    def _changed(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, the cut-off first."""
        ordered = sorted(fields(self), key=lambda item: item.name != "k")
        return {item.name: value for item in ordered if (value := getattr(self, item.name)) != item.default}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._changed().items())})"

    def __str__(self) -> str:
        options = self._changed()
        k = options.pop("k", None)
        suffix = ",".join(f"{name}={value}" for name, value in options.items())
        return self.name + (f"@{k}" if k else "") + (f":{suffix}" if suffix else "")

    def __call__(self, scores: npt.ArrayLike, relevance: npt.ArrayLike) -> float:
        """Measure the ranking of one query.

        Parameters
        ----------
        scores : array of shape (documents,)
            Documents are ranked by them, the largest first.
        relevance : array of shape (documents,)
            Grades. If none is positive and `empty` is "skip", the result is NaN.
        """
        values, grades = as_ranked_query(scores, relevance)
        self.check_grades(grades)
        return float(self._per_query(values, grades, np.array([0, len(values)]), 0)[0])

    def check_grades(self, relevance: Floats) -> None:
        """Raise if the measure is not defined for some grades.

        Parameters
        ----------
        relevance : array of shape (documents,)
        """

    def per_query(self, scores: Floats, relevance: Floats, offsets: Ints, first_round: int = 0) -> Floats:
        """Measure the rankings of many queries; the value of a query that is left out is NaN.

        Parameters
        ----------
        scores, relevance : array of shape (documents,)
            Scores and grades.
        offsets : array of int of shape (queries + 1,)
            Rows ``offsets[q] : offsets[q + 1]`` belong to query q.
        first_round : int
            Number of the first query: random tie-breaking depends on the seed and the number of the query alone.
        """
        values = as_scores(scores)
        grades, bounds = as_grades(relevance, len(values)), as_offsets(offsets, len(values))
        if not is_whole(first_round) or not 0 <= first_round < 2**62:
            raise ParameterError("first_round", "must be a whole number >= 0", first_round)
        return self._per_query(values, grades, bounds, int(first_round))

    def _per_query(self, scores: Floats, relevance: Floats, offsets: Ints, first_round: int) -> Floats:
        """Return one value per query of validated arrays."""
        kernel, code = type(self).kernel, 0
        if self.ties == "expected":
            from perceptrank.measures.expected import expected_code, expected_pass

            kernel, code = expected_pass, expected_code(self)
        values, draws = np.empty(len(offsets) - 1), _NO_DRAWS
        if self.ties == "random":
            draws = np.empty(len(scores))
            draw_ties(self.seed, first_round, read_only(offsets), draws)
        longest = int(np.diff(offsets).max(initial=0))
        kernel(
            (code, TIES[self.ties], EMPTY[self.empty], self.seed, self.cutoff or 0, *self._settings()),
            (read_only(scores), read_only(relevance), read_only(offsets), discounts(longest), draws),
            values,
            borrow_scratch(longest, 0, 4, 5),
        )
        return values

    def _settings(self) -> tuple[int, float]:
        """Return the gain and the largest grade, for kernels that use them."""
        return 0, 0.0


MeasureLike: TypeAlias = str | Measure
"""A measure, or its name."""


def as_ranked_query(scores: npt.ArrayLike, relevance: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Validate and convert the scores and grades of one query, which has at least one document."""
    values = as_scores(scores)
    grades = as_grades(relevance, len(values))
    if len(values) == 0:
        raise ValueError("a query must have at least one document, got none")
    return values, grades
