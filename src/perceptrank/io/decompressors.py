"""Decompressors for gzip and zstd in the manner of `bz2.BZ2Decompressor`: in pieces of bounded size."""

import zlib
from collections.abc import Callable
from typing import Any

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPED_MAGIC = b"\x2a\x4d\x18"  # the last three of four bytes
_COMPRESSED, _REPEATED = 2, 1  # types of blocks; a repeated byte is stored once
_LARGEST_BLOCK = 2**17


class GzipMember:
    """A member of a gzip file."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress at most `max_length` bytes; what is left of the data is kept."""
        text = self._member.decompress(self._member.unconsumed_tail + data, max_length)
        self.needs_input = not self._member.unconsumed_tail and len(text) < max_length
        return text

    @property
    def eof(self) -> bool:
        """True at the end of the member."""
        return self._member.eof

    @property
    def unused_data(self) -> bytes:
        """The data after the end of the member."""
        return self._member.unused_data


class ZstdMember:
    """A frame of a zstd file.

    The package decompresses all that it is given, and a block of four bytes can be 128 KiB of text. So the frame is
    followed from block to block (RFC 8878, section 3.1), and as many are given as are sure to be short enough.

    Parameters
    ----------
    package : module
        The zstandard package.
    window_bytes : int
        Largest window allowed.
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
        text: bytes = self._frame.decompress(self._data[start : self._at]) if self._at > start else b""
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
        magic, flags = self._data[self._at : self._at + 4], self._data[self._at + 4]
        if magic[1:] == _SKIPPED_MAGIC and magic[0] >> 4 == 5:
            self._n_skipped = 8 + int.from_bytes(self._data[self._at + 4 : self._at + 8], "little")
            self._next = self._skip
            return 0
        if magic != ZSTD_MAGIC:
            raise ValueError("what follows is no frame")
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
        """Pass what there is of a frame without text."""
        n = min(self._n_skipped, len(self._data) - self._at)
        self._at += n
        self._n_skipped -= n
        self.eof = self._n_skipped == 0
        self.needs_input = not self.eof
        return 0
