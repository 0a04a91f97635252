"""Tables with a delimiter, CSV and TSV, parsed by polars chunk by chunk.

Chunks bound the memory, and tell which line is wrong: what polars refuses is parsed once more, as text.
"""

import csv
import io
import os
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.tables.chunks import CHUNK_BYTES, QUOTES, Chunk, Progress, chunks, read_head
from perceptrank.io.tables.columns import (
    ROLES,
    Format,
    Role,
    TableColumns,
    Wanted,
    find_role,
    is_kept_apart,
    missing_column,
)
from perceptrank.io.tables.pairs import FEATURE_LISTS, VectorColumns, parse_pairs
from perceptrank.io.tables.rows import MISSING_WORDS, TRUTHS, Place, Rows, parse_number
from perceptrank.kernels.arrays import Features
from perceptrank.stream.texts import Texts

_DELIMITERS = ",;\t|"
_SAMPLE = 200
_AHEAD = 2


class _Header(NamedTuple):
    """The first record of a file: names of columns, the delimiter, and where the next record begins."""

    names: list[str]
    delimiter: str
    length: int
    n_lines: int


class DelimitedTable:
    """A table whose cells are separated by a delimiter.

    Parameters
    ----------
    path : str
    format : either "csv" or "tsv"
        TSV has no quotes; the delimiter of CSV is a comma, a semicolon, a tab or ``|``, as the header has it.
    wanted : Wanted
    required : set of str
        Roles that must have a column; others that have none are left out.
    with_features : bool
        Read features.
    dtype : numpy.dtype

    Attributes
    ----------
    columns : TableColumns
    knows_names : bool
        False if the names of features are known only when all rows are read, as for a column of vectors.
    """

    def __init__(
        self, path: str, format: Format, wanted: Wanted, required: set[Role], with_features: bool, dtype: Any
    ) -> None:
        self.path, self._quoted, self._dtype = path, format == "csv", np.dtype(dtype)
        self._is_joined = wanted.is_shared
        head = read_head(path, quoted=self._quoted)
        self._header = header = self._read_header(head)
        roles: dict[Role, str | None] = {}
        guessed = []
        for role in ROLES:
            roles[role], by_name = find_role(path, header.names, role, wanted, required=role in required)
            guessed += [role] if by_name else []
        taken = {name for name in roles.values() if name is not None}
        rest = Chunk(head[header.length :], 1 + header.n_lines)
        sample = [record for _, record in islice(self._records(rest, header.delimiter), _SAMPLE)]
        features, ignored = self._choose(wanted, taken, sample) if with_features else ([], [])
        self._vectors: VectorColumns | None = None
        if len(features) == 1 and self._is_vector(features[0], sample):
            self._vectors = VectorColumns(None)
        self._roles, self._features = roles, features
        self.knows_names = self._vectors is None
        self.columns = TableColumns(
            path,
            format,
            roles["qid"],
            roles["docid"],
            roles["relevance"],
            tuple(features),
            tuple(ignored),
            tuple(guessed),
            roles["weight"],
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features that are known."""
        return tuple(self._features) if self._vectors is None else self._vectors.names

    def find_names(self) -> None:
        """Read all rows, for the names of the features."""
        for _ in self.rows():
            pass
        self.knows_names = True

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """Read the rows, chunk by chunk; while one is used, the next ones are parsed."""
        found = self._chunks(progress)
        if self._vectors is not None or os.path.getsize(self.path) < CHUNK_BYTES:
            yield from map(self._parse, found)
            return
        waiting: deque[Future[Rows]] = deque()
        with ThreadPoolExecutor(_AHEAD) as pool:
            try:
                for chunk in found:
                    waiting.append(pool.submit(self._parse, chunk))
                    if len(waiting) > _AHEAD:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for one in waiting:
                    one.cancel()

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Read the queries and the texts of a column of all rows."""
        pl = import_polars()
        if column not in self._header.names:
            raise missing_column(self.path, column, self._header.names)
        qid = self._roles["qid"]
        assert qid is not None
        for chunk in self._chunks(None):
            frame = self._frame_of_texts(pl, chunk, dict.fromkeys([qid, column], pl.String))
            yield frame[qid].to_list(), frame[column].to_list()

    def _chunks(self, progress: Progress | None) -> Iterator[Chunk]:
        """Read chunks, each with a header of its own, whose line is the one before it."""
        names, delimiter, length, n_lines = self._header
        numbered = delimiter.join(map(str, range(len(names)))).encode() + b"\n"
        for text, line in chunks(self.path, quoted=self._quoted, prefix=numbered, progress=progress):
            if line > 1:
                yield Chunk(text, line - 1)
            elif rest := text[len(numbered) + length :]:
                yield Chunk(numbered + rest, n_lines)

    def _read_header(self, head: bytes) -> _Header:
        if not head.strip():
            raise FormatError(self.path, 1, 1, "the file is empty")
        end = head.find(b"\n") + 1 or len(head)
        while self._quoted and head.count(b'"', 0, end) % 2:
            end = head.find(b"\n", end) + 1 or len(head)
        first = self._decoded(head[:end], 1)
        unquoted = "".join(first.split('"')[::2])  # a name may have delimiters
        delimiter = "\t" if not self._quoted else max(_DELIMITERS, key=unquoted.count)
        names = [name.strip() for name in next(self._records(Chunk(first.encode(), 1), delimiter))[1]]
        if len(names) < 2:
            raise FormatError(self.path, 1, 1, f"a header must name two columns or more, got {first[:80].strip()!r}")
        if twice := sorted(name for name, n in Counter(names).items() if n > 1):
            raise FormatError(self.path, 1, names.index(twice[0]) + 1, f"two columns are called {twice[0]!r}")
        if all(_is_number(name) for name in names):
            raise FormatError(self.path, 1, 1, f"the first line must name the columns, got {first[:80].strip()!r}")
        return _Header(names, delimiter, end, head.count(b"\n", 0, end))

    def _choose(self, wanted: Wanted, taken: set[str], sample: list[list[str]]) -> tuple[list[str], list[str]]:
        """Return the columns that are features, and those that are not used."""
        others = [name for name in self._header.names if name not in taken]
        if wanted.features is not None:
            for name in wanted.features:
                if name not in self._header.names:
                    raise missing_column(self.path, name, self._header.names)
            return list(wanted.features), [name for name in others if name not in wanted.features]
        vectors = [name for name in others if name.lower() in FEATURE_LISTS and self._is_vector(name, sample)]
        chosen = vectors[:1] or [
            name for name in others if name and not is_kept_apart(name) and self._holds_numbers(name, sample)
        ]
        return chosen, [name for name in others if name not in chosen]

    def _values(self, name: str, sample: list[list[str]]) -> list[str]:
        j = self._header.names.index(name)
        return [record[j] for record in sample if len(record) > j and record[j].strip().lower() not in MISSING_WORDS]

    def _holds_numbers(self, name: str, sample: list[list[str]]) -> bool:
        """Tell numbers from text: most values are numbers, so that one that is not is an error."""
        values = self._values(name, sample)
        return 2 * sum(map(_is_number, values)) >= len(values)

    def _is_vector(self, name: str, sample: list[list[str]]) -> bool:
        values = self._values(name, sample)
        return bool(values) and all("=" in value or ":" in value for value in values)

    def _check_quotes(self, chunk: Chunk) -> None:
        """Raise if a quote within a cell, as in 5" tv, would make one row of several lines: polars pairs all quotes."""
        if not self._quoted or b'"' not in chunk.text:
            return
        text = np.frombuffer(chunk.text, np.uint8)
        opening, closing = np.flatnonzero(text == ord('"'))[: chunk.text.count(b'"') // 2 * 2].reshape(-1, 2).T
        before = np.frombuffer(b'\n"' + self._header.delimiter.encode(), np.uint8)  # one that is doubled has another
        for place in np.flatnonzero((opening > 0) & ~np.isin(text[opening - 1], before)).tolist():
            if b"\n" in chunk.text[opening[place] : closing[place]]:
                line = chunk.line + chunk.text.count(b"\n", 0, opening[place])
                raise FormatError(self.path, line, 1, QUOTES)

    def _parse(self, chunk: Chunk) -> Rows:
        pl = import_polars()
        self._check_quotes(chunk)
        texts = [name for name in (self._roles["qid"], self._roles["docid"]) if name is not None]
        grade, weight = self._roles["relevance"], self._roles["weight"]
        number = pl.Float32 if self._dtype == np.float32 else pl.Float64
        types: dict[str, Any] = dict.fromkeys(texts, pl.String)
        types |= {name: pl.Float64 for name in (grade, weight) if name is not None}
        types |= dict.fromkeys(self._features, pl.String if self._vectors is not None else number)
        try:
            frame = self._frame(pl, chunk, types)
        except (pl.exceptions.PolarsError, OverflowError):
            frame = self._frame_of_texts(pl, chunk, types)

        def place(row: int, column: str) -> Place:
            return self._place(chunk, row, column)

        qids = frame[texts[0]].to_numpy()
        docids = [frame[name].to_numpy() if self._is_joined else _as_texts(frame[name]) for name in texts[1:]]
        X: Features | None = None
        names = tuple(self._features)
        if self._vectors is not None:
            X, names = self._parse_vectors(chunk, frame[self._features[0]].to_list())
        elif self._features:
            X = np.ascontiguousarray(frame[self._features].to_numpy(order="c"), dtype=self._dtype)
        grades, weights = (
            None if name is None else np.array(frame[name].to_numpy(), dtype=np.float64) for name in (grade, weight)
        )
        return Rows(self.path, qids, docids[0] if docids else None, grades, X, names, place, weights)

    def _frame(self, pl: Any, chunk: Chunk, types: dict[str, Any]) -> Any:
        """Parse a chunk; columns that are not used are skipped."""
        names = self._header.names
        schema = {str(j): types.get(name, pl.String) for j, name in enumerate(names)}
        frame = pl.read_csv(
            chunk.text,
            schema=schema,
            columns=[str(j) for j, name in enumerate(names) if name in types],
            separator=self._header.delimiter,
            quote_char='"' if self._quoted else None,
        )
        frame.columns = [names[int(number)] for number in frame.columns]
        return frame

    def _frame_of_texts(self, pl: Any, chunk: Chunk, types: dict[str, Any]) -> Any:
        """Parse a chunk that has something else than numbers: spaces, words for what is missing, truths, or errors."""
        try:
            frame = self._frame(pl, chunk, dict.fromkeys(types, pl.String))
        except (pl.exceptions.PolarsError, OverflowError) as error:
            raise self._malformed(chunk, error) from None
        for name, kind in types.items():
            if kind == pl.String:
                continue
            words = frame[name].str.strip_chars().str.to_lowercase()
            truths = words.replace_strict(TRUTHS, default=None, return_dtype=kind)
            numbers = words.cast(kind, strict=False)
            numbers = numbers.zip_with(truths.is_null(), truths)
            wrong = numbers.is_null() & words.is_not_null() & ~words.is_in(list(MISSING_WORDS))
            if wrong.any():
                row = cast(int, wrong.arg_max())
                place = self._place(chunk, row, name)
                words_of = {self._roles["relevance"]: "a grade", self._roles["weight"]: "the weight of a query"}
                what = words_of.get(name, "a feature")
                problem = f"{what} must be a number (column {name!r}), got {place.text[:80]!r}"
                raise FormatError(self.path, place.line, place.column, problem)
            frame = frame.with_columns(numbers.alias(name))
        return frame

    def _malformed(self, chunk: Chunk, error: Exception) -> FormatError:
        """Find the line that polars refuses to read."""
        n_names = len(self._header.names)
        for line, record in self._records(chunk, self._header.delimiter):
            if len(record) > n_names:
                problem = f"a row must have {n_names} cells, as the header has, got {len(record)}"
                return FormatError(self.path, line, n_names + 1, problem)
        said = str(error).split("\n")[0][:200]
        return FileFormatError(self.path, f", lines from {chunk.line + 1} on: {said}")

    def _parse_vectors(self, chunk: Chunk, texts: list[str | None]) -> tuple[Features, tuple[str, ...]]:
        assert self._vectors is not None
        name = self._features[0]
        for row, text in enumerate(texts):
            try:
                self._vectors.add(parse_pairs(text or ""))
            except ValueError as error:
                place = self._place(chunk, row, name)
                raise FormatError(self.path, place.line, place.column, f"{error} (column {name!r})") from None
        return self._vectors.take(self._dtype)

    def _place(self, chunk: Chunk, row: int, column: str) -> Place:
        """Find a cell; blank lines are rows to polars, and to the module csv."""
        names = self._header.names
        j = names.index(column) if column in names else 0
        for number, (line, record) in enumerate(self._records(chunk, self._header.delimiter)):
            if number == row + 1:  # after the header
                return Place(line, j + 1, record[j] if j < len(record) else "")
        return Place(chunk.line, j + 1, "")

    def _records(self, chunk: Chunk, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        """Parse records as text, each with the line that it begins on."""
        text = self._decoded(chunk.text, chunk.line)
        csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
        quoting: Any = csv.QUOTE_MINIMAL if self._quoted else csv.QUOTE_NONE
        reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, quoting=quoting)
        line = chunk.line
        try:
            for record in reader:
                yield line, record
                line = chunk.line + reader.line_num
        except csv.Error as error:
            said = str(error).split(" - ")[0]
            raise FormatError(self.path, line, 1, f"cells must be as CSV has them: {said}") from None

    def _decoded(self, text: bytes, line: int) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            line += text.count(b"\n", 0, error.start)
            column = error.start - text.rfind(b"\n", 0, error.start)
            problem = f"text must be UTF-8, got {text[error.start : error.start + 8]!r}"
            raise FormatError(self.path, line, column, problem) from None


def _as_texts(column: Any) -> Texts:
    """Return a column of text, "" where there is none, without an object for each."""
    filled = column.fill_null("")
    starts = np.zeros(len(filled) + 1, np.int64)
    np.cumsum(filled.str.len_bytes().to_numpy(), out=starts[1:])
    content = filled.str.join("").item() if len(filled) else ""
    return Texts._trusted(np.frombuffer(content.encode(), np.uint8), starts)


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def import_polars() -> Any:
    """Import polars, which is optional."""
    try:
        import polars
    except ImportError:
        raise ImportError("CSV and TSV need polars: pip install 'perceptrank[tables]'") from None
    return polars
