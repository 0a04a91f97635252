"""Compressed files: recognised by content when read, chosen by suffix when written."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol, cast

from perceptrank.io.errors import FormatError
from perceptrank.io.zstd_frames import ZstdMember, starts_zstd_frame

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_PIECE_BYTES = 2**17

# What a window may take: as much as the zstd command allows, or more if the file is large in comparison.
_WINDOW_BYTES, _WINDOW_SHARE, _LARGEST_WINDOW = 2**27, 64, 2**31

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
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

    Memory is bounded whatever the file says: data is decompressed in pieces, and a window or dictionary that is large
    in comparison with the file is refused. Raises `FormatError` for that, for corrupt data, and for files that are
    known not to be text. `name` and what is `expected` are for messages; `n_bytes` is 0 if the size is unknown.
    """

    def __init__(self, file: Readable, name: str, n_bytes: int = 0, expected: str = "LETOR text") -> None:
        self._file, self._name = file, name
        self._window_bytes = min(_LARGEST_WINDOW, max(_WINDOW_BYTES, _WINDOW_SHARE * n_bytes))
        start = file.read(_LONGEST_MAGIC)
        while len(start) < _LONGEST_MAGIC and (more := file.read(1)):
            start += more
        for magic, kind in _NOT_TEXT.items():
            if start.startswith(magic):
                raise FormatError(name, 1, 1, f"this is {kind}, not {expected}")
        known = (kind for magic, kind in _MAGIC.items() if start.startswith(magic))
        self._kind = "zstd" if starts_zstd_frame(start) else next(known, "")
        self._pending = start if self._kind else b""  # data still to be decompressed
        self._ready = memoryview(b"" if self._kind else start)
        self._member = self._new_member() if self._kind else None
        self._is_drained = True  # a member of gzip has no more text from what it was given

    def readinto(self, view: memoryview, line: int) -> int:
        """Read into a view and return the number of bytes, 0 at the end of the file; `line` is for error messages."""
        if not self._ready:
            if self._member is None:
                return self._file.readinto(view)
            try:
                self._decompress()
            except (zlib.error, lzma.LZMAError, ValueError, EOFError) as error:
                raise self._damaged(error, line) from None
            except OSError as error:
                if error.errno is not None:
                    raise  # the file cannot be read; bz2 has none for data that is damaged
                raise self._damaged(error, line) from None
            except Exception as error:
                if type(error).__name__ != "ZstdError":
                    raise
                raise self._damaged(error, line) from None
        n = min(len(view), len(self._ready))
        view[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _damaged(self, error: Exception, line: int) -> FormatError:
        if "emory" in str(error):  # xz: "Memory usage limit exceeded", zstd: "Frame requires too much memory"
            limit = f"a window of more than {self._window_bytes >> 20} MiB"
            return FormatError(self._name, line, 1, f"the {self._kind} data needs {limit}; decompress the file first")
        return FormatError(self._name, line, 1, f"the {self._kind} data is damaged: {error}")

    def _decompress(self) -> None:
        """Decompress until there is some text, or the end of the file."""
        while not self._ready:
            member: Any = self._member
            if member.eof:  # concatenated members, possibly padded with zeros
                self._pending = (self._pending or self._file.read(_PIECE_BYTES)).lstrip(b"\0")
                if not self._pending and not (more := self._file.read(_PIECE_BYTES)):
                    return
                if not self._pending:
                    self._pending = more
                    continue
                member = self._member = self._new_member()
                self._is_drained = True
            if not self._pending and getattr(member, "needs_input", self._is_drained):
                self._pending = self._file.read(_PIECE_BYTES)
                if not self._pending:
                    raise EOFError("it is truncated")
            self._ready = memoryview(member.decompress(self._pending, _PIECE_BYTES))
            self._is_drained = len(self._ready) < _PIECE_BYTES
            self._pending = member.unused_data if member.eof else getattr(member, "unconsumed_tail", b"")

    def _new_member(self) -> Any:
        """Return a decompressor in the manner of `bz2.BZ2Decompressor`, or that of zlib, which keeps no input."""
        if self._kind == "gzip":
            return zlib.decompressobj(wbits=31)
        if self._kind == "bzip2":
            return bz2.BZ2Decompressor()
        if self._kind == "xz":
            return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=self._window_bytes)
        return ZstdMember(zstandard(self._name), self._window_bytes)


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
