"""Records of a log in Parquet files, and in flat tables with a delimiter."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

from perceptrank.io.errors import FileFormatError
from perceptrank.io.logs.frames import pl
from perceptrank.io.sources import table_format_of_name
from perceptrank.io.tables.chunks import Progress
from perceptrank.io.tables.columns import Wanted
from perceptrank.io.tables.delimited import DelimitedTable

# Name of each column, and its path in a record; "[]" stands for the items of a list.
Layout: TypeAlias = dict[str, tuple[str, ...]]
_PARQUET = b"PAR1"
_BATCH = 200_000


def is_parquet(source: object) -> bool:
    """Tell if a source is a Parquet file."""
    if not isinstance(source, str) or not os.path.isfile(source):
        return False
    with open(source, "rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def open_delimited(path: str) -> DelimitedTable | None:
    """Open a table with a delimiter; return None if the name is not that of one."""
    format = table_format_of_name(path)
    if format not in ("csv", "tsv"):
        return None
    return DelimitedTable(path, format, Wanted({}, required=frozenset(), with_features=False))


def read_delimited(table: DelimitedTable, layout: Layout, progress: Progress | None) -> Iterator[Any]:
    """Read a table as data frames with the columns of a layout."""
    known = {*table.columns.roles.values(), *table.columns.ignored}
    names = {column: _flat_name(known, keys) for column, keys in layout.items()}
    for frame in table.texts([name for name in dict.fromkeys(names.values()) if name is not None], progress):
        yield frame.select(
            **{
                column: pl.lit(None, kind_of(layout[column])) if name is None else pl.col(name)
                for column, name in names.items()
            }
        )


def _flat_name(known: Collection[str], keys: tuple[str, ...]) -> str | None:
    """Return the column of a flat table for a field: it is called by the path, or by the end of it."""
    path = [key for key in keys if key != "[]"]
    ends = path[:0:-1] if len(path) > 2 else path[-1:]  # position.ordinal is often called position
    return next((name for name in (".".join(path), "_".join(path), *ends) if name in known), None)


def kind_of(keys: tuple[str, ...]) -> Any:
    """Return the type of a column: texts, or lists of them."""
    return pl.List(pl.String) if "[]" in keys else pl.String


def parquet_schema(path: str) -> Any:
    """Return the columns of a Parquet file and their types."""
    try:
        return pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(path, f" is no Parquet file, or half of one: {str(error).splitlines()[0]}") from None


def read_parquet(path: str, layout: Layout) -> Iterator[Any]:
    """Read a Parquet file whose fields are nested as in JSON, or flat, with names that are paths or their ends."""
    schema = parquet_schema(path)
    columns = {}
    for name, keys in layout.items():
        column, kind = _parquet_field(schema, keys)
        if kind is None:
            columns[name] = pl.lit(None, kind_of(keys))
        elif "[]" in keys:
            item = pl.element()
            for key in keys[keys.index("[]") + 1 :]:
                item = item.struct.field(key)
            columns[name] = column.list.eval(item.cast(pl.String))
        elif kind.is_temporal():
            columns[name] = column.dt.epoch("ms").cast(pl.String)
        elif isinstance(kind, pl.Struct):
            columns[name] = column.struct.json_encode()
        else:
            columns[name] = column.cast(pl.String)
    try:
        frame = pl.scan_parquet(path)
        for start in range(0, frame.select(pl.len()).collect().item(), _BATCH):
            yield frame.slice(start, _BATCH).select(**columns).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(path, f" is no Parquet file, or half of one: {str(error).splitlines()[0]}") from None


def _parquet_field(schema: Any, keys: tuple[str, ...]) -> tuple[Any, Any]:
    """Return a column of a Parquet file and its type, None if it has none."""
    kind, column = schema.get(keys[0]), pl.col(keys[0])
    for key in keys[1:]:
        if key == "[]":
            break
        kind = next((field.dtype for field in getattr(kind, "fields", ()) if field.name == key), None)
        column = column.struct.field(key)
    flat = _flat_name(schema, keys) if kind is None else None
    return (column, kind) if flat is None else (pl.col(flat), schema[flat])
