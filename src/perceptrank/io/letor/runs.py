"""Collect the queries of parsed chunks."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.block_assembly import as_id_array
from perceptrank.io.growing import GrowingArray
from perceptrank.io.letor.lines import Parsed
from perceptrank.kernels.arrays import Ints
from perceptrank.stream.texts import Texts


class Runs:
    """Runs of adjacent documents of one query, over all chunks, their comments and ids."""

    def __init__(self) -> None:
        self._starts, self._qids, self._text_at = (GrowingArray(np.int64) for _ in range(3))
        self._texts: list[str] = []
        self._comments: list[str] | None = None
        self._docids: list[Texts] = []
        self._has_docids = False
        self._last: int | str | None = None

    def add(self, parsed: Parsed, n_rows: int) -> None:
        """Add a chunk, after `n_rows` documents; its first query may be the last one of the chunk before."""
        if parsed.comments is not None:
            self._comments = [] if self._comments is None else self._comments
            self._comments += parsed.comments
        self._docids.append(Texts.empty(parsed.n_rows) if parsed.docids is None else parsed.docids)
        self._has_docids |= parsed.docids is not None
        if not parsed.n_rows:
            return
        has_text = len(parsed.texts) > 0
        first: int | str = parsed.texts[0] if has_text and parsed.text_at[0] == 0 else int(parsed.qids[0])
        skipped = int(first == self._last)
        n_runs = len(parsed.qids)
        self._last = parsed.texts[-1] if has_text and parsed.text_at[-1] == n_runs - 1 else int(parsed.qids[-1])
        is_skipped = bool(skipped and has_text and parsed.text_at[0] == 0)
        self._text_at.extend(parsed.text_at[is_skipped:] - skipped + len(self._qids))
        self._texts += parsed.texts[is_skipped:]
        self._starts.extend(parsed.starts[skipped:] + n_rows)
        self._qids.extend(parsed.qids[skipped:])

    def finish(self, n_rows: int) -> "JoinedRuns":
        """Return the runs of all `n_rows` documents."""
        self._starts.extend(np.array([n_rows]))
        comments = None if self._comments is None else Texts(self._comments)
        docids = Texts.concatenate(self._docids) if self._has_docids else None
        qids, texts = self._qids.finish(), self._texts
        if not texts:
            return JoinedRuns(qids, self._starts.finish(), comments, docids, _all_differ(qids))
        every: list[Any] = texts
        if len(texts) < len(qids):
            every = qids.tolist()
            for position, text in zip(self._text_at.finish().tolist(), texts, strict=True):
                every[position] = text
        return JoinedRuns(as_id_array(every), self._starts.finish(), comments, docids, len(set(every)) == len(every))


class JoinedRuns(NamedTuple):
    """Query ids of runs, and their bounds; `all_differ` is True if every query is one run."""

    qids: npt.NDArray[Any]
    bounds: Ints
    comments: Texts | None
    docids: Texts | None
    all_differ: bool


def _all_differ(numbers: Ints) -> bool:
    if np.all(numbers[1:] > numbers[:-1]):
        return True
    ordered = np.sort(numbers)
    return bool(np.all(ordered[1:] != ordered[:-1]))
