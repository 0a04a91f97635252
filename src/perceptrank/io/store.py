"""Stores: judged queries on disk, as a folder of memory-mapped .npy files and a manifest.

Queries are kept in segments of a few immutable .npy files. `manifest.json` lists the segments; it is replaced
atomically after the files of a new segment are on disk, so an interrupted write leaves the store as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from perceptrank.io.growing import GrowingArray
from perceptrank.io.paths import MANIFEST, PathLike
from perceptrank.io.store_manifest import OWN_FILE, locked, read_manifest, remove_unlisted, verify_segments
from perceptrank.io.store_segments import OpenSegments, add_segment, map_segment
from perceptrank.kernels.arrays import Features, Ints
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.columns import Values, concatenate_values
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import read_only

_ARRAYS = ("X", "offsets", "_documents", "_queries", "_has_added")


def open_store(path: PathLike, *, comments: bool = False) -> Store:
    """Open a store; its arrays are memory-mapped. Raises `FormatError` if it is not a store, or is damaged.

    Parameters
    ----------
    path : path
        Folder of the store.
    comments : bool
        Have the comments, if there are any.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = pr.write_store(pr.mslr_shaped(20, n_documents=5, n_features=6), f"{folder}/train.store")
    >>> len(open_store(f"{folder}/train.store"))
    20
    """
    return Store(Path(path).absolute(), comments)


def write_store(
    stream: Blocks, path: PathLike, *, overwrite: bool = False, progress: Callable[[int], object] | None = None
) -> Store:
    """Write a stream as a store with one segment, and open it.

    Parameters
    ----------
    stream : QueryStream or iterable of QueryStream
        Queries; together they may be larger than memory.
    path : path
        Folder to write: new, empty, or a store to overwrite.
    overwrite : bool
        Replace an existing store, atomically.
    progress : callable, optional
        Called with the number of documents written so far.

    Raises
    ------
    FileExistsError
        If there is a store and `overwrite` is False, or something else at `path`.
    ValueError
        If there are no queries, the features of blocks differ, or query ids cannot be stored.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> stream = pr.mslr_shaped(20, n_documents=5, n_features=6)
    >>> store = write_store(stream, f"{tempfile.mkdtemp()}/train.store")
    >>> len(store), store.n_features
    (20, 6)
    """
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"cannot write a store to {path}: it is a file")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {folder.parent}")
    folder.mkdir(exist_ok=True)
    try:
        with locked(folder):
            if (folder / MANIFEST).exists() and not overwrite:
                raise FileExistsError(f"there is a store at {path}; append to it, or overwrite it (`overwrite=True`)")
            if not (folder / MANIFEST).exists() and not all(map(OWN_FILE.fullmatch, os.listdir(folder))):
                raise FileExistsError(f"cannot write a store to {path}: there are other files in that folder")
            add_segment(folder, _with_comments(stream), None, progress)
            remove_unlisted(folder)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    return open_store(folder)


def _with_comments(stream: Blocks) -> Blocks:
    """Reopen a store with its comments; return other streams as they are."""
    return open_store(stream.path, comments=True) if isinstance(stream, Store) else stream


class Store(QueryStream):
    """A memory-mapped `QueryStream` on disk; read in blocks, it need not fit in memory.

    A store is sparse if the first queries written to it were: it has the non-zeros then, and their columns.
    With one segment, ``X`` and the other arrays are memory-mapped files. With several, they are concatenated in memory
    on first access; `blocks`, single queries and slices inside a segment stay memory-mapped.

    Parameters
    ----------
    path : Path
        Absolute path of the folder.
    comments : bool
        Have the comments, if there are any.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> stream = pr.mslr_shaped(20, n_documents=5, n_features=6)
    >>> store = pr.write_store(stream[:15], f"{tempfile.mkdtemp()}/train.store")
    >>> _ = store.append(stream[15:])
    >>> len(pr.open_store(store.path))
    20
    """

    def __init__(self, path: Path, comments: bool = False) -> None:
        self.path = path
        self._with_comments = comments
        self._open()

    def _open(self) -> None:
        self._segments = OpenSegments(self.path, self._with_comments)
        self._manifest = self._segments.manifest
        names = self._manifest["feature_names"]
        self.feature_names = None if names is None else tuple(names)
        self._first_queries: Ints = np.cumsum([0] + [segment["queries"] for segment in self._manifest["segments"]])
        for name in _ARRAYS:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """Concatenate the arrays of the whole stream on first access."""
        if name not in _ARRAYS:
            raise AttributeError(f"'Store' object has no attribute {name!r}")
        if self.n_segments > 1 and name == "X":
            vars(self)["X"] = read_only(self._copy_features(0, self.n_queries))
        else:
            is_one = self.n_segments == 1
            whole = self._segments[0] if is_one else _without_features(self._parts(0, self.n_queries))
            self._set(whole.X, whole.offsets, whole._documents, whole._queries, self.feature_names)
            if not is_one:
                del self.X
        return self.__dict__[name]

    def _parts(self, start: int, stop: int) -> Iterator[QueryStream]:
        """Yield the queries of a range segment by segment, without keeping them mapped."""
        segments = self._segments
        for number, first in enumerate(self._first_queries[:-1].tolist()):
            if start < self._first_queries[number + 1] and stop > first:
                yield segments[number][max(0, start - first) : stop - first]

    def _copy_features(self, start: int, stop: int) -> AnyFeatures:
        """Copy the features of a range of queries, one segment after the other."""
        values, indices, starts = (GrowingArray(dtype) for dtype in (self._manifest["dtype"], np.int32, np.int64))
        n_documents = 0
        for part in self._parts(start, stop):
            X = part.X
            n_documents += len(X)
            if isinstance(X, SparseFeatures):
                first, last = int(X.starts[0]), int(X.starts[-1])
                starts.extend(X.starts[:-1] + (len(values) - first))
                indices.extend(X.indices[first:last])
                values.extend(X.values[first:last])
            else:
                values.extend(X.ravel())
        if not self.is_sparse:
            return cast(Features, values.finish().reshape(n_documents, self.n_features))
        starts.extend(np.array([len(values)]))
        return SparseFeatures._trusted(values.finish(), indices.finish(), starts.finish(), self.n_features)

    def __repr__(self) -> str:
        segments = "1 segment" if self.n_segments == 1 else f"{self.n_segments} segments"
        n_nonzeros = sum(segment.get("nonzeros", 0) for segment in self._manifest["segments"])
        sparse = f", {n_nonzeros} non-zeros" if self.is_sparse else ""
        counts = f"{self.n_queries} queries, {self.n_documents} documents, {self.n_features} features"
        return f"Store({str(self.path)!r}, {segments}, QueryStream({counts}{sparse}))"

    @property
    def is_sparse(self) -> bool:
        """True if the features are sparse."""
        return bool(self._manifest["sparse"])

    @property
    def n_segments(self) -> int:
        """Number of segments: one per write."""
        return len(self._segments)

    @property
    def n_queries(self) -> int:
        """Number of queries; also `len(store)`."""
        return int(self._first_queries[-1])

    @property
    def n_documents(self) -> int:
        """Number of documents, over all queries."""
        return sum(segment["documents"] for segment in self._manifest["segments"])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._manifest["n_features"])

    def blocks(self, max_bytes: int = BLOCK_BYTES) -> Iterator[QueryStream]:
        """Iterate over memory-mapped blocks of whole queries, of `max_bytes` of features at most or a single query."""
        segments = self._segments  # an append or a compaction meanwhile is for the next iteration
        for number in range(len(segments)):
            yield from segments[number].blocks(max_bytes)

    def __getitem__(self, index: Any) -> Any:
        """Select one query by its number, or several by a slice or an array of numbers or booleans."""
        if isinstance(index, (int, np.integer)):
            q = range(self.n_queries)[index]
            number = int(np.searchsorted(self._first_queries, q, side="right")) - 1
            return self._segments[number][q - int(self._first_queries[number])]
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(self.n_queries)
            first = int(np.searchsorted(self._first_queries, start, side="right")) - 1
            if start >= stop:
                return self._segments[0][:0]
            if stop <= self._first_queries[first + 1]:
                return next(self._parts(start, stop))
            whole = _without_features(self._parts(start, stop))
            return whole.with_features(self._copy_features(start, stop), feature_names=self.feature_names)
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path: the copy opens the same folder."""
        return Store, (self.path, self._with_comments)

    def append(self, stream: Blocks) -> None:
        """Append queries as a new segment, atomically.

        Other processes that have the store open keep what they opened. Concurrent appends are safe where the system has
        file locks (not on Windows).

        Parameters
        ----------
        stream : QueryStream or iterable of QueryStream
            At least one query, with the features of the store. A sparse store takes dense ones too, without their
            zeros; a dense store takes no sparse ones.
        """
        with locked(self.path):
            manifest = read_manifest(self.path)
            remove_unlisted(self.path)
            add_segment(self.path, _with_comments(stream), manifest, None)
        self._open()

    def compact(self) -> None:
        """Merge all segments into one, atomically, after verifying them.

        Other processes that have the store open keep what they opened; appends wait. If a reader still needs the old
        segments, their files stay until the next write. On an error, because a file is damaged or the query ids of
        segments cannot be stored together, such as dates and numbers, the store stays as it is.

        Examples
        --------
        >>> import tempfile, perceptrank as pr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = pr.write_store(pr.QueryStream.from_arrays([[1.0], [2.0]], [0, 1]), folder)
        ...     store.append(pr.QueryStream.from_arrays([[3.0], [4.0]], [1, 0]))
        ...     store.compact()
        ...     store.n_segments, store.X.ravel().tolist()
        (1, [1.0, 2.0, 3.0, 4.0])
        """
        with locked(self.path):
            manifest = read_manifest(self.path)
            n_segments = len(manifest["segments"])
            if n_segments > 1:
                verify_segments(self.path, manifest)  # what is copied gets new checksums
                segments = (map_segment(self.path, manifest, number, True) for number in range(n_segments))
                add_segment(self.path, segments, None, None)
            self._open()  # which lets go of the old segments
            remove_unlisted(self.path)

    def verify(self) -> None:
        """Compare headers and checksums of all files with the manifest; raise `FormatError` if one differs."""
        verify_segments(self.path, self._manifest)


def _without_features(parts: Iterator[QueryStream]) -> QueryStream:
    """Concatenate copies of everything but the features, which have no columns; no part stays mapped meanwhile."""

    def copied(columns: Mapping[str, Values]) -> dict[str, Values]:
        return {name: concatenate_values([values]) for name, values in columns.items()}

    def without(part: QueryStream) -> QueryStream:
        X = np.empty((part.n_documents, 0), np.float32)
        return QueryStream._trusted(X, np.array(part.offsets), copied(part._documents), copied(part._queries))

    return QueryStream.concatenate(map(without, parts))
