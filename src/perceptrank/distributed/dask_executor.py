"""Learn shards on the workers of a Dask cluster."""

from __future__ import annotations

import atexit
import hashlib
import queue
import shutil
import tempfile
import time
import traceback
import warnings
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from perceptrank.distributed.dask_parts import DelayedShard
from perceptrank.distributed.executors import Result, Work
from perceptrank.distributed.shards import ClusterError, ShardError, shard_error
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.cache_folder import cache_state, make_folder, read_trusted
from perceptrank.learners.registry import Plugin, load_plugin, plugins
from perceptrank.stream.columns import add_columns, added_columns
from perceptrank.stream.validation import check_positive_whole

_loading = Lock()


def pack(thing: Any) -> bytes:
    """Return an object as bytes; classes and columns of the main program go with it, others are imported by name."""
    from distributed.protocol.pickle import dumps

    packed: bytes = dumps((plugins(), dumps((added_columns(), thing))))
    return packed


def unpack(packed: bytes) -> Any:
    """Return what was packed; raise, with advice, if this process has not got its classes."""
    from distributed.protocol.pickle import loads

    needed, inner = loads(packed)
    with _loading:
        for plugin in needed:
            _load(plugin)
    try:
        columns, thing = loads(inner)
    except (ImportError, AttributeError) as error:
        raise type(error)(
            f"{error}: the worker must be able to import all classes of rankers, transforms and streams; install "
            "the package there, or define them in the main program"
        ) from None
    add_columns(columns)
    return thing


def _load(plugin: Plugin) -> None:
    """Load a plugin as if this process had been started with it."""
    if plugin in plugins():
        return
    folder = _folder() / hashlib.sha256(plugin.source).hexdigest()[:16]
    make_folder(folder)
    path = folder / plugin.file_name
    if not path.exists() or read_trusted(path) != plugin.source:
        with replaced_file(path) as file:
            file.write(plugin.source)
    load_plugin(plugin, path)


def _folder() -> Path:
    """Return a folder that nobody else can write: beside compiled kernels, which are kept by the names of files."""
    folder = cache_state().folder
    return Path(_temporary()) if folder is None else folder / "plugins"


@cache
def _temporary() -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


try:
    import dask
    from dask import delayed
    from distributed import KilledWorker, LocalCluster, get_worker
except ImportError as error:
    raise ImportError(f"learning with Dask needs the extra dask: pip install 'perceptrank[dask]' ({error})") from None

_SHOWN = 5
_LOOKS = 1.0  # seconds between two looks at whether there are workers
_UNDERWAY = {"lost", "pending"}
_FETCHES = 5.0  # seconds after which to look whether an outcome that does not arrive was lost
_LOSSES = 10  # of the outcome of one shard
_ANSWERS = 10.0  # seconds that a scheduler has to tell
_PATIENCE = 10.0, 300.0  # seconds without any worker, before a warning and before an error
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


class _Calls:
    """The calls of a task for each shard."""

    def __init__(self, client: Any, task: Work[Any], shards: Sequence[Any]) -> None:
        self.client, self.of, self.shards, self.common = client, task.of, shards, pack(task)

    def submit_all(self) -> list[Any]:
        """Return the futures of all shards; those that Dask makes are made together, as they share what they need."""
        if all(isinstance(shard, DelayedShard) for shard in self.shards):
            futures: list[Any] = self.client.compute([self._part(number) for number in range(len(self.shards))])
            return futures
        return [self.submit(number) for number in range(len(self.shards))]

    def submit(self, number: int) -> Any:
        """Return a new future of a shard."""
        shard = self.shards[number]
        if isinstance(shard, DelayedShard):
            return self.client.compute(self._part(number))
        return self.client.submit(run_on_worker, self.common, pack(shard), self.of, number, shard.name, pure=False)

    def _part(self, number: int) -> Any:
        shard = self.shards[number]
        call = delayed(run_part, pure=False)
        return call(self.common, pack(shard.converter), self.of, number, shard.name, shard.part)


class DaskExecutor:
    """Submit shards to a `distributed.Client`; Dask runs those of lost workers again.

    The common state travels inside each task, rather than as data of a worker, so that no worker's loss can take it
    along. Tasks and shards travel as bytes, which the task itself unpacks: a worker that cannot (a class of a module
    that it has not got) answers with an error, while one whose messages cannot be read leaves the cluster. With a
    `timeout`, it gives up if no shard was finished for so many seconds.
    """

    def __init__(self, client: Any, timeout: float | None = None) -> None:
        self.client, self.timeout = client, timeout

    def map(self, task: Work[Result], shards: Sequence[Any]) -> Iterator[tuple[int, Result]]:
        """Yield the number and outcome of each shard as it is done."""
        calls = _Calls(self.client, task, shards)
        done: queue.Queue[Any] = queue.Queue()
        pending = dict(enumerate(calls.submit_all()))
        numbers = {future.key: number for number, future in pending.items()}
        losses = dict.fromkeys(pending, 0)
        try:
            for future in pending.values():
                future.add_done_callback(done.put)
            del future  # so that workers forget outcomes
            while pending:
                key = self._next(done, lambda: self._late(task.of, pending, shards)).key
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
                    pending[number] = calls.submit(number)
                    numbers[pending[number].key] = number
                    pending[number].add_done_callback(done.put)
                    continue
                del pending[number]
                yield number, outcome
        finally:
            if pending:
                with suppress(Exception):  # without a scheduler, there is nothing to cancel
                    self.client.cancel(list(pending.values()), force=True)

    def _next(self, done: queue.Queue[Any], late: Callable[[], TimeoutError]) -> Any:
        """Return the next future that is done; raise if that takes too long, or nobody is there who could do it."""
        start = time.monotonic()
        without_workers, warned = start, False
        while True:
            left = _LOOKS if self.timeout is None else start + self.timeout - time.monotonic()
            try:
                return done.get(timeout=max(0.0, min(left, _LOOKS)))
            except queue.Empty:
                pass
            if self.timeout is not None and time.monotonic() >= start + self.timeout:
                raise late()
            if self._has_workers():
                without_workers, warned = time.monotonic(), False
                continue
            seconds = time.monotonic() - without_workers
            if self._has_ended() or (self.timeout is None and seconds > _PATIENCE[1]):
                raise ClusterError(
                    "the cluster has no workers left: they did not start, or all of them were lost; their logs say "
                    "why. What was learned in the epochs before is kept"
                )
            if seconds > _PATIENCE[0] and not warned:
                warned = True
                warnings.warn(
                    f"the cluster has no workers for {seconds:.0f} seconds: shards wait until some come",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _has_workers(self) -> bool:
        try:
            return bool(self.client.sync(self.client.scheduler.ncores, callback_timeout=_ANSWERS))
        except Exception:
            return True  # without a scheduler the futures tell, as they are lost

    def _has_ended(self) -> bool:
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

    def _late(self, of: str, pending: dict[int, Any], shards: Sequence[Any]) -> TimeoutError:
        places: dict[str, Any] = {}
        with suppress(Exception):
            places = self.client.sync(self.client.scheduler.processing, callback_timeout=_ANSWERS)
        where = {str(key): address for address, keys in places.items() for key in keys}
        shown = [
            f"{of} {number} ({shards[number].name}) " + (f"on {where[future.key]}" if future.key in where else "waits")
            for number, future in list(pending.items())[:_SHOWN]
        ]
        more = f" and {len(pending) - _SHOWN} more" if len(pending) > _SHOWN else ""
        return TimeoutError(
            f"no {of} was finished for {self.timeout:g} seconds; not done: {', '.join(shown)}{more}. What was "
            "learned in the epochs before is kept"
        )

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
