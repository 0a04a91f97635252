"""Compressed files: recognised by content when read, chosen by suffix when written."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, cast

from perceptrank.io.errors import FormatError

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

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPED_MAGIC = b"\x2a\x4d\x18"  # the last three of four bytes
_COMPRESSED, _REPEATED = 2, 1  # types of blocks; a repeated byte is stored once
_LARGEST_BLOCK = 2**17


class CountingFile:
    """A binary file that is read sequentially; `n_read` counts the bytes."""

    def __init__(self, file: IO[bytes] | io.FileIO) -> None:
        self._file, self.n_read = file, 0
        self._readinto = getattr(file, "readinto", None)

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes; none at the end of the file."""
        data: bytes = self._file.read(size) or b""
        self.n_read += len(data)
        return data

    def readinto(self, view: memoryview) -> int:
        """Read into a view and return the number of bytes."""
        if self._readinto is None:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)
        n: int = self._readinto(view) or 0
        self.n_read += n
        return n


class DecompressedFile:
    """Reads a binary file, decompressing it if its magic number is that of a known compression.

    Memory is bounded whatever the file says: data is decompressed in pieces, and a window or dictionary that is large
    in comparison with the file is refused. Raises `FormatError` for that, for corrupt data, and for files that are
    known not to be text. `name` and what is `expected` are for messages; `n_bytes` is 0 if the size is unknown.
    """

    def __init__(self, file: CountingFile, name: str, n_bytes: int = 0, expected: str = "LETOR text") -> None:
        self._file, self._name = file, name
        self._window_bytes = min(_LARGEST_WINDOW, max(_WINDOW_BYTES, _WINDOW_SHARE * n_bytes))
        start = file.read(_LONGEST_MAGIC)
        while len(start) < _LONGEST_MAGIC and (more := file.read(1)):
            start += more
        for magic, kind in _NOT_TEXT.items():
            if start.startswith(magic):
                raise FormatError(name, 1, 1, f"this is {kind}, not {expected}")
        known = (kind for magic, kind in _MAGIC.items() if start.startswith(magic))
        self._kind = "zstd" if start[:4] == _ZSTD_MAGIC or _is_skipped(start) else next(known, "")
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
            except Exception as error:
                is_data = isinstance(error, (zlib.error, lzma.LZMAError, ValueError, EOFError))
                is_bzip2 = isinstance(error, OSError) and error.errno is None  # else the file cannot be read
                if not (is_data or is_bzip2 or type(error).__name__ == "ZstdError"):
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
        return _ZstdMember(zstandard(self._name), self._window_bytes)


def zstandard(name: str) -> Any:
    """Import the zstandard package; `name` is the file that needs it."""
    try:
        import zstandard as package
    except ImportError:
        raise ImportError(f"{name} is compressed with zstd; pip install 'perceptrank[zstd]' to use it") from None
    return package


def compressed_file(file: IO[bytes], path: str) -> AbstractContextManager[Any]:
    """Wrap a file opened for writing so that it is compressed according to the suffix of `path`."""
    if path.endswith(".gz"):
        return gzip.GzipFile("", "wb", 6, file, mtime=0)
    if path.endswith(".bz2"):
        return bz2.BZ2File(file, "wb")
    if path.endswith(".xz"):
        return lzma.LZMAFile(file, "wb")
    if path.endswith(".zst"):
        return cast(AbstractContextManager[Any], zstandard(path).ZstdCompressor().stream_writer(file, closefd=False))
    return nullcontext(file)


def _is_skipped(data: bytes, at: int = 0) -> bool:
    return data[at + 1 : at + 4] == _SKIPPED_MAGIC and data[at] >> 4 == 5


class _ZstdMember:
    """A frame of a zstd file, or several that are skipped, in the manner of `bz2.BZ2Decompressor`.

    The package decompresses all that it is given, and a block of four bytes can be 128 KiB of text; its stream reader
    does not notice that a file is truncated. So the frame is followed from block to block (RFC 8878, section 3.1), and
    as many are given as are sure to be short enough. Giving it 512 bytes at a time instead takes 1.4 times as long.
    """

    def __init__(self, package: Any, window_bytes: int) -> None:
        self._frame = package.ZstdDecompressor(max_window_size=window_bytes).decompressobj()
        self._data, self._at = b"", 0
        self._next: Callable[[], int] = self._header
        self._n_skipped = 0
        self._has_checksum = False
        self.needs_input, self.eof, self.unused_data = True, False, b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress about `max_length` bytes, or one block; what is left of the data is kept."""
        if data:
            self._data, self._at = self._data[self._at :] + data, 0
        start, n_text = self._at, 0
        self.needs_input = False
        while n_text < max_length and not self.eof and not self.needs_input:
            n_text += self._next()
        has_text = self._at > start and self._next != self._skip
        text: bytes = self._frame.decompress(self._data[start : self._at]) if has_text else b""
        if self.eof:
            self.unused_data = self._data[self._at :]
        return text

    def _has(self, n: int) -> bool:
        self.needs_input = len(self._data) - self._at < n
        return not self.needs_input

    def _header(self) -> int:
        """Pass the header of the frame; as the other steps, return the size of the text in what was passed."""
        if not self._has(8):  # no frame is shorter
            return 0
        if _is_skipped(self._data, self._at):
            self._next = self._skip
            return 0
        if self._data[self._at : self._at + 4] != _ZSTD_MAGIC:
            raise ValueError("what follows is no frame")
        flags = self._data[self._at + 4]
        has_window = not flags >> 5 & 1
        size = 5 + has_window + (0, 1, 2, 4)[flags & 3] + (1 - has_window, 2, 4, 8)[flags >> 6]
        if self._has(size):
            self._at += size
            self._has_checksum = bool(flags >> 2 & 1)
            self._next = self._block
        return 0

    def _block(self) -> int:
        if not self._has(3):
            return 0
        head = int.from_bytes(self._data[self._at : self._at + 3], "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        length = 3 + (1 if kind == _REPEATED else size) + (4 if is_last and self._has_checksum else 0)
        if not self._has(length):
            return 0
        self._at += length
        self.eof = bool(is_last)
        return _LARGEST_BLOCK if kind == _COMPRESSED else size

    def _skip(self) -> int:
        """Pass what there is of frames without text; going through many takes no decompressor for each."""
        data, at, n_left = self._data, self._at, self._n_skipped
        while True:
            n = min(n_left, len(data) - at)
            at, n_left = at + n, n_left - n
            if n_left or len(data) - at < 8 or not _is_skipped(data, at):
                break
            n_left = 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        self._at, self._n_skipped = at, n_left
        self.eof = n_left == 0
        self.needs_input = not self.eof
        return 0
