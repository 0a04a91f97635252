"""All contenders on one stream, again and again: in other orders, or simulated anew."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from perceptrank.evaluation.comparison import compare
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.paper.contenders import CONTENDERS, MEASURES, Run, all_runs
from perceptrank.stream.query_stream import QueryStream
from perceptrank.transforms.scaling import ScalingLike, make_scalings

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Source:
    """Where the queries of a trial come from. `draw` gives those of a seed; they are shown `passes` times."""

    name: str
    about: str
    draw: Callable[[int], QueryStream]
    n_queries: int
    passes: int = 1
    shuffled: bool = True
    scaling: ScalingLike = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def n_rounds(self) -> int:
        """How many queries a learner sees in a trial."""
        return self.n_queries * self.passes

    def blocks(self, seed: int) -> Iterator[QueryStream]:
        """The queries of a trial: scaled, and in an order of their own in every pass."""
        drawn = self.draw(seed)
        rng = np.random.default_rng([seed, 7])
        scalings = make_scalings(self.scaling)
        for _ in range(self.passes):
            stream = drawn.shuffled(rng, documents=True) if self.shuffled else drawn
            for scaling in scalings:
                stream = stream.with_features(scaling.learn_and_scale(stream.X, stream.offsets))
            yield stream


@dataclass(frozen=True)
class Trials:
    """What came out: for every run the value of its measure, seeds x rounds, NaN where a query does not count."""

    source: Source
    seeds: Sequence[int]
    values: dict[Run, Floats]

    def runs(self, learner: str, measure: str) -> list[Run]:
        """A contender's runs, one per rate."""
        return [run for run in self.values if run.learner == learner and run.measure == measure]

    def means(self, run: Run, rounds: slice = slice(None)) -> Floats:
        """The mean over these rounds, one per seed; NaN if none of them counts."""
        values = self.values[run][:, rounds]
        counts = np.count_nonzero(~np.isnan(values), axis=1)
        return np.where(counts > 0, np.nansum(values, axis=1) / np.maximum(counts, 1), np.nan)


def try_all(
    source: Source,
    seeds: Sequence[int],
    extra: Callable[[], dict[Run, Learner]] = dict,
    *,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> Trials:
    """Run every contender, and the extra ones, on the source once for every seed."""
    parts: dict[Run, list[Floats]] = {}
    for seed in seeds:
        runs = all_runs() | extra()
        named = {f"{run.learner} for {run.measure} at {run.rate:g}": run for run in runs}

        def on_block(traces: dict[str, Trace]) -> None:
            if progress is not None:
                progress(len(next(iter(traces.values()))))

        learners = {name: runs[run] for name, run in named.items()}
        result = compare(learners, source.blocks(seed), MEASURES, n_threads=n_threads, on_block=on_block)
        for name, run in named.items():
            trace = result.traces[name]
            judged = CONTENDERS.get(run.learner)
            measures = [run.measure] if judged is None or judged.takes_measure else MEASURES
            for measure in measures:
                parts.setdefault(run._replace(measure=measure), []).append(trace.values(measure))
    return Trials(source, list(seeds), {run: np.stack(values) for run, values in parts.items()})
