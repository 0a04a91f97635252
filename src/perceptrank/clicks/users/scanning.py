"""Users who scan a list from the top until they stop: cascades and dynamic Bayesian networks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perceptrank.clicks.users.user import Shares, User, as_levels, as_probabilities, as_probability
from perceptrank.kernels.arrays import Bools, Floats
from perceptrank.stream.validation import ParameterError, check_choice

STOPS = ("click", "any")
# Probabilities of a click and of stopping by grade, for 5, 3 and 2 grades: Table 1 of the paper that `user` names. For
# the almost random user and binary grades, they are of its code.
CASCADES: dict[str, dict[int, tuple[Shares, Shares]]] = {
    "perfect": {
        5: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
        3: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        2: ((0.0, 1.0), (0.0, 0.0)),
    },
    "navigational": {
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        2: ((0.05, 0.95), (0.2, 0.9)),
    },
    "informational": {
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        2: ((0.4, 0.9), (0.1, 0.5)),
    },
    "almost-random": {
        5: ((0.4, 0.45, 0.5, 0.55, 0.6), (0.5, 0.5, 0.5, 0.5, 0.5)),
        3: ((0.4, 0.5, 0.6), (0.5, 0.5, 0.5)),
        2: ((0.4, 0.6), (0.5, 0.5)),
    },
}


@dataclass(frozen=True)
class ScanningUser(User):
    """Scans a list from the top, and stops with probabilities that depend on the grade and on whether it clicked."""

    attraction: Shares
    stop_clicked: Shares
    stop_skipped: Shares

    def _tables(self, grades: Floats) -> tuple[Floats, Floats, Floats]:
        levels = as_levels(grades, len(self.attraction))
        attraction, clicked, skipped = (
            np.array(table)[levels] for table in (self.attraction, self.stop_clicked, self.stop_skipped)
        )
        return attraction, clicked, skipped

    def _respond(self, grades: Floats, list_draws: Floats, place_draws: Floats) -> tuple[Bools, Bools]:
        attraction, stop_clicked, stop_skipped = self._tables(grades)
        attracted = place_draws[..., 0] < attraction
        stops = place_draws[..., 1] < np.where(attracted, stop_clicked, stop_skipped)
        examined = np.ones(grades.shape, bool)
        examined[:, 1:] = ~np.logical_or.accumulate(stops[:, :-1], axis=1)
        return attracted & examined, examined

    def _probabilities(self, grades: Floats) -> Floats:
        attraction, stop_clicked, stop_skipped = self._tables(grades)
        goes_on = 1 - attraction * stop_clicked - (1 - attraction) * stop_skipped
        examined = np.ones(grades.shape)
        examined[:, 1:] = np.cumprod(goes_on[:, :-1], axis=1)
        return np.asarray(examined * attraction)


def user(name: str, *, grades: int = 5, stop: str = "click") -> User:
    """Return a user by name, who scans the list from the top, clicks by grade, and may stop.

    Parameters
    ----------
    name : "perfect", "navigational", "informational", or "almost-random"
    grades : int
        Number of grades: 5 for grades 0 to 4, 3 for 0 to 2, 2 for 0 and 1.
    stop : "click" or "any"
        Whether the user may stop only after a click, as papers say, or after any document, as widely used code does.

    Notes
    -----
    Probabilities of a click by grade 0 to 4 and 0 to 2, and of stopping in parentheses:

    - perfect: 0 .2 .4 .8 1 (0) and 0 .5 1 (0),
    - navigational: .05 .3 .5 .7 .95 (.2 .3 .5 .7 .9) and .05 .5 .95 (.2 .5 .9),
    - informational: .4 .6 .7 .8 .9 (.1 .2 .3 .4 .5) and .4 .7 .9 (.1 .3 .5),
    - almost-random: .4 .45 .5 .55 .6 (.5) and .4 .5 .6 (.5).

    For grades 0 and 1, they are the first and the last of these. From Oosterhuis & de Rijke, "Differentiable Unbiased
    Online Learning to Rank", CIKM 2018, and its code: github.com/HarrieO/OnlineLearningToRank, utils/clicks.py.

    Examples
    --------
    >>> user("navigational", grades=3).probabilities([2, 2]).round(4)
    array([0.95  , 0.1378])
    """
    check_choice("name", name, CASCADES)
    if grades not in CASCADES[name]:
        raise ParameterError("grades", "must be 5, 3 or 2: cascade() takes probabilities of your own", grades)
    clicks, stops = CASCADES[name][grades]
    return cascade(clicks, stops, after=stop)


def cascade(click: Sequence[float], stop: Sequence[float], *, after: str = "click") -> User:
    """Return a user who scans a list from the top, clicks, and may stop.

    Parameters
    ----------
    click : sequence of float
        Probability of a click on an examined document, by grade: 0, 1, ….
    stop : sequence of float
        Probability of stopping, by grade.
    after : "click" or "any"
        Whether the user may stop only after a click, or after any document.

    Examples
    --------
    >>> cascade([0, 1], [0, 1]).probabilities([0, 1, 1])
    array([0., 1., 0.])
    """
    check_choice("stop", after, STOPS)
    attraction = as_probabilities("click", click)
    stops = as_probabilities("stop", stop, like=("click", attraction))
    return ScanningUser(attraction, stops, stops if after == "any" else (0.0,) * len(stops))


def dbn(attraction: Sequence[float], satisfaction: Sequence[float], *, continuation: float = 1.0) -> User:
    """Return a user of the dynamic Bayesian network model.

    The user scans the list from the top and clicks what attracts. A clicked document may satisfy the user, who then
    stops; otherwise, as after each document that is not clicked, the user continues with a fixed probability. Chapelle
    & Zhang, "A Dynamic Bayesian Network Click Model for Web Search Ranking", WWW 2009.

    Parameters
    ----------
    attraction : sequence of float
        Probability of a click on an examined document, by grade: 0, 1, ….
    satisfaction : sequence of float
        Probability that a clicked document satisfies, by grade.
    continuation : float
        Probability that a user who is not satisfied goes on; 1 is the simplified model.

    Examples
    --------
    >>> dbn([0, 1], [0, 0.5], continuation=0.5).probabilities([0, 1, 1])
    array([0.   , 0.5  , 0.125])
    """
    attracts = as_probabilities("attraction", attraction)
    satisfies = as_probabilities("satisfaction", satisfaction, like=("attraction", attracts))
    goes_on = as_probability("continuation", continuation)
    stops = tuple(1 - goes_on * (1 - share) for share in satisfies)
    return ScanningUser(attracts, stops, (1 - goes_on,) * len(attracts))
