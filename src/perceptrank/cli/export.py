"""The command `export`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker, parse_settings
from perceptrank.cli.options.files import Writes
from perceptrank.cli.options.shared import Model, Target, TargetOptions
from perceptrank.cli.terminal.streams import complain, standard_output


def export(
    *,
    model: Model,
    to: Target,
    out: Annotated[Path | None, typer.Option(help="File to write; by default standard output."), Writes()] = None,
    pairs: TargetOptions = None,
) -> None:
    """Export a model to a file for another engine, with notes on its use on standard error.

    What the engine cannot express is an error that suggests a way out. --set names options of the target.

    Example: perceptrank export model.json --to sql --set dialect=postgresql --out score.sql
    """
    exported = pr.deploy.export(load_ranker(model), to, **parse_settings(pairs or []))
    if out is None:
        if not exported.is_text and sys.stdout.isatty():
            raise ValueError(f"{to} is a binary format: name a file with --out")
        standard_output().write(exported.content)
    else:
        exported.save(out)
    for note in exported.notes:
        complain(f"note: {note}")
