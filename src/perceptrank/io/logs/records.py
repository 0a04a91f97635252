"""Records of a log as data frames of texts: JSON, answers of a search API, Parquet, flat tables, or dictionaries.

A `Layout` says where the fields stand in a record. Lines are parsed by polars, chunk by chunk; what it refuses, and
what does not stand one record to a line, is read by the module json, which is slower and tells which line is wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from typing import Any, TypeAlias

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.logs.events import pl
from perceptrank.io.logs.live import open_indexes
from perceptrank.io.paths import PathLike, find_paths, is_address, is_parquet
from perceptrank.io.sources import table_format_of_name
from perceptrank.io.tables.chunks import Progress, read_chunks, read_head
from perceptrank.io.tables.columns import Wanted
from perceptrank.io.tables.delimited import DelimitedTable
from perceptrank.io.tables.document_table import is_unicode
from perceptrank.stream.validation import ParameterError

# Name of each column, and its path in a record; "[]" stands for the items of a list.
Layout: TypeAlias = dict[str, tuple[str, ...]]
Record: TypeAlias = Mapping[str, Any]
Logs: TypeAlias = PathLike | Iterable[PathLike] | Iterable[Record] | Callable[[], Iterable[Record]]
Source: TypeAlias = str | Callable[[], Iterable[Record]]

_PARQUET_ROWS = 200_000  # read at once
_BATCH = 20_000
_CHUNK_BYTES = 16 * 2**20  # polars parses larger chunks faster, with all threads
_LISTS = ("events", "results")  # of records, in one document
_ACTIONS = ("index", "create")  # of bulk requests, on a line of their own before each record


def as_sources(logs: Any, since: str | date | None = None) -> list[Source]:
    """Return the sources of a log: paths, records in memory, or callables that return an iterator of records."""
    addresses = [logs] if isinstance(logs, str) else logs
    if isinstance(addresses, list) and addresses and all(map(is_address, addresses)):
        return [index for address in addresses for index in open_indexes(address, since)]
    if since is not None:
        raise ParameterError("since", "applies to the address of a live index only: files are read whole", since)
    if callable(logs):
        return [logs]
    if not isinstance(logs, (str, os.PathLike)) and isinstance(logs, Iterable):
        logs = list(logs)
        if logs and all(isinstance(record, Mapping) for record in logs):
            return [lambda: logs]
    return list(find_paths(logs, "logs"))


def name_of(source: Source) -> str:
    """Return the name of a source for messages."""
    return source if isinstance(source, str) else getattr(source, "name", "<records>")


def first_record(source: Source) -> Record:
    """Return the first record; of a Parquet file or a table with a delimiter, the names of its columns."""
    if not isinstance(source, str):
        return next(iter(source()), {})
    if is_parquet(source):
        return dict.fromkeys(parquet_schema(source))
    if table := open_delimited(source):
        return dict.fromkeys([*table.columns.roles.values(), *table.columns.ignored])
    return next((record for _, record in _json_records(source)), {})


def read_records(source: Source, layout: Layout, progress: Progress | None = None) -> Iterator[Any]:
    """Read a source as data frames with the columns of a layout: texts, lists of texts, or null."""
    if not isinstance(source, str):
        for frame in _frames(name_of(source), enumerate(source(), 1), layout):
            if progress is not None:
                progress(0)  # its size is not known
            yield frame
    elif is_parquet(source):
        yield from read_parquet(source, layout)
    elif table := open_delimited(source):
        yield from read_delimited(table, layout, progress)
    elif (form := _form_of(source)) == "document":
        yield from _frames(source, _json_records(source), layout)
    else:
        yield from _read_lines(source, layout, form, progress)


def _form_of(path: str) -> str:
    """Tell lines of records or of hits, bulk requests, and documents that hold many records."""
    first = _first_line(path)
    try:
        record = json.loads(first)
    except ValueError:
        return "document" if first in (b"{", b"[") else "lines"
    if not isinstance(record, dict) or "hits" in record or record.keys() <= set(_LISTS):
        return "document"
    if "_source" in record:
        return "hits"
    return "bulk" if not record.keys().isdisjoint(_ACTIONS) and len(record) == 1 else "lines"


def _read_lines(path: str, layout: Layout, form: str, progress: Progress | None) -> Iterator[Any]:
    whole = layout
    if form == "bulk":
        whole = layout | {f"{action}_id": (action, "_id") for action in _ACTIONS}
    elif form == "hits":
        whole = {name: keys if keys == ("_id",) else ("_source", *keys) for name, keys in layout.items()}
    schema = _schema(whole.values())
    waiting = None
    for text, line in read_chunks(path, size=_CHUNK_BYTES, progress=progress):
        try:
            frame = pl.read_ndjson(text, schema=schema)
            frame = frame.select(**{name: field_at(keys) for name, keys in whole.items()})
        except (pl.exceptions.PolarsError, OverflowError):
            frame = _as_frame(path, list(_parse_lines(path, text, line)), whole)
        if form == "bulk":
            frame, waiting = _join_actions(frame, waiting)
        yield frame.select(*layout)


def _join_actions(frame: Any, waiting: str | None) -> tuple[Any, str | None]:
    """Give records the ids on the lines before them, and leave out those lines; the last may be of the next record."""
    ids = pl.coalesce(*(f"{action}_id" for action in _ACTIONS))
    frame = frame.with_columns(action_id=ids)
    last = frame["action_id"][-1] if len(frame) else waiting
    frame = frame.with_columns(id=pl.coalesce("id", pl.col("action_id").shift(1, fill_value=waiting)))
    return frame.filter(pl.col("action_id").is_null()), last


def _schema(paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Return the types of the fields that are read, nested as they are in a record."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for key in path:
            node = node.setdefault(key, {})

    def kind(node: dict[str, Any]) -> Any:
        if not node:
            return pl.String
        return pl.List(kind(node["[]"])) if "[]" in node else pl.Struct({key: kind(node[key]) for key in node})

    return {key: kind(node) for key, node in tree.items()}


def _parse_lines(path: str, text: bytes, first_line: int) -> Iterator[tuple[int, Record]]:
    """Parse lines of JSON; raise `FormatError` for the first that is not an object."""
    for line, content in enumerate(text.split(b"\n"), first_line):
        if not content.strip():
            continue
        try:
            record = json.loads(content)
        except json.JSONDecodeError as error:
            cut = ": is the file cut off?" if error.pos >= len(content.rstrip()) or "Unterminated" in error.msg else ""
            raise FormatError(path, line, error.colno, f"a line must be an object of JSON: {error.msg}{cut}") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise FormatError(path, line, 1, f"a line must be JSON in UTF-8: {error}") from None
        if not isinstance(record, dict):
            raise FormatError(path, line, 1, f"a line must be an object of JSON, got {content[:80]!r}")
        yield line, record


def _json_records(path: str) -> Iterator[tuple[int, Record]]:
    """Read records one by one: of lines, of answers with hits, or of one document that takes the whole file."""
    first = _first_line(path)
    if _form_of(path) == "document" and (first == b"}" or not first.endswith(b"}")):
        text = b"".join(chunk.text for chunk in read_chunks(path))
        try:
            document = json.loads(text)
        except ValueError as error:
            line = getattr(error, "lineno", 1)
            raise FormatError(path, line, getattr(error, "colno", 1), f"the file must be JSON: {error}") from None
        for part in document if isinstance(document, list) else [document]:
            yield from ((1, record) for record in _unpack(path, 1, part))
        return
    for text, first_line in read_chunks(path):
        for line, record in _parse_lines(path, text, first_line):
            if len(record) > 1 or record.keys().isdisjoint(_ACTIONS):
                yield from ((line, inner) for inner in _unpack(path, line, record))


def _first_line(path: str) -> bytes:
    return next((line.strip() for line in read_head(path).splitlines() if line.strip()), b"")


def _unpack(path: str, line: int, record: Any) -> Iterator[Record]:
    """Return the records in an answer of a search API, a hit, or a record itself."""
    if not isinstance(record, dict):
        raise FormatError(path, line, 1, f"a record must be an object, got {str(record)[:80]!r}")
    hits = record.get("hits")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        for hit in hits["hits"]:
            yield from _unpack(path, line, hit)
    elif name := next((name for name in _LISTS if record.keys() == {name} and isinstance(record[name], list)), None):
        for inner in record[name]:
            yield from _unpack(path, line, inner)
    elif isinstance(record.get("_source"), dict):
        yield {"_id": record.get("_id"), **record["_source"]}
    else:
        yield record


def _frames(path: str, numbered: Iterable[tuple[int, Record]], layout: Layout) -> Iterator[Any]:
    rest = iter(numbered)
    while batch := list(islice(rest, _BATCH)):
        yield _as_frame(path, batch, layout)


def _as_frame(path: str, numbered: list[tuple[int, Record]], layout: Layout) -> Any:
    columns = {}
    for name, keys in layout.items():
        values = [_find(path, line, record, keys) for line, record in numbered]
        columns[name] = pl.Series(name, values, kind_of(keys))
    return pl.DataFrame(columns)


def _find(path: str, line: int, value: Any, keys: tuple[str, ...]) -> Any:
    """Return the field at a path as text, or as a list of texts; None if there is none."""
    for at, key in enumerate(keys):
        if value is None:
            return None
        if key == "[]":
            items = value if isinstance(value, list) else [value]
            return [_find(path, line, item, keys[at + 1 :]) for item in items]
        if not isinstance(value, Mapping):
            raise FormatError(path, line, 1, f"{'.'.join(keys[:at])!r} must be an object, got {str(value)[:80]!r}")
        value = value.get(key)
    text = value if value is None or isinstance(value, str) else as_text(value)
    if text is not None and not text.isascii() and not is_unicode(text):
        raise FormatError(path, line, 1, f"text must be Unicode, got half of a pair of surrogates in {text[:80]!r}")
    return text


def as_text(value: Any) -> str:
    """Return an id that is a number as the text that other files have for it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else json.dumps(value)


def open_delimited(path: str) -> DelimitedTable | None:
    """Open a table with a delimiter; return None if the name is not that of one."""
    format = table_format_of_name(path)
    if format not in ("csv", "tsv"):
        return None
    return DelimitedTable(path, format, Wanted({}, required=frozenset(), with_features=False))


def read_delimited(table: DelimitedTable, layout: Layout, progress: Progress | None) -> Iterator[Any]:
    """Read a table as data frames with the columns of a layout."""
    known = {*table.columns.roles.values(), *table.columns.ignored}
    names = {column: name for column, keys in layout.items() if (name := _flat_name(known, keys)) is not None}
    absent = {column: pl.lit(None, kind_of(keys)) for column, keys in layout.items() if column not in names}
    for frame in table.texts(list(dict.fromkeys(names.values())), progress):
        yield frame.select(**{column: pl.col(name) for column, name in names.items()}, **absent).select(*layout)


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
        outer = keys[: keys.index("[]")] if "[]" in keys else keys
        kind = schema.get(outer[0])
        for key in outer[1:]:
            kind = next((field.dtype for field in getattr(kind, "fields", ()) if field.name == key), None)
        column = field_at(keys)
        if kind is None and (flat := _flat_name(schema, keys)) is not None:
            column, kind = field_at((flat, *keys[len(outer) :])), schema[flat]
        if kind is None:
            column = pl.lit(None, kind_of(keys))
        elif "[]" not in keys:
            if kind.is_temporal():
                column = column.dt.epoch("ms")
            column = column.struct.json_encode() if isinstance(kind, pl.Struct) else column.cast(pl.String)
        columns[name] = column
    try:
        frame = pl.scan_parquet(path)
        for start in range(0, frame.select(pl.len()).collect().item(), _PARQUET_ROWS):
            yield frame.slice(start, _PARQUET_ROWS).select(**columns).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(path, f" is no Parquet file, or half of one: {str(error).splitlines()[0]}") from None


def field_at(keys: tuple[str, ...]) -> Any:
    """Return the field of a record at a path, or the texts of a list."""
    column = pl.col(keys[0])
    for at, key in enumerate(keys[1:], 1):
        if key == "[]":
            item = pl.element()
            for part in keys[at + 1 :]:
                item = item.struct.field(part)
            return column.list.eval(item.cast(pl.String))
        column = column.struct.field(key)
    return column
