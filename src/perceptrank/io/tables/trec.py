"""Files of TREC: judgements (qrels) and ranked lists (runs), whose columns are known."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.tables.chunks import Progress, chunks
from perceptrank.io.tables.columns import Format, Role, TableColumns, Wanted, missing_column
from perceptrank.io.tables.rows import Place, Rows, parse_number

_QRELS, _RUN = 4, 6
_FEATURES = ("score", "rank")
_SHAPES = {
    "qrels": (_QRELS, "query, iteration, document and grade"),
    "run": (_RUN, "query, Q0, document, rank, score and tag"),
}


class TrecTable:
    """Judgements, ``query 0 document grade``, or a run, ``query Q0 document rank score tag``.

    The features of a run are ``score`` and ``rank``. Grades below 0, which mark documents as junk or not judged, count
    as 0, as in trec_eval.
    """

    knows_names = True

    def __init__(
        self, path: str, format: Format, wanted: Wanted, required: set[Role], with_features: bool, dtype: Any
    ) -> None:
        self.path, self._dtype = path, np.dtype(dtype)
        self._n_words, self._shape = _SHAPES[format]
        self._has_grades = format == "qrels"
        if "relevance" in required and not self._has_grades:
            raise FileFormatError(path, " is a run, which has no grades: name the qrels first, and the run as features")
        if with_features and self._has_grades:
            raise FileFormatError(path, " has judgements, no features: name the file that has them too")
        names: tuple[str, ...] = _FEATURES if with_features else ()
        if with_features and wanted.features is not None:
            for name in wanted.features:
                if name not in _FEATURES:
                    raise missing_column(path, name, _FEATURES)
            names = wanted.features
        self.names = names
        self.columns = TableColumns(path, format, "query", "document", "grade" if self._has_grades else None, names)

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """Read the rows, chunk by chunk."""
        for text, first_line in chunks(self.path, quoted=False, progress=progress):
            lines: list[int] = []
            cells: list[list[bytes]] = []
            for line, words in enumerate(map(bytes.split, text.split(b"\n")), first_line):
                if not words:
                    continue
                if len(words) != self._n_words:
                    problem = f"a line must have {self._shape}, {self._n_words} words, got {len(words)}"
                    raise FormatError(self.path, line, 1, problem)
                lines.append(line)
                cells.append(words)
            if cells:
                yield self._rows(lines, cells)

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Raise, for these files have no columns but their own."""
        raise missing_column(
            self.path, column, ["query", "document", *(_FEATURES if not self._has_grades else ["grade"])]
        )

    def _rows(self, lines: list[int], cells: list[list[bytes]]) -> Rows:
        def place(row: int, column: str) -> Place:
            j = {"rank": 3, "score": 4, "grade": 3}.get(column, 0)
            return Place(lines[row], j + 1, cells[row][j].decode(errors="replace"))

        grades = None
        X = None
        if self._has_grades:
            grades = np.maximum(self._numbers(lines, cells, 3, "a grade"), 0.0)
        if self.names:
            with np.errstate(over="ignore"):
                values = [
                    self._numbers(lines, cells, 4 if name == "score" else 3, f"a {name}").astype(self._dtype)
                    for name in self.names
                ]
            X = np.ascontiguousarray(np.stack(values, axis=1))
        qids, docids = (self._texts(lines, cells, j) for j in (0, 2))
        return Rows(self.path, qids, docids, grades, X, self.names, place)

    def _texts(self, lines: list[int], cells: list[list[bytes]], j: int) -> Any:
        try:
            return np.array([words[j].decode() for words in cells], dtype=object)
        except UnicodeDecodeError:
            row = next(i for i, words in enumerate(cells) if not _is_text(words[j]))
            raise FormatError(self.path, lines[row], j + 1, f"text must be UTF-8, got {cells[row][j][:40]!r}") from None

    def _numbers(self, lines: list[int], cells: list[list[bytes]], j: int, what: str) -> Any:
        numbers = np.empty(len(cells))
        for row, words in enumerate(cells):
            word = words[j].decode(errors="replace")
            try:
                numbers[row] = parse_number(word)
            except ValueError:
                numbers[row] = np.nan
            if np.isnan(numbers[row]):
                raise FormatError(self.path, lines[row], j + 1, f"{what} must be a number, got {word[:80]!r}")
        return numbers


def _is_text(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True
