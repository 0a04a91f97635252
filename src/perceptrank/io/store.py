"""Judged queries on disk, opened at once and never read whole: a folder of .npy files and a manifest.

Queries are kept in segments, each a few .npy files that never change. `manifest.json` says which segments there are; it
is replaced as a whole, after the files of a new segment are safely on disk. So a store is what it was, or has a segment
more, whenever the power goes.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.atomic import flush_folder, write_atomically
from perceptrank.io.model_file import whole_number
from perceptrank.io.npy_file import NpyFile, checksum
from perceptrank.io.text import PathLike
from perceptrank.io.whole_queries import identifiers
from perceptrank.kernels.arrays import Features, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream

FORMAT = "perceptrank store"
VERSION = 1
MANIFEST = "manifest.json"

_SEGMENT_NAME = re.compile(r"\d{8}")
_OWN_FILE = re.compile(r"(?:(\d{8})\.[a-z_A-Z]+\.npy|\.perceptrank-.*)")  # the latter a manifest that was cut off
_MOST_COUNTED_GRADES = 64
_MOST_MAPPED_AT_ONCE = 16
_MOST_ID_BYTES = 2**30


def open_store(path: PathLike, *, comments: bool = False) -> "Store":
    """Open a store: its arrays are mapped into memory, nothing is read or copied.

    `comments` says whether to load the comments too, if it has any; text takes memory.
    """
    return Store(Path(path).absolute(), comments)


def write_store(
    stream: Blocks,
    path: PathLike,
    *,
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
) -> "Store":
    """Write a stream, or an iterable of them of any length, as a store with one segment, and open it.

    A store that is there already is an error, unless `overwrite`; then it is replaced at the end, all at once.
    `progress` is called with the number of documents written so far.
    """
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"cannot write a store to {path}: it is a file")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {folder.parent}")
    folder.mkdir(exist_ok=True)
    try:
        with _locked(folder):
            if (folder / MANIFEST).exists() and not overwrite:
                raise FileExistsError(f"there is a store at {path}; append to it, or overwrite it (overwrite=True)")
            if not (folder / MANIFEST).exists() and not all(_OWN_FILE.fullmatch(one) for one in os.listdir(folder)):
                raise FileExistsError(f"cannot write a store to {path}: there are other files in that folder")
            _add_segment(folder, _with_comments(stream), None, progress)
            _remove_unlisted(folder)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    return open_store(folder)


def _with_comments(stream: Blocks) -> Blocks:
    """A store with its comments, even if it was opened without."""
    return open_store(stream.path, comments=True) if isinstance(stream, Store) else stream


class Store(QueryStream):
    """A stream on disk: use it like any other `QueryStream`. Gone through in blocks, it need not fit into memory.

    With one segment, ``X`` and the other arrays are those of its files, mapped into memory. With several, they are put
    together in memory when they are asked for as a whole; `blocks`, queries and slices inside a segment stay mapped.
    """

    def __init__(self, path: Path, comments: bool = False) -> None:
        self.path = path
        self._with_comments = comments
        self._open()

    def _open(self) -> None:
        manifest = _read_manifest(self.path)
        while True:  # until no one has overwritten it meanwhile
            try:
                few = range(len(manifest["segments"]) if len(manifest["segments"]) <= _MOST_MAPPED_AT_ONCE else 0)
                mapped = [_map_segment(self.path, manifest, number, self._with_comments) for number in few]
                break
            except ValueError:
                if (newer := _read_manifest(self.path)) == manifest:
                    raise
                manifest = newer
        self._manifest = manifest
        self.feature_names = None if manifest["feature_names"] is None else tuple(manifest["feature_names"])
        self._segments: list[QueryStream | None] = [*mapped] or [None] * len(manifest["segments"])
        self._first_queries: Ints = np.cumsum([0] + [one["queries"] for one in manifest["segments"]])
        for name in ("X", "relevance", "offsets", "qids", "comments"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """Arrays of the whole stream, put together when they are first asked for."""
        if name not in ("X", "relevance", "offsets", "qids", "comments"):
            raise AttributeError(f"'Store' object has no attribute {name!r}")
        only_small = self.n_segments > 1 and name != "X"
        if self.n_segments == 1:
            whole = self._segment(0)
        elif only_small:  # without putting the features together
            narrow = (one.with_features(np.zeros((one.n_documents, 1), np.float32)) for one in self._all_segments())
            whole = QueryStream.concatenate(narrow)
        else:
            whole = QueryStream.concatenate(self._all_segments())
        self._set(whole.X, whole.relevance, whole.offsets, whole.qids, self.feature_names, whole.comments)
        if only_small:
            del self.X
        return self.__dict__[name]

    def __repr__(self) -> str:
        segments = "1 segment" if self.n_segments == 1 else f"{self.n_segments} segments"
        return f"Store({str(self.path)!r}, {segments}, {super().__repr__()})"

    @property
    def n_segments(self) -> int:
        """How many times queries have been written."""
        return len(self._segments)

    @property
    def n_queries(self) -> int:
        """Number of queries; also `len(store)`."""
        return int(self._first_queries[-1])

    @property
    def n_documents(self) -> int:
        """Number of documents of all queries."""
        return sum(one["documents"] for one in self._manifest["segments"])

    @property
    def n_features(self) -> int:
        """Number of features of a document."""
        return int(self._manifest["n_features"])

    def _all_segments(self) -> Iterator[QueryStream]:
        return (self._segment(number) for number in range(self.n_segments))

    def _segment(self, number: int) -> QueryStream:
        segment = self._segments[number]
        if segment is None:
            segment = _map_segment(self.path, self._manifest, number, self._with_comments)
            self._segments[number] = segment
        return segment

    def blocks(self, max_bytes: int = BLOCK_BYTES) -> Iterator[QueryStream]:
        """The stream in consecutive pieces of at most max_bytes of features, without copies; a query is never split."""
        for segment in self._all_segments():
            yield from segment.blocks(max_bytes)

    def __getitem__(self, index: Any) -> Any:
        """A number gives a `Query`; a slice, or an array of numbers or booleans, a stream of those queries."""
        if isinstance(index, (int, np.integer)):
            q = range(self.n_queries)[index]
            number = int(np.searchsorted(self._first_queries, q, side="right")) - 1
            return self._segment(number)[q - int(self._first_queries[number])]
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(self.n_queries)
            parts = []
            for number, first in enumerate(self._first_queries[:-1].tolist()):
                if start < self._first_queries[number + 1] and stop > first:
                    parts.append(self._segment(number)[max(0, start - first) : max(0, stop - first)])
            if not parts:
                return self._segment(0)[:0]
            return parts[0] if len(parts) == 1 else QueryStream.concatenate(parts)
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, opens the same folder."""
        return Store, (self.path, self._with_comments)

    def append(self, stream: Blocks) -> None:
        """Add queries, as a new segment: all of them, or, should anything happen, none.

        They must have the same features. Others may have the store open, and go on with what they had; appending from
        several processes at once is safe where the system has file locks (not on Windows).
        """
        with _locked(self.path):
            manifest = _read_manifest(self.path)
            _remove_unlisted(self.path)
            _add_segment(self.path, _with_comments(stream), manifest, None)
        self._open()

    def verify(self) -> None:
        """Read all files and compare their checksums with the manifest's; raise if one differs."""
        for segment in self._manifest["segments"]:
            for kind, expected in segment["files"].items():
                path = _file(self.path, segment["name"], kind)
                if checksum(path) != expected["sha256"]:
                    raise ValueError(f"{path} is damaged: its checksum is not the one in {MANIFEST}")


def _file(folder: Path, segment: str, kind: str) -> Path:
    return folder / f"{segment}.{kind}.npy"


def _add_segment(
    folder: Path,
    stream: Blocks,
    manifest: dict[str, Any] | None,
    progress: Callable[[int], object] | None,
) -> None:
    """Write a segment and list it, after those of the manifest, or as the only one if there is no manifest."""
    used = [int(match[1]) for one in os.listdir(folder) if (match := _OWN_FILE.fullmatch(one)) and match[1]]
    name = f"{max(used, default=-1) + 1:08d}"
    try:
        head, segment = _write_segment(folder, name, stream, manifest, progress)
        flush_folder(folder)
        head["segments"] = [*(manifest["segments"] if manifest else []), segment]
        write_atomically(folder / MANIFEST, json.dumps(head, indent=1) + "\n")
    except BaseException:
        if not _is_listed(folder, name):
            for path in folder.glob(f"{name}.*.npy"):
                path.unlink(missing_ok=True)
        raise


def _is_listed(folder: Path, name: str) -> bool:
    """Whether the manifest, if there is a sound one, names a segment."""
    try:
        return any(one["name"] == name for one in json.loads((folder / MANIFEST).read_bytes())["segments"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write_segment(
    folder: Path,
    name: str,
    stream: Blocks,
    manifest: dict[str, Any] | None,
    progress: Callable[[int], object] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the manifest without segments, the segment's entry in it)."""
    head = {key: value for key, value in manifest.items() if key != "segments"} if manifest else None
    files: dict[str, NpyFile] = {}
    qids: list[npt.NDArray[Any]] = []
    grades: dict[float, int] | None = {}
    n_documents = 0
    with ExitStack() as stack:

        def opened(kind: str, dtype: npt.DTypeLike, *row_shape: int) -> NpyFile:
            files[kind] = stack.enter_context(NpyFile(_file(folder, name, kind), dtype, row_shape))
            return files[kind]

        for whole in as_blocks(stream):
            if head is None:
                head = _head(whole)
            _check_features(head, whole)
            if not files:
                opened("X", head["dtype"], head["n_features"])
                opened("relevance", np.float64)
                opened("offsets", np.int64).append(np.zeros(1, np.int64))
            for block in whole.blocks():
                if block.comments is not None and "comments" not in files:
                    opened("comments", np.uint8)
                    opened("comment_lengths", np.int64).append(np.zeros(n_documents, np.int64))
                files["X"].append(block.X)
                files["relevance"].append(block.relevance)
                files["offsets"].append(block.offsets[1:] + n_documents)
                qids.append(block.qids)
                grades = _count(grades, block)
                n_documents += block.n_documents
                if "comments" in files:
                    _append_comments(files, block)
                if progress is not None:
                    progress(n_documents)
        if head is None or not qids:
            raise ValueError("the stream has no queries")
        identities = _as_storable(qids)
        opened("qids", identities.dtype).append(identities)
    return head, {
        "name": name,
        "queries": len(identities),
        "documents": n_documents,
        "grades": None if grades is None else {_grade_name(grade): grades[grade] for grade in sorted(grades)},
        "qids": identities.dtype.str,
        "files": {kind: file.describe() for kind, file in files.items()},
    }


def _head(stream: QueryStream) -> dict[str, Any]:
    names = stream.feature_names
    return {
        "format": FORMAT,
        "version": VERSION,
        "n_features": stream.n_features,
        "dtype": str(stream.X.dtype),
        "feature_names": None if names is None else list(names),
    }


def _check_features(head: dict[str, Any], stream: QueryStream) -> None:
    """Raise unless a stream has the features that a store has, in a type that it can keep."""
    names = None if stream.feature_names is None else list(stream.feature_names)
    if stream.n_features != head["n_features"] or (names or head["feature_names"]) != head["feature_names"]:
        raise ValueError(
            f"a store has the same features throughout: {head['n_features']} ({_shown(head['feature_names'])}), "
            f"got {stream.n_features} ({_shown(names)})"
        )
    if not np.can_cast(stream.X.dtype, head["dtype"]):
        raise ValueError(f"the store keeps features as {head['dtype']}, which cannot hold {stream.X.dtype} exactly")


def _shown(names: list[str] | None) -> str:
    return "without names" if names is None else ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _count(grades: dict[float, int] | None, block: QueryStream) -> dict[float, int] | None:
    """How many documents have each grade, as long as there are not too many grades."""
    if grades is None:
        return None
    for grade, count in zip(*np.unique(block.relevance, return_counts=True), strict=True):
        grades[float(grade)] = grades.get(float(grade), 0) + int(count)
    return grades if len(grades) <= _MOST_COUNTED_GRADES else None


def _grade_name(grade: float) -> str:
    return str(int(grade)) if grade.is_integer() else repr(grade)


def _append_comments(files: dict[str, NpyFile], block: QueryStream) -> None:
    texts = [text.encode() for text in (block.comments if block.comments is not None else [""] * block.n_documents)]
    files["comments"].append(np.frombuffer(b"".join(texts), np.uint8))
    files["comment_lengths"].append(np.array([len(text) for text in texts], dtype=np.int64))


def _as_storable(qids: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Query ids of all blocks: numbers if all are, else text."""
    if {block.dtype.kind for block in qids} == {"M"}:
        return np.concatenate(qids)
    everything = [one for block in qids for one in block.tolist()]
    strange = [one for one in everything if not isinstance(one, (str, int, float, np.integer))]
    if strange:
        raise ValueError(f"query ids must be numbers or text to be stored, got {strange[0]!r}")
    ids = identifiers(everything)
    longest = max(map(len, ids.tolist())) if ids.dtype == object else 0
    if 4 * longest * len(ids) > _MOST_ID_BYTES:
        raise ValueError(
            f"query ids are too long to be stored: {len(ids)} of them, the longest of {longest} characters"
        )
    return ids.astype(str) if ids.dtype == object else ids


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, checked as far as it can be without a look into the files."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no store at {folder}")
    if not path.is_file():
        raise ValueError(f"{folder} is not a store: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_bytes())
        if manifest.get("format") != FORMAT:
            raise ValueError("it does not say that it is one of a store")
        if whole_number("version", manifest["version"]) > VERSION:
            raise ValueError(
                f"it has version {manifest['version']}, written by a newer perceptrank; upgrade to read it"
            )
        if whole_number("n_features", manifest["n_features"]) < 1 or manifest["dtype"] not in ("float32", "float64"):
            raise ValueError(f"it has {manifest['n_features']} features of type {manifest['dtype']!r}")
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
        raise ValueError(f"a segment is called {segment['name']!r}")
    if whole_number("queries", segment["queries"]) < 1 or whole_number("documents", segment["documents"]) < 1:
        raise ValueError(f"segment {segment['name']} has no documents")
    if not {"X", "relevance", "offsets", "qids"} <= set(segment["files"]):
        raise ValueError(f"segment {segment['name']} lacks files")
    for kind, expected in segment["files"].items():
        path = _file(folder, segment["name"], kind)
        size = path.stat().st_size if path.is_file() else None
        if size != expected["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes"
            raise ValueError(f"{path.name} {found}, {expected['bytes']} are expected")


def _map_segment(folder: Path, manifest: dict[str, Any], number: int, with_comments: bool) -> QueryStream:
    segment = manifest["segments"][number]
    n, n_queries = segment["documents"], segment["queries"]

    def mapped(kind: str, dtype: npt.DTypeLike, *shape: int) -> npt.NDArray[Any]:
        path = _file(folder, segment["name"], kind)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if array.shape != shape or array.dtype != np.dtype(dtype):
            raise ValueError(
                f"{path} is damaged: it holds {array.dtype} of shape {array.shape}, not {dtype} of {shape}"
            )
        return np.asarray(array)

    X: Features = mapped("X", manifest["dtype"], n, manifest["n_features"])
    offsets: Ints = mapped("offsets", np.int64, n_queries + 1)
    if offsets[0] != 0 or offsets[-1] != n or not (offsets[1:] > offsets[:-1]).all():
        raise ValueError(f"{_file(folder, segment['name'], 'offsets')} is damaged: offsets must rise from 0 to {n}")
    comments = None
    if with_comments and "comments" not in segment["files"]:
        if any("comments" in other["files"] for other in manifest["segments"]):
            comments = np.full(n, "", object)
    elif with_comments:
        bounds = np.concatenate([[0], np.cumsum(mapped("comment_lengths", np.int64, n))]).tolist()
        text = mapped("comments", np.uint8, bounds[-1]).tobytes()
        comments = np.array([text[start:end].decode() for start, end in pairwise(bounds)], dtype=object)
    names = manifest["feature_names"]
    return QueryStream._trusted(
        X,
        mapped("relevance", np.float64, n),
        offsets,
        mapped("qids", segment["qids"], n_queries),
        None if names is None else tuple(names),
        comments,
    )


def _remove_unlisted(folder: Path) -> None:
    """Remove files of segments that are not, or no longer, part of the store: a write was cut off, or replaced them."""
    segments = _read_manifest(folder)["segments"]
    listed = {_file(folder, one["name"], kind).name for one in segments for kind in one["files"]}
    for path in folder.iterdir():
        if _OWN_FILE.fullmatch(path.name) and path.name not in listed:
            path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a store, where the system has file locks."""
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
