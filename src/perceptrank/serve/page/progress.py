"""The progressive measure of a ranker: how well answered queries were ranked before their answers were learned."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learning import measure_of
from perceptrank.serve.documents import make_example
from perceptrank.serve.learning import Answers
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import AnswerEntry, Entry, as_bytes
from perceptrank.serve.replay import Current

WINDOW = 200  # answers of the running mean
RECENT = 500  # answers below the mean, that the worst queries are chosen from
WORST = 8
POINTS = 256  # of the curve; beyond, neighbours are merged
WAITING_BYTES = 2**24  # of answers that wait to be measured; beyond, they are counted only
_OVERHEAD = 4000  # bytes of the objects around the arrays of a block, about


@dataclass(frozen=True)
class _Block:
    """Answers that were learned together, and the model before them."""

    before: Current
    answers: Answers
    n_before: int  # answers before these
    size: int


class Curve:
    """Points of a curve that has no end: at most so many, which are further apart the more there were."""

    def __init__(self) -> None:
        self.points: list[tuple[float, ...]] = []
        self.stride, self.until = 1, 1  # of so many points one is kept, and the next one is kept after so many

    def is_due(self) -> bool:
        """Count a point; tell whether it is kept."""
        self.until -= 1
        return self.until <= 0

    def keep(self, *point: float) -> None:
        """Keep a point that is due."""
        self.points.append(point)
        if len(self.points) >= POINTS:  # half as many, twice as far apart
            self.points = self.points[1::2]
            self.stride *= 2
        self.until = self.stride


class Progress:
    """Means of the measure, over all answers since the start and over the newest, and a curve of them.

    `watch` is called by the log's thread and only remembers the answers, within a limit of memory; `digest` measures
    them later, in another thread, by the model before the block that they were learned in.
    """

    def __init__(self, current: Current) -> None:
        self.first = current.answers  # answers before this start
        self.measure = str(measure_of(current.learner))
        self.measured = self.left_out = self.skipped = 0
        self._waiting: deque[_Block] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self._values: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # value, weight
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._sum = self._weight = 0.0
        self._curve = Curve()

    def watch(self, before: Current, after: Current, entries: Sequence[tuple[Row, Entry]]) -> None:
        """Remember answers that were learned, to measure them later."""
        logged = [(row.sequence, entry) for row, entry in entries if isinstance(entry, AnswerEntry)]
        answers = Answers([entry for _, entry in logged], [number for number, _ in logged], after.names)
        if not logged:
            return
        size = _OVERHEAD + 16 * (after.n_features or 0) + sum(len(entry.features) for _, entry in logged)
        with self._lock:
            if self._size + size > WAITING_BYTES and self._waiting:
                self.skipped += len(logged)
                return
            self._waiting.append(_Block(before, answers, after.answers - len(logged), size))
            self._size += size

    def digest(self, seconds: float) -> None:
        """Measure what waits, for so much time of a processor at most."""
        deadline = time.thread_time() + seconds
        while time.thread_time() < deadline:
            with self._lock:
                if not self._waiting:
                    return
                block = self._waiting.popleft()
                self._size -= block.size
            try:
                self._add(block)
            except ValueError:  # of what the measure or the model cannot take
                self.skipped += len(block.answers.entries)

    def _add(self, block: _Block) -> None:
        learner, entries = block.before.learner, block.answers.entries
        if not entries:
            return
        measure = measure_of(learner)
        self.measure = str(measure)
        stream = block.answers.stream(learner)
        measure.check_grades(stream.relevance)
        scores = learner.scores(stream)
        values = measure.per_query(scores, stream.relevance, stream.offsets).tolist()
        for place, (entry, value) in enumerate(zip(entries, values, strict=True)):
            assert isinstance(entry, AnswerEntry)
            if np.isnan(value) or entry.weight == 0.0:
                self.left_out += 1
                continue
            self._count(block.n_before + place + 1, value, entry.weight)
            if value < 1.0 and (value <= self.window or len(self._recent) < WORST):
                own = slice(int(stream.offsets[place]), int(stream.offsets[place + 1]))
                self._recent.append(_describe(block.answers.numbers[place], entry, value, scores[own]))

    def _count(self, number: int, value: float, weight: float) -> None:
        self.measured += 1
        self._values.append((value, weight))
        self._sum += weight * value
        self._weight += weight
        if self._curve.is_due():
            self._curve.keep(number, round(self.window, 6), round(self.mean, 6))

    @property
    def mean(self) -> float:
        """The mean over all answers that were measured, by their weights."""
        return self._sum / self._weight if self._weight > 0 else float("nan")

    @property
    def window(self) -> float:
        """The mean over the newest ones."""
        whole = sum(weight for _, weight in self._values)
        return sum(value * weight for value, weight in self._values) / whole if whole > 0 else float("nan")

    def worst(self) -> list[dict[str, Any]]:
        """Return the worst of the recent queries, the newest of equal ones first."""
        return sorted(self._recent, key=lambda query: (query["value"], -query["sequence"]))[:WORST]

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        points = [*self._curve.points]
        if self.measured and self._curve.until < self._curve.stride:  # the newest answer is the curve's end
            points.append((self.first + self.measured + self.left_out + self.skipped, self.window, self.mean))
        return {
            "measure": self.measure,
            "mean": self.mean,
            "window": self.window,
            "window_size": min(WINDOW, len(self._values)),
            "first": self.first,
            "measured": self.measured,
            "left_out": self.left_out,
            "skipped": self.skipped,
            "points": points,
        }


def warm_up(current: Current) -> None:
    """Measure something, so that no thread waits while another compiles."""
    arranged = make_example(current)
    entry = AnswerEntry(0, "", None, arranged.ids, as_bytes(arranged.X), as_bytes([1, 0]), 1.0)
    progress = Progress(current)
    progress.watch(current, current, [(Row(0, b"", b""), entry)])
    progress.digest(60.0)


def _describe(sequence: int, entry: AnswerEntry, value: float, scores: Floats) -> dict[str, Any]:
    """Return what the ranking of an answered query was worth, and where its best document was."""
    order, grades = np.argsort(-scores, kind="stable"), entry.relevance
    first = int(order[0])
    place = int(np.argmax(grades[order]))
    best = int(order[place])
    return {
        "sequence": sequence,
        "event_id": entry.event_id,
        "time": entry.time / 1e9,
        "value": value,
        "documents": len(entry.documents),
        "first": entry.documents[first],
        "first_grade": float(grades[first]),
        "best": entry.documents[best],
        "best_grade": float(grades[best]),
        "best_place": place + 1,
    }


MOST = 8  # challengers that have curves


class Duels:
    """For each challenger, its progressive mean and that of the incumbent on the same answers, over their number."""

    def __init__(self) -> None:
        self._curves: dict[str, tuple[int, Curve]] = {}  # since which version, and the curve

    def add(self, standings: dict[str, Any] | None) -> None:
        """Note how challengers stand; those that are gone, or have begun anew, lose their curves."""
        before, self._curves = self._curves, {}
        for standing in (standings or {}).get("challengers", [])[:MOST]:
            since, curve = before.get(standing["name"], (standing["since_version"], Curve()))
            if since != standing["since_version"]:
                since, curve = standing["since_version"], Curve()
            self._curves[standing["name"]] = since, curve
            is_new = not curve.points or curve.points[-1][0] < standing["answers"]
            if standing["mean"] is not None and is_new and curve.is_due():
                curve.keep(standing["answers"], round(standing["incumbent_mean"], 6), round(standing["mean"], 6))

    def as_plain(self) -> dict[str, list[tuple[float, ...]]]:
        """Return the points of the curves, by name."""
        return {name: curve.points for name, (_, curve) in self._curves.items()}
