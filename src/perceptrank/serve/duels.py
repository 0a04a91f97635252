"""Curves of challengers against the model that ranks, for the live page."""

from typing import Any

from perceptrank.serve.progress import Curve

MOST = 8  # challengers that have curves


class Duels:
    """For each challenger, its progressive mean and that of the incumbent on the same answers, over their number."""

    def __init__(self) -> None:
        self._curves: dict[str, tuple[int, Curve]] = {}  # since which version, and the curve

    def add(self, standings: dict[str, Any] | None) -> None:
        """Note how challengers stand; those that are gone, or have begun anew, lose their curves."""
        found = (standings or {}).get("challengers", [])[:MOST]
        before, self._curves = self._curves, {}
        for one in found:
            since, curve = before.get(one["name"], (one["since_version"], Curve()))
            if since != one["since_version"]:
                since, curve = one["since_version"], Curve()
            self._curves[one["name"]] = since, curve
            is_new = not curve.points or curve.points[-1][0] < one["answers"]
            if one["mean"] is not None and is_new and curve.is_due():
                curve.keep(one["answers"], round(one["incumbent_mean"], 6), round(one["mean"], 6))

    def as_plain(self) -> dict[str, list[tuple[float, ...]]]:
        """Return the points of the curves, by name."""
        return {name: curve.points for name, (_, curve) in self._curves.items()}
