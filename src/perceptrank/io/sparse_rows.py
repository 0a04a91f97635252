"""Check compressed sparse rows that come from a file: compiled code trusts them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FileFormatError
from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.sparse import SparseFeatures


def checked_rows(
    values: Features, indices: npt.NDArray[np.int32], starts: Ints, n_features: int, files: Sequence[Path | str]
) -> SparseFeatures:
    """Return rows of these arrays, without a copy, after reading starts and indices once.

    Raises `FormatError` if they do not fit together; it names one of `files`, in the order of the arrays.
    """
    if len(values) != len(indices):
        raise FileFormatError(files[1], f" is damaged: there must be as many indices as values, {len(values)}")
    if not (len(starts) and starts[0] == 0 and starts[-1] == len(indices) and (starts[1:] >= starts[:-1]).all()):
        raise FileFormatError(files[2], f" is damaged: starts must rise from 0 to {len(indices)}")
    if not are_valid(indices, starts, n_features):
        try:
            SparseFeatures(values, indices, starts, n_features)
        except ValueError as error:
            raise FileFormatError(files[1], f" is damaged: {error}") from None
    return SparseFeatures._trusted(values, indices, starts, n_features)


@compiled
def are_valid(indices: npt.NDArray[np.int32], starts: Ints, n_features: int) -> bool:
    """Tell whether the indices of every row increase, from 0 on, and are below the number of features."""
    valid = True
    for row in range(len(starts) - 1):
        last = -1
        for k in range(starts[row], starts[row + 1]):
            valid &= indices[k] > last
            last = indices[k]
        valid &= last < n_features
        if not valid:
            break
    return valid
