"""Write files atomically: to a temporary file that is flushed, then renamed."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with replaced_file(path) as file:
        file.write(text.encode())


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Resolve symbolic links; raise `OSError` unless a file can be created there now."""
    target = _target(path)
    handle, temporary = _temporary_file(target, path)
    os.close(handle)
    os.unlink(temporary)
    return target


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` on success and is removed on an error."""
    target = _target(path)
    handle, temporary = _temporary_file(target, path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise_if_full(path, error)
        raise
    flush_folder(target.parent)


def raise_if_full(path: str | os.PathLike[str], error: OSError) -> None:
    """Raise the error of a full disk with the name of what was written, which the system does not tell."""
    if error.errno in _NO_ROOM and error.filename is None:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error


def _target(path: str | os.PathLike[str]) -> Path:
    """Resolve symbolic links; raise `OSError` if the path cannot be a file."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}")
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise OSError(f"cannot write {path}: it exists and is not a file")
    return target


def _temporary_file(target: Path, path: str | os.PathLike[str]) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=".perceptrank-", dir=target.parent)
    except OSError as error:
        problem = f"cannot write {path}: no file can be created in {target.parent}: {error.strerror}"
        raise OSError(error.errno, problem) from error


def flush_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to disk, where the system supports it."""
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
