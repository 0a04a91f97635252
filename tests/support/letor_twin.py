"""LETOR text read slowly, from the definition of the format: the oracle for reader and kernels."""

import re
from typing import NamedTuple

import numpy as np

LARGEST_UNDECLARED = 2**20

_BLANK = b" \t\r\v\f"
_TOKEN = re.compile(rb"[^ \t\r\v\f]+")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FEATURE = re.compile(rb"([0-9]{1,8}):")
_WHOLE = re.compile(rb"0|-?[1-9][0-9]*")
_NAME = re.compile(rb"#([0-9]{1,7}):(.*)")


class WrongError(ValueError):
    """What is wrong is at this line and column, both from 1; both are 0 if there are no documents."""

    def __init__(self, line, column):
        super().__init__(f"{line}:{column}")
        self.line, self.column = line, column

    @property
    def place(self):
        return self.line, self.column


class Document(NamedTuple):
    line: int
    grade: float
    values: dict
    qid: int | str
    comment: str


class Twin(NamedTuple):
    """What a text holds; `wrong` are the places of lines left out, `again` the line where a query first comes back."""

    X: np.ndarray
    relevance: list
    offsets: list
    qids: list
    comments: list
    feature_names: tuple | None
    wrong: list
    again: int | None


def read(
    text,
    *,
    n_features=None,
    zero_based=False,
    qid="auto",
    dtype=np.float32,
    clip=None,
    skip=False,
    largest=LARGEST_UNDECLARED,
):
    base = 0 if zero_based else 1
    limit = n_features or largest
    if not text:
        raise WrongError(0, 0) if skip else WrongError(1, 1)
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    first = next((i for i, line in enumerate(lines) if _is_document(line)), len(lines))
    if first == len(lines):
        _read_names(lines, base, limit)
        raise WrongError(0, 0)
    names = _read_names(lines[:first], base, limit)
    in_comment = _queries_are_in_comments(lines[first]) if qid == "auto" else qid == "comment"
    documents, wrong = [], []
    for number, line in enumerate(lines, 1):
        if not _is_document(line):
            continue
        try:
            documents.append(_read_line(number, line, base, limit, in_comment, dtype, clip))
        except WrongError as error:
            if not skip:
                raise
            wrong.append(error.place)
    if not documents:
        raise WrongError(0, 0)
    return _assemble(documents, names, wrong, n_features, base, dtype)


def _is_document(line):
    return line.strip(_BLANK)[:1] not in (b"", b"#")


def _read_names(lines, base, limit):
    names = {}
    for number, line in enumerate(lines, 1):
        if match := _NAME.fullmatch(line.strip(_BLANK)):
            column, name = int(match[1]) - base, _decoded(match[2].strip(_BLANK))
            if 0 <= column < limit and names.setdefault(column, name) != name:
                raise WrongError(number, 1)
    return names


def _queries_are_in_comments(line):
    body, _, comment = line.partition(b"#")
    tokens = _TOKEN.findall(body)
    return not (len(tokens) > 1 and tokens[1].startswith(b"qid:")) and comment.strip(_BLANK) != b""


def _read_line(number, line, base, limit, in_comment, dtype, clip):
    body, _, comment = line.partition(b"#")
    tokens = [(match.start() + 1, match[0]) for match in _TOKEN.finditer(body)]
    column, token = tokens.pop(0)
    if not _NUMBER.fullmatch(token) or not 0 <= (grade := float(token)) < np.inf:
        raise WrongError(number, column)
    comment = comment.strip(_BLANK)
    name = comment
    if tokens and tokens[0][1].startswith(b"qid:"):
        column, token = tokens.pop(0)
        name = token[4:]
        if in_comment or not name or b"\0" in name:
            raise WrongError(number, column)
    elif not in_comment:
        raise WrongError(number, tokens[0][0] if tokens else len(body) + 1)
    values = {}
    for column, token in tokens:
        match = _FEATURE.match(token)
        if not match or not 0 <= (this := int(match[1]) - base) < limit or this in values:
            raise WrongError(number, column)
        values[this] = _read_value(token[match.end() :], dtype, clip)
        if values[this] is None:
            raise WrongError(number, column + match.end())
    if not name:
        raise WrongError(number, len(line) + 1)
    if b"\0" in name:  # of a comment; an array of text does not keep zero bytes at the end
        raise WrongError(number, line.index(comment, len(body) + 1) + 1)
    return Document(number, grade + 0.0, values, _identifier(name), _decoded(comment))


def _identifier(name):
    if len(name) <= 20 and _WHOLE.fullmatch(name) and -(2**63) <= int(name) < 2**63:
        return int(name)
    return _decoded(name)


def _read_value(token, dtype, clip):
    """The number, or None if it is none that the type can hold."""
    if not _NUMBER.fullmatch(token):
        return None
    value = float(token)
    if clip is not None:
        value = min(max(value, -clip), clip)
    with np.errstate(over="ignore"):
        value = np.dtype(dtype).type(value)
    return value if np.isfinite(value) else None


def _assemble(documents, names, wrong, n_features, base, dtype):
    width = n_features or max(1, *(max([-1, *names, *one.values]) + 1 for one in documents))
    if not all(isinstance(one.qid, int) for one in documents):
        documents = [one._replace(qid=str(one.qid)) for one in documents]
    again, seen = None, []
    for one in documents:
        if one.qid in seen[:-1] and again is None:
            again = one.line
        if one.qid not in seen[-1:]:
            seen.append(one.qid)
    qids = list(dict.fromkeys(seen))
    groups = [[one for one in documents if one.qid == qid] for qid in qids]
    rows = [one for group in groups for one in group]
    X = np.zeros((len(rows), width), dtype)
    for i, one in enumerate(rows):
        X[i, list(one.values)] = list(one.values.values())
    return Twin(
        X,
        [one.grade for one in rows],
        [0, *np.cumsum([len(group) for group in groups]).tolist()],
        qids,
        [one.comment for one in rows],
        tuple(names.get(column, str(column + base)) for column in range(width)) if names else None,
        wrong,
        again,
    )


def _decoded(text):
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
