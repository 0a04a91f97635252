"""One chunk of LETOR text to rows, and what to say about lines that are wrong."""

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.letor import parsing as kernel
from perceptrank.io.text import Chunk, FormatError
from perceptrank.kernels.arrays import Bytes, Features, Floats, IntRows, Ints, Words
from perceptrank.stream.validation import (
    Name,
    ParameterError,
    Part,
    Setting,
    check_choice,
    check_positive,
    check_positive_whole,
)

LARGEST, LARGEST_UNDECLARED = 10**8 - 1, 2**20
GROUP = object()  # in place of where lines name their queries: nowhere
_SHOWN_BYTES = 40
_HEADER = re.compile(rb"#(\d{1,7}):(.*)")
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


class Parsed(NamedTuple):
    """What is in a chunk. `width` is how many columns it takes; rows with more than there are have not been stored.

    Where the query changes, `starts` has the row in the chunk, `lines` the line of the file, `qids` the new id.
    """

    n_rows: int
    width: int
    is_dense: bool
    starts: Ints
    lines: Ints
    qids: list[int | str]
    comments: list[str] | None
    problems: list[FormatError]


class _Found(NamedTuple):
    """The kernel's tables, as long as they are filled."""

    found: Ints
    runs: IntRows
    comments: IntRows
    bad: IntRows


class LineParser:
    """The dialect of some files, found or told, and how to read a chunk of them."""

    def __init__(
        self,
        files: list[str],
        n_features: int | None,
        zero_based: bool,
        qid: object,
        comments: bool,
        dtype: npt.DTypeLike,
        clip: float | None,
        skip: bool,
    ) -> None:
        if qid != GROUP:
            check_choice("qid", qid, ("auto", "field", "comment"))
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ParameterError("dtype", "must be float32 or float64", str(self.dtype))
        self.n_features = None if n_features is None else check_positive_whole("n_features", n_features)
        if self.n_features is not None and self.n_features > LARGEST:
            raise ParameterError("n_features", f"must be at most {LARGEST}", n_features)
        self.limit = self.n_features or LARGEST_UNDECLARED
        self._files, self._comments, self._skip = files, comments, skip
        self._base = 0 if zero_based else 1
        self._bound = np.inf if clip is None else check_positive("clip", clip)
        known = {"field": kernel.IN_FIELD, "comment": kernel.IN_COMMENT, GROUP: kernel.NOWHERE}.get(qid)
        self._where = dict.fromkeys(range(len(files)), known) if known is not None else {}
        self._names: dict[int, str] = {}
        self._seen_headers: set[int] = set()
        self._columns: dict[int, tuple[Words, Words]] = {}
        self._marks: list[Ints] = []  # for one thread at a time each

    def look_at(self, chunk: Chunk) -> Chunk:
        """Find out, from chunks of a file up to its first document, where queries are named and what features are."""
        if chunk.file not in self._seen_headers:
            self._look_for_headers(chunk)
        return chunk

    def _look_for_headers(self, chunk: Chunk) -> None:
        for number, line in enumerate(chunk.text[chunk.start : chunk.stop].tobytes().split(b"\n")):
            stripped = line.strip()
            if header := _HEADER.match(stripped):
                self._name_feature(chunk, number, int(header[1]), _decoded(header[2].strip()))
            elif stripped and not stripped.startswith(b"#"):
                self._seen_headers.add(chunk.file)
                fields, _, comment = stripped.partition(b"#")
                in_comment = b" qid:" not in b" ".join(fields.split()[:2]) and bool(comment.strip())
                self._where.setdefault(chunk.file, kernel.IN_COMMENT if in_comment else kernel.IN_FIELD)
                return

    def _name_feature(self, chunk: Chunk, number: int, feature: int, name: str) -> None:
        column = feature - self._base
        if not 0 <= column < self.limit:
            return  # a comment like any other
        if self._names.setdefault(column, name) != name:
            problem = f"feature {feature} is named {name!r}, and was named {self._names[column]!r}"
            raise FormatError(self._files[chunk.file], chunk.first_line + number, 1, problem)

    def feature_names(self, width: int) -> tuple[str, ...] | None:
        """The names that headers give; the id where they give none."""
        if not self._names:
            return None
        return tuple(self._names.get(column, str(column + self._base)) for column in range(width))

    @property
    def least_width(self) -> int:
        """How many features there are for sure."""
        return self.n_features or max(self._names, default=-1) + 1

    def width_of(self, chunk: Chunk) -> int:
        """How many columns the lines of a chunk take, those left out that are wrong."""
        nowhere = np.empty((chunk.n_lines, 0), self.dtype), np.empty(chunk.n_lines)
        return int(self._run(chunk, *nowhere, 0, True, self.limit).found[kernel.WIDEST]) + 1

    def parse(
        self, chunk: Chunk, X: Features, relevance: Floats, first_row: int, *, limit: int | None = None
    ) -> Parsed:
        """Read a chunk into rows of X and relevance. Rows are used one after the other, at most one per line.

        A wrong line is an error, unless it is to be skipped. `limit` is for X that cannot be widened: a feature beyond
        it makes a line wrong.
        """
        found, runs, comments, bad = self._run(chunk, X, relevance, first_row, self._skip, limit or self.limit)
        if found[kernel.ERROR] != kernel.FINE:
            line, place, code = (int(found[k]) for k in (kernel.LINE, kernel.ERROR_AT, kernel.ERROR))
            raise self._error(chunk, line, place, code, limit)
        return Parsed(
            n_rows=int(found[kernel.N_ROWS]),
            width=int(found[kernel.WIDEST]) + 1,
            is_dense=found[kernel.N_SPARSE] == 0,
            starts=runs[:, kernel.RUN_ROW] - first_row,
            lines=runs[:, kernel.RUN_LINE] + chunk.first_line,
            qids=_qids(chunk, runs),
            comments=_texts(chunk.text, comments) if self._comments else None,
            problems=[self._error(chunk, line, place, code, limit) for line, place, code in bad.tolist()],
        )

    def _run(self, chunk: Chunk, X: Features, relevance: Floats, first_row: int, skip: bool, limit: int) -> _Found:
        width = X.shape[1]
        if width not in self._columns:
            self._columns[width] = kernel.name_columns(width, self._base)
        n = chunk.n_lines
        runs = np.empty((n, kernel.N_RUN_COLUMNS), np.int64)
        comments = np.empty((n if self._comments else 0, 2), np.int64)
        bad = np.empty((n if skip else 0, kernel.N_BAD_COLUMNS), np.int64)
        late = np.empty((16, kernel.N_LATE_COLUMNS), np.int64)
        known: dict[int, float] = {}
        try:
            marks = self._marks.pop()
        except IndexError:
            marks = np.zeros(self.limit + 1, np.int64)
        found = np.zeros(kernel.N_FOUND, np.int64)
        while True:
            kernel.parse_lines(
                chunk.text,
                chunk.start,
                chunk.stop,
                X,
                relevance,
                first_row,
                runs,
                comments,
                late,
                np.array(sorted(known), dtype=np.int64),
                np.array([known[place] for place in sorted(known)], dtype=np.float64),
                bad,
                marks,
                *self._columns[width],
                self._base,
                limit,
                self._bound,
                self._where.get(chunk.file, kernel.IN_FIELD),
                found,
            )
            if found[kernel.N_LATE] == 0:
                break
            known |= {
                start: float(chunk.text[start:end].tobytes()) for start, end in late[: found[kernel.N_LATE]].tolist()
            }
            late = np.empty((2 * max(found[kernel.N_LATE], 8), kernel.N_LATE_COLUMNS), np.int64)
        self._marks.append(marks)
        n_rows, n_runs, n_bad = (int(found[k]) for k in (kernel.N_ROWS, kernel.N_RUNS, kernel.N_BAD))
        return _Found(found, runs[:n_runs], comments[:n_rows], bad[:n_bad])

    def _error(self, chunk: Chunk, line: int, place: int, code: int, limit: int | None) -> FormatError:
        before = chunk.text[chunk.start : place].tobytes()
        column = place - chunk.start - before.rfind(b"\n")
        token = re.split(rb"[\s#]", chunk.text[place : place + _SHOWN_BYTES + 1].tobytes())[0]
        text = _decoded(token) if len(token) <= _SHOWN_BYTES else token[:-1].decode(errors="ignore") + "…"
        problem = self._problem(code, text, limit)
        return FormatError(self._files[chunk.file], chunk.first_line + line, column, *problem)

    def _problem(self, code: int, token: str, limit: int | None) -> tuple[Part, ...]:
        """Say what is wrong, and which options help."""
        got = f"got {token!r}" if token else "got nothing"
        infinite = _NO_NUMBER.fullmatch(token) is not None
        if code == kernel.ID_BEYOND:
            return "feature id too large: ", *self._rule_for_ids(token, limit), f", {got}"
        if code == kernel.NO_QUERY:
            elsewhere = Setting("qid", "comment"), " or ", Setting("group"), " if it is elsewhere"
            return f"expected qid:ID after the grade, {got}; ", *elsewhere
        if code == kernel.STRAY_QUERY:
            field = f"a field {token!r} where comments name the queries"
            return f"{field}; if the field does, say ", Setting("qid", "field")
        if code == kernel.ID_ZERO:
            return f"feature ids count from 1, {got}; if they count from 0 here, say ", Setting("zero_based", True)
        if code == kernel.INFINITE_VALUE:
            kept: tuple[Part, ...] = (Setting("dtype", "float64"), " keeps it, ")
            bounded = Setting("clip"), " bounds it"
            rule = f"a value must fit into {self.dtype}, {got}; "
            return (rule, *bounded) if self.dtype == np.float64 else (rule, *kept, *bounded)
        if code == kernel.BAD_PAIR and token.startswith("qid:"):
            return (f"qid: must come right after the grade and once, {got}",)
        return (
            {
                kernel.BAD_GRADE: f"a grade must be finite, {got}" if infinite else f"expected a grade, {got}",
                kernel.NEGATIVE_GRADE: f"a grade must not be negative, {got}",
                kernel.INFINITE_GRADE: f"a grade must be finite, {got}",
                kernel.EMPTY_QUERY: f"expected an id after 'qid:', {got}",
                kernel.BAD_PAIR: f"expected feature:value, {got}",
                kernel.BAD_VALUE: f"a value must be finite, {got}" if infinite else f"expected a number, {got}",
                kernel.DUPLICATE: f"a feature must occur once in a line, {got} again",
                kernel.NO_COMMENT: f"expected a comment that names the query, {got}",
            }[code],
        )

    def _rule_for_ids(self, token: str, limit: int | None) -> tuple[Part, ...]:
        if self.n_features is not None:
            ids = f" ids go from {self._base} to {self.n_features - 1 + self._base}"
            return "with ", Setting("n_features", self.n_features), ids
        is_far = int(token.partition(":")[0]) - self._base >= LARGEST_UNDECLARED
        last = (LARGEST_UNDECLARED if is_far or limit is None else limit) - 1 + self._base
        return f"ids above {last} must be declared with ", Name("n_features")


def _qids(chunk: Chunk, runs: IntRows) -> list[int | str]:
    """Ids of queries, as numbers or text."""
    qids: list[int | str] = runs[:, kernel.RUN_ID].tolist()
    for place in np.flatnonzero(runs[:, kernel.RUN_START] >= 0).tolist():
        start, end = runs[place, kernel.RUN_START], runs[place, kernel.RUN_END]
        qids[place] = _decoded(chunk.text[start:end].tobytes())
    return qids


def _texts(text: Bytes, places: IntRows) -> list[str]:
    return [_decoded(text[start:end].tobytes()) for start, end in places.tolist()]


def _decoded(text: bytes) -> str:
    """Text in UTF-8, or in Latin-1 if it is not."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
