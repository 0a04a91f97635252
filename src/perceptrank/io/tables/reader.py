"""Read tables into memory, or scan them block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import BlockAssembler, RepeatedQueryError, as_id_array
from perceptrank.io.errors import FormatError
from perceptrank.io.growing import GrowingArray
from perceptrank.io.paths import PathLike
from perceptrank.io.tables.reading import Report, Tables, as_wanted
from perceptrank.io.tables.rows import Rows
from perceptrank.stream.blocks import Scan
from perceptrank.stream.columns import Values, join_columns, split_columns, take_rows
from perceptrank.stream.grouping import group_runs
from perceptrank.stream.memory import free_memory
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive_whole

Missing = Literal["error", "keep", "zero"]
_MISSING = ("error", "keep", "zero")


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
        (``.ndjson``), ``.qrels`` or ``.run``, else by the first line. CSV and TSV need the extra ``tables``.
    feature_paths : path or several of them, optional
        Tables with the features, if they are not in the first ones. JSON lines may be feature logs of Elasticsearch,
        OpenSearch or Solr, as hits or as whole responses, with the query beside them.
    qid, docid, relevance : str, optional
        Columns of queries, documents and grades. By default they are found by their usual names: query, qid,
        search_term; docid, document_id, id; grade, rating, label and the like.
    weight : str, optional
        Column of the queries' weights, numbers >= 0 that are the same in all rows of a query, in the tables with the
        grades or in those with the features; default ``query_weight``, if there is such a column. Queries of a table
        without it have weight 1.
    features : str or sequence of str, optional
        Columns of features; default all columns of numbers that are no ids or grades. The names are the union over
        all rows.
    missing : "error", "keep", or "zero"
        What to do with features that a row does not have: refuse them, keep them as NaN, or take them for 0, as
        search engines do.
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
        For a wrong cell or line, with its file, line and column; for columns that are missing.
    FileNotFoundError
        If a path does not exist or matches no file.
    ImportError
        If polars (extra ``tables``) is needed and not installed.
    MemoryError
        If the features exceed the available memory.
    ValueError
        If no judgement has features, or an argument is invalid.

    Warns
    -----
    UserWarning
        If judgements have no features, features no judgement, or rows no grade: how many are left out.

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
    tables = _open(paths, feature_paths, roles, features, missing, dtype, report, progress)
    batches: Iterable[Rows] = tables.rows()
    if not tables.know_names:  # until all rows are read
        batches = list(map(_forget_text, batches))
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
    dtype: npt.DTypeLike = np.float32,
    report: Report | None = None,
    progress: Callable[[int, int], object] | None = None,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    r"""Read tables lazily, in re-iterable blocks of whole queries.

    The rows of a query must be adjacent in the table with the features. Judgements in a table of their own are held in
    memory. Where rows name their features, as in logs of search engines, and `features` does not, the tables are read
    once beforehand, for the names. Other parameters are those of `read_table`.

    Parameters
    ----------
    max_bytes : int
        Approximate size of a block's features.

    Raises
    ------
    FormatError
        For what `read_table` refuses, and for a query that comes back after another one.
    FileNotFoundError, ImportError or ValueError
        Where `read_table` raises them.

    Warns
    -----
    UserWarning
        At the end of each pass, about the rows that `read_table` warns about.

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
    tables = _open(paths, feature_paths, roles, features, missing, dtype, report, progress)
    names = tables.find_names()

    def start() -> Iterator[QueryStream]:
        queries = BlockAssembler(max_bytes, names)
        for rows in tables.rows():
            for part in _cut(tables.align(rows, names), max_bytes):
                try:
                    yield from queries.add(part.piece())
                except RepeatedQueryError as error:
                    raise FormatError(
                        part.path, part.line(error.start), 1, f"{error}; `read_table` groups them, in memory"
                    ) from None
        yield from queries.flush()

    return Scan(start, f"tables in {', '.join(tables.files)}")


def _open(
    paths: PathLike | Iterable[PathLike],
    feature_paths: PathLike | Iterable[PathLike] | None,
    roles: dict[str, str | None],
    features: str | Sequence[str] | None,
    missing: str,
    dtype: npt.DTypeLike,
    report: Report | None,
    progress: Callable[[int, int], object] | None,
) -> Tables:
    check_choice("missing", missing, _MISSING)
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ParameterError("dtype", "must be float32 or float64", str(kind))
    return Tables(paths, feature_paths, as_wanted(roles, features)._replace(dtype=kind), missing, report, progress)


def _cut(rows: Rows, max_bytes: int) -> Iterator[Rows]:
    """Cut rows at queries into parts of about so many bytes."""
    n_rows = max(1, max_bytes // max(1, rows.X.itemsize * rows.X.shape[1]))
    first = 0
    for stop in [*rows.starts()[1:].tolist(), len(rows)]:
        if stop - first >= n_rows or stop == len(rows):
            yield rows.take(slice(first, stop))
            first = stop


def _forget_text(rows: Rows) -> Rows:
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
        X = tables.align(rows, tables.names).X
        if X.nbytes > free_memory():
            n_bytes = len(values) * X.itemsize + X.nbytes
            raise MemoryError(
                f"there is no memory for {n_bytes / 1e9:.1f} GB of features; scan_table reads block by block"
            )
        values.extend(X.ravel())
        piece = rows.piece()
        continues = int(bool(qids) and piece.qids[0] == qids[-1])
        qids += piece.qids[continues:]
        starts += [sum(sizes) + start for start in piece.starts[continues:]]
        columns.append(piece.columns)
        sizes.append(len(X))
    n_rows = sum(sizes)
    X = values.finish().reshape(n_rows, -1)
    joined = join_columns(columns, sizes)
    order, offsets, ids = group_runs(as_id_array(qids), np.array([*starts, n_rows], dtype=np.int64))
    if order is not None:
        X, joined = X[order], take_rows(joined, order)
    return QueryStream._trusted(X, offsets, *split_columns(joined, offsets, ids), tables.names)
