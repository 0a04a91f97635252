"""Parse chunks of LETOR text."""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.io.letor import codes
from perceptrank.io.letor.parsing import Dense, Sparse, copy_ids, count_bytes, name_columns, parse_lines
from perceptrank.io.letor.settings import LARGEST_UNDECLARED, LineSettings, decode, describe, find_repeated_id
from perceptrank.io.text import Chunk
from perceptrank.kernels.arrays import Bytes, Columns, Features, Floats, IntRows, Ints, Words
from perceptrank.stream.memory import check_memory
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.texts import Texts

# Blank lines, and comments that do not name a feature. There may be very many of them: matching some at a time bounds
# the memory of a match. (Possessive quantifiers would, too, but Python gets them wrong before 3.11.5.)
_SKIPPED = re.compile(rb"\s*(?:#(?![0-9]{1,7}:)[^\n]*\s*){0,1000}")
_FIRST_DOCUMENTS = 64
_DOCID = np.frombuffer(b"docid", np.uint8)


class Widest(NamedTuple):
    """Number of features, and the number of the file and the line that has the last of them."""

    width: int = 0
    file: int = 0
    line: int = 1


class Parsed(NamedTuple):
    """A parsed chunk.

    `widest` is the number of columns it needs; features beyond those of the matrix have not been stored. `starts`,
    `lines` and `qids` have the row in the chunk, the line of the file and the id where each query begins; ids are
    objects unless all are numbers. `bad` is a table of the invalid lines, in which at most `limit` features were
    allowed.
    """

    n_rows: int
    widest: Widest
    is_dense: bool
    starts: Ints
    lines: Ints
    qids: npt.NDArray[Any]
    comments: list[str] | None
    docids: Texts | None
    bad: IntRows
    limit: int


class DenseRoom(NamedTuple):
    """Arrays for the documents of a chunk as rows of a matrix, from `first_row` on."""

    X: Features
    relevance: Floats
    first_row: int = 0

    @property
    def nbytes(self) -> int:
        """Size of the features."""
        return self.X.nbytes

    def rows(self, n_rows: int, width: int) -> tuple[AnyFeatures, Floats]:
        """Return the features and grades of the first rows, without what was allocated for more if that is much."""
        return _take_first(self.X, n_rows), _take_first(self.relevance, n_rows)


class SparseRoom(NamedTuple):
    """Arrays for the documents of a chunk as compressed sparse rows; `ends` has the end of each row."""

    values: Features
    indices: Columns
    ends: Ints
    relevance: Floats

    @property
    def nbytes(self) -> int:
        """Size of the arrays."""
        return sum(array.nbytes for array in self)

    def rows(self, n_rows: int, width: int) -> tuple[AnyFeatures, Floats]:
        """Do as `DenseRoom.rows`, for features of this width."""
        starts = np.concatenate([[0], self.ends[:n_rows]])
        rows = SparseFeatures._trusted(self.values, self.indices, starts, width)
        rows = rows if 2 * rows.n_nonzeros > len(self.values) else SparseFeatures.concatenate([rows])
        return rows, _take_first(self.relevance, n_rows)


def _take_first(array: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    return array[:n] if 2 * n > len(array) else array[:n].copy()


Room: TypeAlias = DenseRoom | SparseRoom


class LineParser:
    """Parses chunks of files of one dialect, given or detected; `files` are names for error messages."""

    def __init__(self, files: list[str], settings: LineSettings) -> None:
        self.files, self.settings = files, settings
        self.last_named = Widest()
        self._where = {} if settings.where is None else dict.fromkeys(range(len(files)), settings.where)
        self._with_docids: set[int] = set()
        self._names: dict[int, str] = {}
        self._all_names: tuple[int, tuple[str, ...]] = 0, ()
        self._seen_headers: set[int] = set()
        self._columns: tuple[Words, Words] = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        self._marks: list[Ints] = []  # scratch, each used by one thread at a time

    def detect_dialect(self, chunk: Chunk) -> Chunk:
        """Detect the location of query ids and the feature names, from the chunks up to a file's first document."""
        if self.has_seen_documents(chunk):
            return chunk
        text = chunk.text[chunk.start : chunk.stop].tobytes()
        line, end = chunk.first_line, 0
        while (start := _skip_comments(text, end)) < len(text):
            line += text.count(b"\n", end, start)
            end = text.index(b"\n", start)
            fields, _, comment = text[start:end].partition(b"#")
            if fields:
                self._seen_headers.add(chunk.file)
                if b"docid" in comment:
                    self._with_docids.add(chunk.file)
                in_comment = b" qid:" not in b" ".join(fields.split(None, 2)[:2]) and bool(comment.strip())
                self._where.setdefault(chunk.file, codes.IN_COMMENT if in_comment else codes.IN_FIELD)
                break
            feature, _, name = comment.partition(b":")
            self._name_feature(Widest(int(feature), chunk.file, line), decode(name.strip()))
        return chunk

    def has_seen_documents(self, chunk: Chunk) -> bool:
        """Tell whether the file of a chunk whose dialect was detected has had a document so far."""
        return chunk.file in self._seen_headers

    def _name_feature(self, named: Widest, name: str) -> None:
        column = named.width - self.settings.base
        if not 0 <= column < self.settings.limit:
            return  # an ordinary comment
        if self._names.setdefault(column, name) != name:
            problem = f"feature {named.width} is named {name!r}, and was named {self._names[column]!r}"
            raise FormatError(self.files[named.file], named.line, 1, problem)
        if column >= self.last_named.width:
            self.last_named = named._replace(width=column + 1)

    def feature_names(self, width: int, *, sparse: bool = False) -> tuple[str, ...] | None:
        """Return the names given by headers, and the id of a feature without a name; None without headers."""
        if not self._names:
            return None
        if sparse and width > LARGEST_UNDECLARED:  # features take memory only here
            problem = f"of {width} features none can be named, only of up to {LARGEST_UNDECLARED}; remove this line"
            raise FormatError(self.files[self.last_named.file], self.last_named.line, 1, problem)
        n_named, names = self._all_names
        if n_named != len(self._names) or len(names) != width:
            base = self.settings.base
            names = tuple(self._names.get(column, str(column + base)) for column in range(width))
            self._all_names = len(self._names), names
        return names

    @property
    def min_width(self) -> int:
        """Number of features known from `n_features` or the headers."""
        return self.settings.n_features or self.last_named.width

    def widest(self, chunk: Chunk, *, sparse: bool = False) -> Widest:
        """Return the number of columns of the valid lines of a chunk."""
        limit, width = self.settings.limit, 0
        if not sparse:  # columns that are known are parsed faster
            first, _ = chunk.split(_FIRST_DOCUMENTS)
            width = int(self._run(first, self.dense_room(first, 0), True, limit)[0][codes.WIDEST]) + 1
            width = width if chunk.n_documents * width < chunk.n_bytes else 0
        room = self.sparse_room(chunk) if sparse else self.dense_room(chunk, width)
        return _widest(chunk, self._run(chunk, room, True, limit)[0])

    def dense_room(self, chunk: Chunk, width: int) -> DenseRoom:
        """Return arrays for the documents of a chunk; raise `MemoryError` if there is no memory for them."""
        dtype = self.settings.dtype
        check_memory(chunk.n_documents, width, dtype)
        return DenseRoom(np.empty((chunk.n_documents, width), dtype), np.empty(chunk.n_documents))

    def sparse_room(self, chunk: Chunk, spare: list[SparseRoom] | None = None) -> SparseRoom:
        """Return arrays for the documents of a chunk, whatever it holds: spare ones if they suffice, else new ones."""
        n_rows = chunk.n_documents
        n_pairs = count_bytes(chunk.text, codes.COLON, chunk.start, chunk.stop)  # or fewer: every pair has a colon
        with suppress(IndexError):
            room = spare.pop() if spare else None
            if room is not None and len(room.values) >= n_pairs and len(room.ends) >= n_rows:
                return room
        if spare is not None:  # the next chunk may have a few more
            n_pairs, n_rows = n_pairs + n_pairs // 8, n_rows + n_rows // 8
        dtype = self.settings.dtype
        return SparseRoom(
            np.empty(n_pairs, dtype), np.empty(n_pairs, np.int32), np.empty(n_rows, np.int64), np.empty(n_rows)
        )

    def parse(self, chunk: Chunk, room: Room, *, limit: int | None = None) -> Parsed:
        """Parse a chunk into the rows of a room.

        Unless invalid lines are to be skipped, the first one ends the parse. With a `limit`, features beyond it are
        invalid: a matrix cannot be widened.
        """
        limit = limit or self.settings.limit
        state, runs, comments, bad = self._run(chunk, room, self.settings.skip, limit)
        is_text = runs[:, codes.RUN_START] >= 0
        qids: npt.NDArray[Any] = runs[:, codes.RUN_ID].copy()
        if is_text.any():
            qids = qids.astype(object)
            qids[is_text] = _decode_spans(chunk.text, runs[is_text, codes.RUN_START : codes.RUN_END + 1])
        first_row = room.first_row if isinstance(room, DenseRoom) else 0
        return Parsed(
            n_rows=int(state[codes.N_ROWS]),
            widest=_widest(chunk, state),
            is_dense=state[codes.N_SPARSE] == 0,
            starts=runs[:, codes.RUN_ROW] - first_row,
            lines=runs[:, codes.RUN_LINE] + chunk.first_line,
            qids=qids,
            comments=_decode_spans(chunk.text, comments) if self.settings.comments else None,
            docids=_copy_docids(chunk.text, comments) if len(comments) else None,
            bad=bad,
            limit=limit,
        )

    def problems(self, chunk: Chunk, parsed: Parsed) -> Iterator[FormatError]:
        """Describe the invalid lines of a chunk, one at a time."""
        for line, start, at, code in parsed.bad.tolist():
            pos = find_repeated_id(chunk.text, start) if code == codes.DUPLICATE else at
            problem = describe(chunk.text, pos, code, self.settings, parsed.limit)
            yield FormatError(self.files[chunk.file], chunk.first_line + line, pos - start + 1, problem)

    def _run(self, chunk: Chunk, room: Room, skip: bool, limit: int) -> tuple[Ints, IntRows, IntRows, IntRows]:
        """Parse into dense or sparse rows, again if there are numbers that the kernel cannot convert.

        Returns the state of the pass, and the filled parts of the tables of runs, comments and invalid lines.
        """
        dense: Dense | None = None
        sparse: Sparse | None = None
        first_row = 0
        if isinstance(room, DenseRoom):
            columns = self._columns  # which another thread may replace
            if len(columns[0]) != room.X.shape[1]:
                columns = self._columns = name_columns(room.X.shape[1], self.settings.base)
            try:
                marks = self._marks.pop()
            except IndexError:
                marks = np.zeros(self.settings.limit + 1, np.int64)
            dense, first_row = (room.X, marks, *columns), room.first_row
        else:
            sparse = room.values, room.indices, room.ends
        n = chunk.n_documents
        runs = np.empty((n, codes.N_RUN_COLUMNS), np.int64)
        has_comments = self.settings.comments or chunk.file in self._with_docids
        comments = np.empty((n if has_comments else 0, 2), np.int64)
        bad = np.empty((n if skip else 1, codes.N_BAD_COLUMNS), np.int64)
        late = np.empty((16, codes.N_LATE_COLUMNS), np.int64)
        values: dict[int, float] = {}
        state = np.zeros(codes.N_STATE, np.int64)
        rules = self.settings.base, limit, self.settings.bound, self._where.get(chunk.file, codes.IN_FIELD)
        while True:
            known_at = np.array(sorted(values), dtype=np.int64)
            numbers = late, known_at, np.array([values[pos] for pos in known_at.tolist()], dtype=np.float64)
            parse_lines(
                *(dense, sparse, room.relevance, first_row, chunk.text, chunk.start, chunk.stop),
                *(runs, comments, numbers, bad, rules, state),
            )
            if state[codes.N_LATE] == 0:
                break
            values |= {
                start: float(chunk.text[start:end].tobytes()) for start, end in late[: state[codes.N_LATE]].tolist()
            }
            late = np.empty((2 * max(state[codes.N_LATE], 8), codes.N_LATE_COLUMNS), np.int64)
        if dense is not None:
            self._marks.append(dense[1])
        n_rows, n_runs, n_bad = (int(state[k]) for k in (codes.N_ROWS, codes.N_RUNS, codes.N_BAD))
        return state, runs[:n_runs], comments[:n_rows], bad[:n_bad]


def _skip_comments(text: bytes, start: int) -> int:
    """Return the position of the first line from `start` on that is a document or names a feature."""
    while (skipped := _SKIPPED.match(text, start)) is not None and skipped.end() > start:
        start = skipped.end()
    return start


def _widest(chunk: Chunk, state: Ints) -> Widest:
    return Widest(int(state[codes.WIDEST]) + 1, chunk.file, chunk.first_line + int(state[codes.WIDEST_LINE]))


def _decode_spans(text: Bytes, spans: IntRows) -> list[str]:
    return [decode(text[start:end].tobytes()) for start, end in spans.tolist()]


def _copy_docids(text: Bytes, comments: IntRows) -> Texts | None:
    """Copy the ids from comments ``# docid = ID``, empty where a comment has none; None if none has one."""
    content = np.empty(int((comments[:, 1] - comments[:, 0]).sum()), np.uint8)
    starts = np.zeros(len(comments) + 1, np.int64)
    copy_ids(text, comments, _DOCID, content, starts)
    if not starts[-1]:
        return None
    ids = content[: starts[-1]].copy()
    try:
        ids.tobytes().decode()
    except UnicodeDecodeError:  # each is decoded alone, as comments are
        return Texts(decode(ids[start:stop].tobytes()) for start, stop in pairwise(starts.tolist()))
    return Texts._trusted(ids, starts)


MOST_TIMES_TEXT = 1024
ALWAYS_ALLOWED_BYTES = 128 * 2**20
MOST_DENSE_FEATURES = 1000
LARGEST_SPARSE_SHARE = 1 / 8


def is_sparse(parser: LineParser, chunk: Chunk, width: int) -> bool:
    """Choose between sparse and dense features, by the first chunk that has documents, unless the settings say.

    Where sparse ones are chosen, dense ones would take four times the memory, or more.
    """
    if parser.settings.sparse is not None:
        return parser.settings.sparse
    if width <= MOST_DENSE_FEATURES:
        return False
    room = parser.sparse_room(chunk)
    n_rows = parser.parse(chunk, room).n_rows
    return n_rows > 0 and int(room.ends[n_rows - 1]) < LARGEST_SPARSE_SHARE * n_rows * width


class DensityLimit:
    """Refuses more dense features than `allowed_bytes` that take far more memory than their text, unless declared.

    A few bytes of text can name or use a feature with a large id, and every document gets a column for it.
    """

    def __init__(self, parser: LineParser, allowed_bytes: int = 0) -> None:
        self._parser = parser
        self._allowed_bytes = max(allowed_bytes, ALWAYS_ALLOWED_BYTES)
        self.widest = Widest()

    def see(self, widest: Widest) -> None:
        """Remember the first line that has the last feature."""
        if widest.width > self.widest.width:
            self.widest = widest

    def check(self, n_documents: int, width: int, n_text_bytes: int) -> None:
        """Raise `FormatError` if `n_documents` of `width` features are too large for their text."""
        settings = self._parser.settings
        n_bytes = n_documents * width * settings.dtype.itemsize
        if settings.n_features is not None or n_bytes <= max(self._allowed_bytes, MOST_TIMES_TEXT * n_text_bytes):
            return
        width, file, line = max(self.widest, self._parser.last_named, key=lambda widest: widest.width)
        megabytes = width * settings.dtype.itemsize / 1e6
        row = f"because of feature {width - 1 + settings.base} a document takes {megabytes:.3g} MB"
        problem = f"{row}, all more than {MOST_TIMES_TEXT} times their text; if there are so many features, use "
        advice = f"`n_features={width}` or `sparse=True`"
        raise FormatError(self._parser.files[file], line, 1, problem + advice)
