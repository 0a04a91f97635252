"""Intervals for the probability that a document is clicked when it is seen.

A document was shown n_k times where the user looks with probability θ_k, and clicked c times in all. If a is the
probability that it is clicked when it is seen, c has the distribution of a sum of binomials with n_k trials and
probability θ_k a. The interval has all a for which neither P(C ≤ c) nor P(C ≥ c) is below half the error: as for
Clopper and Pearson's, the coverage is at least the confidence, whatever a is.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import betaincinv, gammaln, ndtri

from perceptrank.kernels.arrays import Floats, Ints

EXACT_UP_TO = 64  # clicks, or impressions without one; beyond, a bound
_AT_ONCE = 2**16  # numbers in one array of probabilities
_CLOSE = 1e-10  # in units of the normal distribution's quantiles
_SURE = 1e-16
_LARGEST = 700.0  # logarithm: what is multiplied by this is at least 1, or 0
_LEAST = 1e-300  # a probability that is as good as 0


def log_choices(c: int, shown: Floats) -> Floats:
    """Return the logarithm of the number of ways to choose 0, …, c of the impressions shown; -inf if there are none."""
    j, n = np.arange(c + 1), shown[..., None]
    return np.where(j <= n, gammaln(n + 1) - gammaln(j + 1) - gammaln(np.maximum(n - j, 0) + 1), -np.inf)


def sum_at_most(shown: Floats, clicked: Floats, missed: Floats, choices: Floats) -> Floats:
    """Return P(C ≤ c) for sums C of binomials, one sum per row, whose numbers of trials are its columns.

    Trials succeed with probability `clicked`, and fail with `missed`; `choices` are `log_choices(c, shown)`.
    """
    fail, succeed = np.log(np.maximum(missed, _LEAST)), np.log(np.maximum(clicked, _LEAST))
    terms: Floats = (succeed - fail)[..., None] * np.arange(float(choices.shape[2]))
    terms += (shown * fail)[..., None]
    terms += choices
    np.exp(terms, out=terms)
    total = terms[:, 0]
    for group in range(1, terms.shape[1]):
        joined = total * terms[:, group, :1]
        for k in range(1, terms.shape[2]):
            joined[:, k:] += total[:, :-k] * terms[:, group, k : k + 1]
        total = joined
    return np.asarray(np.minimum(total.sum(axis=1), 1.0))


def rates_at(probability: float, clicks: Ints, shown: Floats, examination: Floats) -> Floats:
    """Return the a at which P(C ≤ clicks) is the probability, at most 1; 0 for -1 clicks.

    Rows are documents, and columns groups of impressions with one examination probability; unused ones have none
    shown. Exact up to `EXACT_UP_TO` clicks, or impressions without one. Beyond, it is that of a single binomial with
    the same expectation, whose tails are not lighter (Hoeffding 1956, theorem 4).
    """
    total = shown.sum(axis=1)
    exposure = (shown * examination).sum(axis=1)
    rates = np.where(clicks >= total, 1.0, 0.0)
    inside = (clicks >= 0) & (clicks < total)
    c, n = clicks[inside], total[inside]
    with np.errstate(over="ignore"):  # of places that are hardly ever examined
        rates[inside] = np.minimum(betaincinv(c + 1.0, n - c, 1.0 - probability) * n / exposure[inside], 1.0)
    misses = total - clicks
    is_few = inside & (clicks <= EXACT_UP_TO)
    is_most = inside & ~is_few & (misses <= EXACT_UP_TO)
    for rows, counts in ((is_few, clicks), (is_most, misses)):
        for count in np.unique(counts[rows]).astype(int).tolist():
            chosen = np.flatnonzero(rows & (counts == count))
            size = max(1, _AT_ONCE // ((count + 1) * shown.shape[1]))
            for part in np.split(chosen, range(size, len(chosen), size)):
                choices = log_choices(count - (rows is is_most), shown[part])
                quantile = partial(_quantile, shown[part], examination[part], choices, rows is is_most)
                rates[part] = _find_rates(quantile, float(ndtri(probability)), rates[part])
    return rates


def _quantile(
    shown: Floats, examination: Floats, choices: Floats, are_misses: bool, roots: Floats, rows: Ints
) -> Floats:
    """Return the normal quantile of P(C ≤ c) if a is the root's square; c is told by clicks, or by misses."""
    p = np.minimum(examination[rows] * (roots**2)[:, None], 1.0)
    if are_misses:
        at_most = 1.0 - sum_at_most(shown[rows], 1.0 - p, p, choices[rows])
    else:
        at_most = sum_at_most(shown[rows], p, 1.0 - p, choices[rows])
    return np.asarray(ndtri(np.clip(at_most, _SURE, 1 - _SURE)))


def _find_rates(quantile: Callable[[Floats, Ints], Floats], target: float, start: Floats) -> Floats:
    """Find where the quantile is the target by the rule of false position, in its Illinois form.

    In √a, the quantile is nearly a straight line.
    """
    rows = np.arange(len(start))
    left, right = np.zeros(len(start)), np.ones(len(start))
    above, below = np.full(len(start), -ndtri(_SURE) - target), quantile(right, rows) - target
    stayed = np.zeros(len(start), dtype=np.int8)  # the end that did not move in the last step
    x = np.where(below >= 0, 1.0, np.sqrt(np.clip(start, 1e-12, 1 - 1e-9)))
    rows = rows[below < 0]
    while len(rows):
        y = quantile(x[rows], rows) - target
        is_left = y > 0
        for moved, end, value, other, side in (
            (rows[is_left], left, above, below, 1),
            (rows[~is_left], right, below, above, -1),
        ):
            end[moved], value[moved] = x[moved], y[is_left if side > 0 else ~is_left]
            other[moved] /= np.where(stayed[moved] == side, 2.0, 1.0)
            stayed[moved] = side
        rows = rows[(np.abs(y) > _CLOSE) & (right[rows] - left[rows] > _CLOSE * right[rows])]
        share = above[rows] / (above[rows] - below[rows])
        x[rows] = left[rows] + share * (right[rows] - left[rows])
    return np.asarray(x * x)


def position_based_interval(
    clicks: Floats, shown: Floats, examination: Floats, log_margin: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Return the interval of a for each document.

    `log_margin`, the largest error of the logarithm of the exposure Σ n_k θ_k that is to be expected, is added to both
    ends in logarithms. Of clicks that are not whole, the interval has room for the whole numbers below and above.
    """
    fewest, most = np.floor(clicks).astype(np.int64), np.ceil(clicks).astype(np.int64)
    tail, factor = (1.0 - confidence) / 2, np.exp(np.minimum(log_margin, _LARGEST))
    low = rates_at(1.0 - tail, fewest - 1, shown, examination) / factor
    high = rates_at(tail, most, shown, examination) * factor
    return np.asarray(low), np.minimum(high, 1.0)


def binomial_interval(clicks: Floats, shown: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's interval; of clicks that are not whole, see `position_based_interval`.

    >>> low, high = binomial_interval(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.025], [0.975, 1.0])
    """
    fewest, most, tail = np.floor(clicks), np.ceil(clicks), (1.0 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(fewest > 0, betaincinv(fewest, shown - fewest + 1, tail), 0.0)
        high = np.where(most < shown, betaincinv(most + 1, shown - most, 1.0 - tail), 1.0)
    return low, high
