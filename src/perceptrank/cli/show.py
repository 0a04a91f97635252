"""The command `show`."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker
from perceptrank.cli.options.files import Reads, What, Writes
from perceptrank.cli.options.reading import Reading, needed_names
from perceptrank.cli.options.shared import AsJson, Model
from perceptrank.cli.terminal.tables import ProgressBar, console, print_json

_WIDEST = 100
_BARS = str.maketrans(dict.fromkeys("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇", "#") | {"…": "~", "±": "~"})


@dataclass(frozen=True, kw_only=True)
class Queries(Reading):
    """Queries to show a model's scores of; there may be none."""

    files: Annotated[
        list[str] | None,
        typer.Argument(help="Queries to measure importance on and to explain, in any format of 'learn'."),
        Reads(What.data),
    ] = None  # type: ignore[assignment]


def show(
    *,
    model: Model,
    since: Annotated[str | None, typer.Option(help="Earlier model: show what has changed since."), Reads()] = None,
    query: Annotated[str | None, typer.Option(metavar="ID", help="Query to explain; by default the first.")] = None,
    documents: Annotated[int, typer.Option(min=1, help="Number of documents of the query to show.")] = 10,
    why: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Explain why document A is above document B.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of features to show.")] = 20,
    plot: Annotated[
        Path | None, typer.Option(help="Image file for a plot of the features' effects."), Writes(What.image)
    ] = None,
    queries: Queries,
    as_json: AsJson = False,
) -> None:
    """Explain a model: weights in words and raw units, importance, signs, history, changes.

    With a file, importance is measured on its queries, and for one query it shows what each feature contributes to
    its documents' scores; contributions add up exactly. Tables and Parquet files need no grades.

    Example: perceptrank show model.json test.txt.gz --query 18219 --since old.json
    """
    from perceptrank.deploy.explanation.text import query_text, why_text

    if not queries.files and (query is not None or why):
        raise ValueError(f"{'--query' if query is not None else '--why'} needs a file to find documents in")
    ranker, other = load_ranker(model), None if since is None else load_ranker(since)
    kept: list[pr.QueryStream] = []
    blocks: Any = None
    with ProgressBar("reading") as bar:
        if queries.files:
            blocks = replace(queries, comments=True, judged=False).blocks(bar, names=needed_names(ranker, other))
            blocks = _keeping(blocks, query, kept)
        explanation = pr.deploy.explain(ranker, blocks, since=other)
    if queries.files and not kept:
        raise ValueError(f"there is no query {query!r} in {', '.join(queries.files)}")
    ranked: pr.deploy.Contributions | None = explanation.contributions(kept[0]) if kept else None
    differences = [] if ranked is None or not why else ranked.why(*why)
    if plot is not None:
        explanation.plot(plot, top=top)
    if as_json:
        plain = {"model": model, **explanation.as_plain(top), "query": ranked and ranked.as_plain(documents)}
        print_json(plain | ({"why": [difference._asdict() for difference in differences]} if why else {}))
        return
    width = min(console().width, _WIDEST)
    texts = [explanation.text(width=width, top=top)]
    if ranked is not None:
        texts.append(query_text(ranked, width=width, documents=documents))
        texts += [why_text(ranked, *why, width=width, top=top)] if why else []
    print(_encodable("\n".join(texts)), end="")


def _keeping(
    blocks: "Iterable[pr.QueryStream]", query: str | None, kept: "list[pr.QueryStream]"
) -> "Iterator[pr.QueryStream]":
    """Yield blocks, and keep the query of an id, or the first, as it comes by."""
    for block in blocks:
        if not kept:
            names = map(str, block.qids.tolist())
            place = next((place for place, name in enumerate(names) if query in (None, name)), None)
            kept += [] if place is None else [block[place : place + 1]]
        yield block


def _encodable(text: str) -> str:
    """Return text with bars that the encoding of standard output has."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_BARS)
    return text
