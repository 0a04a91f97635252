"""The command `compare`."""

import sys
import time
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import has_setting, kinds_of, make_learner, parse_rates
from perceptrank.cli.options.cluster import Cluster, check_files
from perceptrank.cli.options.orders import Orders, compare_over_orders
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.options.shared import DEFAULT_RECORD, AsJson, LearnerSettings, MeansPlot, Record
from perceptrank.cli.terminal.errors import describe
from perceptrank.cli.terminal.progress import ProgressBar
from perceptrank.cli.terminal.streams import complain
from perceptrank.cli.terminal.tables import console, interval, is_wide, make_table, plain, show

if TYPE_CHECKING:
    from rich.live import Live

    from perceptrank.evaluation.trace import Trace
    from perceptrank.learners.learner import Learner
    from perceptrank.measures import Measure

_REFRESH_SECONDS = 0.25


def compare(
    *,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(help="Learner (bagging:slam wraps slam), or all; may be repeated. By default all."),
    ] = None,
    learning_rate: Annotated[
        str | None,
        typer.Option(
            help="Learning rates, for learners that depend on them: 0.1 or 0.1,1 or 1e-4:1:9 (first:last:number)."
        ),
    ] = None,
    settings: LearnerSettings,
    record: Record = None,
    plot: MeansPlot = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    orders: Orders,
    reading: Reading,
    cluster: Cluster,
    as_json: AsJson = False,
) -> None:
    """Compare learners and learning rates in one pass, and test which differences are significant.

    With --dask or --scheduler, each learner is one task of a cluster, which reads the files; the results are the same.

    With --test or --orders, one pass over each of several random orders, and held-out queries after it; --plot is for
    print then. All queries must fit into memory, or come from one store.

    Example: perceptrank compare train.txt.gz --algorithm slam --algorithm listwise --learning-rate 1e-4:1:9

    Example: perceptrank compare train.txt --test test.txt --orders 10 --latex table.tex --plot curves.pdf
    """
    from perceptrank.measures import parse_all

    cluster.check()
    if plot is not None:
        from perceptrank.evaluation.plots import check_drawable

        check_drawable(plot)
    rates = [] if learning_rate is None else parse_rates(learning_rate)
    learners = _learners(algorithm or ["all"], rates, settings.given())
    recorded = parse_all(record or DEFAULT_RECORD)
    if orders.are_asked_for():
        if cluster.is_used:
            raise ValueError("several orders are run on this machine: leave out --dask and --scheduler")
        compare_over_orders(learners, recorded, reading, orders, plot, seed, as_json=as_json)
        return
    start = time.perf_counter()
    result = (
        _compared_on(cluster, learners, recorded, reading)
        if cluster.is_used
        else _compared(learners, recorded, reading, start)
    )
    for name, reason in result.dropped.items():
        complain(f"warning: {name} failed and was dropped: {reason}")
    if plot is not None:
        result.plot(plot)
    first = recorded[0]
    rows, shown_rows = [], []
    for one in result.standings(first, seed=seed):
        others = {str(other): plain(result.traces[one.name].mean(other)) for other in recorded[1:]}
        rows.append({key: plain(value) for key, value in one._asdict().items()} | others)
        row: dict[str, Any] = {"name": one.name, str(first): one.mean}
        if is_wide():
            row |= {"95% interval": interval(one.low, one.high)} | others
        row |= {"behind": one.behind, "95% interval ": interval(one.behind_low, one.behind_high)}
        shown_rows.append(row | {"significant": one.is_behind, "updates": one.n_updates})
    n_queries = len(next(iter(result.traces.values())))
    extra = {
        "measure": str(first),
        "queries": n_queries,
        "seconds": round(time.perf_counter() - start, 3),
        "confidence": 0.95,
        "dropped": result.dropped,
        "seed": seed,
    }
    title = f"{'one learner' if len(rows) == 1 else f'{len(rows)} learners'} on {n_queries:,} queries, best first"
    show(rows, title=title, as_json=as_json, extra=extra, shown=shown_rows)
    if not as_json:
        print("behind: best mean minus this mean; significant: the whole interval is above 0.")


def _compared(
    learners: "dict[str, Learner]", recorded: "list[Measure]", reading: Reading, start: float
) -> "pr.Comparison":
    shown = _LiveTable(list(learners), str(recorded[0]), start)
    with ProgressBar("comparing") as bar, shown:
        blocks = reading.blocks(_nothing if shown.is_live else bar)
        return pr.compare(learners, blocks, recorded, n_threads=reading.n_threads, on_block=shown, on_error="drop")


def _compared_on(
    cluster: Cluster, learners: "dict[str, Learner]", recorded: "list[Measure]", reading: Reading
) -> "pr.Comparison":
    from perceptrank.distributed.comparing import compare as compare_on

    check_files(reading)
    with cluster.client() as client, ProgressBar("comparing") as bar:
        return compare_on(learners, reading.files, recorded, client, on_error="drop", progress=bar, **reading.options())


def _learners(chosen: list[str], rates: list[float], settings: dict[str, Any]) -> "dict[str, Learner]":
    """Make each learner, once for every rate if its rankings depend on that."""
    names = sorted(pr.algorithms()) if "all" in chosen else list(dict.fromkeys(chosen))
    unknown = [key for key in settings if not any(has_setting(name, key) for name in names)]
    if unknown:
        raise ValueError(f"none of {', '.join(names)} has a setting {', '.join(unknown)}")
    learners: dict[str, Learner] = {}
    for name in names:
        own = {key: value for key, value in settings.items() if has_setting(name, key)}
        wanted = {name: own}
        depends = any(kind.depends_on_rate for kind in kinds_of(name)) or own.get("margin") is not None
        if rates and (depends or len(names) == 1):
            wanted = {f"{name} {rate:g}": own | {"learning_rate": rate} for rate in rates}
        try:
            learners |= {called: make_learner(name, one) for called, one in wanted.items()}
        except ValueError as error:
            if "all" not in chosen:
                raise
            warnings.warn(f"{name} is skipped: {describe(error)}", stacklevel=2)
    if not learners:
        raise ValueError("no learner accepts these settings")
    return learners


def _nothing(done: int, total: int) -> None:
    """Progress that the live table shows already."""


class _LiveTable:
    """Running means while it goes on, on a terminal and once it takes longer than a second."""

    def __init__(self, names: list[str], measure: str, start: float) -> None:
        self.is_live = sys.stderr.isatty()
        self._measure, self._start, self._last = measure, start, start
        self._sums, self._updates = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
        self._n_queries = self._n_counted = 0
        self._live: Live | None = None

    def __call__(self, traces: "dict[str, Trace]") -> None:
        """Take a block's traces."""
        if not self.is_live:
            return
        import numpy as np

        for name, trace in traces.items():
            self._sums[name] += float(np.nansum(trace.values(self._measure)))
            self._updates[name] += trace.n_updates
        any_trace = next(iter(traces.values()))
        self._n_queries += len(any_trace)
        self._n_counted += int(np.count_nonzero(~np.isnan(any_trace.values(self._measure))))
        now = time.perf_counter()
        if now - self._start > 1 and now - self._last > _REFRESH_SECONDS:
            self._last = now
            self._show(now - self._start)

    def _show(self, seconds: float) -> None:
        rows = [
            {"name": name, self._measure: self._sums[name] / max(1, self._n_counted), "updates": self._updates[name]}
            for name in sorted(self._sums, key=lambda name: -self._sums[name])
        ]
        table = make_table(rows, f"{self._n_queries:,} queries, {self._n_queries / seconds:,.0f} a second")
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(table, refresh=True)

    def __enter__(self) -> "_LiveTable":
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
