"""Repeated runs of all contenders on one stream, with other orders or other simulated queries for each seed."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from perceptrank.evaluation.comparing import compare
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.paper.contenders import CONTENDERS, MEASURES, Run, all_runs
from perceptrank.paper.finished import Finished
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense
from perceptrank.transforms.parsing import make_transforms
from perceptrank.transforms.transform import TransformLike

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Source:
    """The stream of a trial: `draw` returns the queries of a seed, which are presented `passes` times."""

    name: str
    about: str
    draw: Callable[[int], QueryStream]
    n_queries: int
    passes: int = 1
    shuffled: bool = True
    scaling: TransformLike = None
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
        transforms = make_transforms(self.scaling)
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
    progress: Progress | None = None,
    finished: Finished | None = None,
) -> Trials:
    """Run every contender, and extra learners, on a source, once per seed, unless that is finished already."""
    parts: dict[Run, list[Floats]] = {}
    for seed in seeds:
        runs = all_runs() | extra()
        named = {f"{run.learner} for {run.measure} at {run.rate:g}": run for run in runs}

        def on_block(traces: dict[str, Trace]) -> None:
            if progress is not None:
                progress(len(next(iter(traces.values()))))

        learners = {name: runs[run] for name, run in named.items()}
        key = "" if finished is None else finished.key(source, seed, learners)
        values = None if finished is None else finished.load(key, source.n_rounds)
        if values is not None:
            if progress is not None:
                progress(source.n_rounds)
            for run, found in values.items():
                parts.setdefault(run, []).append(found)
            continue
        with warnings.catch_warnings():  # all learners are to take features alike, scaled or not as the source says
            warnings.filterwarnings("ignore", message="features differ in spread")
            result = compare(learners, source.blocks(seed), MEASURES, n_threads=n_threads, on_block=on_block)
        values = {}
        for name, run in named.items():
            trace = result.traces[name]
            judged = CONTENDERS.get(run.learner)
            measures = [run.measure] if judged is None or judged.takes_measure else MEASURES
            for measure in measures:
                values[run._replace(measure=measure)] = trace.values(measure)
        if finished is not None:
            finished.keep(key, values)
        for run, found in values.items():
            parts.setdefault(run, []).append(found)
    return Trials(source, list(seeds), {run: np.stack(values) for run, values in parts.items()})
