"""Tables with a delimiter, CSV and TSV, parsed chunk by chunk: compiled, and what that refuses by the module csv.

Chunks bound the memory, and tell which line is wrong.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.letor.codes import NEWLINE
from perceptrank.io.letor.filling import Pool, in_order
from perceptrank.io.letor.parsing import count_bytes
from perceptrank.io.letor.words import PADDING
from perceptrank.io.tables.cells import FEATURE, REFUSED, ROLE, TEXT, UNUSED, copy_texts, parse_cells
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

# Query ids, columns by their roles, and features.
Parsed: TypeAlias = tuple[npt.NDArray[Any], dict[str, Any], npt.NDArray[Any]]

SMALL_BYTES = 2**20  # of files that are read by the module csv before a parser would be compiled
_DELIMITERS = ",;\t|"
_SAMPLE = 200
_THREADS = 2


class DelimitedTable:
    """A table whose cells are separated by a delimiter; TSV has no quotes."""

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
        self._is_small = max(len(head), os.path.getsize(path)) < SMALL_BYTES  # the head is decompressed
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
        samples = {name: self._sample_of(name) for name in others if not is_kept_apart(name, wanted)}
        # if most values are numbers, one that is not is an error
        return tuple(name for name, values in samples.items() if 2 * sum(map(is_number, values)) >= len(values))

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
            for line, cells in self._whole_records(chunk):
                row = dict(zip(names, cells, strict=True))
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
            self._check_quotes(chunk)
            parsed = self._parse_compiled(chunk, {"qid": qid, "label": column}, {}, ())
            if parsed is None:
                cells = self._cells(chunk, [qid, column])
                yield cells[qid], cells[column]
            else:
                yield parsed[0].tolist(), [text or None for text in parsed[1]["label"].tolist()]

    def texts(self, names: list[str], progress: Progress | None = None) -> Iterator[Any]:
        """Read columns as data frames of texts."""
        for chunk in self._chunks(progress):
            self._check_quotes(chunk)
            yield self._parse_texts(chunk, names)

    def records(self) -> Iterator[list[list[str]]]:
        """Read the cells of all rows as they are, chunk by chunk."""
        for chunk in self._chunks(None):
            self._check_quotes(chunk)
            yield [cells for _, cells in self._whole_records(chunk)]

    def _whole_records(self, chunk: Chunk) -> Iterator[tuple[int, list[str]]]:
        """Parse the rows of a chunk; those that end early get empty cells."""
        for line, cells in islice(self._records(chunk), 1, None):
            n_names = len(self.header)
            if len(cells) > n_names:
                problem = f"a row must have {n_names} cells, as the header has, got {len(cells)}"
                raise FormatError(self.path, line, n_names + 1, problem)
            yield line, cells + [""] * (n_names - len(cells))

    def _parse(self, chunk: Chunk) -> Rows:
        self._check_quotes(chunk)
        texts = {role: name for role, name in self._roles.items() if holds_texts(role)}
        numbers = {role: name for role, name in self._roles.items() if role not in texts}

        parsed = self._parse_compiled(chunk, texts, numbers, self.names)
        qids, columns, X = self._parse_cells(chunk, texts, numbers) if parsed is None else parsed
        columns = {column_of(role).name: values for role, values in columns.items()}
        return Rows(self.path, partial(self._place, chunk), qids, columns, X, self.names)

    def _parse_compiled(
        self, chunk: Chunk, texts: dict[str, str], numbers: dict[str, str], names: tuple[str, ...]
    ) -> Parsed | None:
        """Parse the columns of roles and features; return None if there is anything that is rare, or little at all."""
        used = [*names, *numbers.values(), *texts.values()]
        if self._is_small or len(set(used)) < len(used):
            return None
        if not chunk.text.isascii():
            self._decode(chunk.text, chunk.line)
        begin, stop, quote = chunk.text.index(b"\n") + 1, len(chunk.text), ord('"') if self._quoted else -1
        text = np.zeros(stop + 2 * PADDING, np.uint8)
        text[PADDING:-PADDING] = np.frombuffer(chunk.text, np.uint8)
        bounds = PADDING + begin, PADDING + stop
        n = count_bytes(text, NEWLINE, *bounds)
        kinds = np.full((len(self.header), 2), UNUSED)
        for kind, chosen in ((FEATURE, names), (ROLE, numbers.values()), (TEXT, texts.values())):
            for number, name in enumerate(chosen):
                kinds[self.header.index(name)] = kind, number
        X, values = np.empty((n, len(names)), self._wanted.dtype), np.empty((len(numbers), n))
        spans = np.empty((len(texts), n, 2), np.int64)
        n = parse_cells(text, *bounds, ord(self.delimiter), quote, kinds, (X, values, spans))
        if n == REFUSED:
            return None
        columns: dict[str, Any] = {role: values[number, :n].copy() for number, role in enumerate(numbers)}
        qids = np.full(n, None)
        for role, own in zip(texts, spans[:, :n], strict=True):
            content = np.empty(int((own[:, 1] - own[:, 0]).sum()), np.uint8)
            starts = np.zeros(n + 1, np.int64)
            n_runs = copy_texts(text, own, quote, content, starts)
            copied = Texts._trusted(content[: starts[-1]], starts)
            if role == "qid":
                runs = own[:n_runs, 0]
                ids = np.array([text or None for text in copied[runs].tolist()], dtype=object)
                qids = np.repeat(ids, np.diff(runs, append=n))
            else:
                columns[role] = copied
        return qids, columns, X[:n]

    def _parse_cells(self, chunk: Chunk, texts: dict[str, str], numbers: dict[str, str]) -> Parsed:
        """Parse the columns of roles and features by the module csv."""
        cells = self._cells(chunk, [*texts.values(), *numbers.values(), *self.names])
        columns: dict[str, Any] = {
            role: Texts([text or "" for text in cells[name]]) for role, name in texts.items() if role != "qid"
        }
        for role, name in numbers.items():
            columns[role] = self._numbers(chunk, name, cells[name], np.float64)
        first = next(iter(cells.values()))
        qids = np.array(cells[texts["qid"]] if "qid" in texts else [None] * len(first), dtype=object)
        X = np.empty((len(first), len(self.names)), self._wanted.dtype)
        for j, name in enumerate(self.names):
            X[:, j] = self._numbers(chunk, name, cells[name], self._wanted.dtype)
        return qids, columns, X

    def _cells(self, chunk: Chunk, names: list[str]) -> dict[str, list[str | None]]:
        """Return the texts of columns, None where there are none."""
        records = [cells for _, cells in self._whole_records(chunk)]
        places = {name: self.header.index(name) for name in names}
        return {name: [cells[j] or None for cells in records] for name, j in places.items()}

    def _numbers(self, chunk: Chunk, name: str, texts: list[str | None], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return texts as numbers."""
        values = np.empty(len(texts))
        for row, text in enumerate(texts):
            try:
                values[row] = parse_number(text or "")
            except ValueError:
                line, column, shown = self._place(chunk, row, name)
                kinds = {column: describe_role(role) for role, column in self._roles.items()}
                rule = f"{kinds.get(name, 'a feature')} must be a number (column {name!r})"
                raise FormatError(self.path, line, column, f"{rule}, got {shown[:80]!r}") from None
        with np.errstate(over="ignore"):
            return values.astype(dtype)

    def _parse_texts(self, chunk: Chunk, names: list[str]) -> Any:
        """Parse columns as texts, by polars; all of them, or it would take rows that are too long."""
        pl = import_polars()
        reason = ""
        try:
            frame = pl.read_csv(
                chunk.text,
                schema={str(j): pl.String for j in range(len(self.header))},
                separator=self.delimiter,
                quote_char='"' if self._quoted else None,
            )
        except (pl.exceptions.PolarsError, OverflowError) as error:
            reason = str(error).split("\n")[0][:200] or repr(error)
        if reason:
            for _ in self._whole_records(chunk):
                pass  # which raises for the first row that is too long
            raise FileFormatError(self.path, f", lines from {chunk.line + 1} on: {reason}")
        frame.columns = self.header
        return frame.select(names)

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
        """Find a cell; blank lines are rows."""
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


def import_polars() -> Any:
    """Import polars, which is optional."""
    try:
        import polars
    except ImportError:
        raise ImportError("logs of clicks need polars: pip install 'perceptrank[tables]'") from None
    return polars
