"""Apply entries of the log to a model: the service learns this way when it runs, when it starts and in checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
from perceptrank.measures import parse
from perceptrank.measures.of_clicks import ClickMeasure
from perceptrank.serve.learning import NAIVE, Answers, find_weights, learn_answers
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import (
    FIRST_LINK,
    AnswerEntry,
    ChallengerEntry,
    Entry,
    FixedEntry,
    ImpressionEntry,
    ModelEntry,
    NamesEntry,
    PromotionEntry,
    QueryEntry,
    RemovalEntry,
    ShownEntry,
    decode,
)
from perceptrank.serve.shadow.shadow import Promotion, Shadow, restore_learner

BLOCK = 64  # answers that are learned at once; rankings meanwhile are by the model before them
MOST_CLICKED = 3  # documents with grade 1 in an answer that may be clicks
MANY = 20  # such answers more than there are others, each of which counts as two, from which on grades look like clicks


@dataclass(frozen=True)
class Current:
    """The learner that ranks as it is after an entry of the log; replaced by learning, never changed."""

    learner: Learner
    version: int = 0  # number of the entry
    link: bytes = FIRST_LINK
    n_features: int | None = None  # None until the first answer
    names: tuple[str, ...] | None = None  # of the features, in the order of the model
    answers: int = 0  # with grades, or with clicks
    impressions: int = 0  # those with clicks
    notes: int = 0  # of lists that were shown, before all their clicks were known
    like_clicks: int = 0  # answers with grades that may be clicks, less twice the others; from 0 to 2 MANY
    refused: int = 0  # answers that it could not learn from
    refusal: str = ""  # the last reason
    open: dict[str, int] = field(default_factory=dict)  # rankings with such a note, and its number; never changed
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
    def looks_like_clicks(self) -> bool:
        """True if grades seem to be clicks: in most of the newest answers all are 0, but for a few that are 1."""
        return self.like_clicks >= MANY

    @property
    def has_real_grades(self) -> bool:
        """True if grades do not look like clicks, nor have all of them so far."""
        return self.like_clicks < min(MANY, max(1, self.answers - self.impressions))

    @property
    def takes_missing(self) -> bool:
        """True if features may be NaN."""
        return self.learner.model.takes_missing and not self.zero_missing

    @property
    def zero_missing(self) -> bool:
        """True if missing features are 0, as in the data that the model was learned from."""
        return self.learner.model.zero_missing

    def after(self, row: Row, entry: Entry) -> "Current":
        """Return the model after one more entry."""
        known: dict[str, Any] = {"version": row.sequence, "link": row.link}
        if isinstance(entry, ModelEntry):
            known |= {name: getattr(self, name) for name in COUNTED}
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
        if isinstance(entry, ImpressionEntry | AnswerEntry):
            return self._after_answers([(row, entry)])
        return self._after_notes([(row, entry)])

    def _after_notes(self, logged: "Sequence[tuple[Row, ShownEntry]]") -> "Current":
        """Return what follows from notes of lists that were shown: they are open, unless they have ended before."""
        (last, _), n = logged[-1], self.notes + len(logged)
        still = self.open | {str(entry.ranking_id): row.sequence for row, entry in logged}
        return replace(self, notes=n, open=still, version=last.sequence, link=last.link)

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
        learner = challenger.learner
        if self.zero_missing:  # it has learned from the same answers
            learner = learner.with_model(model.with_zero_missing())
        return replace(self, learner=learner, names=names, n_features=n_features, **known)

    def _after_answers(self, logged: "Sequence[tuple[Row, AnswerEntry | ImpressionEntry]]") -> "Current":
        """Return what follows from answers: each is ranked and measured by all models, then learned from."""
        shadow = self.shadow
        answers = Answers([entry for _, entry in logged], [row.sequence for row, _ in logged], self.names)
        all_measures = {challenger.measure: parse(challenger.measure) for challenger in shadow.challengers.values()}
        measures = {
            name: measure
            for name, measure in all_measures.items()
            if isinstance(measure, ClickMeasure) == answers.are_clicks
        }
        recorded = [*measures.values(), *([NAIVE] if answers.are_clicks and measures else [])]
        learned = learn_answers(self.learner, answers, recorded, learns=not shadow.is_fixed, ranks=True)
        challengers = {
            name: challenger.after_answers(name, answers, measures.get(challenger.measure), learned.values)
            for name, challenger in shadow.challengers.items()
        }
        last, _ = logged[-1]
        after = replace(
            self,
            learner=learned.learner,
            version=last.sequence,
            link=last.link,
            answers=self.answers + len(logged),
            refused=self.refused + learned.refused,
            refusal=learned.refusal or self.refusal,
            shadow=replace(shadow, challengers=challengers),
        )
        if answers.are_clicks:
            closed = {entry.ranking_id for _, entry in logged}
            is_noted = not closed.isdisjoint(self.open)
            still = {key: number for key, number in self.open.items() if key not in closed} if is_noted else self.open
            return replace(after, impressions=self.impressions + len(logged), open=still)
        like_clicks = self.like_clicks
        for _, entry in logged:
            change = 1 if isinstance(entry, AnswerEntry) and may_be_clicks(entry) else -2
            like_clicks = min(max(like_clicks + change, 0), 2 * MANY)
        return replace(after, like_clicks=like_clicks)

    def after_all(self, entries: Sequence[tuple[Row, Entry]]) -> "Current":
        """Return the model after several entries, the same as after one after the other, but faster."""
        current, place = self, 0
        while place < len(entries):
            run: list[tuple[Row, Any]] = []
            for row, entry in entries[place : place + BLOCK]:
                if not isinstance(entry, QueryEntry) or (run and type(entry) is not type(run[0][1])):
                    break
                run.append((row, entry))
            if not run:
                current = current.after(*entries[place])
            elif type(run[0][1]) is ShownEntry:
                current = current._after_notes(run)
            else:
                current = current._after_answers(run)
            place += max(len(run), 1)
        return current


COUNTED = ("answers", "impressions", "notes", "like_clicks", "refused", "refusal", "open")


def may_be_clicks(entry: AnswerEntry) -> bool:
    """Tell whether the grades of an answer may be clicks: 0, but for a few of several documents that have 1."""
    grades = entry.relevance.tolist()  # of a few documents, faster than arrays
    return len(grades) > MOST_CLICKED and set(grades) <= {0.0, 1.0} and sum(grades) <= MOST_CLICKED


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
