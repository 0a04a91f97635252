"""One pass of a learner over files, saved on the way."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from perceptrank.cli.making import make_learner, setting_in
from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.cli.tables import plain, show
from perceptrank.evaluation.plots import check_drawable
from perceptrank.evaluation.trace import Trace
from perceptrank.io.atomic import check_writable
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import load
from perceptrank.measures import Measure, parse_all
from perceptrank.stream.query_stream import QueryStream


class Keeping(NamedTuple):
    """Where what is learned is kept, and how often."""

    save: Path | None
    trace: Path | None
    plot: Path | None
    every: int | None
    resume: bool
    start_from: Path | None


def run(
    reading: Reading,
    algorithm: str | None,
    settings: dict[str, Any],
    recorded: list[str],
    keeping: Keeping,
    *,
    as_json: bool,
) -> None:
    """Learn, save, and print how well each query was ranked before it was learned from."""
    _check(keeping)
    measures = parse_all(recorded)
    learner, traces = _begin(algorithm, settings, measures, keeping)
    skipped = learner.n_queries if keeping.resume else 0
    start = time.perf_counter()
    first = learner.n_queries
    n_documents = 0
    with ProgressBar("learning") as bar:
        try:
            for block in _pieces(_after(skipped, reading.blocks(bar)), keeping.every, learner):
                traces.append(learner.learn(block, measures))
                n_documents += block.n_documents
                if keeping.every is not None and learner.n_queries % keeping.every == 0:
                    _keep(learner, traces, keeping)
        except KeyboardInterrupt:
            if keeping.save is not None and learner.n_queries > first:
                _keep(learner, traces, keeping)
                print(f"stopped after {learner.n_queries:,} queries; --resume goes on from there", file=sys.stderr)
            raise
    if learner.n_queries == first:
        if skipped:
            raise ValueError(
                f"{keeping.save} has learned from {skipped:,} queries, and the files have no more than that"
            )
        raise ValueError("there are no queries to learn from")
    _keep(learner, traces, keeping)
    whole = Trace.concatenate(traces)
    if keeping.plot is not None:
        whole.plot(keeping.plot)
    seconds = time.perf_counter() - start
    n_queries = learner.n_queries - first
    row: dict[str, Any] = {"algorithm": learner.name}
    row |= {str(measure): plain(whole.mean(measure)) for measure in whole.measures}
    row |= {"queries": len(whole), "updates": whole.n_updates}
    extra = {
        "model": repr(learner),
        "queries": n_queries,
        "documents": n_documents,
        "seconds": round(seconds, 3),
        "saved": None if keeping.save is None else str(keeping.save),
    }
    show([row], title="Ranked, measured, then learned from", as_json=as_json, extra=extra)
    if not as_json:
        saved = f"; saved to {keeping.save}" if keeping.save is not None else "; not saved (--save FILE)"
        print(f"{n_queries:,} queries, {n_documents:,} documents in {seconds:.1f} s{saved}")


def _check(keeping: Keeping) -> None:
    """Raise now, not after all is learned, if something cannot be kept."""
    if keeping.save is None and (keeping.every is not None or keeping.resume):
        raise ValueError("--checkpoint and --resume need --save, the file to keep the model in")
    if keeping.resume and keeping.start_from is not None:
        raise ValueError("--resume goes on with the saved model: say --resume or --from, not both")
    paths = [path for path in (keeping.save, keeping.trace, keeping.plot) if path is not None]
    if len({path.absolute() for path in paths}) < len(paths):
        raise ValueError("--save, --trace and --plot must be different files")
    for path in paths:
        check_writable(path)
    if keeping.plot is not None:
        check_drawable(keeping.plot)


def _begin(
    algorithm: str | None, settings: dict[str, Any], measures: list[Measure], keeping: Keeping
) -> tuple[Learner, list[Trace]]:
    """The learner to go on with, and what is recorded of it already."""
    source = keeping.start_from
    if keeping.resume and keeping.save is not None and keeping.save.exists():
        source = keeping.save
    if source is None:
        return make_learner(algorithm or "listwise", settings), []
    learner = load(source)
    if keeping.start_from is not None and (algorithm is not None or settings):
        raise ValueError("--from goes on with a model as it is: give no algorithm and no settings")
    if keeping.resume and algorithm not in (None, learner.name):
        raise ValueError(f"{source} is a {learner.name}, not a {algorithm}")
    fresh = make_learner(learner.name, settings)
    for name in settings:
        saved, wanted = setting_in(learner, name), setting_in(fresh, name)
        if saved != wanted:
            raise ValueError(f"{source} was learned with {name} {saved!r}, not {wanted!r}")
    if not keeping.resume or keeping.trace is None:
        return learner, []
    if not keeping.trace.exists():
        raise ValueError(f"there is no {keeping.trace} to go on with; without --trace nothing recorded is kept")
    trace = Trace.load(keeping.trace)
    if len(trace) < learner.n_queries or trace.measures != measures:
        raise ValueError(f"{keeping.trace} is not what was recorded with {source}: other measures, or too few queries")
    return learner, [trace[: learner.n_queries]]


def _after(n_queries: int, blocks: Iterator[QueryStream]) -> Iterator[QueryStream]:
    """The blocks without the first queries."""
    for block in blocks:
        skipped = min(n_queries, len(block))
        n_queries -= skipped
        if skipped < len(block):
            yield block[skipped:]


def _pieces(blocks: Iterator[QueryStream], every: int | None, learner: Learner) -> Iterator[QueryStream]:
    """The blocks, cut where a checkpoint is due."""
    for block in blocks:
        start = 0
        while start < len(block):
            stop = len(block) if every is None else min(len(block), start + every - learner.n_queries % every)
            yield block[start:stop]
            start = stop


def _keep(learner: Learner, traces: list[Trace], keeping: Keeping) -> None:
    """Save the trace, then the model: should the power go between, the trace is cut to the model when they are read."""
    if keeping.trace is not None and traces:
        traces[:] = [Trace.concatenate(traces)]
        traces[0].save(keeping.trace)
    if keeping.save is not None:
        learner.save(keeping.save)
