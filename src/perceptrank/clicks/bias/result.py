"""Position bias as a value: examination of each place relative to the first, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class PositionBias:
    """Examination of each place: how often users look at it, relative to the first; returned by `position_bias`.

    Methods take:

    - `plain`: a mapping from JSON.

    Attributes
    ----------
    examination : array of shape (places,)
        Probability that a document at this place is examined, divided by that at place 1; NaN if not identified.
    low, high : array of shape (places,)
        Bounds of the intervals; NaN where examination is.
    log_covariance : array of shape (places, places)
        Covariance of the logarithms of examination.
    clicks, shown : array of shape (places,)
        Clicks and impressions of each place, in the whole log.
    method : str
        "swaps", "pairs", "pivot", "em" or "regression-em".
    identified : array of bool of shape (places,)
        Whether the log tells the examination of this place.
    reason : tuple of str
        For each place, why it is not identified; empty if it is.
    notes : tuple of str
        Why this method was chosen, and what of the log was not used.
    confidence : float
        Confidence level of each interval.

    Examples
    --------
    >>> import perceptrank as pr
    >>> columns = {"user_query": ["red shoes"] * 4, "policy": ["fair-pairs:1"] * 4}
    >>> log = pr.QueryStream.from_arrays(
    ...     np.empty((8, 0)), qid=[1, 1, 2, 2, 3, 3, 4, 4], docids=list("abbaabba"), place=[1, 2] * 4,
    ...     clicked=[1, 0, 1, 1, 0, 1, 1, 0], columns=columns)
    >>> print(pr.clicks.position_bias(log, method="swaps"))
    place  examination  95% interval   clicks  shown
        1            1                      3      4
        2        0.667  0.111 to 3.99       2      4
    Method: swaps.
    """

    examination: Floats
    low: Floats
    high: Floats
    log_covariance: Floats
    clicks: Floats
    shown: Floats
    method: str
    identified: Bools
    reason: tuple[str, ...]
    notes: tuple[str, ...] = ()
    confidence: float = 0.95

    def __str__(self) -> str:
        rows = [list(self.rows()[0]), *(list(row.values()) for row in self.rows())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, f"Method: {self.method}.", *self.sentences()])

    def rows(self) -> list[dict[str, str]]:
        """Return the table for people: one row per place, as text."""
        percent = f"{self.confidence * 100:g}% interval"
        rows = []
        for k, value in enumerate(self.examination.tolist()):
            known = bool(self.identified[k])
            span = f"{self.low[k]:.3g} to {self.high[k]:.3g}" if known and k else "" if known else "not identified"
            counts = {"clicks": f"{self.clicks[k]:,.6g}", "shown": f"{self.shown[k]:,.0f}"}
            rows.append({"place": str(k + 1), "examination": f"{value:.3g}" if known else "", percent: span} | counts)
        return rows

    def sentences(self) -> list[str]:
        """Return the notes, and why places are not identified, as sentences."""
        places: dict[str, list[int]] = {}
        for k, text in enumerate(self.reason):
            if text:
                places.setdefault(text, []).append(k + 1)
        return [*self.notes, *(f"Not identified, {_listed(which)}: {text}." for text, which in places.items())]

    def as_plain(self) -> dict[str, Any]:
        """Return it as dicts, lists, text and numbers, for JSON; None where a place is not identified."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "places": [
                {
                    "place": k + 1,
                    "examination": _number(self.examination[k]),
                    "low": _number(self.low[k]),
                    "high": _number(self.high[k]),
                    "clicks": float(self.clicks[k]),
                    "shown": float(self.shown[k]),
                    "identified": bool(self.identified[k]),
                    "reason": self.reason[k],
                }
                for k in range(len(self.examination))
            ],
            "log_covariance": [[_number(value) for value in row] for row in self.log_covariance],
            "notes": list(self.notes),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> PositionBias:
        """Return what `as_plain` was called on, as it was written to JSON."""
        places = plain["places"]

        def column(name: str) -> Floats:
            unbounded = {True: np.inf if name == "high" else np.nan, False: np.nan}
            values = [unbounded[row["identified"]] if row[name] is None else row[name] for row in places]
            return np.array(values, float)

        rows = [[np.nan if value is None else value for value in row] for row in plain["log_covariance"]]
        examination, covariance = column("examination"), np.array(rows, float)
        if not len(examination) or covariance.shape != (len(examination),) * 2:
            raise ValueError(
                f"log_covariance must have a row and a column for each place, got shape {covariance.shape} for "
                f"{len(examination)} places"
            )
        for row, value in zip(places, examination.tolist(), strict=True):
            if row["identified"] and not 0 < value < np.inf:
                raise ValueError(f"examination of place {row['place']} must be above 0, got {row['examination']}")
        return cls(
            **{name: column(name) for name in ("examination", "low", "high", "clicks", "shown")},
            log_covariance=covariance,
            method=plain["method"],
            identified=np.array([row["identified"] for row in places], bool),
            reason=tuple(row["reason"] for row in places),
            notes=tuple(plain["notes"]),
            confidence=plain["confidence"],
        )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _listed(places: list[int]) -> str:
    """Name places, runs of them by their ends.

    >>> _listed([2]), _listed([2, 4, 5, 6])
    ('place 2', 'places 2, 4 to 6')
    """
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1:
            runs[-1][1:] = [place]
        else:
            runs.append([place])
    listed = ", ".join(" to ".join(map(str, run)) for run in runs)
    return f"place{'s' if len(places) > 1 else ''} {listed}"
