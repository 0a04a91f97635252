"""Blocks small enough that learning from each takes about half a second, so that progress is seen and Ctrl-C heeded."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import perceptrank as pr

_SECONDS = 0.5  # that a piece shall take
_GROWTH = 8  # from a piece to the next, at most
_FIRST_DOCUMENTS = 1000  # those whose spreads `Learner.learn` looks at


class Pace:
    """Progress of reading, shown as progress of what is done with the blocks: give it to a reader in place of the bar.

    A reader is ahead by a block, which a slow learner needs minutes for.
    """

    def __init__(self, bar: Callable[[int, int], object]) -> None:
        self._bar = bar
        self._read = self._done = self._total = 0
        self._has_begun = False

    def __call__(self, done: int, total: int) -> None:
        """Note how far the reader is."""
        self._read, self._total = done, total
        self._bar(self._done if self._has_begun else done, total)

    def pieces(self, blocks: "Iterator[pr.QueryStream]", after: int = 0) -> "Iterator[pr.QueryStream]":
        """Cut blocks by the time that pieces before took; the first `after` queries are skipped, and so not cut."""
        size = seen = 0
        for block in blocks:
            self._has_begun, read = True, self._read
            start = min(len(block), max(0, after - seen))
            if start:
                yield block[:start]
            while start < len(block):
                wanted = size or int(block[start:].offsets.searchsorted(_FIRST_DOCUMENTS))
                stop = min(len(block), start + max(1, wanted))
                began = time.monotonic()
                yield block if stop - start == len(block) else block[start:stop]
                share = _SECONDS / max(time.monotonic() - began, 1e-9)
                size = max(1, round(min(share, _GROWTH) * (stop - start)))
                self._bar(self._done + (read - self._done) * stop // len(block), self._total)
                start = stop
            seen += len(block)
            self._done = read
