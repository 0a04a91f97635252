"""Model files: versioned JSON, exact for every float, written atomically. No pickle."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank import __version__
from perceptrank.io.atomic import write_atomically
from perceptrank.io.errors import FileFormatError
from perceptrank.kernels.arrays import Floats

FORMAT = "perceptrank model"
VERSION = 2  # the only one that is read
WRITTEN_BY = f"perceptrank {__version__}"  # for people: a reader goes by the version of the format


def write_model(path: str | Path, document: dict[str, Any]) -> None:
    """Write a model document with the current version."""
    write_atomically(path, model_text(document))


def model_text(document: dict[str, Any]) -> str:
    """Return the text of the file of a model document, with the current version."""
    whole = {"format": FORMAT, "version": VERSION, "written_by": WRITTEN_BY, **document}
    return json.dumps(whole, indent=1, allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Convert NumPy scalars to Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a model cannot hold {value!r}")


def read_model(path: str | Path) -> dict[str, Any]:
    """Read a model document; raise `FormatError` if it is invalid or of another version."""
    return parse_model(path, Path(path).read_bytes())


def parse_model(path: str | Path, content: str | bytes) -> dict[str, Any]:
    """Return the model document that a file's content holds; the path is for errors alone."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f" is not a perceptrank model, or is truncated: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(path, " is not a perceptrank model")
    version = document.get("version")
    if type(version) is not int or version < VERSION:
        raise FileFormatError(path, f" must have version {VERSION}, got {version!r}")
    if version > VERSION:
        raise FileFormatError(path, f" {too_new(document, VERSION)}")
    return document


def too_new(document: dict[str, Any], newest: int) -> str:
    """Return the message for a file whose format has a newer version than the newest that is read here."""
    writer = document.get("written_by")
    name = writer[:80] if isinstance(writer, str) else "a newer perceptrank"
    reads = f"{WRITTEN_BY} reads versions up to {newest}"
    return f"has version {document['version']}, {reads}: {name} wrote it; upgrade to read it"


def newer_writer(document: Any) -> str:
    """Return what to add to an error about a file that a newer perceptrank wrote; nothing if it is not newer."""
    writer = document.get("written_by") if isinstance(document, dict) else None
    if not isinstance(writer, str) or _release(writer) <= _release(WRITTEN_BY):
        return ""
    return f"; {writer[:80]} wrote it, which is newer than {WRITTEN_BY}: upgrade to read it"


def _release(writer: str) -> tuple[int, ...]:
    match = re.match(r"perceptrank (\d{1,9})\.(\d{1,9})\.(\d{1,9})", writer, re.ASCII)
    return tuple(map(int, match.groups())) if match else ()


def finite_numbers(name: str, values: Any, length: int) -> Floats:
    """Validate a vector of finite numbers from a model file."""
    if not isinstance(values, list) or len(values) != length or not all(type(x) in (int, float) for x in values):
        raise ValueError(f"{name} must be {length} numbers")
    array = np.array(values, dtype=np.float64)
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name} must be finite, got {array[i]} at {i}")
    return array


def whole_number(name: str, value: Any) -> int:
    """Validate a count from a model file."""
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{name} must be a whole number, not negative, got {value!r}")
    return value
