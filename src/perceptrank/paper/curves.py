"""Figures 1 to 3: the mean of a measure over the queries so far, for every contender at its best rate."""

import numpy as np

from perceptrank.evaluation.plots import Chart, Series
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.trials import Trials
from perceptrank.paper.tuning import Tuned

_POINTS = 160


def rounds_shown(n_rounds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Some rounds, from the first to the last, ever further apart."""
    return np.unique(np.geomspace(1, n_rounds, _POINTS).round().astype(np.int64))


def with_spread(name: str, x: Floats, rows: Floats, color: int) -> Series:
    """The mean of rows, one per seed, and a standard deviation to both sides, not below 0; no band for a single row."""
    mean = rows.mean(axis=0)
    if len(rows) == 1:
        return Series(name, x, mean, color=color)
    spread = rows.std(axis=0, ddof=1)
    return Series(name, x, mean, np.maximum(mean - spread, 0.0), mean + spread, color)


def running_means(values: Floats) -> Floats:
    """Means over the rounds so far, of those that count; NaN before the first."""
    counts = np.cumsum(~np.isnan(values), axis=1)
    return np.where(counts > 0, np.cumsum(np.nan_to_num(values), axis=1) / np.maximum(counts, 1), np.nan)


def draw_curves(trials: Trials, tuned: list[Tuned], measure: str, name: str, title: str, about: str) -> Chart:
    """One curve per contender, over queries on a logarithmic axis."""
    shown = rounds_shown(trials.source.n_rounds)
    series = []
    for one in tuned:
        rows = running_means(trials.values[one.hindsight])
        shown = shown[~np.isnan(rows[:, shown - 1]).any(axis=0)]
        series.append((one, rows))
    return Chart(
        name,
        title,
        "queries seen",
        f"mean {measure.upper()} so far",
        [
            with_spread(one.contender.label, shown.astype(np.float64), rows[:, shown - 1], one.contender.color)
            for one, rows in series
        ],
        about=about,
    )
