"""The command `reproduce`."""

import sys
import time
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perceptrank import __version__
from perceptrank.cli.options.files import Reads, What, Writes
from perceptrank.cli.options.shared import AsJson, Threads
from perceptrank.cli.terminal.streams import complain
from perceptrank.cli.terminal.tables import ProgressBar, announce_compiling, show

if TYPE_CHECKING:
    from perceptrank.paper.reproduction import Reproduction


TransformName = StrEnum("TransformName", "auto none query-zscore query-minmax running")  # transforms of real sets
Order = StrEnum("Order", "shuffled given")  # orders of the queries of real sets


def reproduce(
    data: Annotated[Path | None, typer.Option(help="Folder with data sets to include."), Reads(What.tree)] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report."), Writes(What.report)] = Path("report"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and queries: takes a few seconds.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; by default 10, or 3 with --quick.")] = None,
    transform: Annotated[
        TransformName, typer.Option(help="Of real sets; auto: query-zscore unless all features are in [-1, 1].")
    ] = TransformName.auto,
    order: Annotated[Order, typer.Option(help="Order of the queries of real sets.")] = Order.shuffled,
    passes: Annotated[int, typer.Option(min=1, help="Number of passes over real data sets.")] = 1,
    n_threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments and ours, and write report.html, results.json, figures and curves.

    On a simulated stream, and on every data set below the folder that --data names, with all its folds.

    Example: perceptrank reproduce --data ~/letor --out report
    """
    from perceptrank.paper.real_sets import check_root
    from perceptrank.paper.report.page import check_folder, write_report
    from perceptrank.paper.reproduction import Settings
    from perceptrank.paper.reproduction import reproduce as run
    from perceptrank.paper.results import as_plain

    settings = Settings(data, quick, seed, seeds, transform.value, order.value, passes)
    if data is not None:
        check_root(data)
    check_folder(out)
    start = time.perf_counter()
    announce_compiling()
    with _Bars() as bars:
        result = run(settings, n_threads=n_threads, progress=bars)
    page = write_report(result, out, __version__)
    for source in result.left_out:
        complain(f"not used: {source.name}: {source.reason}")
    if data is not None and len(result.streams) == 1:
        complain(f"no data set was found below {data}")
    if as_json:
        show(_rows(result), title="", as_json=True, extra=as_plain(result) | {"perceptrank": __version__})
        return
    _print_losses(result)
    _, *real = _rows(result)  # on the separable stream all are close to 1
    if real:
        title = "Mean NDCG@10 after the first tenth of each stream, rates chosen on that first tenth"
        show(real, title=title, as_json=False)
    seconds = time.perf_counter() - start
    print(f"{len(result.charts)} figures and all numbers in {seconds:.0f} s; open {page.resolve().as_uri()}")


def _rows(result: "Reproduction") -> list[dict[str, str | float]]:
    from perceptrank.paper.contenders import CONTENDERS
    from perceptrank.paper.reproduction import mean_of_folds

    rows: list[dict[str, str | float]] = []
    for stream in result.streams:
        means = {tuned.contender.name: float(tuned.honest_rest.mean()) for tuned in stream.tuned["ndcg@10"]}
        rows.append({"stream": stream.trials.source.name} | {name: means[name] for name in sorted(means)})
    for name, streams in result.folds.items():
        over = {learner: float(mean_of_folds(streams, "ndcg@10", learner).mean()) for learner in sorted(CONTENDERS)}
        rows.append({"stream": f"{name}, mean of {len(streams)} folds"} | over)
    return rows


def _print_losses(result: "Reproduction") -> None:
    simulated = result.streams[0].simulated
    if simulated is None:
        return
    rows = [
        {
            "learner": check.contender.label,
            "loss": float(check.losses.max()),
            "2nd half": float(check.second_half.max()),
            "last loss at query": max(check.last_losses),
            "bound": None if check.bounds is None else round(min(check.bounds)),
        }
        for check in simulated.bound_checks
    ]
    rounds = result.streams[0].trials.source.n_rounds
    show(rows, title=f"Cumulative loss on the separable stream of {rounds:,} queries, worst seed", as_json=False)


class _Bars(ExitStack):
    """A bar per stream, or where standard error is no terminal, a line."""

    name: str | None = None
    bar: ProgressBar

    def __call__(self, name: str, done: int, total: int) -> None:
        if name != self.name:
            self.close()
            self.name, self.bar = name, self.enter_context(ProgressBar(name))
            if not sys.stderr.isatty():
                complain(f"running {name}")
        self.bar(done, total)
