"""A sequential test for losses that rise: alarms, with a bound on the probability of a false one.

Bettors bet against "it has not become worse since s": before s, that losses are below m; after s, that they are above
m + the tolerance. The smallest wealth over all m, and its mean over s by weights that add up to 1, stay below
1 / false_alarms for ever with probability 1 - false_alarms: docs/theory/drift.md has the proof.

All m from 0 to 1 are covered by cells: a bettor's gain is smallest at the lower edge of a cell before s, and at the
upper one after it. Candidates s grow sparser with their age: s is given up 8 times as many values after s as the
largest power of two that divides s, so that about 4 log2(n) of them are alive. What is given up, and wealth beyond the
largest, only makes the test more careful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import ParameterError, as_number

N_CELLS = 64
N_CANDIDATES = 320  # enough for 2^60 values
LIFE = 8
LARGEST_BET = 0.9  # of what a bettor has, in the worst case
MOST, LEAST_VARIANCE = 1e200, 1e-4
# Places of the counts: values since the last alarm, those left out included; values; their sum and sum of squares; how
# many candidates are alive.
SEEN, VALUES, SUM, SQUARES, ALIVE = range(5)

# Counts; wealth of those who bet on less, for each cell; of each candidate, the number of values before it and the sum
# of those since; and the wealth of those who bet on more since then, for each cell.
Watching: TypeAlias = tuple[Floats, Floats, FloatRows, FloatRows]


@compiled
def watch(threshold: float, tolerance: float, values: Floats, first: int, state: Watching) -> int:
    """Take values from number `first` on; return the number of the one that raises an alarm, or that of all values."""
    counts, down, candidates, wealth = state
    n_cells = len(down)
    for i in range(first, len(values)):
        x = values[i]
        counts[SEEN] += 1.0
        if math.isnan(x):
            continue
        n = counts[VALUES]
        mean = (counts[SUM] + 0.5) / (n + 1.0)  # as if there had been one value before, of mean and variance 1/2, 1/4
        variance = (counts[SQUARES] + 0.5) / (n + 1.0) - mean * mean
        variance = variance if variance > LEAST_VARIANCE else LEAST_VARIANCE
        evidence = 0.0
        for c in range(int(counts[ALIVE])):
            expected = (candidates[c, 1] + mean) / (n - candidates[c, 0] + 1.0)
            row = wealth[c]
            for k in range(n_cells):
                high = (k + 1.0) / n_cells + tolerance
                ahead = expected - high if expected > high else 0.0
                bet, most = ahead / (variance + ahead * ahead), LARGEST_BET / high
                grown = row[k] * (1.0 + (bet if bet < most else most) * (x - high))
                row[k] = grown if grown < MOST else MOST
            least = MOST
            for k in range(n_cells):
                least = row[k] if row[k] < least else least
            candidates[c, 1] += x
            evidence += least
        for k in range(n_cells):
            low = k / n_cells
            ahead = low - mean if low > mean else 0.0
            bet, most = ahead / (variance + ahead * ahead), LARGEST_BET / (1.0 - low)
            grown = down[k] * (1.0 - (bet if bet < most else most) * (x - low))
            down[k] = grown if grown < MOST else MOST
        counts[VALUES] += 1.0
        counts[SUM] += x
        counts[SQUARES] += x * x
        if evidence >= threshold:
            return i
        open_candidate(int(n) + 1, counts, down, candidates, wealth)
    return len(values)


@compiled
def open_candidate(s: int, counts: Floats, down: Floats, candidates: FloatRows, wealth: FloatRows) -> None:
    """Give up candidates whose time is over, and add one for a change after s values."""
    n_kept = 0
    for c in range(int(counts[ALIVE])):
        start = int(candidates[c, 0])
        if s - start < LIFE * (start & -start):
            if n_kept < c:
                candidates[n_kept, 0], candidates[n_kept, 1] = candidates[c, 0], candidates[c, 1]
                for k in range(len(down)):
                    wealth[n_kept, k] = wealth[c, k]
            n_kept += 1
    if n_kept < len(candidates):
        # Weights of all s: 1 / ((j + 1) (j + 2)) for those from 2^j to 2^(j+1) - 1 together, of these in proportion to
        # the largest power of two that divides s; the powers add up to 2^(j-1) (j + 2).
        j, power = 0, 1
        while 2 * power <= s:
            j, power = j + 1, 2 * power
        weight = (s & -s) / (0.5 * power * (j + 2.0)) / ((j + 1.0) * (j + 2.0))
        candidates[n_kept, 0], candidates[n_kept, 1] = s, 0.0
        for k in range(len(down)):
            wealth[n_kept, k] = weight * down[k]
        n_kept += 1
    counts[ALIVE] = n_kept


@dataclass(frozen=True)
class Change:
    """An alarm: losses have risen.

    Attributes
    ----------
    alarm : int
        Number of the value that raised it, from 0.
    since : int
        Number of the first value after the change, as far as can be told.
    before, after : float
        Means of the losses from the last alarm (or the first value) to the change, and from there to the alarm.
    """

    alarm: int
    since: int
    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"alarm at query {self.alarm + 1:,}: mean loss {self.after:.4f} since about query {self.since + 1:,}, "
            f"{self.before:.4f} before"
        )


class ChangeDetector:
    """Raise an alarm when losses from 0 to 1 have risen for good; values are given one at a time.

    If the expected loss, given the losses before it, never rises by more than the tolerance above an earlier one, and
    does not itself depend on those losses, the probability that there is ever an alarm is at most `false_alarms`.
    Losses may fall, as those of a learner do, and need not be of one distribution. After an alarm the test begins anew,
    with the same probability.

    - `loss`, `losses`: numbers from 0 to 1; NaN for queries that are left out.

    Parameters
    ----------
    false_alarms : float
        Probability of a false alarm, between 0 and 1.
    tolerance : float
        Largest rise of the mean loss that is not reported, at least 0 and less than 1.

    References
    ----------
    - I. Waudby-Smith and A. Ramdas, "Estimating Means of Bounded Random Variables by Betting".
    - J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: a Nonparametric Framework for Sequential Change Detection".

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.random.default_rng(0).beta([2] * 1000 + [4] * 1000, 4)
    >>> detector = ChangeDetector()
    >>> [change.alarm for loss in losses if (change := detector.add(loss))]
    [1082]
    """

    def __init__(self, false_alarms: float = 0.01, *, tolerance: float = 0.02) -> None:
        if not 0 < as_number(false_alarms) < 1:
            raise ParameterError("false_alarms", "must be between 0 and 1", false_alarms)
        if not 0 <= as_number(tolerance) < 1:
            raise ParameterError("tolerance", "must be at least 0 and less than 1", tolerance)
        self.false_alarms, self.tolerance = float(false_alarms), float(tolerance)
        self._origin = 0
        self._state = _start()

    @property
    def n_values(self) -> int:
        """Number of values so far, those left out included."""
        return self._origin + int(self._state[0][SEEN])

    def __repr__(self) -> str:
        return f"ChangeDetector({self.false_alarms}, tolerance={self.tolerance})"

    def add(self, loss: float) -> Change | None:
        """Take one loss; return the alarm that it raises, if it does."""
        return next(iter(self.add_all([loss])), None)

    def add_all(self, losses: npt.ArrayLike) -> list[Change]:
        """Take losses one after the other; return the alarms that they raise.

        If one is not from 0 to 1, ValueError is raised and none is taken.
        """
        values = np.ascontiguousarray(losses, dtype=np.float64)
        wrong = (values < 0) | (values > 1)
        if values.ndim != 1 or wrong.any():
            got = f"shape {values.shape}" if values.ndim != 1 else values[wrong][0]
            raise ValueError(f"losses must be a list of numbers from 0 to 1 (or NaN), got {got}")
        alarms, first = [], 0
        while first < len(values):
            at = watch(1.0 / self.false_alarms, self.tolerance, values, first, self._state)
            if at < len(values):
                alarms.append(self._alarm())
            first = at + 1
        return alarms

    def _alarm(self) -> Change:
        """Describe the alarm that the last value raised, and begin anew."""
        counts, _, candidates, wealth = self._state
        alive = int(counts[ALIVE])
        best = int(np.argmax(wealth[:alive].min(axis=1)))
        start, after = candidates[best]
        n, missing = counts[VALUES], counts[SEEN] - counts[VALUES]
        alarm = self.n_values - 1
        since = self._origin + int(start + round(missing * start / n))
        change = Change(alarm, since, float((counts[SUM] - after) / start), float(after / (n - start)))
        self._origin, self._state = alarm + 1, _start()
        return change


def _start() -> Watching:
    return np.zeros(5), np.ones(N_CELLS), np.zeros((N_CANDIDATES, 2)), np.zeros((N_CANDIDATES, N_CELLS))
