"""Paths and open files that users pass as input."""

import glob
import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = PathLike | IO[bytes]
MANIFEST = "manifest.json"  # of a store


def is_address(source: object) -> bool:
    """Tell the address of a server, or of an index, from a path."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def find_files(paths: Source | Iterable[Source]) -> list[Source]:
    """Resolve paths to files: a folder to the files in it, a glob pattern to its matches.

    Files in a folder whose names start with a dot or an underscore are ignored. Open files are kept as they are.
    """
    if isinstance(paths, (str, os.PathLike)) or hasattr(paths, "read"):
        paths = [paths]  # type: ignore[list-item]
    files: list[Source] = []
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise TypeError(f"paths must be a path, an open file, or several of them, got {type(paths).__name__}")
    for source in paths:
        if not isinstance(source, (str, os.PathLike)):
            if not hasattr(source, "read"):
                raise TypeError(f"paths must be paths or files opened for reading, got {type(source).__name__}")
            if isinstance(source, io.TextIOBase):
                raise TypeError(f"{display_name(source)} is open as text; open it in binary mode, 'rb'")
            files.append(source)
        elif not os.fspath(source):
            raise ValueError("a path must not be empty")
        elif (path := Path(source)).is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
            if is_store(path):
                raise ValueError(f"{path} is a store; use open_store")
            if not inside:
                raise FileNotFoundError(
                    f"there are no files in the folder {path}; a pattern like {path}/*/train.txt matches files below it"
                )
            files += inside
        elif path.exists():
            files.append(path)
        elif glob.has_magic(str(source)) and not is_address(source):
            matching = sorted(file for file in glob.glob(str(source), recursive=True) if Path(file).is_file())
            if not matching:
                raise FileNotFoundError(f"no file matches {source}")
            files += matching
        elif is_address(source):  # which may hold a password
            raise FileNotFoundError(
                "an address of a live engine is no file: it is read as a log of clicks, by read_clicks or --clicks"
            )
        else:
            raise FileNotFoundError(f"there is no file {source}")
    if not files:
        raise ValueError("paths must name at least one file, got none")
    return files


def find_paths(paths: PathLike | Iterable[PathLike], what: str) -> list[str]:
    """Resolve paths as `find_files`; raise `TypeError` for open files. `what` the files are is for messages."""
    files = []
    for file in find_files(paths):
        if not isinstance(file, (str, os.PathLike)):
            raise TypeError(f"{what} are given by their paths, got {type(file).__name__}")
        files.append(os.fspath(file))
    return files


def is_rereadable(source: Source) -> bool:
    """Return True for the path of a regular file, False for pipes and open files."""
    return isinstance(source, (str, os.PathLike)) and os.path.isfile(source)


def display_name(source: Source) -> str:
    """Return the name of a file for messages."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


def size_in_bytes(source: Source) -> int | None:
    """Return the size of a file, or None if it is unknown, as for a pipe."""
    try:
        status = os.stat(source) if isinstance(source, (str, os.PathLike)) else os.fstat(source.fileno())
    except (OSError, AttributeError, io.UnsupportedOperation):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def is_store(path: Path) -> bool:
    """Return True for a folder with a manifest."""
    return (path / MANIFEST).is_file()


def is_parquet(source: object) -> bool:
    """Tell a Parquet file by its first bytes."""
    if not isinstance(source, (str, os.PathLike)) or not os.path.isfile(source):
        return False
    with open(source, "rb") as file:
        return file.read(4) == b"PAR1"
