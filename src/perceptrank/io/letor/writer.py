"""Write LETOR text."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeAlias

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.compression import compressed_file
from perceptrank.io.letor.decimals import POWERS_OF_TEN, nearest_double
from perceptrank.io.letor.words import high_product
from perceptrank.io.paths import PathLike
from perceptrank.kernels.arrays import Bytes, Features, Floats, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.columns import OF_JUDGED
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures

# Query ids and their bounds, the query of each row, comments and their bounds.
Fields: TypeAlias = tuple[Bytes, Ints, Ints, Bytes, Ints]

_BUFFER_BYTES = 4 * 2**20
_LINE_BREAK = re.compile(r"[\r\n]")
_BLANKS = " \t\v\f"
_BLANK = re.compile(r"[\s\0]", re.ASCII)
_DOCID = re.compile(r"(?<![0-9A-Za-z_])docid\s*=\s*(\S+)", re.ASCII)
_NO_ID = re.compile(r"[\s#\0]|^$")

# Upper bounds on the size of a pair, and of the rest of a line without ids and comments.
_PAIR_BYTES, _LINE_BYTES = 56, 96

_LARGEST_PLAIN, _SMALLEST_PLAIN = 1e15, 1e-10
_EXACT_INTEGER = 2.0**53
_POWERS_OF_FIVE = np.array([5**power for power in range(28)], dtype=np.uint64)


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
                names = block.feature_names or ()
                for name in names:
                    if _LINE_BREAK.search(name) or name != name.strip(_BLANKS):
                        raise ValueError(f"a feature name must be one line without spaces around it, got {name!r}")
                file.write("".join(f"#{feature}:{name}\n" for feature, name in enumerate(names, base)).encode())
            elif block.n_features != first.n_features:
                raise ValueError(
                    f"blocks must have the same features, got {first.n_features} and then {block.n_features}"
                )
            elif block.feature_names != first.feature_names:
                raise ValueError("blocks must have the same features, got different names")
            no_place = "LETOR text has no place for"
            if block.query_weights is not None and (block.query_weights != 1).any():
                ways = "write a store or Parquet, or stream.with_query_weights(None)"
                raise ValueError(f"{no_place} query weights: {ways}")
            if added := block.columns.keys() - OF_JUDGED:
                ways = f"write a store or Parquet, or stream.with_columns({{{min(added)!r}: None}})"
                raise ValueError(f"{no_place} the column {min(added)!r}: {ways}")
            for qid in block.qids.tolist():
                if qid in seen:
                    raise ValueError(f"query ids must be distinct in LETOR text, got {qid!r} twice")
                seen.add(qid)
            for text in _format_block(block, base, sparse, is_first=block is first):
                file.write(text.data)


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
    needed = np.concatenate([[0], np.cumsum(_PAIR_BYTES * n_pairs + _LINE_BYTES + longest)])
    fields: Fields = ids, id_bounds, query_of_row, comments, comment_bounds
    dense, rows = (None, X.arrays) if isinstance(X, SparseFeatures) else (X, None)
    out = np.empty(0, np.uint8)
    first = 0
    while first < n:
        last = max(first + 1, int(np.searchsorted(needed, needed[first] + _BUFFER_BYTES, side="right")) - 1)
        if len(out) < (size := int(needed[last] - needed[first])):
            out = np.empty(size, np.uint8)
        row, column, pos = first, -1, 0
        while True:
            row, column, pos = _format_rows(
                dense, rows, block.relevance, row, column, last, base, sparse, fields, out, pos
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


@compiled
def _format_rows(
    dense: Features | None,
    sparse: SparseArrays | None,
    relevance: Floats,
    row: int,
    column: int,
    last_row: int,
    base: int,
    skip_zeros: bool,
    fields: Fields,
    out: Bytes,
    pos: int,
) -> tuple[int, int, int]:
    """Format rows row to last_row; return (row, column, pos) at the end, or at a number left to the caller.

    Rows are dense or sparse; the other is None. Column -1 is the grade; columns of sparse rows are counted among their
    non-zeros. After the caller has written the number, it continues with the next column.
    """
    ids, id_bounds, query_of_row, comments, comment_bounds = fields
    while row < last_row:
        if column == -1:
            end = _write_number(relevance[row], False, out, pos)
            if end < 0:
                return row, column, pos
            pos = end
            column = 0
        if column == 0:
            pos = _write_bytes(ids, id_bounds, query_of_row[row], out, pos)
        if dense is not None:
            for j in range(column, dense.shape[1]):
                value = dense[row, j]
                if not skip_zeros or value != 0 or np.copysign(1.0, value) < 0:
                    pos, is_written = _write_pair(j + base, value, dense.itemsize == 4, out, pos)
                    if not is_written:
                        return row, j, pos
        if sparse is not None:
            values, indices, starts = sparse
            for k in range(starts[row] + column, starts[row + 1]):
                if values[k] != 0:
                    pos, is_written = _write_pair(
                        np.int64(indices[k]) + base, values[k], values.itemsize == 4, out, pos
                    )
                    if not is_written:
                        return row, k - starts[row], pos
        if len(comment_bounds) > 0:
            pos = _write_bytes(comments, comment_bounds, row, out, pos)
        out[pos] = ord("\n")
        pos += 1
        row += 1
        column = -1
    return row, column, pos


@compiled
def _write_pair(feature: Any, value: float, single: bool, out: Bytes, pos: int) -> tuple[int, bool]:
    """Write a feature and its value; return (end, True), or (where the value begins, False) if it needs an exponent."""
    out[pos] = ord(" ")
    pos = _write_integer(feature, out, pos + 1)
    out[pos] = ord(":")
    end = _write_number(np.float64(value), single, out, pos + 1)
    return (end, True) if end >= 0 else (pos + 1, False)


@compiled
def _write_bytes(source: Bytes, bounds: Ints, number: int, out: Bytes, pos: int) -> int:
    for k in range(bounds[number], bounds[number + 1]):
        out[pos] = source[k]
        pos += 1
    return pos


@compiled
def _write_integer(number: Any, out: Bytes, pos: int) -> int:
    length = 1
    rest = number // 10
    while rest > 0:
        length += 1
        rest //= 10
    for k in range(pos + length - 1, pos - 1, -1):
        out[k] = ord("0") + number % 10
        number //= 10
    return pos + length


@compiled
def _write_number(value: float, single: bool, out: Bytes, pos: int) -> int:
    """Write a number with the fewest decimals that round-trip; return the end, or -1 if it needs an exponent.

    Candidates are verified with the arithmetic of the parser.
    """
    size = abs(value)
    if value < 0 or (value == 0 and np.copysign(1.0, value) < 0):
        out[pos] = ord("-")
        pos += 1
    if not size < _LARGEST_PLAIN or 0 < size < _SMALLEST_PLAIN:
        return -1
    if size == np.floor(size):
        return _write_integer(np.int64(size), out, pos)
    for decimals in range(1, 23):
        digits = np.rint(size * POWERS_OF_TEN[decimals])
        if digits > _EXACT_INTEGER:
            break
        near = digits / POWERS_OF_TEN[decimals]
        if (np.float32(near) == np.float32(size)) if single else near == size:
            return _write_decimals(np.int64(digits), decimals, out, pos)
    for decimals in range(1, 28):
        digits = _scaled(size, decimals)
        for candidate in range(digits, digits + 2):
            near = nearest_double(np.uint64(candidate), -decimals)
            if (np.float32(near) == np.float32(size)) if single else near == size:
                return _write_decimals(candidate, decimals, out, pos)
    return -1


@compiled
def _scaled(size: float, decimals: int) -> Any:
    """Return size · 10^decimals, rounded down; it must be less than 2^63."""
    fraction, exponent = math.frexp(size)
    mantissa = np.uint64(fraction * _EXACT_INTEGER)
    shift = 53 - exponent - decimals
    low = mantissa * _POWERS_OF_FIVE[decimals]
    high = high_product(mantissa, _POWERS_OF_FIVE[decimals])
    if shift <= 0:
        return np.int64(low << np.uint64(-shift))
    if shift >= 128:
        return 0
    if shift >= 64:
        return np.int64(high >> np.uint64(shift - 64))
    return np.int64(high << np.uint64(64 - shift) | low >> np.uint64(shift))


@compiled
def _write_decimals(digits: Any, decimals: int, out: Bytes, pos: int) -> int:
    whole = digits
    for _ in range(decimals):
        whole //= 10
    pos = _write_integer(whole, out, pos)
    out[pos] = ord(".")
    for k in range(pos + decimals, pos, -1):
        out[k] = ord("0") + digits % 10
        digits //= 10
    return pos + decimals + 1
