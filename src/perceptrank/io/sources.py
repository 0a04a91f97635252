"""Judged queries from wherever they are: stores, Parquet and LETOR text, told apart by their content."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from perceptrank.io.letor.reader import read_letor, scan_letor
from perceptrank.io.parquet import read_parquet, scan_parquet
from perceptrank.io.store import MANIFEST, open_store
from perceptrank.io.text import Source, can_be_read_again, find_files
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.query_stream import QueryStream

Format = Literal["store", "parquet", "letor"]
_PARQUET_MAGIC = b"PAR1"
_TEXT_SUFFIXES = {".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat"}
_PARQUET_SUFFIXES = {".parquet", ".pq"}
_COMPRESSED_SUFFIXES = {".gz", ".bz2", ".xz", ".zst"}


def is_store(path: Path) -> bool:
    """Whether a folder is a store."""
    return (path / MANIFEST).is_file()


def is_named_as_data(name: str) -> bool:
    """Whether a file's name is one that judged queries usually go by, compressed or not."""
    path = Path(name.lower())
    if path.suffix in _COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.suffix in _TEXT_SUFFIXES or path.suffix in _PARQUET_SUFFIXES


def format_of(source: Source) -> Format:
    """What a file or folder holds."""
    if not isinstance(source, (str, os.PathLike)):
        return "letor"
    path = Path(source)
    if is_store(path):
        return "store"
    first = find_files(path)[0]
    if not can_be_read_again(first):
        return "letor"  # a look into a pipe would take from it
    with open(first, "rb") as file:  # type: ignore[arg-type]
        return "parquet" if file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC else "letor"


def format_for(path: str) -> Format:
    """What a file or folder that is to be written should hold, to go by its name."""
    suffix = Path(path).suffix
    if path == "-" or suffix.lower() in _TEXT_SUFFIXES or suffix in _COMPRESSED_SUFFIXES:
        return "letor"
    if suffix.lower() in _PARQUET_SUFFIXES:
        return "parquet"
    if suffix in ("", ".store") or is_store(Path(path)):
        return "store"
    raise ValueError(f"the name {path} does not say what to write: end it with .txt, .parquet or .store, or say --to")


def open_sources(
    sources: list[Source],
    *,
    whole: bool = False,
    comments: bool = False,
    progress: Callable[[int, int], object] | None = None,
    columns: dict[str, Any] | None = None,
    **letor: Any,
) -> Blocks:
    """Queries of several files of one format: block by block, or whole, documents of a query brought together.

    `letor` are options for LETOR text, as those of `read_letor`; `columns` name those of Parquet files.
    """
    kinds = {format_of(one) for one in sources}
    if len(kinds) > 1:
        raise ValueError(f"files must be of one format, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    if columns and kind != "parquet":
        raise ValueError(
            f"only Parquet files have columns to name, not {'a store' if kind == 'store' else 'LETOR text'}"
        )
    if kind == "letor":
        read = read_letor if whole else scan_letor
        return read(sources, comments=comments, progress=progress, **letor)
    letor.pop("n_threads", None)
    if letor:
        what = "a store" if kind == "store" else "a Parquet file"
        raise ValueError(f"{', '.join(letor)}: only LETOR text is read with such options, not {what}")
    paths = [os.fspath(one) for one in sources if isinstance(one, (str, os.PathLike))]
    if kind == "parquet":
        read_columns = read_parquet if whole else scan_parquet
        return read_columns(paths, comments=comments, **columns or {})
    stores = [open_store(path, comments=comments) for path in paths]
    return stores[0] if len(stores) == 1 else QueryStream.concatenate(stores) if whole else stores
