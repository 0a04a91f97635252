"""Adversaries, whose clicks mislead, and mixtures of users."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perceptrank.clicks.users.user import Shares, User, as_probabilities, as_probability, check_user
from perceptrank.kernels.arrays import Bools, Floats
from perceptrank.stream.validation import ParameterError, check_positive_whole


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


@dataclass(frozen=True)
class MixedUser(User):
    """Several kinds of users: one is drawn for each list."""

    users: tuple[User, ...]
    shares: Shares

    @property
    def coins(self) -> tuple[int, int]:
        """Random numbers: one per list to choose the user, and as many more as any of the users needs."""
        per_list, per_place = zip(*(user.coins for user in self.users), strict=True)
        return 1 + max(per_list), max(per_place)

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        chosen = np.searchsorted(np.cumsum(self.shares)[:-1], list_draws[:, 0], side="right")
        clicked, examined = np.zeros(grades.shape, bool), np.zeros(grades.shape, bool)
        for i, user in enumerate(self.users):
            rows = chosen == i
            per_list, per_place = user.coins
            clicked[rows], examined[rows] = user._respond(
                grades[rows], list_draws[rows, 1 : 1 + per_list], place_draws[rows][..., :per_place]
            )
        return clicked, examined

    def _probabilities(self, grades: Floats) -> Floats:
        pairs = zip(self.shares, self.users, strict=True)
        return np.asarray(sum(share * user._probabilities(grades) for share, user in pairs))


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


def mixture(users: Sequence[User], shares: Sequence[float] | None = None) -> User:
    """Return a mixture of users: for each list, one of them is drawn.

    Parameters
    ----------
    users : sequence of User
    shares : sequence of float, optional
        Probability of each user; they add up to 1. By default all are equal.

    Examples
    --------
    >>> import perceptrank as pr
    >>> mixture([pr.clicks.user("perfect", grades=2), pr.clicks.contrary()], [0.9, 0.1]).probabilities([1, 0])
    array([0.9, 0.1])
    """
    several = tuple(users)
    if not several:
        raise ParameterError("users", "must have at least one user", users)
    for i, user in enumerate(several):
        check_user(f"users[{i}]", user)
    weights = as_probabilities("shares", np.full(len(several), 1 / len(several)) if shares is None else shares)
    if len(weights) != len(several) or abs(sum(weights) - 1) > 1e-9:
        raise ParameterError("shares", f"must be {len(several)} probabilities that add up to 1", shares)
    return MixedUser(several, weights)
