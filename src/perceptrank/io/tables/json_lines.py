"""Tables in lines of JSON, an object each: a document, a hit, or a response of a search engine."""

import json
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from perceptrank.io.errors import FormatError
from perceptrank.io.tables.chunks import Progress, chunks
from perceptrank.io.tables.columns import ROLES, Role, TableColumns, Wanted, find_role, is_kept_apart, missing_column
from perceptrank.io.tables.engine_logs import Document, as_number, documents_of
from perceptrank.io.tables.pairs import VectorColumns
from perceptrank.io.tables.rows import Place, Rows, parse_number
from perceptrank.kernels.arrays import Floats

_SAMPLE = 200
_BATCH_NUMBERS = 2**21


class JsonTable:
    """A table whose rows, or several of them at a time, are lines of JSON.

    Parameters are those of `DelimitedTable`. With `names`, the features are these, as another pass has found them.
    """

    def __init__(
        self, path: str, format: Any, wanted: Wanted, required: set[Role], with_features: bool, dtype: Any
    ) -> None:
        self.path, self._wanted, self._dtype = path, wanted, np.dtype(dtype)
        self._with_features = with_features
        located = list(islice(self._documents(), _SAMPLE))
        sample = [document for _, document in located]
        if not sample:
            raise FormatError(path, 1, 1, "the file has no documents")
        keys = list(dict.fromkeys(name for one in sample for name in one.scalars))
        others = set().union(*(one.others for one in sample))
        self._roles: dict[Role, str | None] = {}
        guessed = []
        for role in ROLES:
            known = [*keys, *others] if wanted.name_of(role) is not None else keys
            self._roles[role], by_name = find_role(path, known, role, wanted, required=role in required)
            guessed += [role] if by_name else []
        self._taken = {name for name in self._roles.values() if name is not None}
        self._texts: set[str] = {name for name in keys if not _is_mostly_numbers(name, sample)}
        self._columns = VectorColumns(wanted.features)
        for line, one in located if with_features else []:
            self._add(line, one)
        features = self._columns.names
        self._known = list(dict.fromkeys([*keys, *(name for one in sample for name in one.features or ())]))
        is_all = len(sample) < _SAMPLE
        if with_features and is_all and wanted.features is not None and (absent := self._columns.absent):
            raise missing_column(path, absent[0], self._known)
        self._columns = VectorColumns(wanted.features)
        ignored = [name for name in keys if name not in self._taken and name not in features] if with_features else []
        self.columns = TableColumns(
            path,
            "jsonl",
            self._roles["qid"],
            self._roles["docid"],
            self._roles["relevance"],
            features,
            tuple(ignored),
            tuple(guessed),
            self._roles["weight"],
        )
        self.knows_names = wanted.features is not None or not with_features

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features that are known."""
        return self._columns.names

    def find_names(self) -> None:
        """Read all rows, for the names of the features."""
        for _ in self.rows():
            pass
        self.knows_names = True

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """Read the rows, a batch at a time."""
        lines: list[int] = []
        documents: list[Document] = []
        width = 0
        for line, document in self._documents(progress):
            lines.append(line)
            documents.append(document)
            if self._with_features:
                self._add(line, document)
                width = len(self._columns.names) if len(documents) % 64 == 0 else width
            if len(documents) * max(width, 16) >= _BATCH_NUMBERS:
                yield self._batch(lines, documents)
                lines, documents = [], []
        if documents:
            yield self._batch(lines, documents)
        if self._wanted.features is not None and self._with_features and (absent := self._columns.absent):
            raise missing_column(self.path, absent[0], self._known)

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Read the queries and the values of a key of all rows."""
        qid, is_there = self._roles["qid"], False
        assert qid is not None
        for line, document in self._documents():
            value = document.get(column)
            is_there |= value is not None
            plain = value if value is None or isinstance(value, (str, int, float)) else json.dumps(value)
            yield self._ids([line], [document], qid).tolist(), [plain]
        if not is_there:
            raise missing_column(self.path, column, self._known)

    def _add(self, line: int, document: Document) -> None:
        try:
            self._columns.add(self._features(document))
        except ValueError as error:
            raise FormatError(self.path, line, 1, str(error)) from None

    def _batch(self, lines: list[int], documents: list[Document]) -> Rows:
        def place(row: int, column: str) -> Place:
            return Place(lines[row], 1, str(_cell(documents[row], column)))

        X, names = self._columns.take(self._dtype) if self._with_features else (None, ())
        grades = self._numbers(lines, documents, "relevance", "a grade")
        weights = self._numbers(lines, documents, "weight", "the weight of a query")
        qid, docid = self._roles["qid"], self._roles["docid"]
        docids = None if docid is None else self._ids(lines, documents, docid)
        assert qid is not None
        return Rows(self.path, self._ids(lines, documents, qid), docids, grades, X, names, place, weights)

    def _ids(self, lines: list[int], documents: list[Document], name: str) -> Any:
        found = np.empty(len(documents), dtype=object)
        for i, document in enumerate(documents):
            value = document.get(name)
            if isinstance(value, bool) or (value is not None and not isinstance(value, (str, int))):
                if not isinstance(value, float) or not math.isfinite(value):
                    problem = f"{name!r} must be a text or a number, got {json.dumps(value)[:80]}"
                    raise FormatError(self.path, lines[i], 1, problem)
                value = int(value) if value.is_integer() else value
            text = None if value is None or value == "" else str(value)
            if text is not None and not text.isascii() and not _is_unicode(text):
                problem = f"{name!r} must be Unicode, got half of a pair of surrogates in {json.dumps(text)[:80]}"
                raise FormatError(self.path, lines[i], 1, problem)
            found[i] = text
        return found

    def _numbers(self, lines: list[int], documents: list[Document], role: Role, what: str) -> Floats | None:
        name = self._roles[role]
        if name is None:
            return None
        numbers = np.empty(len(documents))
        for i, document in enumerate(documents):
            value = document.get(name)
            try:
                numbers[i] = as_number("", value)
            except ValueError:
                problem = f"{what} must be a number (key {name!r}), got {json.dumps(value)[:80]}"
                raise FormatError(self.path, lines[i], 1, problem) from None
        return numbers

    def _features(self, document: Document) -> dict[str, float]:
        if document.features is not None:
            return dict(document.features)
        chosen = self._wanted.features
        return {
            name: as_number(name, value)
            for name, value in document.scalars.items()
            if (name in chosen if chosen is not None else self._is_feature(name, value))
        }

    def _is_feature(self, name: str, value: Any) -> bool:
        if name in self._taken or name in self._texts or is_kept_apart(name):
            return False
        if isinstance(value, str) and not self._columns.knows(name) and not _is_number(value):
            self._texts.add(name)
            return False
        return True

    def _documents(self, progress: Progress | None = None) -> Iterator[tuple[int, Document]]:
        for text, first_line in chunks(self.path, quoted=False, progress=progress):
            for line, one in enumerate(text.split(b"\n"), first_line):
                if not one.strip():
                    continue
                try:
                    for document in documents_of(json.loads(one)):
                        yield line, document
                except json.JSONDecodeError as error:
                    said = f"a line must be an object of JSON: {error.msg}"
                    raise FormatError(self.path, line, error.colno, said) from None
                except UnicodeDecodeError as error:
                    problem = f"text must be UTF-8, got {one[error.start : error.start + 8]!r}"
                    raise FormatError(self.path, line, error.start + 1, problem) from None
                except RecursionError:
                    raise FormatError(self.path, line, 1, "a line is nested too deeply") from None
                except ValueError as error:
                    raise FormatError(self.path, line, 1, str(error)) from None


def _cell(document: Document, column: str) -> Any:
    value = document.get(column)
    return (document.features or {}).get(column) if value is None else value


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def _is_unicode(text: str) -> bool:
    """Tell texts from those with half of a pair of surrogates, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_mostly_numbers(name: str, sample: list[Document]) -> bool:
    """Tell numbers from text, so that a text among numbers is an error."""
    values = [value for one in sample if (value := one.scalars.get(name)) is not None]
    return 2 * sum(not isinstance(value, str) or _is_number(value) for value in values) >= len(values)
