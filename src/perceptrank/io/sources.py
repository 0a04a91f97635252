"""Open stores, Parquet files and LETOR text, recognised by content, and tables, by their names."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from perceptrank.io.compression import SUFFIXES
from perceptrank.io.letor.reader import read_letor, scan_letor
from perceptrank.io.paths import Source, find_files, is_address, is_parquet, is_rereadable, is_store
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.columns import CLICKED, PLACE, RELEVANCE
from perceptrank.stream.query_stream import QueryStream

if TYPE_CHECKING:
    from perceptrank.io.tables.columns import Format as TableFormat

Format = Literal["store", "parquet", "table", "letor"]
_DESCRIBED = {"store": "a store", "parquet": "a Parquet file", "table": "a table", "letor": "LETOR text"}
_TEXT_SUFFIXES = {".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat"}
_PARQUET_SUFFIXES = {".parquet", ".pq"}
_TABLE_SUFFIXES: "dict[str, TableFormat]" = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".qrels": "qrels",
    ".qrel": "qrels",
    ".run": "run",
}


def _suffix_of(name: str) -> str:
    """Return the suffix of a file name, in lower case, without that of a compression."""
    path = Path(name.lower())
    return path.with_suffix("").suffix if path.suffix in SUFFIXES else path.suffix


def has_data_suffix(name: str) -> bool:
    """Return True if a file name has a suffix that is usual for judged queries, compressed or not."""
    return _suffix_of(name) in _TEXT_SUFFIXES | _PARQUET_SUFFIXES


def table_format_of_name(name: str) -> "TableFormat | None":
    """Return the format of a table by its file name, compressed or not; None if it is not that of a table.

    Examples
    --------
    >>> table_format_of_name("Judgements.CSV.gz"), table_format_of_name("train.txt")
    ('csv', None)
    """
    return _TABLE_SUFFIXES.get(_suffix_of(name))


def format_of(source: Source) -> Format:
    """Detect the format of a file or folder."""
    if not isinstance(source, (str, os.PathLike)):
        return "letor"
    path = Path(source)
    if is_store(path):
        return "store"
    first = find_files(source)[0]
    if not is_rereadable(first):
        return "letor"  # peeking into a pipe would consume it
    if is_parquet(first):
        return "parquet"
    return "letor" if table_format_of_name(os.fspath(first)) is None else "table"  # type: ignore[arg-type]


def holds_impressions(file: str) -> bool:
    """Tell if a file is a store, or a Parquet file with the columns of impressions, and so no log to be joined."""
    if is_address(file) or is_store(Path(file)):
        return not is_address(file)
    if file == "-" or format_of(file) != "parquet":
        return False
    from perceptrank.io.parquet_columns import column_names

    return {PLACE, CLICKED} <= set(column_names(file))


def holds_clicks(file: str) -> bool:
    """Tell if a file is a table with places and clicks, but no grades: a log of clicks."""
    if file == "-" or is_address(file) or format_of(file) != "table":
        return False
    from perceptrank.io.tables.columns import Wanted
    from perceptrank.io.tables.reader import open_table

    roles = open_table(str(find_files(file)[0]), Wanted({}, required=frozenset(), with_features=False)).columns.roles
    return {PLACE, CLICKED} <= roles.keys() and RELEVANCE not in roles


def format_for(path: str) -> Literal["csv", "store", "parquet", "letor"]:
    """Choose the format of a file or folder to write by its name."""
    suffix = Path(path).suffix
    table = table_format_of_name(path)
    ways = "end the name with .csv, .txt, .parquet or .store, or use --to"
    if table == "csv":
        return "csv"
    if table is not None:
        raise ValueError(f"files like {path} are read, not written: {ways}")
    if path == "-" or suffix.lower() in _TEXT_SUFFIXES or suffix in SUFFIXES:
        return "letor"
    if suffix.lower() in _PARQUET_SUFFIXES:
        return "parquet"
    if suffix in ("", ".store") or is_store(Path(path)):
        return "store"
    raise ValueError(f"cannot tell the format of {path} from its name: {ways}")


def open_sources(
    sources: list[Source],
    *,
    whole: bool = False,
    comments: bool = False,
    progress: Callable[[int, int], object] | None = None,
    columns: dict[str, Any] | None = None,
    missing: Literal["error", "keep", "zero"] = "error",
    sparse: bool | None = None,
    feature_paths: list[str] | None = None,
    report: Callable[[Any], object] | None = None,
    names: tuple[str, ...] | None = None,
    unjudged: str = "skip",
    judged: bool = True,
    **letor: Any,
) -> Blocks:
    """Open files of one format, lazily or, if `whole`, in memory; raise `ValueError` if an option does not apply.

    `columns` names those of Parquet files and tables, `names` features to read of Parquet files that have them all.
    Tables and Parquet files need no grades if they are not `judged`.
    The rest is as for `read_letor`, `read_parquet` and `read_table`.
    """
    kinds = {"table" if feature_paths else format_of(source) for source in sources}
    if len(kinds) > 1:
        raise ValueError(f"files must be of one format, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    columns = columns or {}
    if columns and kind not in ("parquet", "table"):
        raise ValueError(f"column names apply to tables and Parquet files only, not to {_DESCRIBED[kind]}")
    if kind == "letor":
        if missing != "error":
            raise ValueError(f"`missing={missing!r}`: LETOR text has no missing values, only 0")
        read = read_letor if whole else scan_letor
        return read(sources, comments=comments, progress=progress, sparse=sparse, **letor)
    letor.pop("n_threads", None)
    precision = {"dtype": letor.pop("dtype")} if kind == "table" and "dtype" in letor else {}
    if letor:
        named = ", ".join(f"`{name}`" for name in letor)
        raise ValueError(f"{named}: applies to LETOR text only, not to {_DESCRIBED[kind]}")
    if kind == "table":
        from perceptrank.io.tables.reader import read_table, scan_table

        settings: dict[str, Any] = {"missing": missing, "judged": judged, "report": report, "progress": progress}
        settings |= precision | columns
        if unjudged != "skip":
            settings["unjudged"] = unjudged
        tables: list[Any] = list(sources)
        return (read_table if whole else scan_table)(tables, feature_paths or None, **settings)
    paths = [os.fspath(source) for source in sources if isinstance(source, (str, os.PathLike))]
    if kind == "parquet":
        from perceptrank.io.parquet import read_parquet, scan_parquet
        from perceptrank.io.parquet_columns import column_names

        if names and "features" not in columns and set(names) <= set(column_names(paths[0])):
            columns = columns | {"features": list(names)}
        read_rows = read_parquet if whole else scan_parquet
        return read_rows(paths, comments=comments, missing=missing, judged=judged, progress=progress, **columns)
    if missing == "zero":
        raise ValueError(f"`missing={missing!r}`: a store has what was written to it")
    from perceptrank.io.store import open_store

    stores = [open_store(path, comments=comments) for path in paths]
    return stores[0] if len(stores) == 1 else QueryStream.concatenate(stores) if whole else stores


def adapt_block(block: QueryStream, names: tuple[str, ...] | None, sparse: bool | None) -> QueryStream:
    """Return a block with the features of these names, if it has all of them, and sparse or dense if that is chosen."""
    if names and block.feature_names and block.feature_names != names and set(names) <= set(block.feature_names):
        block = block.select(names)
    if sparse is None:
        return block
    return block.to_sparse() if sparse else block.to_dense()
