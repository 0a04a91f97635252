"""Tables whose rows are documents that name their values: lines of JSON, TREC files, CSV with vectors of features."""

import json
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.io.tables.chunks import Progress
from perceptrank.io.tables.columns import (
    Format,
    Role,
    TableColumns,
    Wanted,
    column_of,
    describe_role,
    find_roles,
    holds_texts,
    is_kept_apart,
    missing_column,
)
from perceptrank.io.tables.documents import Document, as_number
from perceptrank.io.tables.rows import Place, Rows, is_number
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.memory import free_memory
from perceptrank.stream.texts import Texts

Read = Callable[[Progress | None], Iterator[tuple[int, Document]]]

MOST_NAMES = 100_000
_SAMPLE = 200
_BATCH_NUMBERS = 2**21


class DocumentTable:
    """A table of documents that need not all have the same features.

    Parameters
    ----------
    path : str
    format : Format
    wanted : Wanted
    required : set of str
        Roles that must have a column.
    with_features : bool
        Read features.
    dtype : numpy.dtype
    read : callable
        Reads the documents, each with its line; takes a callable for the progress, or None.

    Attributes
    ----------
    columns : TableColumns
    knows_names : bool
        False until all rows are read, unless the names of the features are given.
    """

    def __init__(
        self,
        path: str,
        format: Format,
        wanted: Wanted,
        required: set[Role],
        with_features: bool,
        dtype: npt.DTypeLike,
        read: Read,
    ) -> None:
        self.path, self._wanted, self._dtype, self._read = path, wanted, np.dtype(dtype), read
        self._with_features = with_features
        sample = list(islice(read(None), _SAMPLE))
        if not sample:
            raise FormatError(path, 1, 1, "the file has no documents")
        documents = [document for _, document in sample]
        keys = list(dict.fromkeys(name for document in documents for name in document.scalars))
        others = set().union(*(document.others for document in documents))
        self._roles, guessed = find_roles(path, keys, wanted, required, others)
        self._taken = set(self._roles.values())
        self._texts = {name for name in keys if not _holds_numbers(name, documents)}
        self._vectors = _Vectors(wanted.features)
        self._known = list(dict.fromkeys([*keys, *(name for one in documents for name in one.features or ())]))
        for line, document in sample if with_features else []:
            self._add(line, document)
        features = self._vectors.names
        if len(sample) < _SAMPLE:
            self._check_names()
        self._vectors = _Vectors(wanted.features)
        ignored = [name for name in keys if name not in self._taken and name not in features] if with_features else []
        self.columns = TableColumns(path, format, self._roles, features, tuple(ignored), guessed)
        self.knows_names = wanted.features is not None or not with_features

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features that are known."""
        return self._vectors.names

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
        for line, document in self._read(progress):
            lines.append(line)
            documents.append(document)
            if self._with_features:
                self._add(line, document)
                width = len(self.names) if len(documents) % 64 == 0 else width
            if len(documents) * max(width, 16) >= _BATCH_NUMBERS:
                yield self._batch(lines, documents)
                lines, documents = [], []
        if documents:
            yield self._batch(lines, documents)
        self._check_names()

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Read the queries and the values of a key of all rows."""
        is_there = False
        for line, document in self._read(None):
            value = document.get(column)
            is_there |= value is not None
            plain = value if value is None or isinstance(value, (str, int, float)) else json.dumps(value)
            yield self._ids([line], [document], "qid").tolist(), [plain]
        if not is_there:
            raise missing_column(self.path, column, self._known)

    def _check_names(self) -> None:
        """Raise if no document has had one of the features that the caller names."""
        if self._with_features and self._wanted.features is not None and (absent := self._vectors.absent):
            raise missing_column(self.path, absent[0], self._known)

    def _add(self, line: int, document: Document) -> None:
        try:
            self._vectors.add(self._features(document))
        except ValueError as error:
            raise FormatError(self.path, line, 1, str(error)) from None

    def _batch(self, lines: list[int], documents: list[Document]) -> Rows:
        def place(row: int, column: str) -> Place:
            value = documents[row].get(column)
            value = (documents[row].features or {}).get(column) if value is None else value
            return Place(lines[row], 1, str(value))

        X: Features = np.empty((len(lines), 0), self._dtype)
        names: tuple[str, ...] = ()
        if self._with_features:
            X, names = self._vectors.take(self._dtype)
        columns: dict[str, Any] = {}
        for role in self._roles.keys() - {"qid"}:
            if holds_texts(role):
                values: Any = Texts(text or "" for text in self._ids(lines, documents, role))
            else:
                values = self._numbers(lines, documents, role)
            columns[column_of(role).name] = values
        return Rows(self.path, place, self._ids(lines, documents, "qid"), columns, X, names)

    def _ids(self, lines: list[int], documents: list[Document], role: Role) -> npt.NDArray[Any]:
        name = self._roles[role]
        ids = np.empty(len(documents), dtype=object)
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
            ids[i] = text
        return ids

    def _numbers(self, lines: list[int], documents: list[Document], role: Role) -> Floats:
        name = self._roles[role]
        numbers = np.empty(len(documents))
        for i, document in enumerate(documents):
            value = document.get(name)
            try:
                numbers[i] = as_number("", value)
            except ValueError:
                problem = f"{describe_role(role)} must be a number (column {name!r}), got {json.dumps(value)[:80]}"
                raise FormatError(self.path, lines[i], 1, problem) from None
        return numbers

    def _features(self, document: Document) -> dict[str, float]:
        if document.features is not None:
            return dict(document.features)
        wanted = self._wanted.features
        return {
            name: as_number(name, value)
            for name, value in document.scalars.items()
            if (name in wanted if wanted is not None else self._is_feature(name, value))
        }

    def _is_feature(self, name: str, value: Any) -> bool:
        if name in self._taken or name in self._texts or is_kept_apart(name):
            return False
        if isinstance(value, str) and name not in self._vectors.index and not is_number(value):
            self._texts.add(name)
            return False
        return True


class _Vectors:
    """Collects rows of features by name; the names are the union, in the order of their first appearance.

    `wanted` are the only names to keep, if it is given.
    """

    def __init__(self, wanted: tuple[str, ...] | None) -> None:
        self._is_fixed = wanted is not None
        self.index = {name: j for j, name in enumerate(wanted or ())}
        self._seen: set[str] = set()
        self._columns: list[int] = []
        self._values: list[float] = []
        self._ends: list[int] = []

    @property
    def names(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self.index)

    @property
    def absent(self) -> list[str]:
        """Names that no row has had."""
        return [name for name in self.index if name not in self._seen]

    def add(self, features: dict[str, float]) -> None:
        """Add a row."""
        for name, value in features.items():
            j = self.index.get(name)
            if j is None:
                if self._is_fixed:
                    continue
                if len(self.index) >= MOST_NAMES:
                    raise ValueError(
                        f"there are more than {MOST_NAMES} names of features: are these names of documents?"
                    )
                j = self.index[name] = len(self.index)
            self._seen.add(name)
            self._columns.append(j)
            self._values.append(value)
        self._ends.append(len(self._columns))

    def take(self, dtype: np.dtype[Any]) -> tuple[Features, tuple[str, ...]]:
        """Return the rows since the last call as a matrix with NaN where a row has no value, and its names."""
        n_rows, width = len(self._ends), len(self.index)
        n_bytes = n_rows * width * dtype.itemsize
        if n_bytes > free_memory():
            raise MemoryError(f"{n_rows} rows of {width} features take {n_bytes / 1e9:.1f} GB, more than is available")
        X: Features = np.full((n_rows, width), np.nan, dtype)
        rows = np.repeat(np.arange(n_rows), np.diff([0, *self._ends]))
        with np.errstate(over="ignore"):  # a value too large for float32 is infinite, which is an error of its row
            X[rows, self._columns] = np.array(self._values)
        self._columns, self._values, self._ends = [], [], []
        return X, self.names


def _is_unicode(text: str) -> bool:
    """Tell texts from those with half of a pair of surrogates, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_numbers(name: str, sample: list[Document]) -> bool:
    """Tell numbers from text: most values are numbers, so that one that is not is an error."""
    values = [value for document in sample if (value := document.scalars.get(name)) is not None]
    return 2 * sum(not isinstance(value, str) or is_number(value) for value in values) >= len(values)
