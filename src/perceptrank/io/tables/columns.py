"""Columns of tables: which one has the queries, the documents, the grades, and which are features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from perceptrank.io.errors import FileFormatError
from perceptrank.stream.columns import (
    CLICKED,
    COMMENT,
    DOCID,
    OF_IMPRESSIONS,
    PLACE,
    WEIGHT,
    Column,
    declared,
    find_column,
    recognized_columns,
)

Role: TypeAlias = str
Format = Literal["csv", "tsv", "jsonl", "qrels", "run"]

ROLES: tuple[Role, ...] = ("qid", "docid", "relevance", "weight")
# The usual names, most telling first; without case, and with "_" for whatever is not a letter or digit.
_USUAL: dict[Role, tuple[str, ...]] = {
    "qid": (
        *("qid", "query_id", "queryid", "query", "query_text", "search_query", "search_term", "search_terms"),
        *("searchterm", "search_phrase", "keywords", "keyword", "topic", "topic_id", "q"),
    ),
    "docid": (
        *("docid", "doc_id", "document_id", "documentid", "doc", "document", "docno", "product_id", "item_id"),
        *("sku", "_id", "id", "url"),
    ),
    "relevance": (
        *("relevance", "rel", "grade", "label", "rating", "judgement", "judgment", "relevance_grade"),
        *("relevance_label", "relevance_judgement", "relevance_judgment"),
    ),
    "weight": (),  # many things are called a weight: only the name that our own files have is guessed
}
# Of Quepid's exports: numbers and texts about a whole case, and the places of rated documents in a list of ratings.
_BOOKKEEPING = {"team_name", "case_name", "case_id", "snapshot_name", "snapshot_time", "doc_position"}
_WORDS: dict[Role, str] = {"qid": "query", "docid": "document", "relevance": "grade", "weight": "query weight"}
_NEVER_FEATURES = {name for names in _USUAL.values() for name in names} | _BOOKKEEPING
_SHOWN = 8


class Wanted(NamedTuple):
    """Columns that the caller names, the others are guessed; `required` roles must have one; `dtype` is of features."""

    roles: dict[Role, str]
    features: tuple[str, ...] | None = None
    required: Set[Role] = frozenset({"qid"})
    with_features: bool = True
    dtype: np.dtype[Any] = np.dtype(np.float32)
    is_shared: bool = False  # by tables of which each may have its own names
    with_grades: bool = True  # False for tables whose grades are in others: a product has a "rating" too


@dataclass(frozen=True)
class TableColumns:
    """Roles of the columns of a table, as they were named or guessed.

    Attributes
    ----------
    path : str
        The file.
    format : "csv", "tsv", "jsonl", "qrels", or "run"
        Its format.
    roles : dict
        The column of each role that the table has: "qid", "docid", "relevance", "weight", or a declared column's name.
    features : tuple of str
        Columns that are features, as far as they are known before all rows are read.
    ignored : tuple of str
        Columns that are not used, as far as they are known before all rows are read: text, lists and objects, and
        second columns of queries, documents or grades.
    guessed : tuple of str
        Roles whose columns were found by their usual names.
    """

    path: str
    format: Format
    roles: dict[Role, str]
    features: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    guessed: tuple[Role, ...] = ()

    def __str__(self) -> str:
        taken = [
            f"{_WORDS.get(role, role)} from {name!r}{' (guessed)' if role in self.guessed else ''}"
            for role, name in self.roles.items()
        ]
        parts = [", ".join(taken)]
        if self.features:
            parts.append(f"{len(self.features)} features: {listed(self.features)}")
        if self.ignored:
            parts.append(f"ignored: {listed(self.ignored)}")
        return f"{self.path} ({self.format}): {'; '.join(parts)}"


def listed(names: Sequence[str] | Mapping[str, int]) -> str:
    """Return the first names, quoted, with the rows that have them if they are counted, and how many more there are."""
    counts = names if isinstance(names, Mapping) else {}
    each = (f"{name!r} ({counts[name]:,} rows)" if counts.get(name) else repr(name) for name in islice(names, _SHOWN))
    return ", ".join(each) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def column_of(role: Role) -> Column:
    """Return the column of a stream that a role is read to."""
    return find_column(WEIGHT if role == "weight" else role)


def holds_texts(role: Role) -> bool:
    """Tell if the cells of a role are read as texts, not as numbers."""
    return role == "qid" or column_of(role).is_text or np.dtype(column_of(role).dtype).kind in "mM"


def describe_role(role: Role) -> str:
    """Return what a cell of a role holds, for messages."""
    return {"relevance": "a grade", "weight": "the weight of a query"}.get(role, role)


def normalize(name: str) -> str:
    """Return a name without case, with one "_" for each run of other characters than letters and digits.

    Examples
    --------
    >>> normalize("Query Text"), normalize(" docId"), normalize("_id")
    ('query_text', 'docid', '_id')
    """
    return re.sub(r"[^0-9a-z]+", "_", name.strip().lower())


def find_roles(
    path: str, names: Sequence[str], wanted: Wanted, others: Iterable[str] = ()
) -> tuple[dict[Role, str], tuple[Role, ...]]:
    """Return the column of each role that has one, and the roles whose columns were guessed.

    Raises if a required role has none, or two may hold the grades. `others` are taken only if the caller names them.
    """
    roles: dict[Role, str] = {}
    guessed: list[Role] = []
    known = [*recognized_columns([*names, *others]), *(role for role in wanted.roles if role not in ROLES)]
    declared_names = [name for name in dict.fromkeys(known) if name not in (DOCID, WEIGHT, COMMENT)]
    for role in [*ROLES, *declared_names]:  # the latter go by their own names
        if role == "relevance" and not wanted.with_grades:
            continue
        name = _find_named(path, [*names, *others], role, wanted)
        if name is None:
            name = _guess(path, names, role, wanted)
            guessed += [] if name is None else [role]
        if name is not None:
            roles[role] = name
        elif role in wanted.required:
            problem = f" has no column that is known to hold the {_WORDS[role]} of a row; it has {listed(names)}. "
            advice = f"`{role}=…` names it"
            if role == "relevance" and {PLACE, CLICKED} <= set(names):
                advice = "Places and clicks make it a log of clicks, which are not grades: `read_clicks` reads it"
            raise FileFormatError(path, f"{problem}{advice}")
    return roles, tuple(guessed)


def _find_named(path: str, names: Sequence[str], role: Role, wanted: Wanted) -> str | None:
    """Return the column that the caller names for a role, None if it is to be guessed."""
    name = wanted.roles.get(role)
    if name is None:
        return None
    for other in wanted.roles:
        if other != role and wanted.roles[other] == name:
            raise ValueError(f"{role} and {other} must be two columns, got {name!r} for both")
    if name in names:
        if name in (wanted.features or ()):
            raise ValueError(f"features must not have {name!r}, which is the column of {role}")
        return name
    if role == "relevance" or not wanted.is_shared:
        raise missing_column(path, name, names)
    return None


def _guess(path: str, names: Sequence[str], role: Role, wanted: Wanted) -> str | None:
    taken = {*(wanted.features or ()), *(name for other, name in wanted.roles.items() if other != role)}
    left = [name for name in names if name not in taken]
    if role == "weight":
        return WEIGHT if WEIGHT in left and role not in wanted.roles else None
    if role not in ROLES:
        return role if role in left else None
    usual = [name for name in left if normalize(name) in _USUAL[role]]
    if role == "relevance" and role in wanted.required and len(usual) > 1:
        problem = f" has {len(usual)} columns that may hold the grade of a row, {listed(usual)}"
        raise FileFormatError(path, f"{problem}: `relevance=…` names it")
    return min(usual, key=lambda name: _USUAL[role].index(normalize(name)), default=None)


def missing_column(path: str, name: str, names: Sequence[str]) -> FileFormatError:
    """Return the error for a column that is named and not there."""
    return FileFormatError(path, f" has no column {name!r}; it has {listed(names)}")


def is_grade_name(name: str) -> bool:
    """Tell if a column is called as those of grades are."""
    return normalize(name) in _USUAL["relevance"]


def is_kept_apart(name: str, wanted: Wanted) -> bool:
    """Tell if a column is not a feature unless the caller says so, by its name."""
    if not wanted.with_grades and is_grade_name(name):
        return False
    return normalize(name) in _NEVER_FEATURES or name in declared().keys() - OF_IMPRESSIONS - {COMMENT}
