"""Files, or standard input, as a stream for the commands."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from perceptrank.data.sources import open_sources
from perceptrank.data.store import Store
from perceptrank.data.text import Source
from perceptrank.stream import QueryStream, as_blocks


class Reading(NamedTuple):
    """What to read, and how. `letor` are options of `read_letor`; those that are not given are None or False."""

    files: list[str]
    letor: dict[str, Any]
    comments: bool = False
    whole: bool = False

    def blocks(self, bar: Callable[[int, int], object]) -> Iterator[QueryStream]:
        """The queries block by block."""
        files: list[Source] = [sys.stdin.buffer if one == "-" else one for one in self.files]
        given = {name: value for name, value in self.letor.items() if value is not None and value is not False}
        stream = open_sources(files, whole=self.whole, comments=self.comments, progress=bar, **given)
        total = stream.n_documents if isinstance(stream, Store) else 0
        done = 0
        for whole in as_blocks(stream):
            for block in whole.blocks():
                yield block
                done += block.n_documents
                if total:
                    bar(done, total)
