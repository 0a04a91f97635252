"""Text files of any size as pieces of whole lines: plain or compressed, by name, folder, pattern, or already open."""

import bz2
import glob
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from perceptrank.io.letor.parsing import NEWLINE, PADDING, count_lines
from perceptrank.kernels.arrays import Bytes
from perceptrank.stream.validation import AdvisingValueError, Part

PathLike: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = PathLike | IO[bytes]

LONGEST_LINE = 64 * 2**20
_CHUNK_BYTES = 2**20
_PIECE_BYTES = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FormatError(AdvisingValueError):
    """A file does not hold what it should. `path`, `line` and `column` (both from 1) say where, `problem` what."""

    def __init__(self, path: str, line: int, column: int, *problem: Part) -> None:
        super().__init__(f"{path}:{line}:{column}: ", *problem)
        self.path, self.line, self.column = path, line, column
        self.problem = "".join(str(part) for part in problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.line, self.column, *self.parts[1:])


class Chunk(NamedTuple):
    """Whole lines of a file: bytes `start` to `stop` of a buffer, the last one a newline."""

    text: Bytes
    start: int
    stop: int
    first_line: int
    n_lines: int
    file: int
    has_more: bool = False  # whether another chunk follows in the same buffer

    def parts(self, max_lines: int) -> Iterator["Chunk"]:
        """The chunk in pieces of so many lines at most, all in the same buffer."""
        if self.n_lines <= max_lines:
            yield self
            return
        ends = np.flatnonzero(self.text[self.start : self.stop] == NEWLINE) + self.start + 1
        for first in range(0, self.n_lines, max_lines):
            last = min(first + max_lines, self.n_lines)
            start = self.start if first == 0 else int(ends[first - 1])
            stop = int(ends[last - 1])
            yield Chunk(self.text, start, stop, self.first_line + first, last - first, self.file, last < self.n_lines)


def find_files(paths: Source | Iterable[Source]) -> list[Source]:
    """The files that are meant: a path is itself, a folder its files, a pattern with * or ? what it matches."""
    if isinstance(paths, (str, os.PathLike)) or hasattr(paths, "read"):
        paths = [paths]  # type: ignore[list-item]
    files: list[Source] = []
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise TypeError(f"paths must be a path, an open file, or several of them, got {type(paths).__name__}")
    for one in paths:
        if not isinstance(one, (str, os.PathLike)):
            if not hasattr(one, "read"):
                raise TypeError(f"paths must be paths or files opened for reading, got {type(one).__name__}")
            if isinstance(one, io.TextIOBase):
                raise TypeError(f"{name_of(one)} is open as text; open it in binary mode, 'rb'")
            files.append(one)
        elif not os.fspath(one):
            raise ValueError("a path must not be empty")
        elif (path := Path(one)).is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
            if (path / "manifest.json").is_file():
                raise ValueError(f"{path} is a store; open_store opens it")
            if not inside:
                raise FileNotFoundError(
                    f"there are no files in the folder {path}; a pattern like {path}/*/train.txt names some below it"
                )
            files += inside
        elif path.exists():
            files.append(path)
        elif glob.has_magic(str(one)):
            matching = sorted(file for file in glob.glob(str(one), recursive=True) if Path(file).is_file())
            if not matching:
                raise FileNotFoundError(f"no file matches {one}")
            files += matching
        else:
            raise FileNotFoundError(f"there is no file {one}")
    if not files:
        raise ValueError("paths must name at least one file, got none")
    return files


def can_be_read_again(source: Source) -> bool:
    """Whether it is a regular file, given by its path; not a pipe, and not a file that is open already."""
    return isinstance(source, (str, os.PathLike)) and os.path.isfile(source)


def name_of(source: Source) -> str:
    """A file as messages call it."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


class TextReader:
    """The chunks of several files, one after the other.

    `n_read` bytes of `n_bytes` (0 if unknown) have been read so far, before decompression. `on_empty` is called with
    the error to raise for a file that turns out to be empty.
    """

    def __init__(self, files: list[Source], on_empty: Callable[[FormatError], object]) -> None:
        self.files = files
        self._on_empty = on_empty
        self.n_read = 0
        sizes = [_size_of(one) for one in files]
        self.n_bytes = 0 if None in sizes else sum(size or 0 for size in sizes)
        self._spare: list[Bytes] = []

    def give_back(self, chunk: Chunk) -> None:
        """Say that a chunk's bytes are no longer needed."""
        if not chunk.has_more:
            self._spare.append(chunk.text)

    def chunks(self) -> Iterator[Chunk]:
        """All chunks of all files."""
        for number, file in enumerate(self.files):
            if isinstance(file, (str, os.PathLike)):
                with open(file, "rb", buffering=0) as opened:
                    yield from self._chunks_of(opened, number)
            else:
                yield from self._chunks_of(file, number)

    def _chunks_of(self, file: IO[bytes] | io.FileIO, number: int) -> Iterator[Chunk]:
        name = name_of(self.files[number])
        source = _Decompressed(_Counted(file, self), name)
        line, size = 1, _CHUNK_BYTES
        kept = np.empty(0, np.uint8)
        while True:
            text = self._buffer(size)
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
                end -= _distance_to_newline(text, start, end)
            if end == start:
                if size >= LONGEST_LINE:
                    raise FormatError(name, line, 1, f"a line longer than {LONGEST_LINE >> 20} MiB")
                kept, size = text[start:stop], 2 * size
                continue
            kept = text[end:stop].copy()
            text[end : end + PADDING] = 0
            if line == 1 and bytes(text[start : start + 3]) == _BYTE_ORDER_MARK:
                start += 3
            n_lines = count_lines(text, start, end)
            yield Chunk(text, start, end, line, n_lines, number)
            line += n_lines
            size = _CHUNK_BYTES
            while size <= len(kept):
                size *= 2

    def _buffer(self, size: int) -> Bytes:
        needed = size + 2 * PADDING + 1
        while self._spare:
            if len(spare := self._spare.pop()) >= needed:
                return spare
        return np.zeros(needed, np.uint8)


def _size_of(file: Source) -> int | None:
    """How many bytes a file has; None if that cannot be told, as of a pipe."""
    try:
        status = os.stat(file) if isinstance(file, (str, os.PathLike)) else os.fstat(file.fileno())
    except (OSError, AttributeError, io.UnsupportedOperation):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _distance_to_newline(text: Bytes, start: int, end: int) -> int:
    """How far before `end` the last newline's end is, looking back one piece."""
    piece = text[max(start, end - _PIECE_BYTES) : end]
    newlines = np.flatnonzero(piece == NEWLINE)
    return len(piece) - int(newlines[-1]) - 1 if len(newlines) else len(piece)


class _Counted:
    """A file that adds what is read to a reader's count."""

    def __init__(self, file: IO[bytes] | io.FileIO, reader: TextReader) -> None:
        self._file, self._reader = file, reader
        self._readinto = getattr(file, "readinto", None)

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size) or b""
        self._reader.n_read += len(data)
        return data

    def readinto(self, view: memoryview) -> int:
        if self._readinto is None:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)
        n: int = self._readinto(view) or 0
        self._reader.n_read += n
        return n


class _Decompressed:
    """The text of a file, decompressed if its first bytes say that it is compressed."""

    def __init__(self, file: _Counted, name: str) -> None:
        self._file, self._name = file, name
        self._ready = memoryview(file.read(_LONGEST_MAGIC))  # text, or what is yet to be decompressed
        while len(self._ready) < _LONGEST_MAGIC and (more := file.read(1)):
            self._ready = memoryview(bytes(self._ready) + more)
        for magic, kind in _NO_TEXT.items():
            if bytes(self._ready).startswith(magic):
                raise FormatError(name, 1, 1, f"this is {kind}, not LETOR text")
        self._kind = next((kind for magic, kind in _MAGIC.items() if bytes(self._ready).startswith(magic)), None)
        self._pending, self._ready = (bytes(self._ready), memoryview(b"")) if self._kind else (b"", self._ready)
        self._machine = _decompressor(self._kind, name) if self._kind else None

    def readinto(self, view: memoryview, line: int) -> int:
        """Fill a view, or part of it, and tell how much; 0 at the end. `line` is for messages."""
        if not self._ready:
            if self._machine is None:
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
        """Decompress until there is some text, or the file ends where it may."""
        while not self._ready:
            data = self._pending or self._file.read(_PIECE_BYTES)
            self._pending = b""
            machine: Any = self._machine
            if machine.eof:  # several compressed files may follow each other, with zeros between them
                data = data.lstrip(b"\0")
                if not data:
                    if self._at_end():
                        return
                    continue
                machine = self._machine = _decompressor(str(self._kind), self._name)
            elif not data:
                raise EOFError("it is cut short")
            self._ready = memoryview(machine.decompress(data))
            if machine.eof:
                self._pending = machine.unused_data

    def _at_end(self) -> bool:
        self._pending = self._file.read(_PIECE_BYTES)
        return not self._pending


_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_NO_TEXT = {
    b"PAR1": "a Parquet file (read_parquet reads it)",
    b"PK\x03\x04": "a zip archive (unpack it)",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_LONGEST_MAGIC = max(len(magic) for magic in _MAGIC)


def _decompressor(kind: str, name: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    return zstandard(name).ZstdDecompressor(max_window_size=2**31).decompressobj()


def zstandard(name: str) -> Any:
    """The package that knows zstd."""
    try:
        import zstandard as package
    except ImportError:
        raise ImportError(f"{name} is compressed with zstd; pip install 'perceptrank[zstd]' to use it") from None
    return package
