"""Shards that are parts of a store, of a text file or of a stream in memory; no query is ever split."""

import heapq
import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from perceptrank.io.letor.reader import scan_letor
from perceptrank.io.sources import adapt_block, format_of, open_sources
from perceptrank.io.store import Store
from perceptrank.kernels.arrays import Ints
from perceptrank.stream.blocks import Blocks, Scan, as_blocks
from perceptrank.stream.query_stream import QueryStream

_QUERY = re.compile(rb"\s*[^\s#]\S*\s+qid:(\S+)")
_DOCUMENT = re.compile(rb"\s*[^\s#]")
_NOT_OF_TEXT = ("columns", "missing", "feature_paths", "names")
_MARK = b"\xef\xbb\xbf"  # of the byte order
_ADVICE = "stores and plain LETOR text with a field qid: can be; perceptrank convert FILE NAME.store makes a store"


@dataclass(frozen=True)
class _Part:
    """A part of a file or store, from `first` to before `stop`."""

    unit: ClassVar[str]

    path: str
    first: int
    stop: int
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Path and range."""
        return f"{self.path}, {self.unit} {self.first} to {self.stop - 1}"

    def fingerprint(self) -> list[Any]:
        """Return the name of the file, and the range."""
        return [os.path.basename(self.path), self.first, self.stop]


@dataclass(frozen=True)
class StoreShard(_Part):
    """Some consecutive queries of a store, which the worker maps into memory."""

    unit: ClassVar[str] = "queries"

    def blocks(self) -> Iterator[QueryStream]:
        """Yield the queries, block by block."""
        place = 0
        options = dict(self.options)
        for block in cast(Store, open_sources([self.path], **options)).blocks():
            start, stop = max(0, self.first - place), min(len(block), self.stop - place)
            if start < stop:
                yield adapt_block(block[start:stop], options.get("names"), options.get("sparse"))
            place += len(block)
            if place >= self.stop:
                return


@dataclass(frozen=True)
class TextShard(_Part):
    """The lines of some consecutive queries of a text file, which the worker reads."""

    unit: ClassVar[str] = "bytes"

    header: bytes = b""
    names: tuple[str, ...] | None = None

    def blocks(self) -> Iterator[QueryStream]:
        """Yield the queries, block by block."""
        with open(self.path, "rb") as file:
            section = _Section(self.name, file, self.header, self.first, self.stop)
            for block in scan_letor(cast(Any, section), **dict(self.options)):
                yield adapt_block(block, self.names, None)


class _Section(io.RawIOBase):
    """Some lines of a file, after those that are before its first document and name the features."""

    def __init__(self, name: str, file: io.BufferedReader, header: bytes, first: int, stop: int) -> None:
        self.name, self._file, self._header, self._left = name, file, header, stop - first
        file.seek(first)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; 0 at the end."""
        if self._header:
            content, self._header = self._header[: len(buffer)], self._header[len(buffer) :]
        else:
            content = self._file.read(min(len(buffer), self._left))
            self._left -= len(content)
        buffer[: len(content)] = content
        return len(content)


def split_file(path: str, n: int, options: tuple[tuple[str, Any], ...]) -> Sequence[StoreShard | TextShard]:
    """Split a store or a text file between queries into n parts of about the same size, or fewer."""
    kind = format_of(path)
    if kind == "store":
        store = cast(Store, open_sources([path], **dict(options)))
        return [StoreShard(path, *bounds, options) for bounds in cuts_of(store.offsets, n)]
    if kind == "letor":
        return _split_text(path, n, dict(options))
    raise ValueError(f"{path} cannot be split to shards: {_ADVICE}")


def split_stream(stream: QueryStream, n: int) -> list[Blocks]:
    """Split a stream to n parts of about the same number of documents, fewer if it has fewer queries.

    Those of a store are read by whoever iterates over them.
    """
    cuts = cuts_of(stream.offsets, n)
    if isinstance(stream, Store):
        shards = [StoreShard(os.fspath(stream.path), *bounds) for bounds in cuts]
        return [Scan(shard.blocks, shard.name) for shard in shards]
    return [stream[first:last] for first, last in cuts]


def cuts_of(offsets: Ints, n: int) -> list[tuple[int, int]]:
    """Return n ranges of queries, none empty, each ending where documents come nearest to its part of them.

    Examples
    --------
    >>> cuts_of(np.array([0, 8, 9, 10, 16]), 2), cuts_of(np.array([0, 5]), 3)
    ([(0, 1), (1, 4)], [(0, 1)])
    """
    n_queries = len(offsets) - 1
    n = min(n, n_queries)
    wanted = offsets[0] + (offsets[-1] - offsets[0]) * np.arange(1, n) / n
    after = np.searchsorted(offsets, wanted)
    nearest = np.where(wanted - offsets[after - 1] <= offsets[after] - wanted, after - 1, after)
    ends = [0]
    for number, end in enumerate(nearest.tolist(), 1):
        ends.append(min(max(end, ends[-1] + 1), n_queries - (n - number)))
    ends.append(n_queries)
    return [(first, last) for first, last in itertools.pairwise(ends) if last > first]


def pieces_of(sizes: Sequence[int], n: int) -> list[int]:
    """Return to how many parts each file is split so that there are n, the largest ones first; each is at least one.

    Examples
    --------
    >>> pieces_of([100, 900, 500], 6)
    [1, 3, 2]
    """
    pieces = [1] * len(sizes)
    heap: list[tuple[float, int]] = [(-size, place) for place, size in enumerate(sizes)]
    heapq.heapify(heap)
    for _ in range(n - len(sizes)):
        place = heap[0][1]
        pieces[place] += 1
        heapq.heapreplace(heap, (-sizes[place] / pieces[place], place))
    return pieces


def _split_text(path: str, n: int, options: dict[str, Any]) -> list[TextShard]:
    if options.get("qid", "auto") == "comment":
        raise ValueError(f"{path} has queries in comments: {_ADVICE}")
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        header = _header_of(file)
        start = file.tell()
        if _QUERY.match(file.readline()) is None:
            raise ValueError(f"{path} cannot be split to shards: {_ADVICE}")
        starts = {_query_after(file, start + (size - start) * number // n) for number in range(1, n)}
    ends = [start, *sorted(starts - {start, size}), size]
    whole = next(as_blocks(open_sources([path], **options)))  # which has as many features as all of the file
    known = {name: value for name, value in options.items() if name not in _NOT_OF_TEXT}
    known |= {"n_features": whole.n_features, "sparse": whole.is_sparse}
    chosen, names = tuple(sorted(known.items())), options.get("names")
    return [TextShard(path, *bounds, chosen, header, names) for bounds in itertools.pairwise(ends)]


def _header_of(file: io.BufferedReader) -> bytes:
    """Return the lines before the first document, and leave the file there."""
    lines = []
    while (line := file.readline()) and not _DOCUMENT.match(line.removeprefix(_MARK)):
        lines.append(line)
    if line.startswith(_MARK):
        raise ValueError(f"{file.name} begins with a byte order mark: {_ADVICE}")
    file.seek(-len(line), os.SEEK_CUR)
    return b"".join(lines)


def _query_after(file: io.BufferedReader, place: int) -> int:
    """Return where the first query begins after the one that is in a place of a file; its end if there is none."""
    file.seek(place)
    file.readline()
    current: bytes | None = None
    while True:
        start = file.tell()
        line = file.readline()
        if not line:
            return start
        query = _QUERY.match(line)
        if query is None:
            continue
        if current is not None and query[1] != current:
            return start
        current = query[1]
