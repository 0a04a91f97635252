"""Lists of several lengths as rows of a matrix: a row is NaN from where its list ends."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.stream.validation import as_numbers


class Lists(NamedTuple):
    """Values of lists, one row per list; `present` tells where there is one; `is_single` if a vector was given."""

    values: Floats
    present: Bools
    is_single: bool


def as_lists(name: str, values: npt.ArrayLike) -> Lists:
    """Convert a vector, which is one list, or a matrix with one list per row; raise `ValueError` for anything else."""
    rows = as_numbers(name, values).astype(np.float64)
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name} must be a vector, or a matrix with one list per row, got shape {rows.shape}")
    matrix = np.atleast_2d(rows)
    present = ~np.isnan(matrix)
    if (gaps := np.argwhere(present[:, 1:] & ~present[:, :-1])).size:
        raise ValueError(
            f"{name} must be NaN only from where a list ends, got NaN before a number in list {gaps[0][0]}"
        )
    if (infinite := np.argwhere(np.isinf(matrix))).size:
        row, place = infinite[0]
        raise ValueError(f"{name} must be finite, got {matrix[row, place]} at place {place + 1} of list {row}")
    return Lists(matrix, present, rows.ndim == 1)


def pad(values: npt.NDArray[np.float64], offsets: Ints) -> Floats:
    """Lay out values of consecutive lists, list q being ``values[offsets[q] : offsets[q + 1]]``, as rows."""
    sizes = np.diff(offsets)
    rows = np.full((len(sizes), int(sizes.max(initial=0))), np.nan)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = values
    return rows
