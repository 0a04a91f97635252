"""Iterative parameter mixing: shards learn side by side, their weights are mixed, and all go on from the mixture."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple

import numpy as np

from perceptrank.distributed.executors import Executor, Outcome, Task, executor_of
from perceptrank.distributed.frames import is_of_spark
from perceptrank.distributed.mixing import MIXED_BY, MixedBy, SomeLearner, mixed
from perceptrank.distributed.sampling import check_learnable, fit_to_sample, unfitted_trees
from perceptrank.distributed.shards import FROM_FILES, Shard, as_shards
from perceptrank.evaluation.trace import Trace
from perceptrank.io.errors import FileFormatError
from perceptrank.io.model_file import read_model, write_model
from perceptrank.kernels.arrays import Ints, Words
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import measure_of
from perceptrank.measures import MeasureLike, parse_all
from perceptrank.stream.validation import check_choice, check_positive_whole

MODEL = "model.json"
_WORDS = {
    "origin": "began with another ranker",
    "shards": "has other shards (names or sizes of the data)",
    "mixed_by": "has another mixed_by",
    "measures": "records other measures",
    "traces": "has another traces=",
}


class Checkpoint:
    """The folder of a run, with its model after `epoch` epochs, which `perceptrank.load` reads.

    The run is known by the ranker that it began with, its shards, and the settings that decide its result.
    """

    def __init__(
        self, folder: str | os.PathLike[str], ranker: Learner, shards: Sequence[Shard], settings: dict[str, Any]
    ) -> None:
        self.folder, self.epoch, self._counts = Path(folder), 0, list[int]()
        self.left_out: dict[str, Ints] = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        of_shards = [[shard.name, shard.fingerprint()] for shard in shards]
        self._run = {"origin": _digest(ranker.as_document()), "shards": _digest(of_shards), **settings}

    def resume(self, ranker: Learner) -> list[list[Trace]]:
        """Make the ranker what it was after the last epoch, if there was any; return what was recorded so far."""
        path = self.folder / MODEL
        if not path.exists():
            return []
        from perceptrank.learners.registry import from_document

        document = read_model(path)
        kept = document.get("distributed")
        if not isinstance(kept, dict) or not isinstance(kept.get("run"), dict):
            raise FileFormatError(path, " is a model, but not the checkpoint of learning from shards")
        loaded = from_document(document)
        run = kept["run"]
        if run.get("origin") != self._run["origin"] and _digest(loaded.as_document()) == self._run["origin"]:
            self._run["origin"] = run["origin"]  # the ranker has learned these epochs already
        differing = [name for name, value in self._run.items() if run.get(name) != value]
        if differing:
            how = " and ".join(_WORDS[name] for name in differing)
            raise ValueError(
                f"{self.folder} is the checkpoint of another run, which {how}: "
                "give another folder, or the same arguments as before"
            )
        ranker.adopt(loaded.model)
        self.epoch, self._counts = int(kept["epochs"]), kept["traces"]
        self.left_out = {name: np.array(numbers, np.int64) for name, numbers in kept.get("left_out", {}).items()}
        return [[Trace.load(self._trace(epoch, n)) for n in range(count)] for epoch, count in enumerate(self._counts)]

    def keep(self, ranker: Learner, epochs: int, traces: Sequence[Trace]) -> None:
        """Save the traces of an epoch, then the ranker after it, which makes the epoch count."""
        for n, trace in enumerate(traces):
            trace.save(self._trace(epochs - 1, n))
        counts = [*self._counts, *([len(traces)] if self._run["traces"] else [])]
        of_run: dict[str, Any] = {"run": self._run, "epochs": epochs, "traces": counts}
        if self.left_out:
            of_run["left_out"] = {name: numbers.tolist() for name, numbers in self.left_out.items()}
        write_model(self.folder / MODEL, ranker.as_document() | {"distributed": of_run})
        self._counts, self.epoch = counts, epochs

    def _trace(self, epoch: int, shard: int) -> Path:
        return self.folder / f"trace-{epoch:04d}-{shard:06d}.npz"


def _digest(plain: Any) -> str:
    text = json.dumps(plain, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Learned(NamedTuple, Generic[SomeLearner]):
    """Result of `learn`.

    Attributes
    ----------
    ranker : learner
        The one that was given, which has learned.
    traces : list of lists of Trace
        What was recorded, `traces[epoch][shard]`; shards without queries are left out. Empty if traces were not kept.
    """

    ranker: SomeLearner
    traces: list[list[Trace]]

    def trace(self, epoch: int = 0) -> Trace:
        """Return what was recorded in an epoch, shard after shard.

        Parameters
        ----------
        epoch : int
            Number of the epoch, counted from 0.
        """
        return Trace.concatenate(self.traces[epoch])


class Progress(NamedTuple):
    """State of a run, after each shard."""

    epoch: int  # counted from 0
    epochs: int
    done: int  # shards of this epoch
    shards: int
    means: dict[str, float]  # of the measures, over the queries of the shard that was done


def learn(
    ranker: SomeLearner,
    parts: Any,
    client: Any = None,
    *,
    epochs: int = 1,
    measures: Iterable[MeasureLike] | MeasureLike | None = None,
    mixed_by: MixedBy = "queries",
    shards: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    assume_grouped: bool = False,
    timeout: float | None = None,
    traces: bool = True,
    progress: Callable[[Progress], object] | None = None,
    **options: Any,
) -> Learned[SomeLearner]:
    """Learn from shards of queries side by side: each from the common weights, which then become the mean of theirs.

    The result is the same, to the bit, on one worker and on many, and if workers are lost. One shard, learned in one
    epoch, is what `ranker.learn` does, but for trees. If an error ends an epoch, the ranker keeps those before.

    Statistics of transforms (`transforms="running"`) are learned in the first epoch, merged, and then stay as they are;
    so do those that the ranker had before. With a single shard, transforms learn on as with `ranker.learn`.

    Trees (`WithTrees`) are fitted once, before the first epoch, to a uniform sample of the queries of each shard: a
    third of them, or as many as fit into the shard's part of `memory`. The epochs leave these queries out, so that the
    score of a query never depends on its grades. `trees.queries` is the size of the sample. With fewer than `first_fit`
    queries in all there are no trees, with a warning.

    Parameters
    ----------
    ranker : learner
        What learns, as `ranker.learn` would: a linear learner whose state has a mean.
    parts : files, streams, or a collection of Dask or Spark
        A list of files (LETOR text, Parquet, stores, tables), each a shard, which workers read under these names; a
        query in two files is learned as two, with a warning. A list of `QueryStream`s, each a shard, sent to workers in
        every epoch. A DataFrame of Dask or Spark with the columns `qid` and `relevance`, partitioned in any way. A Dask
        bag of `QueryStream`s, or a list of delayed ones, each partition a shard.
    client : distributed.Client, pyspark.sql.SparkSession, Executor, or None
        Where to learn. None is this process, or the session of a Spark DataFrame.
    epochs : int
        Number of passes. One pass of a ranker that has learned nothing is the mean of independent ones, which is weak:
        docs/scale.md.
    measures : str, Measure or list of them, optional
        Measures to record; by default the measure that is learned, or NDCG@10.
    mixed_by : "queries", "updates", or "uniform"
        Weights of shards in the mean: in proportion to their queries, to their updates, or equal.
    shards : int, optional
        Number of shards: neighbouring files or streams are joined, or stores, plain LETOR text and streams in memory
        are split between queries. Of a DataFrame, the number of partitions after the shuffle.
    checkpoint : path, optional
        Folder to keep the ranker in after each epoch. If it has that of the same run, learning goes on from there, as
        if it had never stopped.
    assume_grouped : bool
        No query of a DataFrame is in two partitions: there is no shuffle, and it is checked.
    timeout : float, optional
        Seconds after which to give up if no shard was finished meanwhile.
    traces : bool
        Send back what was recorded of each query.
    progress : callable, optional
        Called with a `Progress` after each shard.
    **options
        Options for files, as `perceptrank.io.sources.open_sources` takes them: `n_features`, `sparse`, `columns`, …;
        for a DataFrame `qid`, `relevance`, `features` and `missing`, as `QueryStream.from_frame` takes them.

    Raises
    ------
    TypeError or ValueError
        If what shards learn cannot be mixed, with the reason; or if there is nothing to learn from.
    ShardError
        If a shard fails, with its data and the worker's message.
    ClusterError or TimeoutError
        If the cluster has no workers, or no shard was finished for `timeout` seconds.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(200, n_features=5, seed=0).stream
    >>> ranker, traces = learn(pr.ListwisePerceptron(), [stream[:100], stream[100:]], epochs=3)
    >>> ranker.n_queries, [[len(trace) for trace in epoch] for epoch in traces]
    (600, [[100, 100], [100, 100], [100, 100]])
    """
    check_learnable(ranker)
    check_positive_whole("epochs", epochs)
    check_choice("mixed_by", mixed_by, MIXED_BY)
    recorded = None if measures is None else tuple(parse_all(measures))
    executor = engine_for(parts, client, timeout)
    all_shards = shards_of(parts, shards, assume_grouped, options)
    kept: list[list[Trace]] = []
    kept_in = None
    if checkpoint is not None:
        settings = {
            "mixed_by": mixed_by,
            "measures": list(map(str, recorded or [measure_of(ranker)])),
            "traces": bool(traces),
        }
        kept_in = Checkpoint(checkpoint, ranker, all_shards, settings)
        kept = kept_in.resume(ranker)
        if kept_in.epoch > epochs:
            raise ValueError(f"epochs must be at least {kept_in.epoch}, as {checkpoint} has so many, got {epochs}")
    first = kept_in.epoch if kept_in is not None else 0
    left_out = kept_in.left_out if kept_in is not None else {}
    for epoch in range(first, epochs):
        before = start = ranker.model
        if unfitted_trees(start):
            start, left_out = fit_to_sample(ranker, all_shards, executor)
        several = len(all_shards) > 1
        marks = several and epoch == first and all(isinstance(shard, FROM_FILES) for shard in all_shards)
        holds = several and before.has_begun
        task = Task(ranker.with_model(start), recorded, holds, traces=bool(traces), marks=marks, left_out=left_out)
        done: dict[int, Outcome] = {}
        for number, outcome in executor.map(task, all_shards):
            done[number] = outcome
            if progress is not None:
                progress(Progress(epoch, epochs, len(done), len(all_shards), outcome.means))
        outcomes = [done[number] for number in range(len(all_shards))]
        if all(outcome.model.queries == before.queries for outcome in outcomes):
            raise ValueError("there are no queries to learn from: all shards are empty")
        warn_of_shared(
            all_shards,
            [outcome.queries for outcome in outcomes],
            "queries",
            "what each file has of them is learned as a query of its own. If documents of a query are in several "
            "files, bring them together: perceptrank convert --group FILES… NAME.store",
        )
        after = mixed(ranker, start, [outcome.model for outcome in outcomes], mixed_by)
        of_epoch = [outcome.trace for outcome in outcomes if outcome.trace is not None]
        try:
            ranker.adopt(after, after=before)
        except RuntimeError:
            raise RuntimeError("the ranker has learned something else meanwhile: use another one here") from None
        if traces:
            kept.append(of_epoch)
        if kept_in is not None:
            kept_in.left_out = left_out
            kept_in.keep(ranker, epoch + 1, of_epoch)
    return Learned(ranker, kept)


def warn_of_shared(shards: Sequence[Shard], marks: Sequence[Words], what: str, advice: str) -> None:
    """Warn if queries, or what else, are in several shards, as far as these have told their marks."""
    all_marks, counts = np.unique(np.concatenate(marks), return_counts=True)
    shared = all_marks[counts > 1]
    if len(shared):
        files = [shard.name for shard, own in zip(shards, marks, strict=True) if shared[0] in own]
        are = "is" if len(shared) == 1 else "are"
        warnings.warn(
            f"{len(shared):,} of {len(all_marks):,} {what} {are} in several files, such as {files[0]} and {files[1]}: "
            f"{advice}",
            UserWarning,
            stacklevel=3,
        )


def engine_for(parts: Any, client: Any, timeout: float | None) -> Executor:
    """Return the engine of a client; without one, that of the session of a Spark DataFrame, or this process."""
    return executor_of(parts.sparkSession if client is None and is_of_spark(parts) else client, timeout)


def shards_of(parts: Any, shards: int | None, assume_grouped: bool, options: dict[str, Any]) -> list[Shard]:
    """Return the shards of files, streams or Dask collections; see `learn`."""
    if shards is not None:
        check_positive_whole("shards", shards)
    if is_of_spark(parts):
        from perceptrank.distributed.spark_parts import spark_shards

        return [*spark_shards(parts, shards, assume_grouped=assume_grouped, options=options)]
    if _is_of_dask(parts):
        from perceptrank.distributed.dask_parts import dask_shards

        return [*dask_shards(parts, shards, assume_grouped=assume_grouped, options=options)]
    return as_shards(parts, shards, options)


def _is_of_dask(parts: Any) -> bool:
    """Tell whether parts are a Dask collection, or several, without importing Dask."""
    several = isinstance(parts, (list, tuple)) and len(parts) > 0
    return all(hasattr(part, "__dask_graph__") for part in parts) if several else hasattr(parts, "__dask_graph__")
