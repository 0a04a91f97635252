"""Records of a log as data frames of texts: lines of JSON, answers of a search API, Parquet, or dictionaries.

A `Layout` says where the fields stand in a record. Lines are parsed by polars, chunk by chunk; what it refuses, and
what does not stand one record to a line, is read by the module json, which is slower and tells which line is wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from typing import Any, TypeAlias

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.logs.live import is_address, open_indexes
from perceptrank.io.paths import PathLike, find_paths
from perceptrank.io.sources import table_format_of_name
from perceptrank.io.tables.chunks import Progress, read_chunks, read_head
from perceptrank.io.tables.columns import Wanted
from perceptrank.io.tables.delimited import DelimitedTable, import_polars
from perceptrank.io.tables.document_table import is_unicode
from perceptrank.stream.validation import ParameterError

Record: TypeAlias = Mapping[str, Any]
Logs: TypeAlias = PathLike | Iterable[PathLike] | Iterable[Record] | Callable[[], Iterable[Record]]
Source: TypeAlias = str | Callable[[], Iterable[Record]]
# Name of each column, and its path in a record; "[]" stands for the items of a list.
Layout: TypeAlias = dict[str, tuple[str, ...]]

_BATCH = 20_000
_ACTIONS = ("index", "create")  # of bulk requests, on a line of their own before each record
_PARQUET = b"PAR1"


def as_sources(logs: Any, since: str | date | None = None) -> list[Source]:
    """Return the sources of a log: paths, records in memory, or callables that return an iterator of records."""
    if is_address(logs):
        return list(open_indexes(logs, since))
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


def is_parquet(source: Source) -> bool:
    """Tell if a source is a Parquet file."""
    if not isinstance(source, str) or not os.path.isfile(source):
        return False
    with open(source, "rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def first_record(source: Source) -> Record:
    """Return the first record; of a Parquet file or a table with a delimiter, the names of its columns."""
    if not isinstance(source, str):
        return next(iter(source()), {})
    if is_parquet(source):
        return dict.fromkeys(_parquet_schema(source))
    if table := _open_delimited(source):
        return dict.fromkeys([*table.columns.roles.values(), *table.columns.ignored])
    return next((record for _, record in _json_records(source)), {})


def read_records(source: Source, layout: Layout, progress: Progress | None = None) -> Iterator[Any]:
    """Read a source as data frames with the columns of a layout: texts, lists of texts, or null."""
    if not isinstance(source, str):
        numbered = enumerate(source(), 1)
        yield from _frames(name_of(source), numbered, layout)
    elif is_parquet(source):
        yield _read_parquet(source, layout)
    elif table := _open_delimited(source):
        for frame in table.texts([name for (name,) in layout.values()], progress):
            yield frame.select(**{column: name for column, (name,) in layout.items()})
    elif (form := _form_of(source)) == "document":
        yield from _frames(source, _json_records(source), layout)
    else:
        yield from _read_lines(source, layout, form == "bulk", progress)


def _open_delimited(path: str) -> DelimitedTable | None:
    format = table_format_of_name(path)
    if format not in ("csv", "tsv"):
        return None
    return DelimitedTable(path, format, Wanted({}, required=frozenset(), with_features=False))


def _form_of(path: str) -> str:
    """Tell lines of records, bulk requests, and documents that hold many records."""
    first = next((line for line in read_head(path).splitlines() if line.strip()), b"")
    try:
        record = json.loads(first)
    except ValueError:
        return "document" if first.strip() in (b"{", b"[") else "lines"
    if not isinstance(record, dict) or "hits" in record or "_source" in record:
        return "document"
    return "bulk" if not record.keys().isdisjoint(_ACTIONS) and len(record) == 1 else "lines"


def _read_lines(path: str, layout: Layout, is_bulk: bool, progress: Progress | None) -> Iterator[Any]:
    pl = import_polars()
    whole = layout | ({f"{action}_id": (action, "_id") for action in _ACTIONS} if is_bulk else {})
    schema = _schema(pl, whole.values())
    waiting = None
    for text, line in read_chunks(path, progress=progress):
        try:
            frame = _select(pl, pl.read_ndjson(text, schema=schema), whole)
        except (pl.exceptions.PolarsError, OverflowError):
            frame = _as_frame(pl, path, list(_parse_lines(path, text, line)), whole)
        if is_bulk:
            frame, waiting = _join_actions(pl, frame, waiting)
        yield frame.select(*layout)


def _join_actions(pl: Any, frame: Any, waiting: str | None) -> tuple[Any, str | None]:
    """Give records the ids on the lines before them, and leave out those lines; the last may be of the next record."""
    ids = pl.coalesce(*(f"{action}_id" for action in _ACTIONS))
    frame = frame.with_columns(action_id=ids)
    last = frame["action_id"][-1] if len(frame) else waiting
    frame = frame.with_columns(id=pl.coalesce("id", pl.col("action_id").shift(1, fill_value=waiting)))
    return frame.filter(pl.col("action_id").is_null()), last


def _schema(pl: Any, paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
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


def _select(pl: Any, frame: Any, layout: Layout) -> Any:
    def field(path: tuple[str, ...]) -> Any:
        column = pl.col(path[0])
        for at, key in enumerate(path[1:], 1):
            if key == "[]":
                inner = pl.element()
                for part in path[at + 1 :]:
                    inner = inner.struct.field(part)
                return column.list.eval(inner.cast(pl.String)) if path[at + 1 :] else column
            column = column.struct.field(key)
        return column

    return frame.select(**{name: field(path) for name, path in layout.items()})


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
    if _form_of(path) == "document" and not _has_lines(path):
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


def _has_lines(path: str) -> bool:
    first = next((line for line in read_head(path).splitlines() if line.strip()), b"")
    return first.strip()[-1:] == b"}" and first.strip() != b"}"


def _unpack(path: str, line: int, record: Any) -> Iterator[Record]:
    """Return the records in an answer of a search API, a hit, or a record itself."""
    if not isinstance(record, dict):
        raise FormatError(path, line, 1, f"a record must be an object, got {str(record)[:80]!r}")
    hits = record.get("hits")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        for hit in hits["hits"]:
            yield from _unpack(path, line, hit)
    elif isinstance(record.get("_source"), dict):
        yield {"_id": record.get("_id"), **record["_source"]}
    else:
        yield record


def _frames(path: str, numbered: Iterable[tuple[int, Record]], layout: Layout) -> Iterator[Any]:
    pl = import_polars()
    rest = iter(numbered)
    while batch := list(islice(rest, _BATCH)):
        yield _as_frame(pl, path, batch, layout)


def _as_frame(pl: Any, path: str, numbered: list[tuple[int, Record]], layout: Layout) -> Any:
    columns = {}
    for name, keys in layout.items():
        kind = pl.List(pl.String) if "[]" in keys else pl.String
        columns[name] = pl.Series(name, [_find(path, line, record, keys) for line, record in numbered], kind)
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


def _parquet_schema(path: str) -> Any:
    pl = import_polars()
    try:
        return pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(path, f" is no Parquet file, or half of one: {str(error).splitlines()[0]}") from None


def _read_parquet(path: str, layout: Layout) -> Any:
    """Read a Parquet file whose fields are nested as in JSON, or flat, with names that are paths or their ends."""
    pl = import_polars()
    schema = _parquet_schema(path)
    columns = {}
    for name, keys in layout.items():
        column, kind = _parquet_field(pl, schema, tuple(key for key in keys if key != "[]"))
        if kind is None:
            columns[name] = pl.lit(None, pl.List(pl.String) if "[]" in keys else pl.String)
        elif "[]" in keys:
            columns[name] = column.cast(pl.List(pl.String))
        elif kind.is_temporal():
            columns[name] = column.dt.epoch("ms").cast(pl.String)
        elif isinstance(kind, pl.Struct):
            columns[name] = column.struct.json_encode()
        else:
            columns[name] = column.cast(pl.String)
    try:
        return pl.read_parquet(path).select(**columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(path, f" is no Parquet file, or half of one: {str(error).splitlines()[0]}") from None


def _parquet_field(pl: Any, schema: Any, keys: tuple[str, ...]) -> tuple[Any, Any]:
    """Return a column of a Parquet file and its type, None if it has none."""
    for flat in (".".join(keys), "_".join(keys), keys[-1]):
        if flat in schema:
            return pl.col(flat), schema[flat]
    kind, column = schema.get(keys[0]), pl.col(keys[0])
    for key in keys[1:]:
        kind = next((field.dtype for field in getattr(kind, "fields", ()) if field.name == key), None)
        column = column.struct.field(key)
    return column, kind
