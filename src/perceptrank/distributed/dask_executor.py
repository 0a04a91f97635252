"""Learn shards on the workers of a Dask cluster."""

from __future__ import annotations

import queue
import time
import traceback
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from perceptrank.distributed.executors import Result, Work
from perceptrank.distributed.frames import DelayedShard
from perceptrank.distributed.packing import pack, unpack
from perceptrank.distributed.shards import ShardError, shard_error
from perceptrank.distributed.waiting import Waiting
from perceptrank.stream.validation import check_positive_whole

try:
    import dask
    from dask import delayed
    from distributed import KilledWorker, LocalCluster, get_worker
    from distributed.protocol.pickle import dumps
except ImportError as error:
    raise ImportError(f"learning with Dask needs the extra dask: pip install 'perceptrank[dask]' ({error})") from None

_UNDERWAY = {"lost", "pending"}
_FETCHES = 5.0  # seconds after which to look whether an outcome that does not arrive was lost
_LOSSES = 10  # of the outcome of one shard
_ANSWERS = 10.0  # seconds that a scheduler has to tell
_ENDED = {"closing", "closing_gracefully", "closed", "failed"}
_SPAWNING = "distributed.nanny.pre-spawn-environ"


def local_cluster(n_workers: int | None = None) -> Any:
    """Start a Dask cluster of local processes, one thread each; close it after use.

    Dask tells its workers to return all memory at once (MALLOC_TRIM_THRESHOLD_); the system then gives out the blocks
    of features anew, page by page, and learning takes almost twice as long. This one does not, see docs/scale.md.

    Parameters
    ----------
    n_workers : int, optional
        Number of processes; default one per processor.

    Examples
    --------
    ```python
    from distributed import Client

    with pr.distributed.local_cluster(2) as cluster, Client(cluster) as client:
        ranker, traces = pr.distributed.learn(pr.ListwisePerceptron(), files, client, epochs=3)
    ```
    """
    if n_workers is not None:
        check_positive_whole("n_workers", n_workers)
    environment = {name: value for name, value in dask.config.get(_SPAWNING).items() if not name.startswith("MALLOC")}
    with dask.config.set({_SPAWNING: environment}):
        return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50)


class _LostError(Exception):
    """A shard that was done, but whose outcome was lost with its worker."""


class DaskExecutor(Waiting):
    """Submit shards to a `distributed.Client`; Dask runs those of lost workers again.

    The common state travels inside each task, so that no worker's loss can take it along. Tasks and shards travel as
    bytes, which the task itself unpacks: a worker that cannot (it lacks a module) answers with an error; one whose
    messages cannot be read leaves the cluster.
    """

    def __init__(self, client: Any, timeout: float | None = None) -> None:
        super().__init__(timeout)
        self.client = client

    def map(self, task: Work[Result], shards: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """Yield the number and outcome of each shard as it is done."""
        common = pack(task, dumps)
        done: queue.Queue[Any] = queue.Queue()
        pending = self._submit(common, task.of, dict(enumerate(shards)))
        numbers = {future.key: number for number, future in pending.items()}
        losses = dict.fromkeys(pending, 0)
        try:
            for future in pending.values():
                future.add_done_callback(done.put)
            del future  # so that workers forget outcomes
            while pending:
                key = self.next_done(done, task.of, pending, shards).key
                number = numbers[key]
                if number not in pending or pending[number].key != key:
                    continue  # it was asked for anew
                what = f"{task.of} {number} ({shards[number].name})"
                try:
                    outcome: Result = self._result(what, number, pending[number])
                except _LostError:
                    if self.client.status != "running":
                        raise _gone(number, what, "lost") from None
                    losses[number] += 1
                    if losses[number] > _LOSSES:
                        raise ShardError(number, f"{what} was given up: its outcome was lost again and again") from None
                    # Dask runs it again, but its client may miss to hear of it: ask anew, for the same outcome.
                    pending |= self._submit(common, task.of, {number: shards[number]})
                    numbers[pending[number].key] = number
                    pending[number].add_done_callback(done.put)
                    continue
                del pending[number]
                yield number, outcome
        finally:
            if pending:
                with suppress(Exception):  # without a scheduler, there is nothing to cancel
                    self.client.cancel(list(pending.values()), force=True)

    def _submit(self, common: bytes, of: str, shards: dict[int, Any]) -> dict[int, Any]:
        """Return new futures of shards; those that Dask makes are made together, as they share what they need."""
        if all(isinstance(shard, DelayedShard) for shard in shards.values()):
            call = delayed(run_part, pure=False)
            parts = [
                call(common, pack(shard.converter, dumps), of, number, shard.name, shard.part)
                for number, shard in shards.items()
            ]
            return dict(zip(shards, self.client.compute(parts), strict=True))
        return {
            number: self.client.submit(run_on_worker, common, pack(shard, dumps), of, number, shard.name, pure=False)
            for number, shard in shards.items()
        }

    def has_workers(self) -> bool:
        """Tell whether the scheduler has workers."""
        try:
            return bool(self.client.sync(self.client.scheduler.ncores, callback_timeout=_ANSWERS))
        except Exception:
            return True  # without a scheduler the futures tell, as they are lost

    def has_ended(self) -> bool:
        """Tell whether this process has started the workers, and none of their keepers is there to start them again."""
        cluster = self.client.cluster
        keepers = getattr(cluster, "workers", None)
        if not isinstance(keepers, dict):
            return False
        if not keepers:  # Dask forgets those that are lost; it holds the lock while it starts others
            lock = getattr(cluster, "_lock", None)
            return bool(getattr(cluster, "worker_spec", None)) and lock is not None and not lock.locked()
        return all(getattr(getattr(keeper, "status", None), "value", None) in _ENDED for keeper in keepers.values())

    def _result(self, what: str, number: int, future: Any) -> Any:
        status = future.status
        if status in _UNDERWAY:
            raise _LostError
        if status == "finished":
            try:
                return self._fetched(what, future)
            except (CancelledError, AsyncCancelledError):
                status = "lost"
        if status != "error":
            raise _gone(number, what, status)
        error = future.exception()
        if isinstance(error, ShardError):
            raise error
        if isinstance(error, KilledWorker):
            raise ShardError(
                number,
                f"{what} was given up: the workers that had it were lost, one after the other; "
                f"perhaps they had too little memory ({error})",
            ) from None
        raise ShardError(number, f"{what} failed: {type(error).__name__}: {error}") from error

    def _fetched(self, what: str, future: Any) -> Any:
        """Return the outcome of a future that is done; raise `_LostError` if the worker that had it was lost."""
        start, seconds = time.monotonic(), _FETCHES
        while True:
            try:
                return future.result(timeout=seconds)
            except TimeoutError:
                if future.status in _UNDERWAY:
                    raise _LostError from None
            except OSError:
                raise _LostError from None
            if self.timeout is not None and time.monotonic() > start + self.timeout:
                raise TimeoutError(
                    f"{what} is done, but its outcome did not arrive for {self.timeout:g} seconds. What was learned in "
                    "the epochs before is kept"
                )
            seconds *= 2  # a large one takes longer to arrive, and begins again with every call

    def places(self, pending: dict[int, Any]) -> dict[int, str]:
        """Return the addresses of the workers of shards, as far as the scheduler tells."""
        places: dict[str, Any] = {}
        with suppress(Exception):
            places = self.client.sync(self.client.scheduler.processing, callback_timeout=_ANSWERS)
        where = {str(key): address for address, keys in places.items() for key in keys}
        return {number: where[future.key] for number, future in pending.items() if future.key in where}

    def __repr__(self) -> str:
        return f"DaskExecutor({self.client!r})"


def _gone(number: int, what: str, status: str) -> ShardError:
    return ShardError(
        number,
        f"{what} is {status}: the scheduler was restarted or closed; checkpoint= keeps what was learned in the epochs "
        "before, and the same call goes on from there",
    )


def run_on_worker(task: bytes, shard: bytes, of: str, number: int, name: str) -> Any:
    """Learn a shard on a worker."""
    return _run(lambda: unpack(task).run(unpack(shard)), of, number, name)


def run_part(task: bytes, converter: bytes, of: str, number: int, name: str, part: Any) -> Any:
    """Learn a shard on a worker which Dask has made there."""
    return _run(lambda: unpack(task).run(DelayedShard(part, unpack(converter), name)), of, number, name)


def _run(task: Callable[[], Any], of: str, number: int, name: str) -> Any:
    try:
        return task()
    except Exception as error:
        failed = shard_error(of, number, name, f" on {get_worker().address}", error)
        failed.add_note("".join(traceback.format_exception(error)))
    # Not in the handler: Dask sends errors with all that they came from, which the client may have no classes for.
    raise failed
