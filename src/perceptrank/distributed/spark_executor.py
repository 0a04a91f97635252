"""Learn shards on the executors of a Spark cluster."""

from __future__ import annotations

import os
import queue
import re
import socket
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pickle import loads
from typing import Any
from uuid import uuid4

import perceptrank
from perceptrank.distributed.executors import Result, Work
from perceptrank.distributed.packing import pack, unpack
from perceptrank.distributed.shards import ShardError, shard_error
from perceptrank.distributed.waiting import Waiting

try:
    from pyspark import TaskContext, inheritable_thread_target
    from pyspark.cloudpickle import dumps
except ImportError as error:
    raise ImportError(
        f"learning with Spark needs the extra spark: pip install 'perceptrank[spark]' ({error})"
    ) from None

_AT_ONCE = 256  # jobs, whether they run or wait for an executor
_ENDING = 10.0  # seconds that cancelled jobs have to end
_REASON = re.compile(r"Job aborted due to stage failure: ([^\n]*)")


class SparkExecutor(Waiting):
    """Run a job for each shard in a `pyspark.sql.SparkSession`; Spark runs those of lost executors again.

    The common state is broadcast. It and the shards travel as bytes, which the job itself unpacks: an executor that
    cannot (a class of a module that it has not got) answers with an error, which Spark does not try again. With a
    `timeout`, it gives up if no shard was finished for so many seconds. Whatever ends `map`, its jobs are cancelled.
    """

    def __init__(self, session: Any, timeout: float | None = None) -> None:
        super().__init__(timeout)
        if ".connect." in type(session).__module__:
            raise TypeError(
                "client must be a session of SparkSession.builder.master(…): one of Spark Connect cannot send tasks"
            )
        self.session, self.context = session, session.sparkContext
        self._run = f"perceptrank {uuid4().hex}"

    def map(self, task: Work[Result], shards: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """Yield the number and outcome of each shard as it is done."""
        common = self.context.broadcast(pack(task, dumps))
        rows = [(number, shard.name, pack(shard, dumps)) for number, shard in enumerate(shards)]
        parts, run = self.context.parallelize(rows, len(rows)), partial(run_on_executor, common, task.of)

        def run_job(number: int) -> Any:
            what = f"{task.of} {number} ({shards[number].name})"
            self.context.setJobGroup(self._group(number), what, interruptOnCancel=True)
            (packed,) = self.context.runJob(parts, run, [number])
            return loads(packed)

        done: queue.Queue[Any] = queue.Queue()
        pool = ThreadPoolExecutor(min(len(rows), _AT_ONCE))
        start_job = inheritable_thread_target(run_job)
        pending = {number: pool.submit(start_job, number) for number in range(len(rows))}
        numbers = {future: number for number, future in pending.items()}
        try:
            for future in numbers:
                future.add_done_callback(done.put)
            while pending:
                future = self.next_done(done, task.of, pending, shards)
                number = numbers[future]
                what = f"{task.of} {number} ({shards[number].name})"
                try:
                    outcome = future.result()
                except Exception as error:
                    raise ShardError(number, f"{what} {self._reason(error)}") from error
                if isinstance(outcome, ShardError):
                    raise outcome
                del pending[number]
                yield number, outcome
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._cancel(pending)
            with suppress(Exception):
                common.destroy()

    def _group(self, number: int) -> str:
        return f"{self._run} {number}"

    def _cancel(self, pending: dict[int, Any]) -> None:
        """Cancel jobs until all have ended: one may have been about to start."""
        end = time.monotonic() + _ENDING
        while (running := [n for n, future in pending.items() if not future.done()]) and time.monotonic() < end:
            with suppress(Exception):  # without a context, there is nothing to cancel
                for number in running:
                    self.context.cancelJobGroup(self._group(number))
            time.sleep(0.1)

    def has_workers(self) -> bool:
        """Tell whether there are executors, the driver being another one only if it runs tasks itself."""
        try:
            context = self.context._jsc.sc()
            return bool(context.isLocal() or context.getExecutorMemoryStatus().size() > 1)
        except Exception:
            return True  # without a context the jobs tell, as they fail

    def places(self, pending: dict[int, Any]) -> dict[int, str]:
        """Return the executors of shards, as far as Spark knows."""
        places = {}
        with suppress(Exception):
            tracker, store = self.context.statusTracker(), self.context._jsc.sc().statusStore()
            for number in pending:
                for job in tracker.getJobIdsForGroup(self._group(number)):
                    for stage in tracker.getJobInfo(job).stageIds:
                        for task in store.taskList(stage, 0, 1):
                            places[number] = f"executor {task.executorId()}, {task.host()}"
        return places

    def _reason(self, error: Exception) -> str:
        """Return what became of a shard whose job failed."""
        message = str(error)
        if isinstance(error, CancelledError) or self.context._jsc is None or self.context._jsc.sc().isStopped():
            return (
                "is lost: the session was stopped; checkpoint= keeps what was learned in the epochs before, and the "
                "same call goes on from there with another session"
            )
        if "No module named 'perceptrank'" in message:
            return (
                f"failed: executors cannot import perceptrank; install perceptrank {perceptrank.__version__} in their "
                "Python, which spark.pyspark.python names"
            )
        reason = _REASON.search(message)
        if reason is None:
            return f"failed: {type(error).__name__}: {message}"
        return f"was given up: {reason[1]}; perhaps executors had too little memory beside spark.executor.memory"

    def __repr__(self) -> str:
        return f"SparkExecutor({self.session!r})"


def run_on_executor(task: Any, of: str, rows: Iterable[tuple[int, str, bytes]]) -> Iterator[bytes]:
    """Learn the shards of a partition, of which there is one."""
    for number, name, shard in rows:
        try:
            outcome = unpack(task.value).run(unpack(shard))
        except Exception as error:
            context: Any = TaskContext.get()
            where = f" on {socket.gethostname()}, in {os.getcwd()}, task {context.taskAttemptId()}"
            outcome = shard_error(of, number, name, where, error)
            outcome.add_note("".join(traceback.format_exception(error)))
        yield dumps(outcome)
