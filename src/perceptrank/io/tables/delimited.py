"""Tables with a delimiter, CSV and TSV, parsed chunk by chunk: by polars if it is installed, else by the module csv.

Chunks bound the memory, and tell which line is wrong: what polars refuses is parsed once more, as text.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.letor.filling import Pool, in_order
from perceptrank.io.tables.chunks import CHUNK_BYTES, QUOTES, Chunk, Progress, read_chunks, read_head
from perceptrank.io.tables.columns import (
    Format,
    TableColumns,
    Wanted,
    column_of,
    describe_role,
    find_roles,
    holds_texts,
    is_kept_apart,
    missing_column,
)
from perceptrank.io.tables.document_table import FEATURE_LISTS, Document, DocumentTable, parse_pairs
from perceptrank.io.tables.rows import MISSING_WORDS, TRUTHS, Place, Rows, is_number, parse_number
from perceptrank.stream.texts import Texts

_DELIMITERS = ",;\t|"
_SAMPLE = 200
_THREADS = 2


class DelimitedTable:
    """A table whose cells are separated by a delimiter.

    TSV has no quotes; the delimiter of CSV is a comma, a semicolon, a tab or ``|``, as the header has it.
    """

    knows_names = True

    def __init__(self, path: str, format: Format, wanted: Wanted) -> None:
        self.path, self._wanted, self._quoted = path, wanted, format == "csv"
        self._read_header()
        self._roles, guessed = find_roles(path, self.header, wanted)
        self.names: tuple[str, ...] = self._choose_features() if wanted.with_features else ()
        others = [name for name in self.header if name not in (*self._roles.values(), *self.names)]
        self.columns = TableColumns(path, format, self._roles, self.names, tuple(others), guessed)
        self.unused = dict.fromkeys(others, 0)

    def _read_header(self) -> None:
        """Read the names of the columns and the first rows; find the delimiter."""
        path, quoted = self.path, self._quoted
        head = read_head(path, quoted=quoted)
        if not head.strip():
            raise FormatError(path, 1, 1, "the file is empty")
        end = head.find(b"\n") + 1
        while quoted and head.count(b'"', 0, end) % 2:
            end = head.find(b"\n", end) + 1
        first = self._decode(head[:end], 1)
        unquoted = "".join(first.split('"')[::2])  # a name may have delimiters
        self.delimiter = max(_DELIMITERS, key=unquoted.count) if quoted else "\t"
        self.header = [name.strip() for name in next(self._records(Chunk(head[:end], 1)))[1]]
        self._length, self._n_lines = end, head.count(b"\n", 0, end)
        shown = repr(first[:80].strip())
        if len(self.header) < 2:
            raise FormatError(path, 1, 1, f"a header must name two columns or more, got {shown}")
        if twice := sorted(name for name, n in Counter(self.header).items() if n > 1):
            raise FormatError(path, 1, self.header.index(twice[0]) + 1, f"two columns are called {twice[0]!r}")
        if all(map(is_number, self.header)):
            raise FormatError(path, 1, 1, f"the first line must name the columns, got {shown}")
        rows = self._records(Chunk(head[end:], 1 + self._n_lines))
        self._sample = [cells for _, cells in islice(rows, _SAMPLE)]

    def _choose_features(self) -> tuple[str, ...]:
        names, wanted = self.header, self._wanted
        if wanted.features is not None:
            for name in wanted.features:
                if name not in names:
                    raise missing_column(self.path, name, names)
            return wanted.features
        others = [name for name in names if name and name not in self._roles.values()]
        vectors = (name for name in others if name.lower() in FEATURE_LISTS and self.has_vectors(name))
        if vector := next(vectors, None):
            return (vector,)
        return tuple(name for name in others if not is_kept_apart(name, wanted) and self._has_numbers(name))

    def _has_numbers(self, name: str) -> bool:
        """Tell numbers from text: most values are numbers, so that one that is not is an error."""
        values = self._sample_of(name)
        return 2 * sum(map(is_number, values)) >= len(values)

    def has_vectors(self, name: str) -> bool:
        """Tell if a column has texts with names and values of features."""
        values = self._sample_of(name)
        return bool(values) and all("=" in value or ":" in value for value in values)

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """Read the rows, chunk by chunk; while one is used, the next ones are parsed."""
        n_threads = 1 if os.path.getsize(self.path) < CHUNK_BYTES else _THREADS
        with Pool(n_threads, 0) as pool:
            for _, rows in in_order(pool, self._chunks(progress), self._parse, lambda chunk: len(chunk.text)):
                yield rows

    def documents(self, progress: Progress | None = None) -> Iterator[tuple[int, Document]]:
        """Read the rows as documents whose features are named in a column of vectors."""
        (vector,) = self.names
        names = self.header
        for chunk in self._chunks(progress):
            for line, cells in islice(self._records(chunk), 1, None):
                if len(cells) > len(names):
                    raise self._too_long(line, cells)
                row = dict(zip(names, cells, strict=False))
                try:
                    features = parse_pairs(row.pop(vector, ""))
                except ValueError as error:
                    column = names.index(vector) + 1
                    raise FormatError(self.path, line, column, f"{error} (column {vector!r})") from None
                yield line, Document(row, features, {}, {} if vector.lower() == FEATURE_LISTS[0] else row)

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Read the queries and the texts of a column of all rows."""
        if column not in self.header:
            raise missing_column(self.path, column, self.header)
        qid = self._roles["qid"]
        for chunk in self._chunks(None):
            if not has_polars():
                cells = self._cells(chunk, [qid, column])
                yield cells[qid], cells[column]
                continue
            frame = self._parse_texts(chunk, dict.fromkeys([qid, column], import_polars().String))
            yield frame[qid].to_list(), frame[column].to_list()

    def records(self) -> Iterator[tuple[str | None, list[str]]]:
        """Yield the header and all rows that are not blank, each with its query; the header has none."""
        yield None, self.header
        j = self.header.index(self._roles["qid"])
        for chunk in self._chunks(None):
            yield from ((cells[j], cells) for _, cells in islice(self._records(chunk), 1, None) if cells)

    def texts(self, names: list[str], progress: Progress | None = None) -> Iterator[Any]:
        """Read columns as data frames of texts."""
        for chunk in self._chunks(progress):
            self._check_quotes(chunk)
            yield self._parse_texts(chunk, dict.fromkeys(names, import_polars().String))

    def _parse(self, chunk: Chunk) -> Rows:
        self._check_quotes(chunk)
        texts = {role: name for role, name in self._roles.items() if holds_texts(role)}
        numbers = {role: name for role, name in self._roles.items() if role not in texts}

        def place(row: int, column: str) -> Place:
            return self._place(chunk, row, column)

        if not has_polars():
            return self._parse_cells(chunk, texts, numbers, place)
        pl = import_polars()
        number = pl.Float32 if self._wanted.dtype == np.float32 else pl.Float64
        types = dict.fromkeys(texts.values(), pl.String) | dict.fromkeys(numbers.values(), pl.Float64)
        types |= dict.fromkeys(self.names, number)
        try:
            frame = self._read_csv(chunk, types)
        except (pl.exceptions.PolarsError, OverflowError):
            frame = self._parse_texts(chunk, types)
        qids = frame[texts.pop("qid")].to_numpy() if "qid" in texts else np.full(len(frame), None)
        columns: dict[str, Any] = {column_of(role).name: as_texts(frame[name]) for role, name in texts.items()}
        for role, name in numbers.items():
            columns[column_of(role).name] = np.array(frame[name].to_numpy(), dtype=np.float64)
        X = np.empty((len(qids), 0), self._wanted.dtype)
        if self.names:
            X = np.ascontiguousarray(frame[list(self.names)].to_numpy(order="c"), dtype=self._wanted.dtype)
        return Rows(self.path, place, qids, columns, X, self.names)

    def _parse_cells(
        self, chunk: Chunk, texts: dict[str, str], numbers: dict[str, str], place: Callable[[int, str], Place]
    ) -> Rows:
        """Parse a chunk without polars."""
        cells = self._cells(chunk, [*texts.values(), *numbers.values(), *self.names])
        columns: dict[str, Any] = {}
        for role, name in texts.items():
            if role != "qid":
                columns[column_of(role).name] = Texts([text or "" for text in cells[name]])
        for role, name in numbers.items():
            columns[column_of(role).name] = self._numbers(chunk, name, cells[name], np.float64)
        first = next(iter(cells.values()))
        qids = np.array(cells[texts["qid"]] if "qid" in texts else [None] * len(first), dtype=object)
        X = np.empty((len(first), len(self.names)), self._wanted.dtype)
        for j, name in enumerate(self.names):
            X[:, j] = self._numbers(chunk, name, cells[name], self._wanted.dtype)
        return Rows(self.path, place, qids, columns, X, self.names)

    def _cells(self, chunk: Chunk, names: list[str]) -> dict[str, list[str | None]]:
        """Return the texts of columns without polars, None where there are none."""
        records = list(islice(self._records(chunk), 1, None))
        for line, cells in records:
            if len(cells) > len(self.header):
                raise self._too_long(line, cells)
        places = {name: self.header.index(name) for name in names}
        return {
            name: [(cells[j] if j < len(cells) else "") or None for _, cells in records] for name, j in places.items()
        }

    def _numbers(self, chunk: Chunk, name: str, texts: list[str | None], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return texts as numbers without polars."""
        values = np.empty(len(texts))
        for row, text in enumerate(texts):
            try:
                values[row] = parse_number(text or "")
            except ValueError:
                raise self._no_number(chunk, row, name) from None
        with np.errstate(over="ignore"):
            return values.astype(dtype)

    def _no_number(self, chunk: Chunk, row: int, name: str) -> FormatError:
        place = self._place(chunk, row, name)
        kinds = {column: describe_role(role) for role, column in self._roles.items()}
        rule = f"{kinds.get(name, 'a feature')} must be a number (column {name!r})"
        return FormatError(self.path, place.line, place.column, f"{rule}, got {place.text[:80]!r}")

    def _read_csv(self, chunk: Chunk, types: dict[str, Any]) -> Any:
        """Parse a chunk, whose header numbers the columns; those that are not used are skipped."""
        pl = import_polars()
        names = self.header
        frame = pl.read_csv(
            chunk.text,
            schema={str(j): types.get(name, pl.String) for j, name in enumerate(names)},
            columns=[str(j) for j, name in enumerate(names) if name in types],
            separator=self.delimiter,
            quote_char='"' if self._quoted else None,
        )
        frame.columns = [names[int(number)] for number in frame.columns]
        return frame

    def _parse_texts(self, chunk: Chunk, types: dict[str, Any]) -> Any:
        """Parse a chunk that has more than numbers: spaces, words for missing values, truths, or errors."""
        pl = import_polars()
        try:
            frame = self._read_csv(chunk, dict.fromkeys(types, pl.String))
        except (pl.exceptions.PolarsError, OverflowError) as error:
            raise self._malformed(chunk, error) from None
        for name, kind in types.items():
            if kind == pl.String:
                continue
            numbers, wrong = parse_words(frame[name], kind)
            if wrong.any():
                raise self._no_number(chunk, cast(int, wrong.arg_max()), name)
            frame = frame.with_columns(numbers.alias(name))
        return frame

    def _sample_of(self, name: str) -> list[str]:
        """Return the first values of a column, without those that are missing."""
        j = self.header.index(name)
        return [cells[j] for cells in self._sample if len(cells) > j and cells[j].strip().lower() not in MISSING_WORDS]

    def _chunks(self, progress: Progress | None) -> Iterator[Chunk]:
        """Read chunks, each with a header of its own that numbers the columns, on the line before the first row."""
        numbered = self.delimiter.join(map(str, range(len(self.header)))).encode() + b"\n"
        for text, line in read_chunks(self.path, quoted=self._quoted, prefix=numbered, progress=progress):
            if line > 1:
                yield Chunk(text, line - 1)
            elif rows := text[len(numbered) + self._length :]:
                yield Chunk(numbered + rows, self._n_lines)

    def _records(self, chunk: Chunk) -> Iterator[tuple[int, list[str]]]:
        """Parse records as text, each with the line that it begins on."""
        text = self._decode(chunk.text, chunk.line)
        csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
        quoting: Any = csv.QUOTE_MINIMAL if self._quoted else csv.QUOTE_NONE
        reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=self.delimiter, quoting=quoting)
        line = chunk.line
        try:
            for cells in reader:
                yield line, cells
                line = chunk.line + reader.line_num
        except csv.Error as error:
            problem = str(error).split(" - ")[0]
            raise FormatError(self.path, line, 1, f"cells must be as CSV has them: {problem}") from None

    def _place(self, chunk: Chunk, row: int, column: str) -> Place:
        """Find a cell; blank lines are rows to polars, and to the module csv."""
        j = self.header.index(column) if column in self.header else 0
        line, cells = next(islice(self._records(chunk), row + 1, None), (chunk.line, []))  # after the header
        return Place(line, j + 1, cells[j] if j < len(cells) else "")

    def _check_quotes(self, chunk: Chunk) -> None:
        """Raise if a quote within a cell, as in 5" tv, would make one row of several lines: polars pairs all quotes."""
        if not self._quoted or b'"' not in chunk.text:
            return
        text = np.frombuffer(chunk.text, np.uint8)
        opening, closing = np.flatnonzero(text == ord('"')).reshape(-1, 2).T
        before = np.frombuffer(b'\n"' + self.delimiter.encode(), np.uint8)  # a doubled quote has another before it
        for pair in np.flatnonzero((opening > 0) & ~np.isin(text[opening - 1], before)).tolist():
            if b"\n" in chunk.text[opening[pair] : closing[pair]]:
                line = chunk.line + chunk.text.count(b"\n", 0, opening[pair])
                raise FormatError(self.path, line, 1, QUOTES)

    def _malformed(self, chunk: Chunk, error: Exception) -> FormatError:
        """Return the error for a chunk that polars refuses to read, with the line if it can be found."""
        for line, cells in self._records(chunk):
            if len(cells) > len(self.header):
                return self._too_long(line, cells)
        reason = str(error).split("\n")[0][:200]
        return FileFormatError(self.path, f", lines from {chunk.line + 1} on: {reason}")

    def _too_long(self, line: int, cells: list[str]) -> FormatError:
        n_names = len(self.header)
        problem = f"a row must have {n_names} cells, as the header has, got {len(cells)}"
        return FormatError(self.path, line, n_names + 1, problem)

    def _decode(self, text: bytes, line: int) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            line += text.count(b"\n", 0, error.start)
            column = error.start - text.rfind(b"\n", 0, error.start)
            problem = f"text must be UTF-8, got {text[error.start : error.start + 8]!r}"
            raise FormatError(self.path, line, column, problem) from None


def open_delimited(path: str, format: Format, wanted: Wanted) -> DelimitedTable | DocumentTable:
    """Open a table with a delimiter; one whose only feature is a column of vectors is a table of documents."""
    table = DelimitedTable(path, format, wanted)
    if len(table.names) != 1 or not table.has_vectors(table.names[0]):
        return table
    return DocumentTable(path, format, wanted._replace(features=None), table.documents)


def parse_words(texts: Any, kind: Any) -> tuple[Any, Any]:
    """Return texts as numbers, null or NaN where they are missing, and which are neither numbers nor truths."""
    words = texts.str.strip_chars().str.to_lowercase()
    truths = words.replace_strict(TRUTHS, default=None, return_dtype=kind)
    numbers = words.cast(kind, strict=False)
    numbers = numbers.zip_with(truths.is_null(), truths)
    return numbers, numbers.is_null() & words.is_not_null() & ~words.is_in(list(MISSING_WORDS))


def as_texts(column: Any) -> Texts:
    """Return a column of text, "" where there is none, without an object for each."""
    filled = column.fill_null("")
    starts = np.zeros(len(filled) + 1, np.int64)
    np.cumsum(filled.str.len_bytes().to_numpy(), out=starts[1:])
    content = filled.str.join("").item() if len(filled) else ""
    return Texts._trusted(np.frombuffer(content.encode(), np.uint8), starts)


def has_polars() -> bool:
    """Tell if polars can be imported; what is read without it is the same, and slower."""
    try:
        import_polars()
    except ImportError:
        return False
    return True


def import_polars() -> Any:
    """Import polars, which is optional."""
    try:
        import polars
    except ImportError:
        raise ImportError("logs of clicks need polars: pip install 'perceptrank[tables]'") from None
    return polars
