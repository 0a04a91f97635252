"""Re-iterable blocks: whatever takes a `QueryStream` also takes an iterable of them, which need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Ints
from perceptrank.stream.columns import QID, RELEVANCE
from perceptrank.stream.frames import is_frame, split_frame
from perceptrank.stream.grouping import group_rows
from perceptrank.stream.query_stream import QueryStream

Blocks: TypeAlias = QueryStream | Iterable[QueryStream]


class Scan:
    """Re-iterable blocks in place of a stream, read lazily: every iteration starts from the beginning.

    Parameters
    ----------
    start : callable
        Returns a new iterator over the blocks.
    description : str
        Shown in the representation.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.mslr_shaped(20, n_documents=5, n_features=4)
    >>> scan = Scan(lambda: stream.blocks(max_bytes=400), "simulated")
    >>> scan, sum(len(block) for block in scan), sum(len(block) for block in scan)
    (Scan(simulated), 20, 20)
    """

    def __init__(self, start: Callable[[], Iterator[QueryStream]], description: str) -> None:
        self._start, self._description = start, description

    def __iter__(self) -> Iterator[QueryStream]:
        return self._start()

    def __repr__(self) -> str:
        return f"Scan({self._description})"


def check_repeatable(stream: Blocks) -> None:
    """Raise `TypeError` if a stream is an iterator, which can be consumed only once."""
    if not isinstance(stream, QueryStream) and iter(stream) is stream:
        raise TypeError("the stream must be re-iterable: a QueryStream, a Scan or a list, not an iterator")


def as_blocks(stream: Blocks, *, required: bool = False, known: Collection[str] = ()) -> Iterator[QueryStream]:
    """Iterate over the non-empty blocks of a stream; if they are `required`, raise `ValueError` if there are none.

    A data frame is a block too, of which `known` features encode categories; see `QueryStream.from_frame`.
    """
    is_empty = True
    if not isinstance(stream, Iterable):
        raise TypeError(f"stream must be a QueryStream or an iterable of them, got {type(stream).__name__}")
    for each in [stream] if isinstance(stream, QueryStream) or is_frame(stream) else stream:
        block = block_of_frame(each, known)[0] if is_frame(each) and not isinstance(each, QueryStream) else each
        if not isinstance(block, QueryStream):
            raise TypeError(
                f"stream must be a QueryStream or an iterable of them, got one of {type(block).__name__}; "
                "`QueryStream.from_arrays(X, y, qid=…)` makes one of arrays"
            )
        if len(block) > 0:
            is_empty = False
            yield block
    if required and is_empty:
        raise ValueError("the stream has no queries")


def block_of_frame(frame: Any, known: Collection[str] = (), *, judged: bool = True) -> tuple[QueryStream, Ints]:
    """Return a data frame as a stream, and the row of each document, since those of a query may be apart.

    If it need not be `judged`, grades are 0, and without query ids all documents are of one query.
    """
    X, names, columns = split_frame(frame, QID, RELEVANCE, None, known=known, judged=judged)
    queries = columns.pop(QID, np.zeros(len(X)))
    rows = group_rows(queries, len(X))[0] if len(X) else None
    if not judged:
        columns = {RELEVANCE: np.zeros(len(X))}
    grades = columns.pop(RELEVANCE, None)
    stream = QueryStream.from_arrays(X, grades, qid=queries, feature_names=names, columns=columns, missing="keep")
    return stream, np.arange(len(X)) if rows is None else rows
