"""Read LETOR text lazily, in blocks of whole queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import BlockAssembler, Piece, RepeatedQueryError
from perceptrank.io.errors import FormatError, no_documents
from perceptrank.io.letor.jobs import Pool, in_order
from perceptrank.io.letor.lines import DensityLimit, LineParser, Parsed, SparseRoom, is_sparse
from perceptrank.io.letor.problems import ErrorPolicy, OnError
from perceptrank.io.letor.reader import Progress
from perceptrank.io.letor.settings import LineSettings
from perceptrank.io.paths import Source, display_name, find_files, is_rereadable
from perceptrank.io.text import Chunk, TextReader
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.blocks import Scan
from perceptrank.stream.columns import COMMENT, DOCID, RELEVANCE
from perceptrank.stream.memory import check_memory
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import check_positive_whole

_ROWS_BYTES = 4 * 2**20


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

    Memory does not grow with the size of the files, except for the query ids. The documents of a query must be
    adjacent. A scan of an open file can be iterated once. Ids of documents are read as by `read_letor`. Other
    parameters are those of `read_letor`.

    Parameters
    ----------
    n_features : int, optional
        Number of features; a larger feature id is an error. By default, files whose first documents omit features are
        read twice, first for the largest id; for an open file it is the largest id of the first documents. A block of
        dense features that take more than 1024 times the memory of their text, and more than 128 MiB, is an error then.
    max_bytes : int
        Approximate size of a block's features.

    Returns
    -------
    Scan
        Blocks. Query ids are integers in a block if all ids of that block are, else text. Lines ``#1:name`` before the
        first document, as Terrier writes them, name the features.

    Raises
    ------
    FileNotFoundError
        If a path does not exist or matches no file.
    TypeError or ValueError
        If an argument is invalid.
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


class _Work(NamedTuple):
    """A part of the text, and the rows for its documents."""

    chunk: Chunk
    X: Features
    relevance: Floats

    @property
    def n_bytes(self) -> int:
        return self.chunk.n_bytes + self.X.nbytes

    def parse(self, parser: LineParser, limit: int | None = None) -> Parsed:
        return parser.parse(self.chunk, self.X, self.relevance, 0, limit=limit)

    def rows(self, n_rows: int, width: int) -> tuple[AnyFeatures, Floats]:
        return _first_rows(self.X, n_rows), _first_rows(self.relevance, n_rows)


class _SparseWork(NamedTuple):
    """As `_Work`, for sparse rows."""

    chunk: Chunk
    room: SparseRoom

    @property
    def n_bytes(self) -> int:
        return self.chunk.n_bytes + self.room.nbytes

    def parse(self, parser: LineParser, limit: int | None = None) -> Parsed:
        return parser.parse_sparse(self.chunk, self.room, limit=limit)

    def rows(self, n_rows: int, width: int) -> tuple[AnyFeatures, Floats]:
        return self.room.rows(n_rows, width), _first_rows(self.room.relevance, n_rows)


def _blocks(
    files: list[Source],
    settings: LineSettings,
    policy: ErrorPolicy,
    n_threads: int | None,
    progress: Progress | None,
    max_bytes: int,
) -> Iterator[QueryStream]:
    parser = LineParser([display_name(file) for file in files], settings)
    reader = TextReader(files, policy.add_one)
    with closing(reader.chunks()) as chunks:
        first = next(chunks, None)
        if first is None:
            raise no_documents(parser.files)
        density = DensityLimit(parser, max_bytes)
        width = settings.n_features or _find_width(files, first, parser, density, n_threads)
        sparse = is_sparse(parser, parser.detect_dialect(first), width)
        queries = BlockAssembler(max_bytes)
        n_text_bytes = 0  # of the documents in `queries`

        def prepared(chunks: Iterable[Chunk]) -> Iterator[_Work | _SparseWork]:
            """Split chunks and allocate their rows here, not in the threads, which would keep the memory."""
            for chunk in chunks:
                parser.detect_dialect(chunk)
                if sparse:
                    yield _SparseWork(chunk, parser.room_for(chunk))
                else:
                    for part in chunk.parts(_documents_per_part(width, parser)):
                        yield _allocate(part, width, parser)

        def parse(work: _Work | _SparseWork) -> Parsed:
            parsed = work.parse(parser)
            return work.parse(parser, width) if parsed.widest.width > width else parsed

        with Pool(n_threads, reader.n_bytes) as pool:
            parts = in_order(pool, prepared(chain([first], chunks)), parse, lambda work: work.n_bytes)
            del first
            for work, parsed in parts:
                chunk = work.chunk
                policy.add(parser.problems(chunk, parsed), len(parsed.bad))
                queries.feature_names = parser.feature_names(width, sparse=sparse)
                comments = None if parsed.comments is None else Texts(parsed.comments)
                X, relevance = work.rows(parsed.n_rows, width)
                columns = {RELEVANCE: relevance, DOCID: parsed.docids, COMMENT: comments}
                piece = Piece(X, parsed.starts.tolist(), parsed.all_qids(), columns)
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


def _allocate(chunk: Chunk, width: int, parser: LineParser) -> _Work:
    dtype = parser.settings.dtype
    check_memory(chunk.n_documents, width, dtype)
    return _Work(chunk, np.empty((chunk.n_documents, width), dtype), np.empty(chunk.n_documents))


def _first_rows(array: Any, n: int) -> Any:
    """Return the first rows, without what was allocated for more if that is much."""
    return array[:n] if 2 * n > len(array) else array[:n].copy()


def _find_width(
    files: list[Source], first: Chunk, parser: LineParser, density: DensityLimit, n_threads: int | None
) -> int:
    """Find the number of features: that of the first chunk if its documents omit none, else that of all files.

    Open files cannot be read twice, so the first chunk decides.
    """
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
        parsed = parser.parse(*_allocate(part, width, parser), 0)
        if len(parsed.bad) and not parser.settings.skip:
            return True
        if not parsed.is_dense:
            return False
    return True
