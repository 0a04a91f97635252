"""How much memory there is."""

import numpy as np
import numpy.typing as npt

_BYTES_PER_COLUMN = 24


def check_memory(n_rows: int, width: int, dtype: npt.DTypeLike) -> None:
    """Raise if so many rows cannot be held: to be told is better than to be ended by the system."""
    needed = width * (n_rows * np.dtype(dtype).itemsize + _BYTES_PER_COLUMN)
    if needed > free_memory():
        raise MemoryError(
            f"{n_rows} documents of {width} features take {needed / 1e9:.1f} GB, more than there is; "
            "scan_letor reads block by block, and n_features declares which feature ids there are"
        )


def free_memory() -> float:
    """Bytes that are free, infinite if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return np.inf
