"""Parquet files of judged queries, to exchange with pandas, polars, DuckDB, Spark or Dask.

Files have one row per document. The columns are `qid`, `relevance`, and either one per feature, one of fixed-size
lists, or two of lists with the columns and the values of the non-zeros. Written row groups never split a query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.block_assembly import BlockAssembler, RepeatedQueryError, as_id_array
from perceptrank.io.errors import FileFormatError, no_documents
from perceptrank.io.parquet_columns import INDICES, METADATA, VALUES, Chosen, import_pyarrow, read_columns
from perceptrank.io.paths import PathLike
from perceptrank.stream.blocks import Blocks, Scan, as_blocks
from perceptrank.stream.columns import (
    CLICKED,
    OF_IMPRESSIONS,
    QID,
    RELEVANCE,
    join_columns,
    optional_columns,
    without_unknown_grades,
)
from perceptrank.stream.frames import feature_columns
from perceptrank.stream.memory import free_memory
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.sparse import SparseFeatures, concatenate_features
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import check_choice, check_positive_whole

_ROW_GROUP_BYTES = 64 * 2**20


def write_parquet(
    stream: Blocks,
    path: PathLike,
    *,
    layout: Literal["columns", "list", "sparse"] | None = None,
    row_group_bytes: int = _ROW_GROUP_BYTES,
) -> None:
    """Write a stream as a Parquet file, atomically. This needs pyarrow (extra ``parquet``).

    The columns are `qid`, `relevance`, the features, and those of `docid`, `query_weight`, `comment` and other declared
    columns that the stream has.

    Parameters
    ----------
    stream : QueryStream or iterable of QueryStream
    path : path
    layout : "columns", "list", or "sparse", optional
        One column per feature, by its name or ``f1``, ``f2``, …; one column ``features`` of fixed-size lists; or two
        columns of lists, ``indices`` and ``values``, of the features that are not 0, counted from 0. Default "sparse"
        if the first queries are, else "columns".
    row_group_bytes : int
        Upper bound on the size of a row group's features, except for a single query that is larger.

    Raises
    ------
    ValueError
        If there are no queries, two have the same id, so that they would be read as one, the columns of blocks differ
        or clash, or sparse features are to be dense columns. A block without ids or weights after others that have
        them has empty ids, and weights of 1.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> path = f"{tempfile.mkdtemp()}/train.parquet"
    >>> write_parquet(pr.mslr_shaped(20, n_documents=5, n_features=6), path)
    >>> len(read_parquet(path))
    20
    """
    if layout is not None:
        check_choice("layout", layout, ("columns", "list", "sparse"))
    check_positive_whole("row_group_bytes", row_group_bytes)
    pa, parquet = import_pyarrow()
    writer: Any = None
    schema: Any = None
    seen: set[Any] = set()
    with replaced_file(path) as file:
        try:
            for block in _row_groups(stream, row_group_bytes):
                layout = layout or ("sparse" if block.is_sparse else "columns")
                table = _table(pa, block, layout, schema)
                for qid in block.qids.tolist():
                    if qid in seen:
                        raise ValueError(f"query ids must be distinct in Parquet, got {qid!r} twice")
                    seen.add(qid)
                if writer is None:
                    schema = table.schema
                    writer = parquet.ParquetWriter(file, schema)
                writer.write_table(table, row_group_size=len(table))
        finally:
            if writer is not None:
                writer.close()


def _row_groups(stream: Blocks, max_bytes: int) -> Iterator[QueryStream]:
    """Split and merge blocks to approach a size."""
    waiting: list[QueryStream] = []
    for whole in as_blocks(stream, required=True):
        for block in whole.blocks(max_bytes):
            full = sum(part.X.nbytes or 8 * part.n_documents for part in [*waiting, block]) > max_bytes
            if waiting and (full or _describe(waiting[0]) != _describe(block)):
                yield QueryStream.concatenate(waiting) if len(waiting) > 1 else waiting[0]
                waiting = []
            waiting.append(block)
    if waiting:
        yield QueryStream.concatenate(waiting) if len(waiting) > 1 else waiting[0]


def _describe(stream: QueryStream) -> tuple[Any, ...]:
    """Return what must be the same in streams that are concatenated."""
    features = stream.is_sparse, stream.X.dtype, stream.n_features, stream.feature_names
    return features, stream.qids.dtype.kind, stream.columns.keys()


def scan_parquet(
    paths: PathLike | Iterable[PathLike],
    *,
    qid: str = "qid",
    relevance: str = "relevance",
    docid: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    comments: bool = False,
    missing: Literal["error", "keep", "zero"] = "error",
    judged: bool = True,
    progress: Callable[[int, int], object] | None = None,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    """Read Parquet files lazily, in re-iterable blocks of whole queries.

    Row groups may split a query, but its documents must be adjacent. Other parameters are those of `read_parquet`, and
    so are the errors.

    Parameters
    ----------
    max_bytes : int
        Approximate size of a block's features.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> path = f"{tempfile.mkdtemp()}/train.parquet"
    >>> write_parquet(pr.mslr_shaped(20, n_documents=5, n_features=6), path)
    >>> trace = pr.ListwisePerceptron().learn(scan_parquet(path))
    >>> len(trace)
    20
    """
    check_positive_whole("max_bytes", max_bytes)
    files, columns = read_columns(paths, Chosen(qid, relevance, docid, weight, features, comments, missing, judged))

    def start() -> Iterator[QueryStream]:
        queries, n_read = BlockAssembler(max_bytes, columns.names), 0
        for file in files:
            for first_row, piece in columns.pieces(file, max_bytes):
                n_read += len(piece.X)
                if progress is not None:
                    progress(n_read, columns.n_rows)
                try:
                    yield from queries.add(piece)
                except RepeatedQueryError as error:
                    row = first_row + error.start
                    raise FileFormatError(file, f", row {row}: {error}; `read_parquet` groups them") from None
        if queries.is_empty:
            raise no_documents(files)
        yield from queries.flush()

    return Scan(start, f"Parquet in {', '.join(files)}")


def read_parquet(
    paths: PathLike | Iterable[PathLike],
    *,
    qid: str = "qid",
    relevance: str = "relevance",
    docid: str | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    comments: bool = False,
    missing: Literal["error", "keep", "zero"] = "error",
    judged: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> QueryStream:
    """Read Parquet files into memory. This needs pyarrow (extra ``parquet``).

    The files have one row per document, and may come from any program; documents of a query need not be adjacent.
    Features are float32 if it holds all feature columns exactly, else float64; sparse ones, which `write_parquet` has
    written, are read as such.

    Parameters
    ----------
    paths : path or several of them
        A folder stands for the files in it, except those whose names start with a dot or an underscore; a pattern with
        ``*`` or ``?`` for the files it matches.
    qid, relevance : str
        Columns of the query ids and the grades; files with the columns ``place`` and ``clicked`` need no grades, and no
        features.
    docid, weight : str, optional
        Columns of the documents' ids, and of the query weights, the same for all documents of a query; default
        ``docid`` and ``query_weight`` if there are such columns.
    features : str or sequence of str, optional
        Feature columns, or the one column of lists; default all columns of numbers but these.
    comments : bool
        Keep the column ``comment``, if there is one.
    missing : "error", "keep", or "zero"
        What to do with features that are null or NaN: refuse them, keep them as NaN, or take them for 0.
    judged : bool
        False to read documents to be ranked: they need no grades. A stream has grades only if all of its documents do.
    progress : callable, optional
        Called with the number of rows read so far and in total.

    Raises
    ------
    FormatError
        If a file is not Parquet, columns are missing or differ between files, or values are invalid; the message names
        the file and row.

    Warns
    -----
    UserWarning
        If there are columns of text, which are no features, and `features` is not given: which.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> path = f"{tempfile.mkdtemp()}/train.parquet"
    >>> write_parquet(pr.mslr_shaped(20, n_documents=5, n_features=6), path)
    >>> stream = read_parquet(path, features=["f2", "f5"])
    >>> stream.n_features, stream.feature_names
    (2, ('f2', 'f5'))
    """
    files, columns = read_columns(paths, Chosen(qid, relevance, docid, weight, features, comments, missing, judged))
    n_bytes = sum(columns.n_bytes(file) for file in files)
    if n_bytes > free_memory():
        raise MemoryError(
            f"the features take {n_bytes / 1e9:.1f} GB, more than is available; scan_parquet reads block by block"
        )
    pieces, n_read = [], 0
    for file in files:
        for _, piece in columns.pieces(file, BLOCK_BYTES):
            pieces.append(piece)
            n_read += len(piece.X)
            if progress is not None:
                progress(n_read, columns.n_rows)
    if not pieces:
        raise no_documents(files)
    ids = as_id_array([qid for piece in pieces for qid in piece.qids])
    lengths = [np.diff([*piece.starts, len(piece.X)]) for piece in pieces]
    sizes = [len(piece.X) for piece in pieces]
    values = without_unknown_grades(join_columns([piece.columns for piece in pieces], sizes))
    is_bare = not judged and values.keys().isdisjoint((RELEVANCE, CLICKED))  # which no stream is made from
    stream = QueryStream.from_arrays(
        concatenate_features([piece.X for piece in pieces]),
        np.zeros(sum(sizes)) if is_bare else values.pop(RELEVANCE, None),
        qid=np.repeat(ids, np.concatenate(lengths)),
        feature_names=columns.names,
        columns=values,
        missing=missing,
    )
    return stream._without_grades() if is_bare else stream


def _table(pa: Any, block: QueryStream, layout: str, schema: Any) -> Any:
    """Convert a block to a table; raise `ValueError` if it differs from the schema, if there is one."""
    columns: dict[str, Any] = {QID: pa.array(np.repeat(block.qids, np.diff(block.offsets)).tolist())}
    if RELEVANCE in block.columns:
        columns[RELEVANCE] = pa.array(block.relevance)
    described: dict[str, Any] = {"feature_names": None if block.feature_names is None else list(block.feature_names)}
    if layout == "sparse":
        numbers, indices, starts = cast(SparseFeatures, block.to_sparse().X)._rebased().arrays
        bounds = pa.array(starts.astype(np.int32))
        columns[INDICES] = pa.ListArray.from_arrays(bounds, pa.array(indices))
        columns[VALUES] = pa.ListArray.from_arrays(bounds, pa.array(numbers))
        described |= {"layout": "sparse", "n_features": block.n_features}
    elif isinstance(X := block.X, SparseFeatures):
        raise ValueError(f"sparse features have no layout {layout!r}; stream.to_dense() makes them dense")
    elif layout == "list":
        columns["features"] = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), block.n_features)
    else:
        names = feature_columns(block.feature_names, block.n_features, block.columns)
        columns |= {name: pa.array(np.ascontiguousarray(X[:, j])) for j, name in enumerate(names)}
    values = block.per_document()
    written = set() if schema is None else set(schema.names) - columns.keys()
    if named := OF_IMPRESSIONS & (values.keys() | written):
        described["columns"] = sorted(named)
    for name, column in optional_columns().items():
        if name in values or name in written:
            filled = values[name] if name in values else column.filled(block.n_documents)
            if not isinstance(filled, Texts):
                columns[name] = pa.array(filled)
                continue
            starts, content = pa.py_buffer(filled.starts - filled.starts[0]), pa.py_buffer(filled.encoded)
            strings = pa.LargeStringArray.from_buffers(len(filled), starts, content)  # without an object for each
            strings.validate(full=True)  # that they are UTF-8
            columns[name] = strings.cast(pa.string())
    table = pa.table(columns).replace_schema_metadata({METADATA: json.dumps(described)})
    if schema is not None and table.schema != schema:
        old, new = ([f"{field.name} ({field.type})" for field in fields] for fields in (schema, table.schema))
        odd = [name for name in new if name not in old] or [name for name in old if name not in new]
        raise ValueError(f"blocks must have the same columns, got {odd[0] if odd else 'another order'} in one only")
    if schema is not None and table.schema.metadata != schema.metadata:
        raise ValueError("blocks must have the same features, got another number or other names")
    return table
