"""Scratch space of kernels, which allocate nothing themselves."""

import threading
from typing import Any, TypeAlias

import numpy as np

from perceptrank.kernels.arrays import FloatRows, IntRows

# Rows of floats and of integers, with a place per document and two over, and rows of floats with a place per feature.
Scratch: TypeAlias = tuple[FloatRows, IntRows, FloatRows]


class Kept(threading.local):
    """Scratch that a thread goes on using, by shape: allocating it takes longer than learning from a short query."""

    def __init__(self) -> None:
        self.scratch: dict[Any, Any] = {}


_kept = Kept()
_MOST_KEPT = 64
_LARGEST_KEPT = 2**21  # numbers: rows of a very long query would occupy memory for as long as the thread lives


def borrow_scratch(longest: int, n_features: int, n_floats: int, n_ints: int, n_vectors: int = 2) -> Scratch:
    """Return rows for queries of up to `longest` documents, to be used until this thread asks again."""
    width = longest + 2
    shape = n_features, n_floats, n_ints, n_vectors
    kept = _kept.scratch
    scratch: Scratch | None = kept.get(shape)
    if scratch is None or scratch[0].shape[1] < width:
        # Integers start as zeros, so that none can lead an index astray.
        floats, ints = np.empty((n_floats, width)), np.zeros((n_ints, width), np.int64)
        scratch = floats, ints, np.empty((n_vectors, n_features))
        if (n_floats + n_ints) * width + n_vectors * n_features > _LARGEST_KEPT:
            return scratch
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[shape] = scratch
    return scratch
