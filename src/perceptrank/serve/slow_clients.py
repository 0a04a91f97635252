"""Connections that come to nothing: headers that do not arrive, and responses that nobody reads."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from perceptrank.serve.limits import Limits

HEADERS, RESPONSE = "headers", "response"


class SlowClients:
    """Looks at all connections of the server now and then, and closes those that have been stuck for too long.

    Looking costs requests nothing. The server itself closes connections that are idle between requests.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = {HEADERS: limits.header_seconds, RESPONSE: limits.send_seconds}
        self._clock = clock
        self._since: dict[Any, tuple[tuple[str, int], float]] = {}

    def look(self, connections: Iterable[Any]) -> int:
        """Close connections that are stuck; return how many."""
        now, n_closed = self._clock(), 0
        before, self._since = self._since, {}
        for one in tuple(connections):
            if (kind := stuck_in(one)) is None:
                continue
            what = kind, id(one.cycle)  # another request is another matter
            known, since = before.get(one, (what, now))
            if known != what:
                since = now
            if now - since < self._seconds[kind]:
                self._since[one] = what, since
                continue
            n_closed += 1
            one.transport.abort()
        return n_closed


def stuck_in(connection: Any) -> str | None:
    """Return what a connection waits for its client for, None if it does not."""
    cycle = connection.cycle
    if cycle is None or cycle.response_complete:
        # Between requests the server has set a timer, which the first byte of a request stops.
        return HEADERS if connection.timeout_keep_alive_task is None else None
    return RESPONSE if connection.flow.write_paused else None
