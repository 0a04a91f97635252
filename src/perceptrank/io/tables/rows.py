"""Rows of tables as arrays, and the numbers in their cells."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.texts import Texts

# What other programs write where a number is missing, without case.
MISSING_WORDS = frozenset(("", "na", "n/a", "nan", "null", "none", "nil", "-", "?"))
TRUTHS = {"true": 1.0, "false": 0.0}


class Place(NamedTuple):
    """Position of a value: its line and column, both from 1, and its text."""

    line: int
    column: int
    text: str


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a table.

    Attributes
    ----------
    qids : array of object
        Text, or None where there is none.
    docids : array of object, or Texts or None
        Text, and None or "" where there is none; None if the table has no documents' ids.
    grades : array of float64 or None
        NaN where there is none.
    X : matrix or None
        Features, NaN where there is none.
    names : tuple of str
        Names of the features.
    place : callable
        Finds a cell by row and column; the name of the column is that of a feature or a role's.
    weights : array of float64 or None
        Weights of the rows' queries, NaN where there is none.
    """

    path: str
    qids: npt.NDArray[Any]
    docids: npt.NDArray[Any] | Texts | None
    grades: Floats | None
    X: Features | None
    names: tuple[str, ...]
    place: Callable[[int, str], Place]
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.qids)

    def line(self, row: int) -> int:
        """Return the line of a row, for messages."""
        return self.place(row, "").line

    def error(self, row: int, column: str, problem: str) -> FormatError:
        """Return the error about a cell."""
        place = self.place(row, column)
        return FormatError(self.path, place.line, place.column, f"{problem}, got {place.text[:80]!r}")


def parse_number(text: str) -> float:
    """Return the number that a text is, NaN for one that says there is none; raise `ValueError` for anything else.

    Examples
    --------
    >>> parse_number(" 0.5"), parse_number("TRUE"), parse_number("N/A"), parse_number("1e3")
    (0.5, 1.0, nan, 1000.0)
    """
    word = text.strip()
    lower = word.lower()
    if lower in MISSING_WORDS:
        return math.nan
    if lower in TRUTHS:
        return TRUTHS[lower]
    if "_" in word or not word.isascii():  # which Python takes for numbers, and others do not
        raise ValueError(f"not a number: {text!r}")
    return float(word)


def check_grades(rows: Rows, column: str) -> None:
    """Raise unless all grades that there are, are finite and not negative."""
    if rows.grades is None:
        return
    wrong = (rows.grades < 0) | np.isinf(rows.grades)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise rows.error(row, column, f"a grade must be a number >= 0 (column {column!r})")


def check_weights(rows: Rows, column: str) -> None:
    """Raise unless every row has the weight of its query, finite and not negative."""
    if rows.weights is None:
        return
    wrong = ~((rows.weights >= 0) & (rows.weights < np.inf))
    if wrong.any():
        raise wrong_weight(rows, int(np.argmax(wrong)), column)


def wrong_weight(rows: Rows, row: int, column: str) -> FormatError:
    """Return the error for a weight that is none."""
    return rows.error(row, column, f"the weight of a query must be a finite number >= 0 (column {column!r})")


def check_features(rows: Rows, missing: str) -> Features:
    """Return the features of rows, with those that are missing as the caller wants them; raise for others."""
    X = rows.X
    assert X is not None
    if np.isfinite(X.max(initial=0)) and np.isfinite(X.min(initial=0)):
        return X
    wrong = np.isinf(X)
    if wrong.any():
        row, j = np.argwhere(wrong)[0].tolist()
        larger = "" if X.dtype == np.float64 else " (`dtype='float64'` has more range)"
        rule = f"a feature must be finite and fit into {X.dtype} (column {rows.names[j]!r})"
        raise rows.error(row, rows.names[j], rule + larger)
    if missing == "zero":
        return np.where(np.isnan(X), X.dtype.type(0), X)
    if missing == "error":
        row, j = np.argwhere(np.isnan(X))[0].tolist()
        name = rows.names[j]
        line, column, _ = rows.place(row, name)
        raise FormatError(rows.path, line, column, absent_feature(name))
    return X


def absent_feature(name: str) -> str:
    """Return the message for a feature that a row does not have."""
    return f"feature {name!r} is missing; `missing='zero'` takes it for 0, `missing='keep'` for NaN"
