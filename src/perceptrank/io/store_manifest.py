"""The manifest of a store, the JSON file that lists its segments and their files; and locks between processes.

Writers lock the folder, one at a time. A reader that maps segments only when it needs them holds the first one: while
anyone holds a segment that the manifest no longer lists, writers leave such segments in place.
"""

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.io.errors import FileFormatError
from perceptrank.io.model_file import WRITTEN_BY, newer_writer, too_new, whole_number
from perceptrank.io.npy_file import HEADER_BYTES, checksum
from perceptrank.io.paths import MANIFEST
from perceptrank.stream.columns import CLICKED, QID, RELEVANCE, declared, find_column
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import MOST_FEATURES

try:
    import fcntl
except ImportError:  # Windows: there are no such locks, but files in use cannot be removed either
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a store against other writers, where the system has file locks."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def hold(path: Path) -> int:
    """Open a file so that `is_held` is True for it until the returned handle is closed."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: readers can only hope that nobody overwrites the store
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_SH)
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_held(path: Path) -> bool:
    """Return True if a reader holds a file."""
    if fcntl is None:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks, so nobody holds it
        return False
    finally:
        os.close(handle)
    return False


FORMAT = "perceptrank store"
VERSION = 3
OWN_FILE = re.compile(r"(?:(\d{8})\.[a-z_A-Z0-9.]+\.npy|\.perceptrank-.*)")  # the latter: a manifest not yet complete

FEATURES = ("X",)
SPARSE_FEATURES = ("values", "indices", "starts")

_HELD = ".X.npy", ".values.npy"
_SEGMENT_NAME = re.compile(r"[0-9]{8}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ID_TYPE = re.compile(r"[<>](i8|f8|U[1-9][0-9]{0,8}|M8\[([1-9][0-9]{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])")


def segment_file(folder: Path, segment: str, kind: str) -> Path:
    """Return the path of a file of a segment."""
    return folder / f"{segment}.{kind}.npy"


def feature_kinds(manifest: dict[str, Any]) -> tuple[str, ...]:
    """Return the kinds of files that hold the features; readers hold the first."""
    return SPARSE_FEATURES if manifest["sparse"] else FEATURES


def starts_of(column: str) -> str:
    """Return the kind of file that says where each text of a column begins."""
    return f"{column}.starts"


def columns_of(segments: list[dict[str, Any]]) -> list[str]:
    """Return the names of the columns that segments have."""
    kinds = dict.fromkeys(kind for segment in segments for kind in segment["files"])
    return [kind for kind in kinds if kind not in (*FEATURES, *SPARSE_FEATURES, "offsets") and "." not in kind]


def new_manifest(stream: QueryStream) -> dict[str, Any]:
    """Return the manifest, still without segments, for the features of a stream."""
    names = stream.feature_names
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": WRITTEN_BY,
        "sparse": stream.is_sparse,
        "n_features": stream.n_features,
        "dtype": str(stream.X.dtype),
        "feature_names": None if names is None else list(names),
    }


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and validate it, without opening the files; raise `FormatError` if it is inconsistent."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no store at {folder}")
    if not path.is_file():
        raise FileFormatError(folder, f" is not a store: it has no {MANIFEST}")
    manifest = None
    try:
        manifest = json.loads(path.read_bytes())
        if manifest.get("format") != FORMAT:
            raise ValueError(f"its format must be {FORMAT!r}, got {manifest.get('format')!r}")
        if whole_number("version", manifest["version"]) > VERSION:
            raise FileFormatError(path, f" {too_new(manifest, VERSION)}")
        if manifest["version"] < VERSION:
            raise ValueError(f"its version must be {VERSION}, got {manifest['version']}: write the store again")
        if not isinstance(manifest["sparse"], bool):
            raise ValueError(f"sparse must be true or false, got {manifest['sparse']!r}")
        if whole_number("n_features", manifest["n_features"]) > MOST_FEATURES and manifest["sparse"]:
            raise ValueError(f"it has {manifest['n_features']} features, more than {MOST_FEATURES}")
        if manifest["dtype"] not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {manifest['dtype']!r}")
        names = manifest["feature_names"]
        if names is not None and (len(names) != manifest["n_features"] or not all(type(name) is str for name in names)):
            raise ValueError("its feature_names do not name each feature")
        if not isinstance(manifest["segments"], list) or not manifest["segments"]:
            raise ValueError("it has no segments")
        for segment in manifest["segments"]:
            _check_segment(folder, manifest, segment)
    except FileFormatError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else error
        newer = newer_writer(manifest)
        raise FileFormatError(path, f" is not the manifest of a store, or is damaged: {problem}{newer}") from None
    return dict(manifest)


def _check_segment(folder: Path, manifest: dict[str, Any], segment: dict[str, Any]) -> None:
    """Check one segment's entry against the sizes of its files."""
    if not _SEGMENT_NAME.fullmatch(segment["name"]):
        raise ValueError(f"invalid segment name {segment['name']!r}")
    if whole_number("queries", segment["queries"]) < 1 or whole_number("documents", segment["documents"]) < 1:
        raise ValueError(f"segment {segment['name']} has no documents")
    if not _ID_TYPE.fullmatch(segment["qids"]):
        raise ValueError(f"invalid type of query ids {segment['qids']!r}")
    if manifest["sparse"]:
        whole_number("nonzeros", segment["nonzeros"])
    columns = columns_of([segment])
    if unknown := [name for name in columns if name not in declared()]:
        ways = "perceptrank.stream.columns.declare does that, or a plugin"
        raise FileFormatError(folder, f" has a column {unknown[0]!r} that is not declared here: {ways}")
    texts = [starts_of(name) for name in columns if declared()[name].is_text]
    judged = CLICKED if CLICKED in columns else RELEVANCE
    needed = {*feature_kinds(manifest), "offsets", QID, judged, *texts}
    if not needed <= set(segment["files"]):
        raise ValueError(f"segment {segment['name']} lacks files: {', '.join(sorted(needed - set(segment['files'])))}")
    for kind, expected in segment["files"].items():
        if kind not in needed and kind not in columns:
            raise ValueError(f"segment {segment['name']} has an unknown file, {kind!r}")
        if not _SHA256.fullmatch(expected["sha256"]):
            raise ValueError(f"invalid checksum {expected['sha256']!r}")
        whole_number("bytes", expected["bytes"])
        path = segment_file(folder, segment["name"], kind)
        size = path.stat().st_size if path.is_file() else None
        if size != expected["bytes"]:
            state = "is missing" if size is None else f"has {size} bytes"
            raise ValueError(f"{path.name} {state}, {expected['bytes']} are expected")
        dtype, shape = array_of(manifest, segment, kind)
        if expected["bytes"] != HEADER_BYTES + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{path.name} with {dtype} of shape {shape} cannot have {expected['bytes']} bytes")


def array_of(manifest: dict[str, Any], segment: dict[str, Any], kind: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type and shape that the array in a file of a segment must have."""
    n_documents, n_queries = segment["documents"], segment["queries"]
    if kind == "X":
        return np.dtype(manifest["dtype"]), (n_documents, manifest["n_features"])
    if kind in ("values", "indices"):
        return np.dtype(manifest["dtype"] if kind == "values" else np.int32), (segment["nonzeros"],)
    if kind == "starts":
        return np.dtype(np.int64), (n_documents + 1,)
    if kind == "offsets":
        return np.dtype(np.int64), (n_queries + 1,)
    if kind == QID:
        return np.dtype(segment["qids"]), (n_queries,)
    column = find_column(kind.partition(".")[0])
    n = n_documents if column.per == "document" else n_queries
    if not column.is_text:
        return np.dtype(column.dtype), (n,)
    if kind == starts_of(column.name):
        return np.dtype(np.int64), (n + 1,)
    return np.dtype(np.uint8), (max(0, segment["files"][kind]["bytes"] - HEADER_BYTES),)


def is_listed(folder: Path, name: str) -> bool:
    """Return True if there is a valid manifest that lists the segment; raise `OSError` if it cannot be read."""
    try:
        return any(segment["name"] == name for segment in json.loads((folder / MANIFEST).read_bytes())["segments"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return False


def verify_segments(folder: Path, manifest: dict[str, Any]) -> None:
    """Compare headers and checksums of all files with the manifest; raise `FormatError` if one differs."""
    for segment in manifest["segments"]:
        for kind, expected in segment["files"].items():
            path = segment_file(folder, segment["name"], kind)
            if checksum(path, *array_of(manifest, segment, kind)) != expected["sha256"]:
                raise FileFormatError(path, f" is damaged: its checksum is not the one in {MANIFEST}")


def remove_unlisted(folder: Path) -> None:
    """Remove files that the manifest does not list; if a reader still needs some, all stay until the next write."""
    segments = read_manifest(folder)["segments"]
    listed = {segment_file(folder, segment["name"], kind).name for segment in segments for kind in segment["files"]}
    unlisted = [path for path in folder.iterdir() if OWN_FILE.fullmatch(path.name) and path.name not in listed]
    if not any(is_held(path) for path in unlisted if path.name.endswith(_HELD)):
        for path in unlisted:
            path.unlink(missing_ok=True)
