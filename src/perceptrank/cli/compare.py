"""The command `compare`."""

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from os.path import realpath
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import perceptrank as pr
from perceptrank.cli.making import has_setting, kinds_of, load_contenders, make_learner, parse_rates
from perceptrank.cli.options.cluster import Cluster, check_files
from perceptrank.cli.options.files import Reads, What, Writes
from perceptrank.cli.options.reading import ClickReading, Reading
from perceptrank.cli.options.shared import DEFAULT_RECORD, AsJson, LearnerSettings, MeansPlot, Record
from perceptrank.cli.terminal.errors import describe
from perceptrank.cli.terminal.streams import complain
from perceptrank.cli.terminal.tables import (
    ProgressBar,
    fits,
    interval,
    is_wide,
    plain,
    print_json,
    print_rows,
    show,
)

_ORDERS = 10
_FEWEST_COLUMNS = 3
_TELL_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Options of several orders."""

    vali: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Validation queries, to choose learning rates and --contenders by."),
        Reads(What.data),
    ] = None
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Held-out queries, to rank after each pass; may be repeated."),
        Reads(What.data),
    ] = None
    orders: Annotated[
        int | None, typer.Option(min=1, help="Random orders of the queries; 10 with --test, --vali, --csv or --latex.")
    ] = None
    seeds: Annotated[str | None, typer.Option(help="Seeds of the orders, such as 3,5,8; by default 0,1,2,…")] = None
    csv: Annotated[Path | None, typer.Option(help="CSV file for the results of all orders."), Writes()] = None
    latex: Annotated[Path | None, typer.Option(help="File for a LaTeX table (booktabs)."), Writes()] = None

    @property
    def are_given(self) -> bool:
        """True if any of the options is given."""
        return any(option is not None for option in vars(self).values())

    def chosen_seeds(self) -> list[int]:
        """Return the seed of each order."""
        if self.seeds is None:
            return list(range(self.orders or _ORDERS))
        try:
            seeds = [int(seed) for seed in self.seeds.split(",")]
        except ValueError:
            raise ValueError(f"--seeds must be whole numbers like 3,5,8, got {self.seeds!r}") from None
        if min(seeds) < 0 or max(seeds) >= 2**63 or len(set(seeds)) < len(seeds):
            raise ValueError(f"--seeds must all be different, and from 0 to below 2**63, got {self.seeds!r}")
        if self.orders not in (None, len(seeds)):
            raise ValueError(f"--orders is {self.orders}, and --seeds names {len(seeds)}: give one of them")
        return seeds


def _compare_orders(
    learners: dict[str, Any], recorded: "list[pr.Measure]", reading: Reading, orders: Orders
) -> "pr.Comparison":
    seeds = orders.chosen_seeds()
    sets = [set(map(realpath, files)) for files in (reading.files, orders.vali or (), orders.test or ())]
    if twice := [path for path, n in Counter(chain.from_iterable(sets)).items() if n > 1]:
        raise ValueError(
            f"{twice[0]} is given twice: --vali and --test must have other queries than those to learn from"
        )
    with ProgressBar("reading") as bar:
        stream = _whole(reading, bar)
    test = _held_out(reading, "--test", orders.test, stream) if orders.test else None
    vali = _held_out(reading, "--vali", orders.vali, stream) if orders.vali else None
    done, said, fitted = 0, 0.0, Counter[str]()
    with ProgressBar("comparing") as bar:

        def advance(traces: "dict[str, pr.Trace]") -> None:
            nonlocal done
            done += len(next(iter(traces.values())))
            bar(done, len(seeds) * len(stream))

        def tell(name: str) -> None:
            nonlocal said
            fitted[name] += 1
            if fitted[name] == 1 or time.monotonic() - said >= _TELL_SECONDS:
                said = time.monotonic()
                complain(f"fitting {name} to {len(stream):,} queries: order {fitted[name]} of {len(seeds)}")

        options: dict[str, Any] = {"n_threads": reading.n_threads, "on_block": advance, "on_fit": tell}
        return pr.compare(learners, stream, recorded, test=test, vali=vali, orders=seeds, on_error="drop", **options)


def _whole(reading: Reading, bar: ProgressBar) -> "pr.QueryStream":
    """Return all queries: a store as it is on disk, other files in memory."""
    from perceptrank.io.paths import is_store

    if len(reading.files) == 1 and reading.sparse is None and is_store(Path(reading.files[0])):
        return cast("pr.QueryStream", reading.opened(bar))
    return pr.QueryStream.concatenate(list(reading.blocks(bar)))


def _held_out(reading: Reading, option: str, files: list[str], stream: "pr.QueryStream") -> "Iterator[pr.QueryStream]":
    """Yield held-out queries; whether learners will be able to rank them is found out before they learn."""
    blocks = replace(reading, files=list(files)).blocks(lambda *_: None)
    first = next(blocks, None)
    if first is None:
        return iter(())
    if first.feature_names is None and stream.feature_names is None and first.n_features != stream.n_features:
        raise ValueError(
            f"{option} must have the {stream.n_features} features of the queries to learn from, got {first.n_features} "
            f"in {files[0]}; --n-features sets the number for both"
        )
    return chain([first], blocks)


def _show_orders(result: "pr.Comparison", seed: int) -> None:
    from perceptrank.evaluation.comparison_tables import joined, marks

    several = len(result.seeds) > 1
    columns = [(on, measure) for on in result.sets for measure in result.measures]
    standings = {key: {each.name: each for each in result.standings(key[1], key[0], seed=seed)} for key in columns}
    rows: list[dict[str, Any]] = []
    for name, letter in result.letters.items():
        row = {"": letter, "name": name}
        for on, measure in columns:
            text = "-"  # of one that was fitted to all queries at once
            if standing := standings[on, measure].get(name):
                spread = f" ± {standing.spread:.4f}" if several else ""
                text = f"{standing.mean:.4f}{spread} {joined(marks(result, standing))}".rstrip()
            row[f"{on} {measure}"] = text
        rows.append(row)
    while len(rows[0]) > _FEWEST_COLUMNS and not fits(rows):
        rows = [dict(list(row.items())[:-1]) for row in rows]
    held_out = f", {result.n_test:,} held out" if result.n_test else ""
    orders = f"{len(result.seeds)} orders" if several else "one order"
    learners = "one learner" if len(rows) == 1 else f"{len(rows)} learners"
    print_rows(rows, f"{learners}, {orders} of {result.n_queries:,} queries{held_out}, best first")
    spread = "±: standard deviation over orders; " if several else ""
    print(f"{spread}letters: learners that are significantly worse, at a simultaneous confidence of 95 %.")
    for name, means in result.tuned.items():
        if len(means) > 1:
            print(f"{name} was chosen among {len(means)} by --vali: {result.measures[0]} {means[name]:.4f}")


def compare(
    *,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(help="Learner (bagging:slam wraps slam), or all; may be repeated. By default all."),
    ] = None,
    learning_rate: Annotated[
        str | None,
        typer.Option(help="Rates for learners that depend on them: 0.1 or 0.1,1 or 1e-4:1:9 (first:last:number)."),
    ] = None,
    contenders: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            help="Python file with a dictionary `contenders` of models, or of candidates for --vali; may be repeated.",
        ),
        Reads(),
    ] = None,
    settings: LearnerSettings,
    record: Record = None,
    plot: MeansPlot = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    orders: Orders,
    reading: ClickReading,
    cluster: Cluster,
    as_json: AsJson = False,
) -> None:
    """Compare learners and learning rates in one pass, and test which differences are significant.

    With --dask, --spark or --scheduler, each learner is a task of a cluster and reads the files; results are the same.

    With --test or --orders, learn in one pass over each of several random orders, and rank the held-out queries after
    it; --plot draws a figure for print. All queries must fit into memory, or come from one store.

    With --vali, each learner keeps the learning rate that ranks these queries best.

    Example: perceptrank compare train.txt.gz --algorithm slam --algorithm listwise --learning-rate 1e-4:1:9

    Example: perceptrank compare train.txt --test test.txt --orders 10 --latex table.tex --plot curves.pdf

    Example: perceptrank compare train.txt --vali vali.txt --test test.txt --learning-rate 1e-3:1:4

    Example: perceptrank compare train.txt --test test.txt --contenders trees.py
    """
    from perceptrank.measures import parse_all

    cluster.check()
    rates = [] if learning_rate is None else parse_rates(learning_rate)
    learners = _learners(algorithm or ["all"], rates, settings.given(), grouped=orders.vali is not None)
    for path in contenders or ():
        others = load_contenders(path)
        if twice := learners.keys() & others.keys():
            raise ValueError(f"{path}: the name {min(twice)!r} of a contender is taken")
        learners |= others
    recorded = parse_all(record or DEFAULT_RECORD)
    start = time.perf_counter()
    if cluster.is_used and (contenders or orders.are_given):
        what = "--contenders" if contenders else "several orders"
        raise ValueError(f"{what} are run on this machine: leave out --dask, --spark and --scheduler")
    if orders.are_given:
        result = _compare_orders(learners, recorded, reading, orders)
    elif cluster.is_used:
        result = _compare_on(cluster, learners, recorded, reading)
    else:
        with ProgressBar("comparing") as bar:
            options: dict[str, Any] = {"n_threads": reading.n_threads, "on_error": "drop"}
            result = pr.compare(learners, reading.blocks(bar), recorded, **options)
    for name, reason in result.dropped.items():
        complain(f"warning: {name} failed and was dropped: {reason}")
    if plot is not None:
        result.plot(plot)
    if orders.csv is not None:
        result.save_csv(orders.csv, seed=seed)
    if orders.latex is not None:
        result.save_latex(orders.latex, seed=seed)
    seconds = round(time.perf_counter() - start, 3)
    if orders.are_given:
        if as_json:
            print_json(result.as_plain(seed=seed) | {"seed": seed, "seconds": seconds})
        else:
            _show_orders(result, seed)
        return
    first = recorded[0]
    rows, shown_rows = [], []
    for standing in result.standings(first, seed=seed):
        others = {str(other): plain(result.traces[standing.name].mean(other)) for other in recorded[1:]}
        rows.append({key: plain(value) for key, value in standing._asdict().items()} | others)
        row: dict[str, Any] = {"name": standing.name, str(first): standing.mean}
        if is_wide():
            row |= {"95% interval": interval(standing.low, standing.high)} | others
        row |= {"behind": standing.behind, "95% interval ": interval(standing.behind_low, standing.behind_high)}
        shown_rows.append(row | {"significant": standing.is_behind, "updates": standing.n_updates})
    n_queries = len(next(iter(result.traces.values())))
    extra = {"measure": str(first), "queries": n_queries, "seconds": seconds, "confidence": 0.95}
    extra |= {"dropped": result.dropped, "seed": seed}
    title = f"{'one learner' if len(rows) == 1 else f'{len(rows)} learners'} on {n_queries:,} queries, best first"
    show(rows, title=title, as_json=as_json, extra=extra, shown=shown_rows)
    if not as_json:
        print("behind: best mean minus this mean; significant: the whole interval is above 0.")


def _compare_on(
    cluster: Cluster, learners: dict[str, Any], recorded: "list[pr.Measure]", reading: Reading
) -> "pr.Comparison":
    from perceptrank.distributed.comparing import compare as compare_on

    check_files(reading)
    with cluster.client() as client, ProgressBar("comparing") as bar:
        return compare_on(learners, reading.files, recorded, client, on_error="drop", progress=bar, **reading.options())


def _learners(chosen: list[str], rates: list[float], settings: dict[str, Any], *, grouped: bool) -> dict[str, Any]:
    """Make each learner, once for every rate if its rankings depend on that; `grouped`, these are candidates."""
    names = sorted(pr.algorithms()) if "all" in chosen else list(dict.fromkeys(chosen))
    unknown = [key for key in settings if not any(has_setting(name, key) for name in names)]
    if unknown:
        raise ValueError(f"none of {', '.join(names)} has a setting {', '.join(unknown)}")
    learners: dict[str, Any] = {}
    for name in names:
        own = {key: value for key, value in settings.items() if has_setting(name, key)}
        wanted = {"": own}
        depends = any(kind.depends_on_rate for kind in kinds_of(name)) or own.get("margin") is not None
        if rates and (depends or len(names) == 1):
            wanted = {f"{rate:g}": own | {"learning_rate": rate} for rate in rates}
        try:
            made = {rate: make_learner(name, options) for rate, options in wanted.items()}
        except ValueError as error:
            if "all" not in chosen:
                raise
            warnings.warn(f"{name} is skipped: {describe(error)}", stacklevel=2)
            continue
        if grouped and "" not in made:
            learners[name] = made
        else:
            learners |= {f"{name} {rate}".rstrip(): learner for rate, learner in made.items()}
    if not learners:
        raise ValueError("no learner accepts these settings")
    return learners
