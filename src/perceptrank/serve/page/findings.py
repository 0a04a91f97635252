"""Findings about a model, in words and numbers for the live page."""

import math
import time
from typing import Any

from perceptrank.deploy.explanation.explanation import explain
from perceptrank.learners.learner import Learner
from perceptrank.learners.tally import SQUARED_REACH, UPDATE_WEIGHT, UPDATES
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.replay import Current

TOP = 10
_MOST_FEATURES = 20_000  # that are explained while the service works
_DAY = 86_400.0
_LACKING = (ValueError, AttributeError)  # models of other kinds, such as sums of learners, lack some of this


def learning(current: Current) -> dict[str, Any]:
    """Return counts of rounds and updates, the margin of the next round, and the certificate as a sentence."""
    model = current.learner
    found: dict[str, Any] = {"settings": repr(model), "rounds": 0, "updates": 0, "margin": None, "certificate": ""}
    found["learns"] = learns(current)
    if not model.model.has_begun:
        return found | {"certificate": "Nothing was learned yet, so there is nothing to certify."}
    try:
        found |= {"rounds": model.n_rounds, "updates": model.n_updates}
        found["margin"] = margin_of(model)
    except _LACKING:
        pass
    return found | {"certificate": certificate(model)}


def learns(current: Current) -> bool:
    """Tell whether the model that ranks learns, or stays as it is."""
    return current.learner.learns and not current.shadow.is_fixed


def margin_of(model: Learner) -> float | None:
    """Return the margin of the next round; None if the learner has none."""
    absolute, relative = getattr(model, "margin", None), getattr(model, "relative_margin", None)
    if absolute is not None:
        return float(absolute)
    tally = model.model.tally
    if relative is None or not len(tally):
        return None
    if not tally[UPDATES] > 0:
        return 0.0
    return float(relative * model.learning_rate * tally[SQUARED_REACH] / tally[UPDATE_WEIGHT])  # type: ignore[attr-defined]


def certificate(model: Learner) -> str:
    """Return what is certain about the past rounds, in one sentence."""
    try:
        found = model.certificate(margin=1.0)
    except _LACKING:
        return f"There is no certificate: {model.name} has no theorem of this kind."
    if found.mass == 0.0:
        return f"No answer of {found.rounds:,} has moved the weights, so that nothing was lost by them."
    # Of the inequality |w| >= rate margin S, for the margin of whichever fixed ranker.
    largest = found.promises[0].bound / found.mass
    lost = next((one for one in found.promises if one.quantity == "loss"), None)
    if lost is None:
        what = f"lost at most S = {found.mass:,.4g} by the current weights"
    else:
        what = f"have lost {lost.happened:,.4g}, at most {lost.bound:,.4g} by its theorem, whatever the answers were"
    return (
        f"The rankings of {found.rounds:,} rounds {what}, and no fixed ranker puts all of them in order with a margin "
        f"above {largest:,.3g}."
    )


class Findings:
    """The features that matter to a ranker, and what has moved since the day began, or since the service did."""

    def __init__(self, ranker: ServedRanker) -> None:
        self._ranker = ranker
        self._since, self._before = self._baseline()

    def _baseline(self) -> tuple[float, Current]:
        """Return the newest version of before today (in UTC), or the present one, and the time that it stands for."""
        now = time.time()
        midnight = now - now % _DAY
        for version in self._ranker.versions():
            try:
                written = self._ranker.snapshots.path(version).stat().st_mtime
            except OSError:  # it was just removed
                continue
            if written < midnight and (found := self._ranker.snapshots.read(version)) is not None:
                return midnight, found
        return now, self._ranker.current

    def as_plain(self) -> dict[str, Any]:
        """Return the largest effects, and what has moved, as plain values."""
        now = time.time()
        current = self._ranker.current
        if now - now % _DAY > self._since:  # a new day
            self._since, self._before = now - now % _DAY, current
        found: dict[str, Any] = {"since": self._since, "features": [], "changes": [], "note": "", "n_features": 0}
        model, before = current.learner, self._before.learner
        if not model.model.has_begun:
            return found | {"note": "Nothing was learned yet."}
        if (current.n_features or 0) > _MOST_FEATURES:
            return found | {"note": f"{current.n_features:,} features are too many to explain while it works."}
        try:
            known = explain(model, since=before if before.model.has_begun else None)
        except _LACKING as error:
            return found | {"note": f"This model is not explained: {error}."}
        features = [
            {"feature": one.feature, "sign": one.sign, "share": _number(one.share), "weights": one.weights}
            for one in known.largest(TOP)
        ]
        moved = [one for one in known.changes if one.kind != "kept"][:TOP]
        changes = [{"feature": one.feature, "kind": one.kind, "before": one.before, "now": one.now} for one in moved]
        note = "" if before.model.has_begun else "At the beginning nothing was learned: all of it is new."
        if not learns(current):
            note = "It stays as it is: these are its weights, and nothing moves them."
        return found | {"features": features, "changes": changes, "n_features": known.n_features, "note": note}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
