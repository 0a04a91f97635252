"""The command `rank`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from perceptrank.cli.files import Writes
from perceptrank.cli.models import load_ranker
from perceptrank.cli.options import Model
from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.cli.streams import standard_output

if TYPE_CHECKING:
    from perceptrank.kernels.arrays import Floats
    from perceptrank.stream.query_stream import QueryStream


def rank(
    *,
    model: Model,
    out: Annotated[Path | None, typer.Option(help="File to write; by default standard output."), Writes()] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many documents of each query.")] = None,
    tag: Annotated[str, typer.Option(help="Name of the run, the last column.")] = "perceptrank",
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, one per query, instead of a TREC run.")] = False,
    reading: Reading,
) -> None:
    """Rank documents with a model, as a TREC run: query, Q0, document, rank, score, tag; or as JSON lines.

    A document is called by its id, else by the first word of its comment, else by its number in the query.

    Example: perceptrank rank model.json test.txt.gz --top 10 --out run.txt
    """
    from perceptrank.io.atomic import replaced_file

    if not tag or any(one.isspace() for one in tag):
        raise ValueError(f"the tag must be one word, got {tag!r}")
    ranker = load_ranker(model)

    def write(file: IO[bytes]) -> None:
        with ProgressBar("ranking") as bar:
            for block in replace(reading, comments=True).blocks(bar, names=ranker._needed_names):
                scores = ranker.scores(block)
                lines = _json_lines(block, scores, top) if as_json else _trec_lines(block, scores, tag, top)
                file.write("".join(lines).encode("utf-8", "surrogateescape"))

    if out is None:
        write(standard_output())
    else:
        with replaced_file(out) as file:
            write(file)


def _trec_lines(block: "QueryStream", scores: "Floats", tag: str, top: int | None) -> Iterator[str]:
    for qid, documents in _ranked(block, scores, top):
        for place, (docid, score) in enumerate(documents, start=1):
            for what, one in (("query id", str(qid)), ("document id", docid)):
                if any(character.isspace() for character in one):
                    raise ValueError(f"a TREC run cannot hold the {what} {one!r}, which has spaces; --json can")
            yield f"{qid} Q0 {docid} {place} {score!r} {tag}\n"


def _json_lines(block: "QueryStream", scores: "Floats", top: int | None) -> Iterator[str]:
    for qid, documents in _ranked(block, scores, top):
        listed = [{"docid": docid, "score": score} for docid, score in documents]
        yield json.dumps({"qid": qid, "documents": listed}, ensure_ascii=False) + "\n"


def _ranked(block: "QueryStream", scores: "Floats", top: int | None) -> Iterator[tuple[Any, list[tuple[str, float]]]]:
    """Yield each query with its best documents and their scores."""
    names = _names(block)
    for q, qid in enumerate(block.qids.tolist()):
        start, stop = int(block.offsets[q]), int(block.offsets[q + 1])
        order = start + (-scores[start:stop]).argsort(kind="stable")[:top]
        yield qid, [(names[row], float(scores[row])) for row in order.tolist()]


def _names(block: "QueryStream") -> list[str]:
    """Name documents by their id, else by the first word of their comment, else by number in the query."""
    numbers = [number for length in block.offsets[1:] - block.offsets[:-1] for number in range(1, length + 1)]
    docids = [""] * block.n_documents if block.docids is None else block.docids.tolist()
    comments = [""] * block.n_documents if block.comments is None else block.comments.tolist()
    return [
        docid or next(iter(comment.removesuffix("docid =").split()), str(number))  # an id that is empty is none
        for docid, comment, number in zip(docids, comments, numbers, strict=True)
    ]
