"""Read tables into memory, or scan them block by block."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import BlockAssembler, RepeatedQueryError, ValuesOfQueries, as_id_array
from perceptrank.io.errors import FileFormatError, FormatError, no_documents
from perceptrank.io.growing import GrowingArray
from perceptrank.io.paths import PathLike, find_paths, is_rereadable
from perceptrank.io.tables.chunks import table_format
from perceptrank.io.tables.columns import (
    ROLES,
    Role,
    TableColumns,
    Wanted,
    column_of,
    is_grade_name,
    listed,
    missing_column,
)
from perceptrank.io.tables.delimited import DelimitedTable, open_delimited
from perceptrank.io.tables.document_table import DocumentTable, read_json, read_trec
from perceptrank.io.tables.msearch import holds_requests, read_msearch
from perceptrank.io.tables.rows import Rows, align, check_features, convert_column
from perceptrank.kernels.arrays import Ints
from perceptrank.stream.blocks import Scan
from perceptrank.stream.columns import (
    WEIGHT,
    Values,
    find_column,
    join_columns,
    split_columns,
    take_rows,
    without_unknown_grades,
)
from perceptrank.stream.grouping import group_runs
from perceptrank.stream.memory import free_memory
from perceptrank.stream.query_stream import BLOCK_BYTES, MISSING, QueryStream
from perceptrank.stream.texts import Texts, mix
from perceptrank.stream.validation import ParameterError, check_choice, check_positive_whole

Report = Callable[[TableColumns], object]
Table: TypeAlias = DelimitedTable | DocumentTable

_RUN_FEATURES = ("score", "rank")
Missing = Literal["error", "keep", "zero"]


def read_table(
    paths: PathLike | Iterable[PathLike],
    feature_paths: PathLike | Iterable[PathLike] | None = None,
    *,
    qid: str | None = None,
    docid: str | None = None,
    relevance: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    missing: Missing = "error",
    unjudged: Literal["skip", "zero"] = "skip",
    judged: bool = True,
    dtype: npt.DTypeLike = np.float32,
    report: Report | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> QueryStream:
    r"""Read judgements and features from CSV, TSV, JSON lines, logs of search engines or TREC files into memory.

    A row is a document of a query. Grades and features stand in one table, or in two, which are joined by query and
    document. Ids of queries and of documents are text.

    Parameters
    ----------
    paths : path or several of them
        Tables with the grades, plain or compressed. Their format is told by the suffix, ``.csv``, ``.tsv``, ``.jsonl``
        (``.ndjson``), ``.qrels`` or ``.run``, else by the first line.
    feature_paths : path or several of them, optional
        Tables with the features, if they are not in the first ones. JSON lines may be feature logs of Elasticsearch,
        OpenSearch or Solr, as hits or as whole responses, with the query beside them; or the requests of an
        ``_msearch`` and, after them, the responses.
    qid, docid, relevance : str, optional
        Columns of queries, documents and grades. By default they are found by their usual names: query, qid,
        search_term; docid, document_id, id; grade, rating, label and the like, though no grades in `feature_paths`.
    weight : str, optional
        Column of the query weights, numbers >= 0 that are the same in all rows of a query, in the tables with the
        grades or in those with the features; default ``query_weight``, if there is such a column. Queries of a table
        without it have weight 1.
    features : str or sequence of str, optional
        Columns of features; default all columns of numbers that are no ids or grades. The names are the union over
        all rows.
    missing : "error", "keep", or "zero"
        Features that a row does not have: refuse them, keep them as NaN, or take them for 0, as search engines do.
    unjudged : "skip" or "zero"
        Rows of features without a grade: leave them out, or let them have grade 0, if their query is judged, as scores
        that are normalized within a query need all of its documents.
    judged : bool
        False to read documents to be ranked: they need no grades. A stream has grades only if all of its documents do.
    dtype : float32 or float64
        Type of the features.
    report : callable, optional
        Called with a `TableColumns` for every table: what its columns were taken for. ``print`` will do.
    progress : callable, optional
        Called with the number of bytes read so far and in total.

    Returns
    -------
    QueryStream
        Queries in the order of their first row with features; documents of a query need not be adjacent.

    Raises
    ------
    FormatError
        For an invalid cell or line, with its file, line and column; for columns that are missing; for two columns that
        may hold the grades; for a document that a query has twice.
    ValueError
        If no judgement has features, or an argument is invalid.
    FileNotFoundError, ImportError, MemoryError
        If a file, a package that reads its format, or memory for the table is missing.

    Warns
    -----
    UserWarning
        If judgements have no features, features no judgement, or rows no grade: how many are left out. If columns are
        not used, and neither `features` is given nor `report` told: which. If a feature is the grade.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "judgements.csv")
    >>> _ = path.write_text("query,docid,rating,bm25\nshoes,a,2,1.5\nshoes,b,0,0.5\nhats,c,1,3\n")
    >>> stream = read_table(path)
    >>> stream, stream.qids.tolist(), stream.docids.tolist()
    (QueryStream(2 queries, 3 documents, 1 features), ['shoes', 'hats'], ['a', 'b', 'c'])
    """
    roles = {"qid": qid, "docid": docid, "relevance": relevance, "weight": weight}
    wanted = as_wanted(roles, features, dtype)
    tables = Tables(paths, feature_paths, wanted, missing, report, progress, unjudged, judged=judged)
    batches: Iterable[Rows] = tables.rows()
    if not tables.know_names:  # until all rows are read
        batches = list(map(forget_text, batches))
    return _collect(batches, tables)


def scan_table(
    paths: PathLike | Iterable[PathLike],
    feature_paths: PathLike | Iterable[PathLike] | None = None,
    *,
    qid: str | None = None,
    docid: str | None = None,
    relevance: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    missing: Missing = "error",
    judged: bool = True,
    dtype: npt.DTypeLike = np.float32,
    report: Report | None = None,
    progress: Callable[[int, int], object] | None = None,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    r"""Read tables lazily, in re-iterable blocks of whole queries.

    The rows of a query must be adjacent in the table with the features. Judgements in a table of their own are held in
    memory. Where rows name their features, and `features` does not, the tables are read once beforehand, for the names.
    Other parameters are those of `read_table`, and so are the warnings that end each pass.

    Parameters
    ----------
    max_bytes : int
        Approximate size of a block's features.

    Raises
    ------
    FormatError
        Where `read_table` raises it, and for a query that comes back after another one.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "judgements.csv")
    >>> _ = path.write_text("query,docid,rating,bm25\nshoes,a,2,1.5\nshoes,b,0,0.5\nhats,c,1,3\n")
    >>> sum(len(block) for block in scan_table(path))
    2
    """
    check_positive_whole("max_bytes", max_bytes)
    roles = {"qid": qid, "docid": docid, "relevance": relevance, "weight": weight}
    wanted = as_wanted(roles, features, dtype)
    tables = Tables(paths, feature_paths, wanted, missing, report, progress, judged=judged)
    names = tables.find_names()

    def start() -> Iterator[QueryStream]:
        queries = BlockAssembler(max_bytes, names)
        for batch in tables.rows(are_adjacent=True):
            rows = align(batch, names, missing)
            n_rows = max(1, max_bytes // max(1, rows.X.itemsize * rows.X.shape[1]))
            first = 0
            for stop in [*rows.starts()[1:].tolist(), len(rows)]:
                if stop - first < n_rows and stop < len(rows):
                    continue
                part, first = rows.take(slice(first, stop)), stop
                try:
                    yield from queries.add(part.piece())
                except RepeatedQueryError as error:
                    problem = f"{error}; `read_table` groups them, in memory"
                    raise FormatError(part.path, part.line(error.start), 1, problem) from None
        yield from queries.flush()

    return Scan(start, f"tables in {', '.join(tables.files)}")


def forget_text(rows: Rows) -> Rows:
    """Return rows that do not hold the text they were read from, and know their first line only."""
    place = rows.place(0, "")
    return replace(rows, place=lambda row, column: place)


def _collect(batches: Iterable[Rows], tables: Tables) -> QueryStream:
    """Join rows into a stream, bringing the documents of each query together."""
    values = GrowingArray(tables.dtype)
    columns: list[Mapping[str, Values | None]] = []
    sizes: list[int] = []
    starts: list[int] = []
    qids: list[str] = []
    for rows in batches:
        X = align(rows, tables.names, tables.missing).X
        if X.nbytes > free_memory():
            size = (len(values) * X.itemsize + X.nbytes) / 1e9
            raise MemoryError(f"there is no memory for {size:.1f} GB of features; scan_table reads block by block")
        values.extend(X.ravel())
        piece = rows.piece()
        continues = int(bool(qids) and piece.qids[0] == qids[-1])
        qids += piece.qids[continues:]
        starts += [sum(sizes) + start for start in piece.starts[continues:]]
        columns.append(piece.columns)
        sizes.append(len(X))
    n_rows = sum(sizes)
    X = values.finish().reshape(n_rows, -1)
    joined = without_unknown_grades(join_columns(columns, sizes))
    order, offsets, ids = group_runs(as_id_array(qids), np.array([*starts, n_rows], dtype=np.int64))
    if order is not None:
        X, joined = X[order], take_rows(joined, order)
    return QueryStream._trusted(X, offsets, *split_columns(joined, offsets, ids), tables.names)


class Tables:
    """Tables to read as one stream: `paths` have grades, and the features, too, unless `feature_paths` have them."""

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        feature_paths: PathLike | Iterable[PathLike] | None,
        wanted: Wanted,
        missing: str,
        report: Report | None,
        progress: Callable[[int, int], object] | None,
        unjudged: str = "skip",
        *,
        judged: bool = True,
    ) -> None:
        check_choice("missing", missing, MISSING)
        check_choice("unjudged", unjudged, ("skip", "zero"))
        self._has_zeros, self._judged = unjudged == "zero", judged
        self.missing, self._progress, self.dtype = missing, progress, wanted.dtype
        files = find_paths(paths, "tables")
        feature_files = [] if feature_paths is None else find_paths(feature_paths, "tables")
        self.files = [*files, *feature_files]
        for file in self.files:
            if not is_rereadable(file):
                raise ValueError(f"{file} must be a regular file: the columns are looked at before the rows are read")
        self._n_bytes = sum(map(os.path.getsize, self.files))
        is_joined = feature_paths is not None
        wanted = wanted._replace(is_shared=is_joined)
        required = {"qid", *(["docid"] if is_joined else []), *(["relevance"] if judged else [])}
        graded = wanted._replace(required=required, with_features=not is_joined)
        self._graded = [open_table(file, graded._replace(features=None) if is_joined else graded) for file in files]
        roles = {role: name for role, name in wanted.roles.items() if role != "relevance"}
        featured = wanted._replace(roles=roles, required={"qid", "docid"}, with_grades=False)
        self._featured = open_tables(feature_files, featured)
        self._with_features, self._all = self._featured or self._graded, [*self._graded, *self._featured]
        for table in self._with_features:
            if not table.columns.features:
                where = "" if is_joined else "; `feature_paths=…` names a table that has them"
                raise FileFormatError(table.path, f" has no features: no column of numbers is left for them{where}")
        for role, name in wanted.roles.items():  # each table may have its own names
            if role == "relevance" or name in [table.columns.roles.get(role) for table in self._all]:
                continue
            what = ""
            if role == "weight":
                has_trec = any(table.columns.format in ("qrels", "run") for table in self._all)
                what = " of query weights" + ("; files of TREC have no place for weights" if has_trec else "")
            raise ValueError(f"none of {', '.join(self.files)} has a column {name!r}{what}")
        self._names_unused, self._reported = wanted.features is None, report is not None
        if report is not None:
            for table in self._all:
                report(table.columns)

    def find_names(self) -> tuple[str, ...]:
        """Return the names of all features, the union over the tables; read them for that where necessary."""
        for table in self._with_features:
            if not table.knows_names:
                for _ in table.rows():
                    pass
        return self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of features that are known so far, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for table in self._with_features for name in table.names))

    @property
    def know_names(self) -> bool:
        """True if all names of features are known."""
        return all(table.knows_names for table in self._with_features)

    def rows(self, *, are_adjacent: bool = False) -> Iterator[Rows]:
        """Read the rows that have grades and features; warn about those that lack either, raise if none has both.

        If the rows of a query are adjacent, it is forgotten when the next one begins. The first pass also warns of
        columns that are not used, unless the caller has chosen the features or knows it already.
        """
        self._n_read = self._n_ungraded = self._n_zeros = 0
        self._of_queries = ValuesOfQueries(_columns_of_queries(self._all))
        left_out: list[str] = []
        yield from self._join_rows(left_out) if self._featured else self._own_rows(are_adjacent)
        left_out += [f"{self._n_ungraded:,} rows without a grade"] if self._n_ungraded else []
        if self._n_zeros:
            warnings.warn(f"{self._n_zeros:,} rows without a grade have grade 0", stacklevel=2)
        if left_out:
            warnings.warn(f"{' and '.join(left_out)} are left out", stacklevel=2)
        for table in self._all if self._names_unused else []:
            known = table.columns.ignored if self._reported else ()
            unused = {name: n_rows for name, n_rows in table.unused.items() if name not in known}
            if unused:
                rule = "features are columns of numbers, or those that `features=…` names"
                warnings.warn(f"{table.path}: columns that are not used: {listed(unused)}; {rule}", stacklevel=2)
        self._names_unused = False

    def _own_rows(self, are_adjacent: bool) -> Iterator[Rows]:
        rows = None
        documents = _DocumentsOfQueries()
        for rows in self._graded_rows():
            if "docid" in rows.columns:
                documents.add(rows)
                if are_adjacent:
                    documents.forget_all_but(rows.qids[-1])
            yield check_features(rows, self.missing)
        if rows is None:
            raise no_documents(self.files)

    def _graded_rows(self) -> Iterator[Rows]:
        """Read the rows that have a grade, if they must, and, to be joined, a document."""
        names = _columns_of_queries(self._graded)
        for table in self._graded:
            for rows in self._read(table):
                if "relevance" not in rows.columns:
                    rows.columns["relevance"] = np.full(len(rows), np.nan)
                grades = rows.columns["relevance"]
                are_valid = ~((grades < 0) | np.isinf(grades))
                rows.require(are_valid, table.columns.roles.get("relevance", ""), "a grade must be a number >= 0")
                is_graded = ~np.isnan(grades) if self._judged else ~are_blank(rows)
                no_query = _are_empty(rows.qids)
                if self._has_zeros and not self._featured:
                    self._n_zeros += int((has_none := ~is_graded & ~no_query).sum())
                    rows.columns["relevance"] = np.where(has_none, 0.0, grades)
                    is_graded |= has_none
                if self._featured:
                    has_document = rows.columns["docid"].lengths > 0
                    if (without := no_query & (is_graded | has_document)).any():
                        line = rows.line(int(np.argmax(without)))
                        raise FormatError(rows.path, line, 1, "a judgement must name its query")
                    is_graded &= has_document
                self._n_ungraded += int((~is_graded & ~are_blank(rows)).sum())
                graded = rows.take(is_graded)
                if len(graded):
                    yield self._check_columns(table, graded, names)

    def _check_columns(self, table: Table, rows: Rows, names: set[str]) -> Rows:
        """Return rows with valid columns, those of `names` at least; raise if a query is missing, or has two values."""
        if (no_query := _are_empty(rows.qids)).any():
            raise FormatError(rows.path, rows.line(int(np.argmax(no_query))), 1, "a row must name its query")
        roles = table.columns.roles
        if "weight" in roles:
            weights = rows.columns[WEIGHT]
            are_valid = (weights >= 0) & (weights < np.inf)
            rows.require(are_valid, roles["weight"], "the weight of a query must be a finite number >= 0")
        added = {role: convert_column(rows, column_of(role), roles[role]) for role in roles if role not in ROLES}
        filled = {name: find_column(name).filled(len(rows)) for name in names if name not in rows.columns}
        rows = replace(rows, columns=rows.columns | filled | added)
        if (wrong := self._of_queries.find_contradiction(rows.piece())) is not None:
            raise FormatError(rows.path, rows.line(wrong[0]), 1, wrong[1])
        return rows

    def _join_rows(self, left_out: list[str]) -> Iterator[Rows]:
        """Read the rows whose documents are judged; enter what is left out at the end."""
        judgements = _Judgements()
        for rows in self._graded_rows():
            judgements.add(rows)
        columns = judgements.finish()
        used = np.zeros(len(judgements.numbers), dtype=bool)
        zeros = _Unjudged(judgements) if self._has_zeros else None
        names = _columns_of_queries(self._featured) - columns.keys()
        n_unjudged, unjudged = 0, ""
        are_grades: dict[str, bool] = {}
        for table in self._featured:
            for rows in self._read(table):
                numbers = judgements.find(rows)
                without = (numbers < 0) & ~are_blank(rows)
                n_unjudged += int(without.sum())
                if without.any() and not unjudged:
                    row = int(np.argmax(without))
                    unjudged = f"{rows.qids[row]!r}/{rows.columns['docid'][row]!r}"
                is_judged = numbers >= 0
                _mark_used(rows.take(is_judged), numbers[is_judged], used)
                if zeros is not None:
                    numbers = zeros.find(rows, numbers)
                chosen, is_judged, numbers = rows.take(numbers >= 0), is_judged[numbers >= 0], numbers[numbers >= 0]
                if not len(chosen):
                    continue
                own = self._check_columns(table, chosen, names).columns
                judged = take_rows(columns, numbers)
                judged["relevance"] = np.where(is_judged, judged["relevance"], 0.0)
                joined = check_features(replace(chosen, columns=own | judged), self.missing)
                for j, name in enumerate(joined.names):
                    if is_grade_name(name):
                        equals = bool((joined.X[:, j] == joined.columns["relevance"]).all())
                        are_grades[name] = are_grades.get(name, True) and equals
                yield joined
        if not used.any():
            graded, featured = (", ".join(table.path for table in tables) for tables in (self._graded, self._featured))
            pairs = ", ".join(f"{qid!r}/{docid!r}" for qid, docid in list(judgements.numbers)[:2])
            raise ValueError(
                f"no judgement has features: of query/document, the {len(used):,} judgements in {graded} have "
                f"{pairs or 'none'}, the features in {featured} {unjudged or 'none'}"
            )
        self._n_zeros = 0 if zeros is None else len(zeros.known)
        n_unjudged -= self._n_zeros
        n_left = int(len(used) - used.sum())
        left_out += [f"{n_left:,} judgements without features"] if n_left else []
        left_out += [f"{n_unjudged:,} rows of features without a judgement"] if n_unjudged else []
        left_out += [f"{judgements.n_repeated:,} repeated judgements"] if judgements.n_repeated else []
        for name in (name for name, are_equal in are_grades.items() if are_equal):
            ways = "a learner would only learn that; `features=…` names the features without it"
            warnings.warn(f"feature {name!r} is the grade in all {len(used) - n_left:,} rows: {ways}", stacklevel=3)

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
        self.n_repeated = 0

    def add(self, rows: Rows) -> None:
        """Add rows; raise if a document of a query is graded twice, and differently."""
        new = []
        for row, (key, grade) in enumerate(zip(_keys(rows), rows.columns["relevance"].tolist(), strict=True)):
            number = self.numbers.setdefault(key, len(self.numbers))
            if number == len(self._grades):
                self._grades.append(grade)
                new.append(row)
            elif self._grades[number] < grade or self._grades[number] > grade:
                twice = f"is graded twice, {self._grades[number]:g} and {grade:g}"
                raise FormatError(rows.path, rows.line(row), 1, f"document {key[1]!r} of query {key[0]!r} {twice}")
        self.n_repeated += len(rows) - len(new)
        self._columns.append(rows.take(np.array(new, dtype=np.intp)).columns)
        self._sizes.append(len(new))

    def find(self, rows: Rows) -> Ints:
        """Return the numbers of the rows' judgements, -1 where there is none."""
        return np.array([self.numbers.get(key, -1) for key in _keys(rows)], dtype=np.int64)

    def finish(self) -> dict[str, Any]:
        """Return the columns of all judgements."""
        joined = join_columns(self._columns, self._sizes)
        return {name: values for name, values in joined.items() if name != "docid"}


class _Unjudged:
    """Rows of features without a judgement, of queries that have others."""

    def __init__(self, judgements: _Judgements) -> None:
        self._first: dict[str, int] = {}
        for (qid, _), number in judgements.numbers.items():
            self._first.setdefault(qid, number)
        self.known: set[tuple[str, str]] = set()

    def find(self, rows: Rows, numbers: Ints) -> Ints:
        """Return numbers of judgements, for a row without one that of another document of its query, or -1."""
        found = numbers.copy()
        for row, key in enumerate(_keys(rows)):
            if numbers[row] < 0 and key[0] in self._first:
                if key in self.known:
                    problem = f"document {key[1]!r} of query {key[0]!r} has features a second time"
                    raise FormatError(rows.path, rows.line(row), 1, problem)
                self.known.add(key)
                found[row] = self._first[key[0]]
        return found


def _columns_of_queries(tables: Iterable[Table]) -> set[str]:
    """Return the names of the columns per query, but their ids, that any table has."""
    columns = {column_of(role) for table in tables for role in table.columns.roles if role != "qid"}
    return {column.name for column in columns if column.per == "query"}


def _keys(rows: Rows) -> Iterator[tuple[str, str]]:
    return zip(rows.qids.tolist(), rows.columns["docid"].tolist(), strict=True)


class _DocumentsOfQueries:
    """The documents of each query so far: a range of rows, or a set once the query has come back."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Texts, int, int] | set[str]] = {}

    def forget_all_but(self, qid: str) -> None:
        self._known = {qid: self._known[qid]}

    def add(self, rows: Rows) -> None:
        """Add rows; raise if a query has a document twice. Some may have no id."""
        ids: Texts = rows.columns["docid"]
        bounds = [*rows.starts().tolist(), len(ids)]
        query_of_row = np.repeat(np.arange(len(bounds) - 1, dtype=np.uint64), np.diff(bounds))
        keys = mix(query_of_row, ids.hashes())
        keys.sort()
        may_repeat = bool((keys[1:] == keys[:-1]).any())
        for start, stop in pairwise(bounds):
            qid = rows.qids[start]
            if not may_repeat and qid not in self._known:
                self._known[qid] = ids, start, stop
                continue
            known = self._known.get(qid, set())
            if isinstance(known, tuple):
                before, first, last = known
                known = set(before[first:last].tolist()) - {""}
            for row, docid in enumerate(ids[start:stop].tolist(), start):
                if docid in known:
                    problem = f"document {docid!r} of query {qid!r} appears twice; `docid=…` names another column"
                    raise FormatError(rows.path, rows.line(row), 1, f"{problem} of documents")
                if docid:
                    known.add(docid)
            self._known[qid] = known


def are_blank(rows: Rows) -> npt.NDArray[np.bool_]:
    """Tell which rows have neither a query nor a document, nor a grade, nor a feature."""
    blank = _are_empty(rows.qids)
    if "relevance" in rows.columns:
        blank &= np.isnan(rows.columns["relevance"])
    if "docid" in rows.columns:
        blank &= rows.columns["docid"].lengths == 0
    blank[blank] = np.isnan(rows.X[blank]).all(axis=1)
    return blank


def _mark_used(rows: Rows, numbers: Ints, used: npt.NDArray[np.bool_]) -> None:
    """Mark judgements as used; raise if one is used for a second time."""
    twice = np.ones(len(numbers), dtype=bool)
    twice[np.unique(numbers, return_index=True)[1]] = False
    if (twice := twice | used[numbers]).any():
        row = int(np.argmax(twice))
        document = f"document {rows.columns['docid'][row]!r} of query {rows.qids[row]!r}"
        raise FormatError(rows.path, rows.line(row), 1, f"{document} has features a second time")
    used[numbers] = True


def _are_empty(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which texts are None or empty."""
    return np.asarray(~values.astype(bool))


def open_tables(paths: Iterable[str], wanted: Wanted) -> list[Table]:
    """Open tables with features; after the requests of an `_msearch`, a file has the responses to them."""
    requests: list[str] = []
    tables: list[Table] = []
    for path in paths:
        if holds_requests(path):
            requests.append(path)
        elif requests:
            tables.append(DocumentTable(path, "jsonl", wanted, partial(read_msearch, requests.pop(0), path)))
        else:
            tables.append(open_table(path, wanted))
    if requests:
        raise FileFormatError(requests[0], " has requests of _msearch: name the file with their responses after it")
    return tables


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


def as_wanted(
    roles: dict[Role, Any], features: str | Sequence[str] | None = None, dtype: npt.DTypeLike = np.float32
) -> Wanted:
    """Check names of columns, and the type of the features."""
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ParameterError("dtype", "must be float32 or float64", str(kind))
    named = {role: roles[role] for role in ROLES if roles.get(role) is not None}
    for role, name in named.items():
        if not isinstance(name, str):
            raise TypeError(f"{role} must be the name of a column, got {name!r}")
    chosen = [features] if isinstance(features, str) else list(features or ())
    is_valid = chosen and all(isinstance(name, str) for name in chosen) and len(set(chosen)) == len(chosen)
    if features is not None and not is_valid:
        raise ValueError(f"features must be different names of columns, one or more, got {features!r}")
    return Wanted(named, tuple(chosen) or None, dtype=kind)
