"""Mixtures of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perceptrank.clicks.users.user import Shares, User, as_probabilities, check_user
from perceptrank.kernels.arrays import Bools, Floats
from perceptrank.stream.validation import ParameterError


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
        return np.asarray(
            sum(share * user._probabilities(grades) for share, user in zip(self.shares, self.users, strict=True))
        )


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
