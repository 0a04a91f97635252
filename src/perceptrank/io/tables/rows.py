"""Rows of tables as arrays, and the numbers in their cells."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import Piece
from perceptrank.io.errors import FormatError
from perceptrank.kernels.arrays import Features
from perceptrank.stream.columns import Column, Values
from perceptrank.stream.memory import free_memory

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

    `place` finds a cell by row and column name. `qids` are text, or None. In `columns`, those of a stream that the
    table has, "" and NaN are missing values; so is NaN in `X`.
    """

    path: str
    place: Callable[[int, str], Place]
    qids: npt.NDArray[Any]
    columns: dict[str, Any]
    X: Features
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.qids)

    def line(self, row: int) -> int:
        """Return the line of a row, for messages."""
        return self.place(row, "").line

    def error(self, row: int, column: str, problem: str) -> FormatError:
        """Return the error about a cell."""
        line, number, text = self.place(row, column)
        return FormatError(self.path, line, number, f"{problem}, got {text[:80]!r}")

    def require(self, are_valid: npt.NDArray[np.bool_], column: str, rule: str) -> None:
        """Raise the error about the first row whose cell is not valid, if there is one."""
        if not are_valid.all():
            raise self.error(int(np.argmin(are_valid)), column, f"{rule} (column {column!r})")

    def take(self, kept: slice | npt.NDArray[Any]) -> "Rows":
        """Return some of the rows, which know their places."""
        index = np.arange(len(self))[kept]
        if len(index) == len(self):
            return self
        return replace(
            self,
            place=lambda row, column: self.place(int(index[row]), column),
            qids=self.qids[kept],
            columns={name: values[kept] for name, values in self.columns.items()},
            X=self.X[kept],
        )

    def starts(self) -> npt.NDArray[np.intp]:
        """Return the rows where the query is another one than in the row before."""
        return np.concatenate([[0], np.flatnonzero(self.qids[1:] != self.qids[:-1]) + 1])

    def piece(self) -> Piece:
        """Return the rows as a piece of a stream."""
        starts = self.starts()
        return Piece(self.X, starts.tolist(), self.qids[starts].tolist(), self.columns)


def align(rows: Rows, names: tuple[str, ...], missing: str) -> Rows:
    """Return rows with the features of all names, in their order; those that rows lack are missing."""
    if rows.names == names:
        return rows
    absent = [name for name in names if name not in set(rows.names)]
    if absent and missing == "error":
        raise absent_feature(rows, 0, absent[0])
    n_bytes = len(rows) * len(names) * rows.X.itemsize
    if n_bytes > free_memory():
        raise MemoryError(f"there is no memory for {n_bytes / 1e9:.1f} GB of features")
    X: Features = np.full((len(rows), len(names)), 0.0 if missing == "zero" else np.nan, rows.X.dtype)
    index = {name: j for j, name in enumerate(names)}
    X[:, [index[name] for name in rows.names]] = rows.X
    return replace(rows, X=X, names=names)


def parse_number(text: str) -> float:
    """Return the number that a text is, NaN for a word for a missing value; raise `ValueError` for anything else.

    Examples
    --------
    >>> parse_number(" 0.5"), parse_number("TRUE"), parse_number("N/A"), parse_number("1e3")
    (0.5, 1.0, nan, 1000.0)
    """
    word = text.strip()
    if not word:
        return math.nan
    if word.isascii() and "_" not in word:  # others too are numbers to Python
        with suppress(ValueError):
            return float(word)
    lower = word.lower()
    if lower in MISSING_WORDS:
        return math.nan
    if lower in TRUTHS:
        return TRUTHS[lower]
    raise ValueError(f"not a number: {text!r}")


def is_number(text: str) -> bool:
    """Tell if a text is a number, or a word for a missing value."""
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def convert_column(rows: Rows, column: Column, name: str) -> Values:
    """Return the values of a declared column in its type; raise for the first that is invalid, with its place."""
    values = rows.columns[column.name]
    try:
        return column.convert(values, len(rows), "document")
    except ValueError as error:
        for row in range(len(rows)):
            try:
                column.convert(values[row : row + 1], 1, "document")
            except ValueError:
                problem = str(error).rpartition(", got")[0] or str(error)
                raise rows.error(row, name, f"{problem} (column {name!r})") from None
        raise


def check_features(rows: Rows, missing: str) -> Rows:
    """Return rows whose missing features are as the caller wants them; raise for infinite ones."""
    X = rows.X
    if np.isfinite(X.max(initial=0)) and np.isfinite(X.min(initial=0)):
        return rows
    wrong = np.isinf(X)
    if wrong.any():
        row, j = np.argwhere(wrong)[0].tolist()
        larger = "" if X.dtype == np.float64 else " (`dtype='float64'` has more range)"
        rule = f"a feature must be finite and fit into {X.dtype} (column {rows.names[j]!r})"
        raise rows.error(row, rows.names[j], rule + larger)
    if missing == "zero":
        return replace(rows, X=np.where(np.isnan(X), X.dtype.type(0), X))
    if missing == "error":
        row, j = np.argwhere(np.isnan(X))[0].tolist()
        raise absent_feature(rows, row, rows.names[j])
    return rows


def absent_feature(rows: Rows, row: int, name: str) -> FormatError:
    """Return the error for a feature that a row does not have."""
    line, column, _ = rows.place(row, name)
    ways = "`missing='zero'` takes it for 0, `missing='keep'` for NaN"
    return FormatError(rows.path, line, column, f"feature {name!r} is missing; {ways}")
