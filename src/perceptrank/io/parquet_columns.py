"""Columns of Parquet files: choice, validation and conversion to arrays."""

import io
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import Piece
from perceptrank.io.errors import FileFormatError
from perceptrank.io.paths import PathLike, find_files, find_paths
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.columns import (
    CLICKED,
    COMMENT,
    DOCID,
    OF_IMPRESSIONS,
    PLACE,
    RELEVANCE,
    WEIGHT,
    Values,
    find_column,
    optional_columns,
    recognized_columns,
)
from perceptrank.stream.query_stream import MISSING
from perceptrank.stream.sparse import MOST_FEATURES, AnyFeatures, SparseFeatures
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import as_grades, as_identifiers, check_choice, check_finite, without_missing

_TAIL_BYTES = 8
_MAX_DEPTH = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE_NUMBERS = (4, 5, 6)

# Fields of parquet.thrift.
_ROW_GROUPS, _COLUMNS, _N_ROWS, _COLUMN_METADATA, _PATH, _N_VALUES = 4, 1, 3, 3, 3, 5


def count_values(path: str, column: str) -> list[tuple[int, int]]:
    """Return (rows, values in a column of lists) of every row group; raise `ValueError` if the footer is damaged.

    pyarrow has them too, but ends the process if a column's metadata are damaged.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _TAIL_BYTES))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - _TAIL_BYTES - length))
        footer = io.BytesIO(file.read(length))
    counts = []
    try:
        for group in _read_compact(footer, _STRUCT)[_ROW_GROUPS]:
            described = [chunk[_COLUMN_METADATA] for chunk in group[_COLUMNS]]
            n_values = sum(chunk[_N_VALUES] for chunk in described if chunk[_PATH][0] == column.encode())
            counts.append((max(0, int(group[_N_ROWS])), max(0, int(n_values))))
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError(f"its footer is not what it should be: {error!r}") from None
    return counts


def _read_compact(footer: io.BytesIO, kind: int, depth: int = 0) -> Any:
    """Read a value of Thrift's compact protocol; structures are dictionaries of fields by number."""
    if depth > _MAX_DEPTH:
        raise ValueError("its footer is nested too deeply")
    if kind in (_TRUE, _FALSE, _BYTE):  # in a list; a field's type tells its truth
        return footer.read(1)[0]
    if kind in _WHOLE_NUMBERS:
        number = _read_varint(footer)
        return (number >> 1) ^ -(number & 1)
    if kind in (_DOUBLE, _BINARY):
        length = 8 if kind == _DOUBLE else _read_varint(footer)
        content = footer.read(min(length, footer.getbuffer().nbytes))
        if len(content) < length:
            raise ValueError("its footer is truncated")
        return content
    if kind in (_LIST, _SET):
        head = footer.read(1)[0]
        length = _read_varint(footer) if head >> 4 == 15 else head >> 4
        return [_read_compact(footer, head & 15, depth + 1) for _ in range(length)]
    if kind == _MAP:
        length = _read_varint(footer)
        kinds = divmod(footer.read(1)[0] if length else 0, 16)
        return [[_read_compact(footer, kind, depth + 1) for kind in kinds] for _ in range(length)]
    if kind != _STRUCT:
        raise ValueError(f"its footer has a value of unknown type {kind}")
    fields: dict[int, Any] = {}
    field = 0
    while head := footer.read(1)[0]:
        field = field + (head >> 4) if head >> 4 else _read_compact(footer, _WHOLE_NUMBERS[0])
        inner = head & 15
        fields[field] = inner == _TRUE if inner in (_TRUE, _FALSE) else _read_compact(footer, inner, depth + 1)
    return fields


def _read_varint(footer: io.BytesIO) -> int:
    number = shift = 0
    while (byte := footer.read(1)[0]) & 128:
        number |= (byte & 127) << shift
        shift += 7
    return number | byte << shift


METADATA = b"perceptrank"
INDICES, VALUES = "indices", "values"
_READ_ROWS = 2**14
_LEAST_BATCH = 4 * 2**20
_LIMIT_PER_BYTE = 1000  # of the file: data that can be compressed further is hardly data
_LEAST_LIMIT = 256 * 2**20


class Chosen(NamedTuple):
    """Choice of the columns by the caller: parameters of `read_parquet`."""

    qid: str = "qid"
    relevance: str = "relevance"
    docid: str | None = None
    weight: str | None = None
    features: str | Sequence[str] | None = None
    comments: bool = False
    missing: str = "error"
    judged: bool = True


def read_columns(paths: PathLike | Iterable[PathLike], chosen: Chosen) -> tuple[list[str], "Columns"]:
    """Resolve paths to files and read their columns, which must be the same in all files."""
    files = find_paths(paths, "Parquet files")
    check_choice("missing", chosen.missing, MISSING)
    each = [Columns(file, chosen) for file in files]
    for file, columns in zip(files[1:], each[1:], strict=True):
        columns.check_like(each[0], file)
    for file, columns in zip(files, each, strict=True):
        if columns.texts:
            warnings.warn(f"{file}: columns of text are no features: {', '.join(columns.texts)}", stacklevel=3)
            break
    each[0].dtype = np.result_type(*(columns.dtype for columns in each))
    each[0].n_rows = sum(columns.n_rows for columns in each)
    return files, each[0]


class Columns:
    """The columns of a Parquet file that make up a stream, and their conversion to arrays.

    `features` are the feature columns, or the one or two columns of lists; `texts` are columns of text, which are no
    features by default. `dtype` is float32 if it holds all features exactly, else float64. `n_rows` is the number of
    rows, of the first of several files those of all.
    """

    def __init__(self, path: str, chosen: Chosen) -> None:
        pa, _ = import_pyarrow()
        qid, relevance, docid, weight, features, comments, missing, judged = chosen
        if features is not None:
            features = [features] if isinstance(features, str) else [*map(str, features)]
        with content_of(path):
            file = open_parquet(path)
            schema, self.n_rows = file.schema_arrow, int(file.metadata.num_rows)
            described = schema.pandas_metadata
            index = [] if described is None else list(described.get("index_columns", []))
            written, self._sparse_width, of_impressions = _read_metadata(schema)
        has_clicks = {PLACE, CLICKED} <= set(schema.names)
        may_lack_grades = has_clicks or (not judged and relevance == RELEVANCE)
        self._qid, self._judged = qid, judged
        self._relevance = None if may_lack_grades and relevance not in schema.names else relevance
        self._width, self._keep_missing, self._zero_missing = 0, missing != "error", missing == "zero"
        free = set(schema.names) - {qid, relevance, *(features or ())}
        recognized = recognized_columns(free).keys() | (of_impressions & free)
        skipped = set() if comments else {COMMENT}
        self._columns = {name: name for name in optional_columns() if name in recognized - skipped}
        self._columns |= {name: column for name, column in ((DOCID, docid), (WEIGHT, weight)) if column}
        apart = (qid, relevance, COMMENT, *self._columns.values(), *index)
        others = [name for name in schema.names if name not in apart]
        self.texts = [name for name in others if features is None and _is_text(pa, schema.field(name).type)]
        numbers = [name for name in others if name not in self.texts]
        self.features = numbers or ([] if has_clicks else others) if features is None else list(features)
        known = set(schema.names)
        if absent := [name for name in self._needed if name not in known]:
            problem = f" has no column {', '.join(map(repr, absent))}; it has {', '.join(schema.names)}. "
            raise FileFormatError(path, f"{problem}`qid=…`, `relevance=…` and `features=…` name the columns")
        if len(known) < len(schema.names):
            raise FileFormatError(path, " has two columns of the same name")
        if not self.features and not has_clicks:
            raise FileFormatError(path, f" has no feature columns, only {', '.join(schema.names)}")
        if pa.types.is_nested(schema.field(qid).type):
            raise FileFormatError(path, f": column {qid!r} must hold numbers or text, got {schema.field(qid).type}")
        for name, column in self._columns.items():
            kind, dtype = schema.field(column).type, find_column(name).dtype
            if dtype == "id" and not _is_text(pa, kind) and not pa.types.is_integer(kind):
                raise FileFormatError(path, f": column {column!r} must hold text or whole numbers, got {kind}")
            if dtype == "text" and not _is_text(pa, kind):
                raise FileFormatError(path, f": column {column!r} must hold text, got {kind}")
        types = [schema.field(name).type for name in self.features]
        if self._sparse_width and sorted(self.features) != [INDICES, VALUES]:
            self._sparse_width = 0  # the caller has chosen others
        if self._sparse_width:
            self.features, types = [INDICES, VALUES], [schema.field(name).type for name in (INDICES, VALUES)]
            if not all(_is_list(pa, kind) for kind in types) or not pa.types.is_integer(types[0].value_type):
                problem = f"must be lists of whole numbers and of values, got {types[0]} and {types[1]}"
                raise FileFormatError(path, f": sparse features {problem}")
            types = [types[1].value_type] * 2
        self._is_list = len(types) == 1 and _is_list(pa, types[0])
        self._list_size = int(getattr(types[0], "list_size", 0)) if self._is_list else 0
        if self._is_list:
            types = [types[0].value_type]
        for name, kind in zip(self.features, types, strict=True):
            if not any(getattr(pa.types, f"is_{name}")(kind) for name in ("integer", "floating", "boolean", "decimal")):
                problem = f": feature column {name!r} must hold numbers, got {kind}"
                raise FileFormatError(path, f"{problem}; choose columns with `features=…`")
        decimals = any(map(pa.types.is_decimal, types))
        is_single = not decimals and all(np.can_cast(kind.to_pandas_dtype(), np.float32) for kind in types)
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if is_single else np.float64)
        # Columns name the features; metadata only tells that there are no names, or names the elements of a list.
        self.names: tuple[str, ...] | None = None if self._is_list or self._sparse_width else tuple(self.features)
        numbered = tuple(f"f{j + 1}" for j in range(len(self.features)))
        if self.names == numbered and written is None:
            self.names = None
        if written and len(written) == (self._sparse_width or (self._is_list and self._list_size)):
            self.names = written

    @property
    def _needed(self) -> list[str]:
        """Names of the columns to read."""
        graded = [] if self._relevance is None else [self._relevance]
        return [self._qid, *graded, *self.features, *self._columns.values()]

    def check_like(self, other: "Columns", path: str) -> None:
        """Raise `ValueError` if the features differ from those of another file."""
        if self.features != other.features or self._is_list != other._is_list:
            odd = set(self.features) ^ set(other.features)
            difference = f"{', '.join(sorted(odd)[:3])} in one only" if odd else "the same in a different order"
            raise FileFormatError(path, f" has different feature columns from the files before it: {difference}")
        for name in self._columns.keys() ^ other._columns.keys():
            has, have = ("has a", "have none") if name in self._columns else ("has no", "have one")
            raise FileFormatError(path, f" {has} column {name!r}, the files before it {have}")
        if (n := self._sparse_width) != other._sparse_width:
            raise FileFormatError(path, f" has {n} sparse features, the files before it {other._sparse_width}")
        if self._sparse_width and self.names != other.names:
            raise FileFormatError(path, " has different feature names from the files before it")
        if self.names != other.names:
            self.names = other.names = tuple(self.features)

    def pieces(self, path: str, max_bytes: int) -> Iterator[tuple[int, Piece]]:
        """Read a file in pieces with at most so many bytes of features, or one row; yield (its first row, rows)."""
        first_row = 0
        names = self._needed
        with content_of(path):
            texts = [column for name, column in self._columns.items() if find_column(name).dtype == "text"]
            file = open_parquet(path, read_dictionary=[self._qid, *texts])  # a long text that repeats is kept once
            n_rows = self._rows_at_once(path, file, max_bytes)
            batches = file.iter_batches(batch_size=n_rows, columns=names)
        while True:
            with content_of(path, f", rows from {first_row} on"):
                batch = next(batches, None)
                if batch is None:
                    return
                columns = dict(zip(names, batch.select(names).columns, strict=True))
                needed = set(names) - set(self.features if self._keep_missing and not self._is_list else ())
                needed -= {column for name, column in self._columns.items() if find_column(name).may_be_missing}
                needed -= set() if self._judged else {self._relevance}
                for name, column in columns.items():
                    if column.null_count and name in needed:
                        row = first_row + column.is_null().to_pylist().index(True)
                        kept = "; `missing='keep'` takes it for NaN" if name in self.features else ""
                        raise FileFormatError(path, f", row {row}: column {name!r} must not be missing{kept}")
                piece = self._piece(columns) if len(batch) else None
            if piece is not None:
                yield first_row, piece
                first_row += len(batch)

    def _piece(self, columns: dict[str, Any]) -> Piece:
        X: AnyFeatures
        if self._sparse_width:
            X = self._sparse_rows(columns[INDICES], columns[VALUES])
        else:
            X = self._matrix([columns[name] for name in self.features], len(columns[self._qid]))
        self._width = self._width or X.shape[1]
        if self._width != X.shape[1]:
            raise ValueError(f"feature lists must have one length, got {self._width} and {X.shape[1]}")
        if self._zero_missing:
            X = without_missing(X)
        check_finite(X, self.names, keep_missing=self._keep_missing)
        ids = as_identifiers(columns[self._qid].to_numpy(zero_copy_only=False))
        starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
        values: dict[str, Values] = {}
        if self._relevance is not None:
            values[RELEVANCE] = self._grades(columns[self._relevance].to_numpy(zero_copy_only=False))
        elif not self._judged:
            values[RELEVANCE] = np.full(len(X), np.nan)
        for name, chosen in self._columns.items():
            column = find_column(name)
            read = _as_texts(columns[chosen]) if column.is_text else columns[chosen].to_numpy(zero_copy_only=False)
            values[name] = column.convert(read, len(X), "document")
        return Piece(X, starts.tolist(), ids[starts].tolist(), values)

    def _grades(self, values: npt.NDArray[Any]) -> Floats:
        """Return valid grades; NaN for those that are missing, if they may be."""
        if self._judged:
            return as_grades(values, len(values))
        grades = values.astype(np.float64)
        is_unknown = np.isnan(grades)
        return np.where(is_unknown, np.nan, as_grades(np.where(is_unknown, 0.0, grades), len(grades)))

    def n_bytes(self, path: str) -> int:
        """Return the size that the features of a file will have in memory, as far as its metadata tell."""
        with content_of(path):
            return int(open_parquet(path).metadata.num_rows) * self._row_bytes(self._count_listed(path))

    def _count_listed(self, path: str) -> list[tuple[int, int]]:
        """Return (rows, values) of every row group if there are lists of any length, else nothing."""
        if self._sparse_width:
            return count_values(path, VALUES)
        return count_values(path, self.features[0]) if self._is_list and not self._list_size else []

    def _row_bytes(self, listed: list[tuple[int, int]]) -> int:
        """Return the size of a row's features; of lists of any length, the largest mean of a row group."""
        width = self._list_size if self._is_list else len(self.features)
        means = [-(-n_values // max(1, n_rows)) for n_rows, n_values in listed]
        index_bytes = np.dtype(np.int32).itemsize if self._sparse_width else 0
        return max([1, width, *means]) * (self.dtype.itemsize + index_bytes)

    def _rows_at_once(self, path: str, file: Any, max_bytes: int) -> int:
        """Choose the number of rows to decode at once; raise if row groups hold far more than the file has bytes."""
        listed = self._count_listed(path)
        packed = os.path.getsize(path)
        unpacked = [int(file.metadata.row_group(i).total_byte_size) for i in range(file.metadata.num_row_groups)]
        unpacked += [n_values * self.dtype.itemsize for _, n_values in listed]  # one list may have all values
        if max(unpacked, default=0) > max(_LEAST_LIMIT, _LIMIT_PER_BYTE * packed):
            problem = f": of {packed} bytes, a row group may unpack {max(unpacked)} at once, which is not read; "
            raise FileFormatError(path, f"{problem}write the file with smaller row groups")
        return int(min(_READ_ROWS, max(1, max(max_bytes, _LEAST_BATCH) // self._row_bytes(listed))))

    def _sparse_rows(self, indices: Any, values: Any) -> SparseFeatures:
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        if not np.array_equal(lengths, indices.value_lengths().to_numpy(zero_copy_only=False)):
            raise ValueError(f"the lists of {INDICES!r} and {VALUES!r} must be of the same length in every row")
        columns, numbers = (lists.flatten().to_numpy(zero_copy_only=False) for lists in (indices, values))
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return SparseFeatures(np.asarray(numbers, self.dtype), columns, starts, self._sparse_width)

    def _matrix(self, columns: list[Any], n_rows: int) -> Features:
        if self._is_list:
            values = columns[0].flatten().to_numpy(zero_copy_only=False)
            lengths = set(columns[0].value_lengths().to_pylist())
            if len(lengths) != 1 or 0 in lengths:
                raise ValueError(f"feature lists must have one length, not 0, got {sorted(lengths)}")
            return cast(Features, np.ascontiguousarray(values.reshape(n_rows, -1), dtype=self.dtype))
        X = np.empty((n_rows, len(columns)), self.dtype)
        for j, column in enumerate(columns):
            values = column.to_numpy(zero_copy_only=False)
            if values.dtype == object:  # what is missing is None
                values = np.array([np.nan if value is None else float(value) for value in values])
            X[:, j] = values
        return X


def _is_list(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(pa: Any, kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _as_texts(column: Any) -> Texts:
    """Return texts, or whole numbers as texts, without a Python object for each."""
    pa, _ = import_pyarrow()
    texts = column.cast(pa.large_string())
    texts.validate(full=True)  # that they are UTF-8
    _, starts, content = texts.buffers()
    bounds = np.frombuffer(starts, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    used = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
    return Texts._trusted(used.copy(), bounds - bounds[0])


def _read_metadata(schema: Any) -> tuple[tuple[str, ...] | None, int, frozenset[str]]:
    """Return what our metadata says: the features' names, the number of sparse ones, and columns of impressions.

    The names are None if it says that there are none, () if it does not say; the number is 0 if they are dense.
    """
    described = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
    names = described.get("feature_names", ())
    if names is not None and not all(type(name) is str for name in names):
        raise ValueError("its metadata must have a list of feature_names, or null")
    is_sparse = described.get("layout") == "sparse"
    width = described["n_features"] if is_sparse else 0
    if is_sparse and (type(width) is not int or not 1 <= width <= MOST_FEATURES):
        raise ValueError(f"n_features in its metadata must be a whole number from 1 to {MOST_FEATURES}, got {width!r}")
    return None if names is None else tuple(names), width, OF_IMPRESSIONS & set(described.get("columns", ()))


def column_names(path: str) -> list[str]:
    """Return the names of the columns of a Parquet file, or of the first one in a folder or pattern."""
    first = find_files(path)[0]
    return [str(name) for name in open_parquet(str(first)).schema_arrow.names]


def default_columns(
    path: str, qid: str = "qid", relevance: str = "relevance", docid: str | None = None, weight: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the columns of a Parquet file, or of the first in a folder or pattern, that are features, and texts."""
    columns = Columns(str(find_files(path)[0]), Chosen(qid, relevance, docid, weight))
    return columns.features, columns.texts


def open_parquet(path: str, **options: Any) -> Any:
    """Open a Parquet file; raise `FormatError` if it is not one."""
    _, parquet = import_pyarrow()
    with content_of(path, " is not a Parquet file, or is damaged"):
        return parquet.ParquetFile(path, **options)


@contextmanager
def content_of(path: str, where: str = " is damaged") -> Iterator[None]:
    """Raise `FormatError` for whatever pyarrow, or the checks of values, raise about the content of a file."""
    pa, _ = import_pyarrow()
    try:
        yield
    except (FileFormatError, ImportError):
        raise
    except OSError as error:
        if error.errno is not None:  # an error of the system, not of pyarrow about what it read
            raise
        raise FileFormatError(path, f"{where}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, pa.ArrowException) as error:
        raise FileFormatError(path, f"{where}: {error}") from None


def import_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet, which are optional."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'perceptrank[parquet]'") from None
    return pyarrow, parquet
