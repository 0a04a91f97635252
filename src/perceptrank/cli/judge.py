"""The command `judge`."""

import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import perceptrank as pr
from perceptrank.cli.making import read_bias
from perceptrank.cli.options.clicks import as_numbers
from perceptrank.cli.options.cluster import Dealing, options_for_counting
from perceptrank.cli.options.files import Reads, Writes
from perceptrank.cli.options.reading import ClickReading
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.streams import complain, say
from perceptrank.cli.terminal.tables import ProgressBar, print_json, print_rows

Format = StrEnum("Format", "full quepid workbench")
Ratings = StrEnum("Ratings", "grade estimate")
ClickModel = StrEnum("ClickModel", "position dbn cascade coec ctr")


def judge(
    *,
    out: Annotated[Path, typer.Option(help="File to write: .csv, .jsonl, or .json for the workbench."), Writes()],
    model: Annotated[
        ClickModel,
        typer.Option(help="Click model: position, simplified DBN, cascade; to compare, OpenSearch's COEC, or ctr."),
    ] = ClickModel.position,
    to: Annotated[
        Format | None,
        typer.Option(help="All columns, or for Quepid or OpenSearch's search relevance workbench; by default by name."),
    ] = None,
    ratings: Annotated[
        Ratings, typer.Option(help="Ratings for Quepid and the workbench, of documents that have one.")
    ] = Ratings.grade,
    bias: Annotated[
        Path | None,
        typer.Option(help="What 'perceptrank position-bias --json' printed; by default estimated from the same log."),
        Reads(),
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Bounds between grades; by default 0.2,0.4,0.6,0.8.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    reading: ClickReading,
    dealing: Dealing,
    as_json: AsJson = False,
) -> None:
    """Judge the documents of a log of clicks: an estimate with an interval each, and a grade where that is certain.

    Files are logs of clicks, or stores or Parquet files that 'perceptrank convert --clicks' has written. With --dask,
    --spark or --scheduler, each file is counted by a worker; judgements are the same.

    Example: perceptrank judge ubi_events.ndjson --queries ubi_queries.ndjson --out judgements.csv
    """
    from perceptrank.clicks.judging.judgements import format_for
    from perceptrank.clicks.judging.judging import THRESHOLDS

    dealing.check()
    start = time.perf_counter()
    format_ = format_for(out, None if to is None else cast(Any, to.value))
    known = None if bias is None else read_bias(bias)
    settings: dict[str, Any] = {
        "thresholds": THRESHOLDS if thresholds is None else as_numbers("`thresholds`", thresholds),
        "confidence": confidence,
    }
    kind: Any = model.value
    with ProgressBar("judging") as bar:
        if dealing.is_used:
            settings |= options_for_counting(dealing, reading)
            with dealing.client() as client:
                judged = pr.distributed.judgements(reading.files, client, kind, known, progress=bar, **settings)
        else:
            judged = pr.clicks.judgements(_counted(reading), kind, known, progress=bar, **settings)
    n_written = judged.write(out, cast(Any, format_), ratings=cast(Any, ratings.value))
    plain = judged.as_plain()
    if as_json:
        print_json(plain | {"out": str(out), "written": n_written, "seconds": round(time.perf_counter() - start, 3)})
        return
    for note in judged.notes:
        complain(note)
    rows = [{"judgement": f"grade {grade}", "documents": count} for grade, count in plain["grades"].items()]
    rows += [{"judgement": f"no grade: {why}", "documents": count} for why, count in plain["not graded"].items()]
    print_rows(rows, f"Judgements by model {judged.model}")
    size = f"{plain['documents']:,} documents of {plain['queries']:,} queries, {plain['impressions']:,} impressions"
    say(f"{out}: {n_written:,} of {size}")


def _counted(reading: ClickReading) -> Iterator["pr.QueryStream"]:
    with ProgressBar("counting clicks") as bar:
        yield from reading.of_impressions().blocks(bar)
