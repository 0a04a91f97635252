"""Columns of tables: which one has the queries, the documents, the grades, and which are features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from perceptrank.io.errors import FileFormatError
from perceptrank.io.parquet_columns import ColumnSetting
from perceptrank.stream.columns import WEIGHT

Role = Literal["qid", "docid", "relevance", "weight"]
Format = Literal["csv", "tsv", "jsonl", "qrels", "run"]

ROLES: tuple[Role, ...] = ("qid", "docid", "relevance", "weight")
# The usual names, most telling first; without case, and with "_" for whatever is not a letter or digit.
USUAL: dict[Role, tuple[str, ...]] = {
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
    "weight": (),  # many things are called a weight: it is guessed by the one name that our own files have
}
# Of Quepid's exports: numbers and texts about a whole case, and the places of rated documents in a list of ratings.
_BOOKKEEPING = {"team_name", "case_name", "case_id", "snapshot_name", "snapshot_time", "doc_position"}
_WORDS: dict[Role, str] = {"qid": "query", "docid": "document", "relevance": "grade", "weight": "query weight"}
_NEVER_FEATURES = {name for names in USUAL.values() for name in names} | _BOOKKEEPING
_SHOWN = 8


class Wanted(NamedTuple):
    """Names of columns that the caller gives, or None to have them guessed."""

    qid: str | None = None
    docid: str | None = None
    relevance: str | None = None
    weight: str | None = None
    features: tuple[str, ...] | None = None
    is_shared: bool = False  # by tables of which each may have its own names

    def name_of(self, role: Role) -> str | None:
        """Return the name that is given for a role."""
        given: str | None = getattr(self, role)
        return given


@dataclass(frozen=True)
class TableColumns:
    """Roles of the columns of a table, as they were named or guessed.

    Attributes
    ----------
    path : str
        The file.
    format : "csv", "tsv", "jsonl", "qrels", or "run"
        Its format.
    qid, docid, relevance : str or None
        Columns of the queries, documents and grades; None for one that the table lacks or that is not needed.
    features : tuple of str
        Columns that are features, as far as they are known before all rows are read.
    ignored : tuple of str
        Columns that are not used: text, and second columns of queries, documents or grades.
    guessed : tuple of str
        Those of "qid", "docid", "relevance" and "weight" that were found by their usual names.
    weight : str or None
        Column of the queries' weights.
    """

    path: str
    format: Format
    qid: str | None
    docid: str | None
    relevance: str | None
    features: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    weight: str | None = None

    def __str__(self) -> str:
        roles: list[tuple[Role, str | None]] = [(role, getattr(self, role)) for role in ROLES]
        taken = [
            f"{_WORDS[role]} from {name!r}{' (guessed)' if role in self.guessed else ''}"
            for role, name in roles
            if name is not None
        ]
        parts = [", ".join(taken)]
        if self.features:
            parts.append(f"{len(self.features)} features: {_listed(self.features)}")
        if self.ignored:
            parts.append(f"ignored: {_listed(self.ignored)}")
        return f"{self.path} ({self.format}): {'; '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def normalized(name: str) -> str:
    """Return a name without case, with one "_" for each run of other characters than letters and digits.

    Examples
    --------
    >>> normalized("Query Text"), normalized(" docId"), normalized("_id")
    ('query_text', 'docid', '_id')
    """
    return re.sub(r"[^0-9a-z]+", "_", name.strip().lower())


def find_role(
    path: str, names: Sequence[str], role: Role, wanted: Wanted, *, required: bool
) -> tuple[str | None, bool]:
    """Return the column of a role, and whether it was guessed; raise if it is required and there is none."""
    given = wanted.name_of(role)
    features = wanted.features or ()
    others = {name: other for other in ROLES if other != role and (name := wanted.name_of(other)) is not None}
    if given in others:
        raise ValueError(f"{role} and {others[given]} must be two columns, got {given!r} for both")
    if given is not None and given in names:
        if given in features:
            raise ValueError(f"features must not have {given!r}, which is the column of {role}")
        return given, False
    if given is not None and (role == "relevance" or not wanted.is_shared):
        raise missing_column(path, given, names)
    found = None
    if role != "weight":
        usual = {normalized(name): name for name in reversed(names) if name not in features and name not in others}
        found = next((usual[name] for name in USUAL[role] if name in usual), None)
    elif given is None and WEIGHT in names and WEIGHT not in features:
        found = WEIGHT
    if found is None and required:
        raise FileFormatError(
            path,
            f" has no column that is known to hold the {_WORDS[role]} of a row; it has {_listed(names)}. ",
            ColumnSetting(role),
            " names it",
        )
    return found, found is not None


def missing_column(path: str, name: str, names: Sequence[str]) -> FileFormatError:
    """Return the error for a column that is named and not there."""
    return FileFormatError(path, f" has no column {name!r}; it has {_listed(names)}")


def is_kept_apart(name: str) -> bool:
    """Tell if a column is not a feature unless the caller says so, by its name."""
    return normalized(name) in _NEVER_FEATURES or name == WEIGHT
