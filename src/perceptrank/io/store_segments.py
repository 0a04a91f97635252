"""Segments of a store: immutable sets of .npy files."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.atomic import flush_folder, raise_if_full, write_atomically
from perceptrank.io.block_assembly import as_id_array
from perceptrank.io.errors import FileFormatError
from perceptrank.io.model_file import WRITTEN_BY
from perceptrank.io.npy_file import NpyFile, map_array
from perceptrank.io.sparse_rows import checked_rows
from perceptrank.io.store_manifest import (
    MANIFEST,
    OWN_FILE,
    SPARSE_FEATURES,
    array_of,
    is_listed,
    new_manifest,
    segment_file,
)
from perceptrank.kernels.arrays import Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures, dense
from perceptrank.stream.texts import Texts

_MAX_COUNTED_GRADES = 64
_MAX_ID_BYTES = 2**30


def add_segment(
    folder: Path,
    stream: Blocks,
    manifest: dict[str, Any] | None,
    progress: Callable[[int], object] | None,
) -> None:
    """Write a segment and add it to the manifest; without a manifest it becomes the only one."""
    used = [int(match[1]) for one in os.listdir(folder) if (match := OWN_FILE.fullmatch(one)) and match[1]]
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
    folder: Path,
    name: str,
    stream: Blocks,
    manifest: dict[str, Any] | None,
    progress: Callable[[int], object] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the files of a segment; return the manifest without segments, and the segment's entry."""
    head = None if manifest is None else {**manifest, "written_by": WRITTEN_BY}
    if head is not None:
        del head["segments"]
    files: dict[str, NpyFile] = {}
    qids: list[npt.NDArray[Any]] = []
    grades: dict[float, int] | None = {}
    n_documents = n_nonzeros = n_docid_bytes = 0
    with ExitStack() as stack:

        def opened(kind: str, dtype: npt.DTypeLike, *row_shape: int) -> NpyFile:
            files[kind] = stack.enter_context(NpyFile(segment_file(folder, name, kind), dtype, row_shape))
            return files[kind]

        for whole in as_blocks(stream, required=True):
            for block in whole.blocks():
                if head is None:
                    head = new_manifest(block)
                _check_features(head, block)
                if not files:
                    if head.get("sparse"):
                        opened("values", head["dtype"])
                        opened("indices", np.int32)
                        opened("starts", np.int64).append(np.zeros(1, np.int64))
                    else:
                        opened("X", head["dtype"], head["n_features"])
                    opened("relevance", np.float64)
                    opened("offsets", np.int64).append(np.zeros(1, np.int64))
                if block.comments is not None and "comments" not in files:
                    opened("comments", np.uint8)
                    opened("comment_lengths", np.int64).append(np.zeros(n_documents, np.int64))
                if block.docids is not None and "docids" not in files:
                    opened("docids", np.uint8)
                    opened("docid_starts", np.int64).append(np.zeros(n_documents + 1, np.int64))
                if block.weights is not None and "weights" not in files:
                    opened("weights", np.float64).append(np.ones(sum(map(len, qids))))
                n_nonzeros = _append_features(files, block.X, n_nonzeros)
                files["relevance"].append(block.relevance)
                files["offsets"].append(block.offsets[1:] + n_documents)
                qids.append(block.qids)
                grades = _count_grades(grades, block)
                n_documents += block.n_documents
                if "comments" in files:
                    _append_comments(files, block)
                if "docids" in files:
                    n_docid_bytes = _append_docids(files, block, n_docid_bytes)
                if "weights" in files:
                    files["weights"].append(np.ones(len(block)) if block.weights is None else block.weights)
                if progress is not None:
                    progress(n_documents)
        assert head is not None
        identities = _as_storable(qids)
        opened("qids", identities.dtype).append(identities)
    return head, {
        "name": name,
        "queries": len(identities),
        "documents": n_documents,
        **({"nonzeros": n_nonzeros} if head.get("sparse") else {}),
        "grades": None if grades is None else {_grade_name(grade): grades[grade] for grade in sorted(grades)},
        "qids": identities.dtype.str,
        "files": {kind: file.describe() for kind, file in files.items()},
    }


def _append_features(files: dict[str, NpyFile], X: AnyFeatures, n_nonzeros: int) -> int:
    """Append features, after so many non-zeros; return how many there are now."""
    if "X" in files:
        files["X"].append(dense(X))
        return 0
    rows = X if isinstance(X, SparseFeatures) else SparseFeatures.from_dense(X)
    first, last = int(rows.starts[0]), int(rows.starts[-1])
    files["values"].append(rows.values[first:last])
    files["indices"].append(rows.indices[first:last])
    files["starts"].append(rows.starts[1:] + (n_nonzeros - first))
    return n_nonzeros + last - first


def _check_features(head: dict[str, Any], stream: QueryStream) -> None:
    """Raise unless a stream has the features of the store, in a dtype that the store can hold."""
    names = None if stream.feature_names is None else list(stream.feature_names)
    if stream.n_features != head["n_features"] or (names or head["feature_names"]) != head["feature_names"]:
        raise ValueError(
            f"the features of a store must be the same throughout: {head['n_features']} "
            f"({_list_names(head['feature_names'])}), got {stream.n_features} ({_list_names(names)})"
        )
    if stream.is_sparse and not head.get("sparse"):
        problem = "the store has dense features and cannot take sparse ones; "
        raise ValueError(f"{problem}`sparse=False` reads dense features, `stream.to_dense()` makes them")
    if not np.can_cast(stream.X.dtype, head["dtype"]):
        raise ValueError(f"the store has features of dtype {head['dtype']}, which cannot hold {stream.X.dtype} exactly")


def _list_names(names: list[str] | None) -> str:
    return "without names" if names is None else ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _count_grades(grades: dict[float, int] | None, block: QueryStream) -> dict[float, int] | None:
    """Add the documents per grade of a block; None if there are too many grades."""
    if grades is None:
        return None
    for grade, count in zip(*np.unique(block.relevance, return_counts=True), strict=True):
        grades[float(grade)] = grades.get(float(grade), 0) + int(count)
    return grades if len(grades) <= _MAX_COUNTED_GRADES else None


def _grade_name(grade: float) -> str:
    return str(int(grade)) if grade.is_integer() else repr(grade)


def _append_comments(files: dict[str, NpyFile], block: QueryStream) -> None:
    texts = [text.encode() for text in (block.comments if block.comments is not None else [""] * block.n_documents)]
    files["comments"].append(np.frombuffer(b"".join(texts), np.uint8))
    files["comment_lengths"].append(np.array([len(text) for text in texts], dtype=np.int64))


def _append_docids(files: dict[str, NpyFile], block: QueryStream, n_bytes: int) -> int:
    """Append ids of documents, after so many bytes of them; return how many there are now."""
    docids = Texts.empty(block.n_documents) if block.docids is None else block.docids
    first, last = int(docids.starts[0]), int(docids.starts[-1])
    files["docids"].append(docids.content[first:last])
    files["docid_starts"].append(docids.starts[1:] + (n_bytes - first))
    return n_bytes + last - first


def _as_storable(qids: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate query ids as dates, numbers or text; raise `ValueError` for other types."""
    if {block.dtype.kind for block in qids} == {"M"}:
        return np.concatenate(qids)
    everything = [one for block in qids for one in block.tolist()]
    unsupported = [one for one in everything if not isinstance(one, (str, int, float, np.integer))]
    if unsupported:
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

    X: AnyFeatures
    if manifest.get("sparse"):
        files = [segment_file(folder, segment["name"], kind) for kind in SPARSE_FEATURES]
        X = checked_rows(mapped("values"), mapped("indices"), mapped("starts"), manifest["n_features"], files)
    else:
        X = mapped("X")
    offsets: Ints = mapped("offsets")
    if offsets[0] != 0 or offsets[-1] != n or not (offsets[1:] > offsets[:-1]).all():
        path = segment_file(folder, segment["name"], "offsets")
        raise FileFormatError(path, f" is damaged: offsets must rise from 0 to {n}")
    comments = None
    if with_comments and "comments" in segment["files"]:
        comments = _split_comments(
            segment_file(folder, segment["name"], "comments"), mapped("comments"), mapped("comment_lengths")
        )
    elif with_comments and any("comments" in other["files"] for other in manifest["segments"]):
        comments = np.full(n, "", object)
    docids = weights = None
    if "docids" in segment["files"]:
        path = segment_file(folder, segment["name"], "docid_starts")
        docids = _checked_docids(path, mapped("docids"), mapped("docid_starts"))
    elif any("docids" in other["files"] for other in manifest["segments"]):
        docids = Texts.empty(n)
    if "weights" in segment["files"]:
        weights = mapped("weights")
        if not (np.isfinite(weights) & (weights >= 0)).all():
            path = segment_file(folder, segment["name"], "weights")
            raise FileFormatError(path, " is damaged: weights must be finite and not negative")
    elif any("weights" in other["files"] for other in manifest["segments"]):
        weights = np.ones(segment["queries"])
    names = manifest["feature_names"]
    return QueryStream._trusted(
        X,
        mapped("relevance"),
        offsets,
        mapped("qids"),
        None if names is None else tuple(names),
        comments,
        docids,
        weights,
    )


def _checked_docids(path: Path, content: npt.NDArray[Any], starts: Ints) -> Texts:
    if starts[0] != 0 or starts[-1] != len(content) or (starts[1:] < starts[:-1]).any():
        raise FileFormatError(path, f" is damaged: starts of ids must rise from 0 to {len(content)}")
    return Texts._trusted(content, starts)


def _split_comments(path: Path, text: npt.NDArray[Any], lengths: Ints) -> npt.NDArray[Any]:
    """Split concatenated comments; raise `FormatError` unless the lengths add up to them."""
    n_bytes = len(text)
    if (lengths < 0).any() or (lengths > n_bytes).any() or sum(lengths.tolist()) != n_bytes:
        raise FileFormatError(path, f" is damaged: the lengths of comments do not add up to {n_bytes} bytes")
    bounds = [0, *np.cumsum(lengths).tolist()]
    raw = text.tobytes()
    try:
        return np.array([raw[start:end].decode() for start, end in pairwise(bounds)], dtype=object)
    except UnicodeDecodeError as error:
        raise FileFormatError(path, f" is damaged: a comment is not UTF-8: {error}") from None
