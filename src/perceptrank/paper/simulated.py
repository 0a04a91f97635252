"""Runs on the simulated, linearly separable stream: Figure 1, and cumulative losses against the theorems' bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perceptrank.datasets.separable import separable
from perceptrank.evaluation.plots import Chart, Series, three_digits
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.measures import parse
from perceptrank.paper.contenders import CONTENDERS, LAST_ITERATE, RATES, SLAM_AS_IN_THE_PAPER, Contender, Run
from perceptrank.paper.curves import join_names, plotted_rounds, with_spread
from perceptrank.paper.trials import Progress, Source, Trials, no_progress, run_trials, tune
from perceptrank.stream.query_stream import QueryStream
from perceptrank.theory import Theorem, bounds, diameter, radius

MARGIN = 1.0
MEASURE = "ndcg@10"
_Y_LABEL = "cumulative loss, 1 − NDCG@10"
_FAR_ABOVE = 30.0  # times the largest loss: a bound there would only squeeze the curves


def simulated_source(n_queries: int, passes: int) -> Source:
    """Simulate queries as in the paper: 20 documents, 20 features, five grades with a Gaussian each."""

    def draw(seed: int) -> QueryStream:
        return separable(n_queries, margin=MARGIN, seed=seed).stream

    return Source(
        "simulated",
        f"{n_queries:,} queries of 20 documents with 20 features and five grades, separable with margin {MARGIN:g}; "
        f"{passes} passes, reshuffled each time; new queries for every seed",
        draw,
        n_queries,
        passes,
        facts={"margin": MARGIN, "n_documents": 20, "n_features": 20, "n_grades": 5},
        called="the separable stream",
    )


@dataclass(frozen=True)
class BoundCheck:
    """Cumulative loss of a run against its bound, one value per seed."""

    contender: Contender
    run: Run
    formula: str
    bounds: list[float] | None  # None without a theorem
    losses: Floats
    second_half: Floats  # losses there
    last_losses: list[int]  # numbers of the last query with a loss, 0 if there is none

    @property
    def holds(self) -> bool | None:
        """True if no seed exceeds its bound; None without a theorem."""
        return None if self.bounds is None else bool((self.losses <= np.array(self.bounds)).all())

    @property
    def has_stopped(self) -> bool:
        """True if no seed has a loss in the second half."""
        return not self.second_half.any()


def cumulative_losses(values: Floats) -> Floats:
    """Return the losses so far; queries that the measure leaves out have none."""
    return np.cumsum(np.nan_to_num(1 - values), axis=1)


def check_bound(
    trials: Trials, contender: Contender, run: Run, formula: str = "none", bounds: list[float] | None = None
) -> BoundCheck:
    """Compare the cumulative loss of a run with its bound."""
    rows = cumulative_losses(trials.values[run])
    half = rows.shape[1] // 2
    losing = np.nan_to_num(1 - trials.values[run]) > 0
    last = [int(np.flatnonzero(row)[-1]) + 1 if row.any() else 0 for row in losing]
    return BoundCheck(contender, run, formula, bounds, rows[:, -1], rows[:, -1] - rows[:, half - 1], last)


@dataclass(frozen=True)
class Simulated:
    """Trials on the simulated stream, with bounds; `slam_bounds` has those of Algorithm 2 for every rate."""

    trials: Trials
    bound_checks: list[BoundCheck]
    slam_bounds: dict[float, list[float]]
    radii: list[float]
    diameters: list[float]
    weight_ratio: float


def run_simulated(
    source: Source, seeds: Sequence[int], *, n_threads: int | None = None, progress: Progress = no_progress
) -> Simulated:
    """Run all contenders, the listwise perceptron's last iterate, and Algorithm 2 at the rate of the paper's proof."""
    streams = [source.draw(seed) for seed in seeds]
    radii, diameters = [radius(stream) for stream in streams], [diameter(stream) for stream in streams]
    ratio = max(bounds.weight_ratio(MEASURE, stream) for stream in streams)
    cutoff = parse(MEASURE).cutoff or 0
    largest = max(radii)
    constant = cutoff * (4 * largest * largest) * ratio
    paper = Run(SLAM_AS_IN_THE_PAPER.name, MEASURE, 1 / constant)

    def extra() -> dict[Run, Learner]:
        last = {Run(LAST_ITERATE.name, MEASURE, rate): LAST_ITERATE.make(MEASURE, rate) for rate in RATES}
        return {paper: SLAM_AS_IN_THE_PAPER.make(MEASURE, paper.rate)} | last

    trials = run_trials(source, seeds, extra, n_threads=n_threads, progress=progress)
    best = {tuned.contender.name: tuned.hindsight for tuned in tune(trials, MEASURE)}

    spans: dict[int | None, list[float]] = {None: diameters}  # of the pairs that a theorem is about

    def bounds_of(theorem: Theorem, *, by_radius: bool = False) -> list[float]:
        if by_radius:
            return [theorem.bound(radius=R, margin=MARGIN) for R in radii]
        if theorem.cutoff not in spans:
            spans[theorem.cutoff] = [diameter(stream, cutoff=theorem.cutoff) for stream in streams]
        return [theorem.bound(diameter=D, margin=MARGIN) for D in spans[theorem.cutoff]]

    def check(contender: Contender, run: Run, *, by_radius: bool = False, note: str = "") -> BoundCheck:
        theorem = contender.make(run.measure, run.rate).theorem
        formula = theorem.separable_formula(by_radius=by_radius) + note
        return check_bound(trials, contender, run, formula, bounds_of(theorem, by_radius=by_radius))

    in_the_paper = [constant / MARGIN**2] * len(streams)
    checks = [
        check(LAST_ITERATE, Run(LAST_ITERATE.name, MEASURE, 1.0)),
        check(CONTENDERS["slam"], best["slam"], note=f", rate = {best['slam'].rate:.3g}"),
        check(CONTENDERS["minimax"], best["minimax"], by_radius=True),
        check_bound(trials, SLAM_AS_IN_THE_PAPER, paper, "4 k R² v_max / γ²", in_the_paper),
        *(check_bound(trials, CONTENDERS[name], best[name]) for name in ("listwise", "listnet", "perceptron")),
    ]
    slam_bounds = {rate: bounds_of(CONTENDERS["slam"].make(MEASURE, rate).theorem) for rate in RATES}
    return Simulated(trials, checks, slam_bounds, radii, diameters, ratio)


def loss_chart(trials: Trials, checks: list[BoundCheck], name: str, about: str) -> Chart:
    """Chart the cumulative losses, and the smallest bound of each learner, dashed."""
    rounds = plotted_rounds(trials.source.n_rounds)
    x = rounds.astype(np.float64)
    series = [
        with_spread(check.contender, x, cumulative_losses(trials.values[check.run])[:, rounds - 1]) for check in checks
    ]
    highest = max(float(check.losses.max()) for check in checks)
    above = []
    for check in checks:
        if check.bounds is None:
            continue
        level = min(check.bounds)
        if level > _FAR_ABOVE * highest:
            above.append(f"{check.contender.label} ({three_digits(level)})")
        else:
            series.append(_bound_line(check.contender, x[[0, -1]], np.array([level, level])))
    stopped = [check.contender.label for check in checks if check.has_stopped]
    caption = "A curve that turns flat is a learner that has stopped losing"
    caption += f": {join_names(stopped)} lose nothing in the second half. " if stopped else ". "
    caption += "Dashed, in the colour of the learner: the most that its theorem allows, the smallest over seeds."
    caption += f" Far above the figure: the bound of {join_names(above)}." if above else ""
    title = f"Cumulative loss on {trials.source.title}, and its bounds"
    return Chart(name, title, "queries seen", _Y_LABEL, series, log_y=True, about=about, caption=caption)


def _bound_line(contender: Contender, x: Floats, y: Floats) -> Series:
    return Series(f"bound: {contender.label}", x, y, color=contender.color, dashed=True, short="bound")


def loss_by_rate_chart(trials: Trials, bounds: dict[float, list[float]], formula: str, name: str, about: str) -> Chart:
    """Chart the total loss of each learner over learning rates, and the rate-dependent bound of Algorithm 2."""
    rates, slam = np.array(RATES), CONTENDERS["slam"]
    series = []
    for contender in (slam, CONTENDERS["minimax"], CONTENDERS["listnet"], LAST_ITERATE):
        runs = trials.runs(contender.name, MEASURE)
        rows = np.array([cumulative_losses(trials.values[run])[:, -1] for run in runs]).T
        series.append(with_spread(contender, rates, rows))
    levels = np.array([min(bounds[rate]) for rate in RATES])
    series.append(_bound_line(slam, rates, levels))
    lost = series[0].y
    caption = (
        f"Dashed: {formula}, the smallest over seeds, which falls from {three_digits(levels[0])} to "
        f"{three_digits(levels[-1])}. {slam.label} loses {three_digits(lost.min())} at its best rate and "
        f"{three_digits(lost.max())} at its worst."
    )
    title = f"Cumulative loss by learning rate on {trials.source.title}"
    return Chart(name, title, "learning rate", _Y_LABEL, series, log_y=True, about=about, caption=caption)
