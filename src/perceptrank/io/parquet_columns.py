"""Columns of Parquet files: choice, validation and conversion to arrays."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from perceptrank.io.block_assembly import Piece
from perceptrank.io.paths import PathLike, find_files
from perceptrank.kernels.arrays import Features
from perceptrank.stream.validation import AdvisingValueError, Setting, as_grades, as_identifiers, check_finite

METADATA = b"perceptrank"
COMMENT = "comment"
_READ_ROWS = 2**14


def read_columns(
    paths: PathLike | Iterable[PathLike],
    qid: str,
    relevance: str,
    features: str | Sequence[str] | None,
    comments: bool,
) -> tuple[list[str], "Columns"]:
    """Resolve paths to files and read their columns, which must be the same in all files."""
    files = []
    for one in find_files(paths):
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"Parquet files are given by their paths, got {type(one).__name__}")
        files.append(os.fspath(one))
    chosen = [features] if isinstance(features, str) else features
    each = [Columns(file, qid, relevance, chosen, comments) for file in files]
    for file, columns in zip(files[1:], each[1:], strict=True):
        columns.check_like(each[0], file)
    each[0].dtype = np.result_type(*(columns.dtype for columns in each))
    return files, each[0]


class ColumnSetting(Setting):
    """A parameter that names columns of Parquet files."""


class Columns:
    """The columns of a Parquet file that make up a stream, and their conversion to arrays.

    Parameters
    ----------
    path : str
    qid, relevance : str
        Names of the columns.
    features : sequence of str, optional
        Feature columns, or the one column of lists; default all other columns.
    comments : bool
        Also read the column ``comment``, if there is one.

    Attributes
    ----------
    dtype : numpy.dtype
        float32 if it holds all feature columns exactly, else float64.
    names : tuple of str or None
        Feature names.
    """

    def __init__(self, path: str, qid: str, relevance: str, features: Sequence[str] | None, comments: bool) -> None:
        pa, _ = import_pyarrow()
        schema = open_parquet(path).schema_arrow
        index = [one for one in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(one, str)]
        self._qid, self._relevance, self._comments = qid, relevance, comments and COMMENT in schema.names
        self._width = 0
        others = [name for name in schema.names if name not in (qid, relevance, COMMENT, *index)]
        self._features = others if features is None else list(features)
        needed = [self._qid, self._relevance, *self._features, *([COMMENT] if self._comments else [])]
        missing = [name for name in needed if name not in schema.names]
        if missing:
            raise AdvisingValueError(
                f"{path} has no column {', '.join(map(repr, missing))}; it has {', '.join(schema.names)}. ",
                *(ColumnSetting("qid"), ", ", ColumnSetting("relevance"), " and ", ColumnSetting("features")),
                " name the columns",
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
                problem = f"{path}: feature column {name!r} must hold numbers, got {kind}; choose columns with "
                raise AdvisingValueError(problem, ColumnSetting("features"))
        singles = all(
            not pa.types.is_decimal(kind) and np.can_cast(np.dtype(kind.to_pandas_dtype()), np.float32)
            for kind in types
        )
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if singles else np.float64)
        # Columns name the features; metadata only tells that there are no names, or names the elements of a list.
        written = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
        self.names: tuple[str, ...] | None = None if self._is_list else tuple(self._features)
        numbered = tuple(f"f{j + 1}" for j in range(len(self._features)))
        if self.names == numbered and written.get("feature_names", numbered) is None:
            self.names = None
        names = written.get("feature_names")
        if self._is_list and names is not None and len(names) == getattr(list_type, "list_size", -1):
            self.names = tuple(names)

    def check_like(self, other: "Columns", path: str) -> None:
        """Raise `ValueError` if the features differ from those of another file."""
        if self._features != other._features or self._is_list != other._is_list:
            odd = set(self._features) ^ set(other._features)
            difference = f"{', '.join(sorted(odd)[:3])} in one only" if odd else "the same in a different order"
            raise ValueError(f"{path} has different feature columns from the files before it: {difference}")
        if self.names != other.names:
            self.names = other.names = tuple(self._features)

    def pieces(self, path: str) -> Iterator[tuple[int, Piece]]:
        """Read a file; yield (number of the first row, rows)."""
        first_row = 0
        file = open_parquet(path)
        names = [self._qid, self._relevance, *self._features, *([COMMENT] if self._comments else [])]
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
            comments = np.array(batch.column(COMMENT).to_pylist(), dtype=object) if self._comments else None
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


def open_parquet(path: str) -> Any:
    """Open a Parquet file; raise `ValueError` if it is not one."""
    pa, parquet = import_pyarrow()
    try:
        return parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file, or is damaged: {error}") from None


def import_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet, which are optional."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'perceptrank[parquet]'") from None
    return pyarrow, parquet
