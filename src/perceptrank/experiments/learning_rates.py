"""The learning-rate study: who depends on it."""

import numpy as np

from perceptrank.arrays import Floats
from perceptrank.experiments.contenders import CONTENDERS, RATES
from perceptrank.experiments.curves import with_spread
from perceptrank.experiments.trials import Trials
from perceptrank.plots import Chart


def means_by_rate(trials: Trials, learner: str, measure: str) -> Floats:
    """Seeds x rates."""
    return np.array([trials.means(run) for run in trials.runs(learner, measure)]).T


def depends_on_rate(trials: Trials, learner: str, measure: str) -> bool:
    """Whether any query was ranked differently at any two of the rates."""
    first, *others = (trials.values[run] for run in trials.runs(learner, measure))
    return not all(np.array_equal(first, other, equal_nan=True) for other in others)


def draw_rates(trials: Trials, measure: str, name: str, title: str, about: str) -> Chart:
    """The mean of each contender over the rates it was run at."""
    rates = np.array(RATES)
    return Chart(
        name,
        title,
        "learning rate",
        f"mean {measure.upper()}",
        [
            with_spread(one.label, rates, means_by_rate(trials, one.name, measure), one.color)
            for one in CONTENDERS.values()
        ],
        about=about,
    )
