"""Shadow mode: one model ranks, others learn silently from the same answers and are compared with it.

Everything here is a function of the log's entries alone, so that a replay has the same challengers, the same bits and
the same comparisons.
"""

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
from perceptrank.serve.learning import Answers, learn_answers
from perceptrank.serve.log.records import ChallengerEntry, RemovalEntry


@dataclass(frozen=True)
class Challenger:
    """A model that learns silently.

    Attributes
    ----------
    model : Learner
    measure : str
        What it is compared by.
    since : int
        Entry from which on it is compared with the model that ranks now.
    number : int
        How many comparisons with the model that ranks now had begun by then, this one included.
    compared : RunningDifference
        The model that ranks, and this one.
    refused : int
        How many answers it could not learn from.
    refusal : str
        The reason for the last one of these.
    """

    model: Learner
    measure: str
    since: int
    number: int
    compared: RunningDifference = field(default_factory=RunningDifference)
    refused: int = 0
    refusal: str = ""

    def needed(self, error: float) -> float:
        """Return the evidence that makes it better, so that of all comparisons with one model, few are wrong.

        The numbers n of comparisons have errors of error / (n (n + 1)), whose sum is at most `error`, however many
        there will be.
        """
        return self.number * (self.number + 1) / error

    def is_better(self, error: float) -> bool:
        """Tell whether it is shown to be better."""
        return self.compared.log_evidence >= math.log(self.needed(error))

    def after_answers(self, answers: Answers, measure: Measure, incumbent: list[float]) -> "Challenger":
        """Return it after answers, given the values of the incumbent's rankings of them."""
        learned = learn_answers(self.model, answers, [measure])
        compared = self.compared
        for first, second, counts in zip(incumbent, learned.values[measure], answers.counted(measure), strict=True):
            if counts:
                compared = compared.after(_as_value(first), _as_value(second))
        refused, refusal = self.refused + learned.refused, learned.refusal or self.refusal
        return replace(self, model=learned.model, compared=compared, refused=refused, refusal=refusal)


class Promotion(msgspec.Struct, frozen=True):
    """The last promotion: the version it made, the challenger's name, and the error rate, None if done by hand."""

    model_version: int
    name: str
    error: float | None


@dataclass(frozen=True)
class Shadow:
    """The challengers of a ranker, and whether the model that ranks learns too.

    Attributes
    ----------
    challengers : mapping from names to Challenger
        In the order in which they came; never changed.
    is_fixed : bool
        True if the model that ranks stays as it is.
    known : tuple of str
        All names that challengers ever had.
    begun : int
        How many comparisons with the model that ranks now have begun.
    promotion : Promotion or None
        The last one.
    """

    challengers: Mapping[str, Challenger] = field(default_factory=dict)
    is_fixed: bool = False
    known: tuple[str, ...] = ()
    begun: int = 0
    promotion: Promotion | None = None

    @property
    def is_active(self) -> bool:
        """True if answers are more than something to learn from for the model that ranks."""
        return self.is_fixed or bool(self.challengers)

    def restarted(self, version: int, *, is_fixed: bool = False, without: str | None = None) -> "Shadow":
        """Return it with comparisons that begin anew, as those so far were with a model that no longer ranks."""
        kept = {name: one for name, one in self.challengers.items() if name != without}
        anew = {
            name: replace(one, since=version, number=number, compared=RunningDifference())
            for number, (name, one) in enumerate(kept.items(), start=1)
        }
        return replace(self, challengers=anew, is_fixed=is_fixed, begun=len(anew))

    def after(self, version: int, entry: ChallengerEntry | RemovalEntry) -> "Shadow":
        """Return it with one more challenger, or one less."""
        if isinstance(entry, RemovalEntry):
            return replace(self, challengers={k: one for k, one in self.challengers.items() if k != entry.name})
        model = restore(entry.name, parse_model(entry.name, entry.document))
        added = Challenger(model, entry.measure, version, self.begun + 1)
        known = self.known if entry.name in self.known else (*self.known, entry.name)
        return replace(self, challengers={**self.challengers, entry.name: added}, known=known, begun=self.begun + 1)

    def better(self, error: float) -> str | None:
        """Return the name of the challenger that is shown to be better, the one with most evidence; None if none is."""
        shown = [(one.compared.log_evidence, name) for name, one in self.challengers.items() if one.is_better(error)]
        return max(shown)[1] if shown else None

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
                    "model": model_text(one.model.as_document()),
                    "measure": one.measure,
                    "since": one.since,
                    "number": one.number,
                    "compared": one.compared.as_plain(),
                    "refused": one.refused,
                    "refusal": one.refusal,
                }
                for name, one in self.challengers.items()
            ],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Shadow":
        """Return what `as_plain` was called on."""
        found = {
            one["name"]: Challenger(
                restore(one["name"], parse_model(one["name"], one["model"])),
                one["measure"],
                one["since"],
                one["number"],
                RunningDifference.from_plain(one["compared"]),
                one["refused"],
                one["refusal"],
            )
            for one in plain["challengers"]
        }
        last = plain["promotion"]
        return cls(found, plain["is_fixed"], tuple(plain["known"]), plain["begun"], last and Promotion(**last))


def check_measure(name: str) -> str:
    """Return the name of a measure that differences can be taken of: from 0 to 1, and defined for all grades."""
    measure = parse(name)
    if isinstance(measure, ERR):
        raise ValueError("measure must be defined for all grades, such as ndcg@10, ap or rr, got err")
    if measure.ties == "random":  # whose value would depend on how answers come in blocks
        raise ValueError(f"measure must not be random, got {name}")
    return str(measure)


def _as_value(value: float) -> float:
    """Return a value to compare: 0 for a ranking by scores that are not numbers."""
    return 0.0 if math.isnan(value) else value
