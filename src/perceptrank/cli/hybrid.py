"""The command `hybrid`."""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.evaluate import exit_code, show_decision
from perceptrank.cli.options.files import Reads, Writes
from perceptrank.cli.options.reading import Reading
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.streams import complain, say
from perceptrank.cli.terminal.tables import ProgressBar, print_json, print_rows

Engine = StrEnum("Engine", "opensearch elasticsearch")
Normalization = StrEnum("Normalization", "min_max l2 z_score rrf")


@dataclass(frozen=True, kw_only=True)
class _ClauseReading(Reading):
    """Files to read: an empty cell is a document that a clause did not return; one that is not judged has grade 0."""

    def options(self) -> dict[str, Any]:
        from perceptrank.io.sources import format_of

        if self.zero_missing:
            raise ValueError(
                "--zero-missing does not apply: an empty cell is a document that the clause did not return"
            )
        if any(file == "-" or format_of(file) == "letor" for file in self.files):
            raise ValueError("LETOR text has 0 where a clause did not return a document: give a table with empty cells")
        return super().options() | {"missing": "keep", "unjudged": "zero"}


def hybrid(
    *,
    out: Annotated[Path, typer.Option(help="File to write the pipeline or the request to, as JSON."), Writes()],
    engine: Annotated[
        Engine | None, typer.Option(help="Search engine; by default that of --current, or opensearch.")
    ] = None,
    normalization: Annotated[
        Normalization | None, typer.Option(help="Default: that of --current, or min_max. Only OpenSearch has z_score.")
    ] = None,
    rank_constant: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Constant of rrf; by default 60.")
    ] = None,
    current: Annotated[
        Path | None,
        typer.Option(help="Pipeline or request in use, to start from and compare with; by default equal weights."),
        Reads(becomes="out"),
    ] = None,
    clauses: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the clauses, in the query's order; by default all features."),
    ] = None,
    measure: Annotated[str, typer.Option(help="Measure to learn and to decide by.")] = "ndcg@10",
    hold_out: Annotated[float, typer.Option(help="Share of the queries to hold out for evaluation.")] = 0.3,
    margin: Annotated[
        float, typer.Option(min=0, help="Largest acceptable drop of the mean; by default it must grow.")
    ] = 0.0,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw of held-out queries.")] = 0,
    reading: _ClauseReading,
    as_json: AsJson = False,
) -> None:
    """Learn the weights of a hybrid query from the scores of its clauses, and decide if they may replace today's.

    Each column of features is a clause, in the order of the query. An empty cell means that the clause did not return
    the document. Give all documents that the clauses returned: engines normalize over all of them.

    Exit status: 0 if the weights may go live, 3 if not, 4 if it is not decided; 1 and 2 for errors.

    Example: perceptrank hybrid judgements.csv --features clauses.jsonl --clauses text,vector --engine opensearch
    --normalization min_max --current pipeline.json --out new.json
    """
    scores = _scores(engine, normalization, rank_constant, current)
    with ProgressBar("reading") as bar:
        stream = _read(reading, clauses, current, bar)
    options: dict[str, Any] = {"measure": measure, "hold_out": hold_out, "margin": margin, "confidence": confidence}
    with ProgressBar("learning") as bar:
        result = pr.deploy.learn_hybrid(stream, scores, current=current, seed=seed, progress=bar, **options)
    result.export.save(out)
    first = None if result.parity.first is None else str(result.parity.first)
    if as_json:
        facts: dict[str, Any] = {"out": str(out), "engine": scores.engine, "normalization": scores.normalization}
        facts |= {"weights": result.weights, "current": result.current, "learned": result.learned}
        facts |= {"evaluation": result.evaluation.as_plain(), "notes": list(result.export.notes)}
        parity = asdict(result.parity) | {"first": first, "agrees": result.parity.agrees}
        del parity["notes"]
        print_json(facts | {"parity": parity})
    else:
        now = result.current
        rows = [{"clause": name, "current": now[name], "learned": new} for name, new in result.weights.items()]
        print_rows(rows, f"Weights learned from {result.learned:,} queries")
        show_decision(result.evaluation, "These queries were held out, not learned from.", by=None, n_worst=0)
        same = f"the same order in {result.parity.same:,} of {result.parity.queries:,} queries"
        say(f"{out}: {scores.engine}, {scores.normalization}; {same}, {result.parity.engine}")
        if result.parity.reversed:
            complain(f"warning: the engine ranks query {first} otherwise: {result.parity.reason}")
        elif not result.parity.agrees:
            complain(f"warning: the engine scores query {first} otherwise, in the same order")
        for note in result.export.notes:
            complain(f"note: {note}")
    if code := exit_code(result.evaluation.answer):
        raise typer.Exit(code)


def _read(reading: Reading, clauses: str | None, current: Path | None, bar: ProgressBar) -> "pr.QueryStream":
    """Return the queries, with a feature per clause, in the order of the query."""
    named = None if clauses is None else tuple(name.strip() for name in clauses.split(","))
    paths = reading.feature_paths or reading.files
    if named is None and current is not None and any(".json" in path or ".ndjson" in path for path in paths):
        raise ValueError(
            f"JSON has no order, and {current} has weights in the order of the query's clauses: name the columns in "
            "that order with --clauses, such as --clauses text,vector"
        )
    stream = pr.QueryStream.concatenate(list(replace(reading, whole=True).blocks(bar, names=named)))
    if named is not None and stream.feature_names != named:
        has = ", ".join(stream.feature_names or ()) or "no names"
        raise ValueError(f"--clauses must name columns of features, which are {has}; got {clauses}")
    return stream


def _scores(
    engine: Engine | None, normalization: Normalization | None, rank_constant: int | None, current: Path | None
) -> "pr.HybridScores":
    """Return what the engine does with scores: what is given, then what the current weights have, then defaults."""
    from perceptrank.deploy.engines.hybrid_request import read_request

    now = pr.HybridScores() if current is None else read_request(current).scores
    if engine is not None and current is not None and engine.value != now.engine:
        raise ValueError(f"{current} is for {now.engine}, and --engine says {engine.value}")
    which = str(normalization or now.normalization)
    if rank_constant is not None and which != "rrf":
        raise ValueError(f"--rank-constant is of rrf, and the normalization is {which}")
    return pr.HybridScores(str(engine or now.engine), which, rank_constant=rank_constant or now.rank_constant)
