"""Arrays that begin where a line of the processor's cache does: reading across two lines takes twice as long."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

LINE = 64  # bytes that processors fetch at once


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of a shape with any values."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(n_bytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + n_bytes].view(dtype).reshape(shape)
