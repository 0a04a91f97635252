"""Frames of the live page: the service's state, once a second for all who watch."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from perceptrank import __version__
from perceptrank.serve.errors import OverloadedError
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import Entry
from perceptrank.serve.page.clicks import ClickCounts
from perceptrank.serve.page.findings import Findings, learning
from perceptrank.serve.page.progress import Duels, Progress
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.replay import Current
from perceptrank.serve.service import Service

MOST_WATCHERS = 32
_PERIOD = 1.0  # seconds between frames
_TICK = 0.25  # seconds between measurements of new answers
_SHARE = 0.1  # of the time that measuring may take
_LONGEST = 2.0  # seconds between frames, whatever they take
_SLOW = 5.0  # seconds between explanations of a model, more if they take long
_HISTORY = 180  # samples of throughput
_TIMES = 1024  # newest times of a kind of request
_KINDS = ("rank", "feedback", "clicks", "learn")

logger = logging.getLogger("perceptrank.serve")
_encode = msgspec.json.Encoder().encode


class Times:
    """Number of requests of a kind, and how long the newest took."""

    __slots__ = ("count", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.newest: deque[float] = deque(maxlen=_TIMES)

    def add(self, seconds: float) -> None:
        """Count a request."""
        self.count += 1
        self.newest.append(seconds)

    def quantile(self, share: float) -> float | None:
        """Return the time that this share of the newest requests did not exceed."""
        newest = sorted(self.newest.copy())
        return newest[min(len(newest) - 1, int(share * len(newest)))] if newest else None


class Watcher:
    """One page that is open: it gets the newest frame, and misses those that it is too slow for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        self._frame: bytes | None = None

    def offer(self, frame: bytes) -> None:
        """Give it a frame, from any thread."""
        self._frame = frame
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._event.set)

    async def next(self, seconds: float) -> bytes | None:
        """Return the next frame; None if there is none for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()
        frame, self._frame = self._frame, None
        return frame


class Live:
    """Watches all rankers of a service, in a thread that takes at most a tenth of a core."""

    def __init__(self, service: Service) -> None:
        self.is_stopping: Callable[[], bool] = lambda: False  # tells whether the server waits for open pages
        self._service, self._started = service, time.time()
        self._progress = {name: Progress(ranker.current) for name, ranker in service.rankers.items()}
        self._clicks = {name: ClickCounts() for name in service.rankers}
        self._duels = {name: Duels() for name in service.rankers}
        self._findings = {name: Findings(ranker) for name, ranker in service.rankers.items()}
        self._slow: dict[str, tuple[float, int, dict[str, Any]]] = {}
        for name, ranker in service.rankers.items():
            ranker.thread.watch = partial(_watch, self._progress[name], self._clicks[name])
        self._times = {kind: Times() for kind in _KINDS}
        self._rates: deque[tuple[float, float, float]] = deque(maxlen=_HISTORY)
        self._counts, self._sampled = self._count(), time.monotonic()
        self._watchers: list[Watcher] = []
        self._wake, self._is_asked, self._is_closed = threading.Event(), False, False
        self._problem, self._problems = "", dict[str, str]()
        self._thread = threading.Thread(target=self._run, name="live page", daemon=True)
        self._thread.start()

    def times_of(self, path: str) -> Times:
        """Return what counts the requests of a path; paths of the same kind share it, others are not shown."""
        return self._times.get(path.rpartition("/")[2]) or Times()

    def add(self, name: str) -> Watcher:
        """Begin to make frames of a ranker for someone."""
        self._service.ranker(name)
        if len(self._watchers) >= MOST_WATCHERS:
            raise OverloadedError(f"{MOST_WATCHERS} pages are open", "close one of them")
        watcher = Watcher(name)
        self._watchers.append(watcher)
        self._is_asked = True  # its first frame comes at once
        self._wake.set()
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """Stop making frames for someone."""
        with suppress(ValueError):
            self._watchers.remove(watcher)

    def close(self) -> None:
        """Stop watching."""
        for ranker in self._service.rankers.values():
            ranker.thread.watch = None
        self._is_closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            before = time.thread_time()
            try:
                self._step(time.monotonic())
            except Exception as error:  # whatever it is, the page must not stop the service, nor stop for it
                if (problem := f"{type(error).__name__}: {error}") != self._problem:
                    self._problem = problem
                    logger.error("the live page failed: %s", problem)
            spent = time.thread_time() - before
            self._wake.wait(min(max(_TICK, spent / _SHARE), _LONGEST))
            self._wake.clear()

    def _step(self, now: float) -> None:
        for progress in self._progress.values():
            progress.digest(_SHARE * _TICK)
        for counts in self._clicks.values():
            counts.digest()
        is_due = now - self._sampled >= _PERIOD
        if is_due:
            self._sample(now)
            self._report()
            for name, ranker in self._service.rankers.items():
                self._duels[name].add(_standings(ranker))
        if is_due or self._is_asked:
            self._is_asked = False
            self._send()

    def _report(self) -> None:
        """Say when a ranker can no longer learn or save, and when it can again."""
        for name, ranker in self._service.rankers.items():
            problem = ranker.problem or ranker.snapshot_problem
            if problem != self._problems.get(name, ""):
                self._problems[name] = problem
                level, text = (logging.ERROR, problem) if problem else (logging.INFO, "all is well again")
                logger.log(level, "%s: %s", name, text, extra={"fields": {"ranker": name}})

    def _count(self) -> tuple[int, int]:
        """Return how many requests to rank there were, and how many answers."""
        return self._times["rank"].count, sum(ranker.current.answers for ranker in self._service.rankers.values())

    def _sample(self, now: float) -> None:
        """Note how many requests and answers there were per second since the last time."""
        counts, elapsed = self._count(), now - self._sampled
        ranked, answered = ((new - old) / elapsed for new, old in zip(counts, self._counts, strict=True))
        self._rates.append((time.time(), ranked, answered))
        self._counts, self._sampled = counts, now

    def _send(self) -> None:
        frames: dict[str, bytes] = {}
        for watcher in tuple(self._watchers):
            if watcher.name not in frames:
                frames[watcher.name] = b"data: " + _encode(self.frame(watcher.name)) + b"\n\n"
            watcher.offer(frames[watcher.name])

    def frame(self, name: str) -> dict[str, Any]:
        """Return everything that the page shows of a ranker, as plain values."""
        ranker, progress = self._service.ranker(name), self._progress[name]
        return {
            "time": time.time(),
            "version": __version__,
            "started": self._started,
            "ranker": name,
            "rankers": list(self._service.rankers),
            "status": ranker.status(),
            "progress": progress.as_plain(),
            "worst": progress.worst(),
            "clicks": self._clicks[name].as_plain(),
            "standings": _standings(ranker),
            "duels": self._duels[name].as_plain(),
            "requests": {
                kind: {"count": times.count, "p50": times.quantile(0.5), "p99": times.quantile(0.99)}
                for kind, times in self._times.items()
            },
            "rates": list(self._rates),
            **self._explained(name, ranker),
        }

    def _explained(self, name: str, ranker: ServedRanker) -> dict[str, Any]:
        """Return what takes longer to find out: anew every few seconds, if the model has changed."""
        now, current = time.monotonic(), ranker.current
        if name in self._slow:
            due, version, parts = self._slow[name]
            if version == current.version or now < due:
                return parts
        parts = {"learning": learning(current), "learned": self._findings[name].as_plain()}
        end = time.monotonic()
        self._slow[name] = (end + max(_SLOW, (end - now) / _SHARE), current.version, parts)
        return parts


def _watch(
    progress: Progress, counts: ClickCounts, before: Current, after: Current, entries: Sequence[tuple[Row, Entry]]
) -> None:
    progress.watch(before, after, entries)
    counts.watch(entries)


def _standings(ranker: ServedRanker) -> dict[str, Any] | None:
    """Return how the incumbent and its challengers compare, of rankers that have some; None without challengers."""
    standings = ranker.standings()
    return standings if standings["challengers"] or standings["last_promotion"] else None
