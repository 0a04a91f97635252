"""Compare learners on a cluster: each learns the whole stream on one worker, as it would alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from perceptrank.distributed.executors import executor_of
from perceptrank.distributed.shards import Shard, StreamShard, file_shards, paths_of
from perceptrank.evaluation.comparing import named_learners
from perceptrank.evaluation.comparison import Comparison
from perceptrank.evaluation.trace import Trace
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.stream.blocks import as_blocks, check_repeatable
from perceptrank.stream.query_stream import BLOCK_BYTES
from perceptrank.stream.validation import check_choice

_KINDS: tuple[type[Exception], ...] = (MemoryError, ArithmeticError, ValueError)


@dataclass(frozen=True)
class Entry:
    """A learner and its name."""

    name: str
    learner: Learner


class Compared(NamedTuple):
    """Model of a learner after the stream, or before the block that it failed with, and what was recorded."""

    model: Model
    trace: Trace | None
    failure: tuple[int, str] | None = None


@dataclass(frozen=True)
class Pass:
    """The work: one pass of a learner over the whole stream."""

    of: ClassVar[str] = "learner"

    source: Shard
    measures: tuple[Measure, ...]

    def run(self, entry: Entry) -> Compared:
        """Learn from a copy of the learner; its own failures are part of the outcome, those of the data are raised."""
        learner, traces = deepcopy(entry.learner), []
        for whole in as_blocks(self.source.blocks(), required=True):
            for block in whole.blocks(BLOCK_BYTES):
                try:
                    traces.append(learner.learn(block, self.measures))
                except _KINDS as error:
                    kind = next(number for number, each in enumerate(_KINDS) if isinstance(error, each))
                    return Compared(learner.model, None, (kind, str(error)))
        return Compared(learner.model, Trace.concatenate(traces))


def compare(
    learners: Mapping[str, Learner] | Iterable[Learner],
    stream: Any,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    client: Any = None,
    *,
    on_error: Literal["raise", "drop"] = "raise",
    timeout: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Comparison:
    """Train several learners on a stream, each on one worker of a cluster, and compare them.

    The results are those of `perceptrank.compare`, to the bit, on one worker and on many, and if workers are lost.
    Learners continue from their current state. Those that were done have learned, whatever error ends the others.

    Other parameters are those of `compare`.

    Parameters
    ----------
    stream : files or stream
        One file or several (LETOR text, Parquet, stores, tables), which workers read under these names, once for each
        learner. Or a `QueryStream`, or a list of them, which is sent to the worker of each learner.
    client : distributed.Client, pyspark.sql.SparkSession, Executor, or None
        Where to learn. None is this process.
    timeout : float, optional
        Seconds after which to give up if no learner was done meanwhile.
    progress : callable, optional
        Called with the number of learners that are done, and of all.
    **options
        Options for files, as `learn` takes them.

    Raises
    ------
    ArithmeticError, MemoryError, or ValueError
        If a learner fails and `on_error` is "raise", with its name; or if all of them fail.
    ShardError or ClusterError
        If the stream cannot be read, or there are no workers.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(200).stream
    >>> result = compare([pr.ListwisePerceptron(), pr.SlamPerceptron()], stream)
    >>> result.standings() == pr.compare([pr.ListwisePerceptron(), pr.SlamPerceptron()], stream).standings()
    True
    """
    named: dict[str, Any] = named_learners(learners)
    for name, learner in named.items():
        if not isinstance(learner, Learner):
            raise TypeError(f"learners must be learners of perceptrank, got {type(learner).__name__} for {name!r}")
    recorded = tuple(parse_all(measures))
    if not recorded:
        raise ValueError("measures must name at least one measure, got none")
    check_choice("on_error", on_error, ("raise", "drop"))
    entries = [Entry(name, learner) for name, learner in named.items()]
    before = [entry.learner.model for entry in entries]
    outcomes: dict[int, Compared] = {}
    for number, outcome in executor_of(client, timeout).map(Pass(_source(stream, options), recorded), entries):
        outcomes[number] = outcome
        try:
            entries[number].learner.adopt(outcome.model, after=before[number])
        except RuntimeError:
            name = entries[number].name
            raise RuntimeError(f"{name} has learned something else meanwhile: compare copies of learners") from None
        if outcome.failure is not None and on_error == "raise":
            kind, problem = outcome.failure
            raise _KINDS[kind](f"{entries[number].name}: {problem}")
        if progress is not None:
            progress(len(outcomes), len(entries))
    results = {entry.name: outcomes[number] for number, entry in enumerate(entries)}
    dropped = {name: result.failure[1] for name, result in results.items() if result.failure is not None}
    traces = {name: result.trace for name, result in results.items() if result.trace is not None}
    if not traces:
        name, reason = next(iter(dropped.items()))
        raise ValueError(f"all learners failed; {name}: {reason}")
    return Comparison(traces, dropped)


def _source(stream: Any, options: dict[str, Any]) -> Shard:
    """Return the whole stream as one shard."""
    if hasattr(stream, "__dask_graph__"):
        raise TypeError("learners are compared on one order of queries: write the Dask collection to files first")
    if paths := paths_of(stream):
        return file_shards(paths, 1, options)[0]
    if options:
        raise TypeError(f"{', '.join(options)} apply to files only")
    check_repeatable(stream)
    return StreamShard(stream)
