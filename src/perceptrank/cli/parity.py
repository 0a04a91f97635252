"""The command `parity`."""

from dataclasses import asdict
from typing import Annotated

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker, parse_settings
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.options.shared import AsJson, Model, Target, TargetOptions
from perceptrank.cli.terminal.streams import say
from perceptrank.cli.terminal.tables import ProgressBar, print_json


def parity(
    *,
    model: Model,
    to: Target,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Live engine: http://host:9200, http://host:8983/solr/CORE, or PostgreSQL's address."
        ),
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Number of queries to rank; by default all, or 200 with a live engine.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Largest acceptable difference of scores, relative to the query's largest; documents that close may "
            "be in any order. By default only rounding.",
        ),
    ] = None,
    pairs: TargetOptions = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Rank queries by a model and by the engine it is exported to, and compare; exit with status 1 if they differ.

    Without an engine to ask, search engines, Vespa and PMML are emulated, and the first line says so.

    Order counts but for documents of equal scores, and both but for rounding. A search engine that --url names gets
    an index or documents of its own, which are removed afterwards.

    Example: perceptrank parity model.json test.txt.gz --to onnx
    """
    settings = parse_settings(pairs or [])
    if url is not None and settings.setdefault("url", url) != url:
        raise ValueError("url is given twice, by --url and by --set")
    ranker = load_ranker(model)
    with ProgressBar("ranking") as bar:
        blocks = reading.blocks(bar, names=ranker.model.needed_names)
        result = pr.deploy.parity(ranker, blocks, to, queries=queries, tolerance=tolerance, **settings)
    if as_json:
        first = None if result.first is None else str(result.first)
        print_json({**asdict(result), "first": first, "agrees": result.agrees})
    else:
        say(f"{result.target}, {result.engine}: {result.queries:,} queries, {result.documents:,} documents")
        beyond = "rounding" if tolerance is None else "the tolerance"
        say(f"same order: {result.same:,} queries; another order beyond {beyond}: {result.reversed:,}")
        allowed = f"{result.tolerance:.2g} is allowed"
        say(f"largest difference of scores: {result.difference:.2g} of the query's largest, {allowed}")
        why = f", because {result.reason}" if result.reason else ""
        they = f"they {'rank differently' if result.reversed else 'differ'}, first in query {result.first}{why}"
        say("they rank alike" if result.agrees else they)
        for note in result.notes:
            say(f"note: {note}")
    if not result.agrees:
        raise typer.Exit(1)
