"""The command `bound`."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import perceptrank as pr
from perceptrank.cli.making import make_learner, parse_rates
from perceptrank.cli.options.files import What, Writes
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.options.shared import AsJson, Transforms, chosen_transforms
from perceptrank.cli.terminal.tables import ProgressBar, as_text, is_wide, print_text, show

_POINTS = 1000
_MOST_BYTES_KEPT = 2**30
_BOUND = ",.4g"
_MORE = ("from the steps", "a priori")  # columns that a terminal of 80 has no room for


def bound(
    *,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Learner; may be repeated. Default: slam, minimax, listwise.")
    ] = None,
    learning_rate: Annotated[
        str | None, typer.Option(help="Rates for slam: 0.1 or 0.1,1 or 1e-4:1:9 (first:last:number).")
    ] = None,
    measure: Annotated[str, typer.Option(help="Measure to learn; the loss is 1 minus it.")] = "ndcg@10",
    transforms: Transforms = None,
    tolerance: Annotated[float, typer.Option(help="Relative precision of the margin.")] = 1e-3,
    plot: Annotated[Path | None, typer.Option(help="Image file for losses and bounds."), Writes(What.image)] = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Find the best margin of a stream, and print the loss of each learner beside its bound.

    Where no linear ranker gets everything right, bounds compare with the best fixed ranker.

    Example: perceptrank bound train.txt.gz --measure ndcg@10 --plot bounds.png
    """
    from perceptrank.transforms.registry import make_transforms

    names = list(dict.fromkeys(algorithm or ["slam", "minimax", "listwise"]))
    rates = parse_rates(learning_rate) if learning_rate is not None else []
    names_of_transforms = [name for name in chosen_transforms(transforms) if name != "none"]
    for transform in make_transforms(names_of_transforms):
        if transform.learns:
            raise ValueError(f"{transform.name} changes features as the stream goes on, so it has no margin of its own")
    chosen = pr.parse(measure)
    if (chosen.ties, chosen.empty) != ("worst", "skip"):
        raise ValueError(f"bounds are about the policies ties=worst and empty=skip, got {chosen}")
    if rates and "slam" not in names:
        raise ValueError("--learning-rate is for slam, which is not among the learners")
    learners = _learners(names, rates, measure)
    start = time.perf_counter()
    with ProgressBar("reading") as bar:
        stream = _stream(reading, names_of_transforms, bar)
        pairs: dict[int | None, _Pairs] = {}
        for cutoff in (None, *{learner.theorem.cutoff for learner in learners.values()} - {None}):
            best = pr.theory.margin(stream, measure, cutoff=cutoff, tolerance=tolerance)
            pairs[cutoff] = _Pairs(best, pr.theory.diameter(stream, measure, cutoff=cutoff))
    facts = _Facts(stream, measure, pairs)
    result = pr.compare(learners, stream, measure, n_threads=reading.n_threads)
    losses = {name: trace.cumulative_loss(measure) for name, trace in result.traces.items()}
    rows = [facts.row(name, learner, float(losses[name][-1])) for name, learner in learners.items()]
    n_queries = len(next(iter(losses.values())))
    if plot is not None:
        _draw(losses, {row["name"]: row["loss at most"] for row in rows}, measure, plot)
    extra = facts.as_plain() | {"queries": n_queries, "seconds": round(time.perf_counter() - start, 3)}
    title = f"1 - {measure} on {n_queries:,} queries: loss and bound"
    shown = None if is_wide() else [{key: row[key] for key in row if key not in _MORE} for row in rows]
    show(rows, title=title, as_json=as_json, extra=extra, shown=shown)
    if not as_json:
        print_text(str(facts))


def _learners(algorithms: list[str], rates: list[float], measure: str) -> "dict[str, pr.Learner]":
    from perceptrank.stream.validation import check_choice

    learners: dict[str, pr.Learner] = {}
    with_theorem = [name for name, kind in pr.algorithms().items() if kind().theorem.surrogate is not None]
    settings: dict[str, Any] = {"measure": measure, "average": False, "transforms": None}
    for name in algorithms:
        check_choice("algorithm", name, pr.algorithms())
        if name not in with_theorem:
            raise ValueError(f"{name} has no theorem about rankings; {', '.join(with_theorem)} have")
        if name != "slam" or not rates:
            learners[name] = make_learner(name, settings)
        else:
            learners |= {f"slam {rate:g}": make_learner(name, settings | {"learning_rate": rate}) for rate in rates}
    return learners


def _stream(reading: Reading, transforms: list[str], bar: ProgressBar) -> "pr.Scan | list[pr.QueryStream]":
    """Return re-iterable blocks, in memory if they are small or come from standard input."""
    from perceptrank.transforms.registry import make_transforms

    def blocks() -> "Iterator[pr.QueryStream]":
        for block in reading.blocks(bar):
            for transform in make_transforms(transforms):
                block = transform.transform(block)  # noqa: PLW2901
            yield block

    kept, n_bytes = [], 0
    for block in blocks():
        kept.append(block)
        n_bytes += block.X.nbytes
        if n_bytes > _MOST_BYTES_KEPT and "-" not in reading.files:
            return pr.Scan(blocks, "queries")
    return kept


class _Pairs(NamedTuple):
    """Margin and diameter of the pairs that a theorem is about."""

    best: "pr.theory.Margin"
    diameter: float

    def as_plain(self) -> dict[str, Any]:
        margin = [self.best.lower, self.best.upper]
        return {"separable": self.best.separable, "margin": margin, "diameter": self.diameter}


class _Facts:
    """Margins, radius, diameters and weight ratio of a stream, and the bounds that follow."""

    def __init__(self, stream: "pr.Scan | list[pr.QueryStream]", measure: str, pairs: dict[int | None, _Pairs]) -> None:
        self.stream, self.measure, self.pairs = stream, measure, pairs
        self.best, self.diameter = pairs[None]
        self.radius = pr.theory.radius(stream)
        self.weight_ratio = pr.theory.bounds.weight_ratio(measure, stream)
        self.longest = max(int((block.offsets[1:] - block.offsets[:-1]).max()) for block in stream)
        # Those of the paper are for queries of equal weight.
        self.weighted = any(block.query_weights is not None and (block.query_weights != 1.0).any() for block in stream)
        largest = max(1.0 if block.query_weights is None else float(block.query_weights.max()) for block in stream)
        self.largest_weight = largest if self.weighted else 1.0

    def comparators(self, learner: "pr.Learner") -> "list[pr.theory.Comparator]":
        """The best fixed ranker for the learner's constant, and the one that ranks all documents alike."""
        import numpy as np

        diameter = self.pairs[learner.theorem.cutoff].diameter
        constant = learner.guarantee(diameter=diameter, radius=self.radius, margin=1)
        surrogate = learner.theorem.surrogate or ""
        best = pr.theory.comparator(self.stream, self.measure, penalty=max(constant, 1e-12), surrogate=surrogate)
        nothing = np.zeros(next(iter(self.stream)).n_features)
        alike = pr.theory.cumulative_surrogate(nothing, self.stream, self.measure, surrogate=surrogate)
        return [best, pr.theory.Comparator(0.0, alike, nothing, surrogate=surrogate)]

    def row(self, name: str, learner: "pr.Learner", loss: float) -> dict[str, Any]:
        best, diameter = self.pairs[learner.theorem.cutoff]
        sizes: dict[str, Any] = {"diameter": diameter, "radius": self.radius, "n_documents": self.longest}
        if best.separable:
            against: dict[str, Any] = {"margin": best.lower}
            certificate = learner.certificate(**against, **sizes)
        else:
            certificates = [
                (learner.certificate(comparator=comparator, **sizes), comparator)
                for comparator in self.comparators(learner)
            ]
            certificate, nearest = min(certificates, key=lambda pair: pair[0].promises[-1].bound)
            against = {"comparator": nearest}
        promised = {promise.name: promise.bound for promise in certificate.promises}
        return {
            "name": name,
            "updates": certificate.updates,
            "loss": loss,
            "S": certificate.mass,
            **promised,
            "loss at most": learner.guarantee(largest_weight=self.largest_weight, **against, **sizes),
            "holds": certificate.holds and loss <= certificate.loss_bound * (1 + 1e-9) + 1e-9,
        }

    def as_plain(self) -> dict[str, Any]:
        return {
            "measure": str(pr.parse(self.measure)),
            **self.pairs[None].as_plain(),
            "radius": self.radius,
            "top": {str(cutoff): pairs.as_plain() for cutoff, pairs in self.pairs.items() if cutoff},
            "v_max": self.weight_ratio,
            "algorithm_2_as_in_the_paper": self._paper(),
            "lower_bound_of_any_learner": self._lower(),
        }

    def _paper(self) -> float | None:
        if not self.best.separable or self.weighted or not math.isfinite(self.weight_ratio):
            return None
        cutoff = pr.parse(self.measure).cutoff
        longest = min(cutoff or self.longest, self.longest)
        theorem = pr.theory.theorems.slam_as_in_the_paper(longest, self.weight_ratio)
        return theorem.bound(radius=self.radius, margin=self.best.lower)

    def _lower(self) -> float | None:
        if not self.best.separable or self.weighted or 4 * self.radius**2 < 2 * self.best.upper**2:
            return None
        return pr.theory.bounds.lower(radius=self.radius, margin=self.best.upper, measure=self.measure)

    def _of_top(self) -> str:
        """Say which margin counts for learners that move only what belongs in the first places."""
        return "".join(
            f"Pairs with a document that belongs in the first {cutoff} places, which slam moves and listwise without a "
            f"margin or by uniform or top violators: {best}, D = {diameter:.4g}.\n"
            for cutoff, (best, diameter) in self.pairs.items()
            if cutoff
        )

    def __str__(self) -> str:
        sizes = f"R = {self.radius:.4g}, D = {self.diameter:.4g}, v_max = {self.weight_ratio:.4g}"
        if self.best.separable:
            more = "--json has more."
            if is_wide():
                more = "from the steps: the longest step per weight in place of D. a priori: the theorem, about S."
            return self._of_top() + (
                f"best margin: {self.best.lower:.6g} to {self.best.upper:.6g}; {sizes}. With the paper's constant, "
                f"Algorithm 2 at its rate: {as_text(self._paper(), _BOUND)}. What any learner can be made to lose on "
                f"some stream of this radius and margin: {as_text(self._lower(), _BOUND)}.\n"
                f"S: weight moved, at least the loss. a posteriori: |w| / (rate margin). {more} loss at most: the "
                f"theorem, about the loss, for queries of up to {self.longest:,} documents."
            )
        verdict = "not separable" if self.best.separable is False else "not found to be separable"
        proof = f": {len(self.best.shares)} pairs combine to a vector of length {self.best.upper:.2g}"
        return self._of_top() + (
            f"{verdict}{proof if self.best.separable is False else ''}; {sizes}. Bounds compare with the best fixed "
            "ranker in hindsight.\nA bound near or above the number of queries says nothing: then ranking all "
            "documents alike is the best comparator for the surrogate."
        )


def _draw(losses: dict[str, Any], bounds: dict[str, float], measure: str, path: Path) -> None:
    import numpy as np

    from perceptrank.evaluation.plots import Chart, Series, draw

    series = []
    for place, (name, curve) in enumerate(losses.items()):
        shown = np.unique(np.geomspace(1, len(curve), _POINTS).astype(int))
        series.append(Series(name, shown.astype(np.float64), curve[shown - 1], color=place))
        ends, level = np.array([1.0, float(len(curve))]), np.full(2, bounds[name])
        series.append(Series(f"bound: {name}", ends, level, color=place, dashed=True))
    draw(Chart("bound", "", "queries seen", f"cumulative loss, 1 - {measure}", series, log_y=True), path)
