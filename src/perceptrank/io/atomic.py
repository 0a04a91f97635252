"""Write files whole or not at all: a temporary file, flushed, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_atomically(path: str | Path, text: str) -> None:
    """Write a text file so that, whatever happens, the old content or the new one is there."""
    with replaced_file(path) as file:
        file.write(text.encode())


def check_writable(path: str | os.PathLike[str]) -> Path:
    """The file that a path stands for, if one can be there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {path}: it is there already and not a file")
    return target


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of the one at `path` when all has gone well, and vanishes otherwise."""
    target = check_writable(path)
    handle, temporary = tempfile.mkstemp(prefix=".perceptrank-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    flush_folder(target.parent)


def flush_folder(folder: Path) -> None:
    """Have the names in a folder written to disk, where the system can do that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
