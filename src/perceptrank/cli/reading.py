"""Files, or standard input, as a stream for the commands."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from perceptrank.io.paths import Source
from perceptrank.io.sources import open_sources
from perceptrank.io.store import Store
from perceptrank.stream.blocks import as_blocks
from perceptrank.stream.query_stream import QueryStream


class Reading(NamedTuple):
    """What to read, and how. `letor` are options of `read_letor`; those that are not given are None or False."""

    files: list[str]
    letor: dict[str, Any]
    columns: list[str] | None = None
    comments: bool = False
    whole: bool = False

    def _columns(self) -> dict[str, Any]:
        """What columns of Parquet files are called, from pairs role=name; several features make a list."""
        named: dict[str, Any] = {}
        for pair in self.columns or []:
            role, equals, name = pair.partition("=")
            if not equals or not name or role not in ("qid", "relevance", "feature"):
                raise ValueError(f"a column must be qid=NAME, relevance=NAME or feature=NAME, got {pair!r}")
            if role == "feature":
                named.setdefault("features", []).append(name)
            else:
                named[role] = name
        return named

    def blocks(self, bar: Callable[[int, int], object]) -> Iterator[QueryStream]:
        """The queries block by block."""
        files: list[Source] = [sys.stdin.buffer if one == "-" else one for one in self.files]
        given = {name: value for name, value in self.letor.items() if value is not None and value is not False}
        columns = self._columns()
        stream = open_sources(files, whole=self.whole, comments=self.comments, progress=bar, columns=columns, **given)
        total = stream.n_documents if isinstance(stream, Store) else 0
        done = 0
        for whole in as_blocks(stream):
            for block in whole.blocks():
                yield block
                done += block.n_documents
                if total:
                    bar(done, total)
