"""Read LETOR text into memory, or lazily, in blocks of whole queries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import BlockAssembler, Piece, RepeatedQueryError
from perceptrank.io.errors import FormatError, no_documents
from perceptrank.io.letor.filling import Filler, Pool, SparseFiller, in_order, permute_rows
from perceptrank.io.letor.lines import DensityLimit, LineParser, Parsed, Room, Widest, is_sparse
from perceptrank.io.letor.settings import GROUP, ErrorPolicy, LineSettings, OnError
from perceptrank.io.paths import PathLike, Source, display_name, find_files, is_rereadable
from perceptrank.io.text import Chunk, TextReader
from perceptrank.kernels.arrays import Ints
from perceptrank.stream.blocks import Scan
from perceptrank.stream.columns import COMMENT, DOCID, QID, RELEVANCE
from perceptrank.stream.grouping import as_sizes, group_runs
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import check_positive_whole

Progress: TypeAlias = Callable[[int, int], object]

_LONGEST_SIZE = 18  # digits that fit in 64 bits
_ROWS_BYTES = 4 * 2**20


def read_letor(
    paths: Source | Iterable[Source],
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    qid: Literal["auto", "field", "comment"] = "auto",
    group: npt.ArrayLike | PathLike | None = None,
    comments: bool = False,
    dtype: npt.DTypeLike = np.float32,
    clip: float | None = None,
    sparse: bool | None = None,
    on_error: OnError = "raise",
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> QueryStream:
    r"""Read LETOR text into memory.

    Ids of documents are read from comments of the form ``# docid = ID``, in files whose first document has one, or if
    comments are kept.

    Parameters
    ----------
    paths : path, open binary file, or several of them
        A folder stands for the files in it, except those whose names start with a dot or an underscore; a pattern with
        ``*`` or ``?`` for the files it matches. Files compressed with gzip, bzip2, xz or zstd (extra ``zstd``) are
        recognised by their content.
    n_features : int, optional
        Number of features; a larger feature id is an error. Default the largest id found; dense features that take
        more than 1024 times the memory of their text, and more than 128 MiB, are an error then.
    zero_based : bool
        Count feature ids from 0. By default they count from 1, and an id 0 is an error.
    qid : "auto", "field", or "comment"
        Location of the query id: in a field ``qid:ID`` after the grade, or in the comment at the end of the line.
        "auto" decides by the first document of each file.
    group : sequence of int, or path, optional
        For lines without query ids: the number of consecutive documents of each query, or a file with one number per
        line, such as LightGBM's ``train.txt.query`` and XGBoost's ``train.txt.group``. Requires ``on_error="raise"``.
    comments : bool
        Keep the text after ``#`` of each document, as `QueryStream.comments`.
    dtype : float32 or float64
        Type of the features. Values are correctly rounded to float64, then to this type.
    clip : float, optional
        Clip values to ``[-clip, clip]``. By default a value too large for `dtype` is an error.
    sparse : bool, optional
        Keep only the non-zeros, as `SparseFeatures`, of up to 2**31 - 1 features. By default the first documents
        decide: features are sparse if there are more than 1000 and less than an eighth of the values is not zero.
    on_error : "raise", "skip", or callable
        Treatment of invalid lines: raise a `FormatError`; skip them and warn at the end; or call a function with each
        error, then skip the line. Corrupt compression, a line of more than 64 MiB, and a feature with two names are
        always errors.
    n_threads : int, optional
        Number of threads; default one per available processor, and one for small files.
    progress : callable, optional
        Called with the number of bytes read so far and in total, the latter 0 if unknown.

    Returns
    -------
    QueryStream
        Queries in the order of their first document; documents of a query need not be adjacent. Query ids are
        integers if all of them are, else text. Lines ``#1:name`` before the first document, as Terrier writes them,
        name the features.

    Raises
    ------
    FormatError
        For an invalid line, with its file, line and column.
    FileNotFoundError, MemoryError
        If a file, or memory for the features, is missing.

    Examples
    --------
    >>> import io
    >>> read_letor(io.BytesIO(b"2 qid:1 1:0.5 3:1 # a\n0 qid:1 2:-1\n1 qid:2 1:3\n")).X
    array([[ 0.5,  0. ,  1. ],
           [ 0. , -1. ,  0. ],
           [ 3. ,  0. ,  0. ]], dtype=float32)
    """
    files = find_files(paths)
    policy = ErrorPolicy(on_error)
    if group is not None and policy.skips:
        raise ValueError("group counts documents, so none can be skipped: on_error must be 'raise'")
    where = qid if group is None else GROUP
    settings = LineSettings(n_features, zero_based, where, comments, dtype, clip, policy.skips, sparse)
    parser = LineParser([display_name(file) for file in files], settings)
    reader = TextReader(files, lambda error: policy.add([error]))

    def report() -> None:
        if progress is not None:
            progress(reader.n_read, reader.n_bytes)

    with closing(reader.chunks()) as all_chunks, Pool(n_threads, reader.n_bytes) as pool:
        chunks = map(parser.detect_dialect, all_chunks)
        for first in chunks:
            if parser.has_seen_documents(first):
                break
            reader.release(first)  # which has nothing but headers and comments
            report()
        else:
            policy.warn_if_skipped()
            raise no_documents(parser.files)
        is_known = bool(parser.min_width or settings.sparse)
        widest = Widest() if is_known else parser.widest(first)
        sparse = is_sparse(parser, first, parser.min_width or widest.width)
        work = pool, parser, policy, reader
        filler: SparseFiller | Filler = SparseFiller(*work) if sparse else Filler(*work, widest)
        filler.fill(chain([first], chunks), report)
    policy.warn_if_skipped()
    if filler.n_filled == 0:
        raise no_documents(parser.files)
    names = parser.feature_names(filler.width, sparse=sparse)
    X: AnyFeatures
    X, relevance = filler.finish()
    qids, bounds, all_comments, docids = filler.runs.finish(len(X))
    rows: Ints | None = None
    if not _are_distinct_numbers(qids):
        rows, bounds, qids = group_runs(qids, bounds)
    if rows is not None:  # bring the documents of each query together; dense ones in place
        relevance = relevance[rows]
        all_comments = None if all_comments is None else all_comments[rows]
        docids = None if docids is None else docids[rows]
        if isinstance(X, SparseFeatures):
            X = X[rows]
        else:
            permute_rows(X, rows, np.empty((1, X.shape[1]), X.dtype))
    documents = {RELEVANCE: relevance, DOCID: docids, COMMENT: all_comments}
    stream = QueryStream._trusted(X, bounds, documents, {QID: qids}, names)
    if group is None:
        return stream
    sizes = _read_sizes(group) if isinstance(group, (str, os.PathLike)) else group
    bounds = np.concatenate([[0], np.cumsum(as_sizes(sizes, stream.n_documents))])
    return QueryStream._trusted(stream.X, bounds, stream._documents, {QID: np.arange(len(bounds) - 1)}, names)


def _are_distinct_numbers(ids: npt.NDArray[Any]) -> bool:
    """Tell whether ids are numbers of which none repeats, in far less memory than grouping takes."""
    return ids.dtype.kind == "i" and bool((ids[1:] > ids[:-1]).all() or np.diff(np.sort(ids)).all())


def _read_sizes(path: PathLike) -> list[int]:
    sizes = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        for size in line.split():
            if not size.isdigit() or len(size) > _LONGEST_SIZE:
                shown = ascii(size[:40])[1:]
                raise FormatError(os.fspath(path), number, 1, f"sizes must be whole numbers, one per line, got {shown}")
            sizes.append(int(size))
    return sizes


def scan_letor(
    paths: Source | Iterable[Source],
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    qid: Literal["auto", "field", "comment"] = "auto",
    comments: bool = False,
    dtype: npt.DTypeLike = np.float32,
    clip: float | None = None,
    sparse: bool | None = None,
    on_error: OnError = "raise",
    n_threads: int | None = None,
    progress: Progress | None = None,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    r"""Read LETOR text lazily, in re-iterable blocks of whole queries.

    Memory does not grow with the size of the files, except for the query ids, which are integers in a block if all ids
    of that block are. The documents of a query must be adjacent. A scan of an open file can be iterated once. Other
    parameters are those of `read_letor`.

    Parameters
    ----------
    n_features : int, optional
        Number of features; a larger feature id is an error. By default, files whose first documents omit features are
        read twice, first for the largest id; for an open file it is the largest id of the first documents. A block of
        dense features that take more than 1024 times the memory of their text, and more than 128 MiB, is an error then.
    max_bytes : int
        Approximate size of a block's features.

    Raises
    ------
    FormatError
        When iterating, for an invalid line or a query whose documents are not adjacent.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b"2 qid:a 1:0.5 2:1\n0 qid:a 1:0 2:-1\n1 qid:b 1:3 2:1\n")
    >>> [len(block) for block in scan_letor(text)]
    [2]
    """
    files = find_files(paths)
    check_positive_whole("max_bytes", max_bytes)
    if n_threads is not None:
        check_positive_whole("n_threads", n_threads)
    settings = LineSettings(n_features, zero_based, qid, comments, dtype, clip, ErrorPolicy(on_error).skips, sparse)

    def start() -> Iterator[QueryStream]:
        return _blocks(files, settings, ErrorPolicy(on_error), n_threads, progress, max_bytes)

    return Scan(start, f"LETOR text in {', '.join(map(display_name, files))}")


def _blocks(
    files: list[Source],
    settings: LineSettings,
    policy: ErrorPolicy,
    n_threads: int | None,
    progress: Progress | None,
    max_bytes: int,
) -> Iterator[QueryStream]:
    parser = LineParser([display_name(file) for file in files], settings)
    reader = TextReader(files, lambda error: policy.add([error]))
    with closing(reader.chunks()) as chunks:
        first = next(chunks, None)
        if first is None:
            raise no_documents(parser.files)
        density = DensityLimit(parser, max_bytes)
        width = settings.n_features or _find_width(files, first, parser, density, n_threads)
        sparse = is_sparse(parser, parser.detect_dialect(first), width)
        queries = BlockAssembler(max_bytes)
        n_text_bytes = 0  # of the documents in `queries`

        def prepare(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Room]]:
            """Split chunks and allocate their rows here, not in the threads, which would keep the memory."""
            for chunk in chunks:
                parser.detect_dialect(chunk)
                if sparse:
                    yield chunk, parser.sparse_room(chunk)
                else:
                    for part in chunk.parts(_documents_per_part(width, parser)):
                        yield part, parser.dense_room(part, width)

        def parse(work: tuple[Chunk, Room]) -> Parsed:
            parsed = parser.parse(*work)
            return parser.parse(*work, limit=width) if parsed.widest.width > width else parsed

        with Pool(n_threads, reader.n_bytes) as pool:
            parts = in_order(
                pool, prepare(chain([first], chunks)), parse, lambda work: work[0].n_bytes + work[1].nbytes
            )
            del first
            for (chunk, room), parsed in parts:
                policy.add(parser.problems(chunk, parsed), len(parsed.bad))
                queries.feature_names = parser.feature_names(width, sparse=sparse)
                comments = None if parsed.comments is None else Texts(parsed.comments)
                X, relevance = room.rows(parsed.n_rows, width)
                columns = {RELEVANCE: relevance, DOCID: parsed.docids, COMMENT: comments}
                piece = Piece(X, parsed.starts.tolist(), parsed.qids.tolist(), columns)
                try:
                    for block in queries.add(piece):
                        yield block
                        n_text_bytes = 0
                except RepeatedQueryError as error:
                    line = int(parsed.lines[np.searchsorted(parsed.starts, error.start)])
                    raise FormatError(parser.files[chunk.file], line, 1, f"{error}; `read_letor` groups them") from None
                n_text_bytes += chunk.n_bytes
                if not sparse:
                    density.check(queries.n_rows, width, n_text_bytes)
                reader.release(chunk)
                if progress is not None:
                    progress(reader.n_read, reader.n_bytes)
        policy.warn_if_skipped()
        if queries.is_empty:
            raise no_documents(parser.files)
        yield from queries.flush()


def _documents_per_part(width: int, parser: LineParser) -> int:
    """Return the number of documents whose rows take a moderate amount of memory."""
    return max(1, _ROWS_BYTES // (width * parser.settings.dtype.itemsize))


def _find_width(
    files: list[Source], first: Chunk, parser: LineParser, density: DensityLimit, n_threads: int | None
) -> int:
    """Find the number of features: that of all files, or of the first chunk if it omits none, or a file is open."""
    parser.detect_dialect(first)
    sparse = parser.settings.sparse is True
    density.see(parser.widest(first, sparse=sparse))
    width = density.widest.width
    decided = not is_sparse(parser, first, width) and _decides_width(first, width, parser)
    if not decided and all(is_rereadable(file) for file in files):
        reader = TextReader(files, lambda error: None)
        with closing(reader.chunks()) as chunks, Pool(n_threads, reader.n_bytes) as pool:
            detected = map(parser.detect_dialect, chunks)
            find = partial(parser.widest, sparse=sparse)
            for chunk, widest in in_order(pool, detected, find, lambda chunk: chunk.n_bytes):
                density.see(widest)
                reader.release(chunk)
    return max(1, density.widest.width, parser.min_width)


def _decides_width(first: Chunk, width: int, parser: LineParser) -> bool:
    """Return True if the documents of the first chunk omit no feature, or one is invalid, so that no more are read."""
    if width == 0:
        return False
    for part in first.parts(_documents_per_part(width, parser)):
        parsed = parser.parse(part, parser.dense_room(part, width))
        if len(parsed.bad) and not parser.settings.skip:
            return True
        if not parsed.is_dense:
            return False
    return True
