"""Learners over several orders of the queries: the part of `compare` that papers need."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.options.files import Reads, What, Writes
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.terminal.progress import ProgressBar
from perceptrank.cli.terminal.streams import complain
from perceptrank.cli.terminal.tables import fits, print_json, print_rows

if TYPE_CHECKING:
    from perceptrank.evaluation.trace import Trace
    from perceptrank.learners.learner import Learner
    from perceptrank.measures import Measure
    from perceptrank.stream.query_stream import QueryStream

_ORDERS = 10
_FEWEST_COLUMNS = 3


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Options of several orders."""

    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Held-out queries, to rank after each pass; may be repeated."),
        Reads(What.data),
    ] = None
    orders: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of random orders of the queries, one pass each; by default 10 with --test, --csv or --latex.",
        ),
    ] = None
    seeds: Annotated[str | None, typer.Option(help="Seeds of the orders, such as 3,5,8; by default 0,1,2,…")] = None
    csv: Annotated[Path | None, typer.Option(help="CSV file for the results of all orders."), Writes()] = None
    latex: Annotated[Path | None, typer.Option(help="File for a LaTeX table (booktabs)."), Writes()] = None

    def are_asked_for(self) -> bool:
        """Tell if any of the options is given."""
        return any(one is not None for one in (self.test, self.orders, self.seeds, self.csv, self.latex))

    def chosen_seeds(self) -> list[int]:
        """Return the seed of each order."""
        if self.seeds is None:
            return list(range(self.orders or _ORDERS))
        try:
            seeds = [int(one) for one in self.seeds.split(",")]
        except ValueError:
            raise ValueError(f"--seeds must be whole numbers like 3,5,8, got {self.seeds!r}") from None
        if min(seeds) < 0 or max(seeds) >= 2**63 or len(set(seeds)) < len(seeds):
            raise ValueError(f"--seeds must all be different, and from 0 to below 2**63, got {self.seeds!r}")
        if self.orders not in (None, len(seeds)):
            raise ValueError(f"--orders is {self.orders}, and --seeds names {len(seeds)}: give one of them")
        return seeds


def compare_over_orders(
    learners: "dict[str, Learner]",
    recorded: "list[Measure]",
    reading: Reading,
    orders: Orders,
    plot: Path | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Compare learners over orders, write what is asked for, and show the table."""
    start = time.perf_counter()
    seeds = orders.chosen_seeds()
    with ProgressBar("reading") as bar:
        stream = _whole(reading, bar)
    test = _held_out(reading, orders.test, stream) if orders.test else None
    done = 0
    with ProgressBar("comparing") as bar:

        def advance(traces: "dict[str, Trace]") -> None:
            nonlocal done
            done += len(next(iter(traces.values())))
            bar(done, len(seeds) * len(stream))

        result = pr.compare(
            learners,
            stream,
            recorded,
            test=test,
            orders=seeds,
            n_threads=reading.n_threads,
            on_block=advance,
            on_error="drop",
        )
    for name, reason in result.dropped.items():
        complain(f"warning: {name} failed and was dropped: {reason}")
    if plot is not None:
        result.plot(plot)
    if orders.csv is not None:
        result.save_csv(orders.csv, seed=seed)
    if orders.latex is not None:
        result.save_latex(orders.latex, seed=seed)
    if as_json:
        print_json(result.as_plain(seed=seed) | {"seed": seed, "seconds": round(time.perf_counter() - start, 3)})
        return
    _show(result, seed)


def _whole(reading: Reading, bar: ProgressBar) -> "QueryStream":
    """Return all queries: a store as it is on disk, other files in memory."""
    from perceptrank.io.store import Store
    from perceptrank.io.store_manifest import is_store

    if len(reading.files) == 1 and reading.sparse is None and is_store(Path(reading.files[0])):
        opened = reading.opened(bar)
        if isinstance(opened, Store):
            return opened
    return pr.QueryStream.concatenate(list(reading.blocks(bar)))


def _held_out(reading: Reading, files: list[str], stream: "QueryStream") -> "Iterator[QueryStream]":
    """Yield held-out queries; whether learners will be able to rank them is found out before they learn."""
    blocks = replace(reading, files=list(files)).blocks(_nothing)
    first = next(blocks, None)
    if first is None:
        return iter(())
    if first.feature_names is None and stream.feature_names is None and first.n_features != stream.n_features:
        raise ValueError(
            f"--test must have the {stream.n_features} features of the queries to learn from, got {first.n_features} "
            f"in {files[0]}; --n-features sets the number for both"
        )
    return chain([first], blocks)


def _nothing(done: int, total: int) -> None:
    """Progress of held-out queries, which are read once."""


def _show(result: "pr.Comparison", seed: int) -> None:
    from perceptrank.evaluation.comparison_tables import joined, marks

    several = len(result.seeds) > 1
    columns = [(on, one) for on in result.sets for one in result.measures]
    found = {key: {one.name: one for one in result.standings(key[1], key[0], seed=seed)} for key in columns}
    rows: list[dict[str, Any]] = []
    for name, letter in result.letters.items():
        row = {"": letter, "name": name}
        for on, measure in columns:
            one = found[on, measure][name]
            spread = f" ± {one.spread:.4f}" if several else ""
            row[f"{on} {measure}"] = f"{one.mean:.4f}{spread} {joined(marks(result, one))}".rstrip()
        rows.append(row)
    while len(rows[0]) > _FEWEST_COLUMNS and not fits(rows):
        rows = [dict(list(row.items())[:-1]) for row in rows]
    held_out = f", {result.n_test:,} held out" if result.n_test else ""
    orders = f"{len(result.seeds)} orders" if several else "one order"
    learners = "one learner" if len(rows) == 1 else f"{len(rows)} learners"
    print_rows(rows, f"{learners}, {orders} of {result.n_queries:,} queries{held_out}, best first")
    spread = "±: standard deviation over orders; " if several else ""
    print(f"{spread}letters: learners that are significantly worse, at a simultaneous confidence of 95 %.")
