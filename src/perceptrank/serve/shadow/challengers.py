"""The challengers of a ranker: adding, removing, comparing and promoting them, by entries of its log."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from perceptrank.io.model_file import model_text
from perceptrank.learners.learner import Learner
from perceptrank.serve.errors import FeatureMismatchError, InvalidRequestError, TooLargeError, UnknownError
from perceptrank.serve.log.opening import NAME
from perceptrank.serve.log.records import ChallengerEntry, Entry, PromotionEntry, RemovalEntry
from perceptrank.serve.replay import Current
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.shadow import Challenger, Shadow, check_measure
from perceptrank.serve.submissions import agree, started

MOST_CHALLENGERS = 16
_LARGEST = 1e300  # evidence that is shown


@dataclass(frozen=True)
class ShadowRequest:
    """A request for an entry about challengers, which is made once everything before it is learned."""

    make: Callable[[Current], Entry]
    future: Future[int]


class Shadowed:
    """The part of a ranker that is about its challengers.

    They learn silently from the same answers as the model that ranks, and are compared with it round by round.
    """

    settings: Settings

    @property
    @abstractmethod
    def current(self) -> Current:
        """The model now, and its version."""

    @abstractmethod
    def _put(self, item: Any) -> None: ...

    @abstractmethod
    def model_of(self, version: int) -> Learner:
        """Return the model of any version.

        To be called in the log's thread.

        Parameters
        ----------
        version : int
            From 1 on.

        Returns
        -------
        Learner
        """

    def add_challenger(self, name: str, model: Learner | int, measure: str = "ndcg@10") -> Future[int]:
        """Let a model learn silently, under a name; the future has the number of the entry.

        Parameters
        ----------
        name : str
            Name of the challenger.
        model : Learner or int
            What it starts from: a model, or the one of any version of this ranker.
        measure : str
            What it is compared by.

        Returns
        -------
        Future of int
            Number of the log's entry; it raises a `ServiceError` if the name is taken, there are too many, or the model
            has other features.

        Raises
        ------
        ServiceError
            If it is no name, or no measure to compare by.
        """
        if not NAME.fullmatch(name):
            raise InvalidRequestError(
                f"the name of a challenger must be up to 64 letters, digits, _ and -, got {name[:100]!r}",
                "choose another",
            )
        try:
            checked = check_measure(measure)
        except (ValueError, TypeError) as error:
            raise InvalidRequestError(str(error), "compare by ndcg@10, for example") from None

        def make(current: Current) -> Entry:
            if name in current.shadow.challengers:
                raise InvalidRequestError(
                    f"there is a challenger {name!r} already", "remove it, or choose another name"
                )
            if len(current.shadow.challengers) >= MOST_CHALLENGERS:
                raise TooLargeError(f"a ranker may have {MOST_CHALLENGERS} challengers", "remove one first")
            made = self.model_of(model) if isinstance(model, int) else model
            _check_features(name, made, current)
            return ChallengerEntry(time.time_ns(), name, checked, model_text(made.as_document()).encode())

        return self._ask_for(make)

    def remove_challenger(self, name: str) -> Future[int]:
        """Let a challenger go.

        Parameters
        ----------
        name : str
            Name of the challenger.

        Returns
        -------
        Future of int
            Number of the log's entry; it raises a `ServiceError` if there is no such challenger.
        """

        def make(current: Current) -> Entry:
            _challenger(current, name)
            return RemovalEntry(time.time_ns(), name)

        return self._ask_for(make)

    def promote_challenger(self, name: str) -> Future[int]:
        """Let a challenger rank from now on.

        Parameters
        ----------
        name : str
            Name of the challenger.

        Returns
        -------
        Future of int
            Number of the version that this makes; it raises a `ServiceError` if there is no such challenger.
        """

        def make(current: Current) -> Entry:
            _challenger(current, name)
            return PromotionEntry(time.time_ns(), name, None)

        return self._ask_for(make)

    def _ask_for(self, make: Callable[[Current], Entry]) -> Future[int]:
        future: Future[int] = started()
        self._put(ShadowRequest(make, future))
        return future

    def _due_promotion(self) -> PromotionEntry | None:
        """Return the promotion that is due, if promotions are automatic and a challenger is shown to be better."""
        error = self.settings.promote_at
        name = None if error is None else self.current.shadow.better(error)
        return None if name is None else PromotionEntry(time.time_ns(), name, error)

    def standings(self) -> dict[str, Any]:
        """Return who ranks, and how the challengers are doing, as plain values.

        Intervals have the error rate `error` over all rounds, however often one looks; so has `better`, over all
        challengers of the model that ranks now.

        Returns
        -------
        dict
            Plain values.
        """
        current, promote_at = self.current, self.settings.promote_at
        error, shadow = promote_at or self.settings.shadow_error, current.shadow
        last = shadow.promotion
        return {
            "model_version": current.version,
            "incumbent": {"algorithm": current.model.name, "learns": current.model.learns and not shadow.is_fixed},
            "error": error,
            "automatic": promote_at is not None,
            "last_promotion": last and {"model_version": last.version, "name": last.name, "error": last.error},
            "challengers": [_standing(name, one, error) for name, one in shadow.challengers.items()],
        }


def restoring(wanted: Shadow, there: Shadow) -> Iterator[Entry]:
    """Iterate over the entries that make challengers, which have learned less, those that are wanted."""
    for name in there.challengers:
        yield RemovalEntry(time.time_ns(), name)
    for name, one in wanted.challengers.items():
        yield ChallengerEntry(time.time_ns(), name, one.measure, model_text(one.model.as_document()).encode())


def _standing(name: str, one: Challenger, error: float) -> dict[str, Any]:
    compared, is_known = one.compared, one.compared.n_rounds > 0
    return {
        "name": name,
        "algorithm": one.model.name,
        "measure": one.measure,
        "since_version": one.since,
        "answers": compared.n_rounds,
        "incumbent_mean": compared.first_mean if is_known else None,
        "mean": compared.second_mean if is_known else None,
        "difference": compared.difference if is_known else None,
        "interval": list(compared.interval(error)),
        "evidence": min(math.exp(min(compared.log_evidence, 690.0)), _LARGEST),
        "needed_evidence": one.needed(error),
        "better": one.is_better(error),
        "refused_answers": one.refused,
        "last_refusal": one.refusal,
    }


def _challenger(current: Current, name: str) -> Challenger:
    if (found := current.shadow.challengers.get(name)) is None:
        there = ", ".join(map(repr, current.shadow.challengers)) or "none"
        raise UnknownError(f"there is no challenger {name[:100]!r}", f"there are {there}")
    return found


def _check_features(name: str, model: Learner, current: Current) -> None:
    state = model.model
    if not state.has_begun or current.n_features is None:
        return
    if state.n_inputs != current.n_features or not (
        state.feature_names is None or agree(current.names, state.feature_names)
    ):
        raise FeatureMismatchError(
            f"the challenger {name!r} has other features than the ranker", "send one that has learned from the same"
        )
