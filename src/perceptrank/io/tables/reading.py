"""Tables as pieces of a stream: joined, checked, and with the same features everywhere."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import Piece, TwoValuesError, ValuesOfQueries
from perceptrank.io.errors import FileFormatError, FormatError, no_documents
from perceptrank.io.paths import PathLike, find_files, is_rereadable
from perceptrank.io.tables.chunks import Progress
from perceptrank.io.tables.columns import Format, Role, TableColumns, Wanted
from perceptrank.io.tables.delimited import DelimitedTable
from perceptrank.io.tables.formats import table_format
from perceptrank.io.tables.json_lines import JsonTable
from perceptrank.io.tables.judgements import Judgements, two_weights
from perceptrank.io.tables.rows import Rows, absent_feature, check_features, check_grades, check_weights
from perceptrank.io.tables.trec import TrecTable
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.columns import DOCID, RELEVANCE, WEIGHT
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import Setting

Report = Callable[[TableColumns], object]

_KINDS: dict[Format, Any] = {
    "csv": DelimitedTable,
    "tsv": DelimitedTable,
    "jsonl": JsonTable,
    "qrels": TrecTable,
    "run": TrecTable,
}


class Table(Protocol):
    """A table that is read in batches of rows."""

    path: str
    columns: TableColumns
    knows_names: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features that are known."""
        ...

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """Read the rows."""
        ...

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Read the queries and the values of a column of all rows."""
        ...


class Part(NamedTuple):
    """A piece of a stream, the names of its features, and where its rows stand; `line` finds the line of one."""

    piece: Piece
    names: tuple[str, ...]
    path: str
    line: Callable[[int], int]


class Tables:
    """Tables to read as one stream.

    Parameters
    ----------
    paths : paths
        Tables with grades.
    feature_paths : paths, optional
        Tables with features, to join; without them the tables with grades have the features too.
    wanted : Wanted
    dtype : numpy.dtype
    missing : "error", "keep", or "zero"
    report : callable, optional
    progress : callable, optional
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        feature_paths: PathLike | Iterable[PathLike] | None,
        wanted: Wanted,
        dtype: Any,
        missing: str,
        report: Report | None,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.missing, self._dtype, self._progress = missing, dtype, progress
        files = _files(paths)
        feature_files = [] if feature_paths is None else _files(feature_paths)
        self.files = [*files, *feature_files]
        self._n_read = 0
        self._n_bytes = sum(os.path.getsize(file) for file in self.files)
        is_joined = feature_paths is not None
        required: set[Role] = {"qid", "docid", "relevance"} if is_joined else {"qid", "relevance"}
        wanted = wanted._replace(is_shared=is_joined)
        graded = wanted._replace(features=None) if is_joined else wanted
        self.graded = [open_table(file, graded, required, not is_joined, dtype) for file in files]
        featured = wanted._replace(relevance=None)
        self.featured = [open_table(file, featured, {"qid", "docid"}, True, dtype) for file in feature_files]
        for table in self._with_features:
            if not table.columns.features:
                where = () if is_joined else ("; ", Setting("feature_paths"), " names a table that has them")
                raise FileFormatError(table.path, " has no features: no column of numbers is left for them", *where)
        shown = [table.columns for table in [*self.graded, *self.featured]]
        for name, found in ((wanted.qid, {one.qid for one in shown}), (wanted.docid, {one.docid for one in shown})):
            if is_joined and name is not None and name not in found:
                raise ValueError(f"none of {', '.join(self.files)} has a column {name!r}")
        self._has_weights = any(one.weight is not None for one in shown)
        if wanted.weight is not None and not self._has_weights:
            why = (
                "; files of TREC have no place for weights"
                if any(one.format in ("qrels", "run") for one in shown)
                else ""
            )
            raise ValueError(f"none of {', '.join(self.files)} has a column {wanted.weight!r} of query weights{why}")
        if report is not None:
            for table in [*self.graded, *self.featured]:
                report(table.columns)

    @property
    def _with_features(self) -> list[Table]:
        return self.featured or self.graded

    def find_names(self) -> tuple[str, ...]:
        """Return the names of all features, the union over the tables; read them for that where necessary."""
        for table in self._with_features:
            if not table.knows_names:
                table.find_names()  # type: ignore[attr-defined]
        return self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of features that are known so far, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for table in self._with_features for name in table.names))

    @property
    def know_names(self) -> bool:
        """True if all names of features are known."""
        return all(table.knows_names for table in self._with_features)

    def parts(self) -> Iterator[Part]:
        """Read pieces of whole rows that have grades and features; warn at the end of those that lack one of them.

        Raises
        ------
        ValueError
            If no row has both.
        """
        self._n_read = 0
        values = ValuesOfQueries([WEIGHT] if self._has_weights else [])
        for part in self._joined_parts() if self.featured else self._own_parts():
            try:
                values.check(part.piece)
            except TwoValuesError as error:
                raise FormatError(part.path, part.line(error.row), 1, str(error)) from None
            yield part

    def _own_parts(self) -> Iterator[Part]:
        n_ungraded = n_parts = 0
        for table in self.graded:
            for rows in table.rows(self._tell):
                assert rows.grades is not None
                assert table.columns.relevance is not None
                check_grades(rows, table.columns.relevance)
                without = np.isnan(rows.grades)
                kept = None
                if without.any():
                    blank = without & _are_none(rows.qids)
                    n_ungraded += int(without.sum() - blank.sum())
                    kept = np.flatnonzero(~without)
                if kept is None or len(kept):
                    n_parts += 1
                    yield self._part(table, rows, rows.grades, kept)
        if n_ungraded:
            warnings.warn(f"{n_ungraded:,} rows without a grade are left out", stacklevel=2)
        if not n_parts:
            raise no_documents(self.files)

    def _joined_parts(self) -> Iterator[Part]:
        judgements = Judgements()
        for table in self.graded:
            for rows in table.rows(self._tell):
                judgements.add(rows, table.columns.relevance or "", table.columns.weight)
        used = np.zeros(len(judgements), dtype=bool)
        n_unjudged, unjudged = 0, ""
        for table in self.featured:
            for rows in table.rows(self._tell):
                assert rows.docids is not None
                grades, numbers = judgements.find(rows.qids, rows.docids)
                is_found = numbers >= 0
                if not is_found.all():
                    without = ~is_found & ~(_are_none(rows.qids) & _are_none(np.asarray(rows.docids)))
                    n_unjudged += int(without.sum())
                    if without.any() and not unjudged:
                        row = int(np.argmax(without))
                        unjudged = f"{rows.qids[row]!r}/{rows.docids[row]!r}"
                kept = np.flatnonzero(is_found)
                self._check_once(rows, numbers, kept, used)
                if len(kept):
                    given = judgements.weights_of(rows.qids) if judgements.has_weights else None
                    yield self._part(table, rows, grades, None if len(kept) == len(rows) else kept, given)
        n_left = int(len(used) - used.sum())
        if not used.any():
            raise ValueError(
                f"no judgement has features: of query/document, the {len(judgements):,} judgements in "
                f"{_named(self.graded)} have {judgements.examples() or 'none'}, the features in "
                f"{_named(self.featured)} {unjudged or 'none'}"
            )
        said = [f"{n_left:,} judgements without features"] if n_left else []
        said += [f"{n_unjudged:,} rows of features without a judgement"] if n_unjudged else []
        said += [f"{judgements.n_ungraded:,} rows without a grade"] if judgements.n_ungraded else []
        if said:
            warnings.warn(f"{' and '.join(said)} are left out", stacklevel=2)

    def _check_once(self, rows: Rows, numbers: Any, kept: Any, used: npt.NDArray[np.bool_]) -> None:
        """Mark judgements as used; raise if one is used for a second time."""
        chosen = numbers[kept]
        twice = used[chosen]
        _, first = np.unique(chosen, return_index=True)
        if len(first) < len(chosen):
            repeated = np.ones(len(chosen), dtype=bool)
            repeated[first] = False
            twice = twice | repeated
        if twice.any():
            row = int(kept[int(np.argmax(twice))])
            assert rows.docids is not None
            problem = f"document {rows.docids[row]!r} of query {rows.qids[row]!r} has features a second time"
            raise FormatError(rows.path, rows.line(row), 1, problem)
        used[chosen] = True

    def _part(
        self, table: Table, rows: Rows, grades: Any, kept: npt.NDArray[np.intp] | None, given: Floats | None = None
    ) -> Part:
        """Choose rows and check them; `given` are the weights of their queries among the judgements."""
        chosen = rows
        if kept is not None:
            place = rows.place
            chosen = Rows(
                rows.path,
                rows.qids[kept],
                None if rows.docids is None else rows.docids[kept],
                None,
                None if rows.X is None else rows.X[kept],
                rows.names,
                lambda row, column: place(int(kept[row]), column),
                None if rows.weights is None else rows.weights[kept],
            )
            grades = grades[kept]
            given = None if given is None else given[kept]
        no_query = _are_none(chosen.qids)
        if no_query.any():
            raise FormatError(rows.path, chosen.line(int(np.argmax(no_query))), 1, "a row must name its query")
        check_weights(chosen, table.columns.weight or "")
        weights = chosen.weights if given is None else given
        if given is not None and chosen.weights is not None and (differs := given != chosen.weights).any():
            row = int(np.argmax(differs))
            raise two_weights(rows.path, chosen.line(row), chosen.qids[row], given[row], chosen.weights[row])
        X = check_features(chosen, self.missing)
        qids = chosen.qids
        starts = np.concatenate([[0], np.flatnonzero(qids[1:] != qids[:-1]) + 1])
        docids = chosen.docids
        if docids is not None and not isinstance(docids, Texts):
            docids = Texts(text or "" for text in docids.tolist())
        columns = {RELEVANCE: grades, DOCID: docids, WEIGHT: weights}
        piece = Piece(X, starts.tolist(), qids[starts].tolist(), columns)
        return Part(piece, rows.names, rows.path, chosen.line)

    def detached(self, part: Part) -> Part:
        """Return a piece that does not hold the text it was read from, and knows its first line only."""
        line = part.line(0)
        return part._replace(line=lambda row: line)

    def aligned(self, part: Part, names: tuple[str, ...]) -> Features:
        """Return the features of a piece in the order of all names; those it lacks are missing."""
        X = part.piece.X
        assert isinstance(X, np.ndarray)
        if part.names == names:
            return X
        have = set(part.names)
        if self.missing == "error" and (absent := [name for name in names if name not in have]):
            raise FormatError(part.path, part.line(0), 1, *absent_feature(absent[0]))
        filler = 0.0 if self.missing == "zero" else np.nan
        wide: Features = np.full((len(X), len(names)), filler, X.dtype)
        index = {name: j for j, name in enumerate(names)}
        wide[:, [index[name] for name in part.names]] = X
        return wide

    def _tell(self, n: int) -> None:
        self._n_read += n
        if self._progress is not None:
            self._progress(self._n_read, self._n_bytes)


def _named(tables: list[Table]) -> str:
    return ", ".join(table.path for table in tables)


def _are_none(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which texts are None or empty."""
    return np.asarray(~values.astype(bool))


def open_table(file: str, wanted: Wanted, required: set[Role], with_features: bool, dtype: Any) -> Table:
    """Open a table, whatever its format."""
    kind = table_format(file)
    table: Table = _KINDS[kind](file, kind, wanted, required, with_features, dtype)
    return table


def _files(paths: PathLike | Iterable[PathLike]) -> list[str]:
    files = []
    for one in find_files(paths):
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"tables are given by their paths, got {type(one).__name__}")
        if not is_rereadable(one):
            raise ValueError(
                f"{os.fspath(one)} must be a regular file: the columns are looked at before the rows are read"
            )
        files.append(os.fspath(one))
    return files


def as_wanted(qid: Any, docid: Any, relevance: Any, weight: Any, features: str | Sequence[str] | None) -> Wanted:
    """Check names of columns."""
    for name, value in (("qid", qid), ("docid", docid), ("relevance", relevance), ("weight", weight)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be the name of a column, got {value!r}")
    chosen = [features] if isinstance(features, str) else features
    if chosen is not None:
        chosen = list(chosen)
        if not chosen or not all(isinstance(one, str) for one in chosen) or len(set(chosen)) < len(chosen):
            raise ValueError(f"features must be different names of columns, one or more, got {features!r}")
    return Wanted(qid, docid, relevance, weight, None if chosen is None else tuple(chosen))
