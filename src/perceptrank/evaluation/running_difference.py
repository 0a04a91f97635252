"""The mean difference of two rankers, round by round, with an interval that may be looked at after every round.

Let D_t in [-1, 1] be what the second ranker's measure exceeds the first one's by in round t, and m_t its expectation
given all that came before. For 0 < b < 1, the product over rounds of (1 + b D_t) exp(-b m_t) is a supermartingale that
begins at 1, since E[1 + b D_t | past] = 1 + b m_t ≤ exp(b m_t). So is the mean over several b, and by Ville's
inequality, with probability at least 1 - a it never reaches 1 / a. The sums of m_t for which it has not are an
interval, at all times at once. With the sum at 0, the product is the capital of one who bets the share b on the second
ranker in every round: the evidence that it is ahead.

I. Waudby-Smith, A. Ramdas (2024): Estimating means of bounded random variables by betting.
Y. J. Choe, A. Ramdas (2024): Comparing sequential forecasters; for means that change.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

from perceptrank.stream.validation import ParameterError

# Shares that are bet, each with the same part of the capital: about m / variance is best, which is not known.
BETS = tuple(2.0**-k for k in range(1, 13))
_NOTHING = (0.0,) * len(BETS)
_HALVINGS = 60


@dataclass(frozen=True)
class RunningDifference:
    """Two rankers on the same rounds; replaced by `after` with every round, never changed.

    Examples
    --------
    >>> running = RunningDifference()
    >>> for _ in range(100):
    ...     running = running.after(0.5, 0.75)
    >>> running.difference, running.interval(0.05)[0] > 0, running.log_evidence > math.log(1 / 0.05)
    (0.25, True, True)
    """

    n_rounds: int = 0
    # sums of the rankers' values
    first: float = 0.0
    second: float = 0.0
    # logarithms of the capital that each bet on either ranker has made of 1
    for_second: tuple[float, ...] = _NOTHING
    for_first: tuple[float, ...] = _NOTHING

    def after(self, first: float, second: float) -> Self:
        """Return what follows when the rankers get these values, from 0 to 1, in the next round."""
        d = min(max(second - first, -1.0), 1.0)
        log1p = math.log1p
        return type(self)(
            self.n_rounds + 1,
            self.first + first,
            self.second + second,
            tuple([sum + log1p(b * d) for b, sum in zip(BETS, self.for_second, strict=True)]),
            tuple([sum + log1p(-b * d) for b, sum in zip(BETS, self.for_first, strict=True)]),
        )

    @property
    def first_mean(self) -> float:
        """Mean of the first ranker; NaN before the first round."""
        return self.first / self.n_rounds if self.n_rounds else math.nan

    @property
    def second_mean(self) -> float:
        """Mean of the second ranker; NaN before the first round."""
        return self.second / self.n_rounds if self.n_rounds else math.nan

    @property
    def difference(self) -> float:
        """Mean of the second ranker less that of the first; NaN before the first round."""
        return (self.second - self.first) / self.n_rounds if self.n_rounds else math.nan

    @property
    def log_evidence(self) -> float:
        """Logarithm of the capital of one who bets that the second ranker is ahead.

        While the mean of expected differences was not above 0, it ever exceeds log(1 / a) with probability at most a.
        """
        return _log_capital(self.for_second, 0.0)

    def interval(self, error: float) -> tuple[float, float]:
        """Return bounds of the mean of the expected differences so far; `error` bounds the chance of ever failing."""
        if not 0.0 < error < 1.0:
            raise ParameterError("error", "must be between 0 and 1", error)
        if not self.n_rounds:
            return -1.0, 1.0
        below = _smallest_sum(self.for_second, 2.0 / error) / self.n_rounds
        above = -_smallest_sum(self.for_first, 2.0 / error) / self.n_rounds
        return max(below, -1.0), min(above, 1.0)

    def as_plain(self) -> list[Any]:
        """Return it as a list that JSON keeps to the bit."""
        return [self.n_rounds, self.first, self.second, list(self.for_second), list(self.for_first)]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Self:
        """Return what `as_plain` was called on."""
        n_rounds, first, second, *capitals = plain
        for_second, for_first = (tuple(map(float, logs)) for logs in capitals)
        if not len(for_second) == len(for_first) == len(BETS):
            raise ValueError(f"{len(BETS)} bets on either ranker, got {len(for_second)} and {len(for_first)}")
        return cls(int(n_rounds), float(first), float(second), for_second, for_first)


def _log_capital(logs: tuple[float, ...], total: float) -> float:
    """Return the logarithm of the mean of exp(log - bet * total)."""
    exponents = [log - b * total for b, log in zip(BETS, logs, strict=True)]
    largest = max(exponents)
    return largest + math.log(math.fsum(math.exp(exponent - largest) for exponent in exponents) / len(BETS))


def _smallest_sum(logs: tuple[float, ...], limit: float) -> float:
    """Return the smallest sum of expected differences with which the capital has not reached a limit."""
    wanted = math.log(limit)
    # The mean is at most its largest term, and at least that by the number of terms.
    above = max((log - wanted) / b for b, log in zip(BETS, logs, strict=True))
    below = max((log - wanted - math.log(len(BETS))) / b for b, log in zip(BETS, logs, strict=True))
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if _log_capital(logs, middle) >= wanted:
            below = middle
        else:
            above = middle
    return below
