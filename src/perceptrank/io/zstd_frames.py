"""Decompress zstd in the manner of `bz2.BZ2Decompressor`: in pieces of bounded size."""

from collections.abc import Callable
from typing import Any

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPED_MAGIC = b"\x2a\x4d\x18"  # the last three of four bytes
_COMPRESSED, _REPEATED = 2, 1  # types of blocks; a repeated byte is stored once
_LARGEST_BLOCK = 2**17


def starts_zstd_frame(data: bytes) -> bool:
    """Return True for data that starts with a frame of zstd, which may be one to be skipped."""
    return data[:4] == ZSTD_MAGIC or _is_skipped(data)


def _is_skipped(data: bytes, at: int = 0) -> bool:
    return data[at + 1 : at + 4] == _SKIPPED_MAGIC and data[at] >> 4 == 5


class ZstdMember:
    """A frame of a zstd file, or several that are skipped.

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
        if self._data[self._at : self._at + 4] != ZSTD_MAGIC:
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
