"""Apply entries of the log to a model: the service learns this way when it runs, when it starts and in checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
from perceptrank.measures import parse
from perceptrank.serve.learning import Answers, find_weights, learn_answers
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import (
    FIRST_LINK,
    AnswerEntry,
    ChallengerEntry,
    Entry,
    FixedEntry,
    ModelEntry,
    NamesEntry,
    PromotionEntry,
    RemovalEntry,
    decode,
)
from perceptrank.serve.shadow.shadow import Promotion, Shadow, restore_learner

BLOCK = 64  # answers that are learned at once; rankings meanwhile are by the model before them


@dataclass(frozen=True)
class Current:
    """The learner that ranks as it is after an entry of the log; replaced by learning, never changed."""

    learner: Learner
    version: int = 0  # number of the entry
    link: bytes = FIRST_LINK
    n_features: int | None = None  # None until the first answer
    names: tuple[str, ...] | None = None  # of the features, in the order of the model
    answers: int = 0
    refused: int = 0  # answers that it could not learn from
    refusal: str = ""  # the last reason
    shadow: Shadow = field(default_factory=Shadow)

    @classmethod
    def of(cls, learner: Learner, **known: Any) -> Self:
        """Return what follows from a learner alone."""
        model = ready_model(learner)
        return cls(learner, n_features=model.n_inputs if model.has_begun else None, names=model.feature_names, **known)

    @property
    def learns(self) -> bool:
        """True if the model that ranks learns from answers."""
        return self.learner.learns and not self.shadow.is_fixed

    @property
    def takes_missing(self) -> bool:
        """True if features may be missing."""
        return self.learner.model.takes_missing

    def after(self, row: Row, entry: Entry) -> "Current":
        """Return the model after one more entry."""
        known: dict[str, Any] = {"version": row.sequence, "link": row.link}
        if isinstance(entry, ModelEntry):
            known |= {"answers": self.answers, "refused": self.refused, "refusal": self.refusal}
            return self._with(entry, known)
        if isinstance(entry, NamesEntry):
            names = None if entry.names is None else tuple(entry.names)
            fixed = self.shadow.is_fixed
            learner = _with_weights(self.learner, entry.n_features, names) if fixed else self.learner
            return replace(self, learner=learner, n_features=entry.n_features, names=names, **known)
        if isinstance(entry, ChallengerEntry | RemovalEntry):
            return replace(self, shadow=self.shadow.after(row.sequence, entry), **known)
        if isinstance(entry, PromotionEntry):
            return self._promoted(row, entry)
        return self._after_answers([(row, entry)])

    def _with(self, entry: ModelEntry, known: dict[str, Any]) -> "Current":
        """Return what follows from an entry with a model."""
        learner, is_fixed = restore_learner(entry.reason, entry.document), isinstance(entry, FixedEntry)
        known["shadow"] = self.shadow.restarted(known["version"], is_fixed=is_fixed)
        if is_fixed and not learner.model.has_begun:
            # It may know only some of the features that challengers learn from.
            if self.n_features is None:
                return Current(learner, **known)
            ready = _with_weights(learner, self.n_features, self.names)
            if ready.model.has_begun:
                return Current(ready, n_features=self.n_features, names=self.names, **known)
        return Current.of(learner, **known)

    def _promoted(self, row: Row, entry: PromotionEntry) -> "Current":
        """Return what follows once a challenger ranks instead."""
        challenger = self.shadow.challengers.get(entry.name)
        if challenger is None:
            raise ValueError(f"entry {row.sequence} promotes {entry.name!r}, which is no challenger")
        shadow = self.shadow.restarted(row.sequence, without=entry.name)
        shadow = replace(shadow, promotion=Promotion(row.sequence, entry.name, entry.error))
        model, names, n_features = challenger.learner.model, self.names, self.n_features
        if model.has_begun:
            names = model.feature_names or (names if model.n_inputs == n_features else None)
            n_features = model.n_inputs
        known: dict[str, Any] = {"version": row.sequence, "link": row.link, "shadow": shadow}
        return replace(self, learner=challenger.learner, names=names, n_features=n_features, **known)

    def _after_answers(self, logged: "Sequence[tuple[Row, AnswerEntry]]") -> "Current":
        """Return what follows from answers: each is ranked and measured by all models, then learned from."""
        shadow = self.shadow
        answers = Answers([entry for _, entry in logged], [row.sequence for row, _ in logged], self.names)
        measures = {challenger.measure: parse(challenger.measure) for challenger in shadow.challengers.values()}
        learned = learn_answers(self.learner, answers, list(measures.values()), learns=not shadow.is_fixed)
        challengers = {
            name: challenger.after_answers(name, answers, measure, learned.values[measure])
            for name, challenger in shadow.challengers.items()
            for measure in [measures[challenger.measure]]
        }
        last, _ = logged[-1]
        return replace(
            self,
            learner=learned.learner,
            version=last.sequence,
            link=last.link,
            answers=self.answers + len(logged),
            refused=self.refused + learned.refused,
            refusal=learned.refusal or self.refusal,
            shadow=replace(shadow, challengers=challengers),
        )

    def after_all(self, entries: Sequence[tuple[Row, Entry]]) -> "Current":
        """Return the model after several entries, the same as after one after the other.

        Runs of answers are learned as blocks, which is faster, and the same to the bit.
        """
        current, place = self, 0
        while place < len(entries):
            run: list[tuple[Row, AnswerEntry]] = []
            for row, entry in entries[place : place + BLOCK]:
                if not isinstance(entry, AnswerEntry):
                    break
                run.append((row, entry))
            current = current._after_answers(run) if run else current.after(*entries[place])
            place += max(len(run), 1)
        return current


def _with_weights(learner: Learner, n_features: int, names: tuple[str, ...] | None) -> Learner:
    """Return a fixed learner with its weights for these features; unchanged if it has none."""
    try:
        return find_weights(learner, n_features, names)
    except ValueError:
        return learner


def nothing_before(entry: Entry) -> Current:
    """Return what the first entry of a log is applied to."""
    if not isinstance(entry, ModelEntry):
        raise ValueError("the log does not begin with a model")
    return Current(restore_learner(entry.reason, entry.document))


def replay(rows: Iterable[Row], start: Current | None = None, until: int | None = None) -> Current | None:
    """Return the model after all entries, or those up to a number; None if there are none."""
    current = start
    waiting: list[tuple[Row, Entry]] = []
    for row in rows:
        if until is not None and row.sequence > until:
            break
        entry = decode(row.record)
        if current is None:
            current = nothing_before(entry)
        waiting.append((row, entry))
        if len(waiting) == BLOCK:
            current, waiting = current.after_all(waiting), []
    return current if current is None else current.after_all(waiting)
