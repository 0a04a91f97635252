"""Changes from one model to another, in units that compare."""

from collections import Counter
from typing import NamedTuple

KINDS = ("appeared", "disappeared", "changed sign", "grew", "shrank", "kept")
_SAME = 0.05  # relative change that is none


class FeatureChange(NamedTuple):
    """The change of a feature.

    Attributes
    ----------
    feature : str
    kind : str
        "appeared", "disappeared", "changed sign", "grew", "shrank" or "kept" (within 5 %).
    before, now : float
        Its share of all that moves scores, negative if less of the feature is better: absolute shares add up to 1.
    """

    feature: str
    kind: str
    before: float
    now: float

    @property
    def difference(self) -> float:
        """The share now minus the share before."""
        return self.now - self.before


def changes_between(old: dict[str, float], new: dict[str, float]) -> tuple[FeatureChange, ...]:
    """Compare shares by feature; the largest differences come first.

    Examples
    --------
    >>> [tuple(change) for change in changes_between({"a": 0.5, "b": 0.5}, {"a": 0.75, "c": -0.25})]
    [('b', 'disappeared', 0.5, 0.0), ('a', 'grew', 0.5, 0.75), ('c', 'appeared', 0.0, -0.25)]
    """
    names = [*new, *(name for name in old if name not in new)]
    pairs = [(name, old.get(name, 0.0), new.get(name, 0.0)) for name in names]
    changes = [FeatureChange(name, _kind(before, now), before, now) for name, before, now in pairs if before or now]
    return tuple(sorted(changes, key=lambda change: (-abs(change.difference), change.feature)))


def _kind(before: float, now: float) -> str:
    if before == 0.0 or now == 0.0:
        return "appeared" if before == 0.0 else "disappeared"
    if (before > 0) != (now > 0):
        return "changed sign"
    if abs(abs(now) - abs(before)) <= _SAME * max(abs(now), abs(before)):
        return "kept"
    return "grew" if abs(now) > abs(before) else "shrank"


def summary(changes: tuple[FeatureChange, ...]) -> str:
    """Count the kinds of changes, in words."""
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]) or "nothing"
