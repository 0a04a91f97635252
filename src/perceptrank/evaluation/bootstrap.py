"""Paired bootstrap over queries, with simultaneous confidence intervals."""

import numpy as np

from perceptrank.kernels.arrays import Floats

_DRAWN_AT_ONCE = 10**7


def resampled_means(
    values: Floats, n_resamples: int, rng: np.random.Generator, weights: Floats | None = None
) -> Floats:
    """Return bootstrap means of each row, over columns drawn with replacement: resamples x rows.

    Weights, if there are any, are those of the columns in each mean; all must be positive.
    """
    n = values.shape[1]
    means = np.empty((n_resamples, len(values)))
    at_once = max(1, min(100, _DRAWN_AT_ONCE // n))
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
        if weights is None:
            means[start : start + size] = counts @ values.T / n
        else:
            weighted = counts * weights
            means[start : start + size] = weighted @ values.T / weighted.sum(axis=1, keepdims=True)
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
