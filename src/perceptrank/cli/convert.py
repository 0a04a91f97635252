"""From one format to another."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.io.letor.writer import write_letor
from perceptrank.io.parquet import write_parquet
from perceptrank.io.sources import format_for
from perceptrank.io.store import open_store, write_store
from perceptrank.stream.query_stream import QueryStream


class Writing(NamedTuple):
    """What is to be written, and how."""

    destination: str
    format: str | None
    append: bool
    overwrite: bool
    sparse: bool = False
    zero_based: bool = False
    layout: Literal["columns", "list"] = "columns"


def run(reading: Reading, writing: Writing, *, as_json: bool) -> None:
    """Convert, and say what was written."""
    start = time.perf_counter()
    kind = writing.format or format_for(writing.destination)
    counted = _Counted()
    with ProgressBar("converting") as bar:
        write(counted.going_through(reading.blocks(bar)), writing, kind)
    seconds = time.perf_counter() - start
    report = {
        "destination": writing.destination,
        "format": kind,
        "queries": counted.n_queries,
        "documents": counted.n_documents,
        "features": counted.n_features,
        "seconds": round(seconds, 3),
    }
    if as_json:
        print(json.dumps(report, indent=1), file=sys.stderr if writing.destination == "-" else sys.stdout)
    elif writing.destination != "-":
        added = "added " if writing.append else ""
        print(
            f"{writing.destination} ({kind}): {added}{counted.n_queries:,} queries, {counted.n_documents:,} documents, "
            f"{counted.n_features} features, {seconds:.1f} s"
        )


def write(blocks: Iterator[QueryStream], writing: Writing, kind: str) -> None:
    """Write blocks in a format."""
    path = Path(writing.destination)
    if kind != "letor" and writing.sparse:
        raise ValueError("--sparse is for LETOR text")
    if writing.append:
        if kind != "store":
            raise ValueError("--append is for stores")
        if writing.overwrite:
            raise ValueError("say --append or --overwrite, not both")
        open_store(path).append(blocks)
        return
    if writing.destination == "-":
        if kind != "letor":
            raise ValueError("only LETOR text can go to standard output")
        write_letor(blocks, sys.stdout.buffer, sparse=writing.sparse, zero_based=writing.zero_based)
        return
    if kind == "store":
        write_store(blocks, path, overwrite=writing.overwrite)
        return
    if path.exists() and not writing.overwrite:
        raise FileExistsError(f"there is a file {path} already; --overwrite replaces it")
    if kind == "parquet":
        write_parquet(blocks, path, layout=writing.layout)
    else:
        write_letor(blocks, path, sparse=writing.sparse, zero_based=writing.zero_based)


class _Counted:
    """What has gone through."""

    n_queries = n_documents = n_features = 0

    def going_through(self, blocks: Iterator[QueryStream]) -> Iterator[QueryStream]:
        for block in blocks:
            self.n_queries += len(block)
            self.n_documents += block.n_documents
            self.n_features = block.n_features
            yield block
