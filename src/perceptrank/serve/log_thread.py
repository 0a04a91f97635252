"""The log of a ranker and the two threads behind it: one logs answers, the other learns from what was logged."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue

from perceptrank.io.model_file import model_text
from perceptrank.learners.learner import Learner
from perceptrank.learners.listwise import ListwisePerceptron
from perceptrank.serve.documents import MOST_FEATURES
from perceptrank.serve.errors import (
    DamagedLogError,
    FeatureMismatchError,
    InvalidRequestError,
    LearningOffError,
    OverloadedError,
    ServiceError,
    TooLargeError,
    UnknownError,
)
from perceptrank.serve.learning import check_bounded, check_width, find_weights
from perceptrank.serve.log.log import Addition, Log, Row, all_lost, last_acknowledged, note_acknowledged
from perceptrank.serve.log.records import (
    Entry,
    FixedEntry,
    ImpressionEntry,
    ModelEntry,
    NamesEntry,
    PromotionEntry,
    QueryEntry,
    ShownEntry,
    decode,
    digest_of,
    encode,
    ids_of,
)
from perceptrank.serve.replay import BLOCK, Current, nothing_before, replay
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.challengers import check_challenger_width, due_promotion, restore_challengers
from perceptrank.serve.shadow.shadow import restore_learner
from perceptrank.serve.snapshots import Snapshots
from perceptrank.serve.submissions import (
    Acknowledgement,
    Answer,
    EntryRequest,
    Mark,
    agree,
    answered_before,
    in_order,
    other_features,
    repeated,
)
from perceptrank.serve.traces import span
from perceptrank.stream.memory import RoomError

logger = logging.getLogger("perceptrank.serve")
_PER_ENTRY = 2**14  # bytes of the pages that an entry touches, beside its record
_MOST_ROOM = 2**28


class LogThread:
    """Logs, acknowledges and learns what is put into its queue, in that order."""

    def __init__(self, folder: Path, log: Log, snapshots: Snapshots, settings: Settings) -> None:
        self.log = log
        self.messages: list[str] = []  # problems found at the start, and what was done about them
        self.problem = ""  # why nothing is learned now; empty if all is well
        # Called by the learning thread with the states before and after, and the entries learned between them.
        self.watch: Callable[[Current, Current, Sequence[tuple[Row, Entry]]], None] | None = None
        self._folder, self._snapshots, self._settings = folder, snapshots, settings
        self._current: Current | None = None
        self._logged = 0  # number of the last entry, which may not be learned yet
        self._room = _PER_ENTRY  # bytes that there must be before learning goes on: those of the append that failed
        self._queue: SimpleQueue[Answer | EntryRequest | Mark] = SimpleQueue()
        self._lock = threading.Lock()
        self.waiting_bytes = 0  # of the answers that wait to be logged
        self.is_closed = False
        self._learner = ThreadPoolExecutor(1, f"learner of {folder.name}")
        self._learning: list[Future[None]] = []
        self._learning_bytes = 0  # of the answers that are logged and wait to be learned
        self.is_compiling = False  # learning waits for compiled code; answers are logged and acknowledged meanwhile
        self._thread = threading.Thread(target=self._run, name=f"log of {folder.name}", daemon=True)
        for message in log.warnings:
            self._warn(message)

    def _warn(self, message: str) -> None:
        """Report a problem at once: the start may fail later on, and the next one finds it mended."""
        self.messages.append(message)
        logger.warning(message, extra={"fields": {"ranker": self._folder.name}})

    @property
    def current(self) -> Current:
        """The learner now, and its version."""
        current = self._current
        assert current is not None
        return current

    # Start

    def start(self, learner: Learner | None, *, fixed: bool, check_all: bool) -> None:
        """Continue from what the log has, or begin it with a learner; then start the threads."""
        self._current = self._recover(check_all)
        if self._current is None:
            if learner is not None and not fixed:
                check_bounded("the model", learner)
            self._log_entry(model_entry(learner or ListwisePerceptron(), "start", fixed=fixed))
        elif learner is not None and (_text(learner), fixed) != self._beginning():
            raise InvalidRequestError(
                f"{self._folder} has a log already, which began with another model",
                "leave --model, --incumbent and --algorithm out to go on with it, or promote the model",
            )
        elif not self.problem:
            try:
                self.log.make_room(self._room)
            except Exception as error:  # the disk is still full
                self._fail(error)
        self._logged = self.current.version
        self._thread.start()

    def _recover(self, check_all: bool) -> Current | None:
        """Return the newest valid snapshot with what the log has after it; None if the log is empty."""
        newest: Current | None = None
        ahead: Current | None = None
        end, _ = self.log.end()
        for snapshot in self._snapshots.valid():
            if snapshot.version > end:
                ahead = ahead or snapshot
            elif self.log.link_of(snapshot.version) == snapshot.link:
                newest = snapshot
                break
        if (bad := self.log.first_bad(0 if check_all or newest is None else newest.version)) is not None:
            n_cut = self.log.cut_from(bad)
            self._warn(
                f"{self.log.path}: the end of the log was damaged; {n_cut} entries from {bad} on are cut off and "
                "kept in the table 'cut'"
            )
            note_acknowledged(self._folder, *self.log.end())
            return self._recover(check_all)
        self._find_loss(end)
        try:
            current = replay(self.log.rows(0 if newest is None else newest.version), newest)
        except ValueError as error:
            raise DamagedLogError(f"{self.log.path}: {error}", "was it written by a newer perceptrank?") from None
        except Exception as error:
            if ahead is not None:
                raise
            self._warn(f"{self._fail(error)}")
            return newest or replay(self.log.rows(), until=1)  # the rest is tried again while it ranks
        if current is not None:
            self._restore_events(current.answers + current.impressions + current.notes)
        return current if ahead is None else self._continue_from(ahead, current, end)

    def _find_loss(self, end: int) -> None:
        """Report entries that were acknowledged and are gone, though the log looks whole; raise if all are."""
        sequence, link = last_acknowledged(self._folder)
        if self.log.link_of(sequence) == link:
            return
        kept = self.log.keep_unread()
        if end == 0:
            raise all_lost(self.log.path, sequence)
        self._warn(
            f"{self.log.path} has lost entries that were acknowledged: it ends at entry {end}, and lacks entry "
            f"{sequence} as it was; send the answers since then again, or restore it from a backup"
            + (f"; what could not be read is kept in {kept}" if kept else "")
        )
        self.log.cut_from(end + 1)  # event ids of entries that are gone, whose answers may be sent again
        note_acknowledged(self._folder, *self.log.end())

    def _restore_events(self, n_answers: int) -> None:
        """Restore event ids that are missing from the entries; without them, answers sent again would count twice."""
        if (n_events := self.log.count("events")) >= n_answers:
            return
        entries = ((row.sequence, decode(row.record)) for row in self.log.rows())
        answers = ((number, entry) for number, entry in entries if isinstance(entry, QueryEntry))
        while part := list(islice(answers, BLOCK)):
            self.log.add_events([(key, number, digest_of(entry)) for number, entry in part for key in ids_of(entry)])
        if n_restored := self.log.count("events") - n_events:
            self._warn(f"{self.log.path} lacked the event ids of {n_restored} answers: they are restored from entries")

    def _continue_from(self, ahead: Current, current: Current | None, end: int) -> Current:
        """Return a snapshot newer than the end of the log, which goes on from it: what was learned is kept."""
        self._warn(
            f"{self.log.path} ends at entry {end}, before the snapshot of version {ahead.version}: it goes on "
            "from the model of that snapshot"
        )
        self._current = current
        reason = f"snapshot of version {ahead.version}, which the log had lost"
        self._log_entry(model_entry(ahead.learner, reason, fixed=ahead.shadow.is_fixed))
        for entry in restore_challengers(ahead.shadow, self.current.shadow):
            self._log_entry(entry)
        for version in self._snapshots.versions():
            if version > end:
                self._snapshots.path(version).rename(self._snapshots.path(version).with_suffix(".lost"))
        return self.current

    def _beginning(self) -> tuple[str, bool]:
        """Return the text of the model that the log began with, and whether it is fixed."""
        first = next(self.log.rows(), None)
        entry = None if first is None else decode(first.record)
        if not isinstance(entry, ModelEntry):
            return "", False
        # Not its text in the log: another version of perceptrank may have written that.
        return _text(restore_learner(self.log.path, entry.document)), isinstance(entry, FixedEntry)

    # The queue: any thread

    def put(self, item: Answer | EntryRequest | Mark) -> None:
        """Queue an item; raise if the thread is stopping."""
        with self._lock:
            if self.is_closed:
                raise _stopping()
            self.is_closed = isinstance(item, Mark) and item.is_last
            self.waiting_bytes += item.n_bytes if isinstance(item, Answer) else 0
            self._queue.put(item)

    def submit(self, answers: list[Answer]) -> None:
        """Queue several answers at once; if the thread is stopping, their futures say so."""
        with self._lock:
            if not self.is_closed:
                self.waiting_bytes += sum(answer.n_bytes for answer in answers)
                for answer in answers:
                    self._queue.put(answer)
                return
        for answer in answers:
            answer.future.set_exception(_stopping())

    @property
    def n_waiting(self) -> int:
        """Number of items in the queue."""
        return self._queue.qsize()

    def close(self) -> None:
        """Finish what is queued and stop; the log stays open."""
        self.put(Mark(is_last=True))
        self._thread.join()
        self._learner.shutdown()

    # The thread

    def _run(self) -> None:
        self._try_again()  # a kill may have come before a promotion
        is_last = False
        while not is_last:
            batch = [self._queue.get()]
            with suppress(Empty):
                while len(batch) < self._settings.group_answers:
                    batch.append(self._queue.get_nowait())
            answers: list[Answer] = []
            for item in batch:
                if isinstance(item, Answer):
                    answers.append(item)
                    continue
                self._attempt(answers)
                answers = []
                if isinstance(item, EntryRequest):
                    self._carry_out(item)
                else:
                    is_last = item.is_last
                    self._try_again()
                    item.future.set_result(None)
            self._attempt(answers)

    def _attempt(self, answers: list[Answer]) -> None:
        """Log answers, acknowledge them, learn from them; if the log cannot be written, none is acknowledged."""
        if not answers:
            return
        try:
            self._take(answers)
        except Exception as error:
            refusal = self._fail(error)
            for answer in answers:
                if not answer.future.done():
                    answer.future.set_exception(refusal)
        finally:
            with self._lock:
                self.waiting_bytes -= sum(answer.n_bytes for answer in answers)

    def _take(self, answers: list[Answer]) -> None:
        if self.problem:
            self._catch_up()
        self._promote_if_due()
        additions: list[Addition] = []
        entries: list[Entry] = []
        outcomes: list[tuple[Answer, Acknowledgement | ServiceError]] = []
        new: dict[str, tuple[int, bytes]] = {}
        shown = [answer.entry for answer in answers if isinstance(answer.entry, ShownEntry)]
        of_lists = [key for entry in shown for key in (entry.end_id, entry.coins_id) if key]
        before = self.log.find_events([*(answer.entry.event_id for answer in answers), *of_lists])
        # Answers that are being learned from have the features that the model has before.
        current = self.current
        names, n_features, last = current.names, current.n_features, self._logged
        for answer in answers:
            entry = in_order(answer, names)
            digest, width = digest_of(entry), entry.n_features
            if (used := new.get(entry.event_id) or before.get(entry.event_id)) is not None:
                outcomes.append((answer, repeated(entry, digest, used)))
                continue
            if isinstance(entry, ShownEntry) and (end := new.get(entry.end_id) or before.get(entry.end_id)):
                outcomes.append((answer, answered_before(entry, end)))
                continue
            if isinstance(entry, ImpressionEntry) and (entry.coins_id in new or entry.coins_id in before):
                entry = entry.as_repeated()  # a session has seen this list before, under another id
            if n_features is None:
                if (refusal := _check_features(current, width, answer.names)) is not None:
                    outcomes.append((answer, refusal))
                    continue
                names, n_features = answer.names, width
                first = NamesEntry(entry.time, width, None if names is None else list(names))
                additions.append(Addition(encode(first)))
                entries.append(first)
            elif width != n_features or not agree(answer.names, names):
                outcomes.append((answer, other_features()))
                continue
            additions.append(Addition(encode(entry), ids_of(entry), digest))
            entries.append(entry)
            new |= dict.fromkeys(ids_of(entry), (last + len(additions), digest))
            acknowledged = Acknowledgement(entry.event_id, last + len(additions), False, answer.warning)
            outcomes.append((answer, acknowledged))
        rows = self._append(additions) if additions else []
        for answer, outcome in outcomes:
            if isinstance(outcome, Acknowledgement):
                answer.future.set_result(outcome)
            else:
                answer.future.set_exception(outcome)
        if rows:
            self._logged = rows[-1].sequence
            if not self.is_compiling or self._learning_bytes > self._settings.waiting_bytes:
                self._finish_learning()
            logged = list(zip(rows, entries, strict=True))
            if isinstance(entries[0], NamesEntry):  # which the next answers must agree with, learned or not
                self._current = current.after(*logged.pop(0))
            self._learning_bytes += sum(answer.n_bytes for answer in answers)
            self._learning.append(self._learner.submit(self._learn, logged))

    def prepare_learning(self, prepare: Callable[[], None]) -> None:
        """Do something before anything else is learned, in the thread that learns, without keeping answers waiting."""

        def run() -> None:
            try:
                prepare()
            finally:
                self.is_compiling = False

        self.is_compiling = True
        self._learner.submit(run)

    def _learn(self, logged: list[tuple[Row, Entry]]) -> None:
        """Learn what was logged, in a thread of its own, while the next answers are logged."""
        if logged[0][0].sequence != self.current.version + 1:  # what comes before failed, and is tried again with this
            return
        try:
            self._learn_blocks(logged)
        except Exception as error:
            self._fail(error)
            raise

    def _learn_blocks(self, logged: list[tuple[Row, Entry]]) -> None:
        for place in range(0, len(logged), BLOCK):
            before, block = self.current, logged[place : place + BLOCK]
            with span("learn", self._folder.name, len(block)):
                self._current = before.after_all(block)
            if (watch := self.watch) is not None:  # which another thread may take away
                watch(before, self._current, block)

    def _finish_learning(self) -> None:
        """Wait until all that was logged is learned; raise if that failed."""
        learning, self._learning, self._learning_bytes = self._learning, [], 0
        wait(learning)
        for part in learning:
            part.result()

    def _promote_if_due(self) -> None:
        """Log the promotion of a challenger that is shown to be better, before the next answers are logged."""
        if due_promotion(self.current, self._settings) is not None:
            self._finish_learning()
            if (entry := due_promotion(self.current, self._settings)) is not None:
                self._log_entry(entry)

    def _carry_out(self, item: EntryRequest) -> None:
        try:
            if self.problem:
                self._catch_up()
            self._finish_learning()
            self._log_entry(item.make(self.current))
            item.future.set_result(self.current.version)
        except ServiceError as error:
            item.future.set_exception(error)
        except Exception as error:
            item.future.set_exception(self._fail(error))

    def _log_entry(self, entry: Entry) -> None:
        number, link = self.log.end()
        try:  # before it is logged: an entry that cannot be read again would make the log useless
            before = nothing_before(entry) if self._current is None else self._current
            after = before.after(Row(number + 1, b"", link), entry)
        except ValueError as error:
            raise InvalidRequestError(f"the model cannot be kept: {error}", "nothing was changed") from None
        (row,) = self._append([Addition(encode(entry))])
        is_first, self._current = self._current is None, replace(after, link=row.link)
        self._logged = row.sequence
        if isinstance(entry, ModelEntry | PromotionEntry) and not is_first:
            fields = {"ranker": self._folder.name, "version": row.sequence}
            text = "%s: version %d ranks: %s"
            logger.info(text, *fields.values(), _why(entry), extra={"fields": fields})

    def _append(self, additions: list[Addition]) -> list[Row]:
        self._room = min(sum(len(addition.record) + _PER_ENTRY for addition in additions), _MOST_ROOM)
        with span("log", self._folder.name, len(additions)):
            rows = self.log.append(additions)
        with suppress(OSError):  # the one before is right as well
            note_acknowledged(self._folder, rows[-1].sequence, rows[-1].link)
        return rows

    def _fail(self, error: Exception) -> LearningOffError:
        """Turn learning off until the log can be written again, or its entries can be learned."""
        before, self.problem = self.problem, f"the log cannot be written: {error}"
        if not isinstance(error, (sqlite3.Error, OSError)):
            self.problem = f"learning failed: {type(error).__name__}: {error}"
            if self.problem != before:  # it is tried again every second
                logger.error("%s: %s", self._folder.name, self.problem, exc_info=error)
        advice = getattr(error, "advice", "free some space, and send the answer again with the same event_id")
        return LearningOffError(f"{self.problem}; ranking goes on", advice)

    def _catch_up(self) -> None:
        """Reopen the log, and learn its entries that were not learned; this settles a commit of unknown outcome."""
        with suppress(Exception):  # already reported, or learned again
            self._finish_learning()
        self.log.reopen()
        if self.log.link_of(self.current.version) != self.current.link:
            raise OSError("it lacks answers that were acknowledged: start again, to go on from what was learned")
        for row in self.log.rows(self.current.version):
            self._current = self.current.after(row, decode(row.record))
        self._logged = self.current.version
        self.log.make_room(self._room)
        self.problem = ""

    def _try_again(self) -> None:
        """Wait until all is learned, check that the log can still be written, and promote who is due."""
        try:
            if self.problem:
                self._catch_up()
            else:
                self.log.ping()
            self._finish_learning()
            self._promote_if_due()
        except Exception as error:
            self._fail(error)

    def version(self, version: int) -> Current:
        """Return any version, learned again from the newest snapshot before it; for this thread only."""
        if not 1 <= version <= self.current.version:
            raise UnknownError(
                f"there is no version {version}", f"versions are 1 to {self.current.version}; GET /v1/model/versions"
            )
        snapshots = self._snapshots.valid(version)
        start = next((saved for saved in snapshots if self.log.link_of(saved.version) == saved.link), None)
        current = replay(self.log.rows(0 if start is None else start.version), start, version)
        assert current is not None
        return current


def model_entry(learner: Learner, reason: str, *, fixed: bool) -> ModelEntry:
    """Return the entry after which a learner ranks; raise `ValueError` if no document can have its features."""
    width = learner.model.n_inputs
    if width > MOST_FEATURES:
        raise ValueError(
            f"a model to serve must have at most {MOST_FEATURES:,} features, as documents have, got {width:,}"
        )
    return (FixedEntry if fixed else ModelEntry)(time.time_ns(), reason, _text(learner).encode())


def _why(entry: ModelEntry | PromotionEntry) -> str:
    """Return in words why another model ranks."""
    if isinstance(entry, ModelEntry):
        return entry.reason
    rate = "" if entry.error is None else f" at an error rate of {entry.error:g}"
    return f"challenger {entry.name} promoted{rate}"


def _text(learner: Learner) -> str:
    return model_text(learner.as_document())


def _stopping() -> OverloadedError:
    return OverloadedError("the service is stopping", "send it again once it has started")


def _check_features(
    current: Current, n_features: int, names: tuple[str, ...] | None
) -> FeatureMismatchError | TooLargeError | None:
    """Return why the features of a first answer cannot be those of the ranker; None if they can."""
    try:
        if current.shadow.is_fixed:
            find_weights(current.learner, n_features, names)
        else:
            check_width(current.learner, n_features, names)
    except RoomError as error:
        return TooLargeError(f"the model that ranks is too large: {error}", "send fewer features")
    except ValueError as error:
        return FeatureMismatchError(str(error), "send features that it has weights for")
    for name, challenger in current.shadow.challengers.items():
        try:
            check_challenger_width(name, challenger.learner, n_features, names)
        except TooLargeError as error:
            return error
        except Exception:
            logger.exception("challenger %s cannot begin", name)  # it is stopped once it learns
    return None
