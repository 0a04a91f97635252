"""Read text files of any size, plain or compressed, in chunks of whole lines."""

import io
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from perceptrank.io.compression import CountingFile, DecompressedFile
from perceptrank.io.errors import FormatError
from perceptrank.io.letor.codes import HASH, NEWLINE
from perceptrank.io.letor.parsing import count_bytes, is_blank
from perceptrank.io.letor.words import PADDING
from perceptrank.io.paths import Source, display_name, size_in_bytes
from perceptrank.kernels.arrays import Bytes
from perceptrank.kernels.compiled import compiled

LONGEST_LINE = 64 * 2**20

_CHUNK_BYTES = 2**20
_PIECE_BYTES = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Chunk(NamedTuple):
    """Whole lines of file number `file`: bytes `start` to `stop` of a buffer, the last one a newline.

    At most `n_documents` lines are documents; `has_more` is True if another chunk follows in the same buffer.
    """

    text: Bytes
    start: int
    stop: int
    first_line: int
    n_lines: int
    n_documents: int
    file: int
    has_more: bool = False

    @property
    def n_bytes(self) -> int:
        """Size of the text."""
        return self.stop - self.start

    def split(self, n_documents: int) -> tuple["Chunk", "Chunk | None"]:
        """Split off the lines up to the last of `n_documents` documents, and return them and the rest, if any."""
        if self.n_documents <= n_documents:
            return self, None
        stop, n_lines, n_found = _end_of_documents(self.text, self.start, self.stop, n_documents)
        first = self._replace(stop=stop, n_lines=n_lines, n_documents=n_found, has_more=True)
        if stop == self.stop:
            return first._replace(has_more=self.has_more), None
        left = self.n_lines - n_lines
        rest = self._replace(start=stop, first_line=self.first_line + n_lines, n_lines=left, n_documents=left)
        return first, rest

    def parts(self, n_documents: int) -> Iterator["Chunk"]:
        """Split into chunks of at most `n_documents` documents that share the buffer."""
        rest: Chunk | None = self
        while rest is not None:
            part, rest = rest.split(n_documents)
            yield part


class TextReader:
    """Reads several files in chunks of whole lines, of about `chunk_bytes`; all files have `n_bytes`, 0 if unknown.

    `on_empty` is called with a `FormatError` for every empty file; `expected` is what files should be, for messages.
    """

    def __init__(
        self,
        files: Sequence[Source],
        on_empty: Callable[[FormatError], object],
        expected: str = "LETOR text",
        chunk_bytes: int | None = None,
    ) -> None:
        self.files = files
        self._on_empty, self._expected, self._chunk_bytes = on_empty, expected, chunk_bytes or _CHUNK_BYTES
        self._opened: list[CountingFile] = []
        sizes = [size_in_bytes(file) for file in files]
        self.n_bytes = 0 if None in sizes else sum(size or 0 for size in sizes)
        self._spare: list[Bytes] = []

    @property
    def n_read(self) -> int:
        """Number of bytes read so far, before decompression."""
        return sum(file.n_read for file in self._opened)

    def release(self, chunk: Chunk) -> None:
        """Reuse the buffer of a chunk that is no longer needed."""
        if not chunk.has_more and len(chunk.text) == _buffer_size(self._chunk_bytes):
            self._spare.append(chunk.text)

    def chunks(self) -> Generator[Chunk, None, None]:
        """Iterate over the chunks of all files; closing the generator closes the file at hand."""
        for number, file in enumerate(self.files):
            if isinstance(file, (str, os.PathLike)):
                with open(file, "rb", buffering=0) as opened:
                    yield from self._chunks_of(opened, number)
            else:
                yield from self._chunks_of(file, number)

    def _chunks_of(self, file: IO[bytes] | io.FileIO, number: int) -> Iterator[Chunk]:
        name = display_name(self.files[number])
        n_bytes = size_in_bytes(self.files[number]) or 0
        self._opened.append(CountingFile(file))
        source = DecompressedFile(self._opened[-1], name, n_bytes, self._expected)
        line, size = 1, self._chunk_bytes
        kept = np.empty(0, np.uint8)
        while True:
            has_spare = size == self._chunk_bytes and self._spare
            text = self._spare.pop() if has_spare else np.zeros(_buffer_size(size), np.uint8)
            start, full = PADDING, PADDING + size
            stop = start + len(kept)
            text[start:stop] = kept
            view = memoryview(text.data)
            while stop < full and (n := source.readinto(view[stop:full], line)):
                stop += n
            if stop == start:
                if line == 1:
                    self._on_empty(FormatError(name, 1, 1, "the file is empty"))
                return
            if stop < full and text[stop - 1] != NEWLINE:
                text[stop] = NEWLINE
                stop += 1
            end = stop
            while end > start and text[end - 1] != NEWLINE:
                first = max(start, end - _PIECE_BYTES)
                newlines = np.flatnonzero(text[first:end] == NEWLINE)
                end = first + int(newlines[-1]) + 1 if len(newlines) else first
            if end == start:
                if size >= LONGEST_LINE:
                    raise FormatError(name, line, 1, f"a line longer than {LONGEST_LINE >> 20} MiB")
                kept, size = text[start:stop], 2 * size
                continue
            kept = text[end:stop].copy()
            text[end : end + PADDING] = 0
            if line == 1 and bytes(text[start : start + 3]) == _BYTE_ORDER_MARK:
                start += 3
            n_lines = count_bytes(text, NEWLINE, start, end)
            yield Chunk(text, start, end, line, n_lines, n_lines, number)
            line += n_lines
            size = self._chunk_bytes
            while size <= len(kept):
                size *= 2


def _buffer_size(n_bytes: int) -> int:
    return n_bytes + 2 * PADDING + 1


@compiled
def _end_of_documents(text: Bytes, start: int, stop: int, n_documents: int) -> tuple[int, int, int]:
    """Return the end of the first `n_documents` documents, and the numbers of lines and documents up to it."""
    pos = start
    n_lines = n_found = 0
    while pos < stop and n_found < n_documents:
        while is_blank(text[pos]):
            pos += 1
        n_found += text[pos] != NEWLINE and text[pos] != HASH
        while text[pos] != NEWLINE:
            pos += 1
        pos += 1
        n_lines += 1
    return pos, n_lines, n_found
