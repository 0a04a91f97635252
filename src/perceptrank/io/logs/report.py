"""Reports on logs of clicks: counts of what was read, and of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ClickReport:
    """Counts of what was read of a log of clicks, and of what was left out.

    Every click is accounted for: those that were read are `clicks` and `repeated`, the others are in `dropped`.

    Attributes
    ----------
    kind : str
        Kind of the log.
    impressions, documents, clicks : int
        What was read: impressions, their documents, and those of them that were clicked.
    repeated : int
        Further clicks on a document that was clicked already, which change nothing.
    first_place : 0, 1, or None
        What positions in the log are counted from; None if no place was taken from them.
    detected : bool
        True if `first_place` was found out.
    dropped : dict of str to int
        Clicks that were left out, by reason.
    left_out : dict of str to int
        What else was left out: records, impressions and documents.
    noted : dict of str to int
        What was kept, and is worth a look.
    """

    kind: str
    impressions: int = 0
    documents: int = 0
    clicks: int = 0
    repeated: int = 0
    first_place: int | None = None
    detected: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        sizes = f"{self.impressions:,} impressions, {self.documents:,} documents, {self.clicks:,} clicked"
        parts = [f"{self.kind} log: {sizes}"]
        if self.first_place is not None:
            parts.append(f"positions count from {self.first_place}{' (detected)' if self.detected else ''}")
        return "; ".join([*parts, *self.problems()])

    def __add__(self, other: ClickReport) -> ClickReport:
        if not isinstance(other, ClickReport):
            return NotImplemented
        if self.kind != other.kind:
            raise ValueError(f"reports must be of logs of one kind, got {self.kind} and {other.kind}")
        places = {place for place in (self.first_place, other.first_place) if place is not None}
        if len(places) == 2:
            ways = "say `first_place`, or read them apart"
            raise ValueError(f"positions count from 0 in one log, and from 1 in another: {ways}")
        sums: dict[str, Any] = {}
        for name in ("impressions", "documents", "clicks", "repeated"):
            sums[name] = getattr(self, name) + getattr(other, name)
        for name in ("dropped", "left_out", "noted"):
            sums[name] = dict(Counter(getattr(self, name)) + Counter(getattr(other, name)))
        place, detected = max(places, default=None), self.detected or other.detected
        return ClickReport(self.kind, first_place=place, detected=detected, **sums)

    @property
    def needs_a_look(self) -> bool:
        """Tell if there are problems, or positions were found to count from 0."""
        return bool(self.problems()) or (self.detected and self.first_place == 0)

    def problems(self) -> list[str]:
        """Return what was left out, and what is worth a look, in words."""
        parts = [f"{sum(self.dropped.values()):,} clicks are left out: {_listed(self.dropped)}"] if self.dropped else []
        parts += [f"left out are {_listed(self.left_out)}"] if self.left_out else []
        return parts + ([f"note {_listed(self.noted)}"] if self.noted else [])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


class Counts:
    """Counts the clicks that are dropped, and what else is left out or noted."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.impressions = self.documents = self.clicks = self.repeated = 0
        self.table_rows = self.repeated_rows = 0  # the latter name a document of their impression again

    def report(self, kind: str, first_place: int | None, detected: bool) -> ClickReport:
        """Return the counts so far."""
        sizes = self.impressions, self.documents, self.clicks, self.repeated
        reasons = (dict(+counter) for counter in (self.dropped, self.left_out, self.noted))  # of those that occurred
        return ClickReport(kind, *sizes, first_place, detected, *reasons)


class NoImpressionsError(ValueError):
    """A log without impressions, and the report of it."""

    def __init__(self, problem: str, report: ClickReport) -> None:
        super().__init__(problem)
        self.report = report
