"""The command `position-bias`."""

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.options.cluster import Dealing, options_for_counting
from perceptrank.cli.options.reading import ClickReading
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.streams import say
from perceptrank.cli.terminal.tables import ProgressBar, print_json, print_rows

Method = StrEnum("Method", "auto swaps pairs pivot em regression-em")


def position_bias(
    *,
    method: Annotated[
        Method,
        typer.Option(
            help="By random swaps, by documents at several places (pairs, pivot), or with a model of attractiveness "
            "(em, regression-em); auto chooses swaps or pairs."
        ),
    ] = Method.auto,
    places: Annotated[int | None, typer.Option(min=1, help="Number of places; by default all that were shown.")] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    reading: ClickReading,
    dealing: Dealing,
    as_json: AsJson = False,
) -> None:
    """Estimate from a log of clicks how often users look at each place, relative to the first.

    Where documents never change places, the log cannot tell this from how good they are: such places are reported as
    not identified, with the reason. Files are as for 'perceptrank judge'.

    Example: perceptrank position-bias ubi_events.ndjson --queries ubi_queries.ndjson --places 10
    """
    dealing.check()
    start = time.perf_counter()
    settings: dict[str, Any] = {"method": method.value, "places": places, "confidence": confidence}
    with ProgressBar("counting clicks") as bar:
        if dealing.is_used:
            settings |= options_for_counting(dealing, reading)
            with dealing.client() as client:
                bias = pr.distributed.position_bias(reading.files, client, progress=bar, **settings)
        else:
            bias = pr.clicks.position_bias(reading.of_impressions().blocks(bar), **settings)
    if as_json:
        print_json(bias.as_plain() | {"seconds": round(time.perf_counter() - start, 3)})
        return
    print_rows(bias.rows(), f"Examination of each place relative to the first, by {bias.method}")
    for sentence in bias.sentences():
        say(sentence)
