"""Judgements in memory, to join features with."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.io.tables.rows import Rows, check_grades, wrong_weight
from perceptrank.kernels.arrays import Floats, Ints


class _Judgement(NamedTuple):
    grade: float
    number: int


class Judgements:
    """Grades of documents, by query and document.

    Attributes
    ----------
    n_ungraded : int
        Rows without a grade, or without a document.
    has_weights : bool
        Whether rows have had weights of their queries.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[str, _Judgement]] = {}
        self._weights: dict[str, float] = {}
        self._n = self.n_ungraded = 0
        self.has_weights = False

    def __len__(self) -> int:
        return self._n

    def add(self, rows: Rows, column: str, weight: str | None = None) -> None:
        """Add rows; raise if a document of a query is graded twice, and differently, or the query's weight differs.

        `column` and `weight` are the columns of grades and weights. Queries of rows without weights have 1.
        """
        check_grades(rows, column)
        self.has_weights |= rows.weights is not None
        weights = None if rows.weights is None else rows.weights.tolist()
        assert rows.grades is not None
        assert rows.docids is not None
        for row, (qid, docid, grade) in enumerate(zip(rows.qids, rows.docids, rows.grades.tolist(), strict=True)):
            if qid is None and docid is None and grade != grade:  # noqa: PLR0124
                continue  # a blank line
            if qid is None or qid == "":
                raise FormatError(rows.path, rows.line(row), 1, "a judgement must name its query")
            if docid is None or docid == "" or grade != grade:  # noqa: PLR0124
                self.n_ungraded += 1
                continue
            given = 1.0 if weights is None else weights[row]
            if not 0 <= given < np.inf:
                raise wrong_weight(rows, row, weight or "")
            if (other := self._weights.setdefault(qid, given)) != given:
                raise two_weights(rows.path, rows.line(row), qid, other, given)
            of_query = self._of.setdefault(qid, {})
            known = of_query.get(docid)
            if known is None:
                of_query[docid] = _Judgement(grade, self._n)
                self._n += 1
            elif known.grade != grade:
                problem = f"document {docid!r} of query {qid!r} is graded twice, {known.grade:g} and {grade:g}"
                raise FormatError(rows.path, rows.line(row), 1, problem)

    def find(self, qids: Iterable[Any], docids: Iterable[Any]) -> tuple[Floats, Ints]:
        """Return the grades of documents, NaN where there is none, and the numbers of the judgements, else -1."""
        none = _Judgement(np.nan, -1)
        nothing: dict[str, _Judgement] = {}
        found = [self._of.get(qid, nothing).get(docid, none) for qid, docid in zip(qids, docids, strict=True)]
        grades: npt.NDArray[Any] = np.array([one.grade for one in found], dtype=np.float64)
        return grades, np.array([one.number for one in found], dtype=np.int64)

    def weights_of(self, qids: Iterable[Any]) -> Floats:
        """Return the weights of queries, 1 for one that has no judgements."""
        return np.array([self._weights.get(qid, 1.0) for qid in qids], dtype=np.float64)

    def examples(self, most: int = 2) -> str:
        """Return some pairs of query and document, for messages."""
        pairs = ((qid, docid) for qid, of_query in self._of.items() for docid in of_query)
        return ", ".join(f"{qid!r}/{docid!r}" for _, (qid, docid) in zip(range(most), pairs, strict=False))


def two_weights(path: str, line: int, qid: Any, one: float, other: float) -> FormatError:
    """Return the error for a query whose rows do not agree on its weight."""
    return FormatError(path, line, 1, f"query {qid!r} has two weights, {one} and {other}")
