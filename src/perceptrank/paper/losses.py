"""Cumulative loss on the separable stream, against what the theorems allow."""

from dataclasses import dataclass

import numpy as np

from perceptrank.evaluation.plots import Chart, Series
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, LAST_ITERATE, RATES, Run
from perceptrank.paper.curves import rounds_shown, with_spread
from perceptrank.paper.trials import Trials

MEASURE = "ndcg@10"


@dataclass(frozen=True)
class Promise:
    """A learner's bound and what it lost, one value per seed. A bound of None: there is no theorem."""

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
        """Whether every seed stayed under its bound."""
        return None if self.bounds is None else bool((self.losses <= np.array(self.bounds)).all())


def cumulative_losses(values: Floats) -> Floats:
    """Losses so far; a query that does not count has none."""
    return np.cumsum(np.nan_to_num(1 - values), axis=1)


def promise(trials: Trials, label: str, run: Run, color: int, formula: str, bounds: list[float] | None) -> Promise:
    """What a run lost, and what it might have."""
    rows = cumulative_losses(trials.values[run])
    half = rows.shape[1] // 2
    losing = np.nan_to_num(1 - trials.values[run]) > 0
    last = [int(np.flatnonzero(row)[-1]) + 1 if row.any() else 0 for row in losing]
    return Promise(label, run, color, formula, bounds, rows[:, -1], rows[:, -1] - rows[:, half - 1], last)


def draw_losses(trials: Trials, promises: list[Promise], name: str, title: str, about: str) -> Chart:
    """Losses of all seeds, and for each learner the smallest of its bounds, dashed."""
    shown = rounds_shown(trials.source.n_rounds)
    x = shown.astype(np.float64)
    series = []
    for one in promises:
        rows = cumulative_losses(trials.values[one.run])[:, shown - 1]
        series.append(with_spread(one.label, x, rows, one.color))
    for one in promises:
        if one.bounds is not None:
            level = min(one.bounds)
            series.append(
                Series(f"bound: {one.label}", x[[0, -1]], np.array([level, level]), color=one.color, dashed=True)
            )
    return Chart(name, title, "queries seen", "cumulative loss, 1 − NDCG@10", series, log_y=True, about=about)


def draw_losses_by_rate(trials: Trials, bounds: dict[float, list[float]], name: str, title: str, about: str) -> Chart:
    """What each learner lost in all, over rates, and Algorithm 2's bound, which depends on them."""
    rates = np.array(RATES)
    series = []
    for one in (CONTENDERS["slam"], CONTENDERS["minimax"], CONTENDERS["listnet"], LAST_ITERATE):
        runs = trials.runs(one.name, MEASURE)
        rows = np.array([cumulative_losses(trials.values[run])[:, -1] for run in runs]).T
        series.append(with_spread(one.label, rates, rows, one.color))
    levels = np.array([min(bounds[rate]) for rate in RATES])
    series.append(Series("bound: Algorithm 2 (SLAM)", rates, levels, color=CONTENDERS["slam"].color, dashed=True))
    return Chart(name, title, "learning rate", "cumulative loss, 1 − NDCG@10", series, log_y=True, about=about)
