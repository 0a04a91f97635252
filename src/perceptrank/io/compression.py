"""Compressed files: recognised by content when read, chosen by suffix when written."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol, cast

from perceptrank.io.errors import FormatError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_PIECE_BYTES = 2**16

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_NOT_TEXT = {
    b"PAR1": "a Parquet file (read_parquet reads it)",
    b"PK\x03\x04": "a zip archive (unpack it)",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_LONGEST_MAGIC = max(len(magic) for magic in _MAGIC)


class Readable(Protocol):
    """A binary file that is read sequentially."""

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes; none at the end of the file."""
        ...

    def readinto(self, view: memoryview) -> int:
        """Read into a view and return the number of bytes."""
        ...


class DecompressedFile:
    """Reads a binary file, decompressing it if its magic number is that of a known compression.

    Raises `FormatError` for corrupt data, and for files that are known not to be LETOR text.
    """

    def __init__(self, file: Readable, name: str) -> None:
        self._file, self._name = file, name
        self._ready = memoryview(file.read(_LONGEST_MAGIC))  # text, or data still to be decompressed
        while len(self._ready) < _LONGEST_MAGIC and (more := file.read(1)):
            self._ready = memoryview(bytes(self._ready) + more)
        for magic, kind in _NOT_TEXT.items():
            if bytes(self._ready).startswith(magic):
                raise FormatError(name, 1, 1, f"this is {kind}, not LETOR text")
        self._kind = next((kind for magic, kind in _MAGIC.items() if bytes(self._ready).startswith(magic)), None)
        self._pending, self._ready = (bytes(self._ready), memoryview(b"")) if self._kind else (b"", self._ready)
        self._decompressor = _new_decompressor(self._kind, name) if self._kind else None

    def readinto(self, view: memoryview, line: int) -> int:
        """Read into a view and return the number of bytes, 0 at the end of the file; `line` is for error messages."""
        if not self._ready:
            if self._decompressor is None:
                return self._file.readinto(view)
            try:
                self._decompress()
            except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
                raise FormatError(self._name, line, 1, f"the {self._kind} data is damaged: {error}") from None
            except Exception as error:
                if type(error).__name__ != "ZstdError":
                    raise
                raise FormatError(self._name, line, 1, f"the {self._kind} data is damaged: {error}") from None
        n = min(len(view), len(self._ready))
        view[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _decompress(self) -> None:
        """Decompress until there is some text, or the end of the file."""
        while not self._ready:
            data = self._pending or self._file.read(_PIECE_BYTES)
            self._pending = b""
            decompressor: Any = self._decompressor
            if decompressor.eof:  # concatenated members, possibly padded with zeros
                data = data.lstrip(b"\0")
                if not data:
                    if self._at_end():
                        return
                    continue
                decompressor = self._decompressor = _new_decompressor(str(self._kind), self._name)
            elif not data:
                raise EOFError("it is truncated")
            self._ready = memoryview(decompressor.decompress(data))
            if decompressor.eof:
                self._pending = decompressor.unused_data

    def _at_end(self) -> bool:
        self._pending = self._file.read(_PIECE_BYTES)
        return not self._pending


def _new_decompressor(kind: str, name: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    return zstandard(name).ZstdDecompressor(max_window_size=2**31).decompressobj()


def zstandard(name: str) -> Any:
    """Import the zstandard package; `name` is the file that needs it."""
    try:
        import zstandard as package
    except ImportError:
        raise ImportError(f"{name} is compressed with zstd; pip install 'perceptrank[zstd]' to use it") from None
    return package


@contextmanager
def compressed_file(file: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    """Wrap a file opened for writing so that it is compressed according to the suffix of `path`."""
    if path.endswith(".gz"):
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as text:
            yield cast(IO[bytes], text)
    elif path.endswith(".bz2"):
        with bz2.BZ2File(file, "wb") as text:
            yield cast(IO[bytes], text)
    elif path.endswith(".xz"):
        with lzma.LZMAFile(file, "wb") as text:
            yield cast(IO[bytes], text)
    elif path.endswith(".zst"):
        with zstandard(path).ZstdCompressor().stream_writer(file, closefd=False) as text:
            yield text
    else:
        yield file
