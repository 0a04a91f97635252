"""Files of arrays as .npy: written row by row, and mapped or read without evaluating their headers.

NumPy's own reader parses a header as Python; here a header is compared with the one that the array must have.
"""

import errno
import hashlib
import math
import os
import re
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FileFormatError
from perceptrank.kernels.arrays import Floats

HEADER_BYTES = 256
_MAGIC = b"\x93NUMPY\x01\x00"
_VECTOR_HEADER = re.compile(
    rb"\{'descr': '([<>]f8)', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n"  # as NumPy writes it
)
_LARGEST_COPIED = 2**20


class NpyFile:
    """Writes a .npy file row by row; it is valid, and flushed to disk, once it is closed."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.path = path
        self._dtype, self._row_shape = np.dtype(dtype), row_shape
        self.n_rows = 0
        self._hash = hashlib.sha256()
        self._file = open(path, "wb")  # noqa: SIM115
        self._file.write(_header(self._dtype, (0, *row_shape)))

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Append rows."""
        data = np.ascontiguousarray(rows, dtype=self._dtype)
        self.n_rows += len(data)
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
                file.write(_header(self._dtype, (self.n_rows, *self._row_shape)))
                file.flush()
                os.fsync(file.fileno())


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    text = repr(described).encode("latin-1").ljust(HEADER_BYTES - len(_MAGIC) - 3) + b"\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], *, always: bool = False) -> npt.NDArray[Any]:
    """Memory-map a checked file of `NpyFile`; small ones are read, unless `always`, as each map takes a descriptor."""
    size = math.prod(shape) * dtype.itemsize
    try:
        with open(path, "rb") as file:
            _check_header(path, file, dtype, shape)
            if os.fstat(file.fileno()).st_size != HEADER_BYTES + size:
                raise FileFormatError(path, f" is damaged: it does not hold {size} bytes of data")
            if not always and size <= _LARGEST_COPIED:
                return np.frombuffer(file.read(size), dtype).reshape(shape)
            return np.asarray(np.memmap(file, dtype, "r", HEADER_BYTES, shape))
    except OSError as error:
        raise describe_os_error(path, error) from None


def checksum(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """Compute the SHA-256 of the data of a file that `NpyFile` wrote, after checking its header."""
    try:
        with open(path, "rb") as file:
            _check_header(path, file, dtype, shape)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise describe_os_error(path, error) from None


def _check_header(path: Path, file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if file.read(HEADER_BYTES) != _header(dtype, shape):
        raise FileFormatError(path, f" is damaged: its header is not that of {dtype} of shape {shape} in C order")


def describe_os_error(path: Path, error: OSError) -> OSError:
    """Return an error of the system with advice, if it is a limit or a file that is gone."""
    merge = "merge the segments of the store with `Store.compact`"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OSError(f"too many files are open to read {path}: raise the limit (ulimit -n), or {merge}")
    if error.errno == errno.ENOMEM:
        return OSError(f"no memory to map {path}: {merge}, or free memory")
    if error.errno == errno.ENOENT:
        return FileNotFoundError(f"there is no file {path}: if the store was overwritten meanwhile, open it again")
    return error


def read_vector(file: IO[bytes], n_bytes: int) -> Floats:
    """Read a float64 vector as NumPy writes it; raise `ValueError` unless it takes exactly these bytes."""
    start = file.read(len(_MAGIC) + 2)
    header = file.read(int.from_bytes(start[-2:], "little"))
    described = _VECTOR_HEADER.fullmatch(header)
    if not start.startswith(_MAGIC) or described is None:
        raise ValueError("an array is not a vector of float64")
    size = 8 * int(described[2])
    if len(start) + len(header) + size != n_bytes:
        raise ValueError(f"an array of {int(described[2])} numbers does not take {n_bytes} bytes")
    content = file.read(size)
    if len(content) < size:
        raise ValueError("an array is truncated")
    return np.frombuffer(content, described[1].decode()).astype(np.float64)
