"""The command `simulate`."""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.convert import Writing, write
from perceptrank.cli.options.files import What, Writes
from perceptrank.cli.options.shared import AsJson, Overwrite, SimulationSeed, To
from perceptrank.cli.terminal.streams import say
from perceptrank.cli.terminal.tables import announce_compiling, print_json

Simulation = StrEnum("Simulation", "separable mslr drifting")  # streams that can be simulated
Drift = StrEnum("Drift", "none abrupt gradual rotating")  # ways in which the target of a drifting stream moves


def simulate(
    destination: Annotated[
        str,
        typer.Argument(help="File or store to write: LETOR text, a store or Parquet, by its name."),
        Writes(What.data, called="the destination"),
    ],
    kind: Annotated[
        Simulation,
        typer.Option(help="The paper's separable stream, one shaped like MSLR-WEB, or one whose target moves."),
    ] = Simulation.separable,
    n_queries: Annotated[int, typer.Option("--queries", min=1, help="Number of queries to simulate.")] = 1000,
    n_documents: Annotated[
        int | None, typer.Option("--documents", min=1, help="Number of documents per query.")
    ] = None,
    n_features: Annotated[
        int | None, typer.Option("--features", min=1, help="Number of features per document.")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Margin of the separable stream, by default 0.5.")] = None,
    noise: Annotated[float, typer.Option(help="Spread of the features (of the grades, if mslr).")] = 1.0,
    label_noise: Annotated[float | None, typer.Option(help="Share of wrong grades in the separable stream.")] = None,
    drift: Annotated[
        Drift | None, typer.Option(help="How the target of a drifting stream moves, by default abrupt.")
    ] = None,
    period: Annotated[
        int | None, typer.Option(min=1, help="Number of queries between changes of the target; by default 2000.")
    ] = None,
    seed: SimulationSeed = 0,
    to: Annotated[To | None, typer.Option(help="Format to write; by default it follows from the name.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a stream and write it.

    Example: perceptrank simulate train.txt.gz --queries 5000 --margin 0.5 --seed 7
    """
    announce_compiling()
    sizes = {"n_documents": n_documents, "n_features": n_features}
    only_separable = {"margin": margin, "label_noise": label_noise}
    if kind is not Simulation.separable and any(value is not None for value in only_separable.values()):
        raise ValueError("--margin and --label-noise are for --kind separable")
    only_drifting = {"drift": drift and drift.value, "period": period}
    if kind is not Simulation.drifting and any(value is not None for value in only_drifting.values()):
        raise ValueError("--drift and --period are for --kind drifting")
    settings = sizes | only_separable | only_drifting
    chosen: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    report: dict[str, object] = {"destination": destination, "queries": n_queries, "seed": seed}
    if kind is Simulation.separable:
        simulated = pr.separable_blocks(n_queries, noise=noise, seed=seed, **chosen)
        blocks = iter(simulated.blocks)
        report |= {"margin": simulated.margin, "ranker": simulated.ranker.tolist()}
    elif kind is Simulation.drifting:
        blocks = pr.drifting(n_queries, noise=noise, seed=seed, **chosen).blocks()
    else:
        blocks = pr.mslr_shaped(n_queries, noise=noise, seed=seed, **chosen).blocks()
    write(blocks, Writing(destination, to, overwrite=overwrite))
    if as_json:
        print_json(report, file=sys.stderr if destination == "-" else sys.stdout)
    elif destination != "-":
        say(f"{destination}: {n_queries:,} queries, {kind.value}, seed {seed}")
