"""The command `rank`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker
from perceptrank.cli.options.files import Writes
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.options.shared import Model
from perceptrank.cli.terminal.streams import standard_output
from perceptrank.cli.terminal.tables import ProgressBar

if TYPE_CHECKING:
    from perceptrank.kernels.arrays import Floats

Ranked: TypeAlias = tuple[Any, list[tuple[str, float]]]


def rank(
    *,
    model: Model,
    out: Annotated[Path | None, typer.Option(help="File to write; by default standard output."), Writes()] = None,
    qrels: Annotated[Path | None, typer.Option(help="File for the grades, as TREC judgements."), Writes()] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Number of documents per query; by default all.")] = None,
    tag: Annotated[str, typer.Option(help="Name of the run, the last column.")] = "perceptrank",
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON per query instead.")] = False,
    reading: Reading,
) -> None:
    """Rank documents with a model, as a TREC run: query, Q0, document, rank, score, tag; or as JSON lines.

    A document is called by its id, else by the first word of its comment, else by its number in the query. Tables and
    Parquet files need no grades, unless --qrels is to write them.

    Example: perceptrank rank model.json test.txt.gz --out run.txt --qrels qrels.txt
    """
    from contextlib import ExitStack

    from perceptrank.deploy.explanation.contributions import document_names
    from perceptrank.io.atomic import replaced_file

    if not tag or any(character.isspace() for character in tag):
        raise ValueError(f"the tag must be one word, got {tag!r}")
    ranker = load_ranker(model)

    with ExitStack() as stack, ProgressBar("ranking") as bar:
        file = standard_output() if out is None else stack.enter_context(replaced_file(out))
        judged = None if qrels is None else stack.enter_context(replaced_file(qrels))
        reading = replace(reading, comments=True, judged=qrels is not None)
        for block in reading.blocks(bar, names=ranker.model.needed_names):
            names = document_names(block)
            if judged is not None or not as_json:
                _check_for_trec(block, names)
            if judged is not None:
                _write(judged, _trec_judgements(block, names))
            ranked = _ranked(block, names, ranker.scores(block), top)
            _write(file, _json_lines(ranked) if as_json else _trec_lines(ranked, tag))


def _write(file: IO[bytes], lines: Iterator[str]) -> None:
    file.write("".join(lines).encode("utf-8", "surrogateescape"))


def _trec_lines(ranked: Iterator[Ranked], tag: str) -> Iterator[str]:
    for qid, documents in ranked:
        for place, (docid, score) in enumerate(documents, start=1):
            yield f"{qid} Q0 {docid} {place} {score!r} {tag}\n"


def _trec_judgements(block: "pr.QueryStream", names: list[str]) -> Iterator[str]:
    """Yield the grade of each document: query, 0, document, grade."""
    for q, qid in enumerate(block.qids.tolist()):
        for row in range(int(block.offsets[q]), int(block.offsets[q + 1])):
            grade = float(block.relevance[row])
            if not grade.is_integer():
                raise ValueError(
                    f"TREC judgements are whole numbers, got {grade:g} for document {names[row]!r} of query {qid!r}"
                )
            yield f"{qid} 0 {names[row]} {int(grade)}\n"


def _check_for_trec(block: "pr.QueryStream", names: list[str]) -> None:
    """Raise if a name has spaces, which end it for trec_eval, or a query has two documents of one name."""
    for q, qid in enumerate(map(str, block.qids.tolist())):
        own = names[int(block.offsets[q]) : int(block.offsets[q + 1])]
        for what, name in (("query id", qid), *(("document id", name) for name in own)):
            if name.split() != [name]:
                problem = "which has spaces" if name else "which is empty"
                raise ValueError(f"a TREC run cannot hold the {what} {name!r}, {problem}; --json can")
        if len(set(own)) < len(own):
            twice = next(name for name in own if own.count(name) > 1)
            raise ValueError(
                f"a TREC run cannot hold the document {twice!r} twice, as query {qid!r} has it; --json can"
            )


def _json_lines(ranked: Iterator[Ranked]) -> Iterator[str]:
    for qid, documents in ranked:
        listed = [{"docid": docid, "score": score} for docid, score in documents]
        yield json.dumps({"qid": qid, "documents": listed}, ensure_ascii=False) + "\n"


def _ranked(block: "pr.QueryStream", names: list[str], scores: "Floats", top: int | None) -> Iterator[Ranked]:
    for q, qid in enumerate(block.qids.tolist()):
        start, stop = int(block.offsets[q]), int(block.offsets[q + 1])
        order = start + (-scores[start:stop]).argsort(kind="stable")[:top]
        yield qid, [(names[row], float(scores[row])) for row in order.tolist()]
