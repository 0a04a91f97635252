"""Rankings of files, as a TREC run."""

import re
import sys
from pathlib import Path
from typing import IO

import numpy as np

from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.io.atomic import replaced_file
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import load
from perceptrank.stream.query_stream import QueryStream

_DOCID = re.compile(r"docid\s*=\s*(\S+)")


def run(model: str, reading: Reading, out: Path | None, tag: str, top: int | None) -> None:
    """Write a line per document: query, Q0, document, rank from 1, score, tag."""
    if not tag or any(one.isspace() for one in tag):
        raise ValueError(f"the tag must be one word, got {tag!r}")
    ranker = load(model)
    with ProgressBar("ranking") as bar:
        if out is None:
            _write(ranker, reading, bar, sys.stdout.buffer, tag, top)
            sys.stdout.buffer.flush()
        else:
            with replaced_file(out) as file:
                _write(ranker, reading, bar, file, tag, top)


def _write(ranker: Learner, reading: Reading, bar: ProgressBar, file: IO[bytes], tag: str, top: int | None) -> None:
    for block in reading.blocks(bar):
        scores = ranker.scores(block)
        names = _names(block)
        for q, qid in enumerate(block.qids.tolist()):
            if any(one.isspace() for one in str(qid)):
                raise ValueError(f"a TREC run cannot hold the query id {qid!r}, which has spaces")
            start, stop = int(block.offsets[q]), int(block.offsets[q + 1])
            order = start + np.argsort(-scores[start:stop], kind="stable")[:top]
            lines = [
                f"{qid} Q0 {names[row]} {place} {float(scores[row])!r} {tag}\n"
                for place, row in enumerate(order.tolist(), start=1)
            ]
            file.write("".join(lines).encode())


def _names(block: QueryStream) -> list[str]:
    """What documents are called: by comment (LETOR's docid, or the first word), else by number in the query."""
    numbers = np.arange(block.n_documents) - np.repeat(block.offsets[:-1], np.diff(block.offsets)) + 1
    if block.comments is None:
        return [str(number) for number in numbers.tolist()]
    names = []
    for number, comment in zip(numbers.tolist(), block.comments, strict=True):
        docid = _DOCID.search(comment)
        words = comment.split()
        names.append(docid[1] if docid else words[0] if words else str(number))
    return names
