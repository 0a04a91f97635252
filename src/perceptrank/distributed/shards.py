"""Shards: parts of the data, in an order that only the data decide, each with queries of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from perceptrank.distributed.splitting import StoreShard, TextShard, pieces_of, split_file, split_stream
from perceptrank.io.paths import find_files, is_store
from perceptrank.io.sources import adapt_block, open_sources
from perceptrank.stream.blocks import Blocks, Scan, as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_positive_whole


class ShardError(RuntimeError):
    """A shard could not be learned: its number and data, the worker's address and the worker's message.

    The traceback on the worker is a note of the error. In a comparison it is about a learner in place of a shard.

    Attributes
    ----------
    shard : int
        Number of the shard.
    problem : str
        The message.
    """

    def __init__(self, shard: int, problem: str) -> None:
        super().__init__(shard, problem)
        self.shard, self.problem = shard, problem

    def __str__(self) -> str:
        return self.problem


class ClusterError(RuntimeError):
    """A cluster without workers, which will not get any; the ranker keeps what was learned in the epochs before."""


_SHOWN = 3


class Shard(Protocol):
    """Data that one worker learns from in one pass, and that no other worker has queries of."""

    @property
    def name(self) -> str:
        """Name in messages."""

    def fingerprint(self) -> list[Any]:
        """Return plain values that change if the data do, as far as that is known without reading them."""

    def blocks(self) -> Blocks:
        """Open the data."""


@dataclass(frozen=True)
class FileShard:
    """Files of one format, read lazily by the worker, one after the other."""

    paths: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The names of the files."""
        more = f" and {len(self.paths) - _SHOWN} more" if len(self.paths) > _SHOWN else ""
        return ", ".join(self.paths[:_SHOWN]) + more

    def fingerprint(self) -> list[Any]:
        """Return names and sizes of the files."""
        return [[os.path.basename(path), size_of(path)] for path in self.paths]

    def blocks(self) -> Blocks:
        """Open the files."""
        options = dict(self.options)
        names, sparse = options.get("names"), options.get("sparse")
        opened = open_sources(list(self.paths), **options)
        if sparse is None and not names:
            return opened
        wholes = as_blocks(opened)
        parts = wholes if isinstance(opened, Scan) else (part for whole in wholes for part in whole.blocks())
        return (adapt_block(part, names, sparse) for part in parts)


@dataclass(frozen=True)
class StreamShard:
    """Queries in memory, or anything iterable over blocks of them that can be sent to a worker."""

    stream: Blocks
    name: str = "stream 0"

    def fingerprint(self) -> list[Any]:
        """Return the number of queries and documents, if they are in memory."""
        if isinstance(self.stream, QueryStream):
            return [len(self.stream), self.stream.n_documents]
        return [type(self.stream).__name__]

    def blocks(self) -> Blocks:
        """Return the queries."""
        return self.stream


FROM_FILES = (FileShard, StoreShard, TextShard)


def paths_of(parts: Any) -> list[Any]:
    """Return one path, or several, as a list; an empty one for anything else."""
    several = [parts] if isinstance(parts, (str, os.PathLike)) else parts
    are_paths = isinstance(several, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in several)
    return list(several) if are_paths else []


def files_of(paths: Iterable[Any]) -> list[str]:
    """Return stores as they are, and all files of folders and patterns."""
    files: list[str] = []
    for path in map(os.fspath, paths):
        files += [path] if is_store(Path(path)) else map(str, find_files(path))
    return files


def file_shards(paths: Sequence[Any], shards: int | None, options: dict[str, Any]) -> list[Shard]:
    """Deal files to shards in their order: one each, or as evenly as their sizes allow to so many shards."""
    files = files_of(paths)
    chosen = tuple(sorted(options.items()))
    if shards is None or shards == len(files):
        return [FileShard((path,), chosen) for path in files]
    sizes = [size_of(path) for path in files]
    if shards < len(files):
        return [FileShard(tuple(files[first:last]), chosen) for first, last in deal(sizes, shards)]
    dealt: list[Shard] = []
    for path, n in zip(files, pieces_of(sizes, shards), strict=True):
        dealt += [FileShard((path,), chosen)] if n == 1 else split_file(path, n, chosen)
    return dealt


def stream_shards(streams: Iterable[Blocks], shards: int | None) -> list[StreamShard]:
    """Make a shard of each stream, or so many: of lists of them, or of parts of them."""
    whole = list(streams)
    for stream in whole:
        if not isinstance(stream, QueryStream) and iter(stream) is stream:
            raise TypeError("streams of several epochs must be re-iterable: a QueryStream, a Scan or a list")
    if shards is None or shards == len(whole):
        return _named(whole)
    known = [stream for stream in whole if isinstance(stream, QueryStream)]
    if len(known) < len(whole):
        raise TypeError("only streams in memory can be joined or split to other shards: give as many as shards")
    sizes = [stream.n_documents for stream in known]
    dealt: list[Blocks]
    if shards < len(whole):
        dealt = [known[first:last] for first, last in deal(sizes, shards)]
    else:
        pieces = zip(known, pieces_of(sizes, shards), strict=True)
        dealt = [part for stream, n in pieces for part in ([stream] if n == 1 else split_stream(stream, n))]
    return _named(dealt)


def _named(streams: Iterable[Blocks]) -> list[StreamShard]:
    return [StreamShard(stream, f"stream {number}") for number, stream in enumerate(streams)]


def deal(sizes: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Return n runs of neighbours, none empty, each ending where the sum of sizes comes nearest to its part of it."""
    check_positive_whole("shards", n)
    ends, whole, sum_so_far, first = [0], max(1, sum(sizes)), 0, 0
    for number in range(1, n):
        last = first + 1
        sum_so_far += sizes[first]
        while last < len(sizes) - (n - number) and sum_so_far + sizes[last] / 2 <= whole * number / n:
            sum_so_far += sizes[last]
            last += 1
        ends.append(last)
        first = last
    ends.append(len(sizes))
    return list(itertools.pairwise(ends))


def size_of(path: str) -> int:
    """Return the bytes of a file, or of a store."""
    if os.path.isdir(path):
        return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
    return os.stat(path).st_size


def as_shards(parts: Any, shards: int | None = None, options: dict[str, Any] | None = None) -> list[Shard]:
    """Return the shards of files or streams; see `learn`."""
    if isinstance(parts, (str, os.PathLike, QueryStream)):
        parts = [parts]
    if hasattr(parts, "columns"):
        raise TypeError(
            "parts must be files, streams, or a collection of Dask or Spark: make a stream, "
            "QueryStream.from_frame(frame)"
        )
    if not isinstance(parts, Iterable):
        raise TypeError(f"parts must be files, streams, or a collection of Dask or Spark, got {type(parts).__name__}")
    several = list(parts)
    if not several:
        raise ValueError("parts must not be empty: there are no queries to learn from")
    if paths := paths_of(several):
        return file_shards(paths, shards, options or {})
    if options:
        raise TypeError(f"{', '.join(options)} apply to files only")
    return [*stream_shards(several, shards)]


def shard_error(of: str, number: int, name: str, where: str, error: BaseException) -> ShardError:
    """Return the error of a shard, or of whatever the work is done with, with what the worker said."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ShardError(number, f"{of} {number} ({name}) failed{where}: {message}")
