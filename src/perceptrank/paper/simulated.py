"""Runs on the simulated, linearly separable stream: Figure 1, and losses against bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

from perceptrank.datasets.separable import separable
from perceptrank.learners.learner import Learner
from perceptrank.measures import parse
from perceptrank.paper.contenders import CONTENDERS, LAST_ITERATE, RATES, SLAM_AS_IN_THE_PAPER, Contender, Run
from perceptrank.paper.finished import Finished
from perceptrank.paper.losses import MEASURE, BoundCheck, check_bound
from perceptrank.paper.trials import Progress, Source, Trials, no_progress, run_trials, tune
from perceptrank.stream.query_stream import QueryStream
from perceptrank.theory import Theorem, bounds, diameter, radius

MARGIN = 1.0


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
class Simulated:
    """Trials on the simulated stream, with bounds; `slam_bounds` has those of Algorithm 2 for every rate."""

    trials: Trials
    bound_checks: list[BoundCheck]
    slam_bounds: dict[float, list[float]]
    radii: list[float]
    diameters: list[float]
    weight_ratio: float


def run_simulated(
    source: Source,
    seeds: Sequence[int],
    *,
    n_threads: int | None = None,
    progress: Progress = no_progress,
    finished: Finished | None = None,
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

    trials = run_trials(source, seeds, extra, n_threads=n_threads, progress=progress, finished=finished)
    best = {tuned.contender.name: tuned.hindsight for tuned in tune(trials, MEASURE)}

    def bounds_of(theorem: Theorem, *, by_radius: bool = False) -> list[float]:
        if by_radius:
            return [theorem.bound(radius=R, margin=MARGIN) for R in radii]
        return [theorem.bound(diameter=D, margin=MARGIN) for D in diameters]

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
