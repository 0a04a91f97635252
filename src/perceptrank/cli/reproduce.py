"""The paper's experiments, and a report."""

import sys
import time
from pathlib import Path

from perceptrank import __version__
from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.tables import show
from perceptrank.paper.real_sets import check_root
from perceptrank.paper.report.files import check_folder, write_report
from perceptrank.paper.reproduction import Reproduction, reproduce
from perceptrank.paper.results import as_plain
from perceptrank.paper.settings import Settings


def run(settings: Settings, out: Path, *, n_threads: int | None, as_json: bool) -> None:
    """Run everything, write the report, and print where it is and what is in it."""
    if settings.data is not None:
        check_root(settings.data)
    check_folder(out)
    start = time.perf_counter()
    with _Bars() as bars:
        result = reproduce(settings, n_threads=n_threads, progress=bars)
    page = write_report(result, out, __version__)
    for one in result.left_out:
        print(f"not used: {one.name}: {one.reason}", file=sys.stderr)
    if settings.data is not None and len(result.streams) == 1:
        print(f"no data set was found below {settings.data}", file=sys.stderr)
    if as_json:
        show(_rows(result), title="", as_json=True, extra=as_plain(result) | {"perceptrank": __version__})
        return
    title = "Mean NDCG@10 after the first tenth of each stream, rates chosen on that first tenth"
    show(_rows(result), title=title, as_json=False)
    _print_losses(result)
    seconds = time.perf_counter() - start
    print(f"{len(result.charts)} figures and all numbers in {seconds:.0f} s; open {page.resolve().as_uri()}")


def _rows(result: Reproduction) -> list[dict[str, str | float]]:
    rows: list[dict[str, str | float]] = []
    for stream in result.streams:
        means = {one.contender.name: float(one.honest_rest.mean()) for one in stream.tuned["ndcg@10"]}
        rows.append({"stream": stream.trials.source.name} | {name: means[name] for name in sorted(means)})
    return rows


def _print_losses(result: Reproduction) -> None:
    simulated = result.streams[0].simulated
    if simulated is None:
        return
    rows = [
        {
            "learner": one.label,
            "loss": float(one.losses.max()),
            "2nd half": float(one.second_half.max()),
            "last loss at": max(one.last_losses),
            "bound": None if one.bounds is None else round(min(one.bounds)),
        }
        for one in simulated.bound_checks
    ]
    rounds = result.streams[0].trials.source.n_rounds
    show(rows, title=f"Cumulative loss on the separable stream of {rounds:,} queries, worst seed", as_json=False)


class _Bars:
    """A bar per stream."""

    def __init__(self) -> None:
        self._name = ""
        self._bar: ProgressBar | None = ProgressBar("simulated")

    def __call__(self, name: str, done: int, total: int) -> None:
        if name != self._name:
            self._close()
            self._name, self._bar = name, ProgressBar(name)
        if self._bar is not None:
            self._bar(done, total)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def __enter__(self) -> "_Bars":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()
