"""Parse chunks of LETOR text, and describe invalid lines."""

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.io.letor import codes
from perceptrank.io.letor.pairs import name_columns
from perceptrank.io.letor.parsing import parse_lines
from perceptrank.io.text import Chunk
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
GROUP = object()  # as `qid`: lines do not name their queries
_SHOWN_BYTES = 40
_HEADER = re.compile(rb"#(\d{1,7}):(.*)")
_NON_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


class Parsed(NamedTuple):
    """A parsed chunk.

    `width` is the number of columns it needs; features beyond those of the matrix have not been stored. `starts`,
    `lines` and `qids` have the row in the chunk, the line of the file and the id where each query begins.
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
    """The filled parts of the kernel's tables."""

    found: Ints
    runs: IntRows
    comments: IntRows
    bad: IntRows


class LineParser:
    """Parses chunks of files of one dialect, given or detected.

    The parameters are those of `read_letor`; `files` are names for error messages.
    """

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
        known = {"field": codes.IN_FIELD, "comment": codes.IN_COMMENT, GROUP: codes.NOWHERE}.get(qid)
        self._where = dict.fromkeys(range(len(files)), known) if known is not None else {}
        self._names: dict[int, str] = {}
        self._seen_headers: set[int] = set()
        self._columns: dict[int, tuple[Words, Words]] = {}
        self._marks: list[Ints] = []  # scratch, each used by one thread at a time

    def detect_dialect(self, chunk: Chunk) -> Chunk:
        """Detect the location of query ids and the feature names, from the chunks up to a file's first document."""
        if chunk.file not in self._seen_headers:
            self._detect_from(chunk)
        return chunk

    def _detect_from(self, chunk: Chunk) -> None:
        for number, line in enumerate(chunk.text[chunk.start : chunk.stop].tobytes().split(b"\n")):
            stripped = line.strip()
            if header := _HEADER.match(stripped):
                self._name_feature(chunk, number, int(header[1]), _decode(header[2].strip()))
            elif stripped and not stripped.startswith(b"#"):
                self._seen_headers.add(chunk.file)
                fields, _, comment = stripped.partition(b"#")
                in_comment = b" qid:" not in b" ".join(fields.split()[:2]) and bool(comment.strip())
                self._where.setdefault(chunk.file, codes.IN_COMMENT if in_comment else codes.IN_FIELD)
                return

    def _name_feature(self, chunk: Chunk, number: int, feature: int, name: str) -> None:
        column = feature - self._base
        if not 0 <= column < self.limit:
            return  # an ordinary comment
        if self._names.setdefault(column, name) != name:
            problem = f"feature {feature} is named {name!r}, and was named {self._names[column]!r}"
            raise FormatError(self._files[chunk.file], chunk.first_line + number, 1, problem)

    def feature_names(self, width: int) -> tuple[str, ...] | None:
        """Return the names given by headers, and the id of a feature without a name; None without headers."""
        if not self._names:
            return None
        return tuple(self._names.get(column, str(column + self._base)) for column in range(width))

    @property
    def min_width(self) -> int:
        """Number of features known from `n_features` or the headers."""
        return self.n_features or max(self._names, default=-1) + 1

    def width_of(self, chunk: Chunk) -> int:
        """Return the number of columns of the valid lines of a chunk."""
        nowhere = np.empty((chunk.n_lines, 0), self.dtype), np.empty(chunk.n_lines)
        return int(self._run(chunk, *nowhere, 0, True, self.limit).found[codes.WIDEST]) + 1

    def parse(
        self, chunk: Chunk, X: Features, relevance: Floats, first_row: int, *, limit: int | None = None
    ) -> Parsed:
        """Parse a chunk into consecutive rows of X and relevance, at most one per line.

        An invalid line is an error unless it is to be skipped. With a `limit`, features beyond it are invalid: X cannot
        be widened.
        """
        found, runs, comments, bad = self._run(chunk, X, relevance, first_row, self._skip, limit or self.limit)
        if found[codes.ERROR] != codes.FINE:
            line, pos, code = (int(found[k]) for k in (codes.LINE, codes.ERROR_AT, codes.ERROR))
            raise self._error(chunk, line, pos, code, limit)
        return Parsed(
            n_rows=int(found[codes.N_ROWS]),
            width=int(found[codes.WIDEST]) + 1,
            is_dense=found[codes.N_SPARSE] == 0,
            starts=runs[:, codes.RUN_ROW] - first_row,
            lines=runs[:, codes.RUN_LINE] + chunk.first_line,
            qids=_decode_qids(chunk, runs),
            comments=_decode_spans(chunk.text, comments) if self._comments else None,
            problems=[self._error(chunk, line, pos, code, limit) for line, pos, code in bad.tolist()],
        )

    def _run(self, chunk: Chunk, X: Features, relevance: Floats, first_row: int, skip: bool, limit: int) -> _Found:
        width = X.shape[1]
        if width not in self._columns:
            self._columns[width] = name_columns(width, self._base)
        n = chunk.n_lines
        runs = np.empty((n, codes.N_RUN_COLUMNS), np.int64)
        comments = np.empty((n if self._comments else 0, 2), np.int64)
        bad = np.empty((n if skip else 0, codes.N_BAD_COLUMNS), np.int64)
        late = np.empty((16, codes.N_LATE_COLUMNS), np.int64)
        values: dict[int, float] = {}
        try:
            marks = self._marks.pop()
        except IndexError:
            marks = np.zeros(self.limit + 1, np.int64)
        found = np.zeros(codes.N_FOUND, np.int64)
        while True:
            parse_lines(
                chunk.text,
                chunk.start,
                chunk.stop,
                X,
                relevance,
                first_row,
                runs,
                comments,
                late,
                np.array(sorted(values), dtype=np.int64),
                np.array([values[pos] for pos in sorted(values)], dtype=np.float64),
                bad,
                marks,
                *self._columns[width],
                self._base,
                limit,
                self._bound,
                self._where.get(chunk.file, codes.IN_FIELD),
                found,
            )
            if found[codes.N_LATE] == 0:
                break
            values |= {
                start: float(chunk.text[start:end].tobytes()) for start, end in late[: found[codes.N_LATE]].tolist()
            }
            late = np.empty((2 * max(found[codes.N_LATE], 8), codes.N_LATE_COLUMNS), np.int64)
        self._marks.append(marks)
        n_rows, n_runs, n_bad = (int(found[k]) for k in (codes.N_ROWS, codes.N_RUNS, codes.N_BAD))
        return _Found(found, runs[:n_runs], comments[:n_rows], bad[:n_bad])

    def _error(self, chunk: Chunk, line: int, pos: int, code: int, limit: int | None) -> FormatError:
        before = chunk.text[chunk.start : pos].tobytes()
        column = pos - chunk.start - before.rfind(b"\n")
        token = re.split(rb"[\s#]", chunk.text[pos : pos + _SHOWN_BYTES + 1].tobytes())[0]
        text = _decode(token) if len(token) <= _SHOWN_BYTES else token[:-1].decode(errors="ignore") + "…"
        return FormatError(self._files[chunk.file], chunk.first_line + line, column, *self._problem(code, text, limit))

    def _problem(self, code: int, token: str, limit: int | None) -> tuple[Part, ...]:
        """Return the message of an error code, options that help as parts of their own."""
        got = f"got {token!r}" if token else "got nothing"
        infinite = _NON_FINITE.fullmatch(token) is not None
        if code == codes.ID_BEYOND:
            return "feature id too large: ", *self._rule_for_ids(token, limit), f", {got}"
        if code == codes.NO_QUERY:
            options = Setting("qid", "comment"), " or ", Setting("group")
            return f"expected qid:ID after the grade, {got}; if it is elsewhere, use ", *options
        if code == codes.STRAY_QUERY:
            problem = f"unexpected field {token!r}: comments name the queries; if the field does, use "
            return problem, Setting("qid", "field")
        if code == codes.ID_ZERO:
            return f"feature ids count from 1, {got}; if they count from 0 here, use ", Setting("zero_based", True)
        if code == codes.INFINITE_VALUE:
            kept: tuple[Part, ...] = () if self.dtype == np.float64 else (Setting("dtype", "float64"), " keeps it, ")
            return f"a value must fit into {self.dtype}, {got}; ", *kept, Setting("clip"), " bounds it"
        if code == codes.BAD_PAIR and token.startswith("qid:"):
            return (f"qid: must come right after the grade and once, {got}",)
        problems = {
            codes.BAD_GRADE: f"a grade must be finite, {got}" if infinite else f"expected a grade, {got}",
            codes.NEGATIVE_GRADE: f"a grade must not be negative, {got}",
            codes.INFINITE_GRADE: f"a grade must be finite, {got}",
            codes.EMPTY_QUERY: f"expected an id after 'qid:', {got}",
            codes.BAD_PAIR: f"expected feature:value, {got}",
            codes.BAD_VALUE: f"a value must be finite, {got}" if infinite else f"expected a number, {got}",
            codes.DUPLICATE: f"a feature must occur once in a line, {got} again",
            codes.NO_COMMENT: f"expected a comment that names the query, {got}",
        }
        return (problems[code],)

    def _rule_for_ids(self, token: str, limit: int | None) -> tuple[Part, ...]:
        if self.n_features is not None:
            ids = f" ids go from {self._base} to {self.n_features - 1 + self._base}"
            return "with ", Setting("n_features", self.n_features), ids
        is_far = int(token.partition(":")[0]) - self._base >= LARGEST_UNDECLARED
        last = (LARGEST_UNDECLARED if is_far or limit is None else limit) - 1 + self._base
        return f"ids above {last} must be declared with ", Name("n_features")


def _decode_qids(chunk: Chunk, runs: IntRows) -> list[int | str]:
    """Return the query ids, as numbers or text."""
    qids: list[int | str] = runs[:, codes.RUN_ID].tolist()
    for pos in np.flatnonzero(runs[:, codes.RUN_START] >= 0).tolist():
        start, end = runs[pos, codes.RUN_START], runs[pos, codes.RUN_END]
        qids[pos] = _decode(chunk.text[start:end].tobytes())
    return qids


def _decode_spans(text: Bytes, spans: IntRows) -> list[str]:
    return [_decode(text[start:end].tobytes()) for start, end in spans.tolist()]


def _decode(text: bytes) -> str:
    """Decode UTF-8, or Latin-1 if the text is not valid UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
