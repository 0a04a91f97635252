"""Repeated runs of all contenders on one stream, and their learning rates.

Each seed has another order or other simulated queries. Rates are tuned in hindsight, as in the paper, and on the first
tenth of the stream.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perceptrank.evaluation.comparing import compare
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.paper.contenders import CONTENDERS, MEASURES, RATES, Contender, Run, all_runs
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense
from perceptrank.transforms.registry import make_transforms
from perceptrank.transforms.transform import TransformLike

Progress = Callable[[int], object]


def no_progress(n_queries: int) -> None:
    """Ignore how many queries were done."""


@dataclass(frozen=True)
class Source:
    """The stream of a trial: `draw` returns the queries of a seed, which are presented `passes` times."""

    name: str
    about: str
    draw: Callable[[int], QueryStream]
    n_queries: int
    passes: int = 1
    shuffled: bool = True
    transform: TransformLike = None
    facts: dict[str, object] = field(default_factory=dict)
    fold_of: str = ""  # the set that it is one of several folds of
    called: str = ""  # in text, if not by its name

    @property
    def title(self) -> str:
        """Name in text."""
        return self.called or self.name

    @property
    def n_rounds(self) -> int:
        """Number of rounds of a trial."""
        return self.n_queries * self.passes

    def blocks(self, seed: int) -> Iterator[QueryStream]:
        """Iterate over the passes of a trial, scaled and, unless the order is given, reshuffled."""
        drawn = self.draw(seed)
        rng = np.random.default_rng([seed, 7])
        transforms = make_transforms(self.transform)
        for _ in range(self.passes):
            stream = drawn.shuffled(rng, documents=True) if self.shuffled else drawn
            for transform in transforms:
                X = transform.learn_and_apply(dense(stream.X), stream.offsets)
                stream = stream.with_features(X, feature_names=transform.output_names(stream.feature_names))
            yield stream


@dataclass(frozen=True)
class Trials:
    """Values of the measure of every run, seeds x rounds; NaN where the measure leaves a query out."""

    source: Source
    seeds: Sequence[int]
    values: dict[Run, Floats]

    def runs(self, learner: str, measure: str) -> list[Run]:
        """Return the runs of a contender, one per rate."""
        return [run for run in self.values if run.learner == learner and run.measure == measure]

    def means(self, run: Run, rounds: slice = slice(None)) -> Floats:
        """Return the mean over some rounds, one per seed; NaN if the measure leaves out all of them."""
        values = self.values[run][:, rounds]
        counts = np.count_nonzero(~np.isnan(values), axis=1)
        return np.where(counts > 0, np.nansum(values, axis=1) / np.maximum(counts, 1), np.nan)


def run_trials(
    source: Source,
    seeds: Sequence[int],
    extra: Callable[[], dict[Run, Learner]] = dict,
    *,
    n_threads: int | None = None,
    progress: Progress = no_progress,
) -> Trials:
    """Run every contender, and extra learners, on a source, once per seed."""
    rows: dict[Run, list[Floats]] = {}
    for seed in seeds:
        runs = all_runs() | extra()
        learners = {_name(run): learner for run, learner in runs.items()}
        traces = _learn(learners, source.blocks(seed), n_threads, progress)
        for run in runs:
            contender = CONTENDERS.get(run.learner)
            for measure in [run.measure] if contender is None or contender.takes_measure else MEASURES:
                rows.setdefault(run._replace(measure=measure), []).append(traces[_name(run)].values(measure))
    return Trials(source, list(seeds), {run: np.stack(several) for run, several in rows.items()})


def _name(run: Run) -> str:
    return f"{run.learner} for {run.measure} at {run.rate:g}"


def _learn(
    learners: dict[str, Learner], blocks: Iterator[QueryStream], n_threads: int | None, progress: Progress
) -> Mapping[str, Trace]:
    def on_block(traces: dict[str, Trace]) -> None:
        progress(len(next(iter(traces.values()))))

    with warnings.catch_warnings():  # all learners are to take features alike, scaled or not as the source says
        warnings.filterwarnings("ignore", message="features differ in spread")
        return compare(learners, blocks, MEASURES, n_threads=n_threads, on_block=on_block).traces


@dataclass(frozen=True)
class Tuned:
    """Means of a contender, one per seed, over all rounds (`whole`) and after the first tenth (`rest`)."""

    contender: Contender
    hindsight: Run  # the best over all rounds and seeds
    whole: Floats
    rest: Floats
    honest_rates: list[float] | None  # best in the first tenth of each seed; of equal ones the nearest to the default
    honest_rest: Floats  # after it; as `rest` for a contender without a rate

    @property
    def is_at_the_edge(self) -> bool:
        """True if the best rate is the smallest or largest tried."""
        return self.contender.has_rate and self.hindsight.rate in (RATES[0], RATES[-1])


def first_tenth(n_rounds: int) -> int:
    """Return the number of rounds that rates are tuned on."""
    return max(1, n_rounds // 10)


def tune(trials: Trials, measure: str) -> list[Tuned]:
    """Tune all contenders; return them best first."""
    tuned = [_tune(trials, contender, measure) for contender in CONTENDERS.values()]
    return sorted(tuned, key=lambda result: -result.whole.mean())


def _tune(trials: Trials, contender: Contender, measure: str) -> Tuned:
    runs = trials.runs(contender.name, measure)
    if not contender.has_rate:
        runs = [run for run in runs if run.rate == 1.0]
    tenth = first_tenth(trials.source.n_rounds)
    best = max(runs, key=lambda run: float(trials.means(run).mean()))
    rest = np.array([trials.means(run, slice(tenth, None)) for run in runs])
    if np.isnan(rest).any():
        raise ValueError("the measure has no value on any query after the first tenth of the stream")
    start = np.array([np.nan_to_num(trials.means(run, slice(tenth)), nan=-np.inf) for run in runs])
    from_default = [abs(math.log(run.rate / contender.default_rate)) for run in runs]
    chosen = np.lexsort((np.broadcast_to(from_default, start.T.shape), -start.T))[:, 0]
    return Tuned(
        contender,
        best,
        trials.means(best),
        trials.means(best, slice(tenth, None)),
        [runs[k].rate for k in chosen] if contender.has_rate else None,
        rest[chosen, np.arange(len(trials.seeds))],
    )
