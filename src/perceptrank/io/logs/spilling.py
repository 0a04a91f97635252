"""Groups of whole queries of a log that is larger than memory, by way of temporary files.

The events of a query may stand anywhere in a log. A first pass writes them to disk and numbers the queries, at 16 bytes
each in memory; then the rows of consecutive queries are brought together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from perceptrank.io.logs.events import Log, join_logs
from perceptrank.io.tables.delimited import import_polars

GROUP_ROWS = 2**18
_EVENTS_ONLY = 2**62  # queries that only events name come after the others


class SpilledLog:
    """A log on disk; iteration yields it in groups of whole queries, in the order in which they are first named."""

    def __init__(self, folder: str, logs: Iterable[Log], group_rows: int | None = None) -> None:
        pl = import_polars()
        self._folder = Path(folder)
        firsts, n_rows, n_parts = [], [0, 0], 0
        for number, log in enumerate(logs):
            for kind, frame in enumerate((log.queries, log.events)):
                frame = frame.with_columns(key=pl.col("qid").hash())
                first = n_rows[kind] + kind * _EVENTS_ONLY
                firsts.append(frame.select("key", first=pl.int_range(first, first + len(frame), dtype=pl.Int64)).unique("key", keep="first"))
                n_rows[kind] += len(frame)
                frame.write_ipc(self._folder / f"part-{number}-{kind}")
            if len(firsts) > 64:
                firsts = [_smallest(pl, firsts)]
            n_parts = number + 1
        keys = _smallest(pl, firsts).sort("first").select("key")
        self.n_groups = max(1, -(-sum(n_rows) // (group_rows or GROUP_ROWS)))
        size = max(1, -(-len(keys) // self.n_groups))
        keys = keys.with_columns(group=pl.int_range(len(keys)) // size)
        self._files: dict[int, list[tuple[Path, Path]]] = {}
        for number in range(n_parts):
            self._split(pl, number, keys)

    def _split(self, pl: Any, number: int, keys: Any) -> None:
        """Replace a part by one for each group."""
        paths = [self._folder / f"part-{number}-{kind}" for kind in (0, 1)]
        frames = [pl.read_ipc(path, memory_map=False).join(keys, on="key", how="left", maintain_order="left") for path in paths]
        for path in paths:
            path.unlink()
        for group in sorted(set(frames[0]["group"].unique()) | set(frames[1]["group"].unique())):
            files = tuple(self._folder / f"group-{group}-{number}-{kind}" for kind in (0, 1))
            for frame, file in zip(frames, files, strict=True):
                frame.filter(pl.col("group") == group).drop("key", "group").write_ipc(file)
            self._files.setdefault(group, []).append((files[0], files[1]))

    def __iter__(self) -> Iterator[Log]:
        pl = import_polars()
        for group in sorted(self._files):
            yield join_logs(
                pl,
                [Log(*(pl.read_ipc(file, memory_map=False) for file in reversed(files))) for files in self._files[group]],
            )


def _smallest(pl: Any, firsts: list[Any]) -> Any:
    return pl.concat(firsts).group_by("key").agg(pl.col("first").min())
