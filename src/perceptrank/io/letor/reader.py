"""Reading LETOR text, the format of SVMrank, RankLib, Terrier and the public data sets.

A line is a document: ``grade qid:ID feature:value … # comment``. The text is cut into chunks of whole lines; threads
turn them into rows of one matrix (`read_letor`) or into blocks of whole queries (`scan_letor`).
"""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.letor.jobs import Job, Pool, in_order
from perceptrank.io.letor.lines import GROUP, LineParser, Parsed
from perceptrank.io.letor.matrix import Matrix
from perceptrank.io.text import (
    Chunk,
    FormatError,
    PathLike,
    Source,
    TextReader,
    can_be_read_again,
    find_files,
    name_of,
)
from perceptrank.io.whole_queries import Piece, RepeatedQueryError, WholeQueries, identifiers
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.blocks import Scan
from perceptrank.stream.grouping import as_sizes, group_runs
from perceptrank.stream.memory import check_memory
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import check_positive_whole

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[FormatError], object]
Progress: TypeAlias = Callable[[int, int], object]

_N_SHOWN = 5
_ROWS_BYTES = 4 * 2**20
_UNKNOWN_SHARE = 1.5  # by how much a matrix grows while it is not known how long the text goes on


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
    on_error: OnError = "raise",
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> QueryStream:
    r"""Read LETOR text whole.

    Parameters
    ----------
    paths : path, open binary file, or several of them
        A folder means all files in it (but those whose names begin with a dot or an underscore), a pattern with ``*``
        or ``?`` what it matches. Files compressed with gzip, bzip2, xz or zstd (extra ``zstd``) are recognised by
        their content.
    n_features : int, optional
        How many features a document has; a larger id is then an error. By default the largest id found.
    zero_based : bool
        Whether feature ids count from 0; by default from 1, and an id 0 is an error.
    qid : {"auto", "field", "comment"}
        Where a line names its query: in a field ``qid:ID`` after the grade, or in the comment at its end. "auto" looks
        at the first document of each file.
    group : sequence of int, or path, optional
        Where lines name no query: how many consecutive documents each query has, or the file that says so, a number a
        line, as LightGBM's ``train.txt.query`` and XGBoost's ``train.txt.group`` do. Needs `on_error` "raise".
    comments : bool
        Whether to keep the text after ``#`` of each document, as `QueryStream.comments`.
    dtype : float32 or float64
        Every value is the float64 nearest to its text, then rounded to this type.
    clip : float, optional
        Values beyond ``±clip`` become ``±clip``. By default a value too large for the type is an error.
    on_error : {"raise", "skip"} or callable
        What to do about a line that is wrong: raise a `FormatError`; skip it, and warn at the end how many were
        skipped; or call a function with the error, then skip it. Damaged compression, a line of more than 64 MiB, and
        a feature with two names are always errors.
    n_threads : int, optional
        By default as many as there are processors to use, and one for small files.
    progress : callable, optional
        Called with the bytes read so far and in all, the latter 0 if unknown.

    Returns
    -------
    QueryStream
        Queries in the order of their first document; documents of one query that are not adjacent are brought
        together. Ids are numbers if all of them are, else text. Lines ``#1:name`` before the first document, as
        Terrier writes them, name the features.

    >>> import io
    >>> read_letor(io.BytesIO(b"2 qid:1 1:0.5 3:1 # a\n0 qid:1 2:-1\n1 qid:2 1:3\n")).X
    array([[ 0.5,  0. ,  1. ],
           [ 0. , -1. ,  0. ],
           [ 3. ,  0. ,  0. ]], dtype=float32)
    """
    files = find_files(paths)
    report = _Report(on_error)
    if group is not None and report.skips:
        raise ValueError("group counts documents, so that none can be skipped: on_error must be 'raise'")
    where = qid if group is None else GROUP
    parser = LineParser(_names(files), n_features, zero_based, where, comments, dtype, clip, report.skips)
    reader = TextReader(files, report.add)
    matrix = Matrix(parser.dtype)
    parts: list[tuple[int, Parsed]] = []
    jobs: deque[Job] = deque()

    def finish_oldest() -> None:
        """Take over the oldest chunk; if it is wider than the matrix, widen that while no one writes into it."""
        if jobs[0].result().width > (width := matrix.width):
            matrix.widen(max(job.width() for job in jobs))
            for job in jobs:
                job.repeat_if_wider_than(width)
        job = jobs.popleft()
        parsed = job.result()
        report.add(*parsed.problems)
        parts.append((job.rows.first, parsed))
        reader.give_back(job.chunk)

    def finish_all() -> None:
        while jobs:
            finish_oldest()

    with Pool(n_threads, reader.n_bytes) as pool:
        try:
            for chunk in reader.chunks():
                parser.look_at(chunk)
                if matrix.width == 0 or not matrix.has_room(chunk.n_lines):
                    finish_all()
                    if matrix.width == 0:
                        matrix.widen(parser.least_width or parser.width_of(chunk))
                    matrix.make_room(
                        chunk.n_lines, reader.n_bytes / reader.n_read if reader.n_bytes else _UNKNOWN_SHARE
                    )
                jobs.append(Job(pool, parser, chunk, matrix.take(chunk.n_lines)))
                if len(jobs) > pool.depth:
                    finish_oldest()
                if progress is not None:
                    progress(reader.n_read, reader.n_bytes)
        except FormatError:
            finish_all()  # if there is an error before this one, that one is raised
            raise
        finish_all()
    report.finish()
    if not any(parsed.n_rows for _, parsed in parts):
        raise _no_documents(files)
    width = max([1, parser.least_width, *(parsed.width for _, parsed in parts)])
    X, relevance = matrix.finish([(first, parsed.n_rows) for first, parsed in parts], width)
    stream = _as_stream(X, relevance, [parsed for _, parsed in parts], parser.feature_names(width))
    return stream if group is None else _regrouped(stream, group)


def _regrouped(stream: QueryStream, group: npt.ArrayLike | PathLike) -> QueryStream:
    """The documents of a stream that is one query, as queries of so many documents."""
    sizes: npt.ArrayLike
    if isinstance(group, (str, os.PathLike)):
        try:
            sizes = [int(line) for line in Path(group).read_text(encoding="utf-8").split()]
        except ValueError as error:
            raise ValueError(f"{group} must hold whole numbers, one a line: {error}") from None
    else:
        sizes = group
    bounds = np.concatenate([[0], np.cumsum(as_sizes(sizes, stream.n_documents))])
    return QueryStream._trusted(
        stream.X, stream.relevance, bounds, np.arange(len(bounds) - 1), stream.feature_names, stream.comments
    )


def _as_stream(
    X: Features, relevance: Floats, parts: list[Parsed], feature_names: tuple[str, ...] | None
) -> QueryStream:
    """The rows of all parts as a stream, documents of one query brought together."""
    starts: list[int] = []
    qids: list[int | str] = []
    n_rows = 0
    for parsed in parts:
        skipped = int(bool(qids and parsed.qids and qids[-1] == parsed.qids[0]))  # it goes on from the part before
        starts += (parsed.starts[skipped:] + n_rows).tolist()
        qids += parsed.qids[skipped:]
        n_rows += parsed.n_rows
    comments = None
    if parts[0].comments is not None:
        comments = np.array([text for parsed in parts for text in parsed.comments or []], dtype=object)
    rows, offsets, identities = group_runs(identifiers(qids), np.array([*starts, n_rows], dtype=np.int64))
    if rows is not None:
        X, relevance = X[rows], relevance[rows]
        comments = None if comments is None else comments[rows]
    return QueryStream._trusted(X, relevance, offsets, identities, feature_names, comments)


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
    r"""Read LETOR text in blocks of about `max_bytes` of features, in memory that does not depend on the files' size.

    (Only the ids of queries are kept throughout.) A query is never split; its documents must stand together, else it is
    an error. Without `n_features`, files whose first documents leave out features are read twice, the first time to
    find the largest id; of an open file, only the first documents tell. Ids of queries are numbers in a block if all of
    that block are.

    Everything else is as with `read_letor`. The scan can be gone through again and again, unless it is of an open file.

    >>> import io
    >>> text = io.BytesIO(b"2 qid:a 1:0.5 2:1\n0 qid:a 1:0 2:-1\n1 qid:b 1:3 2:1\n")
    >>> [len(block) for block in scan_letor(text)]
    [2]
    """
    files = find_files(paths)
    check_positive_whole("max_bytes", max_bytes)
    if n_threads is not None:
        check_positive_whole("n_threads", n_threads)
    settings = (zero_based, qid, comments, dtype, clip, _Report(on_error).skips)
    LineParser([], n_features, *settings)  # a wrong setting is an error now, not when the scan begins

    def start() -> Iterator[QueryStream]:
        return _blocks(files, n_features, settings, _Report(on_error), n_threads, progress, max_bytes)

    return Scan(start, f"LETOR text in {', '.join(_names(files))}")


def _blocks(
    files: list[Source],
    n_features: int | None,
    settings: tuple[Any, ...],
    report: "_Report",
    n_threads: int | None,
    progress: Progress | None,
    max_bytes: int,
) -> Iterator[QueryStream]:
    names = _names(files)
    reader = TextReader(files, report.add)
    chunks = reader.chunks()
    first = next(chunks, None)
    if first is None:
        raise _no_documents(files)
    width = n_features or _find_width(files, first, LineParser(names, None, *settings), n_threads)
    parser = LineParser(names, n_features, *settings)
    queries = WholeQueries(max_bytes)

    def prepared(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Features, Floats]]:
        """Chunks of moderate size and where to put them, asked for here: threads do not give memory back."""
        for chunk in chunks:
            parser.look_at(chunk)
            for part in chunk.parts(_lines_of(width, parser)):
                yield part, *_room(part, width, parser)

    def parse(work: tuple[Chunk, Features, Floats]) -> Parsed:
        parsed = parser.parse(*work, 0)
        return parser.parse(*work, 0, limit=width) if parsed.width > width else parsed

    with Pool(n_threads, reader.n_bytes) as pool:
        for (chunk, X, relevance), parsed in in_order(pool, prepared(chain([first], chunks)), parse):
            report.add(*parsed.problems)
            queries.feature_names = parser.feature_names(width)
            comments = None if parsed.comments is None else np.array(parsed.comments, dtype=object)
            n = parsed.n_rows
            try:
                yield from queries.add(Piece(X[:n], relevance[:n], comments, parsed.starts.tolist(), parsed.qids))
            except RepeatedQueryError as error:
                line = int(parsed.lines[parsed.starts.tolist().index(error.start)])
                problem = f"query {error.qid!r} again, after others; read_letor brings its documents together"
                raise FormatError(names[chunk.file], line, 1, problem) from None
            reader.give_back(chunk)
            if progress is not None:
                progress(reader.n_read, reader.n_bytes)
    report.finish()
    if queries.is_empty:
        raise _no_documents(files)
    yield from queries.rest()


def _lines_of(width: int, parser: LineParser) -> int:
    """How many lines at a time make rows of a moderate size."""
    return max(1, _ROWS_BYTES // (width * parser.dtype.itemsize))


def _room(chunk: Chunk, width: int, parser: LineParser) -> tuple[Features, Floats]:
    check_memory(chunk.n_lines, width, parser.dtype)
    return np.empty((chunk.n_lines, width), parser.dtype), np.empty(chunk.n_lines)


def _find_width(files: list[Source], first: Chunk, parser: LineParser, n_threads: int | None) -> int:
    """How many features documents have: as many as those of the first chunk, if these leave out none, else the most.

    Of an open file there is only the first chunk to go by.
    """
    parser.look_at(first)
    width = parser.width_of(first)
    is_dense = width > 0 and all(
        parser.parse(part, *_room(part, width, parser), 0).is_dense for part in first.parts(_lines_of(width, parser))
    )
    if not is_dense and all(can_be_read_again(file) for file in files):
        reader = TextReader(files, lambda error: None)
        with Pool(n_threads, reader.n_bytes) as pool:
            for chunk, wide in in_order(pool, map(parser.look_at, reader.chunks()), parser.width_of):
                width = max(width, wide)
                reader.give_back(chunk)
    return max(1, width, parser.least_width)


def _names(files: list[Source]) -> list[str]:
    return [name_of(file) for file in files]


def _no_documents(files: list[Source]) -> ValueError:
    return ValueError(f"there are no documents in {', '.join(_names(files))}")


class _Report:
    """What is done about lines that are wrong."""

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ValueError(f"on_error must be 'raise', 'skip' or a function, got {on_error!r}")
        self._on_error = on_error
        self._count = 0
        self._shown: list[str] = []
        self.skips = on_error != "raise"

    def add(self, *problems: FormatError) -> None:
        """Raise the first problem, hand on all, or count them."""
        for problem in problems:
            if self._on_error == "raise":
                raise problem
            if callable(self._on_error):
                self._on_error(problem)
                continue
            self._count += 1
            if self._count <= _N_SHOWN:
                self._shown.append(str(problem))

    def finish(self) -> None:
        """Warn of what was skipped, if anything was."""
        if self._count:
            more = f"\n… and {self._count - _N_SHOWN} more" if self._count > _N_SHOWN else ""
            shown = "\n".join(self._shown)
            warnings.warn(f"skipped {self._count} wrong lines or files:\n{shown}{more}", stacklevel=3)
