"""Available memory."""

import numpy as np
import numpy.typing as npt

_BYTES_PER_COLUMN = 24


def check_memory(n_rows: int, width: int, dtype: npt.DTypeLike) -> None:
    """Raise `MemoryError` if a matrix exceeds the available memory, before the system kills the process."""
    needed = width * (n_rows * np.dtype(dtype).itemsize + _BYTES_PER_COLUMN)
    if needed > free_memory():
        raise MemoryError(
            f"{n_rows} documents of {width} features take {needed / 1e9:.1f} GB, more than is available; "
            "scan_letor reads block by block, and n_features declares which feature ids there are"
        )


def free_memory() -> float:
    """Return the available memory in bytes, infinity if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return np.inf


def check_room(what: str, n_numbers: int) -> None:
    """Raise if so many float64 numbers, and a copy to go back to, do not fit into memory."""
    needed, free = min(16 * n_numbers, 10**300), free_memory()
    if needed > free:
        raise MemoryError(f"{what} takes {1e-9 * needed:.1f} GB of memory, and {1e-9 * free:.1f} GB are free")
