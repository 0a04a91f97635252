"""Adversaries: users whose clicks mislead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perceptrank.clicks.users.user import User, as_probability, check_user
from perceptrank.kernels.arrays import Bools, Floats
from perceptrank.stream.validation import check_positive_whole


@dataclass(frozen=True)
class ContraryUser(User):
    """Examines all documents and clicks the least relevant one, the first of them if there are several."""

    coins = 0, 0  # no random numbers are used

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        return self._probabilities(grades) == 1, np.ones(grades.shape, bool)

    def _probabilities(self, grades: Floats) -> Floats:
        lowest = np.where(np.isnan(grades), np.inf, grades).min(axis=1, initial=np.inf)
        is_lowest = grades == lowest[:, None]
        return np.asarray(is_lowest & (np.cumsum(is_lowest, axis=1) == 1), np.float64)


@dataclass(frozen=True)
class OnePlaceUser(User):
    """Examines and clicks one place, whatever is there."""

    place: int

    coins = 0, 0  # no random numbers are used

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        clicked = self._probabilities(grades) == 1
        return clicked, clicked

    def _probabilities(self, grades: Floats) -> Floats:
        return np.broadcast_to(np.arange(1, grades.shape[1] + 1) == self.place, grades.shape).astype(np.float64)


@dataclass(frozen=True)
class CorruptedUser(User):
    """A user whose clicks are inverted at a share of the places."""

    user: User
    share: float

    @property
    def coins(self) -> tuple[int, int]:
        """Random numbers: those of the user, and one more per place."""
        per_list, per_place = self.user.coins
        return per_list, per_place + 1

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        clicked, examined = self.user._respond(grades, list_draws, place_draws[..., :-1])
        recorded = clicked ^ (place_draws[..., -1] < self.share)
        return recorded, examined | recorded

    def _probabilities(self, grades: Floats) -> Floats:
        clicked = self.user._probabilities(grades)
        return clicked * (1 - self.share) + (1 - clicked) * self.share


def contrary() -> User:
    """Return an adversary that clicks the least relevant document shown, the first of them if there are several.

    Examples
    --------
    >>> contrary().probabilities([2, 0, 1, 0])
    array([0., 1., 0., 0.])
    """
    return ContraryUser()


def only_place(place: int) -> User:
    """Return an adversary that always clicks the same place, whatever document is there.

    Parameters
    ----------
    place : int
        Counted from 1. Nothing is clicked in shorter lists.

    Examples
    --------
    >>> only_place(2).probabilities([4, 0, 4])
    array([0., 1., 0.])
    """
    return OnePlaceUser(check_positive_whole("place", place))


def corrupted(user: User, share: float) -> User:
    """Return a user whose clicks are inverted at a share of the places, each independently of the others.

    Parameters
    ----------
    user : User
    share : float
        Probability that what is recorded is the opposite of what the user did: a click for none, none for a click.

    Examples
    --------
    >>> import perceptrank as pr
    >>> corrupted(pr.clicks.user("perfect", grades=2), 0.25).probabilities([1, 0])
    array([0.75, 0.25])
    """
    check_user("user", user)
    return CorruptedUser(user, as_probability("share", share))
