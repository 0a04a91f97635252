"""Learn shards on the executors of a Spark cluster."""

from __future__ import annotations

import os
import queue
import re
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pickle import loads
from typing import Any
from uuid import uuid4

import perceptrank
from perceptrank.distributed.executors import Result, Work
from perceptrank.distributed.frames import DelayedShard
from perceptrank.distributed.packing import pack, unpack
from perceptrank.distributed.shards import ShardError, shard_error
from perceptrank.distributed.spark_parts import FrameShard, dumps, frame_of, task_context
from perceptrank.distributed.waiting import Waiting

_ENDING = 10.0  # seconds that a cancelled job has to end
_TASKS = 100_000  # of a stage, to look for those that run
_LOCAL_TRIES = 4  # of a task of a local session, as elsewhere; Spark would make one
_CAUSE = re.compile(r"^\w[\w.]*(?:Error|Exception): .*$", re.MULTILINE)  # Python's, which comes last
_REASON = re.compile(r"Job aborted due to stage failure: (Task (\d+) in [^\n]*)")


@contextmanager
def spark_session(master: str | None = None, n_workers: int | None = None) -> Iterator[Any]:
    """Give a Spark session, and stop it at the end.

    - `master`: the cluster, as `spark-submit --master` takes it; default processes of this machine.
    - `n_workers`: their number, without a `master`; default one per processor.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError(f"Spark needs the extra spark: pip install 'perceptrank[spark]' ({error})") from None
    if master is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = master or f"local[{n_workers or '*'},{_LOCAL_TRIES}]"
    builder = SparkSession.builder.master(place).appName("perceptrank").config("spark.ui.showConsoleProgress", False)
    builder = builder.config("spark.driver.maxResultSize", 0)  # outcomes are taken one by one
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise OSError(f"there is no Spark at {place}: {_first_line(error)}; it needs Java 17 or newer") from None
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        session.stop()


def _first_line(error: Exception) -> str:
    """Return what Spark says first, without the lines that only say where."""
    lines = [line.removeprefix(": ") for line in str(error).splitlines() if not line.startswith("An error occurred")]
    return lines[0] if lines else type(error).__name__


class _Delivery:
    """Hand over what a task has added as soon as it has succeeded: what a job returns comes when all tasks are done.

    It is the parameter of an accumulator (`pyspark.AccumulatorParam`).
    """

    def __init__(self, done: queue.Queue[Any] | None = None) -> None:
        self.done = done  # on the driver only

    def __reduce__(self) -> Any:
        return _Delivery, ()

    def zero(self, value: Any) -> Any:
        """Return no outcomes."""
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 (Spark's name)
        """Hand over outcomes, or keep them until the task ends."""
        if self.done is None:
            return value1 + value2
        for outcome in value2:
            self.done.put(outcome)
        return []


class SparkExecutor(Waiting):
    """Run a job in a `pyspark.sql.SparkSession`, with a task for each shard; Spark runs those of lost executors again.

    The common state is broadcast. It and the shards travel as bytes, which the task itself unpacks: an executor that
    cannot (it lacks a module) answers with an error, which Spark does not try again. Whatever ends `map`, the job is
    cancelled.
    """

    def __init__(self, session: Any, timeout: float | None = None) -> None:
        super().__init__(timeout)
        if ".connect." in type(session).__module__:
            raise TypeError("client must be a session of SparkSession.builder.master(…): Spark Connect sends no tasks")
        self.session, self.context = session, session.sparkContext
        self._group = f"perceptrank {uuid4().hex}"

    def map(self, task: Work[Result], shards: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """Yield the number and outcome of each shard as it is done."""
        from pyspark import InheritableThread

        common = self.context.broadcast(pack(task, dumps))
        done: queue.Queue[tuple[int | None, Any]] = queue.Queue()
        run = self._job(common, self.context.accumulator([], _Delivery(done)), task.of, shards)

        def run_job() -> None:
            try:
                self.context.setJobGroup(self._group, f"perceptrank: {len(shards)} {task.of}s", interruptOnCancel=True)
                run()
                done.put((None, None))
            except Exception as error:
                done.put((None, error))

        job = InheritableThread(target=run_job, session=self.session, daemon=True)
        pending = {number: shard.name for number, shard in enumerate(shards)}
        try:
            job.start()
            made_anew = isinstance(shards[0], FrameShard)  # its partitions may be others than before
            while pending or made_anew:
                number, packed = self.next_done(done, task.of, pending, shards) if pending else done.get()
                if number is None and not pending:
                    if packed is not None:  # a partition failed that was not there before
                        raise packed
                    break
                if number is None:
                    raise self._problem(task.of, pending, packed, made_anew=made_anew) from packed
                if number >= len(shards):
                    raise ValueError(
                        f"the frame has more partitions than the {len(shards)} that it had before: persist it"
                    )
                if number not in pending:
                    continue  # of a task that was run twice
                outcome: Any = loads(packed)
                if isinstance(outcome, ShardError):
                    raise outcome
                del pending[number]
                yield number, outcome
        finally:
            end = time.monotonic() + _ENDING
            while job.is_alive() and time.monotonic() < end:
                if pending:  # it may have been about to start
                    with suppress(Exception):  # without a context, there is nothing to cancel
                        self.context.cancelJobGroup(self._group)
                job.join(0.1)
            with suppress(Exception):
                common.destroy()

    def _job(self, common: Any, outcomes: Any, of: str, shards: Sequence[Any]) -> Callable[[], Any]:
        """Return the job, whose tasks add the number and outcome of each shard to the outcomes."""
        first = shards[0]
        if isinstance(first, FrameShard):
            work = partial(_run_partition, common, outcomes, of, pack(first.converter, dumps))
            collect: Callable[[], Any] = first.frame.mapInArrow(work, "nothing int").collect
            return collect
        rows = [(number, shard.name, pack(shard, dumps)) for number, shard in enumerate(shards)]
        parts = self.context.parallelize(rows, len(rows))
        return partial(self.context.runJob, parts, partial(_run_shards, common, outcomes, of))

    def has_workers(self) -> bool:
        """Tell whether there are executors, the driver being another one only if it runs tasks itself."""
        try:
            context = self.context._jsc.sc()
            return bool(context.isLocal() or context.getExecutorMemoryStatus().size() > 1)
        except Exception:
            return True  # without a context the jobs tell, as they fail

    def places(self, pending: dict[int, Any]) -> dict[int, str]:
        """Return the executors of shards, as far as Spark tells."""
        places = {}
        with suppress(Exception):
            tracker, store = self.context.statusTracker(), self.context._jsc.sc().statusStore()
            for job in tracker.getJobIdsForGroup(self._group):
                tasks = store.taskList(max(tracker.getJobInfo(job).stageIds), 0, _TASKS)
                for task in map(tasks.apply, range(tasks.size())):
                    if task.status() == "RUNNING":
                        places[task.index()] = f"executor {task.executorId()}, {task.host()}"
        return places

    def _problem(self, of: str, pending: dict[int, str], error: Exception | None, *, made_anew: bool) -> Exception:
        """Return the error of a job that has ended before all shards were done.

        Of shards that are made anew, a task that failed may have been one that made them: its number is not theirs.
        """
        message, number = str(error), next(iter(pending))
        if error is None and not made_anew:
            return ShardError(number, f"{of} {number} ({pending[number]}) is done, but what it sent has not come")
        if error is None:
            numbers = ", ".join(map(str, pending))
            return ValueError(
                f"there are no queries in the {of}s {numbers}: the frame is empty, or has fewer partitions than "
                "before; persist it"
            )
        reason = _REASON.search(message)
        if reason is not None and not made_anew and int(reason[2]) in pending:
            number = int(reason[2])
        what = f"the job of {len(pending)} {of}s" if made_anew else f"{of} {number} ({pending[number]})"
        causes = _CAUSE.findall(message)
        if self._is_stopped():
            problem = (
                "is lost: the session was stopped; checkpoint= keeps what was learned in the epochs before, and the "
                "same call goes on from there with another session"
            )
        elif missing := re.search(r"No module named '([^']+)'", message):
            problem = (
                f"failed: executors cannot import {missing[1]}; install perceptrank[spark] {perceptrank.__version__} "
                "in their Python, which the environment variable PYSPARK_PYTHON names before the session starts"
            )
        elif causes and (made_anew or reason is None):
            problem = f"failed: {causes[-1]}"
        elif reason is None:
            problem = f"failed: {type(error).__name__}: {_first_line(error)}"
        else:
            problem = f"was given up: {reason[1]}; perhaps executors had too little memory beside spark.executor.memory"
        return ShardError(number, f"{what} {problem}")

    def _is_stopped(self) -> bool:
        try:
            return self.context._jsc is None or bool(self.context._jsc.sc().isStopped())
        except Exception:
            return True  # the driver's JVM is gone

    def __repr__(self) -> str:
        return f"SparkExecutor({self.session!r})"


def _run_shards(task: Any, outcomes: Any, of: str, rows: Iterable[tuple[int, str, bytes]]) -> list[None]:
    """Learn the shards of a partition, of which there is one."""
    for number, name, shard in rows:
        outcomes.add([(number, _run(partial(_learn, task, shard), of, number, name))])
    return []


def _learn(task: Any, shard: bytes) -> Any:
    return unpack(task.value).run(unpack(shard))


def _run_partition(task: Any, outcomes: Any, of: str, converter: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Learn the rows of a partition, which come as Arrow batches; no rows go back."""
    number: int = task_context().partitionId()
    name = f"partition {number}"

    def learn() -> Any:
        return unpack(task.value).run(DelayedShard(frame_of(batches), unpack(converter), name))

    outcomes.add([(number, _run(learn, of, number, name))])
    yield from ()


def _run(work: Callable[[], Any], of: str, number: int, name: str) -> bytes:
    try:
        outcome = work()
    except Exception as error:
        where = f" on {socket.gethostname()}, in {os.getcwd()}, task {task_context().taskAttemptId()}"
        outcome = shard_error(of, number, name, where, error)
        outcome.add_note("".join(traceback.format_exception(error)))
    return dumps(outcome)
