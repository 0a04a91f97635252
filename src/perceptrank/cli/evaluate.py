"""The command `evaluate`."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker, split_models
from perceptrank.cli.options.files import Reads, Writes
from perceptrank.cli.options.reading import ClickReading, needed_names
from perceptrank.cli.options.shared import AsJson, Record
from perceptrank.cli.runs import share_held_out
from perceptrank.cli.terminal.streams import say
from perceptrank.cli.terminal.tables import ProgressBar, interval, is_wide, plain, print_json, print_rows, show

_KEPT = 10
_CONFIDENCE = 0.95


def evaluate(
    *,
    model: Annotated[
        str,
        typer.Argument(
            help="Saved model, or weights: JSON by name, or a linear model of Solr, Elasticsearch or OpenSearch. More "
            "models may follow, before the files."
        ),
        Reads(),
    ],
    record: Record = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Slice by a column of one value per query, by 'length' (documents) or feature:NAME."
        ),
    ] = None,
    worst: Annotated[int | None, typer.Option(min=1, help="Number of queries with the largest losses to list.")] = None,
    margin: Annotated[
        float, typer.Option(min=0, help="Largest acceptable drop of the mean; by default a model must be better.")
    ] = 0.0,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = _CONFIDENCE,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Use only queries that 'learn --hold-out' held out.")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="HTML page to write the results to."), Writes()] = None,
    latex: Annotated[Path | None, typer.Option(help="File for a LaTeX table (booktabs)."), Writes()] = None,
    reading: ClickReading,
    as_json: AsJson = False,
) -> None:
    """Measure a model on judged queries, or compare several and decide if one may replace the first.

    Give queries that no model has learned from: a part made by 'perceptrank split', or --held-out.

    A log of clicks without grades decides too, if its lists were randomised: --record preferences or clicks@3.

    Exit status with several models: 0 if one may go live, 3 if none may, 4 if it is not decided; 1 and 2 for errors.

    Example: perceptrank evaluate current.json new.json day3.parquet --by category --worst 10
    """
    start = time.perf_counter()
    models, files = split_models(model, reading.files)
    reading = replace(reading, files=files)
    rankers = {path: load_ranker(path) for path in models}
    holding = HeldOut({path: share_held_out(path) for path in models}, only=held_out)
    if len(rankers) == 1:
        options = {"--by": by, "--worst": worst, "--margin": margin, "--page": page, "--latex": latex}
        options |= {"--confidence": confidence != _CONFIDENCE}
        if several := ", ".join(name for name, value in options.items() if value):
            raise ValueError(f"{several}: needs several models, of which the first is live; got only {model}")
        _evaluate_one(model, rankers[model], record, reading, holding, start, as_json=as_json)
        return
    labels, reading = _labels(by, rankers, reading)
    kept = worst or (_KEPT if page is not None else 0)
    names = None if by else needed_names(*rankers.values())
    with ProgressBar("evaluating") as bar:
        blocks = holding.watch(reading.blocks(bar, names=names, only=holding.only))
        result = pr.evaluate(rankers, blocks, record, by=labels, margin=margin, confidence=confidence, worst=kept)
    if page is not None:
        result.save_page(page, by=by or "")
    if latex is not None:
        result.save_latex(latex)
    if as_json:
        seconds = round(time.perf_counter() - start, 3)
        print_json(result.as_plain() | {"by": by, "held_out_by": holding.sure(), "seconds": seconds})
    else:
        show_decision(result, holding.note(), by=by, n_worst=worst or 0)
    if code := exit_code(result.answer):
        raise typer.Exit(code)


def _labels(by: str | None, rankers: "dict[str, pr.Learner]", reading: ClickReading) -> tuple[Any, ClickReading]:
    """Return what to slice by; a column of Parquet files that is not a feature of the models is not read as one."""
    from perceptrank.io.parquet_columns import default_columns
    from perceptrank.io.query_labels import read_labels
    from perceptrank.io.sources import format_of

    if by is None or by == "length" or by.startswith("feature:"):
        return by, reading
    column = by.removeprefix("column:")
    kinds = {"table" if reading.feature_paths else format_of(file) for file in reading.files if file != "-"}
    if not kinds or not kinds <= {"table", "parquet"}:
        raise ValueError(f"--by {by}: only tables and Parquet files have columns; use --by length or --by feature:NAME")
    names = reading.column_names()
    labels = read_labels(list(reading.files), column, reading.feature_paths or None, qid=names.get("qid"))
    known = {name for ranker in rankers.values() for name in getattr(ranker, "feature_names_in_", ())}
    for ranker in rankers.values():  # those that have learned nothing yet, such as weights
        known |= {*(ranker.model.beginning.features or ()), ranker.model.beginning.production}
    if kinds == {"parquet"} and "features" not in names and column not in known:
        features, _ = default_columns(str(reading.files[0]), **names)
        chosen = [f"feature={name}" for name in features if name != column]
        reading = replace(reading, column=[*(reading.column or []), *chosen])
    return labels, reading


def _evaluate_one(
    model: str,
    ranker: "pr.Learner",
    record: list[str] | None,
    reading: ClickReading,
    holding: "HeldOut",
    start: float,
    *,
    as_json: bool,
) -> None:
    with ProgressBar("evaluating") as bar:
        blocks = reading.blocks(bar, names=needed_names(ranker), only=holding.only)
        trace = pr.evaluate(ranker, holding.watch(blocks), record)
    rows: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for measure in trace.measures:
        mean = plain(trace.mean(measure))
        low = high = None
        if mean is not None:
            (standing,) = pr.Comparison({"model": trace}).standings(measure)
            low, high = plain(standing.low), plain(standing.high)
        values = trace.values(measure)
        counts = (values < 0) | (values >= 0)  # not those that are NaN
        counted = int((counts if trace.query_weights is None else counts & (trace.query_weights > 0)).sum())
        rows.append({"measure": str(measure), "mean": mean, "low": low, "high": high, "counted": counted})
        counts_shown = {"95% interval": interval(low, high), "queries that count": counted}
        shown.append({"measure": str(measure), "mean": mean, **counts_shown})
    seconds = round(time.perf_counter() - start, 3)
    extra = {"model": model, "queries": len(trace), "held_out_by": holding.sure(), "seconds": seconds}
    kind = "held-out" if holding.sure() else "judged" if "relevance" in holding.columns else "logged"
    show(rows, title=f"{model} on {len(trace):,} {kind} queries", as_json=as_json, extra=extra, shown=shown)


class HeldOut:
    """Queries that models are known not to have learned from, by the shares that they held out."""

    def __init__(self, shares: dict[str, float], *, only: bool) -> None:
        self._shares = shares
        self._highest = 0.0  # place of a query that was seen; those below a model's share were held out
        self._least = min((share for share in shares.values() if share), default=0.0)
        self.columns: Any = ()
        if only and not self._least:
            raise ValueError(
                f"--held-out: {', '.join(shares)} did not hold out queries; learn from scratch with --hold-out 0.2"
            )
        self.only = self._is_held_out if only else None

    def _is_held_out(self, block: "pr.QueryStream") -> Any:
        from perceptrank.stream.splitting import held_out

        return held_out(block, self._least)

    def watch(self, blocks: "Iterator[pr.QueryStream]") -> "Iterator[pr.QueryStream]":
        """Yield the blocks that have queries, and look at what these are."""
        from perceptrank.stream.splitting import draw_places, group_names

        for block in blocks:
            if len(block):
                self.columns = block.columns
                if self._least:
                    self._highest = max(self._highest, float(draw_places(group_names(block)).max()))
                yield block

    def sure(self) -> list[str]:
        """Return the models that held out all queries that were seen."""
        return [model for model, share in self._shares.items() if share > self._highest]

    def note(self) -> str:
        """Say for which models it is known that the queries are new."""
        from perceptrank.evaluation.decision import NOT_CHECKED

        others = ", ".join(model for model in self._shares if model not in self.sure())
        if not (known := ", ".join(self.sure())):
            return f"These queries may not be new: {NOT_CHECKED}."
        unknown = f"; it is not checked whether {others} has learned from them" if others else ""
        return f"These queries were held out by {known}{unknown}."


_MOST_SLICES = 20


def exit_code(answer: str) -> int:
    """Return the exit status of an answer, which is not that of any error."""
    return {"yes": 0, "no": 3}.get(answer, 4)


def show_decision(result: "pr.Evaluation", note: str, *, by: str | None, n_worst: int) -> None:
    """Print means, differences, slices, the queries that lost most, and last, where it is seen, verdict and note."""
    from perceptrank.evaluation.off_policy import describe_policies

    percent = f"{result.confidence * 100:g}% interval"
    means = [
        {"model": name} | {str(measure): plain(result.mean(name, measure)) for measure in result.measures}
        for name in result.traces
    ]
    print_rows(means, f"{len(result.traces)} models on {len(result):,} {result.unit}")
    if result.policies:
        say(describe_policies(result.policies).capitalize())
    rows = []
    for each in result.differences:
        counts = {"better": each.n_better, "worse": each.n_worse}
        counts |= {"queries that count": each.n_queries} if is_wide() else {}
        rows.append({"model": each.model, "measure": each.measure, **_columns(each, percent), **counts})
    print_rows(rows, f"Differences to {result.incumbent}; their intervals hold all at once")
    if result.slices:
        _show_slices(result, by or "", percent)
    for name in result.challengers if n_worst else ():
        _show_worst(result, name, n_worst)
    say(result.verdict)
    say(note)


def _columns(difference: "pr.Difference", percent: str) -> dict[str, Any]:
    bounds = "few queries" if difference.is_small else f"{difference.low:+.4f} to {difference.high:+.4f}"
    mean = difference.difference
    return {"difference": "-" if math.isnan(mean) else f"{mean:+.4f}", percent: bounds}


def _show_slices(result: "pr.Evaluation", by: str, percent: str) -> None:
    rows = [
        {"slice": part.label, result.unit: part.n_queries, "model": difference.model, **_columns(difference, percent)}
        for part in result.slices[:_MOST_SLICES]
        for difference in part.differences
    ]
    print_rows(rows, f"{result.measures[0]} by {by}; the intervals of all slices hold at once")
    if (left := len(result.slices) - _MOST_SLICES) > 0:
        say(f"{left:,} smaller slices are not shown; --json and --page have more")


def _show_worst(result: "pr.Evaluation", name: str, n: int) -> None:
    from perceptrank.evaluation.decision_page import document_name

    measure = str(result.measures[0])
    changes = result.worst(n, model=name)
    if not changes:
        say(f"{name}: no query lost in {measure}")
    for change in changes:
        rows = [
            {
                "document": document_name(document.docid, document.row),
                "grade" if result.unit == "queries" else "click": f"{document.grade:g}",
                "old place": document.old_place,
                "new place": document.new_place,
            }
            for document in change.documents
        ]
        values = f"{change.old:.4f} to {change.new:.4f} ({change.difference:+.4f})"
        print_rows(rows, f"{name}, query {change.qid}: {measure} {values}")
