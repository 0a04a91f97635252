"""Shadow mode: one learner ranks; others learn silently from the same answers and are compared with it.

Everything here follows from the entries of the log alone, so that a replay gives bit-identical results.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from perceptrank.evaluation.running_difference import RunningDifference
from perceptrank.io.model_file import model_text, parse_model
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import restore
from perceptrank.measures import ERR, Measure, parse
from perceptrank.measures.of_clicks import ClickMeasure, ExpectedClicks, FairPreferences, TeamDraft
from perceptrank.serve.learning import MODEL_BYTES, NAIVE, Answers, learn_answers
from perceptrank.serve.log.records import ChallengerEntry, RemovalEntry
from perceptrank.stream.memory import limited_room

# Fields of a challenger that JSON takes.
_PLAIN = ("measure", "since", "number", "weight", "wins", "losses", "clicked", "refused", "refusal", "is_stopped")
logger = logging.getLogger("perceptrank.serve")


@dataclass(frozen=True)
class Challenger:
    """A learner that learns silently and is compared with the one that ranks."""

    learner: Learner
    measure: str
    since: int  # entry at which the comparison began
    number: int  # of this comparison among those with the learner that ranks now, from 1
    compared: RunningDifference = field(default_factory=RunningDifference)
    weight: float = 0.0  # of the rounds
    wins: int = 0  # rounds that it was ahead in
    losses: int = 0
    # sums of naive values, of the incumbent and its own; their number
    clicked: tuple[float, float, int] = (0.0, 0.0, 0)
    refused: int = 0  # answers that it could not learn from
    refusal: str = ""  # the last reason
    is_stopped: bool = False  # after a bug: it stays as it was, and is not compared

    def needed(self, error: float) -> float:
        """Return the evidence needed to call it better.

        Comparison n has the error rate error / (n (n + 1)); over any number of comparisons they add up to `error`.
        """
        return self.number * (self.number + 1) / error

    def restarted(self, since: int, number: int) -> "Challenger":
        """Return it at the beginning of a new comparison."""
        new = Challenger(self.learner, self.measure, since, number)
        return replace(new, refused=self.refused, refusal=self.refusal, is_stopped=self.is_stopped)

    @property
    def is_by_clicks(self) -> bool:
        """True if it is compared by clicks, not by grades."""
        return isinstance(parse(self.measure), ClickMeasure)

    @property
    def can_be_shown(self) -> bool:
        """True if its rankings may be shown now and then, as its measure needs."""
        is_ready = self.learner.model.has_begun or self.learner.model.beginning.ranks
        return is_ready and not self.is_stopped and isinstance(parse(self.measure), (FairPreferences, TeamDraft))

    @property
    def promotes(self) -> bool:
        """True if it may be promoted by what it is compared by: grades, or of clicks fair preferences alone."""
        return not self.is_by_clicks or isinstance(parse(self.measure), FairPreferences)

    @property
    def is_interleaved(self) -> bool:
        """True if its documents are shown in one list with those of the model that ranks."""
        return isinstance(parse(self.measure), TeamDraft)

    def is_better(self, error: float) -> bool:
        """Tell whether it is shown to be better."""
        return not self.is_stopped and self.compared.log_evidence >= math.log(self.needed(error))

    def after_answers(
        self, name: str, answers: Answers, measure: Measure | None, incumbent: Mapping[Measure, list[float]]
    ) -> "Challenger":
        """Return it after answers, given the values of the incumbent's rankings; an error stops this challenger only.

        A replay, with other blocks, stops it at the same answer. Without a measure, it learns and is not compared.
        """
        if self.is_stopped:
            return self
        try:
            learned = learn_answers(self.learner, answers, list(incumbent) if measure else [])
        except Exception as error:
            if len(answers.entries) > 1:
                challenger = self
                for i in range(len(answers.entries)):
                    one = {key: [values[i]] for key, values in incumbent.items()}
                    challenger = challenger.after_answers(name, answers.only(i), measure, one)
                return challenger
            reason = f"entry {answers.numbers[0]}: {type(error).__name__}: {error}"
            logger.exception("challenger %s stopped at %s", name, reason)
            return replace(self, refused=self.refused + 1, refusal=f"stopped at {reason}", is_stopped=True)
        refused, refusal = self.refused + learned.refused, learned.refusal or self.refusal
        after = replace(self, learner=learned.learner, refused=refused, refusal=refusal)
        if measure is None:
            return after
        weights = answers.weights(name, self.since, measure, incumbent[measure], learned.values[measure])
        return after._compared(weights, measure, incumbent, learned.values)

    def _compared(
        self,
        weights: list[float],
        measure: Measure,
        first: Mapping[Measure, list[float]],
        own: Mapping[Measure, list[float]],
    ) -> "Challenger":
        """Return it with the values of both added to its comparison."""
        compared, total, wins, losses = self.compared, self.weight, self.wins, self.losses
        for before, value, weight in zip(first[measure], own[measure], weights, strict=True):
            if weight > 0.0:
                compared = compared.after(weight * _as_value(before), weight * _as_value(value))
                total, wins, losses = total + weight, wins + (value > before), losses + (value < before)
        clicked = self.clicked
        if NAIVE in first and measure is not NAIVE:
            # One by one: sums must not depend on how answers come in blocks.
            for before, value in zip(first[NAIVE], own[NAIVE], strict=True):
                clicked = (clicked[0] + _as_value(before), clicked[1] + _as_value(value), clicked[2] + 1)
        return replace(self, compared=compared, weight=total, wins=wins, losses=losses, clicked=clicked)


class Promotion(msgspec.Struct, frozen=True):
    """The last promotion: the version it made, the challenger's name, and the error rate, None if done by hand."""

    model_version: int
    name: str
    error: float | None


@dataclass(frozen=True)
class Shadow:
    """The challengers of a ranker, and whether the learner that ranks stays as it is."""

    challengers: Mapping[str, Challenger] = field(default_factory=dict)  # by name, oldest first; never changed
    is_fixed: bool = False
    known: tuple[str, ...] = ()  # all names that challengers ever had
    begun: int = 0  # comparisons with the learner that ranks now
    promotion: Promotion | None = None  # the last one

    def restarted(self, version: int, *, is_fixed: bool = False, without: str | None = None) -> "Shadow":
        """Return it with new comparisons: another learner ranks from now on."""
        names = (name for name in self.challengers if name != without)
        challengers = {name: self.challengers[name].restarted(version, n) for n, name in enumerate(names, start=1)}
        return replace(self, challengers=challengers, is_fixed=is_fixed, begun=len(challengers))

    def after(self, version: int, entry: ChallengerEntry | RemovalEntry) -> "Shadow":
        """Return it with one more challenger, or one less."""
        if isinstance(entry, RemovalEntry):
            kept = {name: challenger for name, challenger in self.challengers.items() if name != entry.name}
            return replace(self, challengers=kept)
        added = Challenger(restore_learner(entry.name, entry.document), entry.measure, version, self.begun + 1)
        known = self.known if entry.name in self.known else (*self.known, entry.name)
        return replace(self, challengers={**self.challengers, entry.name: added}, known=known, begun=self.begun + 1)

    def better(self, error: float, *, by_clicks: bool = False) -> str | None:
        """Return the name of the challenger with most evidence among those shown to be better; None without any.

        With `by_clicks`, only fair preferences count.
        """
        shown = [
            (each.compared.log_evidence, name)
            for name, each in self.challengers.items()
            if each.is_better(error) and each.promotes and (not by_clicks or each.is_by_clicks)
        ]
        return max(shown, default=(0.0, None))[1]

    def as_plain(self) -> dict[str, Any]:
        """Return it as JSON keeps it to the bit."""
        return {
            "is_fixed": self.is_fixed,
            "known": list(self.known),
            "begun": self.begun,
            "promotion": msgspec.to_builtins(self.promotion),
            "challengers": [
                {
                    "name": name,
                    "model": model_text(challenger.learner.as_document()),
                    "compared": challenger.compared.as_plain(),
                    **{field: getattr(challenger, field) for field in _PLAIN},
                }
                for name, challenger in self.challengers.items()
            ],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Shadow":
        """Return what `as_plain` was called on."""
        challengers = {
            saved["name"]: Challenger(
                restore_learner(saved["name"], saved["model"]),
                compared=RunningDifference.from_plain(saved["compared"]),
                **{field: saved[field] for field in _PLAIN if field in saved and field != "clicked"},
                clicked=tuple(saved.get("clicked", (0.0, 0.0, 0))),
            )
            for saved in plain["challengers"]
        }
        last = plain["promotion"]
        return cls(challengers, plain["is_fixed"], tuple(plain["known"]), plain["begun"], last and Promotion(**last))


def restore_learner(source: object, document: bytes | str) -> Learner:
    """Return the learner of a model's text; errors name its source."""
    with limited_room(MODEL_BYTES):
        return restore(str(source), parse_model(str(source), document))


def check_measure(name: str) -> str:
    """Return the name of a measure that differences can be taken of: from 0 to 1, and defined for all grades."""
    measure = parse(name)
    if isinstance(measure, ERR):
        raise ValueError("measure must be defined for all grades, such as ndcg@10, ap or rr, got err")
    if measure.ties == "random":  # whose value would depend on how answers come in blocks
        raise ValueError(f"measure must not be random, got {name}")
    if isinstance(measure, ExpectedClicks) and not measure.clip:
        raise ValueError(f"measure must be preferences, or have a largest weight, like clicks@3:clip=10, got {name}")
    return str(measure)


def _as_value(value: float) -> float:
    """Return a value to compare: 0 for a ranking by scores that are not numbers."""
    return 0.0 if math.isnan(value) else value
