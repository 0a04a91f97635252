"""Differences of rankers on the same queries, with intervals that hold all at once; for all queries, and by slices."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from perceptrank.evaluation.bootstrap import simultaneous_intervals
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.measures import Measure
from perceptrank.measures.of_clicks import ExpectedClicks

N_RESAMPLES = 2000


class Difference(NamedTuple):
    """Difference of a challenger to the incumbent in the mean of a measure.

    Attributes
    ----------
    model, measure : str
        Name of the challenger, and of the measure.
    old, new : float
        Means of the incumbent and of the challenger, over the queries that the measure does not leave out, by
        query weight if there are any.
    difference, low, high : float
        ``new - old`` and its confidence interval, which is NaN with fewer than 30 queries.
    deviation : float
        Standard deviation of the difference of one query.
    critical : float
        Half-width of the interval in standard errors of the mean; NaN if it is not of that kind.
    n_queries, n_better, n_worse : int
        Number of queries that count, and of those that the challenger ranks better or worse. Impressions of the same
        ``user_query`` are one query.
    """

    model: str
    measure: str
    old: float
    new: float
    difference: float
    low: float
    high: float
    deviation: float
    critical: float
    n_queries: int
    n_better: int
    n_worse: int

    @property
    def is_small(self) -> bool:
        """True if there are too few queries for an interval."""
        return bool(np.isnan(self.low))


class Slice(NamedTuple):
    """A part of the queries, and the differences there.

    Attributes
    ----------
    label : str
        What its queries have in common.
    n_queries : int
        Number of its queries, those included that the measure leaves out.
    differences : tuple of Difference
        One for each challenger. The intervals of all slices hold at once.
    """

    label: str
    n_queries: int
    differences: tuple[Difference, ...]

    @property
    def is_small(self) -> bool:
        """True if it has too few queries for intervals."""
        return any(row.is_small for row in self.differences)


def differences(
    traces: Mapping[str, Trace],
    weights: Floats | None,
    measures: Sequence[Measure],
    parts: Sequence[Bools],
    confidence: float,
    seed: int,
    clusters: Ints | None = None,
) -> list[list[Difference]]:
    """Return, for each part of the queries, the differences of all but the first trace to the first.

    Parts are given by which queries they have, and have none in common. With the number of each query's cluster,
    intervals and counts are those of clusters, whose queries need not be independent of each other.
    """
    if clusters is not None and len(measures) > 1:  # which may leave out different queries of a cluster
        level = 1 - (1 - confidence) / len(measures)
        each = [differences(traces, weights, [measure], parts, level, seed, clusters) for measure in measures]
        return [[row for rows in zip(*own, strict=True) for row in rows] for own in zip(*each, strict=True)]
    if weights is not None:  # by a power of two, so that squares are numbers and nothing else changes
        weights = np.ldexp(weights, -np.frexp(weights.max())[1])
    first, *others = traces
    columns = [(name, measure) for name in others for measure in measures]
    old = np.stack([traces[first].values(measure) for _, measure in columns], axis=1)
    new = np.stack([traces[name].values(measure) for name, measure in columns], axis=1)
    samples = [(new - old)[part] for part in parts]
    own = [None if weights is None else weights[part] for part in parts]
    drawn = list(own)
    if clusters is not None:
        joined = [_join(*each) for each in zip(samples, own, [clusters[part] for part in parts], strict=True)]
        samples, drawn = [values for values, _ in joined], [total for _, total in joined]
    intervals = simultaneous_intervals(samples, drawn, confidence=confidence, n_resamples=N_RESAMPLES, seed=seed)
    for k, (_, measure) in enumerate(columns):
        if isinstance(measure, ExpectedClicks) and measure.clip:
            intervals.high[~np.isnan(intervals.high[:, k]), k] = measure.n_places
            intervals.error[intervals.mean[:, k] < 0, k] = np.inf  # more of the kind cannot show a loss
    rows = []
    for s, part in enumerate(parts):
        total = drawn[s]
        counted = ~np.isnan(samples[s]) & (True if total is None else (total > 0)[:, None])
        ns = counted.sum(axis=0)
        rows.append(
            [
                Difference(
                    name,
                    str(measure),
                    weighted_mean(old[part, k], own[s]),
                    weighted_mean(new[part, k], own[s]),
                    float(intervals.mean[s, k]),
                    float(intervals.low[s, k]),
                    float(intervals.high[s, k]),
                    float(intervals.error[s, k] * np.sqrt(ns[k])) if ns[k] > 1 else np.nan,
                    float(intervals.critical[s, k]),
                    int(ns[k]),
                    int((counted & (samples[s] > 0))[:, k].sum()),
                    int((counted & (samples[s] < 0))[:, k].sum()),
                )
                for k, (name, measure) in enumerate(columns)
            ]
        )
    return rows


def _join(values: Floats, weights: Floats | None, clusters: Ints) -> tuple[Floats, Floats]:
    """Return the means of clusters, and their weights, with which the mean over clusters is that over all rows."""
    codes = np.unique(clusters, return_inverse=True)[1]
    own = np.where(np.isnan(values).any(axis=1), 0.0, 1.0 if weights is None else weights)
    totals: Floats = np.bincount(codes, own).astype(float)
    sums = [np.bincount(codes, own * np.nan_to_num(column)) for column in values.T]
    return np.stack(sums, axis=1) / np.where(totals > 0, totals, np.nan)[:, None], totals


def weighted_mean(values: Floats, weights: Floats | None) -> float:
    """Return the mean of values that are not NaN, by their weights if there are any; NaN if none counts."""
    counted = ~np.isnan(values)
    if weights is None:
        return float(values[counted].mean()) if counted.any() else np.nan
    total = weights[counted].sum()
    return float(weights[counted] @ values[counted] / total) if total > 0 else np.nan
