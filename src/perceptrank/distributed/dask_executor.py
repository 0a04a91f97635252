"""Learn shards on the workers of a Dask cluster."""

import queue
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from perceptrank.distributed.dask_parts import DelayedShard
from perceptrank.distributed.errors import ShardError
from perceptrank.distributed.executors import Outcome, Task
from perceptrank.distributed.shards import Shard, shard_error

try:
    import dask
    from dask import delayed
    from distributed import KilledWorker, LocalCluster, get_worker
except ImportError as error:
    raise ImportError(f"learning with Dask needs the extra dask: pip install 'perceptrank[dask]' ({error})") from None

_SHOWN = 5
_SPAWNING = "distributed.nanny.pre-spawn-environ"


def local_cluster(n_workers: int | None = None) -> Any:
    """Start a Dask cluster of processes of this machine, one thread each: a `distributed.LocalCluster`, to be closed.

    Dask tells its workers to return all memory at once (MALLOC_TRIM_THRESHOLD_); the system then gives out the blocks
    of features anew, page by page, and learning takes almost twice as long. This one does not, see docs/scale.md.

    Parameters
    ----------
    n_workers : int, optional
        Number of processes; default one per processor.
    """
    environment = {name: value for name, value in dask.config.get(_SPAWNING).items() if not name.startswith("MALLOC")}
    with dask.config.set({_SPAWNING: environment}):
        return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50)


class DaskExecutor:
    """Submit shards to a `distributed.Client`; Dask runs those of lost workers again.

    The common state travels inside each task, rather than as data of a worker, so that no worker's loss can take it
    along.

    Parameters
    ----------
    client : distributed.Client
    timeout : float, optional
        Seconds after which to give up if no shard was finished meanwhile.
    """

    def __init__(self, client: Any, timeout: float | None = None) -> None:
        self.client, self.timeout = client, timeout

    def map(self, task: Task, shards: Sequence[Shard]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number and outcome of each shard as it is done."""
        futures = self._submit(task, shards)
        done: queue.Queue[Any] = queue.Queue()
        numbers = {future.key: number for number, future in enumerate(futures)}
        pending = dict(enumerate(futures))
        try:
            for future in futures:
                future.add_done_callback(done.put)
            while pending:
                try:
                    future = done.get(timeout=self.timeout)
                except queue.Empty:
                    raise self._late(pending, shards) from None
                number = numbers[future.key]
                outcome = self._result(number, future, shards)
                del pending[number]
                futures[number] = None  # so that workers forget the outcome
                yield number, outcome
        finally:
            if pending:
                with suppress(Exception):  # without a scheduler, there is nothing to cancel
                    self.client.cancel(list(pending.values()), force=True)

    def _submit(self, task: Task, shards: Sequence[Shard]) -> list[Any]:
        if not all(isinstance(shard, DelayedShard) for shard in shards):
            numbers = range(len(shards))
            return [
                self.client.submit(run_on_worker, task, shard, number, pure=False)
                for number, shard in zip(numbers, shards, strict=True)
            ]
        calls = [
            delayed(run_part, pure=False)(task, shard.converter, shard.name, number, shard.part)
            for number, shard in enumerate(shards)
            if isinstance(shard, DelayedShard)
        ]
        futures: list[Any] = self.client.compute(calls)
        return futures

    def _result(self, number: int, future: Any, shards: Sequence[Shard]) -> Outcome:
        name, status = shards[number].name, future.status
        if status == "finished":
            try:
                outcome: Outcome = future.result()
                return outcome
            except (CancelledError, AsyncCancelledError, OSError):
                status = "lost"
        if status != "error":
            raise ShardError(
                number,
                f"shard {number} ({name}) is {status}: the scheduler was restarted or closed; checkpoint= keeps "
                "what was learned in the epochs before, and the same call goes on from there",
            )
        error = future.exception()
        if isinstance(error, ShardError):
            raise error
        if isinstance(error, KilledWorker):
            raise ShardError(
                number,
                f"shard {number} ({name}) was given up: the workers that had it were lost, one after the other; "
                f"perhaps they had too little memory ({error})",
            ) from None
        raise shard_error(number, name, "", error) from error

    def _late(self, pending: dict[int, Any], shards: Sequence[Shard]) -> TimeoutError:
        places = self.client.processing()
        where = {str(key): address for address, keys in places.items() for key in keys}
        shown = [
            f"shard {number} ({shards[number].name}) " + (f"on {where[future.key]}" if future.key in where else "waits")
            for number, future in list(pending.items())[:_SHOWN]
        ]
        more = f" and {len(pending) - _SHOWN} more" if len(pending) > _SHOWN else ""
        return TimeoutError(
            f"no shard was finished for {self.timeout:g} seconds; not done: {', '.join(shown)}{more}. What was "
            "learned in the epochs before is kept"
        )

    def __repr__(self) -> str:
        return f"DaskExecutor({self.client!r})"


def run_on_worker(task: Task, shard: Shard, number: int) -> Outcome:
    """Learn a shard on a worker."""
    try:
        return task.run(shard)
    except Exception as error:
        raise shard_error(number, shard.name, f" on {get_worker().address}", error) from error


def run_part(task: Task, converter: Any, name: str, number: int, part: Any) -> Outcome:
    """Learn a shard on a worker which Dask has made there."""
    try:
        return task.run(DelayedShard(part, converter, name))
    except Exception as error:
        raise shard_error(number, name, f" on {get_worker().address}", error) from error
