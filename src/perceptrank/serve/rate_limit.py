"""A limit on how many requests each token may send: a bucket of permits that fills at a steady rate."""

import math
import time
from collections.abc import Callable

from perceptrank.serve.errors import RateLimitedError


class RateLimit:
    """Buckets by name, each of `burst` permits, which come back at `rate` per second; a request takes one.

    Parameters
    ----------
    rate : float
        Permits per second; infinite for no limit.
    burst : float, optional
        Size of a bucket; by default the permits of a second, at least 1.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self, rate: float = math.inf, burst: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst = rate, max(1.0, rate) if burst is None else burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # permits, and since when

    def take(self, name: str) -> None:
        """Take a permit; raise, and say how long to wait, if there is none."""
        if self.rate == math.inf:
            return
        now = self._clock()
        permits, since = self._buckets.get(name, (self.burst, now))
        permits = min(self.burst, permits + (now - since) * self.rate)
        if permits < 1.0:
            self._buckets[name] = permits, now
            raise RateLimitedError.after((1.0 - permits) / self.rate, self.rate)
        self._buckets[name] = permits - 1.0, now
