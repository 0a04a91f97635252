"""A .npy file that grows: rows are appended while their number is not known."""

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER_BYTES = 256


class NpyFile:
    """Writes an array of rows of one type and shape; flushed to disk, and readable by NumPy, once it is closed."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.path = path
        self._dtype, self._row_shape = np.dtype(dtype), row_shape
        self._n_rows = 0
        self._hash = hashlib.sha256()
        self._file = open(path, "wb")  # noqa: SIM115
        self._file.write(self._header())

    def _header(self) -> bytes:
        described = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._n_rows, *self._row_shape)}
        text = repr(described).encode("latin-1").ljust(_HEADER_BYTES - len(_MAGIC) - 3) + b"\n"
        return _MAGIC + len(text).to_bytes(2, "little") + text

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows."""
        data = np.ascontiguousarray(rows, dtype=self._dtype)
        self._n_rows += len(data)
        raw = data.reshape(-1).view(np.uint8).data if data.size else b""
        self._hash.update(raw)
        self._file.write(raw)

    def describe(self) -> dict[str, Any]:
        """Size of the file, and the checksum of all that follows its header."""
        return {"bytes": os.path.getsize(self.path), "sha256": self._hash.hexdigest()}

    def __enter__(self) -> "NpyFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._file as file:
            if error is None:
                file.seek(0)
                file.write(self._header())
                file.flush()
                os.fsync(file.fileno())


def checksum(path: Path) -> str:
    """The checksum of all that follows the header of a file that `NpyFile` has written."""
    with open(path, "rb") as file:
        file.seek(_HEADER_BYTES)
        return hashlib.file_digest(file, "sha256").hexdigest()
