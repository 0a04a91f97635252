"""Text of tables, plain or compressed, in chunks of whole records."""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from perceptrank.io.compression import DecompressedFile
from perceptrank.io.errors import FormatError
from perceptrank.io.text import LONGEST_LINE

CHUNK_BYTES = 4 * 2**20
_HEAD_BYTES = 2**18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_QUOTE, _NEWLINE = b'"', b"\n"
QUOTES = "quotes must be closed; a field that has quotes must be quoted, and its own quotes doubled"

Progress = Callable[[int], object]


class Chunk(NamedTuple):
    """Whole records, the first of them on line number `line`, from 1."""

    text: bytes
    line: int


def chunks(
    path: str, *, quoted: bool, prefix: bytes = b"", size: int | None = None, progress: Progress | None = None
) -> Iterator[Chunk]:
    """Read a file in chunks of whole lines; with `quoted`, a line that ends within quotes goes on.

    Every chunk begins with `prefix`. A record, like a line of LETOR text, has at most 64 MiB. `progress` is called with
    numbers of bytes that were read, before decompression.
    """
    begin = len(prefix)
    with open(path, "rb", buffering=0) as file:
        source = DecompressedFile(_Counting(file, progress), path, os.path.getsize(path), "a table")
        line = 1
        text = bytearray(begin + (size or CHUNK_BYTES))  # one buffer for all chunks
        text[:begin] = prefix
        filled = begin
        while True:
            stop = _fill(source, text, filled, line)
            is_last = stop < len(text)
            if line == 1 and text.startswith(_BYTE_ORDER_MARK, begin):
                del text[begin : begin + 3]
                stop -= 3
            if is_last:
                if stop > begin:
                    _check_quotes(path, text[begin:stop], line, quoted)
                    yield Chunk(bytes(memoryview(text)[:stop]), line)
                return
            end = _end_of_records(text, begin, stop, quoted)
            if end > begin:
                whole = bytes(memoryview(text)[:end])
                text[begin : begin + stop - end] = text[end:stop]
                filled = begin + stop - end
                yield Chunk(whole, line)
                line += _count(whole, _NEWLINE, begin, end)
            elif stop >= LONGEST_LINE:
                if quoted and _NEWLINE in text:
                    _check_quotes(path, text[begin:stop], line, quoted)
                raise FormatError(path, line, 1, f"a line longer than {LONGEST_LINE >> 20} MiB")
            else:
                filled = stop
                text += bytes(len(text))


def read_head(path: str, *, quoted: bool = False) -> bytes:
    """Read the first whole records of a file, and of one that is a single long record all of it."""
    reader = chunks(path, quoted=quoted, size=_HEAD_BYTES)
    try:
        return next(reader, Chunk(b"", 1)).text
    finally:
        reader.close()  # type: ignore[attr-defined]


def _fill(source: DecompressedFile, text: bytearray, start: int, line: int) -> int:
    with memoryview(text) as view:
        while start < len(view) and (n := source.readinto(view[start:], line)):
            start += n
    return start


def _end_of_records(text: bytearray, begin: int, stop: int, quoted: bool) -> int:
    """Return the end of the last newline that is not within quotes; `begin` if there is none."""
    end = text.rfind(_NEWLINE, begin, stop) + 1 or begin
    if not quoted:
        return end
    n_quotes = _count(text, _QUOTE, begin, end)
    while n_quotes % 2 and end > begin:
        start = text.rfind(_NEWLINE, begin, end - 1) + 1 or begin
        n_quotes -= text.count(_QUOTE, start, end)
        end = start
    return end


def _count(text: bytes | bytearray, byte: bytes, begin: int, end: int) -> int:
    """Count a byte as `text.count` does, several times as fast."""
    if text.find(byte, begin, end) < 0:
        return 0
    return int(np.count_nonzero(np.frombuffer(text, np.uint8, end - begin, begin) == byte[0]))


def _check_quotes(path: str, text: bytearray, line: int, quoted: bool) -> None:
    """Raise if a quote is not closed; where that is cannot be told for sure, so the first odd line is named."""
    if quoted and _count(text, _QUOTE, 0, len(text)) % 2:
        odd = next(i for i, one in enumerate(text.split(_NEWLINE)) if one.count(_QUOTE) % 2)
        raise FormatError(path, line + odd, 1, QUOTES)


class _Counting:
    """A file that tells how many bytes are read from it."""

    def __init__(self, file: "os.PathLike[str] | object", progress: Progress | None) -> None:
        self._file, self._progress = file, progress

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size) or b""  # type: ignore[union-attr]
        self._tell(len(data))
        return data

    def readinto(self, view: memoryview) -> int:
        n: int = self._file.readinto(view) or 0  # type: ignore[union-attr]
        self._tell(n)
        return n

    def _tell(self, n: int) -> None:
        if self._progress is not None:
            self._progress(n)
