"""Items of the queue in front of the log, and checks of answers and models before they are logged."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
from perceptrank.learners.model import Model
from perceptrank.serve.errors import EventConflictError, FeatureMismatchError
from perceptrank.serve.learning import find_weights
from perceptrank.serve.log.records import Answered, Entry, QueryEntry, ShownEntry, as_bytes
from perceptrank.serve.replay import Current

_OTHER = "send one that has learned from the same features; other features need a ranker of their own"


class _Promise(Future[Any]):
    """A future that cannot be cancelled: whoever waits may give up, but the answer is logged."""

    def cancel(self) -> bool:
        """Leave it as it is."""
        return False


class Acknowledgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer is on disk, as entry `sequence` of the log; `duplicate` if it was there before.

    A `warning` says why nothing, or something wrong, may be learned from such answers.
    """

    event_id: str
    sequence: int
    duplicate: bool
    warning: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer to log, and the names of its features."""

    entry: Answered
    names: tuple[str, ...] | None
    warning: str = ""
    future: "Future[Acknowledgement]" = msgspec.field(default_factory=_Promise)

    @property
    def n_bytes(self) -> int:
        """Bytes of its features and grades: each answer to a ranking has a copy."""
        return self.entry.n_bytes


class EntryRequest(msgspec.Struct, frozen=True):
    """A request for an entry that is no answer; it is made once everything before it is learned."""

    make: Callable[[Current], Entry]
    future: "Future[int]" = msgspec.field(default_factory=_Promise)


class Mark(msgspec.Struct, frozen=True):
    """Everything before it is logged and learned when its future is done; the last one ends the thread."""

    future: "Future[None]" = msgspec.field(default_factory=_Promise)
    is_last: bool = False


def repeated(entry: QueryEntry, digest: bytes, used: "tuple[int, bytes]") -> Acknowledgement | EventConflictError:
    """Return the outcome for an event id that was used: at this entry, for an answer of this digest."""
    sequence, before = used
    if digest == before:
        return Acknowledgement(entry.event_id, sequence, True)
    return conflict(entry.event_id, f", entry {sequence}")


def conflict(event_id: str, where: str = "") -> EventConflictError:
    """Return the error for an event id that was used for something else."""
    return EventConflictError(
        f"the event_id {event_id!r} was used for another answer{where}",
        "give every answer its own event_id, also a second answer to the same ranking",
    )


def answered_before(entry: ShownEntry, end: "tuple[int, bytes]") -> EventConflictError:
    """Return the error for clicks on a list whose impression is in the log."""
    return EventConflictError(
        f"the ranking {entry.ranking_id} already has its final clicks, in entry {end[0]}",
        "send all clicks on a ranking at once, or each with more=true; late ones are not learned",
    )


def agree(own: tuple[str, ...] | None, names: tuple[str, ...] | None) -> bool:
    """Tell whether features, once in order, are those of a model; those without names go by their number."""
    return own is None or (names is not None and set(own) == set(names))


def in_order(answer: Answer, names: tuple[str, ...] | None) -> Answered:
    """Return an answer with its features in the order of the model, which may not have been known before."""
    own, entry = answer.names, answer.entry
    if names is None or own is None or own == names or set(own) != set(names):
        return entry
    features = as_bytes(entry.X[:, [own.index(name) for name in names]])
    if isinstance(entry, ShownEntry) and entry.names is not None:
        return msgspec.structs.replace(entry, features=features, names=list(names))
    return msgspec.structs.replace(entry, features=features)


def other_features() -> FeatureMismatchError:
    """Return the error for an answer to a ranking of other features."""
    return FeatureMismatchError(
        "the documents have other features than the model has by now",
        "rank again, or send documents and grades together to POST /v1/learn",
    )


def _check_features(what: str, model: Model, current: Current) -> None:
    """Raise if a model has other features than a ranker, and name them; either may have none yet."""
    if not model.has_begun or current.n_features is None:
        return
    if current.names is None or model.feature_names is None:
        if model.n_inputs == current.n_features:
            return
        difference = f"it has {model.n_inputs}, not {current.n_features}"
    else:
        own, theirs = set(current.names), set(model.feature_names)
        lacking = [name for name in current.names if name not in theirs]
        more = [name for name in model.feature_names if name not in own]
        if not lacking and not more:
            return
        parts = [f"it lacks {_listed(lacking)}"] * bool(lacking) + [f"it needs {_listed(more)}"] * bool(more)
        difference = ", and ".join(parts)
    raise FeatureMismatchError(f"{what} has other features than the ranker: {difference}", _OTHER)


def check_promotion(learner: Learner, current: Current, *, fixed: bool, what: str = "the model") -> None:
    """Raise if a ranker could not rank its features with a learner, and name it."""
    if current.n_features is None:
        return
    if fixed and not learner.model.has_begun:  # its weights may be of some features only
        try:
            find_weights(learner, current.n_features, current.names)
        except ValueError as error:
            raise FeatureMismatchError(f"{what} has no weights for the ranker: {error}", _OTHER) from None
        return
    model = ready_model(learner)
    _check_features(what, model, current)
    if model.has_begun and model.feature_names is None and current.names is not None:
        raise FeatureMismatchError(
            f"the features of {what} have no names, those of the ranker have: {_listed(current.names)}", _OTHER
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:100]) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
