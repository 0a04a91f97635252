"""The command line."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Online learning to rank from a stream of judged queries."
)


class To(StrEnum):
    """Formats that can be written."""

    letor = "letor"
    store = "store"
    parquet = "parquet"


class Qid(StrEnum):
    """Where LETOR text names queries."""

    auto = "auto"
    field = "field"
    comment = "comment"


@contextmanager
def _reported() -> Iterator[None]:
    """Errors that a user can do something about, as one message without a traceback."""
    try:
        yield
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


@app.callback()
def main() -> None:
    """Online learning to rank from a stream of judged queries."""


@app.command()
def demo(
    queries: Annotated[int, typer.Option(min=1, help="How many queries to simulate.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Learn a simulated separable stream with every learner and print how each one ranked it.

    Example: perceptrank demo --queries 2000 --seed 7
    """
    from perceptrank.commands.demo import run

    run(queries, seed, as_json=json)


@app.command()
def convert(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE... DESTINATION",
            help="LETOR text (plain or compressed, '-' for standard input), stores or Parquet files, folders or "
            "patterns of them; and what to write.",
        ),
    ],
    to: Annotated[
        To | None,
        typer.Option(
            help="Format to write. By default the name says it: .parquet; .txt, .letor, .svm, …; else a store."
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to a store that is there.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    group: Annotated[
        bool, typer.Option("--group", help="Bring documents of a query together that are not adjacent, in memory.")
    ] = False,
    comments: Annotated[bool, typer.Option("--comments", help="Keep comments.")] = False,
    sparse: Annotated[bool, typer.Option("--sparse", help="Leave out zeros when writing LETOR text.")] = False,
    n_features: Annotated[int | None, typer.Option(min=1, help="How many features LETOR text has.")] = None,
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Feature ids of LETOR text count from 0.")] = False,
    qid: Annotated[Qid, typer.Option(help="Where LETOR text names queries.")] = Qid.auto,
    clip: Annotated[float | None, typer.Option(help="Bound values of LETOR text to plus or minus this.")] = None,
    float64: Annotated[bool, typer.Option("--float64", help="Keep features of LETOR text as float64.")] = False,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Skip wrong lines of LETOR text and say how many there were.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads for reading LETOR text.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Convert between LETOR text, stores and Parquet, in memory that does not depend on the size.

    Example: perceptrank convert MSLR-WEB10K/Fold1/train.txt train.store
    """
    from perceptrank.commands.convert import Writing, run

    if len(paths) < 2:
        raise typer.BadParameter("name at least one source and the destination", param_hint="SOURCE... DESTINATION")
    letor = {
        "n_features": n_features,
        "zero_based": zero_based,
        "qid": None if qid is Qid.auto else qid.value,
        "clip": clip,
        "dtype": "float64" if float64 else None,
        "on_error": "skip" if skip_errors else None,
        "n_threads": threads,
    }
    *sources, destination = paths
    writing = Writing(destination, None if to is None else to.value, append, overwrite, sparse, zero_based)
    with _reported():
        run(sources, writing, whole=group, comments=comments, letor=letor, as_json=json)


@app.command()
def datasets(
    data: Annotated[
        Path, typer.Option(envvar="PERCEPTRANK_DATA", help="The folder that data sets are kept in.", show_default=True)
    ] = Path("data"),
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """List the public data sets, which of them are there, and where to obtain the others.

    Example: perceptrank datasets --data ~/data
    """
    from perceptrank.commands.datasets import run

    with _reported():
        run(data, as_json=json)
