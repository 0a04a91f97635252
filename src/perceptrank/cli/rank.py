"""The command `rank`."""

import re
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

import perceptrank as pr
from perceptrank.cli.files import Writes
from perceptrank.cli.options import Model
from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.cli.streams import standard_output

if TYPE_CHECKING:
    from perceptrank.kernels.arrays import Floats
    from perceptrank.stream.query_stream import QueryStream

_DOCID = re.compile(r"docid\s*=\s*(\S+)")


def rank(
    *,
    model: Model,
    out: Annotated[Path | None, typer.Option(help="File to write; by default standard output."), Writes()] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many documents of each query.")] = None,
    tag: Annotated[str, typer.Option(help="Name of the run, the last column.")] = "perceptrank",
    reading: Reading,
) -> None:
    """Rank documents with a model, as a TREC run: query, Q0, document, rank, score, tag.

    A document is called by its comment (LETOR's docid, else the first word), else by its number in the query.

    Example: perceptrank rank model.json test.txt.gz --top 10 --out run.txt
    """
    from perceptrank.io.atomic import replaced_file

    if not tag or any(one.isspace() for one in tag):
        raise ValueError(f"the tag must be one word, got {tag!r}")
    ranker = pr.load(model)

    def write(file: IO[bytes]) -> None:
        with ProgressBar("ranking") as bar:
            for block in replace(reading, comments=True).blocks(bar):
                file.write(_lines(block, ranker.scores(block), tag, top).encode())

    if out is None:
        write(standard_output())
    else:
        with replaced_file(out) as file:
            write(file)


def _lines(block: "QueryStream", scores: "Floats", tag: str, top: int | None) -> str:
    lines = []
    names = _names(block)
    for q, qid in enumerate(block.qids.tolist()):
        if any(one.isspace() for one in str(qid)):
            raise ValueError(f"a TREC run cannot hold the query id {qid!r}, which has spaces")
        start, stop = int(block.offsets[q]), int(block.offsets[q + 1])
        order = start + (-scores[start:stop]).argsort(kind="stable")[:top]
        lines += [
            f"{qid} Q0 {names[row]} {place} {float(scores[row])!r} {tag}\n"
            for place, row in enumerate(order.tolist(), start=1)
        ]
    return "".join(lines)


def _names(block: "QueryStream") -> list[str]:
    """Name documents by comment (LETOR's docid, or the first word), else by number in the query."""
    numbers = [number for length in block.offsets[1:] - block.offsets[:-1] for number in range(1, length + 1)]
    if block.comments is None:
        return [str(number) for number in numbers]
    names = []
    for number, comment in zip(numbers, block.comments, strict=True):
        docid = _DOCID.search(comment)
        words = comment.split()
        names.append(docid[1] if docid else words[0] if words else str(number))
    return names
