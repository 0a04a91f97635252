"""Read LETOR text lazily, in blocks of whole queries."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import BlockAssembler, Piece, RepeatedQueryError
from perceptrank.io.errors import FormatError, no_documents
from perceptrank.io.letor.error_policy import ErrorPolicy, OnError
from perceptrank.io.letor.jobs import Pool, in_order
from perceptrank.io.letor.lines import LineParser, Parsed
from perceptrank.io.letor.reader import Progress
from perceptrank.io.paths import Source, display_name, find_files, is_rereadable
from perceptrank.io.text import Chunk, TextReader
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.blocks import Scan
from perceptrank.stream.memory import check_memory
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import Name, check_positive_whole

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
    on_error: OnError = "raise",
    n_threads: int | None = None,
    progress: Progress | None = None,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    r"""Read LETOR text lazily, in re-iterable blocks of whole queries.

    Memory does not grow with the size of the files, except for the query ids. The documents of a query must be
    adjacent. A scan of an open file can be iterated once.

    Parameters
    ----------
    paths : path, open binary file, or several of them
        A folder stands for the files in it, except those whose names start with a dot or an underscore; a pattern with
        ``*`` or ``?`` for the files it matches. Files compressed with gzip, bzip2, xz or zstd (extra ``zstd``) are
        recognised by their content.
    n_features : int, optional
        Number of features; a larger feature id is an error. By default, files whose first documents omit features are
        read twice, first for the largest id; for an open file it is the largest id of the first documents.
    zero_based : bool
        Count feature ids from 0. By default they count from 1, and an id 0 is an error.
    qid : {"auto", "field", "comment"}
        Location of the query id: in a field ``qid:ID`` after the grade, or in the comment at the end of the line.
        "auto" decides by the first document of each file.
    comments : bool
        Keep the text after ``#`` of each document, as `QueryStream.comments`.
    dtype : float32 or float64
        Type of the features. Values are correctly rounded to float64, then to this type.
    clip : float, optional
        Clip values to ``[-clip, clip]``. By default a value too large for `dtype` is an error.
    on_error : {"raise", "skip"} or callable
        Treatment of invalid lines: raise a `FormatError`; skip them and warn at the end; or call a function with each
        error, then skip the line. Corrupt compression, a line of more than 64 MiB, and a feature with two names are
        always errors.
    n_threads : int, optional
        Number of threads; default one per available processor, and one for small files.
    progress : callable, optional
        Called with the number of bytes read so far and in total, the latter 0 if unknown.
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
    TypeError, ValueError
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
    settings = (zero_based, qid, comments, dtype, clip, ErrorPolicy(on_error).skips)
    LineParser([], n_features, *settings)  # validates the settings now, not when the scan begins

    def start() -> Iterator[QueryStream]:
        return _blocks(files, n_features, settings, ErrorPolicy(on_error), n_threads, progress, max_bytes)

    return Scan(start, f"LETOR text in {', '.join(map(display_name, files))}")


def _blocks(
    files: list[Source],
    n_features: int | None,
    settings: tuple[Any, ...],
    policy: ErrorPolicy,
    n_threads: int | None,
    progress: Progress | None,
    max_bytes: int,
) -> Iterator[QueryStream]:
    names = [display_name(file) for file in files]
    reader = TextReader(files, policy.add)
    chunks = reader.chunks()
    first = next(chunks, None)
    if first is None:
        raise no_documents(names)
    width = n_features or _find_width(files, first, LineParser(names, None, *settings), n_threads)
    parser = LineParser(names, n_features, *settings)
    queries = BlockAssembler(max_bytes)

    def prepared(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Features, Floats]]:
        """Split chunks and allocate their rows here, not in the threads, which would keep the memory."""
        for chunk in chunks:
            parser.detect_dialect(chunk)
            for part in chunk.parts(_lines_per_part(width, parser)):
                yield part, *_allocate(part, width, parser)

    def parse(work: tuple[Chunk, Features, Floats]) -> Parsed:
        parsed = parser.parse(*work, 0)
        return parser.parse(*work, 0, limit=width) if parsed.width > width else parsed

    with Pool(n_threads, reader.n_bytes) as pool:
        for (chunk, X, relevance), parsed in in_order(pool, prepared(chain([first], chunks)), parse):
            policy.add(*parsed.problems)
            queries.feature_names = parser.feature_names(width)
            comments = None if parsed.comments is None else np.array(parsed.comments, dtype=object)
            n = parsed.n_rows
            try:
                yield from queries.add(Piece(X[:n], relevance[:n], comments, parsed.starts.tolist(), parsed.qids))
            except RepeatedQueryError as error:
                line = int(parsed.lines[parsed.starts.tolist().index(error.start)])
                advice = Name("read_letor"), " groups them"
                raise FormatError(names[chunk.file], line, 1, f"{error}; ", *advice) from None
            reader.release(chunk)
            if progress is not None:
                progress(reader.n_read, reader.n_bytes)
    policy.warn_if_skipped()
    if queries.is_empty:
        raise no_documents(names)
    yield from queries.flush()


def _lines_per_part(width: int, parser: LineParser) -> int:
    """Return the number of lines whose rows take a moderate amount of memory."""
    return max(1, _ROWS_BYTES // (width * parser.dtype.itemsize))


def _allocate(chunk: Chunk, width: int, parser: LineParser) -> tuple[Features, Floats]:
    check_memory(chunk.n_lines, width, parser.dtype)
    return np.empty((chunk.n_lines, width), parser.dtype), np.empty(chunk.n_lines)


def _find_width(files: list[Source], first: Chunk, parser: LineParser, n_threads: int | None) -> int:
    """Find the number of features: that of the first chunk if its documents omit none, else that of all files.

    Open files cannot be read twice, so the first chunk decides.
    """
    parser.detect_dialect(first)
    width = parser.width_of(first)
    is_dense = width > 0 and all(
        parser.parse(part, *_allocate(part, width, parser), 0).is_dense
        for part in first.parts(_lines_per_part(width, parser))
    )
    if not is_dense and all(is_rereadable(file) for file in files):
        reader = TextReader(files, lambda error: None)
        with Pool(n_threads, reader.n_bytes) as pool:
            for chunk, chunk_width in in_order(pool, map(parser.detect_dialect, reader.chunks()), parser.width_of):
                width = max(width, chunk_width)
                reader.release(chunk)
    return max(1, width, parser.min_width)
