"""Discounts of ranks."""

from functools import cache

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.stream.validation import read_only


@cache
def _table(length: int) -> Floats:
    table: Floats = read_only(1.0 / np.log2(np.arange(2, length + 2)))
    return table


def discounts(longest: int) -> Floats:
    """Return 1 / log2(1 + rank) for ranks 1, 2, … at least up to the longest query."""
    return _table(1 << max(10, int(longest).bit_length()))
