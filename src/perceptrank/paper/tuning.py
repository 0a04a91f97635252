"""Learning rates tuned in hindsight, as in the paper, and tuned on the first tenth of the stream."""

import math
from dataclasses import dataclass

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, RATES, Contender, Run
from perceptrank.paper.trials import Trials


@dataclass(frozen=True)
class Tuned:
    """Means of a contender, one per seed, over all rounds (`whole`) and after the first tenth (`rest`).

    `hindsight` has the rate with the best mean over all rounds and seeds. `honest_rates` are the best in the first
    tenth of each seed, with ties going to the rate nearest to the learner's default; `honest_rest` are their means
    after it. A contender without a rate has the same means in both.
    """

    contender: Contender
    hindsight: Run
    whole: Floats
    rest: Floats
    honest_rates: list[float] | None
    honest_rest: Floats

    @property
    def is_at_the_edge(self) -> bool:
        """True if the best rate is the smallest or largest tried."""
        return self.contender.has_rate and self.hindsight.rate in (RATES[0], RATES[-1])


def first_tenth(n_rounds: int) -> int:
    """Return the number of rounds that rates are tuned on."""
    return max(1, n_rounds // 10)


def tune(trials: Trials, measure: str) -> list[Tuned]:
    """Tune all contenders; return them best first."""
    tuned = [_tune(trials, one, measure) for one in CONTENDERS.values()]
    return sorted(tuned, key=lambda one: -one.whole.mean())


def _tune(trials: Trials, contender: Contender, measure: str) -> Tuned:
    runs = trials.runs(contender.name, measure)
    if not contender.has_rate:
        runs = [run for run in runs if run.rate == 1.0]
    tenth = first_tenth(trials.source.n_rounds)
    best = max(runs, key=lambda run: float(trials.means(run).mean()))
    rest = np.array([trials.means(run, slice(tenth, None)) for run in runs])
    if np.isnan(rest).any():
        raise ValueError("the measure leaves out all queries after the first tenth of the stream")
    start = np.array([np.nan_to_num(trials.means(run, slice(tenth)), nan=-np.inf) for run in runs])
    from_default = [abs(math.log(run.rate / contender.default_rate)) for run in runs]
    best_first = np.lexsort((np.broadcast_to(from_default, start.T.shape), -start.T))
    chosen = best_first[:, 0]
    return Tuned(
        contender,
        best,
        trials.means(best),
        trials.means(best, slice(tenth, None)),
        [runs[k].rate for k in chosen] if contender.has_rate else None,
        rest[chosen, np.arange(len(trials.seeds))],
    )
