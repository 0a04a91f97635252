"""Paired bootstrap over queries, with simultaneous confidence intervals."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.processors import n_processors

FEWEST_QUERIES = 30
_DRAWN_AT_ONCE = 10**7
_FEWEST_NOT_ZERO = 10
_ENOUGH_NOT_ZERO = 100
_LARGEST_RESAMPLE, _LARGEST_OF_MANY = 2**15, 2**12


def resampled_means(values: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    """Return bootstrap means of each row, over columns drawn with replacement: resamples x rows."""
    n = values.shape[1]
    means = np.empty((n_resamples, len(values)))
    at_once = max(1, min(100, _DRAWN_AT_ONCE // n))
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
        means[start : start + size] = counts @ values.T / n
    return means


def simultaneous_half_widths(drawn: Floats, means: Floats, best: int, confidence: float) -> Floats:
    """Return the half-widths of simultaneous confidence intervals for the differences to the best row.

    Which row is best is known only afterwards, so the intervals cover the differences of all pairs: they extend by the
    quantile of the largest studentised deviation among all pairs, in standard errors.
    """
    deviations = drawn - means
    largest = np.zeros(len(drawn))
    errors = np.zeros(len(means))
    for i in range(len(means)):
        difference = deviations[:, [i]] - deviations
        error = difference.std(axis=0)
        np.maximum(largest, (np.abs(difference) / np.where(error > 0, error, np.inf)).max(axis=1), out=largest)
        if i == best:
            errors = error
    half_widths: Floats = np.quantile(largest, confidence) * errors
    return half_widths


class Intervals(NamedTuple):
    """Simultaneous intervals of the means of the columns of one or several samples: samples x columns each."""

    low: Floats
    high: Floats
    critical: Floats  # half-width in standard errors, NaN of those that are not resampled


def simultaneous_intervals(samples: Sequence[Floats], *, confidence: float, n_resamples: int, seed: int) -> Intervals:
    """Return confidence intervals for the mean of each column of each sample, which hold all at once.

    Values are between -1 and 1, NaN where a row does not count for a column; the samples have no row in common. An
    interval extends by as many standard errors as the largest studentised deviation of all means has in resamples of
    the rows, at its quantile: skewness and correlation of the columns are taken into account. If fewer than 10 rows are
    not 0, resampling tells little, and the interval is what the number of such rows allows: their share in all that
    could come is at most the upper limit of a Poisson mean, and the mean is not larger. A column with fewer than 30
    values has no interval, NaN.
    """
    n_columns = samples[0].shape[1]
    low, high, critical = np.full((3, len(samples), n_columns), np.nan)
    counts = np.array([np.count_nonzero(~np.isnan(sample), axis=0) for sample in samples])
    n_not_zero = np.array([np.count_nonzero(np.nan_to_num(sample), axis=0) for sample in samples])
    enough = counts >= FEWEST_QUERIES
    rare = enough & (n_not_zero < _FEWEST_NOT_ZERO)
    usual = enough & ~rare
    error_rate = (1 - confidence) / max(1, int(enough.sum()))
    largest = np.zeros(n_resamples)
    most_rows = max(_LARGEST_OF_MANY, _LARGEST_RESAMPLE // len(samples))
    for s, sample in enumerate(samples):
        if usual[s].any():
            drawn = _largest_deviations(sample[:, usual[s]], most_rows, n_resamples, seed + s)
            np.maximum(largest, drawn, out=largest)
    if usual.any():
        critical[usual] = np.quantile(largest, 1 - error_rate * usual.sum(), method="higher")
    for s, sample in enumerate(samples):
        for k in np.flatnonzero(enough[s]):
            column = sample[:, k][~np.isnan(sample[:, k])]
            if rare[s, k]:
                most = min(1.0, _poisson_limit(int(n_not_zero[s, k]), error_rate) / len(column))
                low[s, k], high[s, k] = -most, most
            else:
                half = critical[s, k] * column.std(ddof=1) / np.sqrt(len(column))
                low[s, k], high[s, k] = column.mean() - half, column.mean() + half
    return Intervals(low, high, critical)


def _largest_deviations(values: Floats, most_rows: int, n_resamples: int, seed: int) -> Floats:
    """Return, for each resample, the largest studentised deviation of a column's mean from that of the values.

    Resamples are smaller than a sample that is large, which hardly changes the distribution of studentised means.
    """
    n = len(values)
    rarest = int(np.count_nonzero(np.nan_to_num(values), axis=0).min())
    size = n if n <= most_rows or rarest * most_rows < n * _ENOUGH_NOT_ZERO else most_rows
    centred = np.ascontiguousarray(values - np.nanmean(values, axis=0))
    largest = np.empty(n_resamples)

    def draw(first: int, last: int) -> None:
        draw_studentised(centred, size, seed, first, largest[first:last], np.empty((3, values.shape[1])))

    cuts = np.linspace(0, n_resamples, n_processors() + 1).astype(int).tolist()
    with ThreadPoolExecutor(len(cuts) - 1) as pool:
        for done in [pool.submit(draw, first, last) for first, last in pairwise(cuts)]:
            done.result()
    return largest


@compiled
def draw_studentised(values: Floats, size: int, seed: int, first: int, largest: Floats, sums: FloatRows) -> None:
    """Write the largest studentised mean of a column, in `size` rows drawn with replacement, once for each resample.

    Columns have mean 0, apart from NaN. A resample depends on the seed and its number alone, from `first` on.
    """
    n = np.uint64(len(values))
    for b in range(len(largest)):
        state = np.uint64(noise(seed, first + b, 0) * 2.0**53)
        for k in range(values.shape[1]):
            sums[0, k] = sums[1, k] = sums[2, k] = 0.0
        for _ in range(size):
            state += np.uint64(0x9E3779B97F4A7C15)
            mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            i = np.int64(((mixed >> np.uint64(32)) * n) >> np.uint64(32))
            for k in range(values.shape[1]):
                value = values[i, k]
                counts = value == value  # noqa: PLR0124
                value = value if counts else 0.0
                sums[0, k] += 1.0 if counts else 0.0
                sums[1, k] += value
                sums[2, k] += value * value
        most = 0.0
        for k in range(values.shape[1]):
            count, total = sums[0, k], sums[1, k]
            spread = sums[2, k] - total * total / count if count > 1.0 else 0.0
            if spread > 1e-12 * sums[2, k]:
                deviation = abs(total) / math.sqrt(spread * count / (count - 1.0))
            else:
                deviation = math.inf if total != 0.0 else 0.0
            most = max(most, deviation)
        largest[b] = most


def _poisson_limit(count: int, error_rate: float) -> float:
    """Return the mean of a Poisson variable that is at most `count` with the given probability.

    >>> round(_poisson_limit(0, 0.05), 4), round(_poisson_limit(2, 0.05), 4)
    (2.9957, 6.2958)
    """
    low, high = 0.0, 1000.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        at_most = math.exp(-middle) * sum(middle**j / math.factorial(j) for j in range(count + 1))
        low, high = (middle, high) if at_most > error_rate else (low, middle)
    return high
