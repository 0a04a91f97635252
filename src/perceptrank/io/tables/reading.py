"""Tables as rows of a stream: joined, checked, and with the same features everywhere."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import TwoValuesError, ValuesOfQueries
from perceptrank.io.errors import FileFormatError, FormatError, no_documents
from perceptrank.io.paths import PathLike, find_files, is_rereadable
from perceptrank.io.tables.chunks import table_format
from perceptrank.io.tables.columns import ROLES, Role, TableColumns, Wanted, column_of, missing_column
from perceptrank.io.tables.delimited import DelimitedTable, open_delimited
from perceptrank.io.tables.document_table import DocumentTable, read_json, read_trec
from perceptrank.io.tables.rows import (
    Rows,
    absent_feature,
    check_features,
    check_grades,
    check_weights,
    convert_column,
)
from perceptrank.kernels.arrays import Features, Ints
from perceptrank.stream.columns import find_column, join_columns, take_rows

Report = Callable[[TableColumns], object]
Table: TypeAlias = DelimitedTable | DocumentTable

_RUN_FEATURES = ("score", "rank")


class Tables:
    """Tables to read as one stream: `paths` have grades, `feature_paths` features to join.

    Without `feature_paths` the tables with grades have the features too.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        feature_paths: PathLike | Iterable[PathLike] | None,
        wanted: Wanted,
        missing: str,
        report: Report | None,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self._missing, self._progress, self.dtype = missing, progress, wanted.dtype
        files = _find_regular_files(paths)
        feature_files = [] if feature_paths is None else _find_regular_files(feature_paths)
        self.files = [*files, *feature_files]
        self._n_bytes = sum(map(os.path.getsize, self.files))
        is_joined = feature_paths is not None
        wanted = wanted._replace(is_shared=is_joined)
        required = {"qid", "docid", "relevance"} if is_joined else {"qid", "relevance"}
        graded = wanted._replace(required=required, with_features=not is_joined)
        self._graded = [open_table(file, graded._replace(features=None) if is_joined else graded) for file in files]
        roles = {role: name for role, name in wanted.roles.items() if role != "relevance"}
        featured = wanted._replace(roles=roles, required={"qid", "docid"})
        self._featured = [open_table(file, featured) for file in feature_files]
        self._with_features = self._featured or self._graded
        for table in self._with_features:
            if not table.columns.features:
                where = "" if is_joined else "; `feature_paths=…` names a table that has them"
                raise FileFormatError(table.path, f" has no features: no column of numbers is left for them{where}")
        self._check_roles(wanted, [table.columns for table in [*self._graded, *self._featured]])
        for table in [*self._graded, *self._featured] if report is not None else []:
            report(table.columns)  # type: ignore[misc]

    def _check_roles(self, wanted: Wanted, columns: list[TableColumns]) -> None:
        """Raise if no table has a column that the caller names: each may have its own names."""
        for role, name in wanted.roles.items():
            if role == "relevance" or name in [one.roles.get(role) for one in columns]:
                continue
            what = ""
            if role == "weight":
                has_trec = any(one.format in ("qrels", "run") for one in columns)
                what = " of query weights" + ("; files of TREC have no place for weights" if has_trec else "")
            raise ValueError(f"none of {', '.join(self.files)} has a column {name!r}{what}")

    def find_names(self) -> tuple[str, ...]:
        """Return the names of all features, the union over the tables; read them for that where necessary."""
        for table in self._with_features:
            if not table.knows_names:
                table.find_names()
        return self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of features that are known so far, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for table in self._with_features for name in table.names))

    @property
    def know_names(self) -> bool:
        """True if all names of features are known."""
        return all(table.knows_names for table in self._with_features)

    def rows(self) -> Iterator[Rows]:
        """Read the rows that have grades and features; warn about those that lack either, raise if none has both."""
        self._n_read = self._n_ungraded = 0
        self._of_queries = ValuesOfQueries(_columns_of_queries([*self._graded, *self._featured]))
        left_out: list[str] = []
        yield from self._join_rows(left_out) if self._featured else self._own_rows()
        left_out += [f"{self._n_ungraded:,} rows without a grade"] if self._n_ungraded else []
        if left_out:
            warnings.warn(f"{' and '.join(left_out)} are left out", stacklevel=2)

    def align(self, rows: Rows, names: tuple[str, ...]) -> Rows:
        """Return rows with the features of all names, in their order; those that rows lack are missing."""
        if rows.names == names:
            return rows
        absent = [name for name in names if name not in set(rows.names)]
        if absent and self._missing == "error":
            raise absent_feature(rows, 0, absent[0])
        X: Features = np.full((len(rows), len(names)), 0.0 if self._missing == "zero" else np.nan, rows.X.dtype)
        index = {name: j for j, name in enumerate(names)}
        X[:, [index[name] for name in rows.names]] = rows.X
        return replace(rows, X=X, names=names)

    def _own_rows(self) -> Iterator[Rows]:
        is_empty = True
        for rows in self._graded_rows():
            is_empty = False
            yield check_features(rows, self._missing)
        if is_empty:
            raise no_documents(self.files)

    def _graded_rows(self) -> Iterator[Rows]:
        """Read the rows that have a grade, and, to be joined, a document."""
        names = _columns_of_queries(self._graded)
        for table in self._graded:
            for rows in self._read(table):
                check_grades(rows, table.columns.roles["relevance"])
                is_graded = ~np.isnan(rows.columns["relevance"])
                no_query = _are_empty(rows.qids)
                if self._featured:
                    has_document = rows.columns["docid"].lengths > 0
                    if (without := no_query & (is_graded | has_document)).any():
                        line = rows.line(int(np.argmax(without)))
                        raise FormatError(rows.path, line, 1, "a judgement must name its query")
                    is_graded &= has_document
                self._n_ungraded += int((~is_graded & ~no_query).sum())
                graded = rows.take(is_graded)
                if len(graded):
                    yield self._check_columns(table, graded, names)

    def _check_columns(self, table: Table, rows: Rows, names: set[str]) -> Rows:
        """Return rows with valid columns; raise unless each names its query, with values that it has everywhere.

        `names` are columns per query that are filled in if the table does not have them.
        """
        no_query = _are_empty(rows.qids)
        if no_query.any():
            raise FormatError(rows.path, rows.line(int(np.argmax(no_query))), 1, "a row must name its query")
        roles = table.columns.roles
        if "weight" in roles:
            check_weights(rows, roles["weight"])
        added = {role: convert_column(rows, column_of(role), roles[role]) for role in roles if role not in ROLES}
        filled = {name: find_column(name).filled(len(rows)) for name in names if name not in rows.columns}
        rows = replace(rows, columns=rows.columns | filled | added)
        try:
            self._of_queries.check(rows.piece())
        except TwoValuesError as error:
            raise FormatError(rows.path, rows.line(error.row), 1, str(error)) from None
        return rows

    def _join_rows(self, left_out: list[str]) -> Iterator[Rows]:
        """Read the rows whose documents are judged; enter what is left out at the end."""
        judgements = _Judgements()
        for rows in self._graded_rows():
            judgements.add(rows)
        columns = judgements.finish()
        used = np.zeros(len(judgements.numbers), dtype=bool)
        names = _columns_of_queries(self._featured) - columns.keys()
        n_unjudged, unjudged = 0, ""
        for table in self._featured:
            for rows in self._read(table):
                numbers = judgements.find(rows)
                without = (numbers < 0) & ~(_are_empty(rows.qids) & (rows.columns["docid"].lengths == 0))
                n_unjudged += int(without.sum())
                if without.any() and not unjudged:
                    unjudged = _shown_pair(rows, int(np.argmax(without)))
                chosen, numbers = rows.take(numbers >= 0), numbers[numbers >= 0]
                _mark_used(chosen, numbers, used)
                if not len(chosen):
                    continue
                own = self._check_columns(table, chosen, names).columns
                yield check_features(replace(chosen, columns=own | take_rows(columns, numbers)), self._missing)
        if not used.any():
            graded, featured = (", ".join(table.path for table in one) for one in (self._graded, self._featured))
            pairs = ", ".join(f"{qid!r}/{docid!r}" for qid, docid in list(judgements.numbers)[:2])
            raise ValueError(
                f"no judgement has features: of query/document, the {len(used):,} judgements in {graded} have "
                f"{pairs or 'none'}, the features in {featured} {unjudged or 'none'}"
            )
        n_left = int(len(used) - used.sum())
        left_out += [f"{n_left:,} judgements without features"] if n_left else []
        left_out += [f"{n_unjudged:,} rows of features without a judgement"] if n_unjudged else []

    def _read(self, table: Table) -> Iterator[Rows]:
        def report(n_read: int) -> None:
            if self._progress is not None:
                self._progress(self._n_read + n_read, self._n_bytes)

        yield from table.rows(report)
        self._n_read += os.path.getsize(table.path)


class _Judgements:
    """Judgements in memory; `numbers` has the number of each query and document."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}
        self._grades: list[float] = []
        self._columns: list[dict[str, Any]] = []
        self._sizes: list[int] = []

    def add(self, rows: Rows) -> None:
        """Add rows; raise if a document of a query is graded twice, and differently."""
        new = []
        for row, (key, grade) in enumerate(zip(_keys(rows), rows.columns["relevance"].tolist(), strict=True)):
            number = self.numbers.setdefault(key, len(self.numbers))
            if number == len(self._grades):
                self._grades.append(grade)
                new.append(row)
            elif self._grades[number] != grade:
                twice = f"is graded twice, {self._grades[number]:g} and {grade:g}"
                raise FormatError(rows.path, rows.line(row), 1, f"document {key[1]!r} of query {key[0]!r} {twice}")
        self._columns.append(rows.take(np.array(new, dtype=np.intp)).columns)
        self._sizes.append(len(new))

    def find(self, rows: Rows) -> Ints:
        """Return the numbers of the rows' judgements, -1 where there is none."""
        return np.array([self.numbers.get(key, -1) for key in _keys(rows)], dtype=np.int64)

    def finish(self) -> dict[str, Any]:
        """Return the columns of all judgements."""
        joined = join_columns(self._columns, self._sizes)
        return {name: values for name, values in joined.items() if name != "docid"}


def _columns_of_queries(tables: Iterable[Table]) -> set[str]:
    """Return the names of the columns per query, but their ids, that any table has."""
    columns = {column_of(role) for table in tables for role in table.columns.roles if role != "qid"}
    return {column.name for column in columns if column.per == "query"}


def _keys(rows: Rows) -> Iterator[tuple[str, str]]:
    return zip(rows.qids.tolist(), rows.columns["docid"].tolist(), strict=True)


def _mark_used(rows: Rows, numbers: Ints, used: npt.NDArray[np.bool_]) -> None:
    """Mark judgements as used; raise if one is used for a second time."""
    repeated = np.ones(len(numbers), dtype=bool)
    repeated[np.unique(numbers, return_index=True)[1]] = False
    twice = used[numbers] | repeated
    if twice.any():
        row = int(np.argmax(twice))
        document = f"document {rows.columns['docid'][row]!r} of query {rows.qids[row]!r}"
        raise FormatError(rows.path, rows.line(row), 1, f"{document} has features a second time")
    used[numbers] = True


def _shown_pair(rows: Rows, row: int) -> str:
    return f"{rows.qids[row]!r}/{rows.columns['docid'][row]!r}"


def _are_empty(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which texts are None or empty."""
    return np.asarray(~values.astype(bool))


def open_table(path: str, wanted: Wanted) -> Table:
    """Open a table, whatever its format."""
    format = table_format(path)
    if format in ("csv", "tsv"):
        return open_delimited(path, format, wanted)
    if format == "jsonl":
        return DocumentTable(path, format, wanted, partial(read_json, path))
    if "relevance" in wanted.required and format == "run":
        raise FileFormatError(path, " is a run, which has no grades: name the qrels first, and the run as features")
    if wanted.with_features and format == "qrels":
        raise FileFormatError(path, " has judgements, no features: name the file that has them too")
    for name in wanted.features or ():
        if wanted.with_features and name not in _RUN_FEATURES:
            raise missing_column(path, name, _RUN_FEATURES)
    own = wanted._replace(roles={}, features=wanted.features or _RUN_FEATURES, is_shared=True)
    return DocumentTable(path, format, own, partial(read_trec, path, format))


def _find_regular_files(paths: PathLike | Iterable[PathLike]) -> list[str]:
    files = []
    for file in find_files(paths):
        if not isinstance(file, (str, os.PathLike)):
            raise TypeError(f"tables are given by their paths, got {type(file).__name__}")
        if not is_rereadable(file):
            raise ValueError(
                f"{os.fspath(file)} must be a regular file: the columns are looked at before the rows are read"
            )
        files.append(os.fspath(file))
    return files


def as_wanted(roles: dict[Role, Any], features: str | Sequence[str] | None = None) -> Wanted:
    """Check names of columns."""
    named = {role: roles[role] for role in ROLES if roles.get(role) is not None}
    for role, name in named.items():
        if not isinstance(name, str):
            raise TypeError(f"{role} must be the name of a column, got {name!r}")
    if features is None:
        return Wanted(named)
    chosen = [features] if isinstance(features, str) else list(features)
    if not chosen or not all(isinstance(name, str) for name in chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(f"features must be different names of columns, one or more, got {features!r}")
    return Wanted(named, tuple(chosen))
