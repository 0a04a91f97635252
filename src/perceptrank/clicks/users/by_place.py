"""Users who look at places: the position-based model, trust bias, and the user browsing model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.users.user import Shares, User, as_levels, as_probabilities
from perceptrank.kernels.arrays import Bools, Floats
from perceptrank.stream.validation import ParameterError


@dataclass(frozen=True)
class PlaceUser(User):
    """Examines each place with its own probability, and clicks by grade and place, whatever happens elsewhere.

    The probability of a click is ``examination * (attraction * trust + (1 - attraction) * mistake)``.
    """

    examination: Shares
    attraction: Shares
    trust: Shares
    mistake: Shares

    def _given_examined(self, grades: Floats) -> Floats:
        """Return the probability of a click on what is examined."""
        _check_length(grades, len(self.examination))
        n = grades.shape[1]
        attraction = np.array(self.attraction)[as_levels(grades, len(self.attraction))]
        return np.asarray(attraction * self.trust[:n] + (1 - attraction) * self.mistake[:n])

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        likes = place_draws[..., 1] < self._given_examined(grades)
        examined = place_draws[..., 0] < np.array(self.examination[: grades.shape[1]])
        return likes & examined, examined

    def _probabilities(self, grades: Floats) -> Floats:
        return self._given_examined(grades) * self.examination[: grades.shape[1]]


@dataclass(frozen=True)
class BrowsingUser(User):
    """Examines a place with a probability that depends on it and on the last place clicked, 0 if there is none."""

    examination: tuple[Shares, ...]
    attraction: Shares

    def _tables(self, grades: Floats) -> tuple[Floats, Floats]:
        """Return the examination by place and last click, and the attraction of each document."""
        n_places = len(self.examination)
        _check_length(grades, n_places)
        examination = np.zeros((n_places, n_places + 1))
        for place, row in enumerate(self.examination):
            examination[place, : place + 1] = row
        return examination, np.array(self.attraction)[as_levels(grades, len(self.attraction))]

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        examination, attraction = self._tables(grades)
        clicked, examined = np.zeros(grades.shape, bool), np.zeros(grades.shape, bool)
        last = np.zeros(len(grades), np.int64)
        for place in range(grades.shape[1]):
            examined[:, place] = place_draws[:, place, 0] < examination[place, last]
            clicked[:, place] = examined[:, place] & (place_draws[:, place, 1] < attraction[:, place])
            last[clicked[:, place]] = place + 1
        return clicked, examined

    def _probabilities(self, grades: Floats) -> Floats:
        examination, attraction = self._tables(grades)
        chances = np.zeros(grades.shape)
        last = np.zeros((len(grades), grades.shape[1] + 1))  # probability of each last click, before a place
        last[:, 0] = 1
        for place in range(grades.shape[1]):
            clicks = last[:, : place + 1] * examination[place, : place + 1] * attraction[:, place, None]
            chances[:, place] = clicks.sum(axis=1)
            last[:, : place + 1] -= clicks
            last[:, place + 1] = chances[:, place]
        return chances


def position_based(examination: Sequence[float], *, attraction: Sequence[float] | None = None) -> User:
    """Return a user of the position-based model: the probability of a click is examination times attraction.

    Craswell et al., "An experimental comparison of click position-bias models", WSDM 2008.

    Parameters
    ----------
    examination : sequence of float
        Probability that each place is examined, from the first.
    attraction : sequence of float, optional
        Probability of a click on an examined document, by grade: 0, 1, …. By default ``0.1 + 0.9 (2^g - 1) / 15`` for
        grades g from 0 to 4, that of Ai et al., SIGIR 2018.

    Examples
    --------
    >>> position_based([1, 0.5, 0.25], attraction=[0, 1]).probabilities([1, 1, 0])
    array([1. , 0.5, 0. ])
    """
    n = len(as_probabilities("examination", examination))
    return trust_bias(examination, [1.0] * n, [0.0] * n, attraction=attraction)


def trust_bias(
    examination: Sequence[float],
    trust: Sequence[float],
    mistake: Sequence[float],
    *,
    attraction: Sequence[float] | None = None,
) -> User:
    """Return a user who examines by place, and misjudges what is examined, more so where the ranking is trusted.

    A document appears relevant with the probability of its attraction, a, so the probability of a click is
    ``examination (trust - mistake) a + examination mistake``. The other parameters are those of `position_based`.
    Agarwal et al., "Addressing Trust Bias for Unbiased Learning-to-Rank", WWW 2019; Vardasbi, Oosterhuis & de Rijke,
    "When Inverse Propensity Scoring does not Work", CIKM 2020.

    Parameters
    ----------
    trust : sequence of float
        Probability of a click on a relevant document that is examined, by place.
    mistake : sequence of float
        Probability of a click on another document that is examined, by place.

    Examples
    --------
    >>> trust_bias([1, 0.5], [1, 0.75], [0.5, 0.25], attraction=[0, 1]).probabilities([[0, 0], [1, 1]])
    array([[0.5  , 0.125],
           [1.   , 0.375]])
    """
    places = as_probabilities("examination", examination)
    right = as_probabilities("trust", trust, like=("examination", places))
    wrong = as_probabilities("mistake", mistake, like=("examination", places))
    return PlaceUser(places, _attraction(attraction), right, wrong)


def ubm(examination: Sequence[npt.ArrayLike], *, attraction: Sequence[float] | None = None) -> User:
    """Return a user of the user browsing model: examination depends on the place and on the last place clicked.

    Dupret & Piwowarski, "A user browsing model to predict search engine click data from past observations", SIGIR 2008.
    The other parameters are those of `position_based`.

    Parameters
    ----------
    examination : sequence of sequences of float
        Row k, from 1, has the probabilities that place k is examined, if none of those above was clicked, and if the
        last one that was clicked is place 1, 2, …, k - 1: k probabilities.

    Examples
    --------
    >>> ubm([[1], [0.5, 1]], attraction=[0, 1]).probabilities([[0, 1], [1, 1]])
    array([[0. , 0.5],
           [1. , 1. ]])
    """
    rows = tuple(as_probabilities(f"examination[{i}]", row) for i, row in enumerate(examination))
    if not rows:
        raise ParameterError("examination", "must have a row for each place", examination)
    for i, row in enumerate(rows):
        if len(row) != i + 1:
            raise ParameterError(f"examination[{i}]", f"must have {i + 1} probabilities", list(row))
    return BrowsingUser(rows, _attraction(attraction))


def noisy_attraction(n_grades: int) -> Shares:
    """Return ``0.1 + 0.9 (2^g - 1) / (2^G - 1)`` for each grade g up to the greatest, G."""
    return tuple(0.1 + 0.9 * (2.0**grade - 1) / (2.0 ** (n_grades - 1) - 1) for grade in range(n_grades))


def _attraction(attraction: Sequence[float] | None) -> Shares:
    return noisy_attraction(5) if attraction is None else as_probabilities("attraction", attraction)


def _check_length(grades: Floats, n_places: int) -> None:
    if grades.shape[1] > n_places:
        raise ValueError(
            f"grades must have at most {n_places} places, as many as examination has probabilities, got "
            f"{grades.shape[1]}: show fewer documents, or give more probabilities"
        )
