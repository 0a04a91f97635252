"""Counts of clicks since the start of the service: rates and examination by place, and the price of exploration."""

import math
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from perceptrank.evaluation.off_policy import neighbour_clicks
from perceptrank.kernels.arrays import Floats
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import Entry, ImpressionEntry, as_numbers
from perceptrank.stream.query_stream import QueryStream

PLACES = 20  # that are counted
WAITING = 20_000  # lists that wait to be counted; beyond, the oldest are not
_FEWEST = 30  # lists, or clicks, that something is said about


class ClickCounts:
    """Counts of lists that were shown; `watch` only remembers them, `digest` counts."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Floats, Floats, str, int]] = deque(maxlen=WAITING)
        self._lock = threading.Lock()
        self._shown, self._clicked, self._upper, self._lower = np.zeros((4, PLACES))
        self._lists = {kind: np.zeros(3) for kind in (True, False)}  # of explored ones or not: number, clicks, squares
        self._moved = self._changed = 0

    def watch(self, entries: Sequence[tuple[Row, Entry]]) -> None:
        """Remember lists that were shown."""
        with self._lock:
            for _, entry in entries:
                if isinstance(entry, ImpressionEntry):
                    n_moved = sum(row != other for row, other in zip(entry.order, entry.base, strict=True))
                    clicks, chances = as_numbers(entry.clicks), as_numbers(entry.propensities)
                    self._waiting.append((clicks, chances, entry.policy, n_moved))

    def digest(self) -> None:
        """Count what waits."""
        with self._lock:
            lists, self._waiting = list(self._waiting), deque(maxlen=WAITING)
        if not lists:
            return
        for clicks, _, policy, n_moved in lists:
            counts, total = self._lists[policy != "none"], float(clicks.sum())
            counts += 1.0, total, total * total
            n = min(len(clicks), PLACES)
            self._shown[:n] += 1
            self._clicked[:n] += clicks[:n]
            self._moved, self._changed = self._moved + n_moved, self._changed + (n_moved > 0)
        lengths = [len(clicks) for clicks, *_ in lists]
        stream = QueryStream.from_arrays(
            np.zeros((sum(lengths), 1)),
            group=lengths,
            place=np.concatenate([np.arange(1, n + 1) for n in lengths]),
            clicked=np.concatenate([clicks for clicks, *_ in lists]),
            propensity=np.concatenate([chances for _, chances, *_ in lists]),
            columns={"policy": [policy for *_, policy, _ in lists]},
        )
        upper, lower = neighbour_clicks(stream, PLACES)
        self._upper += upper
        self._lower += lower

    def as_plain(self) -> dict[str, Any] | None:
        """Return it as plain values; None before the first list."""
        explored, other = self._lists[True].tolist(), self._lists[False].tolist()
        n_lists = explored[0] + other[0]
        if not n_lists:
            return None
        places = int(np.count_nonzero(self._shown))
        price = error = None
        if min(explored[0], other[0]) >= _FEWEST:
            price = other[1] / other[0] - explored[1] / explored[0]
            error = 1.96 * math.sqrt(sum((c[2] / c[0] - (c[1] / c[0]) ** 2) / c[0] for c in (explored, other)))
        return {
            "lists": n_lists,
            "clicks": explored[1] + other[1],
            "shown": self._shown[:places].tolist(),
            "rates": (self._clicked / np.maximum(self._shown, 1))[:places].tolist(),
            "examination": self._examination(places),
            "explored": explored[0],
            "changed": self._changed / n_lists,
            "moved": self._moved / max(self._changed, 1),
            "explored_clicks": explored[1] / explored[0] if explored[0] else None,
            "other_clicks": other[1] / other[0] if other[0] else None,
            "price": price,
            "price_error": error,
        }

    def _examination(self, places: int) -> list[float | None]:
        """Return how often each place is examined, relative to the first, as far as swaps of neighbours tell."""
        found: list[float | None] = [1.0]
        for upper, lower in zip(self._upper[: places - 1].tolist(), self._lower[: places - 1].tolist(), strict=True):
            is_known = found[-1] is not None and min(upper, lower) * 2 >= _FEWEST / 2
            found.append(found[-1] * lower / upper if is_known and found[-1] is not None else None)
        return found
