"""The manifest of a store: the JSON file that lists its segments and their files."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perceptrank.io.model_file import whole_number
from perceptrank.stream.query_stream import QueryStream

FORMAT = "perceptrank store"
VERSION = 1
MANIFEST = "manifest.json"
OWN_FILE = re.compile(r"(?:(\d{8})\.[a-z_A-Z]+\.npy|\.perceptrank-.*)")  # the latter: a manifest not yet complete

_SEGMENT_NAME = re.compile(r"\d{8}")


def is_store(path: Path) -> bool:
    """Return True for a folder with a manifest."""
    return (path / MANIFEST).is_file()


def segment_file(folder: Path, segment: str, kind: str) -> Path:
    """Return the path of a file of a segment."""
    return folder / f"{segment}.{kind}.npy"


def new_manifest(stream: QueryStream) -> dict[str, Any]:
    """Return the manifest, still without segments, for the features of a stream."""
    names = stream.feature_names
    return {
        "format": FORMAT,
        "version": VERSION,
        "n_features": stream.n_features,
        "dtype": str(stream.X.dtype),
        "feature_names": None if names is None else list(names),
    }


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and validate it, without opening the files; raise `ValueError` if it is inconsistent."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no store at {folder}")
    if not path.is_file():
        raise ValueError(f"{folder} is not a store: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_bytes())
        if manifest.get("format") != FORMAT:
            raise ValueError(f"its format must be {FORMAT!r}, got {manifest.get('format')!r}")
        if whole_number("version", manifest["version"]) > VERSION:
            raise ValueError(
                f"it has version {manifest['version']}, written by a newer perceptrank; upgrade to read it"
            )
        if whole_number("n_features", manifest["n_features"]) < 1 or manifest["dtype"] not in ("float32", "float64"):
            raise ValueError(f"invalid features: {manifest['n_features']} of type {manifest['dtype']!r}")
        names = manifest["feature_names"]
        if names is not None and (len(names) != manifest["n_features"] or not all(type(one) is str for one in names)):
            raise ValueError("its feature_names do not name each feature")
        if not manifest["segments"]:
            raise ValueError("it has no segments")
        for segment in manifest["segments"]:
            _check_segment(folder, segment)
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not the manifest of a store, or is damaged: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not the manifest of a store, or is damaged: {error}") from None
    return dict(manifest)


def _check_segment(folder: Path, segment: dict[str, Any]) -> None:
    if not _SEGMENT_NAME.fullmatch(segment["name"]):
        raise ValueError(f"invalid segment name {segment['name']!r}")
    if whole_number("queries", segment["queries"]) < 1 or whole_number("documents", segment["documents"]) < 1:
        raise ValueError(f"segment {segment['name']} has no documents")
    if not {"X", "relevance", "offsets", "qids"} <= set(segment["files"]):
        raise ValueError(f"segment {segment['name']} lacks files")
    for kind, expected in segment["files"].items():
        path = segment_file(folder, segment["name"], kind)
        size = path.stat().st_size if path.is_file() else None
        if size != expected["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes"
            raise ValueError(f"{path.name} {found}, {expected['bytes']} are expected")


def is_listed(folder: Path, name: str) -> bool:
    """Return True if there is a valid manifest that lists the segment."""
    try:
        return any(one["name"] == name for one in json.loads((folder / MANIFEST).read_bytes())["segments"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def remove_unlisted(folder: Path) -> None:
    """Remove files that the manifest does not list: left by an interrupted write, or replaced."""
    segments = read_manifest(folder)["segments"]
    listed = {segment_file(folder, one["name"], kind).name for one in segments for kind in one["files"]}
    for path in folder.iterdir():
        if OWN_FILE.fullmatch(path.name) and path.name not in listed:
            path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a store against other writers, where the system has file locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
