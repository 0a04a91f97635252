"""The command `simulate`."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.convert import Writing, write
from perceptrank.cli.options.clicks import ClickOptions
from perceptrank.cli.options.files import What, Writes
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.options.shared import AsJson, Overwrite, SimulationSeed, To
from perceptrank.cli.terminal.streams import say
from perceptrank.cli.terminal.tables import ProgressBar, announce_compiling, print_json

Simulation = StrEnum("Simulation", "separable mslr drifting")  # streams that can be simulated
Drift = StrEnum("Drift", "none abrupt gradual rotating")  # ways in which the target of a drifting stream moves


@dataclass(frozen=True, kw_only=True)
class GradeOptions:
    """Options of simulated queries, their documents and their grades."""

    kind: Annotated[
        Simulation, typer.Option(help="The paper's separable stream, one like MSLR-WEB, or one whose target moves.")
    ] = Simulation.separable
    n_queries: Annotated[int, typer.Option("--queries", min=1, help="Number of queries to simulate.")] = 1000
    n_documents: Annotated[int | None, typer.Option("--documents", min=1, help="Number of documents per query.")] = None
    n_features: Annotated[int | None, typer.Option("--features", min=1, help="Number of features per document.")] = None
    margin: Annotated[float | None, typer.Option(help="Margin of the separable stream, by default 0.5.")] = None
    noise: Annotated[float, typer.Option(help="Spread of the features (of the grades, if mslr).")] = 1.0
    label_noise: Annotated[float | None, typer.Option(help="Share of wrong grades in the separable stream.")] = None
    drift: Annotated[Drift | None, typer.Option(help="How the target drifts, by default abrupt.")] = None
    period: Annotated[
        int | None, typer.Option(min=1, help="Queries between changes of the target, by default 2000.")
    ] = None

    def blocks(self, seed: int) -> tuple[Iterator["pr.QueryStream"], dict[str, object]]:
        """Return blocks of judged queries, and what is known about them."""
        sizes = {"n_documents": self.n_documents, "n_features": self.n_features}
        only_separable = {"margin": self.margin, "label_noise": self.label_noise}
        if self.kind is not Simulation.separable and any(value is not None for value in only_separable.values()):
            raise ValueError("--margin and --label-noise are for --kind separable")
        only_drifting = {"drift": self.drift and self.drift.value, "period": self.period}
        if self.kind is not Simulation.drifting and any(value is not None for value in only_drifting.values()):
            raise ValueError("--drift and --period are for --kind drifting")
        settings = sizes | only_separable | only_drifting
        chosen: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        chosen |= {"noise": self.noise, "seed": seed}
        if self.kind is Simulation.separable:
            simulated = pr.separable_blocks(self.n_queries, **chosen)
            return iter(simulated.blocks), {"margin": simulated.margin, "ranker": simulated.ranker.tolist()}
        make = pr.drifting if self.kind is Simulation.drifting else pr.mslr_shaped
        return make(self.n_queries, **chosen).blocks(), {}


def simulate(
    *,
    ctx: typer.Context,
    destination: Annotated[
        str,
        typer.Argument(help="LETOR text, a store, Parquet or CSV to write, by its name."),
        Writes(What.data, called="the destination"),
    ],
    grading: GradeOptions,
    clicking: ClickOptions,
    seed: SimulationSeed = 0,
    to: Annotated[To | None, typer.Option(help="Format to write; by default it follows from the name.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Simulate judged queries, or impressions of judged queries with the clicks of a user, and write them.

    Example: perceptrank simulate train.txt.gz --queries 5000 --margin 0.5 --seed 7

    Example: perceptrank simulate log.store --clicks navigational --data train.txt --policy fair-pairs
    """
    announce_compiling()
    if clicking.clicks is None:
        _check_not_given(ctx, clicking, "is for simulated clicks: name a user by --clicks")
    clicking.check()
    writing = Writing(destination, to, overwrite=overwrite)
    if clicking.clicks is None:
        blocks, known = grading.blocks(seed)
        write(blocks, writing)
        report = {"destination": destination, "queries": grading.n_queries, "seed": seed} | known
        said = f"{grading.n_queries:,} queries, {grading.kind.value}, seed {seed}"
    else:
        if writing.format == "letor":
            raise ValueError("LETOR text has no place for clicks: name a store or a .parquet file, or give --to")
        if clicking.data:
            _check_not_given(ctx, grading, "is for simulated grades: leave it out, or --data")
        log, settings = clicking.show(_graded(grading, clicking, seed), seed)
        counts = {"impressions": 0, "documents": 0, "shown": 0, "clicks": 0}
        with ProgressBar("simulating") as bar:
            write((_count(block, counts, bar, clicking.impressions or 0) for block in log), writing)
        report = {"destination": destination, **counts, **settings}
        said = f"{counts['impressions']:,} impressions, {counts['clicks']:,} clicks; "
        said += ", ".join(f"{name} {value}" for name, value in settings.items())
    if as_json:
        print_json(report, file=sys.stderr if destination == "-" else sys.stdout)
    elif destination != "-":
        say(f"{destination}: {said}")


def _check_not_given(ctx: typer.Context, group: GradeOptions | ClickOptions, why: str) -> None:
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name in {field.name for field in fields(group)} and source and source.name != "DEFAULT":
            raise ValueError(f"{option.opts[0]} {why}")


def _graded(grading: GradeOptions, clicking: ClickOptions, seed: int) -> "pr.QueryStream":
    """Return the judged queries that are shown: a store as it is, others in memory."""
    if not clicking.data:
        return pr.QueryStream.concatenate(grading.blocks(seed)[0])
    with ProgressBar("reading") as bar:
        stream = Reading(files=clicking.data).opened(bar)
        return stream if isinstance(stream, pr.QueryStream) else pr.QueryStream.concatenate(stream)


def _count(block: "pr.QueryStream", counts: dict[str, int], bar: ProgressBar, total: int) -> "pr.QueryStream":
    columns: Mapping[str, Any] = block.columns
    counts["impressions"] += len(block)
    counts["documents"] += block.n_documents
    counts["shown"] += int((columns["place"] > 0).sum())
    counts["clicks"] += int(columns["clicked"].sum())
    bar(counts["impressions"], total)
    return block
