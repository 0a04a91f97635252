"""Open stores, Parquet files and LETOR text, recognised by content."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from perceptrank.io.compression import SUFFIXES
from perceptrank.io.letor.reader import read_letor
from perceptrank.io.letor.scan import scan_letor
from perceptrank.io.parquet import read_parquet, scan_parquet
from perceptrank.io.paths import Source, find_files, is_rereadable
from perceptrank.io.store import open_store
from perceptrank.io.store_manifest import is_store
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import AdvisingValueError, Name, Setting

Format = Literal["store", "parquet", "letor"]
_PARQUET_MAGIC = b"PAR1"
_TEXT_SUFFIXES = {".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat"}
_PARQUET_SUFFIXES = {".parquet", ".pq"}


def has_data_suffix(name: str) -> bool:
    """Return True if a file name has a suffix that is usual for judged queries, compressed or not."""
    path = Path(name.lower())
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.suffix in _TEXT_SUFFIXES or path.suffix in _PARQUET_SUFFIXES


def format_of(source: Source) -> Format:
    """Detect the format of a file or folder."""
    if not isinstance(source, (str, os.PathLike)):
        return "letor"
    path = Path(source)
    if is_store(path):
        return "store"
    first = find_files(path)[0]
    if not is_rereadable(first):
        return "letor"  # peeking into a pipe would consume it
    with open(first, "rb") as file:  # type: ignore[arg-type]
        return "parquet" if file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC else "letor"


def format_for(path: str) -> Format:
    """Choose the format of a file or folder to write by its name."""
    suffix = Path(path).suffix
    if path == "-" or suffix.lower() in _TEXT_SUFFIXES or suffix in SUFFIXES:
        return "letor"
    if suffix.lower() in _PARQUET_SUFFIXES:
        return "parquet"
    if suffix in ("", ".store") or is_store(Path(path)):
        return "store"
    raise ValueError(
        f"cannot tell the format of {path} from its name: end it with .txt, .parquet or .store, or use --to"
    )


def open_sources(
    sources: list[Source],
    *,
    whole: bool = False,
    comments: bool = False,
    progress: Callable[[int, int], object] | None = None,
    columns: dict[str, Any] | None = None,
    missing: Literal["error", "keep"] = "error",
    sparse: bool | None = None,
    **letor: Any,
) -> Blocks:
    """Open files of one format, lazily or in memory.

    Parameters
    ----------
    sources : list of path or binary file
    whole : bool
        Read into memory; documents of a query need not be adjacent then.
    comments : bool
        Keep the comments.
    progress : callable, optional
        As for `read_letor`.
    columns : dict, optional
        Column names of Parquet files, as for `read_parquet`.
    missing : {"error", "keep"}
        What to do with missing features of Parquet files, as for `read_parquet`; a store has what was written to it.
    sparse : bool, optional
        As for `read_letor`; the features of stores and Parquet files are as they are there.
    **letor
        Options for LETOR text, as for `read_letor`.

    Returns
    -------
    QueryStream or iterable of QueryStream

    Raises
    ------
    ValueError
        If the formats differ, or an option does not apply to the format.
    """
    kinds = {format_of(one) for one in sources}
    if len(kinds) > 1:
        raise ValueError(f"files must be of one format, got {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    if columns and kind != "parquet":
        raise ValueError(
            f"column names apply to Parquet files only, not to {'a store' if kind == 'store' else 'LETOR text'}"
        )
    if kind == "letor":
        if missing == "keep":
            raise AdvisingValueError(Setting("missing", missing), ": LETOR text has no missing values, only 0")
        read = read_letor if whole else scan_letor
        return read(sources, comments=comments, progress=progress, sparse=sparse, **letor)
    letor.pop("n_threads", None)
    if letor:
        what = "a store" if kind == "store" else "a Parquet file"
        first, *others = map(Name, letor)
        named = [first, *(part for name in others for part in (", ", name))]
        raise AdvisingValueError(*named, f": applies to LETOR text only, not to {what}")
    paths = [os.fspath(one) for one in sources if isinstance(one, (str, os.PathLike))]
    if kind == "parquet":
        read_columns = read_parquet if whole else scan_parquet
        return read_columns(paths, comments=comments, missing=missing, **columns or {})
    stores = [open_store(path, comments=comments) for path in paths]
    return stores[0] if len(stores) == 1 else QueryStream.concatenate(stores) if whole else stores
