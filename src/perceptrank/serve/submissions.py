"""Items of the queue in front of the log, and checks of answers before they are logged."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import msgspec

from perceptrank.serve.errors import EventConflictError, FeatureMismatchError
from perceptrank.serve.log.records import AnswerEntry, Entry, as_bytes
from perceptrank.serve.replay import Current


def _new_future() -> "Future[Any]":
    """Return a future that cannot be cancelled: whoever waits may give up, but the answer is logged."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


class Acknowledgement(msgspec.Struct, frozen=True):
    """An answer is on disk, as entry `sequence` of the log; `duplicate` if it was there before."""

    event_id: str
    sequence: int
    duplicate: bool


@dataclass(frozen=True)
class Answer:
    """An answer to log, and the names of its features."""

    entry: AnswerEntry
    names: tuple[str, ...] | None
    future: "Future[Acknowledgement]" = field(default_factory=_new_future)


@dataclass(frozen=True)
class EntryRequest:
    """A request for an entry that is no answer; it is made once everything before it is learned."""

    make: Callable[[Current], Entry]
    future: "Future[int]" = field(default_factory=_new_future)


@dataclass(frozen=True)
class Mark:
    """Everything before it is logged and learned when its future is done; the last one ends the thread."""

    future: "Future[None]" = field(default_factory=_new_future)
    is_last: bool = False


def repeated(entry: AnswerEntry, digest: bytes, used: "tuple[int, bytes]") -> Acknowledgement | EventConflictError:
    """Return the outcome for an event id that was used: at this entry, for an answer of this digest."""
    sequence, before = used
    if digest == before:
        return Acknowledgement(entry.event_id, sequence, True)
    return EventConflictError(
        f"the event_id {entry.event_id!r} was used for another answer, entry {sequence}",
        "give every answer an event_id of its own; one to the same ranking needs one too",
    )


def agree(own: tuple[str, ...] | None, names: tuple[str, ...] | None) -> bool:
    """Tell whether features, once in order, are those of a model; those without names go by their number."""
    return own is None or (names is not None and set(own) == set(names))


def in_order(answer: Answer, names: tuple[str, ...] | None) -> AnswerEntry:
    """Return an answer with its features in the order of the model, which may not have been known before."""
    own, entry = answer.names, answer.entry
    if names is None or own is None or own == names or set(own) != set(names):
        return entry
    return msgspec.structs.replace(entry, features=as_bytes(entry.X[:, [own.index(name) for name in names]]))


def other_features() -> FeatureMismatchError:
    """Return the error for an answer to a ranking of other features."""
    return FeatureMismatchError(
        "the documents have other features than the model has by now",
        "rank again, or send documents and grades together to POST /v1/learn",
    )
