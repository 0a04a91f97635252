"""The application: global options, and the commands, each of which has a file of its own."""

from pathlib import Path
from typing import Annotated

import typer

from perceptrank import __version__
from perceptrank.cli.adversary import adversary
from perceptrank.cli.algorithms import algorithms
from perceptrank.cli.bound import bound
from perceptrank.cli.cite import cite
from perceptrank.cli.command import Command, Group
from perceptrank.cli.compare import compare
from perceptrank.cli.convert import convert
from perceptrank.cli.datasets import datasets
from perceptrank.cli.evaluate import evaluate
from perceptrank.cli.export import export
from perceptrank.cli.learn import learn
from perceptrank.cli.options.shared import ungrouped
from perceptrank.cli.parity import parity
from perceptrank.cli.rank import rank
from perceptrank.cli.reproduce import reproduce
from perceptrank.cli.serve import serve
from perceptrank.cli.show import show
from perceptrank.cli.simulate import simulate
from perceptrank.cli.terminal.errors import reported
from perceptrank.cli.warm_up import warm_up

# In the order of the help. Their files load slowly importing packages, NumPy and Numba among them, when they run.
COMMANDS = (
    reproduce,
    convert,
    datasets,
    learn,
    evaluate,
    rank,
    show,
    export,
    parity,
    serve,
    compare,
    simulate,
    algorithms,
    bound,
    adversary,
    warm_up,
    cite,
)

app = typer.Typer(cls=Group, no_args_is_help=True, help="Online learning to rank from a stream of judged queries.")
for command in COMMANDS:
    # Options of the service can be set in the environment, too.
    settings = {"auto_envvar_prefix": "PERCEPTRANK_SERVE"} if command is serve else None
    app.command(cls=Command, context_settings=settings)(ungrouped(command))


def _print_version(asked: bool) -> None:
    if asked:
        print(f"perceptrank {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            envvar="PERCEPTRANK_PLUGINS",
            help="Python file that defines learners, for --algorithm; may be repeated.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Online learning to rank from a stream of judged queries."""
    if plugin:
        with reported({}, debug=debug):
            from perceptrank.learners.registry import load_file

            for path in plugin:
                load_file(path)
