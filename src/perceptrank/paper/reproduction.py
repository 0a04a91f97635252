"""Run all experiments and chart their results."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.evaluation.plots import Chart
from perceptrank.io.names import printable
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.clicks_walk import Shop, clicks_chart, learn_from_clicks
from perceptrank.paper.contenders import CONTENDERS, MEASURES
from perceptrank.paper.curves import depends_on_rate, rate_chart, running_mean_chart
from perceptrank.paper.real_sets import LeftOut, as_text, find_sets, real_source
from perceptrank.paper.simulated import Simulated, loss_by_rate_chart, loss_chart, run_simulated, simulated_source
from perceptrank.paper.trials import Source, Trials, Tuned, run_trials, tune
from perceptrank.paper.walkthrough import Walkthrough, walk_through
from perceptrank.stream.validation import check_choice, check_positive_whole, check_seed


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction; transform, order and passes are of real data sets."""

    data: Path | None = None  # folder of real data sets
    quick: bool = False  # fewer and shorter trials, as a smoke test
    seed: int = 0
    n_seeds: int | None = None  # 10, or 3 if quick
    transform: str = "auto"  # features are standardised per query unless they are in [-1, 1]
    order: str = "shuffled"
    passes: int = 1

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_positive_whole("passes", self.passes)
        check_choice("transform", self.transform, ["auto", "none", "query-zscore", "query-minmax", "running"])
        check_choice("order", self.order, ["shuffled", "given"])
        if self.n_seeds is not None:
            check_positive_whole("n_seeds", self.n_seeds)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trials."""
        default = 3 if self.quick else 10
        return list(range(self.seed, self.seed + (self.n_seeds or default)))

    @property
    def command(self) -> str:
        """Command line that reproduces the report."""
        words = ["perceptrank", "reproduce"]
        words += ["--data", as_text(self.data)] if self.data is not None else []
        words += ["--quick"] if self.quick else []
        words += ["--seed", str(self.seed)]
        for name in ("n_seeds", "transform", "order", "passes"):
            if (value := getattr(self, name)) != getattr(Settings, name):
                words += [f"--{name.removeprefix('n_')}", str(value)]
        return shlex.join(words)


@dataclass(frozen=True)
class StreamResult:
    """Results on one stream: charts, and for each measure the tuned contenders, best first."""

    trials: Trials
    charts: list[Chart]
    tuned: dict[str, list[Tuned]]
    simulated: Simulated | None = None

    @cached_property
    def depends(self) -> dict[str, bool]:
        """Contenders by name, True if their rankings depend on the rate."""
        return {name: any(depends_on_rate(self.trials, name, each) for each in MEASURES) for name in CONTENDERS}


@dataclass(frozen=True)
class Reproduction:
    """All results, with their settings."""

    settings: Settings
    streams: list[StreamResult]
    walkthrough: Walkthrough
    shop: Shop
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the report."""
        return [*(chart for stream in self.streams for chart in stream.charts), self.clicks_chart]

    @property
    def clicks_chart(self) -> Chart:
        """The chart of what is learned from clicks."""
        return clicks_chart(self.shop, _produced(self.settings, len(self.settings.seeds)))

    @property
    def folds(self) -> dict[str, list[StreamResult]]:
        """Results of the folds of each data set that has several."""
        folds: dict[str, list[StreamResult]] = {}
        for stream in self.streams:
            if stream.trials.source.fold_of:
                folds.setdefault(stream.trials.source.fold_of, []).append(stream)
        return {name: streams for name, streams in folds.items() if len(streams) > 1}

    @property
    def n_sets(self) -> int:
        """Number of real data sets, the folds of one counted once."""
        sources = [stream.trials.source for stream in self.streams[1:]]
        return len({source.fold_of or source.name for source in sources})


def mean_of_folds(streams: list[StreamResult], measure: str, learner: str) -> Floats:
    """Return the mean after the first tenth of each fold, rates chosen on that tenth, over all seeds."""
    tuned = [result for stream in streams for result in stream.tuned[measure] if result.contender.name == learner]
    return np.array([float(result.honest_rest.mean()) for result in tuned])


Progress = Callable[[str, int, int], object]


def reproduce(settings: Settings, *, n_threads: int | None = None, progress: Progress | None = None) -> Reproduction:
    """Run all experiments; `progress` is called with a stream's name, the number of queries done, and their total."""
    sets, left_out = find_sets(settings.data) if settings.data is not None else ([], [])

    def common(source: Source, n_trials: int) -> dict[str, Any]:
        done = 0

        def on_queries(n_queries: int) -> None:
            nonlocal done
            done += n_queries
            if progress is not None:
                progress(source.name, done, n_trials * source.n_rounds)

        return {"n_threads": n_threads, "progress": on_queries}

    source, seeds = simulated_source(500, 5 if settings.quick else 40), settings.seeds
    results = [_simulated(settings, run_simulated(source, seeds, **common(source, len(seeds))))]
    seeds = seeds if settings.order == "shuffled" else seeds[:1]
    for data_set in sets:
        try:
            max_queries = 1000 if settings.quick else None
            source = real_source(data_set, settings.transform, settings.order, settings.passes, max_queries)
            trials = run_trials(source, seeds, **common(source, len(seeds)))
            results.append(_real(settings, trials, len(results)))
        except (ArithmeticError, ImportError, MemoryError, OSError, ValueError) as error:
            left_out.append(LeftOut(data_set.name, printable(str(error))))
    shop = learn_from_clicks(settings.seeds)
    return Reproduction(settings, results, walk_through(settings.seed), shop, left_out)


def _about(settings: Settings, trials: Trials) -> str:
    text = f"{trials.source.about}; {_produced(settings, len(trials.seeds))}"
    return text[:1].upper() + text[1:]


def _produced(settings: Settings, n_seeds: int) -> str:
    seeds = f"{n_seeds} seeds, band: ± one standard error" if n_seeds > 1 else "one run"
    return f"{seeds}. Produced by: {settings.command}"


def _simulated(settings: Settings, simulated: Simulated) -> StreamResult:
    slam = CONTENDERS["slam"].make("ndcg@10", 1.0).theorem
    trials = simulated.trials
    tuned = {measure: tune(trials, measure) for measure in MEASURES}
    ranked = [result for result in tuned["ndcg@10"] if result.contender.name != "perceptron"]
    about = _about(settings, trials)
    charts = [
        loss_chart(trials, simulated.bound_checks, "losses-and-bounds", about),
        running_mean_chart(trials, ranked, "ndcg@10", "ndcg-simulated", 1, about),
        rate_chart(trials, "ndcg@10", "rates-simulated", about),
        loss_by_rate_chart(trials, simulated.slam_bounds, slam.separable_formula(), "losses-by-rate", about),
    ]
    return StreamResult(trials, charts, tuned, simulated)


def _real(settings: Settings, trials: Trials, number: int) -> StreamResult:
    tuned = {measure: tune(trials, measure) for measure in MEASURES}
    about = _about(settings, trials)
    charts = [
        running_mean_chart(trials, tuned["ap"], "ap", f"ap-set-{number}", 2, about),
        running_mean_chart(trials, tuned["ndcg@10"], "ndcg@10", f"ndcg-set-{number}", 3, about),
        rate_chart(trials, "ndcg@10", f"rates-set-{number}", about),
    ]
    return StreamResult(trials, charts, tuned)
