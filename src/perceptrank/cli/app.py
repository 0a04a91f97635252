"""The application: global options, and the commands, each of which has a file of its own."""

from pathlib import Path
from typing import Annotated

import typer

from perceptrank import __version__
from perceptrank.cli.command import Group
from perceptrank.cli.terminal.errors import reported

app = typer.Typer(cls=Group, no_args_is_help=True, help="Online learning to rank from a stream of judged queries.")


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
