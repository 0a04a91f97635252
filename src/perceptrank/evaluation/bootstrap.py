"""Paired bootstrap over queries, with simultaneous confidence intervals."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammainccinv, ndtr, ndtri, stdtrit

from perceptrank.kernels.arrays import Bools, FloatRows, Floats
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.processors import n_processors
from perceptrank.stream.validation import read_only

FEWEST_QUERIES = 30
_DRAWN_AT_ONCE = 10**7
_FEWEST_NOT_ZERO = 10
_ENOUGH_NOT_ZERO = 100
_LARGEST_RESAMPLE, _LARGEST_OF_MANY = 2**14, 2**12
_ALL_ONE: Floats = np.empty(0)


def resampled_means(values: Floats, n_resamples: int, rng: np.random.Generator, weights: Floats | None) -> Floats:
    """Return bootstrap means of each row, over columns drawn with replacement; weights must be positive."""
    n = values.shape[1]
    means = np.empty((n_resamples, len(values)))
    at_once = max(1, min(100, _DRAWN_AT_ONCE // n))
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
        weighted = counts if weights is None else counts * weights
        means[start : start + size] = weighted @ values.T / weighted.sum(axis=1, keepdims=True)
    return means


class PairedIntervals(NamedTuple):
    """Means of rows, their intervals, and the half-widths of the intervals of all differences of two rows."""

    per_order: Floats  # rows x orders
    low: Floats
    high: Floats
    half_widths: Floats  # rows x rows


def paired_intervals(
    values: Floats,
    weights: Floats | None,
    n_orders: int,
    n_measures: int,
    confidence: float,
    n_resamples: int,
    seed: int,
) -> PairedIntervals:
    """Return intervals from a paired bootstrap: columns are drawn with replacement, the same for all rows.

    Values have `n_orders` successive rows for each learner; of several orders, these are resampled too. Intervals of
    differences hold at once for all pairs of learners, and for so many measures.

    Of the variance of a difference, the part s² is due to the r orders. Resampling finds it too small by s² / r, and it
    is known from r values only: its part of the half-width is that of Student's t with r - 1 degrees of freedom, and
    the critical value at least Bonferroni's.
    """
    n = values.shape[1] if weights is None else float(weights.sum() ** 2 / (weights @ weights))
    means = np.average(values, axis=1, weights=weights)
    per_order: Floats = means.reshape(-1, n_orders)
    rng = np.random.default_rng(seed)
    drawn = resampled_means(values, n_resamples, rng, weights)
    if n_orders > 1:
        shares = rng.multinomial(n_orders, np.full(n_orders, 1 / n_orders), size=n_resamples) / n_orders
        drawn = np.einsum("blr,br->bl", drawn.reshape(n_resamples, -1, n_orders), shares)
        means = per_order.mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    family = 1 - (1 - confidence) / n_measures
    critical, errors = _pairwise_errors(drawn, means, family)
    correction = np.sqrt(n / max(1, n - 1))
    half_widths = critical * errors * correction
    if n_orders > 1:
        n_pairs = max(1, len(means) * (len(means) - 1) // 2)
        critical = max(critical, -ndtri((1 - family) / (2 * n_pairs)))
        due = (per_order[:, None] - per_order[None]).var(axis=2, ddof=1) / n_orders
        others = np.maximum((errors * correction) ** 2 + due / n_orders - due, 0.0)
        half_widths = np.sqrt(critical**2 * others + stdtrit(n_orders - 1, ndtr(-critical)) ** 2 * due)
    if n < FEWEST_QUERIES:
        low, high, half_widths = (np.full_like(bounds, np.nan) for bounds in (low, high, half_widths))
    return PairedIntervals(per_order, low, high, half_widths)


def _pairwise_errors(drawn: Floats, means: Floats, confidence: float) -> tuple[np.float64, Floats]:
    """Return how many standard errors intervals of differences extend, and these errors, rows x rows.

    The number is the quantile of the largest studentised deviation among all pairs: the intervals hold at once.
    """
    deviations = drawn - means
    largest = np.zeros(len(drawn))
    errors = np.zeros((len(means), len(means)))
    for i in range(len(means)):
        difference = deviations[:, [i]] - deviations
        errors[i] = difference.std(axis=0)
        np.maximum(largest, (np.abs(difference) / np.where(errors[i] > 0, errors[i], np.inf)).max(axis=1), out=largest)
    return np.quantile(largest, confidence), errors


class Intervals(NamedTuple):
    """Simultaneous intervals of the means of the columns of one or several samples: samples x columns each."""

    mean: Floats
    error: Floats  # standard error of the mean
    low: Floats
    high: Floats
    critical: Floats  # half-width in standard errors, NaN of those that are not resampled


def simultaneous_intervals(
    samples: Sequence[Floats], weights: Sequence[Floats | None], *, confidence: float, n_resamples: int, seed: int
) -> Intervals:
    """Return confidence intervals for the mean of each column of each sample, which hold all at once.

    Values are between -1 and 1, NaN where a row does not count for a column; the samples have no row in common. A row
    of weight 0 does not count. An interval extends by as many standard errors as the largest studentised deviation of
    all means has in resamples of the rows, at its quantile. If fewer than 10 rows are not 0, resampling tells little:
    then their share in all that could come is at most the upper limit of a Poisson mean, and the mean is not larger,
    times the largest value seen if that is beyond 1. A column with fewer than 30 values, by their effective number if
    they have weights, has no interval, NaN.
    """
    drawn_from = [_Sample(sample, own) for sample, own in zip(samples, weights, strict=True)]
    mean, error = np.array([own.means for own in drawn_from]), np.array([own.errors for own in drawn_from])
    low, high, critical = np.full((3, *mean.shape), np.nan)
    n_not_zero = np.array([own.n_not_zero for own in drawn_from])
    enough = np.array([own.n_effective for own in drawn_from]) >= FEWEST_QUERIES
    rare = enough & (n_not_zero < _FEWEST_NOT_ZERO)
    usual = enough & ~rare
    error_rate = (1 - confidence) / max(1, int(enough.sum()))
    if usual.any():
        most_rows = max(_LARGEST_OF_MANY, _LARGEST_RESAMPLE // len(samples))
        largest = np.zeros(n_resamples)
        for s in np.flatnonzero(usual.any(axis=1)).tolist():
            drawn = drawn_from[s].largest_deviations(usual[s], most_rows, n_resamples, seed + s)
            np.maximum(largest, drawn, out=largest)
        critical[usual] = np.quantile(largest, 1 - error_rate * usual.sum(), method="higher")
    low[usual], high[usual] = (mean - critical * error)[usual], (mean + critical * error)[usual]
    for s, k in np.argwhere(rare).tolist():  # the upper limit of a Poisson mean
        most = min(1.0, gammainccinv(n_not_zero[s, k] + 1, error_rate) * drawn_from[s].largest_shares[k])
        low[s, k], high[s, k] = -most * drawn_from[s].largest[k], most * drawn_from[s].largest[k]
    return Intervals(mean, error, low, high, critical)


class _Sample:
    """Rows of values and their weights, the means of the columns, and the standard errors of these.

    The mean is sum(w x) / sum(w), its variance sum(w² (x - mean)²) / sum(w)² times n / (n - 1).
    """

    def __init__(self, values: Floats, weights: Floats | None) -> None:
        self._weights = _ALL_ONE if weights is None else np.ascontiguousarray(weights)
        own = np.ones(len(values)) if weights is None else weights
        counted = ~np.isnan(values) & (own > 0)[:, None]
        w = np.where(counted, own[:, None], 0.0)
        x = np.where(counted, values, 0.0)
        totals = w.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.means: Floats = (w * x).sum(axis=0) / totals
            self.n_effective = np.nan_to_num(totals**2 / (w * w).sum(axis=0))
            self.largest_shares = w.max(axis=0, initial=0.0) / totals
        self.n_not_zero = np.count_nonzero(x, axis=0)
        self.largest = np.abs(x).max(axis=0, initial=1.0)
        self._centred: Floats = np.where(counted, x - self.means, np.nan)
        x = np.where(counted, x - self.means, 0.0)
        sums = np.stack([terms.sum(axis=0) for terms in (w, w * x, w * w, w * w * x, w * w * x * x)])
        self.errors = _errors(sums, counted.sum(axis=0))

    def largest_deviations(self, chosen: Bools, most_rows: int, n_resamples: int, seed: int) -> Floats:
        """Return, for each resample, the largest studentised deviation of the mean of one of the chosen columns.

        Resamples are smaller than a sample that is large, which hardly changes the distribution of studentised means.
        """
        values = np.ascontiguousarray(self._centred[:, chosen])
        n, rarest = len(values), int(self.n_not_zero[chosen].min())
        size = n if n <= most_rows or rarest * most_rows < n * _ENOUGH_NOT_ZERO else most_rows
        sums = np.zeros((n_resamples, 5, values.shape[1]))

        def draw(first: int, last: int) -> None:
            draw_sums(read_only(values), read_only(self._weights), size, seed, first, sums[first:last])

        cuts = np.linspace(0, n_resamples, n_processors() + 1).astype(int).tolist()
        with ThreadPoolExecutor(len(cuts) - 1) as pool:
            for done in [pool.submit(draw, first, last) for first, last in pairwise(cuts)]:
                done.result()
        drawn = sums.transpose(1, 0, 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            deviations = np.abs(drawn[1] / drawn[0]) / _errors(drawn, np.float64(size))
        largest: Floats = np.where(np.isnan(deviations), 0.0, deviations).max(axis=1)
        return largest


def _errors(sums: Floats, counts: npt.NDArray[Any] | np.float64) -> Floats:
    """Return standard errors of means of so many rows, from their sums of w, w x, w², w² x and w² x²."""
    total, first, squares, cross, second = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = first / total
        spread = second - 2 * mean * cross + mean**2 * squares
        spread = np.where(spread > 1e-12 * second, spread, 0.0)  # of rows that are all alike only rounding is left
        errors: Floats = np.sqrt(spread * counts / np.maximum(counts - 1, 1)) / total
    return errors


@compiled
def draw_sums(values: Floats, weights: Floats, size: int, seed: int, first: int, sums: FloatRows) -> None:
    """Add the sums of w, w x, w², w² x and w² x² of `size` rows, drawn with replacement, for each resample.

    A value that is NaN does not count; without weights, all are 1. A resample depends on the seed and its number alone,
    from `first` on.
    """
    n, n_columns = np.uint64(len(values)), values.shape[1]
    for b in range(len(sums)):
        state = np.uint64(noise(seed, first + b, 0) * 2.0**53)
        for _ in range(size):
            state += np.uint64(0x9E3779B97F4A7C15)
            mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            i = np.int64(((mixed >> np.uint64(32)) * n) >> np.uint64(32))
            for k in range(n_columns):
                x = values[i, k]
                counts = x == x  # noqa: PLR0124
                w = (weights[i] if len(weights) else 1.0) if counts else 0.0
                weighted = w * x if counts else 0.0
                sums[b, 0, k] += w
                sums[b, 1, k] += weighted
                sums[b, 2, k] += w * w
                sums[b, 3, k] += w * weighted
                sums[b, 4, k] += weighted * weighted
