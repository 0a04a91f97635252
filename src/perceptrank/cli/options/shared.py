"""Options that several commands share, each declared once.

A parameter of an option is named as in the library, whatever its flag: that is how errors find the flag. A command
takes a group of options as one value, by a parameter that has the group's type; `ungrouped` shows typer each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, get_annotations, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_origin

import typer

from perceptrank.cli.options.files import Reads, What, Writes, roles_of

DEFAULT_RECORD = ["ndcg@10", "ap"]

Qid = StrEnum("Qid", "auto field comment")  # place of the query in a line of LETOR text
To = StrEnum("To", "letor store parquet csv")  # formats that can be written


Files = Annotated[
    list[str],
    typer.Argument(
        help="LETOR text (plain or compressed, '-' for standard input), a store, Parquet, or a table (.csv, .tsv, "
        ".jsonl, .qrels); folders and patterns too."
    ),
    Reads(What.data),
]
Model = Annotated[
    str,
    typer.Argument(
        help="Model saved by 'perceptrank learn', or weights: JSON with names and weights, or a linear model of Solr, "
        "Elasticsearch or OpenSearch."
    ),
    Reads(),
]
Target = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="TARGET",
        help="One of python, javascript, sql, onnx, elasticsearch, opensearch, solr, ranklib, vespa, pmml, hybrid.",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Number of threads; by default one per processor.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file or store.")]
SimulationSeed = Annotated[int, typer.Option(min=0, help="Seed of the simulation.")]
MeansPlot = Annotated[Path | None, typer.Option(help="Image file for a plot of the running means."), Writes(What.image)]
Record = Annotated[list[str] | None, typer.Option(help="Measure to record; may be repeated.")]
Measure = Annotated[str | None, typer.Option(help="Measure to learn, such as ndcg@10 or ap.")]
TargetOptions = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Option of the target; may be repeated.")
]
Pairs = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated.")
]
Transforms = Annotated[
    list[str] | None,
    typer.Option(
        "--transform",
        help="Transform of the features: auto, none, running, query-zscore, query-normal, query-rank, "
        "query-minmax, running-spread, clip, signed-log, missing, bins, hash, hybrid or trees, with settings if needed "
        "(bins:n_bins=16,kind=hat). A + puts transforms side by side; repeated, they form a chain.",
    ),
]


def chosen_transforms(names: list[str] | None) -> list[str]:
    """Return the transforms that are given."""
    names = names or []
    if "none" in names and len(names) > 1:
        raise ValueError("--transform none cannot be combined with other transforms")
    return names


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """Settings of learners. Those that are not given are None."""

    panel: ClassVar[str] = "Model"
    measure: Measure = None
    transforms: Transforms = None
    average: Annotated[
        bool | None, typer.Option("--average/--no-average", help="Rank with the average of all weights so far.")
    ] = None
    pairs: Pairs = None

    def given(self, **others: Any) -> dict[str, Any]:
        """Return the settings that are given, with others that a command has options for."""
        from perceptrank.cli.making import parse_settings
        from perceptrank.cli.terminal.errors import leave_alone

        flags = {"measure": self.measure, "average": self.average} | others
        chosen = {name: value for name, value in flags.items() if value is not None}
        if names := chosen_transforms(self.transforms):
            # None would stand for the transforms of the learner inside, or for those that default learners have.
            chosen["transforms"] = [] if names == ["none"] else names[0] if len(names) == 1 else names
        free = parse_settings(self.pairs or [])
        leave_alone(free)
        if twice := sorted(set(chosen) & set(free)):
            raise ValueError(f"{', '.join(twice)} is given twice, by its own option and by --set")
        return chosen | free


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Options of reading: dialect of LETOR text, columns of tables and Parquet files, threads."""

    panel: ClassVar[str] = "Data"
    n_features: Annotated[int | None, typer.Option(min=1, help="Number of features of LETOR text.")] = None
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Feature ids of LETOR text count from 0.")] = False
    qid: Annotated[Qid, typer.Option(help="Where LETOR text names queries.")] = Qid.auto
    clip: Annotated[float | None, typer.Option(help="Clip values of LETOR text to this absolute value.")] = None
    dtype: Annotated[bool, typer.Option("--float64", help="Keep features of LETOR text as float64.")] = False
    sparse: Annotated[
        bool | None,
        typer.Option(
            "--sparse/--dense",
            help="Store only features that are not 0, or all. By default stores and Parquet files decide; LETOR text "
            "is sparse if it has more than 1000 features, of which less than an eighth are not 0.",
        ),
    ] = None
    on_error: Annotated[bool, typer.Option("--skip-errors", help="Skip and count invalid lines of LETOR text.")] = False
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="Column of tables and Parquet files: qid=, docid=, relevance=, weight= or feature=; may be repeated.",
        ),
    ] = None
    feature_paths: Annotated[
        list[str] | None,
        typer.Option(
            "--features",
            metavar="FILE",
            help="Table with the features of judgements in tables, joined by query and document: CSV, TSV, JSON lines, "
            "feature logs of Elasticsearch, OpenSearch or Solr (requests of _msearch before the responses), or a TREC "
            "run; may be repeated.",
        ),
        Reads(What.data),
    ] = None
    missing: Annotated[
        bool, typer.Option("--keep-missing", help="Keep missing values of tables and Parquet, for --transform missing.")
    ] = False
    zero_missing: Annotated[
        bool, typer.Option("--zero-missing", help="Replace missing values by 0, as search engines do.")
    ] = False
    n_threads: Threads = None


@dataclass(frozen=True, kw_only=True)
class ClickLogs:
    """Options of reading logs of clicks."""

    panel: ClassVar[str] = "Clicks"
    from_clicks: Annotated[
        bool,
        typer.Option(
            "--clicks",
            help="The files are logs of clicks: User Behavior Insights, Metarank, Algolia or Meilisearch events, a "
            "table with a row per shown document, or the address of a live OpenSearch or Elasticsearch.",
        ),
    ] = False
    queries: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="With --clicks, queries and results that the events lack; may be repeated."),
        Reads(What.data),
    ] = None
    first_place: Annotated[
        int | None, typer.Option(min=0, max=1, help="With --clicks, number of the first position, if not detected.")
    ] = None
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="With --clicks: kind=, click=, impressions=, max_session_clicks=, since=."
        ),
    ] = None


def ungrouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the options of each group one by one, and hands it the groups.

    Its `panels` are those of the help that groups want their options in.
    """
    parameters: list[Parameter] = []
    panels: dict[str, str] = {}
    groups: dict[str, tuple[Any, list[str]]] = {}
    for parameter in signature(command).parameters.values():
        if is_dataclass(group := parameter.annotation):
            options = _options_of(group)
            groups[parameter.name] = group, [option.name for option in options]
            parameters += options
            panels |= {option.name: _panel_of(group, option.name) for option in options}
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call(**values: Any) -> None:
        for name, (group, names) in groups.items():
            values[name] = group(**{option: values.pop(option) for option in names})
        command(**values)

    call.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.roles, call.panels = roles_of(call.__annotations__), panels  # type: ignore[attr-defined]
    return call


def _panel_of(group: Any, name: str) -> str:
    kind = next(base for base in group.__mro__ if name in get_annotations(base))
    return str(getattr(kind, "panel", ""))


def _options_of(group: Any) -> list[Parameter]:
    """Fields of a group that say what they are on the command line; others are for the commands."""
    parameters = signature(group).parameters.values()
    return [parameter for parameter in parameters if get_origin(parameter.annotation) is Annotated]
