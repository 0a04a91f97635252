"""Groups of whole queries of a log that is larger than memory, by way of temporary files.

The events of a query may stand anywhere in a log. A first pass writes them to disk and numbers the queries, at 16 bytes
each in memory; then the rows of consecutive queries are brought together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from perceptrank.io.logs.events import Log, join_logs, pl

_GROUP_ROWS = 2**17
_EVENTS_ONLY = 2**62  # queries that only events name come after the others
_MOST_LISTS = 64


class SpilledLog:
    """A log on disk; iteration yields it in groups of whole queries, in the order in which they are first named."""

    def __init__(self, folder: str, logs: Iterable[Log]) -> None:
        self._folder = Path(folder)
        firsts: list[Any] = []
        n_rows, n_parts = [0, 0], 0
        for log in _merge_small(logs):
            for kind, frame in enumerate(log):
                first = n_rows[kind] + (_EVENTS_ONLY if kind == 0 else 0)
                keyed = frame.with_columns(key=pl.col("qid").hash())
                numbers = pl.int_range(first, first + len(frame), dtype=pl.Int64)
                firsts.append(keyed.select("key", first=numbers).unique("key", keep="first", maintain_order=True))
                n_rows[kind] += len(frame)
                keyed.write_ipc(self._folder / f"part-{n_parts}-{kind}")
            firsts = [_find_first(firsts)] if len(firsts) > _MOST_LISTS else firsts
            n_parts += 1
        self._files: dict[int, list[list[Path]]] = {}
        if n_parts:
            keys = _find_first(firsts).sort("first").select("key")
            n_groups = -(-sum(n_rows) // _GROUP_ROWS) or 1
            keys = keys.with_columns(group=pl.int_range(len(keys)) * n_groups // max(1, len(keys)))
            for number in range(n_parts):
                self._split(number, keys)

    def _split(self, number: int, keys: Any) -> None:
        """Replace a part by one for each group."""
        paths = [self._folder / f"part-{number}-{kind}" for kind in (0, 1)]
        frames = [_read(path).join(keys, on="key", how="left", maintain_order="left") for path in paths]
        for path in paths:
            path.unlink()
        for group in pl.concat([frame.select("group") for frame in frames])["group"].unique().to_list():
            files = [self._folder / f"group-{group}-{number}-{kind}" for kind in (0, 1)]
            for frame, file in zip(frames, files, strict=True):
                frame.filter(pl.col("group") == group).drop("key", "group").write_ipc(file)
            self._files.setdefault(group, []).append(files)

    def __iter__(self) -> Iterator[Log]:
        for group in sorted(self._files):
            yield join_logs([Log(*(_read(file) for file in files)) for files in self._files[group]])


def _merge_small(logs: Iterable[Log]) -> Iterator[Log]:
    """Join parts of a log to parts of about the size of a group."""
    waiting: list[Log] = []
    for log in logs:
        waiting.append(log)
        if sum(len(frame) for part in waiting for frame in part) >= _GROUP_ROWS:
            yield join_logs(waiting)
            waiting = []
    if waiting:
        yield join_logs(waiting)


def _read(path: Path) -> Any:
    return pl.read_ipc(path.read_bytes())  # not mapped: some systems delete no file that is


def _find_first(firsts: list[Any]) -> Any:
    return pl.concat(firsts).group_by("key").agg(pl.col("first").min())
