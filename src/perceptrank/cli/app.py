"""The command line."""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from perceptrank import __version__

app = typer.Typer(no_args_is_help=True, help="Online learning to rank from a stream of judged queries.")

_debug = False


class To(StrEnum):
    """Formats that can be written."""

    letor = "letor"
    store = "store"
    parquet = "parquet"


class Qid(StrEnum):
    """Where LETOR text names queries."""

    auto = "auto"
    field = "field"
    comment = "comment"


class Layout(StrEnum):
    """How features are laid out in Parquet files."""

    columns = "columns"
    list = "list"


class Simulation(StrEnum):
    """Streams that can be simulated."""

    separable = "separable"
    mslr = "mslr"


class Scaled(StrEnum):
    """How features of real sets are scaled."""

    auto = "auto"
    none = "none"
    query_zscore = "query-zscore"
    query_minmax = "query-minmax"
    running = "running"


class Order(StrEnum):
    """In which order the queries of real sets are shown."""

    shuffled = "shuffled"
    given = "given"


class Version(StrEnum):
    """How many rounds the adversary plays."""

    sharp = "sharp"
    paper = "paper"


Files = Annotated[
    list[str],
    typer.Argument(
        help="LETOR text (plain or compressed, '-' for standard input), a store, or Parquet; folders and patterns too."
    ),
]
NFeatures = Annotated[int | None, typer.Option(min=1, help="How many features LETOR text has.")]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="Feature ids of LETOR text count from 0.")]
QidOption = Annotated[Qid, typer.Option(help="Where LETOR text names queries.")]
Clip = Annotated[float | None, typer.Option(help="Bound values of LETOR text to plus or minus this.")]
Float64 = Annotated[bool, typer.Option("--float64", help="Keep features of LETOR text as float64.")]
SkipErrors = Annotated[
    bool, typer.Option("--skip-errors", help="Skip wrong lines of LETOR text and say how many there were.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(metavar="ROLE=NAME", help="Column of Parquet files: qid=, relevance= or feature=; may be repeated."),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use; by default all processors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Algorithm = Annotated[
    str | None, typer.Option(help="Learner, one of those that 'perceptrank algorithms' lists; bagging:slam wraps one.")
]
Measure = Annotated[str | None, typer.Option(help="Measure that the learner learns for, such as ndcg@10 or ap.")]
Scaling = Annotated[
    list[str] | None, typer.Option(help="Scaling of features: running, query-zscore, query-minmax; may be repeated.")
]
Average = Annotated[bool | None, typer.Option("--average/--no-average", help="Rank with the mean of all weights.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated.")
]
Record = Annotated[list[str] | None, typer.Option(help="Measure to record; may be repeated.")]


_FLAGS = {
    "overwrite=True": "--overwrite",
    "zero_based=True": "--zero-based",
    "qid='comment'": "--qid comment",
    "qid='field'": "--qid field",
    "dtype='float64'": "--float64",
    "clip=…": "--clip",
    "clip": "--clip",
    "learning_rate": "--learning-rate",
    "label_noise": "--label-noise",
    "scaling='running'": "--scaling running",
    "n_features": "--n-features",
    "n_threads": "--threads",
    "on_error": "--skip-errors",
    "zero_based": "--zero-based",
    "dtype": "--float64",
    "qid=, relevance= and features= name the columns": "--column names the columns",
    "features=…": "--column feature=…",
    "read_letor groups them": "convert --group groups them",
    "read_parquet groups them": "convert --group groups them",
}


@contextmanager
def _reported() -> Iterator[None]:
    """Errors that a user can do something about, as one message without a traceback; warnings likewise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show_warning
            yield
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if _debug:
            raise
        print(f"error: {_in_flags(str(error))}", file=sys.stderr)
        raise typer.Exit(1) from None


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _in_flags(message: str) -> str:
    """A message of the library in terms of the command line; what may be part of a file's name stays."""
    for name, flag in _FLAGS.items():
        message = re.sub(rf"(?<![\w./\\-]){re.escape(name)}(?![\w./\\-])", flag, message)
    return message


def _letor(
    n_features: int | None,
    zero_based: bool,
    qid: Qid,
    clip: float | None,
    float64: bool,
    skip_errors: bool,
    threads: int | None,
) -> dict[str, Any]:
    """Options of `read_letor`, those left out that are not given."""
    return {
        "n_features": n_features,
        "zero_based": zero_based,
        "qid": None if qid is Qid.auto else qid.value,
        "clip": clip,
        "dtype": "float64" if float64 else None,
        "on_error": "skip" if skip_errors else None,
        "n_threads": threads,
    }


def _settings(
    measure: str | None, rate: float | None, scaling: list[str] | None, average: bool | None, pairs: list[str] | None
) -> dict[str, Any]:
    """Settings of a learner that are given."""
    from perceptrank.cli.making import parse_settings

    scalings = None if not scaling else scaling[0] if len(scaling) == 1 else scaling
    flags = {"measure": measure, "learning_rate": rate, "scaling": scalings, "average": average}
    given = {name: value for name, value in flags.items() if value is not None}
    others = parse_settings(pairs or [])
    if twice := sorted(set(given) & set(others)):
        raise ValueError(f"{', '.join(twice)} is given twice, by an option of its own and by --set")
    return given | others


def _version(asked: bool) -> None:
    if asked:
        print(f"perceptrank {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Online learning to rank from a stream of judged queries."""
    global _debug  # noqa: PLW0603
    _debug = debug


@app.command()
def reproduce(
    data: Annotated[Path | None, typer.Option(help="Folder with data sets, each of which is run too.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("report"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and queries: a look in some seconds.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds: 10 unless given, 3 if quick.")] = None,
    scaling: Annotated[
        Scaled, typer.Option(help="Scaling of real sets; auto: query-zscore unless all features are in [-1, 1].")
    ] = Scaled.auto,
    order: Annotated[Order, typer.Option(help="Order of the queries of real sets.")] = Order.shuffled,
    passes: Annotated[int, typer.Option(min=1, help="How many times real sets are shown.")] = 1,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Run the paper's experiments, and ours beside them: report.html, results.json, figures and curves.

    On a simulated stream, and on every data set below the folder that --data names.

    Example: perceptrank reproduce --data ~/letor --out report
    """
    from perceptrank.cli.reproduce import run
    from perceptrank.paper.settings import Settings

    with _reported():
        settings = Settings(data, quick, seed, seeds, scaling.value, order.value, passes)
        run(settings, out, n_threads=threads, as_json=json)


@app.command()
def demo(
    queries: Annotated[int, typer.Option(min=1, help="How many queries to simulate.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    json: AsJson = False,
) -> None:
    """Learn a simulated separable stream with the paper's learners and ours, and print how each one ranked it.

    Example: perceptrank demo --queries 2000 --seed 7
    """
    from perceptrank.cli.demo import run

    with _reported():
        run(queries, seed, as_json=json)


@app.command()
def convert(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE... DESTINATION",
            help="LETOR text (plain or compressed, '-' for standard input), stores or Parquet files, folders or "
            "patterns of them; and what to write.",
        ),
    ],
    to: Annotated[
        To | None,
        typer.Option(
            help="Format to write. By default the name says it: .parquet; .txt, .letor, .svm, …; else a store."
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to a store that is there.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    group: Annotated[
        bool, typer.Option("--group", help="Bring documents of a query together that are not adjacent, in memory.")
    ] = False,
    comments: Annotated[bool, typer.Option("--comments", help="Keep comments.")] = False,
    sparse: Annotated[bool, typer.Option("--sparse", help="Leave out zeros when writing LETOR text.")] = False,
    layout: Annotated[Layout, typer.Option(help="Parquet: a column per feature, or one of lists.")] = Layout.columns,
    write_zero_based: Annotated[
        bool, typer.Option("--write-zero-based", help="Count feature ids from 0 when writing LETOR text.")
    ] = False,
    n_features: NFeatures = None,
    zero_based: ZeroBased = False,
    qid: QidOption = Qid.auto,
    clip: Clip = None,
    float64: Float64 = False,
    skip_errors: SkipErrors = False,
    column: Column = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Convert between LETOR text, stores and Parquet, in memory that does not depend on the size.

    Example: perceptrank convert MSLR-WEB10K/Fold1/train.txt train.store
    """
    from perceptrank.cli.convert import Writing, run
    from perceptrank.cli.reading import Reading

    if len(paths) < 2:
        raise typer.BadParameter("name at least one source and the destination", param_hint="SOURCE... DESTINATION")
    *sources, destination = paths
    with _reported():
        reading = Reading(
            sources,
            _letor(n_features, zero_based, qid, clip, float64, skip_errors, threads),
            column,
            comments,
            whole=group,
        )
        writing = Writing(
            destination, None if to is None else to.value, append, overwrite, sparse, write_zero_based, layout.value
        )
        run(reading, writing, as_json=json)


@app.command()
def datasets(
    data: Annotated[
        Path, typer.Option(envvar="PERCEPTRANK_DATA", help="The folder that data sets are kept in.", show_default=True)
    ] = Path("data"),
    json: AsJson = False,
) -> None:
    """List the public data sets, which of them are there, and where to obtain the others.

    Example: perceptrank datasets --data ~/data
    """
    from perceptrank.cli.datasets import run

    with _reported():
        run(data, as_json=json)


@app.command()
def learn(
    files: Files,
    algorithm: Algorithm = None,
    measure: Measure = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate, for learners that have one.")] = None,
    scaling: Scaling = None,
    average: Average = None,
    setting: Setting = None,
    record: Record = None,
    save: Annotated[Path | None, typer.Option(help="File to save the model in, JSON.")] = None,
    start_from: Annotated[Path | None, typer.Option("--from", help="Model to go on with.")] = None,
    checkpoint: Annotated[int | None, typer.Option(min=1, help="Save every so many queries.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the saved model after the queries it has seen.")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="File to save what was recorded in, .npz.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Image file to draw the running means into.")] = None,
    n_features: NFeatures = None,
    zero_based: ZeroBased = False,
    qid: QidOption = Qid.auto,
    clip: Clip = None,
    float64: Float64 = False,
    skip_errors: SkipErrors = False,
    column: Column = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Learn from judged queries in one pass, and print how well each was ranked before it was learned from.

    Example: perceptrank learn train.txt.gz --measure ndcg@10 --scaling running --save model.json
    """
    from perceptrank.cli.learn import Keeping, run
    from perceptrank.cli.reading import Reading

    with _reported():
        run(
            Reading(files, _letor(n_features, zero_based, qid, clip, float64, skip_errors, threads), column),
            algorithm,
            _settings(measure, learning_rate, scaling, average, setting),
            record or ["ndcg@10", "ap"],
            Keeping(save, trace, plot, checkpoint, resume, start_from),
            as_json=json,
        )


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="Model that 'perceptrank learn' has saved.")],
    files: Files,
    record: Record = None,
    n_features: NFeatures = None,
    zero_based: ZeroBased = False,
    qid: QidOption = Qid.auto,
    clip: Clip = None,
    float64: Float64 = False,
    skip_errors: SkipErrors = False,
    column: Column = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Measure a model on held-out queries, without learning from them.

    Example: perceptrank evaluate model.json test.txt.gz --record ndcg@10 --record ap
    """
    from perceptrank.cli.evaluate import run
    from perceptrank.cli.reading import Reading

    with _reported():
        reading = Reading(files, _letor(n_features, zero_based, qid, clip, float64, skip_errors, threads), column)
        run(model, reading, record or ["ndcg@10", "ap"], as_json=json)


@app.command()
def rank(
    model: Annotated[str, typer.Argument(help="Model that 'perceptrank learn' has saved.")],
    files: Files,
    out: Annotated[Path | None, typer.Option(help="File to write; by default standard output.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many documents of each query.")] = None,
    tag: Annotated[str, typer.Option(help="Name of the run, the last column.")] = "perceptrank",
    n_features: NFeatures = None,
    zero_based: ZeroBased = False,
    qid: QidOption = Qid.auto,
    clip: Clip = None,
    float64: Float64 = False,
    skip_errors: SkipErrors = False,
    column: Column = None,
    threads: Threads = None,
) -> None:
    """Rank documents with a model, as a TREC run: query, Q0, document, rank, score, tag.

    A document is called by its comment (LETOR's docid, else the first word), else by its number in the query.

    Example: perceptrank rank model.json test.txt.gz --top 10 --out run.txt
    """
    from perceptrank.cli.rank import run
    from perceptrank.cli.reading import Reading

    with _reported():
        letor = _letor(n_features, zero_based, qid, clip, float64, skip_errors, threads)
        run(model, Reading(files, letor, column, comments=True), out, tag, top)


@app.command()
def compare(
    files: Files,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(help="Learner (bagging:slam wraps one), or all; may be repeated. By default all."),
    ] = None,
    learning_rate: Annotated[
        str | None,
        typer.Option(help="Rates for learners that depend on one: 0.1 or 0.1,1 or 1e-4:1:9 (first:last:number)."),
    ] = None,
    measure: Measure = None,
    scaling: Scaling = None,
    average: Average = None,
    setting: Setting = None,
    record: Record = None,
    plot: Annotated[Path | None, typer.Option(help="Image file to draw the running means into.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resampling.")] = 0,
    n_features: NFeatures = None,
    zero_based: ZeroBased = False,
    qid: QidOption = Qid.auto,
    clip: Clip = None,
    float64: Float64 = False,
    skip_errors: SkipErrors = False,
    column: Column = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Compare learners and learning rates in one pass, and say which differences are real.

    Example: perceptrank compare train.txt.gz --algorithm slam --algorithm listwise --learning-rate 1e-4:1:9
    """
    from perceptrank.cli.compare import run
    from perceptrank.cli.making import parse_rates
    from perceptrank.cli.reading import Reading

    with _reported():
        run(
            Reading(files, _letor(n_features, zero_based, qid, clip, float64, skip_errors, threads), column),
            algorithm or ["all"],
            [] if learning_rate is None else parse_rates(learning_rate),
            _settings(measure, None, scaling, average, setting),
            record or ["ndcg@10", "ap"],
            n_threads=threads,
            plot=plot,
            seed=seed,
            as_json=json,
        )


@app.command()
def simulate(
    destination: Annotated[str, typer.Argument(help="What to write: LETOR text, a store or Parquet, by its name.")],
    kind: Annotated[Simulation, typer.Option(help="The paper's separable stream, or one shaped like MSLR-WEB.")] = (
        Simulation.separable
    ),
    queries: Annotated[int, typer.Option(min=1, help="How many queries.")] = 1000,
    documents: Annotated[int | None, typer.Option(min=1, help="Documents of a query.")] = None,
    features: Annotated[int | None, typer.Option(min=1, help="Features of a document.")] = None,
    margin: Annotated[float | None, typer.Option(help="Margin of the separable stream, by default 0.5.")] = None,
    noise: Annotated[float, typer.Option(help="Spread of the features (of the grades, if mslr).")] = 1.0,
    label_noise: Annotated[float | None, typer.Option(help="Share of wrong grades in the separable stream.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    to: Annotated[To | None, typer.Option(help="Format to write, if the name does not say it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    json: AsJson = False,
) -> None:
    """Simulate a stream and write it.

    Example: perceptrank simulate train.txt.gz --queries 5000 --margin 0.5 --seed 7
    """
    from perceptrank.cli.convert import Writing
    from perceptrank.cli.simulate import run

    with _reported():
        run(
            kind.value,
            Writing(destination, None if to is None else to.value, False, overwrite),
            n_queries=queries,
            n_documents=documents,
            n_features=features,
            margin=margin,
            noise=noise,
            label_noise=label_noise,
            seed=seed,
            as_json=json,
        )


@app.command()
def algorithms(json: AsJson = False) -> None:
    """List the learners.

    Example: perceptrank algorithms
    """
    from perceptrank.cli.algorithms import run

    with _reported():
        run(as_json=json)


@app.command()
def bound(
    files: Files,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Learner; may be repeated. By default slam, minimax and listwise.")
    ] = None,
    learning_rate: Annotated[
        str | None, typer.Option(help="Rates for slam: 0.1 or 0.1,1 or 1e-4:1:9 (first:last:number).")
    ] = None,
    measure: Annotated[str, typer.Option(help="What is learned; what is lost is 1 minus it.")] = "ndcg@10",
    scaling: Annotated[
        list[str] | None, typer.Option(help="Scaling of features: query-zscore, query-minmax; may be repeated.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="How exactly the margin is to be known, as a part of it.")] = 1e-3,
    plot: Annotated[Path | None, typer.Option(help="Image file to draw losses and bounds into.")] = None,
    n_features: NFeatures = None,
    zero_based: ZeroBased = False,
    qid: QidOption = Qid.auto,
    clip: Clip = None,
    float64: Float64 = False,
    skip_errors: SkipErrors = False,
    column: Column = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Find the best margin of a stream, and print what theory promises each learner beside what it lost.

    Needs the extra 'theory'. Where no linear ranker gets everything right, bounds compare with the best fixed one.

    Example: perceptrank bound train.txt.gz --measure ndcg@10 --plot bounds.png
    """
    from perceptrank.cli.bound import run
    from perceptrank.cli.making import parse_rates
    from perceptrank.cli.reading import Reading

    with _reported():
        reading = Reading(files, _letor(n_features, zero_based, qid, clip, float64, skip_errors, threads), column)
        run(
            reading,
            list(dict.fromkeys(algorithm or ["slam", "minimax", "listwise"])),
            parse_rates(learning_rate) if learning_rate is not None else [],
            measure,
            scaling or [],
            tolerance=tolerance,
            n_threads=threads,
            plot=plot,
            as_json=json,
        )


@app.command()
def adversary(
    algorithm: Annotated[
        str, typer.Option("--algorithm", "--learner", help="Learner to play against; bagging:slam wraps one.")
    ] = "listwise",
    radius: Annotated[float, typer.Option(help="Norm of every document.")] = 1.0,
    margin: Annotated[float, typer.Option(help="Margin that the stream is to have.")] = 0.1,
    documents: Annotated[int, typer.Option(min=2, help="Documents of a query.")] = 3,
    version: Annotated[Version, typer.Option(help="How many rounds: 4R²/γ² or the paper's R²/γ².")] = Version.sharp,
    rounds: Annotated[int | None, typer.Option(min=1, help="Play fewer rounds.")] = None,
    record: Annotated[str, typer.Option(help="What is lost is 1 minus this measure.")] = "ndcg",
    measure: Measure = None,
    setting: Setting = None,
    json: AsJson = False,
) -> None:
    """Play the lower-bound game: an adversary that any learner loses to in every round.

    Example: perceptrank adversary --algorithm slam --radius 1 --margin 0.05
    """
    from perceptrank.cli.adversary import run

    with _reported():
        run(
            algorithm,
            _settings(measure, None, None, None, setting),
            radius=radius,
            margin=margin,
            n_documents=documents,
            version=version.value,
            rounds=rounds,
            measure=record,
            as_json=json,
        )
