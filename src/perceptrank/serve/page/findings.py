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
    """Return counts of rounds and updates, the margin of the next round, and the certificate."""
    model = current.learner
    state: dict[str, Any] = {"settings": repr(model), "rounds": 0, "updates": 0, "margin": None, "certificate": ""}
    state["learns"] = current.learns
    if not model.model.has_begun:
        return state | {"certificate": "Nothing has been learned yet, so there is nothing to certify."}
    try:
        state |= {"rounds": model.n_rounds, "updates": model.n_updates}
        state["margin"] = margin_of(model)
    except _LACKING:
        pass
    return state | {"certificate": certificate(model)}


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
        proof = model.certificate(margin=1.0)
    except _LACKING:
        why = "its settings have changed" if model.model.counts.changes else f"{model.name} has no theorem of this kind"
        return f"There is no certificate: {why}."
    if proof.mass == 0.0:
        return f"None of {proof.rounds:,} answers has changed the weights: nothing was lost."
    # Of the inequality |w| >= rate margin S, for the margin of whichever fixed ranker.
    largest = proof.promises[0].bound / proof.mass
    lost = next((promise for promise in proof.promises if promise.quantity == "loss"), None)
    if lost is None:
        what = f"lost at most S = {proof.mass:,.4g} by the current weights"
    else:
        what = f"have lost {lost.happened:,.4g}, at most {lost.bound:,.4g} by its theorem, whatever the answers were"
    return (
        f"The rankings of {proof.rounds:,} rounds {what}, and no fixed ranker puts all of them in order with a margin "
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
            if written < midnight and (snapshot := self._ranker.snapshots.read(version)) is not None:
                return midnight, snapshot
        return now, self._ranker.current

    def as_plain(self) -> dict[str, Any]:
        """Return the largest effects, and what has moved, as plain values."""
        now = time.time()
        current = self._ranker.current
        if now - now % _DAY > self._since:  # a new day
            self._since, self._before = now - now % _DAY, current
        findings: dict[str, Any] = {"since": self._since, "features": [], "changes": [], "note": "", "n_features": 0}
        model, before = current.learner, self._before.learner
        if not model.model.has_begun:
            return findings | {"note": "Nothing has been learned yet."}
        if (current.n_features or 0) > _MOST_FEATURES:
            note = f"{current.n_features:,} features are too many to explain while the service runs."
            return findings | {"note": note}
        try:
            known = explain(model, since=before if before.model.has_begun else None)
        except _LACKING as error:
            return findings | {"note": f"This model cannot be explained: {error}."}
        features = []
        for effect in known.largest(TOP):
            share = effect.share if math.isfinite(effect.share) else None
            row = {"feature": effect.feature, "sign": effect.sign, "share": share, "weights": effect.weights}
            features.append(row)
        changes = [
            {"feature": change.feature, "kind": change.kind, "before": change.before, "now": change.now}
            for change in known.changes
            if change.kind != "kept"
        ][:TOP]
        note = "" if before.model.has_begun else "The model was empty then: everything is new."
        if not current.learns:
            note = "The model does not learn; these are its weights."
        return findings | {"features": features, "changes": changes, "n_features": known.n_features, "note": note}
