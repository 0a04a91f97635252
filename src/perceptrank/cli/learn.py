"""The command `learn`."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import make_learner, setting_in
from perceptrank.cli.options import DEFAULT_RECORD, AsJson, LearnerSettings, MeansPlot, Record
from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.cli.tables import plain, show

if TYPE_CHECKING:
    from perceptrank.evaluation.trace import Trace
    from perceptrank.learners.learner import Learner
    from perceptrank.measures import Measure


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Files that the model is saved to, and continued from."""

    save: Annotated[Path | None, typer.Option(help="File to save the model in, JSON.")] = None
    start_from: Annotated[Path | None, typer.Option("--from", help="Model to go on with.")] = None
    checkpoint: Annotated[int | None, typer.Option(min=1, help="Save every so many queries.")] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the saved model after the queries it has seen.")
    ] = False
    trace: Annotated[Path | None, typer.Option(help="File to save what was recorded in, .npz.")] = None
    plot: MeansPlot = None

    def check(self) -> None:
        """Raise now, not after all is learned, if something cannot be kept."""
        from perceptrank.io.atomic import check_writable

        if self.save is None and (self.checkpoint is not None or self.resume):
            raise ValueError("--checkpoint and --resume need --save, the file to keep the model in")
        if self.resume and self.start_from is not None:
            raise ValueError("--resume goes on with the saved model: say --resume or --from, not both")
        paths = [path for path in (self.save, self.trace, self.plot) if path is not None]
        if len({path.absolute() for path in paths}) < len(paths):
            raise ValueError("--save, --trace and --plot must be different files")
        for path in paths:
            check_writable(path)
        if self.plot is not None:
            from perceptrank.evaluation.plots import check_drawable

            check_drawable(self.plot)

    def keep(self, learner: "Learner", traces: "list[Trace]") -> None:
        """Save the trace, then the model: if the power fails between, the trace is cut to the model when resuming."""
        if self.trace is not None and traces:
            traces[:] = [pr.Trace.concatenate(traces)]
            traces[0].save(self.trace)
        if self.save is not None:
            learner.save(self.save)


def learn(
    *,
    algorithm: Annotated[
        str | None,
        typer.Option(help="Learner, one of those that 'perceptrank algorithms' lists; bagging:slam wraps one."),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate, for learners that have one.")] = None,
    settings: LearnerSettings,
    record: Record = None,
    keeping: Keeping,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Learn from judged queries in one pass, and print how well each was ranked before it was learned from.

    Example: perceptrank learn train.txt.gz --measure ndcg@10 --scaling running --save model.json
    """
    from perceptrank.measures import parse_all

    keeping.check()
    measures = parse_all(record or DEFAULT_RECORD)
    learner, traces = _begin(algorithm, settings.given(learning_rate=learning_rate), measures, keeping)
    skipped = learner.n_queries if keeping.resume else 0
    start = time.perf_counter()
    first = learner.n_queries
    n_documents = 0
    with ProgressBar("learning") as bar:
        try:
            for block in reading.blocks(bar, first=skipped, every=keeping.checkpoint):
                traces.append(learner.learn(block, measures))
                n_documents += block.n_documents
                if keeping.checkpoint and (skipped + learner.n_queries - first) % keeping.checkpoint == 0:
                    keeping.keep(learner, traces)
        except KeyboardInterrupt:
            if keeping.save is not None and learner.n_queries > first:
                keeping.keep(learner, traces)
                print(f"stopped after {learner.n_queries:,} queries; --resume goes on from there", file=sys.stderr)
            raise
    n_queries = learner.n_queries - first
    if not n_queries:
        if skipped:
            raise ValueError(
                f"{keeping.save} has learned from {skipped:,} queries, and the files have no more than that"
            )
        raise ValueError("there are no queries to learn from")
    keeping.keep(learner, traces)
    whole = pr.Trace.concatenate(traces)
    if keeping.plot is not None:
        whole.plot(keeping.plot)
    seconds = time.perf_counter() - start
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


def _begin(
    algorithm: str | None, settings: dict[str, Any], measures: "list[Measure]", keeping: Keeping
) -> "tuple[Learner, list[Trace]]":
    """Make or load the learner to go on with, and load what is recorded of it already."""
    from perceptrank.stream.validation import AdvisingValueError, Name

    source = keeping.start_from
    if keeping.resume and keeping.save is not None and keeping.save.exists():
        source = keeping.save
    if source is None:
        return make_learner(algorithm or "listwise", settings), []
    learner = pr.load(source)
    if keeping.start_from is not None and (algorithm is not None or settings):
        raise ValueError("--from goes on with a model as it is: give no algorithm and no settings")
    if keeping.resume and algorithm not in (None, learner.name):
        raise ValueError(f"{source} is a {learner.name}, not a {algorithm}")
    fresh = make_learner(learner.name, settings)
    for name in settings:
        saved, wanted = setting_in(learner, name), setting_in(fresh, name)
        if saved != wanted:
            raise AdvisingValueError(f"{source} was learned with ", Name(name), f" {saved!r}, not {wanted!r}")
    if not keeping.resume or keeping.trace is None:
        return learner, []
    if not keeping.trace.exists():
        raise ValueError(f"there is no {keeping.trace} to go on with; without --trace nothing recorded is kept")
    trace = pr.Trace.load(keeping.trace)
    if len(trace) < learner.n_queries or trace.measures != measures:
        raise ValueError(f"{keeping.trace} is not what was recorded with {source}: other measures, or too few queries")
    return learner, [trace[: learner.n_queries]]
