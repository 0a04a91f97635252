"""Empirical Bayes: a prior for the click probability of documents, fitted to the log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from perceptrank.kernels.arrays import Floats
from perceptrank.stream.validation import ParameterError, as_number

_LEAST, _MOST = 0.1, 1e4  # strengths


class Prior(NamedTuple):
    """Beta priors (α, β) of documents."""

    alpha: Floats
    beta: Floats

    @property
    def strength(self) -> Floats:
        """Impressions of which the prior counts for as much."""
        return self.alpha + self.beta

    def estimate(self, clicks: Floats, exposure: Floats) -> Floats:
        """Return (C + α) / (E + α + β), at most 1."""
        return np.asarray(np.minimum((clicks + self.alpha) / (exposure + self.strength), 1.0))

    def share(self, exposure: Floats) -> Floats:
        """Return the share of the estimate that comes from the prior."""
        return np.asarray(self.strength / (exposure + self.strength))


def fit_prior(clicks: Floats, exposure: Floats, place: Floats) -> Prior:
    """Fit priors to all documents of a log: one strength for all, and one mean for those shown at about one place.

    A ranker puts its best documents first, so documents that were shown lower are worse on average. The mean of a place
    is the clicks of documents whose mean place it is, divided by their exposure. The strength s maximizes the
    likelihood of all clicks, if each document's clicks are Poisson with mean a E and a has a gamma distribution with
    this mean and shape s times the mean.

    Parameters
    ----------
    clicks, exposure : array
        Clicks C and exposure E of each document.
    place : array
        Mean place of each document.
    """
    groups = np.unique(np.rint(place), return_inverse=True)[1]
    overall = (clicks.sum() + 0.5) / (exposure.sum() + 1.0)
    means = (np.bincount(groups, clicks) + overall) / (np.bincount(groups, exposure) + 1.0)
    mean = np.minimum(means, 1.0)[groups]

    def loss(log_strength: float) -> float:
        s = np.exp(log_strength)
        shape = mean * s
        terms = (
            gammaln(clicks + shape) - gammaln(shape) - shape * np.log1p(exposure / s) - clicks * np.log(s + exposure)
        )
        return float(-terms.sum())

    strength = 1.0
    if clicks.any():
        bounds = np.log(_LEAST), np.log(_MOST)
        strength = float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
    return Prior(mean * strength, (1.0 - mean) * strength)


def make_prior(prior: object, clicks: Floats, exposure: Floats, place: Floats) -> Prior:
    """Return the same prior for all documents from a pair of numbers (α, β); fit priors if it is None."""
    if prior is None:
        return fit_prior(clicks, exposure, place)
    rule = "must be a pair (α, β) of numbers that are not negative, and not both 0"
    if not isinstance(prior, (tuple, list)) or len(prior) != 2:
        raise ParameterError("prior", rule, prior)
    alpha, beta = map(as_number, prior)
    if not (0 <= alpha < np.inf and 0 <= beta < np.inf and alpha + beta > 0):
        raise ParameterError("prior", rule, prior)
    return Prior(np.full(len(clicks), alpha), np.full(len(clicks), beta))
