"""Segments of a store: immutable sets of .npy files."""

import json
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.atomic import flush_folder, raise_if_full, write_atomically
from perceptrank.io.block_assembly import as_id_array
from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.model_file import WRITTEN_BY
from perceptrank.io.npy_file import NpyFile, describe_os_error, map_array
from perceptrank.io.paths import MANIFEST
from perceptrank.io.store_manifest import (
    OWN_FILE,
    SPARSE_FEATURES,
    array_of,
    columns_of,
    feature_kinds,
    hold,
    is_listed,
    new_manifest,
    read_manifest,
    segment_file,
    starts_of,
)
from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.columns import COMMENT, QID, RELEVANCE, Column, Values, declared, find_column
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures, dense
from perceptrank.stream.texts import Texts


def checked_rows(
    values: Features, indices: npt.NDArray[np.int32], starts: Ints, n_features: int, files: Sequence[Path | str]
) -> SparseFeatures:
    """Return rows of these arrays, in `files`, without a copy; raise `FormatError` if they do not fit together."""
    if len(values) != len(indices):
        raise FileFormatError(files[1], f" is damaged: there must be as many indices as values, {len(values)}")
    if not (len(starts) and starts[0] == 0 and starts[-1] == len(indices) and (starts[1:] >= starts[:-1]).all()):
        raise FileFormatError(files[2], f" is damaged: starts must rise from 0 to {len(indices)}")
    if not are_valid(indices, starts, n_features):
        try:
            SparseFeatures(values, indices, starts, n_features)
        except ValueError as error:
            raise FileFormatError(files[1], f" is damaged: {error}") from None
    return SparseFeatures._trusted(values, indices, starts, n_features)


@compiled
def are_valid(indices: npt.NDArray[np.int32], starts: Ints, n_features: int) -> bool:
    """Tell whether the indices of every row increase, from 0 on, and are below the number of features."""
    valid = True
    for row in range(len(starts) - 1):
        last = -1
        for k in range(starts[row], starts[row + 1]):
            valid &= indices[k] > last
            last = indices[k]
        valid &= last < n_features
        if not valid:
            break
    return valid


_MAX_MAPPED = 16


class OpenSegments:
    """The segments that a store had when it was opened, whatever others do to the store meanwhile.

    Those last used are mapped, since every mapped file takes a descriptor; all are held, so that nobody removes them.
    """

    def __init__(self, folder: Path, with_comments: bool) -> None:
        self._folder, self._with_comments = folder, with_comments
        while not self._open():
            pass

    def _open(self) -> bool:
        """Read the manifest and hold its segments; return False if another process has replaced it meanwhile."""
        stamp = _stamp(self._folder)
        handle = None
        try:
            self.manifest: dict[str, Any] = read_manifest(self._folder)
            opened = partial(map_segment, self._folder, self.manifest, with_comments=self._with_comments)
            self._mapped = lru_cache(_MAX_MAPPED)(opened)
            first = self.manifest["segments"][0]["name"]
            handle = hold(segment_file(self._folder, first, feature_kinds(self.manifest)[0]))
            if not is_listed(self._folder, first):  # its files may have been removed before they were held
                return False
            if len(self) <= _MAX_MAPPED:
                for number in range(len(self)):
                    self[number]
            else:
                weakref.finalize(self, os.close, handle)
                handle = None
        except (FormatError, FileNotFoundError):
            if _stamp(self._folder) == stamp:
                raise
            return False
        except OSError as error:
            raise describe_os_error(self._folder, error) from None
        finally:
            if handle is not None:
                os.close(handle)
        return True

    def __len__(self) -> int:
        return len(self.manifest["segments"])

    def __getitem__(self, number: int) -> QueryStream:
        return self._mapped(number)


def _stamp(folder: Path) -> tuple[int, ...] | None:
    """Return what tells a manifest from the one that replaces it."""
    try:
        status = os.stat(folder / MANIFEST)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


_MAX_COUNTED_GRADES = 64
_MAX_ID_BYTES = 2**30


def add_segment(
    folder: Path, stream: Blocks, manifest: dict[str, Any] | None, progress: Callable[[int], object] | None
) -> None:
    """Write a segment and add it to the manifest; without a manifest it becomes the only one."""
    used = [int(match[1]) for file in os.listdir(folder) if (match := OWN_FILE.fullmatch(file)) and match[1]]
    name = f"{max(used, default=-1) + 1:08d}"
    try:
        try:
            head, segment = _write_segment(folder, name, stream, manifest, progress)
        except OSError as error:
            raise_if_full(folder, error)
            raise
        flush_folder(folder)
        head["segments"] = [*(manifest["segments"] if manifest else []), segment]
        write_atomically(folder / MANIFEST, json.dumps(head, indent=1) + "\n")
    except BaseException:
        with suppress(OSError):  # what stays is removed by the next write
            if not is_listed(folder, name):
                for path in folder.glob(f"{name}.*.npy"):
                    path.unlink(missing_ok=True)
        raise


def _write_segment(
    folder: Path, name: str, stream: Blocks, manifest: dict[str, Any] | None, progress: Callable[[int], object] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the files of a segment; return the manifest without segments, and the segment's entry."""
    head = None if manifest is None else {**manifest, "written_by": WRITTEN_BY}
    if head is not None:
        del head["segments"]
    files: dict[str, NpyFile] = {}
    qids: list[npt.NDArray[Any]] = []
    grades: dict[float, int] | None = {}
    n_documents = n_queries = 0
    with ExitStack() as stack:

        def opened(kind: str, dtype: npt.DTypeLike, *row_shape: int) -> NpyFile:
            files[kind] = stack.enter_context(NpyFile(segment_file(folder, name, kind), dtype, row_shape))
            return files[kind]

        def append(column: Column, values: Values) -> None:
            if isinstance(values, Texts):
                _append_ragged(files[starts_of(column.name)], values.starts, {files[column.name]: values.content})
            else:
                files[column.name].append(values)

        def open_column(column: Column) -> None:
            n_before = n_documents if column.per == "document" else n_queries
            if column.is_text:
                opened(column.name, np.uint8)
                opened(starts_of(column.name), np.int64).append(np.zeros(1, np.int64))
            else:
                opened(column.name, column.dtype)
            if n_before:
                append(column, column.filled(n_before))

        for whole in as_blocks(stream, required=True):
            for block in whole.blocks():
                if head is None:
                    head = new_manifest(block)
                _check_features(head, block)
                if not files:
                    if head["sparse"]:
                        opened("values", head["dtype"])
                        opened("indices", np.int32)
                        opened("starts", np.int64).append(np.zeros(1, np.int64))
                    else:
                        opened("X", head["dtype"], head["n_features"])
                    opened("offsets", np.int64).append(np.zeros(1, np.int64))
                if head["sparse"]:
                    rows = block.X if isinstance(block.X, SparseFeatures) else SparseFeatures.from_dense(block.X)
                    contents = {files["values"]: rows.values, files["indices"]: rows.indices}
                    _append_ragged(files["starts"], rows.starts, contents)
                else:
                    files["X"].append(dense(block.X))
                files["offsets"].append(block.offsets[1:] + n_documents)
                qids.append(block.qids)
                columns = block.columns
                for column in declared().values():
                    if column.name == QID:
                        continue
                    if column.name in columns and column.name not in files:
                        open_column(column)
                    if column.name in files:
                        n = block.n_documents if column.per == "document" else len(block)
                        append(column, columns[column.name] if column.name in columns else column.filled(n))
                grades = _count_grades(grades, block)
                n_documents += block.n_documents
                n_queries += len(block)
                if progress is not None:
                    progress(n_documents)
        assert head is not None
        before = {} if manifest is None else columns_of(manifest["segments"])
        for column_name in before and set(before) - {QID} ^ files.keys() & declared().keys():
            find_column(column_name).filled(0)  # raises if there is no value for the segments without it
        identities = _as_storable(qids)
        opened(QID, identities.dtype).append(identities)
    return head, {
        "name": name,
        "queries": n_queries,
        "documents": n_documents,
        **({"nonzeros": files["values"].n_rows} if head["sparse"] else {}),
        "grades": None
        if grades is None
        else {str(int(grade)) if grade.is_integer() else repr(grade): grades[grade] for grade in sorted(grades)},
        "qids": identities.dtype.str,
        "files": {kind: file.describe() for kind, file in files.items()},
    }


def _append_ragged(bounds: NpyFile, starts: Ints, contents: Mapping[NpyFile, npt.NDArray[Any]]) -> None:
    """Append items of several lengths: the end of each, and the contents between the first start and the last."""
    first, last = int(starts[0]), int(starts[-1])
    n_before = next(iter(contents)).n_rows
    bounds.append(starts[1:] + (n_before - first))
    for file, content in contents.items():
        file.append(content[first:last])


def _check_features(head: dict[str, Any], stream: QueryStream) -> None:
    """Raise unless a stream has the features of the store, in a dtype that the store can hold."""
    names = None if stream.feature_names is None else list(stream.feature_names)
    if stream.n_features != head["n_features"] or (names or head["feature_names"]) != head["feature_names"]:
        raise ValueError(
            f"the features of a store must be the same throughout: {head['n_features']} "
            f"({_list_names(head['feature_names'])}), got {stream.n_features} ({_list_names(names)})"
        )
    if stream.is_sparse and not head["sparse"]:
        problem = "the store has dense features and cannot take sparse ones; "
        raise ValueError(f"{problem}`sparse=False` reads dense features, `stream.to_dense()` makes them")
    if not np.can_cast(stream.X.dtype, head["dtype"]):
        raise ValueError(f"the store has features of dtype {head['dtype']}, which cannot hold {stream.X.dtype} exactly")


def _list_names(names: list[str] | None) -> str:
    return "without names" if names is None else ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _count_grades(grades: dict[float, int] | None, block: QueryStream) -> dict[float, int] | None:
    """Add the documents per grade of a block; None if there are too many grades."""
    if grades is None or RELEVANCE not in block.columns:
        return grades
    for grade, count in zip(*np.unique(block.relevance, return_counts=True), strict=True):
        grades[float(grade)] = grades.get(float(grade), 0) + int(count)
    return grades if len(grades) <= _MAX_COUNTED_GRADES else None


def _as_storable(qids: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate query ids as dates, numbers or text; raise `ValueError` for other types."""
    if {block.dtype.kind for block in qids} == {"M"}:
        return np.concatenate(qids)
    everything = [qid for block in qids for qid in block.tolist()]
    if unsupported := [qid for qid in everything if not isinstance(qid, (str, int, float, np.integer))]:
        raise ValueError(f"query ids must be numbers or text to be stored, got {unsupported[0]!r}")
    ids = as_id_array(everything)
    longest = max(map(len, ids.tolist())) if ids.dtype == object else 0
    if 4 * longest * len(ids) > _MAX_ID_BYTES:
        raise ValueError(
            f"query ids are too long to be stored: {len(ids)} of them, the longest of {longest} characters"
        )
    return ids.astype(str) if ids.dtype == object else ids


def map_segment(folder: Path, manifest: dict[str, Any], number: int, with_comments: bool) -> QueryStream:
    """Memory-map a segment; raise `FormatError` if its files are damaged."""
    segment = manifest["segments"][number]
    n = segment["documents"]

    def mapped(kind: str) -> npt.NDArray[Any]:
        dtype, shape = array_of(manifest, segment, kind)
        is_feature = kind in ("X", "values", "indices") and shape[0] > 0
        return map_array(segment_file(folder, segment["name"], kind), dtype, shape, always=is_feature)

    def damaged(kind: str, rule: str) -> FileFormatError:
        return FileFormatError(segment_file(folder, segment["name"], kind), f" is damaged: {rule}")

    X: AnyFeatures
    if manifest["sparse"]:
        files = [segment_file(folder, segment["name"], kind) for kind in SPARSE_FEATURES]
        X = checked_rows(mapped("values"), mapped("indices"), mapped("starts"), manifest["n_features"], files)
    else:
        X = mapped("X")
    offsets: Ints = mapped("offsets")
    if offsets[0] != 0 or offsets[-1] != n or not (offsets[1:] > offsets[:-1]).all():
        raise damaged("offsets", f"offsets must rise from 0 to {n}")
    documents: dict[str, Values] = {}
    qids = mapped(QID)
    if qids.dtype.kind == "U" and (qids.view(f"{qids.dtype.str[0]}u4") > sys.maxunicode).any():
        raise damaged(QID, "query ids must be Unicode")
    queries: dict[str, Values] = {QID: qids}
    for name in columns_of(manifest["segments"]):
        if name == QID or (name == COMMENT and not with_comments):
            continue
        column = find_column(name)
        of_kind, length = (documents, n) if column.per == "document" else (queries, segment["queries"])
        if name not in segment["files"]:
            of_kind[name] = column.filled(length)
        elif column.is_text:
            content, starts = mapped(name), mapped(starts_of(name))
            if starts[0] != 0 or starts[-1] != len(content) or (starts[1:] < starts[:-1]).any():
                raise damaged(starts_of(name), f"starts of {name} must rise from 0 to {len(content)}")
            of_kind[name] = Texts._trusted(content, starts)
        else:
            of_kind[name] = values = mapped(name)
            if column.per == "query" and column.check is not None and not column.check(values).all():
                raise damaged(name, f"{column.argument} {column.rule}")
    names = manifest["feature_names"]
    return QueryStream._trusted(X, offsets, documents, queries, None if names is None else tuple(names))
