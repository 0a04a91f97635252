"""Names for the array types that pass between modules, and arrays that begin with a line of the processor's cache."""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.uint64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Features: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]

# Scratch of the kernels: one row per purpose.
FloatRows: TypeAlias = npt.NDArray[np.float64]
IntRows: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.int32]

# Values, their columns, and where each row begins, of compressed sparse rows.
Columns: TypeAlias = npt.NDArray[np.int32]
SparseArrays: TypeAlias = tuple[Features, Columns, Ints]

# What the rule of a list-wise learner takes: scores, grades, how many of these are above 0, margin, and discounts
# 1 / log2(2 + place); and scratch, rows of floats and of integers.
Query: TypeAlias = tuple[Floats, Floats, int, float, Floats]
Rows: TypeAlias = tuple[FloatRows, IntRows]

LINE = 64  # bytes that processors fetch at once


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array with any values that begins with a line of the cache: reading across two takes twice as long."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(n_bytes + LINE, np.uint8)
    start = -memory.__array_interface__["data"][0] % LINE  # faster than `ctypes`
    return memory[start : start + n_bytes].view(dtype).reshape(shape)
