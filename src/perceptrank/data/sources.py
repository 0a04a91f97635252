"""Judged queries from wherever they are: stores, Parquet and LETOR text, told apart by their content."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from perceptrank.data.letor import read_letor, scan_letor
from perceptrank.data.parquet import read_parquet, scan_parquet
from perceptrank.data.store import MANIFEST, open_store
from perceptrank.data.text import Source, find_files
from perceptrank.stream import Blocks, QueryStream

Format = Literal["store", "parquet", "letor"]
_PARQUET_MAGIC = b"PAR1"
_TEXT_SUFFIXES = {".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat"}
_COMPRESSED_SUFFIXES = {".gz", ".bz2", ".xz", ".zst"}


def format_of(source: Source) -> Format:
    """What a file or folder holds."""
    if not isinstance(source, (str, os.PathLike)):
        return "letor"
    path = Path(source)
    if (path / MANIFEST).is_file():
        return "store"
    with open(find_files(path)[0], "rb") as file:  # type: ignore[arg-type]
        return "parquet" if file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC else "letor"


def format_for(path: str) -> Format:
    """What a file or folder that is to be written should hold, to go by its name."""
    suffixes = [one for one in Path(path).suffixes[-2:] if one not in _COMPRESSED_SUFFIXES]
    if suffixes and suffixes[-1] in (".parquet", ".pq"):
        return "parquet"
    is_text = path == "-" or (suffixes and suffixes[-1] in _TEXT_SUFFIXES) or Path(path).suffix in _COMPRESSED_SUFFIXES
    return "letor" if is_text else "store"


def open_sources(
    sources: list[Source],
    *,
    whole: bool = False,
    comments: bool = False,
    progress: Callable[[int, int], object] | None = None,
    **letor: Any,
) -> Blocks:
    """Queries of several files of one format: block by block, or whole, documents of a query brought together.

    `letor` are options for LETOR text, as those of `read_letor`.
    """
    kinds = {format_of(one) for one in sources}
    if len(kinds) > 1:
        raise ValueError(f"files must be of one format, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    if kind == "letor":
        read = read_letor if whole else scan_letor
        return read(sources, comments=comments, progress=progress, **letor)
    changed = [name for name, value in letor.items() if value]
    if changed:
        raise ValueError(f"{', '.join(changed)}: only LETOR text can be read so, not a {kind}")
    paths = [os.fspath(one) for one in sources if isinstance(one, (str, os.PathLike))]
    if kind == "parquet":
        return read_parquet(paths, comments=comments) if whole else scan_parquet(paths, comments=comments)
    stores = [open_store(path, comments=comments) for path in paths]
    return stores[0] if len(stores) == 1 else QueryStream.concatenate(stores) if whole else stores
