"""All experiments, and everything that came out of them: charts, tables, and plain numbers with their settings."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.evaluation.plots import Chart
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, MEASURES, RATES
from perceptrank.paper.curves import draw_curves
from perceptrank.paper.learning_rates import depends_on_rate, draw_rates, means_by_rate
from perceptrank.paper.losses import draw_losses, draw_losses_by_rate
from perceptrank.paper.real_sets import LeftOut, as_text, find_sets, real_source
from perceptrank.paper.simulated import Simulated, simulated_source, try_simulated
from perceptrank.paper.trials import Source, Trials, try_all
from perceptrank.paper.tuning import Tuned, first_tenth, tune
from perceptrank.stream.validation import check_choice, check_positive_whole, check_seed


@dataclass(frozen=True)
class Settings:
    """What to run. `quick` takes fewer and shorter trials, enough to see that all works."""

    data: Path | None = None
    quick: bool = False
    seed: int = 0
    n_seeds: int | None = None
    scaling: str = "auto"
    order: str = "shuffled"
    passes: int = 1

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_positive_whole("passes", self.passes)
        check_choice("scaling", self.scaling, ["auto", "none", "query-zscore", "query-minmax", "running"])
        check_choice("order", self.order, ["shuffled", "given"])
        if self.n_seeds is not None:
            check_positive_whole("n_seeds", self.n_seeds)

    @property
    def seeds(self) -> list[int]:
        """The seeds of all trials."""
        default = 3 if self.quick else 10
        return list(range(self.seed, self.seed + (self.n_seeds or default)))

    @property
    def simulated_shape(self) -> tuple[int, int]:
        """Queries and passes of the simulated stream."""
        return (500, 5) if self.quick else (500, 40)

    @property
    def most_queries(self) -> int | None:
        """How many queries of a real set are used."""
        return 1000 if self.quick else None

    @property
    def command(self) -> str:
        """What to type to have it all again."""
        words = ["perceptrank", "reproduce"]
        words += ["--data", as_text(self.data)] if self.data is not None else []
        words += ["--quick"] if self.quick else []
        words += ["--seed", str(self.seed)]
        words += ["--seeds", str(self.n_seeds)] if self.n_seeds is not None else []
        words += ["--scaling", self.scaling] if self.scaling != "auto" else []
        words += ["--order", self.order] if self.order != "shuffled" else []
        words += ["--passes", str(self.passes)] if self.passes != 1 else []
        return shlex.join(words)


@dataclass(frozen=True)
class StreamResult:
    """What came out on one stream: charts, and for each measure the contenders, best first."""

    trials: Trials
    charts: list[Chart]
    tuned: dict[str, list[Tuned]]
    depends: dict[str, bool]
    simulated: Simulated | None = None


@dataclass(frozen=True)
class Reproduction:
    """Everything."""

    settings: Settings
    streams: list[StreamResult]
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def charts(self) -> list[Chart]:
        """All of them, in the order of the report."""
        return [chart for stream in self.streams for chart in stream.charts]


Progress = Callable[[str, int, int], object]

_AT_EVERY_RATE = "Every algorithm was run at every rate; where that makes no difference, there is no band."


def reproduce(settings: Settings, *, n_threads: int | None = None, progress: Progress | None = None) -> Reproduction:
    """Run everything; `progress` is told what is under way, how many queries are done, and how many there are."""
    sets, left_out = find_sets(settings.data) if settings.data is not None else ([], [])

    def advance(source: Source, n_trials: int) -> Callable[[int], object]:
        done = 0

        def on_queries(n_queries: int) -> None:
            nonlocal done
            done += n_queries
            if progress is not None:
                progress(source.name, done, n_trials * source.n_rounds)

        return on_queries

    source = simulated_source(*settings.simulated_shape)
    results = [_simulated(settings, source, n_threads, advance(source, len(settings.seeds)))]
    seeds = settings.seeds if settings.order == "shuffled" else settings.seeds[:1]
    for one in sets:
        try:
            source = real_source(
                one,
                scaling=settings.scaling,
                order=settings.order,
                passes=settings.passes,
                most_queries=settings.most_queries,
            )
            trials = try_all(source, seeds, n_threads=n_threads, progress=advance(source, len(seeds)))
            results.append(_real(settings, trials, len(results)))
        except (ArithmeticError, ImportError, MemoryError, OSError, ValueError) as error:
            left_out.append(LeftOut(one.name, str(error)))
    return Reproduction(settings, results, left_out)


def _about(settings: Settings, trials: Trials, what: str) -> str:
    seeds = f"{len(trials.seeds)} seeds" if len(trials.seeds) > 1 else "one run"
    band = ", band: one standard deviation to both sides" if len(trials.seeds) > 1 else ""
    return f"{what} {trials.source.about}. {seeds.capitalize()}{band}. Made by: {settings.command}"


def _in_hindsight(tuned: list[Tuned]) -> str:
    rates = [f"{one.contender.label} {one.hindsight.rate:.3g}" for one in tuned if one.contender.has_rate]
    return f"Rates are the best of {len(RATES)} in hindsight: {', '.join(rates)}."


def _rates(result: Simulated) -> str:
    named = [
        f"{one.label} {one.run.rate:.3g}" for one in result.promises if one.run.learner.startswith(("slam", "listnet"))
    ]
    return f"Rates: {', '.join(named)}; the first and the last of these are the best for NDCG@10 in hindsight."


def _simulated(settings: Settings, source: Source, n_threads: int | None, progress: Any) -> StreamResult:
    result = try_simulated(source, settings.seeds, n_threads=n_threads, progress=progress)
    trials = result.trials
    tuned = {measure: tune(trials, measure) for measure in MEASURES}
    ranked = [one for one in tuned["ndcg@10"] if one.contender.name != "perceptron"]
    charts = [
        draw_curves(
            trials,
            ranked,
            "ndcg@10",
            "figure-1",
            "Figure 1: NDCG@10 on the separable stream",
            _about(
                settings, trials, f"{_in_hindsight(ranked)} Algorithm 1, which knows no grades, is in the figure below."
            ),
        ),
        draw_losses(
            trials,
            result.promises,
            "losses-and-bounds",
            "Cumulative loss and its bounds on the separable stream",
            _about(settings, trials, f"Dashed: the smallest bound among the seeds. {_rates(result)}"),
        ),
        draw_rates(
            trials,
            "ndcg@10",
            "rates-simulated",
            "NDCG@10 over learning rates on the separable stream",
            _about(settings, trials, _AT_EVERY_RATE),
        ),
        draw_losses_by_rate(
            trials,
            result.slam_bounds,
            "losses-by-rate",
            "Cumulative loss over learning rates on the separable stream",
            _about(settings, trials, "Dashed: (D² + 2 / η) / γ², the smallest among the seeds."),
        ),
    ]
    return StreamResult(trials, charts, tuned, _depends(trials), result)


def _real(settings: Settings, trials: Trials, number: int) -> StreamResult:
    tuned = {measure: tune(trials, measure) for measure in MEASURES}
    name = trials.source.name
    charts = []
    for figure, measure in ((2, "ap"), (3, "ndcg@10")):
        ranked = tuned[measure]
        charts.append(
            draw_curves(
                trials,
                ranked,
                measure,
                f"figure-{figure}-set-{number}",
                f"Figure {figure}: {measure.upper()} on {name}",
                _about(settings, trials, _in_hindsight(ranked)),
            )
        )
    charts.append(
        draw_rates(
            trials,
            "ndcg@10",
            f"rates-set-{number}",
            f"NDCG@10 over learning rates on {name}",
            _about(settings, trials, _AT_EVERY_RATE),
        )
    )
    return StreamResult(trials, charts, tuned, _depends(trials))


def _depends(trials: Trials) -> dict[str, bool]:
    return {name: any(depends_on_rate(trials, name, measure) for measure in MEASURES) for name in CONTENDERS}


def as_plain(result: Reproduction) -> dict[str, Any]:
    """Every number with its settings, for JSON. The same settings give the same numbers."""
    settings = result.settings
    return {
        "format": "perceptrank-results",
        "version": 1,
        "command": settings.command,
        "settings": {
            "quick": settings.quick,
            "seeds": settings.seeds,
            "rates": RATES,
            "scaling": settings.scaling,
            "order": settings.order,
            "passes": settings.passes,
            "ties": "worst",
            "empty": "skip",
        },
        "streams": [_plain_stream(one) for one in result.streams],
        "left_out": [{"name": one.name, "reason": one.reason} for one in result.left_out],
        "figures": [{"name": one.name, "title": one.title, "about": one.about} for one in result.charts],
    }


def _plain_stream(result: StreamResult) -> dict[str, Any]:
    trials, source = result.trials, result.trials.source
    plain: dict[str, Any] = {
        "name": source.name,
        "about": source.about,
        "facts": source.facts,
        "scaling": source.scaling,
        "passes": source.passes,
        "rounds": source.n_rounds,
        "seeds": list(trials.seeds),
        "rounds_that_rates_are_chosen_on": first_tenth(source.n_rounds),
        "measures": {
            measure: [_plain_tuned(trials, one, measure) for one in tuned] for measure, tuned in result.tuned.items()
        },
        "depends_on_rate": result.depends,
    }
    if result.simulated is not None:
        one = result.simulated
        plain |= {"radius": one.radii, "diameter": one.diameters, "weight_ratio": one.weight_ratio}
        plain["bounds"] = [
            {
                "learner": promise.label,
                "rate": promise.run.rate,
                "formula": promise.formula,
                "bound": promise.bounds,
                "loss": _summary(promise.losses),
                "loss_in_second_half": promise.second_half.tolist(),
                "last_loss_at_query": promise.last_losses,
                "holds": promise.holds,
            }
            for promise in one.promises
        ]
    return plain


def _plain_tuned(trials: Trials, one: Tuned, measure: str) -> dict[str, Any]:
    by_rate = means_by_rate(trials, one.contender.name, measure)
    plain: dict[str, Any] = {
        "learner": one.contender.name,
        "label": one.contender.label,
        "hindsight": {"rate": one.hindsight.rate if one.contender.has_rate else None, **_summary(one.whole)},
        "hindsight_after_first_tenth": _summary(one.rest),
        "honest_after_first_tenth": {"rates": one.honest_rates, **_summary(one.honest_rest)},
        "rate_at_the_edge": one.is_at_the_edge,
        "by_rate": [{"rate": rate, **_summary(by_rate[:, place])} for place, rate in enumerate(RATES)],
    }
    return plain


def _summary(values: Floats) -> dict[str, Any]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "spread": spread, "per_seed": values.tolist()}
