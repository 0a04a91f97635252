"""Model files: versioned JSON, exact for every float, written whole or not at all. No pickle."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from perceptrank.arrays import Floats

FORMAT = "perceptrank model"
VERSION = 1


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


def write_model(path: str | Path, document: dict[str, Any]) -> None:
    """Write a model's document under the current version."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **document}, indent=1, allow_nan=False, default=_plain)
    write_atomically(path, text + "\n")


def _plain(value: Any) -> Any:
    """NumPy numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a model cannot hold {value!r}")


def read_model(path: str | Path) -> dict[str, Any]:
    """Read a model's document and check that it is one this version can read."""
    try:
        document = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a perceptrank model, or is cut short: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is not a perceptrank model")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{path} has no valid version, got {version!r}")
    if version > VERSION:
        raise ValueError(
            f"{path} has version {version}, this perceptrank reads versions up to {VERSION}: "
            "a newer perceptrank wrote it; upgrade to read it"
        )
    return document


def finite_numbers(name: str, values: Any, length: int) -> Floats:
    """A vector from a model file, checked."""
    if not isinstance(values, list) or len(values) != length or not all(type(one) in (int, float) for one in values):
        raise ValueError(f"{name} must be {length} numbers")
    array = np.array(values, dtype=np.float64)
    if not np.isfinite(array).all():
        place = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name} must be finite, got {array[place]} at {place}")
    return array


def whole_number(name: str, value: Any) -> int:
    """A count from a model file, checked."""
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{name} must be a whole number, not negative, got {value!r}")
    return value
