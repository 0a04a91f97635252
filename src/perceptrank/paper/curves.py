"""Figures 1 to 3: running means of a measure, for every contender at its best rate."""

import numpy as np

from perceptrank.evaluation.plots import Chart, Series
from perceptrank.evaluation.trace import running_means
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.trials import Trials
from perceptrank.paper.tuning import Tuned

_N_POINTS = 160


def plotted_rounds(n_rounds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Select rounds from the first to the last, evenly spaced on a logarithmic axis."""
    return np.unique(np.geomspace(1, n_rounds, _N_POINTS).round().astype(np.int64))


def with_spread(name: str, x: Floats, rows: Floats, color: int) -> Series:
    """Make a curve of the mean over rows, one per seed, with a band of one standard deviation, clipped at 0."""
    mean = rows.mean(axis=0)
    if len(rows) == 1:
        return Series(name, x, mean, color=color)
    spread = rows.std(axis=0, ddof=1)
    return Series(name, x, mean, np.maximum(mean - spread, 0.0), mean + spread, color)


def running_mean_chart(trials: Trials, tuned: list[Tuned], measure: str, name: str, title: str, about: str) -> Chart:
    """Chart the running mean of each contender."""
    rounds = plotted_rounds(trials.source.n_rounds)
    series = []
    for one in tuned:
        rows = running_means(trials.values[one.hindsight])
        rounds = rounds[~np.isnan(rows[:, rounds - 1]).any(axis=0)]
        series.append((one, rows))
    return Chart(
        name,
        title,
        "queries seen",
        f"running mean of {measure.upper()}",
        [
            with_spread(one.contender.label, rounds.astype(np.float64), rows[:, rounds - 1], one.contender.color)
            for one, rows in series
        ],
        about=about,
    )
