"""Read LETOR text into memory.

A few chunks are parsed at a time, by threads, into one matrix that grows in length and width; results are collected in
the order of the text.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import as_id_array
from perceptrank.io.errors import FormatError, no_documents
from perceptrank.io.letor.error_policy import ErrorPolicy, OnError
from perceptrank.io.letor.jobs import Job, Pool
from perceptrank.io.letor.lines import GROUP, LineParser, Parsed
from perceptrank.io.letor.matrix import Matrix
from perceptrank.io.paths import PathLike, Source, display_name, find_files
from perceptrank.io.text import TextReader
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.grouping import as_sizes, group_runs
from perceptrank.stream.query_stream import QueryStream

Progress: TypeAlias = Callable[[int, int], object]

_UNKNOWN_SHARE = 1.5  # growth of the matrix while the size of the text is unknown


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
    r"""Read LETOR text into memory.

    Parameters
    ----------
    paths : path, open binary file, or several of them
        A folder stands for the files in it, except those whose names start with a dot or an underscore; a pattern with
        ``*`` or ``?`` for the files it matches. Files compressed with gzip, bzip2, xz or zstd (extra ``zstd``) are
        recognised by their content.
    n_features : int, optional
        Number of features; a larger feature id is an error. Default the largest id found.
    zero_based : bool
        Count feature ids from 0. By default they count from 1, and an id 0 is an error.
    qid : {"auto", "field", "comment"}
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
    on_error : {"raise", "skip"} or callable
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
    FileNotFoundError
        If a path does not exist or matches no file.
    MemoryError
        If the features exceed the available memory.
    TypeError, ValueError
        If an argument is invalid, or there are no documents.

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
    parser = LineParser(
        [display_name(file) for file in files], n_features, zero_based, where, comments, dtype, clip, policy.skips
    )
    reader = TextReader(files, policy.add)
    matrix = Matrix(parser.dtype)
    parts: list[tuple[int, Parsed]] = []
    jobs: deque[Job] = deque()

    def finish_oldest() -> None:
        """Collect the oldest chunk; if it is wider than the matrix, widen that while no thread writes."""
        if jobs[0].result().width > (width := matrix.width):
            matrix.widen(max(job.width() for job in jobs))
            for job in jobs:
                job.repeat_if_wider_than(width)
        job = jobs.popleft()
        parsed = job.result()
        policy.add(*parsed.problems)
        parts.append((job.rows.first, parsed))
        reader.release(job.chunk)

    def finish_all() -> None:
        while jobs:
            finish_oldest()

    with Pool(n_threads, reader.n_bytes) as pool:
        try:
            for chunk in reader.chunks():
                parser.detect_dialect(chunk)
                if matrix.width == 0 or not matrix.has_room(chunk.n_lines):
                    finish_all()
                    if matrix.width == 0:
                        matrix.widen(parser.min_width or parser.width_of(chunk))
                    matrix.make_room(
                        chunk.n_lines, reader.n_bytes / reader.n_read if reader.n_bytes else _UNKNOWN_SHARE
                    )
                jobs.append(Job(pool, parser, chunk, matrix.take(chunk.n_lines)))
                if len(jobs) > pool.depth:
                    finish_oldest()
                if progress is not None:
                    progress(reader.n_read, reader.n_bytes)
        except FormatError:
            finish_all()  # an error in an earlier line takes precedence
            raise
        finish_all()
    policy.warn_if_skipped()
    if not any(parsed.n_rows for _, parsed in parts):
        raise no_documents(map(display_name, files))
    width = max([1, parser.min_width, *(parsed.width for _, parsed in parts)])
    X, relevance = matrix.finish([(first, parsed.n_rows) for first, parsed in parts], width)
    stream = _join(X, relevance, [parsed for _, parsed in parts], parser.feature_names(width))
    return stream if group is None else _regroup(stream, group)


def _regroup(stream: QueryStream, group: npt.ArrayLike | PathLike) -> QueryStream:
    """Split a stream of one query into queries of the given sizes."""
    sizes: npt.ArrayLike
    if isinstance(group, (str, os.PathLike)):
        try:
            sizes = [int(line) for line in Path(group).read_text(encoding="utf-8").split()]
        except ValueError as error:
            raise ValueError(f"{group} must hold whole numbers, one per line: {error}") from None
    else:
        sizes = group
    bounds = np.concatenate([[0], np.cumsum(as_sizes(sizes, stream.n_documents))])
    return QueryStream._trusted(
        stream.X, stream.relevance, bounds, np.arange(len(bounds) - 1), stream.feature_names, stream.comments
    )


def _join(X: Features, relevance: Floats, parts: list[Parsed], feature_names: tuple[str, ...] | None) -> QueryStream:
    """Join parsed chunks to a stream, grouping the documents of a query."""
    starts: list[int] = []
    qids: list[int | str] = []
    n_rows = 0
    for parsed in parts:
        skipped = int(
            bool(qids and parsed.qids and qids[-1] == parsed.qids[0])
        )  # the query continues from the previous part
        starts += (parsed.starts[skipped:] + n_rows).tolist()
        qids += parsed.qids[skipped:]
        n_rows += parsed.n_rows
    comments = None
    if parts[0].comments is not None:
        comments = np.array([text for parsed in parts for text in parsed.comments or []], dtype=object)
    rows, offsets, identities = group_runs(as_id_array(qids), np.array([*starts, n_rows], dtype=np.int64))
    if rows is not None:
        X, relevance = X[rows], relevance[rows]
        comments = None if comments is None else comments[rows]
    return QueryStream._trusted(X, relevance, offsets, identities, feature_names, comments)
