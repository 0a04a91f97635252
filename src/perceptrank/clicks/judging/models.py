"""Models of clicks: each turns the sums of a log into an estimate for every document of every query."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, ndtri

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.clicks.judging.intervals import binomial_interval, position_based_interval
from perceptrank.clicks.judging.sums import CountTable
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.stream.validation import ParameterError, as_number

MAX_RANK = 20  # of OpenSearch's COEC, unless it is told otherwise
_AT_ONCE = 2**20  # numbers in a table of documents by places
_LEAST, _MOST = 0.1, 1e4  # strengths of priors

Progress = Callable[[int, int], object]


@dataclass
class Estimates:
    """Estimates for each document of each query; NaN where a model says nothing, and the reason."""

    estimate: Floats
    low: Floats
    high: Floats
    exposure: Floats
    prior_share: Floats
    reason: list[str]
    identified: Bools


def position_based(
    table: CountTable, prior: object, confidence: float, bias: PositionBias, progress: Progress | None
) -> Estimates:
    """A document at place k is clicked with probability θ_k a; `judgements` describes all models."""
    n_pairs = int(table.pair[-1]) + 1
    is_known = table.place <= len(bias.examination)
    is_known[is_known] = bias.identified[table.place[is_known] - 1]
    clicks = np.bincount(table.pair[is_known], table.clicks[is_known], n_pairs).astype(float)
    exposure, low, high = np.zeros(n_pairs), np.zeros(n_pairs), np.ones(n_pairs)
    # Documents share the error of their places: its interval is one for all places at once, by Bonferroni.
    quantile = -float(ndtri((1.0 - confidence) / 2 / max(1, int(bias.identified.sum()) - 1)))
    at_once = max(1, _AT_ONCE // len(bias.examination))
    for start in range(0, n_pairs, at_once):
        part = slice(start, min(start + at_once, n_pairs))
        rows = slice(*np.searchsorted(table.pair, [part.start, part.stop]))
        shown, examination, log_error = _lay_out(table, np.flatnonzero(is_known[rows]) + rows.start, part, bias)
        exposure[part] = (shown * examination).sum(axis=1)
        low[part], high[part] = position_based_interval(
            clicks[part], shown, examination, quantile * log_error, confidence
        )
        if progress is not None:
            progress(part.stop, n_pairs)
    identified = exposure > 0
    reason = _unknown_places(table, is_known, bias)
    for pair in np.flatnonzero(identified & (low >= 1.0)).tolist():
        identified[pair] = False
        reason[pair] = "more clicks than the examination of its places allows"
    return _estimate(identified, clicks, exposure, _mean_place(table), (low, high), reason, prior)


def cascade(table: CountTable, prior: object, confidence: float) -> Estimates:
    """The user clicks the first document that attracts, and stops; later clicks are not counted."""
    seen, clicks = table.per_pair(table.above_first), table.per_pair(table.first)
    reason = ["" if n else "never shown at or above the first click" for n in seen]
    interval = binomial_interval(clicks, seen, confidence)
    return _estimate(seen > 0, clicks, seen, _mean_place(table), interval, reason, prior)


def simplified_dbn(table: CountTable, prior: object, confidence: float) -> Estimates:
    """The user clicks what attracts, and stops when satisfied; without a click, all documents were seen.

    The interval is the product of two, each with half the error.
    """
    seen, clicks = table.per_pair(table.above_last), table.per_pair(table.clicks)
    last, place = table.per_pair(table.last), _mean_place(table)
    reason = ["" if n else "never shown at or above the last click" for n in seen]
    low, high = binomial_interval(clicks, seen, (1.0 + confidence) / 2)
    low_s, high_s = binomial_interval(last, clicks, (1.0 + confidence) / 2)
    result = _estimate(seen > 0, clicks, seen, place, (low * low_s, high * high_s), reason, prior)
    result.estimate *= make_prior(prior, last, clicks, place).estimate(last, clicks)
    return result


def ctr(table: CountTable, *_: object) -> Estimates:
    """Clicks divided by impressions, wherever they were."""
    shown, clicks = table.per_pair(table.shown), table.per_pair(table.clicks)
    return _without_interval(clicks / shown, shown)


def coec(table: CountTable, *_: object) -> Estimates:
    """Clicks over expected clicks, as OpenSearch's search-relevance plugin computes it: for comparison only."""
    kept = table.place <= MAX_RANK
    shown, clicks = np.where(kept, table.shown, 0.0), np.where(kept, table.clicks, 0.0)
    at = np.minimum(table.place, MAX_RANK + 1)
    of_place = np.bincount(at, shown, MAX_RANK + 2)
    rates = np.bincount(at, clicks, MAX_RANK + 2) / np.where(of_place > 0, of_place, 1.0)
    rates[MAX_RANK:] = 0.0  # ranks count from 0 there, up to one less than the largest
    expected = rates[np.minimum(table.place[table.firsts], MAX_RANK + 1)] * table.per_pair(shown)
    ratio = table.per_pair(clicks) / np.where(expected > 0, expected, 1.0)
    return _without_interval(np.where(expected > 0, ratio, 0.0), expected)


def _lay_out(table: CountTable, rows: Ints, pairs: slice, bias: PositionBias) -> tuple[Floats, Floats, Floats]:
    """Lay out rows as documents × groups of impressions: the n-th group is the n-th place of the document.

    Returns how often they were shown, their examination, and the standard error of ln Σ n_k θ_k for each document; its
    derivative by ln θ_k is the share of place k.
    """
    pair, place, n = table.pair[rows] - pairs.start, table.place[rows] - 1, pairs.stop - pairs.start
    number = np.arange(len(rows)) - np.searchsorted(pair, pair)
    shape = n, int(number.max(initial=0)) + 1
    shown, examination = np.zeros(shape), np.ones(shape)
    shown[pair, number] = table.shown[rows]
    examination[pair, number] = bias.examination[place]
    shares = np.zeros((n, len(bias.examination)))
    shares[pair, place] = table.shown[rows] * bias.examination[place] / (shown * examination).sum(axis=1)[pair]
    variance = ((shares @ np.nan_to_num(bias.log_covariance)) * shares).sum(axis=1)
    return shown, examination, np.sqrt(np.maximum(variance, 0.0))


def _unknown_places(table: CountTable, is_known: Bools, bias: PositionBias) -> list[str]:
    """Say for each document which of its impressions are left out, because nothing is known of their place."""
    reason = [""] * (int(table.pair[-1]) + 1)
    unknown = np.flatnonzero(~is_known)
    left_out = np.bincount(table.pair[unknown], table.shown[unknown], len(reason))
    used = np.bincount(table.pair[is_known], minlength=len(reason))
    for row in unknown[np.unique(table.pair[unknown], return_index=True)[1]].tolist():
        pair, place = int(table.pair[row]), int(table.place[row])
        why = bias.reason[place - 1] if place <= len(bias.reason) else "beyond the places of the position bias"
        where = f"examination of place {place} is not known ({why})" if why else f"examination of place {place} unknown"
        reason[pair] = f"{left_out[pair]:,.0f} impressions left out: {where}" if used[pair] else where
    return reason


def _estimate(
    identified: Bools,
    clicks: Floats,
    exposure: Floats,
    place: Floats,
    interval: tuple[Floats, Floats],
    reason: list[str],
    prior: object,
) -> Estimates:
    """Estimate documents that are identified; of others nothing is known, and all comes from the prior."""
    estimate, share = np.full(len(clicks), np.nan), np.ones(len(clicks))
    if identified.any():
        known = make_prior(prior, clicks[identified], exposure[identified], place[identified])
        estimate[identified] = known.estimate(clicks[identified], exposure[identified])
        share[identified] = known.share(exposure[identified])
    low, high = np.where(identified, interval[0], 0.0), np.where(identified, interval[1], 1.0)
    return Estimates(estimate, low, high, exposure, share, reason, identified)


def _without_interval(estimate: Floats, exposure: Floats) -> Estimates:
    n, none = len(estimate), np.full(len(estimate), np.nan)
    return Estimates(estimate, none, none.copy(), exposure, np.zeros(n), [""] * n, np.ones(n, dtype=bool))


def _mean_place(table: CountTable) -> Floats:
    return np.asarray(table.per_pair(table.shown * table.place) / table.per_pair(table.shown))


class Prior(NamedTuple):
    """Beta priors (α, β) of documents: empirical Bayes, fitted to the log."""

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

    The mean of a place is the clicks of documents whose mean place it is, divided by their exposure. The strength s
    maximizes the likelihood of all clicks, if each document's clicks are Poisson with mean a E and a has a gamma
    distribution with this mean and shape s times the mean.
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
