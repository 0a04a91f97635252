"""Radius and diameter of a stream, the geometric quantities of the bounds."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats
from perceptrank.measures import AP, MeasureLike, parse
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import check_positive_whole

_ROWS_AT_ONCE = 2048


def radius(stream: Blocks) -> float:
    """Return R, the largest norm of a document.

    Parameters
    ----------
    stream : QueryStream or iterable of blocks

    Examples
    --------
    >>> from perceptrank import QueryStream
    >>> radius(QueryStream.from_arrays([[3.0, 4.0], [0.0, 1.0]], [1, 0]))
    5.0
    """
    blocks = (block for whole in as_blocks(stream, required=True) for block in whole.blocks())
    return max(float(lengths(block.X.astype(np.float64)).max()) for block in blocks)


def diameter(stream: Blocks, measure: MeasureLike = "ndcg", *, cutoff: int | None = None) -> float:
    """Return D, the largest distance between two documents of one query with different grades; 0 if there are none.

    It takes time quadratic in the number of documents of a query.

    Parameters
    ----------
    stream : QueryStream or iterable of blocks
    measure : str or Measure
        For "ap", grades differ if one is positive and the other is not.
    cutoff : int, optional
        Count only pairs whose better document belongs in the first `cutoff` places, as `margin` does.

    Examples
    --------
    >>> from perceptrank import QueryStream
    >>> diameter(QueryStream.from_arrays([[3.0, 4.0], [0.0, 0.0], [9.0, 9.0]], [1, 0, 1], qid=[1, 1, 2]))
    5.0
    """
    binary, k = isinstance(parse(measure), AP), check_cutoff(cutoff)
    largest = 0.0
    for whole in as_blocks(stream):
        for block in whole.blocks():
            grades = (block.relevance > 0).astype(np.float64) if binary else block.relevance
            for start, stop in zip(block.offsets[:-1], block.offsets[1:], strict=True):
                query = block.X[start:stop]
                X = query.without_empty_columns().toarray() if isinstance(query, SparseFeatures) else query
                own = grades[start:stop]
                if 0 < k < len(own):  # those below the grade at place k are alike
                    own = np.where(own < np.sort(own)[-k], -1.0, own)
                largest = max(largest, _farthest(X, own))
    return largest


def check_cutoff(cutoff: int | None) -> int:
    """Check a cut-off; return 0 for none."""
    return 0 if cutoff is None else check_positive_whole("cutoff", cutoff)


def lengths(rows: Floats | SparseFeatures) -> Floats:
    """Return the norms of rows, scaled so that squares neither overflow nor underflow."""
    values = rows.values if isinstance(rows, SparseFeatures) else rows
    scale = _largest(values)
    if scale == 0.0:
        return np.zeros(len(rows))
    scaled = values / scale
    if isinstance(rows, SparseFeatures):
        row_of = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
        squares = np.bincount(row_of, scaled * scaled, len(rows))
    else:
        squares = np.einsum("ij,ij->i", scaled, scaled)
    return np.sqrt(squares) * scale


def _largest(values: Features) -> float:
    """Return the largest absolute value; raise if a value is missing, since maxima would pass over it."""
    largest = float(np.abs(values).max(initial=0.0))
    if np.isnan(largest):
        raise ValueError("features must not be missing, got NaN: fill them first, for example with pr.Missing")
    return largest


def _farthest(X: Features, grades: Floats) -> float:
    """Return the largest distance of two rows of different grades.

    Inner products find the pair; its distance is then computed from the difference, which is more precise.
    """
    if (grades == grades[0]).all():
        return 0.0
    centered = X.astype(np.float64)
    centered -= centered.mean(axis=0)
    scale = _largest(centered)
    if scale == 0.0:
        return 0.0
    centered /= scale
    squares = np.einsum("ij,ij->i", centered, centered)
    largest = 0.0
    for first in range(0, len(centered), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        squared = squares[rows, None] + squares - 2 * (centered[rows] @ centered.T)
        squared[grades[rows, None] == grades] = -1.0
        i, j = np.unravel_index(int(squared.argmax()), squared.shape)
        if squared[i, j] >= 0.0:
            largest = max(largest, float(lengths((X[first + i] - X[j].astype(np.float64))[None])[0]))
    return largest
