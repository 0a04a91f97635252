"""Columns of a stream: what is known about each document, or each query, apart from the features.

A column is a declaration. Streams slice, shuffle and join whatever columns they have, and frames, stores, Parquet files
and tables read and write those that are declared: a new column needs `declare`, and no other change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Bools, Ints
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import as_laid_out, as_numbers, as_texts, check_choice

Values: TypeAlias = npt.NDArray[Any] | Texts
Check: TypeAlias = Callable[[npt.NDArray[Any]], Bools]

QID, RELEVANCE, DOCID, WEIGHT, COMMENT = "qid", "relevance", "docid", "query_weight", "comment"
PLACE, CLICKED, EXAMINED, PROPENSITY = "place", "clicked", "examined", "propensity"
TIME, POLICY, SESSION, USER_QUERY = "time", "policy", "session", "user_query"

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = {"features", "indices", "offsets", "starts", "values"}  # names of features in files
_TEXTS = ("text", "id")


@dataclass(frozen=True)
class Column:
    """Declaration of a column; its parameters are those of `declare`, and the name of the argument in messages."""

    name: str
    per: Literal["document", "query"]
    dtype: Any
    fill: Any = None
    check: Check | None = None
    rule: str = "must be valid"
    argument: str = ""

    @property
    def is_text(self) -> bool:
        """True if the values are `Texts`."""
        return isinstance(self.dtype, str) and self.dtype in _TEXTS

    @property
    def may_be_missing(self) -> bool:
        """True if single values may be missing, as NaN or NaT."""
        return bool(self.fill is not None and self.fill != self.fill)

    def convert(self, values: Any, n: int, per: Literal["document", "query", "place"] | None = None) -> Values:
        """Return n values, `per` document, query or place, in the type of the column; raise if they are invalid."""
        per = per or self.per
        if self.is_text:
            return as_texts(self.argument, values, n, whole_numbers=self.dtype == "id", per=per)
        array = self._as_type(values, per)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.shape != (n,):
            raise ValueError(f"{self.argument} must have one value per {per} ({n}), got shape {array.shape}")
        if self.check is not None and not (valid := np.asarray(self.check(array))).all():
            i = int(np.argmin(valid))
            raise ValueError(f"{self.argument} {self.rule}, got {array[i]} at {per} {i}")
        if not self.may_be_missing and (missing := _are_missing(array)).any():
            i = int(np.argmax(missing))
            raise ValueError(f"{self.argument} must not be missing, got {array[i]} at {per} {i}")
        return array

    def _as_type(self, values: Any, per: str) -> npt.NDArray[Any]:
        """Convert to the type of the column; raise if that changes a value."""
        dtype = np.dtype(self.dtype)
        if dtype.kind in "mM":
            try:
                return np.asarray(values).astype(dtype)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{self.argument} must be {dtype}: {error}") from None
        numbers = as_numbers(self.argument, values)
        if self.may_be_missing or dtype.kind == "f":
            return as_laid_out(numbers, dtype)
        with np.errstate(invalid="ignore"):
            array = as_laid_out(numbers, dtype)
        if (changed := np.asarray(array != numbers)).any():
            i = int(np.argmax(changed))
            raise ValueError(f"{self.argument} must be {dtype}, got {numbers.flat[i]} at {per} {i}")
        return array

    def filled(self, n: int) -> Values:
        """Return n values for a source that has no such column; raise `ValueError` if there are none."""
        if self.fill is None:
            raise ValueError(f"all sources must have the column {self.name!r}, or none of them: it cannot be filled in")
        if self.is_text:
            return Texts.empty(n) if self.fill == "" else Texts([self.fill] * n)
        return np.full(n, self.fill, self.dtype)


def _are_missing(values: npt.NDArray[Any]) -> Bools:
    """Tell which values are NaN or NaT."""
    return np.isnan(values) if values.dtype.kind in "fmM" else np.zeros(len(values), dtype=bool)


def _are_weights(values: npt.NDArray[Any]) -> Bools:
    return np.asarray(np.isfinite(values) & (values >= 0))


_NOT_NEGATIVE = "must be finite and not negative"
_PLACES = "must be counted from 1, or 0 if the document was not shown"
_NUMBER = np.dtype(np.float64)
_declared: dict[str, Column] = {
    column.name: column
    for column in (
        Column(QID, "query", object, argument="qids"),
        Column(RELEVANCE, "document", _NUMBER, None, _are_weights, _NOT_NEGATIVE, RELEVANCE),
        Column(DOCID, "document", "id", "", argument="docids"),
        Column(WEIGHT, "query", _NUMBER, 1.0, _are_weights, _NOT_NEGATIVE, "query_weights"),
        Column(COMMENT, "document", "text", "", argument="comments"),
        Column(PLACE, "document", np.dtype(np.int32), 0, lambda n: n >= 0, _PLACES, PLACE),
        Column(CLICKED, "document", _NUMBER, 0.0, lambda x: (x >= 0) & (x <= 1), "must be from 0 to 1", CLICKED),
        Column(
            *(EXAMINED, "document", _NUMBER, np.nan, lambda x: (x == 0) | (x == 1) | np.isnan(x)),
            *("must be 0, 1 or NaN", EXAMINED),
        ),
        Column(
            *(PROPENSITY, "document", _NUMBER, np.nan, lambda x: ((x > 0) & (x <= 1)) | np.isnan(x)),
            *("must be above 0 and at most 1, or NaN", PROPENSITY),
        ),
        Column(TIME, "query", np.dtype("datetime64[ms]"), np.datetime64("NaT", "ms"), argument=TIME),
        Column(POLICY, "query", "text", "", argument=POLICY),
        Column(SESSION, "query", "id", "", argument=SESSION),
        Column(USER_QUERY, "query", "text", "", argument=USER_QUERY),
    )
}
BUILT_IN = frozenset(_declared)
OF_IMPRESSIONS = frozenset((PLACE, CLICKED, EXAMINED, PROPENSITY, TIME, POLICY, SESSION, USER_QUERY))
OF_JUDGED = BUILT_IN - OF_IMPRESSIONS


def declare(
    name: str,
    *,
    per: Literal["document", "query"],
    dtype: Any = np.float64,
    fill: Any = None,
    check: Check | None = None,
    rule: str = "must be valid",
) -> Column:
    """Declare a column, so that streams, frames, stores, Parquet files, tables and workers carry it.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and underscores. In frames and files, a column of this name is no feature any more,
        unless it is named as one.
    per : "document" or "query"
        What has one value each. Frames, tables and Parquet files repeat a query's value for each of its documents.
    dtype : dtype, "text", or "id"
        Numbers, booleans or dates of this type; text; or ids, which are text or whole numbers.
    fill : any
        Value where a source without this column is joined with others; without one, that is an error. NaN and NaT also
        stand for single values that are missing; with others none may be.
    check : callable, optional
        Takes an array of values and returns a boolean for each: whether it is valid.
    rule : str
        What `check` demands, for the message: "must be between 0 and 1".

    Examples
    --------
    >>> import perceptrank as pr
    >>> _ = declare("in_stock", per="document", dtype=bool, fill=False)
    >>> stream = pr.QueryStream.from_arrays([[1.0], [2.0]], [0, 1], columns={"in_stock": [1, 0]})
    >>> stream.columns["in_stock"].tolist(), list(stream.to_frame().columns)
    ([True, False], ['qid', 'relevance', 'f1', 'in_stock'])
    >>> withdraw("in_stock")
    """
    check_choice("per", per, ("document", "query"))
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        raise ValueError(
            f"name must be lower-case letters, digits and underscores, and none of {', '.join(sorted(_RESERVED))}, "
            f"got {name!r}"
        )
    if dtype is str:
        dtype = "text"
    if not (isinstance(dtype, str) and dtype in _TEXTS):
        dtype = np.dtype(dtype)
        if dtype.kind not in "biufmM":
            raise ValueError(f"dtype must be numbers, booleans, dates, 'text' or 'id', got {dtype}")
    column = Column(name, per, dtype, fill, check, rule, name)
    if fill is not None:
        column.convert(np.asarray([fill]) if not column.is_text else [fill], 1)
    known = _declared.get(name, column)
    # Functions may differ: a plugin that is loaded again has new ones.
    if name in BUILT_IN or repr(replace(known, check=None)) != repr(replace(column, check=None)):
        raise ValueError(f"the column {name!r} is declared already, as {known.dtype} per {known.per}")
    _declared[name] = column
    return column


def withdraw(name: str) -> None:
    """Forget a column that was declared.

    Parameters
    ----------
    name : str
    """
    if name in BUILT_IN or name not in _declared:
        raise ValueError(f"no column of the name {name!r} was declared")
    del _declared[name]


def declared() -> dict[str, Column]:
    """Return all columns by name: those of this package, then others in the order of their declaration.

    Examples
    --------
    >>> list(declared())[:5], list(declared())[5:9]
    (['qid', 'relevance', 'docid', 'query_weight', 'comment'], ['place', 'clicked', 'examined', 'propensity'])
    """
    return dict(_declared)


def optional_columns() -> dict[str, Column]:
    """Return all columns but the query ids and the grades, whose names in files the caller may choose."""
    return {name: column for name, column in _declared.items() if name not in (QID, RELEVANCE)}


def recognized_columns(names: Iterable[str]) -> dict[str, Column]:
    """Return the optional columns that a frame or file with columns of these names has.

    "time" or "place" may well be a feature: the columns of impressions are recognized only where ``clicked`` and
    ``place`` are both there. "user_query" is no feature anywhere.
    """
    present = set(names)
    has_clicks = {PLACE, CLICKED} <= present
    return {
        name: column
        for name, column in optional_columns().items()
        if name in present and (has_clicks or name not in OF_IMPRESSIONS - {USER_QUERY})
    }


def find_column(name: str) -> Column:
    """Return a column by name; raise `ValueError` if it is not declared."""
    if name not in _declared:
        raise ValueError(f"the column {name!r} is not declared: perceptrank.stream.columns.declare does that")
    return _declared[name]


def added_columns() -> list[Column]:
    """Return the columns that are not of this package, for another process."""
    return [column for name, column in _declared.items() if name not in BUILT_IN]


def add_columns(columns: Iterable[Column]) -> None:
    """Declare the columns of another process here."""
    _declared.update({column.name: column for column in columns})


def convert_columns(columns: Mapping[str, Any], offsets: Ints) -> tuple[dict[str, Values], dict[str, Values]]:
    """Return copies of columns per document, and of columns per query, in their types; those that are None are absent.

    Columns per query may have a value for each document, the same for all documents of a query.
    """
    n_queries, n_documents = len(offsets) - 1, int(offsets[-1])
    qids = np.arange(n_queries) if columns.get(QID) is None else np.asarray(columns[QID])
    if qids.shape != (n_queries,):
        raise ValueError(f"qids must name each of the {n_queries} queries, got shape {qids.shape}")
    documents: dict[str, Values] = {}
    queries: dict[str, Values] = {QID: qids}
    for name, values in columns.items():
        if values is None or name == QID:
            continue
        column = find_column(name)
        if column.per == "document":
            documents[name] = _copy(column.convert(values, n_documents))
        else:
            queries[name] = _copy(_convert_per_query(column, values, offsets, qids))
    check_impressions(documents, offsets, qids)
    return documents, queries


def check_impressions(documents: Mapping[str, Values], offsets: Ints, qids: npt.NDArray[Any]) -> None:
    """Raise if two documents of a query have the same place, or one was clicked that was not shown."""
    if PLACE not in documents:
        return
    places = np.asarray(documents[PLACE], dtype=np.int64)
    query_of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    if CLICKED in documents and (unseen := np.asarray((places == 0) & (np.asarray(documents[CLICKED]) > 0))).any():
        row = int(np.argmax(unseen))
        qid = _shown(qids[query_of_row[row]])
        raise ValueError(f"clicked must be 0 where place is 0 (not shown), got a click at document {row}, query {qid}")
    order = np.lexsort((places, query_of_row))
    ranked, queries = places[order], query_of_row[order]
    same = (ranked[1:] == ranked[:-1]) & (queries[1:] == queries[:-1]) & (ranked[1:] > 0)
    if same.any():
        k = int(np.argmax(same))
        qid = _shown(qids[queries[k]])
        raise ValueError(f"place must differ between the documents of a query, got {ranked[k]} twice in query {qid}")


def count_gaps(places: Ints, offsets: Ints) -> int:
    """Return the number of impressions in which a place above the last one shown has no document."""
    shown = np.add.reduceat(places > 0, offsets[:-1])
    return int((np.maximum.reduceat(places, offsets[:-1]) > shown).sum())


def _copy(values: Values) -> Values:
    return values if isinstance(values, Texts) else values.copy()


def _convert_per_query(column: Column, values: Any, offsets: Ints, qids: npt.NDArray[Any]) -> Values:
    n_queries, n_documents = len(offsets) - 1, int(offsets[-1])
    shape = (len(values),) if isinstance(values, Texts) else np.shape(values)
    if shape not in ((n_queries,), (n_documents,)):
        per = f"one value per query ({n_queries}) or per document ({n_documents})"
        raise ValueError(f"{column.argument} must have {per}, got shape {shape}")
    if shape == (n_queries,):
        return column.convert(values, n_queries)
    return first_of_queries(column, column.convert(values, n_documents, "document"), offsets, qids)


def first_of_queries(column: Column, values: Values, offsets: Ints, qids: npt.NDArray[Any]) -> Values:
    """Return each query's value of a column that has one per document; raise if documents of a query differ."""
    first = values[offsets[:-1]]
    expected = first[np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))]
    if (differ := differences(values, expected)).any():
        row = int(np.argmax(differ))
        q = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(
            f"{column.argument} must be the same for all documents of a query, got {_shown(expected[row])} and "
            f"{_shown(values[row])} in query {_shown(qids[q])}"
        )
    return first


def split_columns(
    columns: Mapping[str, Values], offsets: Ints, qids: npt.NDArray[Any]
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Split columns that have a value for each document into those per document, and those per query."""
    documents: dict[str, Values] = {}
    queries: dict[str, Values] = {QID: qids}
    for name, values in columns.items():
        column = find_column(name)
        if column.per == "document":
            documents[name] = values
        else:
            queries[name] = first_of_queries(column, values, offsets, qids)
    check_impressions(documents, offsets, qids)
    return documents, queries


def differences(values: Values, others: Values) -> Bools:
    """Tell which values of a column differ from others; missing ones are alike."""
    if isinstance(values, Texts) and isinstance(others, Texts):
        return ~np.asarray(values == others, dtype=bool)
    unequal = np.asarray(values) != np.asarray(others)
    if isinstance(values, Texts) or isinstance(others, Texts):
        return np.asarray(unequal, dtype=bool)
    return np.asarray(unequal & ~(_are_missing(values) & _are_missing(others)), dtype=bool)


def _shown(value: Any) -> str:
    return repr(str(value)) if isinstance(value, str) else str(value)


def join_columns(parts: Sequence[Mapping[str, Values | None]], sizes: Sequence[int]) -> dict[str, Values]:
    """Join columns of several sources, whose numbers of rows are `sizes`; fill in those that a source lacks."""
    joined: dict[str, Values] = {}
    for name in dict.fromkeys(chain.from_iterable(parts)):
        values = [columns.get(name) for columns in parts]
        is_absent = [part is None for part in values]
        if True in is_absent:
            if False not in is_absent:
                continue
            column = find_column(name)
            values = [column.filled(n) if part is None else part for part, n in zip(values, sizes, strict=True)]
        joined[name] = concatenate_values(values)
    return joined


def concatenate_values(parts: Sequence[Any]) -> Values:
    """Concatenate values of one column, as a copy."""
    return Texts.concatenate(parts) if isinstance(parts[0], Texts) else np.concatenate(parts)


def without_unknown_grades(columns: dict[str, Values]) -> dict[str, Values]:
    """Return columns without the grades if any of them is NaN: a stream has the grades of all documents, or none."""
    if RELEVANCE in columns and _are_missing(np.asarray(columns[RELEVANCE])).any():
        return {name: values for name, values in columns.items() if name != RELEVANCE}
    return columns


def take_rows(columns: Mapping[str, Values], rows: slice | Ints) -> dict[str, Values]:
    """Select rows of columns: views for a slice, else copies."""
    return {name: values[rows] for name, values in columns.items()}
