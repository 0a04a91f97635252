"""Parquet files of judged queries, for pandas, polars, DuckDB, Spark, Dask and whatever else reads them.

One row per document, the documents of a query together, row groups that never split a query. The columns are `qid`,
`relevance`, and either one per feature or one of fixed-size lists.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.text import PathLike, find_files
from perceptrank.io.whole_queries import Piece, RepeatedQueryError, WholeQueries, identifiers
from perceptrank.kernels.arrays import Features
from perceptrank.stream.blocks import Blocks, Scan, as_blocks
from perceptrank.stream.frames import feature_columns
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import as_grades, as_identifiers, check_choice, check_finite, check_positive_whole

_METADATA = b"perceptrank"
_COMMENT = "comment"
_ROW_GROUP_BYTES = 64 * 2**20
_READ_ROWS = 2**14


def write_parquet(
    stream: Blocks,
    path: PathLike,
    *,
    layout: Literal["columns", "list"] = "columns",
    row_group_bytes: int = _ROW_GROUP_BYTES,
) -> None:
    """Write a stream, or an iterable of them, as a Parquet file, which appears when it is complete.

    Parameters
    ----------
    stream : QueryStream or iterable of them
    path : path
    layout : {"columns", "list"}
        A column per feature, called by its name or ``f1``, ``f2``, …; or one column ``features`` of fixed-size lists.
    row_group_bytes : int
        How many bytes of features a row group has at most, and about. A query is never split.

    Besides `qid`, `relevance` and the features there is a column `comment` if the stream has comments. Needs pyarrow
    (extra ``parquet``).
    """
    check_choice("layout", layout, ("columns", "list"))
    check_positive_whole("row_group_bytes", row_group_bytes)
    pa, parquet = _pyarrow()
    writer: Any = None
    schema: Any = None
    with replaced_file(path) as file:
        try:
            for block in _row_groups(stream, row_group_bytes):
                table = _table(pa, block, layout, schema)
                if writer is None:
                    schema = table.schema
                    writer = parquet.ParquetWriter(file, schema)
                writer.write_table(table, row_group_size=len(table))
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise ValueError("the stream has no queries")


def _row_groups(stream: Blocks, max_bytes: int) -> Iterator[QueryStream]:
    """Blocks of the stream, cut and put together to come close to a size."""
    waiting: list[QueryStream] = []
    for whole in as_blocks(stream):
        for block in whole.blocks(max_bytes):
            full = sum(one.X.nbytes for one in waiting) + block.X.nbytes > max_bytes
            if waiting and (full or not _alike(waiting[0], block)):
                yield QueryStream.concatenate(waiting) if len(waiting) > 1 else waiting[0]
                waiting = []
            waiting.append(block)
    if waiting:
        yield QueryStream.concatenate(waiting) if len(waiting) > 1 else waiting[0]


def _alike(one: QueryStream, other: QueryStream) -> bool:
    return (one.X.dtype, one.X.shape[1], one.feature_names, one.qids.dtype.kind, one.comments is None) == (
        (other.X.dtype, other.X.shape[1], other.feature_names, other.qids.dtype.kind, other.comments is None)
    )


def scan_parquet(
    paths: PathLike | Iterable[PathLike],
    *,
    qid: str = "qid",
    relevance: str = "relevance",
    features: str | Sequence[str] | None = None,
    comments: bool = False,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    """Read Parquet files, with one row per document, in blocks of about `max_bytes` of features.

    Parameters
    ----------
    paths : path or several of them
        A folder means all files in it (but those whose names begin with a dot or an underscore), a pattern with ``*``
        or ``?`` what it matches.
    qid, relevance : str
        The columns of the query's id and the grade.
    features : str or sequence of str, optional
        The feature columns, or the one column of lists; by default all columns but `qid`, `relevance` and ``comment``.
    comments : bool
        Whether to keep the column ``comment``, if there is one.
    max_bytes : int
        A query is never split; its documents must stand together, else it is an error.

    Features are float32 if all their columns fit into that, else float64. The files may come from any program; row
    groups that split a query do no harm. Needs pyarrow (extra ``parquet``).
    """
    check_positive_whole("max_bytes", max_bytes)
    files, columns = _columns_of(paths, qid, relevance, features, comments)

    def start() -> Iterator[QueryStream]:
        queries = WholeQueries(max_bytes, columns.names)
        for file in files:
            for first_row, piece in columns.pieces(file):
                try:
                    yield from queries.add(piece)
                except RepeatedQueryError as error:
                    row = first_row + error.start
                    problem = f"query {error.qid!r} again, after others; read_parquet brings its documents together"
                    raise ValueError(f"{file}, row {row}: {problem}") from None
        if queries.is_empty:
            raise ValueError(f"there are no documents in {', '.join(files)}")
        yield from queries.rest()

    return Scan(start, f"Parquet in {', '.join(files)}")


def read_parquet(
    paths: PathLike | Iterable[PathLike],
    *,
    qid: str = "qid",
    relevance: str = "relevance",
    features: str | Sequence[str] | None = None,
    comments: bool = False,
) -> QueryStream:
    """Read Parquet files whole, as `scan_parquet` does; documents of a query need not be adjacent."""
    files, columns = _columns_of(paths, qid, relevance, features, comments)
    pieces = [piece for file in files for _, piece in columns.pieces(file)]
    if not pieces:
        raise ValueError(f"there are no documents in {', '.join(files)}")
    ids = identifiers([one for piece in pieces for one in piece.qids])
    lengths = [np.diff([*piece.starts, len(piece.X)]) for piece in pieces]
    texts = [piece.comments for piece in pieces if piece.comments is not None]
    return QueryStream.from_arrays(
        np.concatenate([piece.X for piece in pieces]),
        np.concatenate([piece.relevance for piece in pieces]),
        qid=np.repeat(ids, np.concatenate(lengths)),
        feature_names=columns.names,
        comments=np.concatenate(texts) if texts else None,
    )


def _columns_of(
    paths: PathLike | Iterable[PathLike],
    qid: str,
    relevance: str,
    features: str | Sequence[str] | None,
    comments: bool,
) -> tuple[list[str], "_Columns"]:
    """The files, and their columns, which must be the same in all of them."""
    files = []
    for one in find_files(paths):
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"Parquet files are given by their paths, got {type(one).__name__}")
        files.append(os.fspath(one))
    asked = [features] if isinstance(features, str) else features
    each = [_Columns(file, qid, relevance, asked, comments) for file in files]
    for file, columns in zip(files[1:], each[1:], strict=True):
        columns.check_like(each[0], file)
    each[0].dtype = np.result_type(*(columns.dtype for columns in each))
    return files, each[0]


class _Columns:
    """Which columns of some files hold what, and how to turn them into arrays."""

    def __init__(self, path: str, qid: str, relevance: str, asked: Sequence[str] | None, comments: bool) -> None:
        pa, _ = _pyarrow()
        schema = _opened(path).schema_arrow
        index = [one for one in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(one, str)]
        self._qid, self._relevance, self._comments = qid, relevance, comments and _COMMENT in schema.names
        self._width = 0
        others = [name for name in schema.names if name not in (qid, relevance, _COMMENT, *index)]
        self._features = others if asked is None else list(asked)
        needed = [self._qid, self._relevance, *self._features, *([_COMMENT] if self._comments else [])]
        missing = [name for name in needed if name not in schema.names]
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(map(repr, missing))}; it has {', '.join(schema.names)}. "
                "qid=, relevance= and features= say which is which"
            )
        if len(set(schema.names)) < len(schema.names):
            raise ValueError(f"{path} has two columns of the same name")
        if not self._features:
            raise ValueError(f"{path} has no feature columns, only {', '.join(schema.names)}")
        types = [schema.field(name).type for name in self._features]
        self._is_list = len(types) == 1 and _is_list(pa, types[0])
        list_type = types[0]
        if self._is_list:
            types = [types[0].value_type]
        for name, kind in zip(self._features, types, strict=True):
            if not any(getattr(pa.types, f"is_{one}")(kind) for one in ("integer", "floating", "boolean", "decimal")):
                raise ValueError(f"{path}: feature column {name!r} must hold numbers, got {kind}; features=… chooses")
        singles = all(
            not pa.types.is_decimal(kind) and np.can_cast(np.dtype(kind.to_pandas_dtype()), np.float32)
            for kind in types
        )
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if singles else np.float64)
        # What columns are called counts. Only that there are no names, or what those of a list are, is written beside.
        written = json.loads((schema.metadata or {}).get(_METADATA, b"{}"))
        self.names: tuple[str, ...] | None = None if self._is_list else tuple(self._features)
        numbered = tuple(f"f{j + 1}" for j in range(len(self._features)))
        if self.names == numbered and written.get("feature_names", numbered) is None:
            self.names = None
        names = written.get("feature_names")
        if self._is_list and names is not None and len(names) == getattr(list_type, "list_size", -1):
            self.names = tuple(names)

    def check_like(self, other: "_Columns", path: str) -> None:
        """Raise if a file does not have the features of another."""
        if self._features != other._features or self._is_list != other._is_list:
            odd = set(self._features) ^ set(other._features)
            what = f"{', '.join(sorted(odd)[:3])} in one only" if odd else "the same ones in another order"
            raise ValueError(f"{path} has other feature columns than the files before it: {what}")
        if self.names != other.names:
            self.names = other.names = tuple(self._features)

    def pieces(self, path: str) -> Iterator[tuple[int, Piece]]:
        """The rows of a file in pieces, each with the number of its first row."""
        first_row = 0
        file = _opened(path)
        names = [self._qid, self._relevance, *self._features, *([_COMMENT] if self._comments else [])]
        for batch in file.iter_batches(batch_size=_READ_ROWS, columns=names):
            if len(batch) == 0:
                continue
            for name in names:
                if batch.column(name).null_count:
                    row = first_row + batch.column(name).is_null().to_pylist().index(True)
                    raise ValueError(f"{path}, row {row}: column {name!r} must not be missing")
            try:
                X = self._matrix(batch)
                self._width = self._width or X.shape[1]
                if self._width != X.shape[1]:
                    raise ValueError(f"feature lists must have one length, got {self._width} and {X.shape[1]}")
                check_finite(X, self.names)
                grades = as_grades(batch.column(self._relevance).to_numpy(zero_copy_only=False), len(batch))
            except ValueError as error:
                raise ValueError(f"{path}, rows from {first_row} on: {error}") from None
            ids = as_identifiers(batch.column(self._qid).to_numpy(zero_copy_only=False))
            starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
            comments = np.array(batch.column(_COMMENT).to_pylist(), dtype=object) if self._comments else None
            yield first_row, Piece(X, grades, comments, starts.tolist(), ids[starts].tolist())
            first_row += len(batch)

    def _matrix(self, batch: Any) -> Features:
        if self._is_list:
            column = batch.column(self._features[0])
            values = column.flatten().to_numpy(zero_copy_only=False)
            lengths = set(column.value_lengths().to_pylist())
            if len(lengths) != 1 or 0 in lengths:
                raise ValueError(f"feature lists must have one length, not 0, got {sorted(lengths)}")
            return cast(Features, np.ascontiguousarray(values.reshape(len(batch), -1), dtype=self.dtype))
        X = np.empty((len(batch), len(self._features)), self.dtype)
        for j, name in enumerate(self._features):
            X[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
        return X


def _is_list(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _table(pa: Any, block: QueryStream, layout: str, schema: Any) -> Any:
    """A block as a table, which must have the schema, if there is one already."""
    columns: dict[str, Any] = {
        "qid": pa.array(np.repeat(block.qids, np.diff(block.offsets)).tolist()),
        "relevance": pa.array(block.relevance),
    }
    if layout == "list":
        columns["features"] = pa.FixedSizeListArray.from_arrays(pa.array(block.X.ravel()), block.n_features)
    else:
        names = feature_columns(block.feature_names, block.n_features)
        columns |= {name: pa.array(np.ascontiguousarray(block.X[:, j])) for j, name in enumerate(names)}
    if block.comments is not None:
        columns[_COMMENT] = pa.array(block.comments.tolist(), pa.string())
    described = {"feature_names": None if block.feature_names is None else list(block.feature_names)}
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(described)})
    if schema is not None and table.schema != schema:
        old, new = ([f"{field.name} ({field.type})" for field in one] for one in (schema, table.schema))
        odd = [name for name in new if name not in old] or [name for name in old if name not in new]
        raise ValueError(f"blocks must have the same columns, got {odd[0] if odd else 'another order'} in one only")
    return table


def _opened(path: str) -> Any:
    pa, parquet = _pyarrow()
    try:
        return parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file, or is damaged: {error}") from None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'perceptrank[parquet]'") from None
    return pyarrow, parquet
