"""Wait for what a cluster does, as long as somebody is there to do it."""

from __future__ import annotations

import queue
import time
import warnings
from collections.abc import Sequence
from typing import Any

from perceptrank.distributed.shards import ClusterError

_SHOWN = 5
_LOOKS = 1.0  # seconds between two looks at whether there are workers
_PATIENCE = 10.0, 300.0  # seconds without any worker, before a warning and before an error


class Waiting:
    """Base of the engines of clusters. With a `timeout`, they give up if nothing was done for so many seconds."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout

    def has_workers(self) -> bool:
        """Tell whether there are workers, as far as is known."""
        raise NotImplementedError

    def has_ended(self) -> bool:
        """Tell whether there will never be workers again, as far as is known."""
        return False

    def places(self, pending: dict[int, Any]) -> dict[int, str]:
        """Return where shards are being learned, as far as is known."""
        raise NotImplementedError

    def next_done(self, done: queue.Queue[Any], of: str, pending: dict[int, Any], shards: Sequence[Any]) -> Any:
        """Return the next that is done; raise if that takes too long, or nobody is there who could do it."""
        start = time.monotonic()
        without_workers, warned = start, False
        while True:
            left = _LOOKS if self.timeout is None else start + self.timeout - time.monotonic()
            try:
                return done.get(timeout=max(0.0, min(left, _LOOKS)))
            except queue.Empty:
                pass
            if self.timeout is not None and time.monotonic() >= start + self.timeout:
                raise self._late(of, pending, shards)
            if self.has_workers():
                without_workers, warned = time.monotonic(), False
                continue
            seconds = time.monotonic() - without_workers
            if self.has_ended() or (self.timeout is None and seconds > _PATIENCE[1]):
                raise ClusterError(
                    "the cluster has no workers left: they did not start, or all of them were lost; their logs say "
                    "why. What was learned in the epochs before is kept"
                )
            if seconds > _PATIENCE[0] and not warned:
                warned = True
                warnings.warn(
                    f"the cluster has no workers for {seconds:.0f} seconds: shards wait until some come",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _late(self, of: str, pending: dict[int, Any], shards: Sequence[Any]) -> TimeoutError:
        where = self.places(pending)
        shown = [
            f"{of} {number} ({shards[number].name}) " + (f"on {where[number]}" if number in where else "waits")
            for number in list(pending)[:_SHOWN]
        ]
        more = f" and {len(pending) - _SHOWN} more" if len(pending) > _SHOWN else ""
        return TimeoutError(
            f"no {of} was finished for {self.timeout:g} seconds; not done: {', '.join(shown)}{more}. What was "
            "learned in the epochs before is kept"
        )
