"""Engines that learn shards: their interface, and the one that is this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from perceptrank.distributed.shards import Shard, shard_error
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Ints, Words
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.measures import Measure
from perceptrank.stream.blocks import as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_positive

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Work(Protocol[Result_co]):
    """A function of each of several things, which have names; its results do not depend on where it runs."""

    of: ClassVar[str]  # what the things are, in messages

    def run(self, thing: Any, /) -> Result_co:
        """Return the outcome for one of them."""


@dataclass(frozen=True)
class Task:
    """One pass over a shard: what every shard of an epoch begins with, and what it records."""

    of: ClassVar[str] = "shard"

    ranker: Learner  # the settings, and the state to begin with
    measures: tuple[Measure, ...] | None
    holds: bool  # the statistics of transforms stay as they are
    traces: bool = True  # what was recorded of each query is sent back
    marks: bool = False  # so is a mark of each query, by which to find those that are in several shards
    left_out: dict[str, Ints] = field(default_factory=dict)  # by the names of shards, queries that trees were fitted to

    def run(self, shard: Shard) -> Outcome:
        """Learn a shard from the common state, which stays as it is."""
        ranker = deepcopy(self.ranker)
        ranker.adopt(_held(ranker.model, self.holds))
        traces, marks, seen = [], [np.empty(0, np.uint64)], 0
        left_out = self.left_out.get(shard.name, np.empty(0, np.int64))
        for part in as_blocks(shard.blocks()):
            if self.marks:
                marks.append(marks_of(part))
            for block in part.blocks() if len(left_out) else [part]:
                counts = np.ones(len(block), bool) if block.query_weights is None else block.query_weights > 0.0
                given = counts & np.isin(seen + np.cumsum(counts) - 1, left_out)
                seen += int(counts.sum())
                if not given.all():
                    traces.append(ranker.learn(block[~given] if given.any() else block, self.measures))
        model, queries = _held(ranker.model, False), np.unique(np.concatenate(marks))
        if not traces:
            return Outcome(model, None, {}, queries)
        whole = Trace.concatenate(traces)
        means = {str(measure): whole.mean(measure) for measure in whole.measures}
        return Outcome(model, whole if self.traces else None, means, queries)


def _held(model: Model, is_held: bool) -> Model:
    """Return a copy of a model whose transforms keep their statistics as they are, or no longer do."""
    copied = model.copy()
    copied.is_held = is_held
    return copied


def marks_of(block: QueryStream) -> Words:
    """Return a number for each query that is the same in every process, 7 and "7" being one query."""
    digests = (blake2b(str(query).encode(), digest_size=8).digest() for query in block.qids.tolist())
    return np.frombuffer(b"".join(digests), np.uint64)


@dataclass(frozen=True)
class Outcome:
    """Model after a shard, and what was recorded meanwhile; None if it had no queries, or that is not kept."""

    model: Model
    trace: Trace | None
    means: dict[str, float]
    queries: Words  # the marks of its queries, none unless asked for


class Executor(Protocol):
    """An engine that learns shards, or whatever work there is, wherever and in whichever order.

    It may learn a shard several times, if workers are lost: the outcome is the same, to the bit.
    """

    def map(self, task: Work[Result], shards: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """Yield number and outcome of each shard, as it is done.

        Parameters
        ----------
        task : Work
            Its `run` is called with each shard.
        shards : sequence
            Things with a `name`.
        """


class InProcess:
    """Learn shards one after the other in this process: the definition of what every engine must give.

    - `task`, `shards`: as `Executor.map` takes them.
    """

    def map(self, task: Work[Result], shards: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """Yield number and outcome of each shard, in their order."""
        for number, shard in enumerate(shards):
            try:
                outcome = task.run(shard)
            except Exception as error:
                raise shard_error(task.of, number, shard.name, "", error) from error
            yield number, outcome

    def __repr__(self) -> str:
        return "InProcess()"


def executor_of(client: Any, timeout: float | None) -> Executor:
    """Return the engine of a client of Dask or a session of Spark, an engine as it is, or this process."""
    if timeout is not None:
        check_positive("timeout", timeout)
    if client is None:
        return InProcess()
    if hasattr(client, "map") and hasattr(client, "submit"):
        from perceptrank.distributed.dask_executor import DaskExecutor

        return DaskExecutor(client, timeout)
    if hasattr(client, "createDataFrame") and hasattr(client, "readStream"):
        from perceptrank.distributed.spark_executor import SparkExecutor

        return SparkExecutor(client, timeout)
    if hasattr(client, "map"):
        executor: Executor = client
        return executor
    raise TypeError(
        "client must be a distributed.Client, a pyspark.sql.SparkSession, an Executor or None, got "
        f"{type(client).__name__}"
    )
