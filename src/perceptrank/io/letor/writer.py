"""Write LETOR text."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.compression import compressed_file
from perceptrank.io.letor.formatting import LINE_BYTES, PAIR_BYTES, format_rows
from perceptrank.io.paths import PathLike
from perceptrank.kernels.arrays import Bytes, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.columns import BUILT_IN
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures

_BUFFER_BYTES = 4 * 2**20
_LINE_BREAK = re.compile(r"[\r\n]")
_BLANKS = " \t\v\f"
_BLANK = re.compile(r"[\s\0]", re.ASCII)
_DOCID = re.compile(r"(?<![0-9A-Za-z_])docid\s*=\s*(\S+)", re.ASCII)
_NO_ID = re.compile(r"[\s#\0]|^$")


def write_letor(stream: Blocks, path: PathLike | IO[bytes], *, sparse: bool = False, zero_based: bool = False) -> None:
    """Write a stream as LETOR text that `read_letor` reads back exactly.

    Every value has the fewest decimals that round-trip. Feature names are written as lines ``#1:name`` before the first
    document, comments at the end of each line, ids of documents at the beginning of the comments, as in
    ``# docid = a7``.

    Parameters
    ----------
    stream : QueryStream or iterable of QueryStream
        Queries with distinct ids.
    path : path or binary file
        Output; a path that ends with ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` (extra ``zstd``) is compressed. The file is
        written atomically.
    sparse : bool
        Omit features that are 0, as those of sparse streams always are. If the last feature is 0 everywhere, reading
        the file needs `n_features`.
    zero_based : bool
        Count feature ids from 0; the file must be read with ``zero_based=True``.

    Raises
    ------
    ValueError
        If there are no queries, the features of blocks differ, or ids, names, comments or values cannot be represented
        in LETOR text.

    Examples
    --------
    >>> stream = QueryStream.from_arrays([[0.5, 0.0], [0.1, 3.0]], [2, 0], qid=["q", "q"], comments=["a", "b"])
    >>> import io
    >>> write_letor(stream, text := io.BytesIO())
    >>> print(text.getvalue().decode(), end="")
    2 qid:q 1:0.5 2:0 # a
    0 qid:q 1:0.1 2:3 # b
    """
    base = 0 if zero_based else 1
    with _open_output(path) as file:
        first: QueryStream | None = None
        seen: set[Any] = set()
        for block in as_blocks(stream, required=True):
            if first is None:
                first = block
                file.write(_header(block.feature_names, base))
            elif (block.n_features, block.feature_names) != (first.n_features, first.feature_names):
                if block.n_features != first.n_features:
                    problem = f"got {first.n_features} and then {block.n_features}"
                else:
                    problem = "got different names"
                raise ValueError(f"blocks must have the same features, {problem}")
            if block.query_weights is not None and (block.query_weights != 1).any():
                raise ValueError(
                    "LETOR text has no place for the weights of queries: write a store or Parquet, "
                    "or stream.with_query_weights(None)"
                )
            if added := block.columns.keys() - BUILT_IN:
                raise ValueError(
                    f"LETOR text has no place for the column {min(added)!r}: write a store or Parquet, "
                    f"or stream.with_columns({{{min(added)!r}: None}})"
                )
            for qid in block.qids.tolist():
                if qid in seen:
                    raise ValueError(f"query ids must be distinct in LETOR text, got {qid!r} twice")
                seen.add(qid)
            for text in _format_block(block, base, sparse, is_first=block is first):
                file.write(text.data)


def _header(names: tuple[str, ...] | None, base: int) -> bytes:
    for name in names or ():
        if _LINE_BREAK.search(name) or name != name.strip(_BLANKS):
            raise ValueError(f"a feature name must be one line without spaces around it, got {name!r}")
    return "".join(f"#{base + column}:{name}\n" for column, name in enumerate(names or ())).encode()


def _format_block(block: QueryStream, base: int, sparse: bool, *, is_first: bool) -> Iterator[Bytes]:
    """Format a block, in pieces."""
    ids, id_bounds = _concatenate([_id_field(qid) for qid in block.qids.tolist()])
    query_of_row = np.repeat(np.arange(len(block)), np.diff(block.offsets))
    comments, comment_bounds = np.zeros(0, np.uint8), np.zeros(0, np.int64)
    if block.comments is not None or block.docids is not None:
        texts = [""] * block.n_documents if block.comments is None else block.comments.tolist()
        if block.docids is not None:
            texts = list(map(_with_docid, texts, block.docids))
            if is_first and not block.docids[0] and "docid" not in texts[0]:
                texts[0] = f"{texts[0]} docid =".strip()  # readers look for ids in files whose first document has one
        comments, comment_bounds = _concatenate([_comment_field(text) for text in texts])
    longest = int(np.diff(id_bounds).max()) + (int(np.diff(comment_bounds).max()) if len(comment_bounds) else 0)
    X, n = block.X, block.n_documents
    n_pairs = np.diff(X.starts) if isinstance(X, SparseFeatures) else np.full(n, block.n_features)
    needed = np.concatenate([[0], np.cumsum(PAIR_BYTES * n_pairs + LINE_BYTES + longest)])
    fields: tuple[Bytes, Ints, Ints, Bytes, Ints] = ids, id_bounds, query_of_row, comments, comment_bounds
    dense, rows = (None, X.arrays) if isinstance(X, SparseFeatures) else (X, None)
    out = np.empty(0, np.uint8)
    first = 0
    while first < n:
        last = max(first + 1, int(np.searchsorted(needed, needed[first] + _BUFFER_BYTES, side="right")) - 1)
        if len(out) < (size := int(needed[last] - needed[first])):
            out = np.empty(size, np.uint8)
        row, column, pos = first, -1, 0
        while True:
            row, column, pos = format_rows(
                dense, rows, block.relevance, row, column, last, base, sparse, *fields, out, pos
            )
            if row == last:
                break
            feature, number = (-1, block.relevance[row]) if column < 0 else _at(X, row, column)
            if not np.isfinite(number):
                raise ValueError(f"X must be finite, got {number} at document {row}, feature {feature}")
            text = _shortest(number)
            out[pos : pos + len(text)] = np.frombuffer(text, np.uint8)
            pos += len(text)
            column += 1
        yield out[:pos]
        first = last


def _at(X: AnyFeatures, row: int, column: int) -> tuple[int, Any]:
    """Return a feature and its value; of a sparse row those with this number among the non-zeros."""
    if isinstance(X, SparseFeatures):
        return int(X.indices[X.starts[row] + column]), X.values[X.starts[row] + column]
    return column, X[row, column]


def _shortest(number: Any) -> bytes:
    """Format a number with the fewest digits that round-trip."""
    text = np.format_float_scientific(number, unique=True, trim="-")
    return (text if type(number)(float(text)) == number else repr(float(number))).encode()


def _id_field(qid: Any) -> bytes:
    text = str(qid)
    if _NO_ID.search(text):
        raise ValueError(f"a query id must be text without spaces, zero bytes and '#', got {qid!r}")
    return f" qid:{text}".encode()


def _with_docid(comment: str, docid: str) -> str:
    """Begin a comment with the id of its document, unless it tells the id already."""
    if _BLANK.search(docid):
        raise ValueError(f"an id of a document must be text without spaces in LETOR text, got {docid!r}")
    if not docid or docid in _DOCID.findall(comment)[:1]:
        return comment
    return f"docid = {docid} {comment}".rstrip(" ")


def _comment_field(comment: str) -> bytes:
    if _LINE_BREAK.search(comment) or comment != comment.strip(_BLANKS):
        raise ValueError(f"a comment must be one line without spaces around it, got {comment!r}")
    return f" # {comment}".encode() if comment else b""


def _concatenate(texts: list[bytes]) -> tuple[Bytes, Ints]:
    """Concatenate texts; return the bytes and the bounds of each text."""
    bounds = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)])
    return np.frombuffer(b"".join(texts), np.uint8), bounds


@contextmanager
def _open_output(path: PathLike | IO[bytes]) -> Iterator[IO[bytes]]:
    if isinstance(path, io.RawIOBase):  # which may write less than it is given
        buffered = io.BufferedWriter(path)
        try:
            yield buffered
        finally:
            buffered.detach()
        return
    if not isinstance(path, (str, os.PathLike)):
        yield path
        return
    with replaced_file(path) as file, compressed_file(file, os.fspath(path)) as text:
        yield text
