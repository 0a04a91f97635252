"""The paper's Figures 1 to 3: running means of a measure, for every contender at its best rate."""

import numpy as np

from perceptrank.evaluation.plots import Chart, Series, three_digits
from perceptrank.evaluation.trace import running_means
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, RATES, Contender
from perceptrank.paper.trials import Trials, Tuned

_N_POINTS = 160


def plotted_rounds(n_rounds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Select rounds from the first to the last, evenly spaced on a logarithmic axis."""
    return np.unique(np.geomspace(1, n_rounds, _N_POINTS).round().astype(np.int64))


def means_with_spread(rows: Floats) -> tuple[Floats, Floats | None, Floats | None]:
    """Return the mean over rows, one per seed, and a band of one standard error, clipped at 0."""
    mean = rows.mean(axis=0)
    if len(rows) == 1:
        return mean, None, None
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    return mean, np.maximum(mean - error, 0.0), mean + error


def with_spread(contender: Contender, x: Floats, rows: Floats) -> Series:
    """Make a curve of the mean over rows, one per seed."""
    return Series(contender.label, x, *means_with_spread(rows), contender.color, short=contender.short)


def join_names(names: list[str]) -> str:
    """Join names as in English prose."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def running_mean_chart(trials: Trials, tuned: list[Tuned], measure: str, name: str, figure: int, about: str) -> Chart:
    """Chart the running mean of each contender, as in a figure of the paper."""
    rounds = plotted_rounds(trials.source.n_rounds)
    means = [running_means(trials.values[result.hindsight]) for result in tuned]
    for rows in means:
        rounds = rounds[~np.isnan(rows[:, rounds - 1]).any(axis=0)]
    x = rounds.astype(np.float64)
    series = [with_spread(result.contender, x, rows[:, rounds - 1]) for result, rows in zip(tuned, means, strict=True)]
    best, worst = (choose(series, key=lambda curve: float(curve.y[-1])) for choose in (max, min))
    first, last = three_digits(best.y[-1]), three_digits(worst.y[-1])
    end = f"{best.name} is first with {first}, {worst.name} last with {last}"
    if first == last:
        end = f"all have {first}, to three digits"
    rates = [f"{result.contender.label} {result.hindsight.rate:.3g}" for result in tuned if result.contender.has_rate]
    caption = (
        f"As Figure {figure} of the paper. In the end {end}. Rates are the best of {len(RATES)} in "
        f"hindsight: {', '.join(rates)}."
    )
    title, label = f"{measure.upper()} on {trials.source.title}", f"running mean of {measure.upper()}"
    return Chart(name, title, "queries seen", label, series, about=about, caption=caption)


def means_by_rate(trials: Trials, learner: str, measure: str) -> Floats:
    """Return the means of a learner: seeds x rates."""
    return np.array([trials.means(run) for run in trials.runs(learner, measure)]).T


def depends_on_rate(trials: Trials, learner: str, measure: str) -> bool:
    """Return True if any query was ranked differently at any two rates."""
    first, *others = (trials.values[run] for run in trials.runs(learner, measure))
    return not all(np.array_equal(first, other, equal_nan=True) for other in others)


def rate_chart(trials: Trials, measure: str, name: str, about: str) -> Chart:
    """Chart the mean of each contender over learning rates; only rate-dependent contenders have a band."""
    rates = np.array(RATES)
    series, flat, others = [], [], []
    for learner, contender in CONTENDERS.items():
        rows = means_by_rate(trials, learner, measure)
        mean = rows.mean(axis=0)
        if depends_on_rate(trials, learner, measure):
            series.append(with_spread(contender, rates, rows))
            best, worst = three_digits(mean.max()), three_digits(mean.min())
            others.append(f"{contender.label} has {best} at its best rate and {worst} at its worst")
        else:
            series.append(with_spread(contender, rates, mean[None]))
            flat.append(contender.label)
    caption = f"Flat: {join_names(flat)}, whose rankings are the same at every rate. " if flat else ""
    caption += "; ".join(others) + "." if others else ""
    title, label = f"{measure.upper()} by learning rate on {trials.source.title}", f"mean {measure.upper()}"
    return Chart(name, title, "learning rate", label, series, about=about, caption=caption)
