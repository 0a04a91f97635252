"""Settings for lines of LETOR text, and messages about those that are invalid."""

import re
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.io.letor import codes
from perceptrank.kernels.arrays import Bytes
from perceptrank.stream.validation import ParameterError, check_choice, check_positive, check_positive_whole

LARGEST, LARGEST_UNDECLARED, LARGEST_SPARSE = 10**8 - 1, 2**20, 2**31 - 1
GROUP = object()  # as `qid`: lines do not name their queries


class LineSettings:
    """Those parameters of `read_letor` and `scan_letor` that concern a line, checked.

    `limit` is the number of features that lines may have. `where` is the location of query ids, None to detect it;
    `sparse` is None if the first documents decide.
    """

    def __init__(
        self,
        n_features: int | None,
        zero_based: bool,
        qid: object,
        comments: bool,
        dtype: npt.DTypeLike,
        clip: float | None,
        skip: bool,
        sparse: bool | None = False,
    ) -> None:
        if qid != GROUP:
            check_choice("qid", qid, ("auto", "field", "comment"))
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ParameterError("dtype", "must be float32 or float64", str(self.dtype))
        self.n_features = None if n_features is None else check_positive_whole("n_features", n_features)
        if sparse not in (None, True, False):
            raise ParameterError("sparse", "must be True, False or None", sparse)
        largest = LARGEST if sparse is False else LARGEST_SPARSE
        if self.n_features is not None and self.n_features > largest:
            raise ParameterError("n_features", f"must be at most {largest}", n_features)
        self.sparse = True if (self.n_features or 0) > LARGEST else sparse
        self.limit = self.n_features or (LARGEST_SPARSE if sparse else LARGEST_UNDECLARED)
        self.base = 0 if zero_based else 1
        self.bound = np.inf if clip is None else check_positive("clip", clip)
        self.where = {"field": codes.IN_FIELD, "comment": codes.IN_COMMENT, GROUP: codes.NOWHERE}.get(qid)
        self.comments, self.skip = comments, skip


OnError: TypeAlias = Literal["raise", "skip"] | Callable[[FormatError], object]

_MAX_SHOWN = 5


class ErrorPolicy:
    """Raises invalid lines, skips them, or passes them to a function, as `on_error` says."""

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ParameterError("on_error", "must be 'raise', 'skip' or a callable", on_error)
        self._on_error = on_error
        self._count = 0
        self._shown: list[str] = []
        self.skips = on_error != "raise"

    def add(self, problems: Iterable[FormatError], count: int = 1) -> None:
        """Raise the first of `count` errors, pass all on, or count them; no more are made than are looked at."""
        if self._on_error == "raise":
            for problem in problems:
                raise problem
        elif callable(self._on_error):
            for problem in problems:
                self._on_error(problem)
        else:
            self._count += count
            self._shown += [str(problem) for problem in islice(problems, _MAX_SHOWN - len(self._shown))]

    def warn_if_skipped(self) -> None:
        """Warn about skipped lines, if there are any."""
        if self._count:
            more = f"\n… and {self._count - _MAX_SHOWN} more" if self._count > _MAX_SHOWN else ""
            shown = "\n".join(self._shown)
            warnings.warn(f"skipped {self._count} invalid lines or files:\n{shown}{more}", stacklevel=3)


_SHOWN_BYTES = 40
_PAIR = re.compile(rb"(?<=\s)([0-9]+):\S*")
_NON_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def describe(text: Bytes, pos: int, code: int, settings: LineSettings, limit: int) -> str:
    """Return the message for an error code at an offset of the text, where `limit` features were allowed."""
    word = re.split(rb"[\s#]", text[pos : pos + _SHOWN_BYTES + 1].tobytes())[0]
    token = decode(word) if len(word) <= _SHOWN_BYTES else word[:-1].decode(errors="ignore") + "…"
    got = f"got {token!r}" if token else "got nothing"
    is_finite = _NON_FINITE.fullmatch(token) is None
    kept = "" if settings.dtype == np.float64 else "`dtype='float64'` keeps it, "
    stray = "comments name the queries; if the field does, use `qid='field'`"
    last = limit - 1 + settings.base
    ids = f"ids above {last} must be declared with `n_features`"
    if settings.n_features is not None:
        ids = f"with `n_features={settings.n_features}` ids go from {settings.base} to {last}"
    elif limit == LARGEST_SPARSE:
        ids = f"ids go from {settings.base} to {last}"
    pair = "qid: must come right after the grade and once" if token.startswith("qid:") else "expected feature:value"
    return {
        codes.BAD_GRADE: f"expected a grade, {got}" if is_finite else f"a grade must be finite, {got}",
        codes.NEGATIVE_GRADE: f"a grade must not be negative, {got}",
        codes.INFINITE_GRADE: f"a grade must be finite, {got}",
        codes.NO_QUERY: f"expected qid:ID after the grade, {got}; if it is elsewhere, use `qid='comment'` or `group=…`",
        codes.EMPTY_QUERY: f"expected an id after 'qid:', {got}",
        codes.STRAY_QUERY: f"unexpected field {token!r}: {stray}",
        codes.BAD_PAIR: f"{pair}, {got}",
        codes.ID_ZERO: f"feature ids count from 1, {got}; if they count from 0 here, use `zero_based=True`",
        codes.ID_BEYOND: f"feature id too large: {ids}, {got}",
        codes.BAD_VALUE: f"expected a number, {got}" if is_finite else f"a value must be finite, {got}",
        codes.INFINITE_VALUE: f"a value must fit into {settings.dtype}, {got}; {kept}`clip=…` bounds it",
        codes.DUPLICATE: f"a feature must occur once in a line, {got} again",
        codes.NO_COMMENT: f"expected a comment that names the query, {got}",
        codes.ZERO_BYTE: f"a query id must not have a zero byte, {got}",
    }[code]


def find_repeated_id(text: Bytes, start: int) -> int:
    """Return the offset of the first feature id of the line at `start` that has come before in it."""
    size = 2**10
    while b"\n" not in (piece := text[start : start + size].tobytes()):
        size *= 2
    seen: set[int] = set()
    for pair in _PAIR.finditer(re.split(rb"[\n#]", piece, maxsplit=1)[0]):
        if int(pair[1]) in seen:
            return start + pair.start()
        seen.add(int(pair[1]))
    raise AssertionError("no feature id is repeated")


def decode(text: bytes) -> str:
    """Decode UTF-8, or Latin-1 if the text is not valid UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
