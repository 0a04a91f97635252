"""The command `learn`."""

import time
import warnings
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import perceptrank as pr
from perceptrank.cli.incumbent import Incumbent, library_of_trees, look_ahead, read_incumbent, say_if_below
from perceptrank.cli.making import kinds_of, make_learner, setting_in
from perceptrank.cli.options.cluster import Sharing, check_files
from perceptrank.cli.options.files import Reads, Writes
from perceptrank.cli.options.reading import ClickReading, Reading
from perceptrank.cli.options.shared import DEFAULT_RECORD, AsJson, LearnerSettings, MeansPlot, Record
from perceptrank.cli.runs import Run, fingerprint_of_source
from perceptrank.cli.terminal.pace import Pace
from perceptrank.cli.terminal.streams import complain, say
from perceptrank.cli.terminal.tables import ProgressBar, plain, show

_SHOWN = 10  # names of features
_WINDOWS = 100  # of a plot with alerts


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Files that the model is saved to, and continued from."""

    panel: ClassVar[str] = "Files"
    save: Annotated[Path | None, typer.Option(help="File to save the model to (JSON)."), Writes()] = None
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|column:NAME",
            help="Ranker to start from: weights as JSON, a linear model of Solr, Elasticsearch or OpenSearch, trees of "
            "LightGBM, XGBoost or RankLib, a column of scores; or a model to continue.",
        ),
        Reads(becomes="save"),
    ] = None
    checkpoint: Annotated[int | None, typer.Option(min=1, help="Save after every N queries.")] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue with the saved model, after the queries that it has seen.")
    ] = False
    trace: Annotated[Path | None, typer.Option(help="File to save the recorded values to (.npz)."), Writes()] = None
    plot: MeansPlot = None
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Report where rankings became worse (1 % false alarms); --plot marks it.")
    ] = False

    def check(self) -> None:
        """Raise now, not after all is learned, if something cannot be kept."""
        if self.save is None and (self.checkpoint is not None or self.resume):
            raise ValueError("--checkpoint and --resume need --save FILE")
        both = [Path(path) for path in (self.save, self.start_from) if path is not None and Path(path).exists()]
        if self.resume and len(both) == 2 and both[0].samefile(both[1]):
            raise ValueError(
                f"{self.save} is both --from and --save: use --from to begin a run, or --resume to continue one"
            )

    def draw(self, trace: "pr.Trace", changes: "list[pr.Change]") -> None:
        """Plot the trace, if that is wanted: with alerts, over windows of queries, where they can be seen."""
        if self.plot is not None:
            trace.plot(self.plot, window=max(1, len(trace) // _WINDOWS) if self.alerts else None, changes=changes)

    def report(self, rows: list[Any], title: str, facts: dict[str, Any], start: float, *, as_json: bool) -> None:
        """Print what was learned, in how many seconds, and whether it is saved."""
        seconds, saved = time.perf_counter() - start, None if self.save is None else str(self.save)
        extra = facts | {"seconds": round(seconds, 3), "saved": saved}
        show(rows, title=title, as_json=as_json, extra=extra)
        if facts["queries"] and not as_json:
            counts = ", ".join(f"{facts[name]:,} {name}" for name in ("queries", "documents") if name in facts)
            say(f"{counts} in {seconds:.1f} s; {f'saved to {saved}' if saved else 'not saved (--save FILE)'}")

    def keep(self, learner: "pr.Learner", run: Run, traces: "list[pr.Trace]") -> None:
        """Save the trace, then the model: if the power fails between, the trace is cut to the model when resuming."""
        from perceptrank.io.model_file import write_model

        if self.trace is not None and traces:
            traces[:] = [pr.Trace.concatenate(traces)]
            traces[0].save(self.trace)
        if self.save is not None:
            write_model(self.save, learner.as_document() | {"run": run.as_plain(learner.n_queries)})


def learn(
    *,
    algorithm: Annotated[
        str | None,
        typer.Option(
            help="Learner, as listed by 'perceptrank algorithms'; bagging:slam wraps slam.", rich_help_panel="Model"
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate, for learners that have one.", rich_help_panel="Model")
    ] = None,
    settings: LearnerSettings,
    record: Record = None,
    keeping: Keeping,
    hold_out: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.9,
            help="Share of the queries to hold out, the same by name in every file and run; the model is measured on "
            "them at the end.",
            rich_help_panel="Data",
        ),
    ] = None,
    reading: ClickReading,
    sharing: Sharing,
    as_json: AsJson = False,
) -> None:
    """Learn from judged queries or clicks in one pass; print how well each query was ranked before learning from it.

    With --dask, --spark or --scheduler, learn from the files in parallel, in several passes.

    Example: perceptrank learn train.txt.gz --measure ndcg@10 --save model.json

    Example: perceptrank learn clicks.parquet --algorithm clicks --save model.json

    Example: perceptrank learn 'day*.parquet' --spark --scheduler spark://host:7077 --save model.json
    """
    from perceptrank.learners.learning import advance, check_log, kinds_of_lists, learn_stream, takes_clicks
    from perceptrank.measures import parse_all
    from perceptrank.stream.splitting import held_out

    keeping.check()
    sharing.check()
    if sharing.is_used and (keeping.checkpoint is not None or keeping.resume):
        raise ValueError("--checkpoint and --resume count queries: on a cluster, --keep-epochs FOLDER keeps each epoch")
    if sharing.is_used and keeping.alerts:
        raise ValueError("--alerts follows the order of one pass over the queries, which a cluster does not have")
    if sharing.is_used and hold_out:
        raise ValueError("--hold-out does not apply to shards: `perceptrank split` writes files to learn from")
    if hold_out:
        reading.check_rereadable("--hold-out")
    measures = parse_all(record or DEFAULT_RECORD)
    only = (lambda block: ~held_out(block, hold_out)) if hold_out else None
    bar = ProgressBar("learning")
    pace = Pace(bar)
    ahead, all_blocks = None, None
    if not sharing.is_used and library_of_trees(keeping.start_from):
        ahead, all_blocks = look_ahead(reading.blocks(pace, every=keeping.checkpoint, only=only))
    incumbent = None
    if keeping.start_from is not None:
        incumbent = read_incumbent(keeping.start_from, may_learn=algorithm is None, ahead=ahead)
    chosen = "listwise" if sharing.is_used and incumbent is not None and algorithm is None else algorithm
    given = settings.given(learning_rate=learning_rate)
    learner, run, traces = _begin(chosen, given, measures, keeping, incumbent, ahead)
    run.hold_out(hold_out or 0.0, keeping.save)
    if reading.zero_missing:  # in the model file, so that the service does the same
        learner.adopt(learner.model.with_zero_missing())
    if sharing.is_used:
        of_shards = None if record is None and takes_clicks(learner) else measures
        _learn_from_shards(learner, of_shards, reading, sharing, keeping, as_json=as_json)
        return
    weights = None if learner.n_queries or incumbent is None else incumbent.weights
    starts: list[pr.Trace] = []
    start = time.perf_counter()
    first = learner.n_queries
    n_documents = 0
    kinds: set[str] = set()
    with bar:
        try:
            names = learner.model.needed_names
            blocks = all_blocks or reading.blocks(pace, every=keeping.checkpoint, names=names, only=only)
            for block in run.rest(pace.pieces(blocks, after=run.position), keeping.save):
                if not takes_clicks(learner):
                    traces.append(learner.learn(block, measures))
                else:
                    is_recorded = record is not None or "relevance" in block.columns
                    if not is_recorded and (keeping.plot is not None or keeping.alerts or hold_out):
                        options = "--plot, --alerts and --hold-out"
                        raise ValueError(f"{options} need grades to measure rankings with: there are none")
                    kinds |= kinds_of_lists(learner, block)
                    traces.append(advance(learner, learn_stream, block, measures if is_recorded else None))
                if incumbent is not None and incumbent.ranker is not learner and traces[-1].measures:
                    starts.append(incumbent.trace(block, measures))
                if weights is not None and block.feature_names:
                    _say_what_is_without_weight(block.feature_names, weights, keeping.start_from)
                    weights = None
                n_documents += block.n_documents
                if keeping.checkpoint and (learner.n_queries - run.first) % keeping.checkpoint == 0:
                    keeping.keep(learner, run, traces)
        except KeyboardInterrupt:
            if learner.n_queries == first:
                complain("stopped before a query was learned from: nothing is saved")
            elif keeping.save is None:
                complain(f"stopped after {learner.n_queries - first:,} queries; not saved (--save FILE)")
            else:
                keeping.keep(learner, run, traces)
                done = f"{learner.n_queries - run.first:,} queries of these files"
                complain(f"stopped after {done}; the same command with --resume goes on from there")
            raise
    n_queries = learner.n_queries - first
    if n_queries:
        check_log(learner, kinds)  # now, as lists that are not randomised may come before others that are
        keeping.keep(learner, run, traces)
    elif run.position:
        complain(f"{keeping.save} has learned from all {run.position:,} queries of these files: nothing is left to do")
    else:
        raise ValueError("there are no queries to learn from")
    row: dict[str, Any] = {"algorithm": learner.name, "queries": 0, "updates": 0}
    changes: list[pr.Change] = []
    if traces:
        whole = pr.Trace.concatenate(traces)
        changes = whole.changes() if keeping.alerts else []
        keeping.draw(whole, changes)
        row = {"algorithm": learner.name, **_means(whole), "queries": len(whole), "updates": whole.n_updates}
    rows = [row]
    if starts:
        before = pr.Trace.concatenate(starts)
        rows.append({"algorithm": "its start", **_means(before), "queries": len(before), "updates": 0})
    facts: dict[str, Any] = {"model": repr(learner), "queries": n_queries, "documents": n_documents}
    if keeping.alerts:
        facts["changes"] = [asdict(change) for change in changes]
    kept_apart = _measure_held_out(learner, measures, reading, run) if hold_out else None
    if kept_apart is not None:
        facts["held_out"] = {"queries": len(kept_apart), **_means(kept_apart)}
    if traces or as_json:
        title = "Learned from clicks" if traces and not whole.measures else "Ranked, measured, then learned from"
        keeping.report(rows, title, facts, start, as_json=as_json)
    if kept_apart is not None and not as_json:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in _means(kept_apart).items() if mean is not None)
        say(f"{len(kept_apart):,} held-out queries: {means}")
    if starts and not as_json:
        say_if_below(whole, before, measures[0])
    if takes_clicks(learner) and getattr(learner, "production", "") is None and not as_json:
        say("started from nothing; --set production=FEATURE starts from the ranker whose score that feature has")
    if traces and keeping.alerts and not as_json:
        alarms = [str(change) for change in changes] or ["no alarm, rankings have not become worse"]
        for alarm in alarms:
            say(f"{whole.measures[0]}: {alarm}")


def _measure_held_out(learner: "pr.Learner", measures: Any, reading: ClickReading, run: Run) -> "pr.Trace":
    """Read the files once more, and measure the model on the queries that it has not learned from."""
    from perceptrank.stream.splitting import held_out

    again = replace(reading, quiet=True)
    with ProgressBar("measuring held-out queries") as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when they were read first
        blocks = again.blocks(bar, names=learner.model.needed_names, only=lambda block: held_out(block, run.held_out))
        filled = (block for block in blocks if len(block))
        first = next(filled, None)
        if first is None:
            raise ValueError("--hold-out leaves no query to measure on: give a larger share, or more queries")
        return pr.evaluate(learner, chain([first], filled), measures)


def _learn_from_shards(
    learner: "pr.Learner",
    measures: "list[pr.Measure] | None",
    reading: Reading,
    sharing: Sharing,
    keeping: Keeping,
    *,
    as_json: bool,
) -> None:
    from perceptrank.distributed.learning import Progress
    from perceptrank.distributed.learning import learn as learn_shards
    from perceptrank.distributed.sampling import check_learnable, unfitted_trees

    check_files(reading)
    check_learnable(learner)
    has_trees = bool(unfitted_trees(learner.model))
    if has_trees:
        complain("before the first epoch, all files are read once for a sample of queries that trees are fitted to")
    first, start = learner.n_queries, time.perf_counter()
    options = reading.options() | ({"names": learner.model.needed_names} if learner.model.needed_names else {})
    epochs = sharing.epochs or 5
    with sharing.client() as client, ProgressBar("learning") as bar:

        def tell(progress: Progress) -> None:
            bar(progress.epoch * progress.shards + progress.done, progress.epochs * progress.shards)
            if progress.done == progress.shards:
                means = ", ".join(f"{name} {mean:.4f}" for name, mean in progress.means.items())
                last = f"; the last one had {means}" if means else ""
                complain(f"epoch {progress.epoch + 1} of {epochs}: {progress.shards} shards{last}")

        how: dict[str, Any] = {"epochs": epochs, "measures": measures, "shards": sharing.shards, "progress": tell}
        learned = learn_shards(learner, reading.files, client, checkpoint=sharing.keep_epochs, **how, **options)
    for transform in learner.transforms_ if has_trees else []:
        if isinstance(transform, pr.Trees) and transform.forest is not None:
            complain(f"trees were fitted to {transform.queries:,} queries, which the epochs left out")
    whole = pr.Trace.concatenate(trace for epoch in learned.traces for trace in epoch)
    if keeping.trace is not None:
        whole.save(keeping.trace)
    if keeping.save is not None:
        learner.save(keeping.save)
    rows = []
    for epoch, of_shards in enumerate(learned.traces):
        trace = learned.trace(epoch)
        counts = {"shards": len(of_shards), "queries": len(trace), "updates": trace.n_updates}
        rows.append({"epoch": epoch + 1, **_means(trace), **counts})
    facts = {"model": repr(learner), "queries": learner.n_queries - first, "epochs": epochs}
    title = "Ranked, measured, then learned from, shard by shard"
    keeping.report(rows, title, facts, start, as_json=as_json)
    keeping.draw(whole, [])


def _means(trace: "pr.Trace") -> dict[str, Any]:
    return {str(measure): plain(trace.mean(measure)) for measure in trace.measures}


def _say_what_is_without_weight(names: tuple[str, ...], weights: dict[str, float], path: str | None) -> None:
    without = [name for name in names if name not in weights]
    if without:
        shown = ", ".join(without[:_SHOWN]) + (", …" if len(without) > _SHOWN else "")
        of = f"{len(without)} of {len(names)} features"
        complain(f"{path} has no weight for {of}, which its score leaves out: {shown}")


def _begin(
    algorithm: str | None,
    settings: dict[str, Any],
    measures: "list[pr.Measure]",
    keeping: Keeping,
    incumbent: Incumbent | None,
    ahead: "pr.QueryStream | None",
) -> "tuple[pr.Learner, Run, list[pr.Trace]]":
    """Make or load the learner to go on with, find where its run stands, and load what is recorded of that."""
    is_continued = keeping.start_from is not None and incumbent is None
    if is_continued and settings:
        raise ValueError(
            "--from continues with the settings of the model: give no settings, or --algorithm as well, for a new "
            "learner that starts from its score"
        )

    def make(name: str | None) -> "pr.Learner":
        if incumbent is None:
            return make_learner(name or "listwise", settings)
        return incumbent.start(name, settings, ahead)

    resumed = keeping.save if keeping.resume and keeping.save is not None and keeping.save.exists() else None
    origin = "" if keeping.start_from is None else fingerprint_of_source(keeping.start_from)
    if resumed is None:
        learner = pr.load(str(keeping.start_from)) if is_continued else make(algorithm)
        if keeping.resume:
            complain(f"there is no {keeping.save} yet: beginning with the first query")
        return learner, Run(learner.n_queries, origin=origin), []
    learner = pr.load(resumed)
    if algorithm is not None and learner.name != ":".join(str(kind.algorithm) for kind in kinds_of(algorithm)):
        raise ValueError(f"{resumed} is a {learner.name}, not a {algorithm}")
    usual = make(algorithm if incumbent is not None else learner.name)
    for name in settings:
        saved, wanted = setting_in(learner, name), setting_in(usual, name)
        if saved != wanted:
            raise ValueError(f"{resumed} was learned with `{name}` {saved!r}, not {wanted!r}")
    run = Run.of(resumed, learner.n_queries)
    if keeping.start_from is not None and run.origin != origin:
        raise ValueError(
            f"{resumed} is not from a run that began with {keeping.start_from}: leave out --resume to begin one, or "
            "--from to continue the other run"
        )
    if keeping.trace is None:
        return learner, run, []
    if not keeping.trace.exists():
        raise ValueError(f"there is no {keeping.trace} to continue; leave out --trace to discard the recorded values")
    trace = pr.Trace.load(keeping.trace)
    if len(trace) < run.position or trace.measures not in ([], measures):
        raise ValueError(f"{keeping.trace} is not what was recorded with {resumed}: other measures, or too few queries")
    return learner, run, [trace[: run.position]]
