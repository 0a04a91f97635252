"""The base of simulated users: lists in, clicks and probabilities out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.lists import as_lists
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.stream.validation import ParameterError, as_number, as_numbers

Shares: TypeAlias = tuple[float, ...]
_PART_VALUES = 2**16


class Response(NamedTuple):
    """Clicks of a user and what was examined; for several lists, one row each.

    Attributes
    ----------
    clicked : array of int
        1 for each place that was clicked, else 0.
    examined : array of int
        1 for each place that was examined, else 0.
    """

    clicked: Ints
    examined: Ints


class User(ABC):
    """A simulated user, made by `user`, `cascade`, `position_based`, `trust_bias`, `dbn`, `ubm` and others.

    Methods take the grades of a list in the order shown. A matrix holds several lists, one per row, padded with NaN;
    results are the same as for one list after the other. They take:

    - `grades`: array of shape (places,) or (lists, places);
    - `rng`: numpy.random.Generator.

    Examples
    --------
    >>> import numpy as np
    >>> import perceptrank as pr
    >>> user = pr.clicks.user("perfect", grades=3)
    >>> user.click([2, 0, 1, 2], np.random.default_rng(0))
    array([1, 0, 0, 1])
    >>> user.probabilities([[2, 0, 1, 2], [1, 2, np.nan, np.nan]])
    array([[1. , 0. , 0.5, 1. ],
           [0.5, 1. , 0. , 0. ]])
    """

    @property
    def coins(self) -> tuple[int, int]:
        """Number of random numbers used per list, and per place."""
        return 0, 2

    def click(self, grades: npt.ArrayLike, rng: np.random.Generator) -> Ints:
        """Return 1 for each place that is clicked, else 0."""
        return self.respond(grades, rng).clicked

    def respond(self, grades: npt.ArrayLike, rng: np.random.Generator) -> Response:
        """Return what is clicked and what is examined."""
        lists = as_lists("grades", grades)
        rng = np.random.default_rng(rng)
        clicked, examined = np.zeros(lists.values.shape, np.int64), np.zeros(lists.values.shape, np.int64)
        for part in _parts(lists.values):
            present = lists.present[part]
            flags = self._respond(lists.values[part], *self._toss(present, rng))
            clicked[part], examined[part] = flags[0] & present, flags[1] & present
        return Response(clicked[0], examined[0]) if lists.is_single else Response(clicked, examined)

    def _toss(self, present: Bools, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw numbers from [0, 1) per list and per place, those of one list after those of another."""
        n_lists, n_places = present.shape
        per_list, per_place = self.coins
        used = np.ones((n_lists, per_list + n_places * per_place), bool)
        used[:, per_list:] = np.repeat(present, per_place, axis=1)
        draws = np.zeros(used.shape)
        draws[used] = rng.random(int(np.count_nonzero(used)))
        return draws[:, :per_list], draws[:, per_list:].reshape(n_lists, n_places, per_place)

    def probabilities(self, grades: npt.ArrayLike) -> Floats:
        """Return the probability of a click at each place, exactly."""
        lists = as_lists("grades", grades)
        chances = np.zeros(lists.values.shape)
        for part in _parts(lists.values):
            chances[part] = np.where(lists.present[part], self._probabilities(lists.values[part]), 0.0)
        return chances[0] if lists.is_single else chances

    @abstractmethod
    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        """Tell what is clicked and what is examined, given draws from [0, 1) per list and per place."""

    @abstractmethod
    def _probabilities(self, grades: Floats) -> Floats:
        """Return the probability of each click."""


def _parts(rows: Floats) -> Iterator[slice]:
    """Yield slices of rows that fit in the cache."""
    size = max(1, _PART_VALUES // max(1, rows.shape[1]))
    return (slice(start, start + size) for start in range(0, len(rows), size))


def as_levels(grades: Floats, n_levels: int) -> Ints:
    """Return grades as indices of a table, 0 where a list has ended; raise `ValueError` if the table has no such."""
    invalid = ~np.isnan(grades) & ((grades < 0) | (grades >= n_levels) | (grades != np.floor(grades)))
    if invalid.any():
        row, place = np.argwhere(invalid)[0]
        raise ValueError(
            f"grades must be whole numbers from 0 to {n_levels - 1} for this user, got {grades[row, place]:g} at place "
            f"{place + 1}: choose a user for the grades of your data"
        )
    return np.where(np.isnan(grades), 0, grades).astype(np.int64)


def as_probability(name: str, value: Any) -> float:
    """Return a number in [0, 1] as a float; raise if it is none."""
    number = as_number(value)
    if not 0 <= number <= 1:
        raise ParameterError(name, "must be a probability", value)
    return number


def as_probabilities(name: str, values: npt.ArrayLike, *, like: tuple[str, Shares] | None = None) -> Shares:
    """Return numbers in [0, 1] as a tuple; raise if one is invalid, if there are none, or not as many as `like`."""
    numbers = as_numbers(name, values).astype(np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise ParameterError(name, "must be a list of probabilities", values)
    for i, number in enumerate(numbers.tolist()):
        if not 0 <= number <= 1:
            raise ParameterError(name, f"must be probabilities, which number {i + 1} is not", number)
    if like is not None and len(numbers) != len(like[1]):
        raise ParameterError(name, f"must have as many probabilities as {like[0]} ({len(like[1])})", numbers.tolist())
    return tuple(numbers.tolist())


def check_user(name: str, user: Any) -> None:
    """Raise unless something is a user."""
    if not isinstance(user, User):
        raise ParameterError(name, "must be a user, such as perceptrank.clicks.user('navigational')", user)
