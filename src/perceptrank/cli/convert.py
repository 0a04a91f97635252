"""The command `convert`."""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import typer

import perceptrank as pr
from perceptrank.cli.options.files import Reads, What, Writes
from perceptrank.cli.options.reading import ClickReading
from perceptrank.cli.options.shared import AsJson, ClickLogs, Dialect, Overwrite, To
from perceptrank.cli.terminal.streams import say, standard_output
from perceptrank.cli.terminal.tables import ProgressBar, print_json

Layout = StrEnum("Layout", "columns list sparse")  # layouts of features in Parquet files


class Writing(NamedTuple):
    """Destination and options of the output."""

    destination: str
    to: To | None = None
    append: bool = False
    overwrite: bool = False
    sparse: bool = False
    zero_based: bool = False
    layout: Literal["columns", "list", "sparse"] | None = None

    @property
    def format(self) -> str:
        """The format, by the destination's name if it is not given."""
        from perceptrank.io.sources import format_for

        return format_for(self.destination) if self.to is None else self.to.value


def convert(
    *,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE... DESTINATION",
            help="Files, folders or patterns, as for 'learn', or stores; last, the file or store to write.",
        ),
        Reads(What.data, part=slice(-1), in_place=True),
        Writes(What.data, part=slice(-1, None), called="the destination"),
    ],
    to: Annotated[
        To | None, typer.Option(help="By default by name: .parquet; .csv; .txt, .letor, .svm, …; else a store.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to an existing store.")] = False,
    overwrite: Overwrite = False,
    whole: Annotated[
        bool, typer.Option("--group", help="Group documents of a query that are not adjacent, in memory.")
    ] = False,
    comments: Annotated[bool, typer.Option("--comments", help="Keep comments.")] = False,
    layout: Annotated[
        Layout | None,
        typer.Option(
            help="Layout of Parquet: a column per feature, one of lists, or lists of values that are not 0. By default "
            "columns, or sparse for sparse features."
        ),
    ] = None,
    write_zero_based: Annotated[
        bool, typer.Option("--write-zero-based", help="Count feature ids from 0 when writing LETOR text.")
    ] = False,
    dialect: Dialect,
    logs: ClickLogs,
    as_json: AsJson = False,
) -> None:
    """Convert between LETOR text, stores, Parquet and CSV, and from tables and logs of clicks, in constant memory.

    A store converted to itself has its segments merged into one, comments included.

    Example: perceptrank convert MSLR-WEB10K/Fold1/train.txt train.store
    """
    if len(paths) < 2:
        raise typer.BadParameter("name at least one source and the destination", param_hint="SOURCE... DESTINATION")
    *sources, destination = paths
    start = time.perf_counter()
    reading = ClickReading(files=sources, comments=comments, whole=whole, **asdict(dialect), **asdict(logs))
    arranged = None if layout is None else cast(Any, layout.value)
    writing = Writing(destination, to, append, overwrite, dialect.sparse is True, write_zero_based, arranged)
    counted = _Counted()
    if _is_compaction(sources, writing):
        store = pr.open_store(destination)
        store.compact()
        counted.add(store)
    else:
        with ProgressBar("converting") as bar:
            write(map(counted.add, reading.blocks(bar)), writing)
    seconds = time.perf_counter() - start
    if as_json:
        counts = {"queries": counted.n_queries, "documents": counted.n_documents, "features": counted.n_features}
        report = {"destination": destination, "format": writing.format, **counts, "seconds": round(seconds, 3)}
        print_json(report, file=sys.stderr if destination == "-" else sys.stdout)
    elif destination != "-":
        added = "added " if append else ""
        say(
            f"{destination} ({writing.format}): {added}{counted.n_queries:,} queries, "
            f"{counted.n_documents:,} documents, {counted.n_features} features, {seconds:.1f} s"
        )


def _is_compaction(sources: list[str], writing: Writing) -> bool:
    """Tell if one store is to be converted to itself; raise if it is to be added to itself, or together with others."""
    from perceptrank.io.paths import is_store

    destination = Path(writing.destination)
    if not is_store(destination) or not any(Path(path).exists() and destination.samefile(path) for path in sources):
        return False
    if len(sources) > 1 or writing.append or writing.format != "store":
        raise ValueError(f"{destination} is also an input: name another output file")
    return True


def write(blocks: "Iterator[pr.QueryStream]", writing: Writing) -> None:
    """Write blocks."""
    path, kind, is_stdout = Path(writing.destination), writing.format, writing.destination == "-"
    if writing.append and kind != "store":
        raise ValueError("--append applies to stores only")
    if writing.append and writing.overwrite:
        raise ValueError("give --append or --overwrite, not both")
    if is_stdout and kind != "letor":
        raise ValueError("only LETOR text can be written to standard output")
    if kind != "store" and not is_stdout and path.exists() and not writing.overwrite:
        raise FileExistsError(f"{path} exists already; --overwrite replaces it")
    if writing.append:
        pr.open_store(path).append(blocks)
    elif kind == "store":
        pr.write_store(blocks, path, overwrite=writing.overwrite)
    elif kind == "parquet":
        pr.write_parquet(blocks, path, layout=writing.layout)
    elif kind == "csv":
        from perceptrank.io.tables.copying import write_csv

        write_csv(blocks, writing.destination)
    else:
        file = standard_output() if is_stdout else path
        pr.write_letor(blocks, file, sparse=writing.sparse, zero_based=writing.zero_based)


class _Counted:
    n_queries = n_documents = n_features = 0

    def add(self, block: "pr.QueryStream") -> "pr.QueryStream":
        self.n_queries += len(block)
        self.n_documents += block.n_documents
        self.n_features = block.n_features
        return block
