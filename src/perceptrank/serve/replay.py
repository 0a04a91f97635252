"""From entries of the log to a model: the one way that the service learns, live, at its start and in checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import parse_model
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import restore
from perceptrank.serve.columns import Columns
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
from perceptrank.serve.shadow.shadow import Shadow, after_answers, begun, promoted
from perceptrank.stream.query_stream import QueryStream

BLOCK = 64  # answers that are learned at once; rankings meanwhile are by the model before them


@dataclass(frozen=True)
class Current:
    """A model as it is after an entry of the log; replaced by learning, never changed.

    Attributes
    ----------
    model : Learner
    version : int
        Number of the entry.
    link : bytes
        Its link.
    n_features : int or None
        Number of the features, None as long as nothing has shown them.
    names : tuple of str or None
        Their names, in the order of the model.
    answers, refused : int
        How many answers there were, and how many the learner could not learn from.
    refusal : str
        The reason for the last one of these.
    shadow : Shadow
        The models that learn silently, and whether this one learns.
    """

    model: Learner
    version: int = 0
    link: bytes = FIRST_LINK
    n_features: int | None = None
    names: tuple[str, ...] | None = None
    answers: int = 0
    refused: int = 0
    refusal: str = ""
    shadow: Shadow = field(default_factory=Shadow)

    @classmethod
    def of(cls, model: Learner, **known: Any) -> Self:
        """Return what follows from a model alone."""
        state = model.known_model
        return cls(model, n_features=state.n_inputs if state.has_begun else None, names=state.feature_names, **known)

    @property
    def takes_missing(self) -> bool:
        """True if features may be missing."""
        return self.model.model.takes_missing

    def after(self, row: Row, entry: Entry) -> "Current":
        """Return the model after one more entry."""
        known: dict[str, Any] = {"version": row.sequence, "link": row.link}
        if isinstance(entry, ModelEntry | FixedEntry):
            known |= {"answers": self.answers, "refused": self.refused, "refusal": self.refusal}
            return self._with(entry, known)
        if isinstance(entry, NamesEntry):
            names = None if entry.names is None else tuple(entry.names)
            model = begun(self.model, entry.n_features, names) if self.shadow.is_fixed else self.model
            return replace(self, model=model, n_features=entry.n_features, names=names, **known)
        if isinstance(entry, ChallengerEntry | RemovalEntry):
            return replace(self, shadow=self.shadow.after(row.sequence, entry), **known)
        if isinstance(entry, PromotionEntry):
            return promoted(self, row, entry)
        if self.shadow.is_active:
            return after_answers(self, [(row, entry)])
        known["answers"] = self.answers + 1
        try:
            return replace(self, model=self._learned(entry), **known)
        except ValueError as error:  # which depends on the answer and the state alone, so that a replay has it too
            return replace(self, refused=self.refused + 1, refusal=f"entry {row.sequence}: {error}", **known)

    def _with(self, entry: ModelEntry | FixedEntry, known: dict[str, Any]) -> "Current":
        """Return what follows from an entry with a model."""
        model, is_fixed = (
            restore(entry.reason, parse_model(entry.reason, entry.document)),
            isinstance(entry, FixedEntry),
        )
        known["shadow"] = self.shadow.restarted(known["version"], is_fixed=is_fixed)
        if is_fixed and not model.model.has_begun:
            # It may know some features only, of those that challengers learn from.
            if self.n_features is None:
                return Current(model, **known)
            ready = begun(model, self.n_features, self.names)
            if ready.model.has_begun:
                return Current(ready, n_features=self.n_features, names=self.names, **known)
        return Current.of(model, **known)

    def after_all(self, entries: Sequence[tuple[Row, Entry]]) -> "Current":
        """Return the model after several entries, the same as after one after the other.

        Runs of answers are learned as blocks, which is faster, and the same to the bit. If a block has an answer that
        cannot be learned from, its answers are learned one by one.
        """
        current, place = self, 0
        while place < len(entries):
            run: list[AnswerEntry] = []
            is_shadowed = current.shadow.is_active
            for _, entry in entries[place : place + BLOCK] if current.model.model.has_begun or is_shadowed else ():
                if not isinstance(entry, AnswerEntry):
                    break
                run.append(entry)
            if is_shadowed and run:
                rows = [row for row, _ in entries[place : place + len(run)]]
                current = after_answers(current, list(zip(rows, run, strict=True)))
                place += len(run)
                continue
            if len(run) > 1:
                row = entries[place + len(run) - 1][0]
                try:
                    model, answers = current._learned_block(run), current.answers + len(run)
                    current = replace(current, model=model, version=row.sequence, link=row.link, answers=answers)
                    place += len(run)
                    continue
                except ValueError:
                    pass
            for row, entry in entries[place : place + max(len(run), 1)]:
                current = current.after(row, entry)
            place += max(len(run), 1)
        return current

    def _learned_block(self, entries: list[AnswerEntry]) -> Learner:
        weights = np.array([one.weight for one in entries])
        stream = QueryStream.from_arrays(
            np.concatenate([one.X for one in entries]),
            np.concatenate([one.relevance for one in entries]),
            group=[len(one.documents) for one in entries],
            weights=None if (weights == 1.0).all() else weights,
            missing="keep",
        )
        after, _ = self.model.learn_from(self.model.model, stream, [])
        return self.model.with_model(after)

    def _learned(self, entry: AnswerEntry) -> Learner:
        model = self.model.with_model(self.model.model)
        X: Any = entry.X
        if self.names is not None and not model.model.has_begun:
            X = Columns(X, self.names)
        model.learn_one(X, entry.relevance, entry.weight)
        return model


def nothing_before(entry: Entry) -> Current:
    """Return what the first entry of a log is applied to."""
    if not isinstance(entry, ModelEntry | FixedEntry):
        raise ValueError("the log does not begin with a model")
    return Current(restore(entry.reason, parse_model(entry.reason, entry.document)))


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
