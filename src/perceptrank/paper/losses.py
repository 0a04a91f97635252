"""Cumulative loss on the separable stream, compared with the bounds of the theorems."""

from dataclasses import dataclass

import numpy as np

from perceptrank.evaluation.plots import Chart, Series
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, LAST_ITERATE, RATES, Run
from perceptrank.paper.curves import plotted_rounds, with_spread
from perceptrank.paper.trials import Trials

MEASURE = "ndcg@10"


@dataclass(frozen=True)
class BoundCheck:
    """Cumulative loss of a run against its bound, one value per seed.

    `bounds` is None for a learner without a theorem, `second_half` the loss in the second half of the stream,
    `last_losses` the number of the last query with a loss (0 if there is none).
    """

    label: str
    run: Run
    color: int
    formula: str
    bounds: list[float] | None
    losses: Floats
    second_half: Floats
    last_losses: list[int]

    @property
    def holds(self) -> bool | None:
        """True if no seed exceeds its bound; None without a theorem."""
        return None if self.bounds is None else bool((self.losses <= np.array(self.bounds)).all())


def cumulative_losses(values: Floats) -> Floats:
    """Return the losses so far; queries that the measure leaves out have none."""
    return np.cumsum(np.nan_to_num(1 - values), axis=1)


def check_bound(
    trials: Trials, label: str, run: Run, color: int, formula: str, bounds: list[float] | None
) -> BoundCheck:
    """Compare the cumulative loss of a run with its bound."""
    rows = cumulative_losses(trials.values[run])
    half = rows.shape[1] // 2
    losing = np.nan_to_num(1 - trials.values[run]) > 0
    last = [int(np.flatnonzero(row)[-1]) + 1 if row.any() else 0 for row in losing]
    return BoundCheck(label, run, color, formula, bounds, rows[:, -1], rows[:, -1] - rows[:, half - 1], last)


def loss_chart(trials: Trials, checks: list[BoundCheck], name: str, title: str, about: str) -> Chart:
    """Chart the cumulative losses, and the smallest bound of each learner, dashed."""
    rounds = plotted_rounds(trials.source.n_rounds)
    x = rounds.astype(np.float64)
    series = []
    for one in checks:
        rows = cumulative_losses(trials.values[one.run])[:, rounds - 1]
        series.append(with_spread(one.label, x, rows, one.color))
    for one in checks:
        if one.bounds is not None:
            level = min(one.bounds)
            series.append(
                Series(f"bound: {one.label}", x[[0, -1]], np.array([level, level]), color=one.color, dashed=True)
            )
    return Chart(name, title, "queries seen", "cumulative loss, 1 − NDCG@10", series, log_y=True, about=about)


def loss_by_rate_chart(trials: Trials, bounds: dict[float, list[float]], name: str, title: str, about: str) -> Chart:
    """Chart the total loss of each learner over learning rates, and the rate-dependent bound of Algorithm 2."""
    rates = np.array(RATES)
    series = []
    for one in (CONTENDERS["slam"], CONTENDERS["minimax"], CONTENDERS["listnet"], LAST_ITERATE):
        runs = trials.runs(one.name, MEASURE)
        rows = np.array([cumulative_losses(trials.values[run])[:, -1] for run in runs]).T
        series.append(with_spread(one.label, rates, rows, one.color))
    levels = np.array([min(bounds[rate]) for rate in RATES])
    series.append(Series("bound: Algorithm 2 (SLAM)", rates, levels, color=CONTENDERS["slam"].color, dashed=True))
    return Chart(name, title, "learning rate", "cumulative loss, 1 − NDCG@10", series, log_y=True, about=about)
