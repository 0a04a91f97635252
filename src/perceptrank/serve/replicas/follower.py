"""The thread of a replica in place of a `LogThread`: it learns what the primary logs, and sends it the answers."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from perceptrank.serve.errors import KINDS, DamagedLogError, LearningOffError, ReadOnlyError, ServiceError
from perceptrank.serve.log.records import decode, encode, link_after
from perceptrank.serve.log_thread import LogThread
from perceptrank.serve.replay import BLOCK
from perceptrank.serve.replicas.links import AGAIN, Link
from perceptrank.serve.replicas.sources import Batch, Source
from perceptrank.serve.settings import Settings
from perceptrank.serve.snapshots import Snapshots
from perceptrank.serve.submissions import Acknowledgement, Answer, EntryRequest

_POLL = 0.05  # seconds between looks at a log that has nothing new
_LONGEST_PAUSE = 5.0  # seconds between attempts to reach a primary that is gone
_BYTES = 2**23  # of entries that are sent at once, one at least


class ForwardedEntry(msgspec.Struct):
    """The entry of an answer that a replica took, and the names of its features."""

    record: Annotated[bytes, msgspec.Meta(extra_json_schema={"pattern": "^([A-Za-z0-9+/]{4})+$"})]
    names: tuple[str, ...] | None


class _Results(msgspec.Struct):
    results: list[dict[str, Any]]


class Follower(LogThread):
    """Learns the entries of a primary's log in their order, so that its model is the primary's of the same version.

    Answers that are put into its queue are done once the primary has acknowledged them. A primary that is gone shows
    in `problem`, and ranking goes on; once it is back, so does learning.
    """

    log: Source  # type: ignore[assignment]

    def __init__(
        self, folder: Path, source: Source, connect: Callable[[str], Link], of: str, settings: Settings
    ) -> None:
        super().__init__(folder, source, Snapshots(folder / "versions"), settings)  # type: ignore[arg-type]
        self._connect, self._of = connect, of
        self._closing = threading.Event()
        self._acknowledged = 0  # the last entry that the primary has acknowledged to this replica
        self._current = source.start()
        self._end, self._contact = self._current.version, time.monotonic()

    def follow(self) -> None:
        """Start the threads."""
        self._thread.start()
        self._learner.submit(self._follow)

    @property
    def lag(self) -> dict[str, Any]:
        """Entries of the log that it knows of and has not learned, and seconds since it has last read the log."""
        seconds = time.monotonic() - self._contact
        behind = max(0, self._end - self.current.version)
        return {"replica_of": self._of, "entries_behind": behind, "contact_seconds": round(seconds, 3)}

    # Following: the learning thread

    def _follow(self) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            is_new = self._step()
            pause = min(max(0.1, 2 * pause), _LONGEST_PAUSE) if self.problem else 0.0 if is_new else _POLL

    def _step(self) -> bool:
        """Read and learn some entries; tell whether there were any."""
        try:
            batch = self.log.read(self.current.version)
            self._end, self._contact = batch.end, time.monotonic()
            is_other = batch.link != self.current.link
            if is_other:
                self._start_again()
            else:
                self._learn_batch(batch)
            self.problem = ""
            return is_other or bool(batch.rows)
        except Exception as error:  # whatever it is, ranking goes on with what there is
            self.problem = f"{self._of} cannot be followed: {error}"
            return False

    def _learn_batch(self, batch: Batch) -> None:
        number, link = self.current.version, self.current.link
        for row in batch.rows:
            number, link = number + 1, link_after(link, row.record)
            if row.sequence != number or row.link != link:
                raise DamagedLogError(f"entry {row.sequence} does not follow the one before it", "see --verify")
        for place in range(0, len(batch.rows), BLOCK):
            self._learn_blocks([(row, decode(row.record)) for row in batch.rows[place : place + BLOCK]])

    def _start_again(self) -> None:
        version, self._current = self.current.version, self.log.start()
        self._acknowledged = 0
        self._warn(
            f"the log of {self._of} no longer has the entry {version} that was learned here: it was cut or restored; "
            f"this replica goes on from version {self.current.version}"
        )

    # Answers: the thread of the queue, which LogThread runs

    def _take(self, answers: list[Answer]) -> None:
        """Send answers to the primary, and settle them as it says."""
        while answers:
            entries, n_bytes = list[ForwardedEntry](), 0
            for answer in answers:
                entries.append(ForwardedEntry(encode(answer.entry), answer.names))
                n_bytes += len(entries[-1].record)
                if n_bytes >= _BYTES:
                    break
            link, content = self._connect(self._folder.name), msgspec.json.encode(entries)
            results = link.call("POST", "/entries", _Results, content).results
            for answer, result in zip(answers[: len(entries)], results, strict=True):
                if (error := result.get("error")) is not None:
                    kind = KINDS.get(error["kind"], ServiceError)
                    answer.future.set_exception(kind(error["message"], error["advice"]))
                else:
                    taken = msgspec.convert(result, Acknowledgement)
                    self._acknowledged = max(self._acknowledged, taken.sequence)
                    answer.future.set_result(taken)
            answers = answers[len(entries) :]

    def _fail(self, error: Exception) -> LearningOffError:
        if isinstance(error, LearningOffError):
            return error
        return LearningOffError(f"the primary has not acknowledged the answer: {error}", AGAIN)

    def _carry_out(self, item: EntryRequest) -> None:
        item.future.set_exception(ReadOnlyError(f"this is a replica of {self._of}", "ask the primary for changes"))

    def _try_again(self) -> None:
        """Wait until what the primary has acknowledged is learned here, unless the primary is gone."""
        while self.current.version < self._acknowledged and not self.problem and not self._closing.wait(_POLL / 10):
            pass

    def close(self) -> None:
        """Send what is queued, and stop."""
        self._closing.set()
        super().close()
