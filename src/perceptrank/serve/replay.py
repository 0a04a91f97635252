"""From entries of the log to a model: the one way that the service learns, live, at its start and in checks."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from perceptrank.io.model_file import parse_model
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import restore
from perceptrank.serve.log import Row
from perceptrank.serve.records import FIRST_LINK, AnswerEntry, Entry, ModelEntry, NamesEntry, decode


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
    """

    model: Learner
    version: int = 0
    link: bytes = FIRST_LINK
    n_features: int | None = None
    names: tuple[str, ...] | None = None
    answers: int = 0
    refused: int = 0
    refusal: str = ""

    @classmethod
    def of(cls, model: Learner, **known: Any) -> Self:
        """Return what follows from a model alone."""
        state = model._known_state()
        return cls(model, n_features=state.n_inputs if state.has_begun else None, names=state.feature_names, **known)

    @property
    def takes_missing(self) -> bool:
        """True if features may be missing."""
        return bool(self.model._takes_missing(self.model._state))

    def after(self, row: Row, entry: Entry) -> "Current":
        """Return the model after one more entry."""
        known: dict[str, Any] = {"version": row.sequence, "link": row.link}
        if isinstance(entry, ModelEntry):
            model = restore(entry.reason, parse_model(entry.reason, entry.document))
            return Current.of(model, answers=self.answers, refused=self.refused, refusal=self.refusal, **known)
        if isinstance(entry, NamesEntry):
            names = None if entry.names is None else tuple(entry.names)
            return replace(self, n_features=entry.n_features, names=names, **known)
        known["answers"] = self.answers + 1
        try:
            return replace(self, model=self._learned(entry), **known)
        except ValueError as error:  # which depends on the answer and the state alone, so that a replay has it too
            return replace(self, refused=self.refused + 1, refusal=f"entry {row.sequence}: {error}", **known)

    def _learned(self, entry: AnswerEntry) -> Learner:
        model: Learner = type(self.model).__new__(type(self.model))
        model.__dict__.update(self.model.__dict__)  # the state is shared, until learning replaces it
        X: Any = entry.X
        if self.names is not None and not model._state.has_begun:
            X = Columns(X, self.names)
        model.learn_one(X, entry.relevance, entry.weight)
        return model


class Columns:
    """Features with the names of their columns, as data frames have them."""

    def __init__(self, X: Floats, names: tuple[str, ...]) -> None:
        self.columns, self._X = names, X

    def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
        return self._X


def replay(rows: Iterable[Row], start: Current | None = None, until: int | None = None) -> Current | None:
    """Return the model after all entries, or those up to a number; None if there are none."""
    current = start
    for row in rows:
        if until is not None and row.sequence > until:
            break
        entry = decode(row.record)
        if current is None:
            if not isinstance(entry, ModelEntry):
                raise ValueError("the log does not begin with a model")
            current = Current.of(restore(entry.reason, parse_model(entry.reason, entry.document)))
        current = current.after(row, entry)
    return current
