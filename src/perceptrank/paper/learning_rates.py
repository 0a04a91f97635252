"""Sensitivity to the learning rate."""

import numpy as np

from perceptrank.evaluation.digits import three_digits
from perceptrank.evaluation.plots import Chart, Series
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, RATES
from perceptrank.paper.curves import join_names, with_spread
from perceptrank.paper.trials import Trials


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
    series, flat, told = [], [], []
    for one in CONTENDERS.values():
        rows = means_by_rate(trials, one.name, measure)
        mean = rows.mean(axis=0)
        if depends_on_rate(trials, one.name, measure):
            series.append(with_spread(one.label, rates, rows, one.color, one.short))
            best, worst = three_digits(mean.max()), three_digits(mean.min())
            told.append(f"{one.label} has {best} at its best rate and {worst} at its worst")
        else:
            series.append(Series(one.label, rates, mean, color=one.color, short=one.short))
            flat.append(one.label)
    caption = f"Flat: {join_names(flat)}, whose rankings are the same at every rate. " if flat else ""
    caption += "; ".join(told) + "." if told else ""
    return Chart(
        name,
        f"{measure.upper()} by learning rate on {trials.source.title}",
        "learning rate",
        f"mean {measure.upper()}",
        series,
        about=about,
        caption=caption,
    )
