"""Describe what is wrong with a line of LETOR text."""

import re

import numpy as np

from perceptrank.io.letor import codes
from perceptrank.io.letor.settings import LARGEST_SPARSE, LineSettings
from perceptrank.kernels.arrays import Bytes
from perceptrank.stream.validation import Name, Part, Setting

_SHOWN_BYTES = 40
_NON_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def describe(text: Bytes, pos: int, code: int, settings: LineSettings, limit: int) -> tuple[Part, ...]:
    """Return the message for an error code at an offset of the text, options that help as parts of their own.

    `limit` is the number of features that were allowed.
    """
    token = _token_at(text, pos)
    got = f"got {token!r}" if token else "got nothing"
    infinite = _NON_FINITE.fullmatch(token) is not None
    if code == codes.ID_BEYOND:
        return "feature id too large: ", *_rule_for_ids(settings, limit), f", {got}"
    if code == codes.NO_QUERY:
        options = Setting("qid", "comment"), " or ", Setting("group")
        return f"expected qid:ID after the grade, {got}; if it is elsewhere, use ", *options
    if code == codes.STRAY_QUERY:
        problem = f"unexpected field {token!r}: comments name the queries; if the field does, use "
        return problem, Setting("qid", "field")
    if code == codes.ID_ZERO:
        return f"feature ids count from 1, {got}; if they count from 0 here, use ", Setting("zero_based", True)
    if code == codes.INFINITE_VALUE:
        kept: tuple[Part, ...] = () if settings.dtype == np.float64 else (Setting("dtype", "float64"), " keeps it, ")
        return f"a value must fit into {settings.dtype}, {got}; ", *kept, Setting("clip"), " bounds it"
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
        codes.ZERO_BYTE: f"a query id must not have a zero byte, {got}",
    }
    return (problems[code],)


def _token_at(text: Bytes, pos: int) -> str:
    token = re.split(rb"[\s#]", text[pos : pos + _SHOWN_BYTES + 1].tobytes())[0]
    return decode(token) if len(token) <= _SHOWN_BYTES else token[:-1].decode(errors="ignore") + "…"


def _rule_for_ids(settings: LineSettings, limit: int) -> tuple[Part, ...]:
    last = limit - 1 + settings.base
    if settings.n_features is not None:
        return "with ", Setting("n_features", settings.n_features), f" ids go from {settings.base} to {last}"
    if limit == LARGEST_SPARSE:
        return (f"ids go from {settings.base} to {last}",)
    return f"ids above {last} must be declared with ", Name("n_features")


def decode(text: bytes) -> str:
    """Decode UTF-8, or Latin-1 if the text is not valid UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
