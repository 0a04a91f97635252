"""Append-only .npy files."""

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
    """Writes a .npy file row by row; it is valid, and flushed to disk, once it is closed.

    Parameters
    ----------
    path : Path
    dtype : dtype
    row_shape : tuple of int
        Shape of a row.
    """

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
        """Append rows."""
        data = np.ascontiguousarray(rows, dtype=self._dtype)
        self._n_rows += len(data)
        raw = data.reshape(-1).view(np.uint8).data if data.size else b""
        self._hash.update(raw)
        self._file.write(raw)

    def describe(self) -> dict[str, Any]:
        """Return the size of the file and the SHA-256 of its data, without the header."""
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
    """Compute the SHA-256 of the data of a file written by `NpyFile`, without the header."""
    with open(path, "rb") as file:
        file.seek(_HEADER_BYTES)
        return hashlib.file_digest(file, "sha256").hexdigest()
