"""A ranker that learns while it ranks: log first, acknowledge, then learn; no answer that was acknowledged is lost."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from perceptrank.io.model_file import model_text, parse_model
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import one_query
from perceptrank.learners.listwise import ListwisePerceptron
from perceptrank.learners.registry import restore
from perceptrank.serve.documents import Arranged, Document, arrange, graded
from perceptrank.serve.errors import (
    DamagedLogError,
    FeatureMismatchError,
    InvalidRequestError,
    LearningOffError,
    OverloadedError,
    ServiceError,
    UnknownError,
)
from perceptrank.serve.learning import find_weights
from perceptrank.serve.log.log import Addition, Row, damage
from perceptrank.serve.log.opening import open_log
from perceptrank.serve.log.records import (
    AnswerEntry,
    Entry,
    FixedEntry,
    ModelEntry,
    NamesEntry,
    as_bytes,
    decode,
    digest_of,
    encode,
)
from perceptrank.serve.rankings import Rankings
from perceptrank.serve.replay import BLOCK, Current, nothing_before, replay
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.challengers import (
    Standings,
    check_addition,
    due_promotion,
    make_promotion,
    make_removal,
    restore_challengers,
)
from perceptrank.serve.snapshots import Snapshots
from perceptrank.serve.submissions import (
    Acknowledgement,
    Answer,
    EntryRequest,
    Mark,
    agree,
    in_order,
    other_features,
    repeated,
    started,
)

logger = logging.getLogger("perceptrank.serve")
_TICK = 0.2  # seconds between looks at whether a snapshot is due
_LOOK = 1.0  # seconds between looks at whether the log is still there


class Ranked(NamedTuple):
    """A ranking.

    Attributes
    ----------
    ranking_id : str
        Id to answer it by.
    order : list of str
        Ids of the documents, best first.
    scores : dict of str to float
        Scores by id, in the order of the request.
    model_version : int
        Version of the model that ranked.
    arranged : Arranged
        The documents as the model took them.
    model : Learner
        The model that ranked.
    """

    ranking_id: str
    order: list[str]
    scores: dict[str, float]
    model_version: int
    arranged: Arranged
    model: Learner


class ServedRanker:
    """One model behind a log, in a folder.

    `rank` never waits for learning: a model is replaced as a whole by the one that has learned more. `feedback` and
    `learn` return futures, which are done once the answer is on disk; it is learned right after. All answers are
    logged by one thread and learned by another, in the order of the log, so that a replay of the log has the same bits.

    Parameters
    ----------
    folder : Path
        Folder of the log and the snapshots; made if it is not there.
    model : Learner, optional
        What a new folder starts from; by default a `ListwisePerceptron` that has learned nothing. A folder that has a
        log goes on with what it has.
    fixed : bool
        That model ranks, and stays as it is.
    challengers : mapping from names to Learner, optional
        Models that learn silently; those whose names the log has are what it says.
    settings : Settings, optional
        Limits and intervals.
    check_all : bool
        Check the whole log at the start, not only what came after the newest snapshot.
    database : str, optional
        Address of the PostgreSQL database that has the log; by default, an SQLite file in the folder has it.

    Attributes
    ----------
    messages : list of str
        What was found, and done about it, at the start.
    snapshots : Snapshots
        The versions that are kept as model files.
    problem : str
        Why nothing is learned now; empty if all is well.
    watch : callable or None
        Called by the log's thread with the model before, the model after, and the entries that were learned between.

    Raises
    ------
    ServiceError
        If the log cannot be trusted, or began with another model.
    OSError
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from perceptrank.serve.documents import Document
    >>> folder = tempfile.TemporaryDirectory()
    >>> ranker = ServedRanker(Path(folder.name))
    >>> documents = [Document("shoe", {"bm25": 4.1}), Document("boot", {"bm25": 3.9})]
    >>> ranker.learn(documents, {"boot": 1.0}, event_id="1").result()
    Acknowledgement(event_id='1', sequence=3, duplicate=False)
    >>> ranker.flush()
    >>> ranker.rank(documents).order
    ['boot', 'shoe']
    >>> ranker.close()
    >>> folder.cleanup()
    """

    def __init__(
        self,
        folder: Path,
        model: Learner | None = None,
        settings: Settings | None = None,
        *,
        check_all: bool = True,
        database: str | None = None,
        fixed: bool = False,
        challengers: Mapping[str, Learner] | None = None,
    ) -> None:
        self.folder, self.settings = folder, settings or Settings()
        self.messages: list[str] = []
        self.problem = ""
        self.snapshot_problem = ""
        self.watch: Callable[[Current, Current, Sequence[tuple[Row, Entry]]], None] | None = None
        (folder / "versions").mkdir(parents=True, exist_ok=True)
        self.snapshots = Snapshots(folder / "versions")
        self._log = open_log(folder, database)
        self.messages += self._log.warnings
        try:
            self._current = self._recovered(check_all)
            if self._current is None:
                self._log_entry(_model_entry(model or ListwisePerceptron(), "start", fixed=fixed))
            elif model is not None and (_text(model), fixed) != self._beginning():
                raise InvalidRequestError(
                    f"{folder} has a log already, which began with another model",
                    "leave --model and --incumbent out to go on with it, or promote the model",
                )
            self._rankings = Rankings(self._log.secret, time.time_ns() // 1000, self.settings)
        except sqlite3.OperationalError:
            self._log.close()
            raise
        except sqlite3.DatabaseError as error:
            self._log.close()
            raise damage(self._log.path, error) from None
        except BaseException:
            self._log.close()
            raise
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Answer | EntryRequest | Mark] = SimpleQueue()
        self._closing = threading.Event()
        self._is_closed = False
        self._logged = self.current.version
        self._learner = ThreadPoolExecutor(1, f"learner of {folder.name}")
        self._learning: Future[None] | None = None
        self._saved = max(self.snapshots.versions(), default=-1)
        self._writer = threading.Thread(target=self._write, name=f"log of {folder.name}", daemon=True)
        self._saver = threading.Thread(target=self._save_now_and_then, name=f"snapshots of {folder.name}", daemon=True)
        self._writer.start()
        self._saver.start()
        try:
            for name, one in (challengers or {}).items():
                if name not in self.current.shadow.known:
                    self.add_challenger(name, one).result()
        except BaseException:
            self.close()
            raise

    # Start

    def _recovered(self, check_all: bool) -> Current | None:
        """Return the newest valid snapshot and what the log has after it; None if the log is empty."""
        newest: Current | None = None
        ahead: Current | None = None
        end, _ = self._log.end()
        for one in self.snapshots.valid():
            if one.version > end:
                ahead = ahead or one
            elif self._log.link_of(one.version) == one.link:
                newest = one
                break
        if (bad := self._log.first_bad(0 if check_all or newest is None else newest.version)) is not None:
            n_cut = self._log.cut_from(bad)
            self.messages.append(
                f"{self._log.path}: the end of the log was damaged; {n_cut} entries from {bad} on are cut off and "
                "kept in the table 'cut'"
            )
            return self._recovered(check_all)
        try:
            found = replay(self._log.rows(0 if newest is None else newest.version), newest)
        except ValueError as error:
            raise DamagedLogError(f"{self._log.path}: {error}", "was it written by a newer perceptrank?") from None
        if ahead is not None:
            # What was learned is kept: the log, which lacks the end of what the snapshot has seen, goes on from it.
            self.messages.append(
                f"{self._log.path} ends at entry {end}, before the snapshot of version {ahead.version}: it goes on "
                "from the model of that snapshot"
            )
            self._current = found
            reason = f"snapshot of version {ahead.version}, which the log had lost"
            self._log_entry(_model_entry(ahead.model, reason, fixed=ahead.shadow.is_fixed))
            for entry in restore_challengers(ahead.shadow, self.current.shadow):
                self._log_entry(entry)
            for version in self.snapshots.versions():
                if version > end:
                    self.snapshots.path(version).rename(self.snapshots.path(version).with_suffix(".lost"))
            return self._current
        return found

    def _beginning(self) -> tuple[str, bool]:
        """Return the text of the model that the log began with, and whether it stays as it is."""
        first = next(self._log.rows(), None)
        entry = None if first is None else decode(first.record)
        if not isinstance(entry, ModelEntry | FixedEntry):
            return "", False
        # Not its text in the log: another version of perceptrank may have written that.
        model = restore(str(self._log.path), parse_model(str(self._log.path), entry.document))
        return _text(model), isinstance(entry, FixedEntry)

    # Ranking

    @property
    def current(self) -> Current:
        """The model now, and its version."""
        current = self._current
        assert current is not None
        return current

    def rank(self, documents: Sequence[Document]) -> Ranked:
        """Rank documents, and remember them for the answer.

        Parameters
        ----------
        documents : sequence of Document

        Raises
        ------
        ServiceError
            If the documents break a rule, or have other features than the model.
        """
        current = self.current
        arranged = arrange(documents, current)
        scores = self._scores(current, arranged)
        order = np.argsort(-scores, kind="stable")
        ids = arranged.ids
        return Ranked(
            self._rankings.add(arranged),
            [ids[i] for i in order.tolist()],
            dict(zip(ids, scores.tolist(), strict=True)),
            current.version,
            arranged,
            current.model,
        )

    @staticmethod
    def _scores(current: Current, arranged: Arranged) -> Floats:
        model, X = current.model, arranged.X
        try:
            # What `predict` does with one query, whose features are known to be in order.
            ready = model.ready_model(X.shape[1], arranged.names)
            return ready.block_scores(X, one_query(len(X)), arranged.names)
        except ServiceError:
            raise
        except ValueError as error:
            raise InvalidRequestError(str(error), "check the features") from None

    # Answers

    def feedback(
        self,
        ranking_id: str,
        grades: Mapping[str, float],
        *,
        event_id: str | None = None,
        weight: float = 1.0,
        omit: bool = False,
        together: list[Answer] | None = None,
    ) -> Future[Acknowledgement]:
        """Take the answer to a ranking.

        Parameters
        ----------
        ranking_id : str
            Id that `rank` has returned.
        grades : mapping from ids of documents to grades
            The answer.
        event_id : str, optional
            Id of the answer: one that comes twice counts once. By default that of the ranking.
        weight : float
            Weight of the query.
        omit : bool
            Leave out documents without a grade; by default, theirs is 0.
        together : list of Answer, optional
            The answer is added to this list, for `submit`, so that several are logged together.

        Returns
        -------
        Future of Acknowledgement
            Done once the answer is on disk; it raises a `ServiceError` if that fails.

        Raises
        ------
        ServiceError
            If the ranking is unknown or has expired, a grade or the weight breaks a rule, or too many answers wait.
        """
        answer = self._answer(self._rankings.find(ranking_id), grades, event_id or ranking_id, ranking_id, weight, omit)
        return self._submitted(answer, together)

    def learn(
        self,
        documents: Sequence[Document],
        grades: Mapping[str, float],
        *,
        event_id: str,
        weight: float = 1.0,
        omit: bool = False,
        together: list[Answer] | None = None,
    ) -> Future[Acknowledgement]:
        """Take a query with its answer.

        Parameters
        ----------
        documents : sequence of Document
        grades : mapping from ids of documents to grades
            The answer.
        event_id : str
            Id of the answer: one that comes twice counts once.
        weight : float
            Weight of the query.
        omit : bool
            Leave out documents without a grade; by default, theirs is 0.
        together : list of Answer, optional
            The answer is added to this list, for `submit`, so that several are logged together.

        Returns
        -------
        Future of Acknowledgement
            Done once the answer is on disk; it raises a `ServiceError` if that fails.

        Raises
        ------
        ServiceError
            If the documents, a grade or the weight break a rule, or too many answers wait.
        """
        arranged = arrange(documents, self.current)
        return self._submitted(self._answer(arranged, grades, event_id, None, weight, omit), together)

    def submit(self, answers: list[Answer]) -> None:
        """Hand several answers to the log at once; if it is closed, their futures say so.

        Parameters
        ----------
        answers : list of Answer
            As `feedback` and `learn` have added them to `together`.
        """
        with self._lock:
            if not self._is_closed:
                for one in answers:
                    self._queue.put(one)
                return
        for one in answers:
            one.future.set_exception(_stopping())

    def _submitted(self, answer: Answer, together: list[Answer] | None) -> Future[Acknowledgement]:
        if together is None:
            self._put(answer)
        else:
            together.append(answer)
        return answer.future

    def _answer(
        self,
        arranged: Arranged,
        grades: Mapping[str, float],
        event_id: str,
        ranking_id: str | None,
        weight: float,
        omit: bool,
    ) -> Answer:
        if not self.current.model.accepts_weights and weight != 1.0:
            raise InvalidRequestError(
                f"{self.current.model.name} takes no weights of queries, got {weight}", "leave weight out"
            )
        if weight != 0.0 and not 1e-100 <= weight <= 1e100:
            raise InvalidRequestError(f"weight must be 0, or from 1e-100 to 1e100, got {weight}", "leave weight out")
        ids, X, relevance = graded(arranged, grades, omit=omit)
        entry = AnswerEntry(time.time_ns(), event_id, ranking_id, ids, as_bytes(X), as_bytes(relevance), float(weight))
        if self._queue.qsize() >= self.settings.waiting_answers:
            raise OverloadedError(
                f"{self.settings.waiting_answers} answers wait to be logged", "send it again a little later"
            )
        return Answer(entry, arranged.names, started())

    def _put(self, item: Answer | EntryRequest | Mark) -> None:
        with self._lock:
            if self._is_closed:
                raise _stopping()
            self._is_closed = isinstance(item, Mark) and item.is_last
            self._queue.put(item)

    # Versions

    def versions(self) -> list[int]:
        """Return the versions that have a snapshot.

        Returns
        -------
        list of int
            Newest first.
        """
        return self.snapshots.versions()

    def roll_back(self, version: int) -> Future[int]:
        """Go on with the model of any earlier version.

        Parameters
        ----------
        version : int
            From 1 on.

        Returns
        -------
        Future of int
            Number of the version that this makes; it raises a `ServiceError` if there is no such version.
        """

        def make(_: Current) -> Entry:
            restored = self._version(version)
            return _model_entry(restored.model, f"rollback to version {version}", fixed=restored.shadow.is_fixed)

        return self._request(make)

    def promote(self, model: Learner, reason: str = "promoted", *, fixed: bool = False) -> Future[int]:
        """Go on with another model.

        Challengers stay, and are compared with it from then on.

        Parameters
        ----------
        model : Learner
        reason : str
            Kept in the log.
        fixed : bool
            It stays as it is, as does one that cannot learn; it may then know fewer features than there are.

        Returns
        -------
        Future of int
            Number of the version that this makes.
        """
        return self._request(lambda _: _model_entry(model, reason, fixed=fixed or not model.learns))

    def _request(self, make: Callable[[Current], Entry]) -> Future[int]:
        future: Future[int] = started()
        self._put(EntryRequest(make, future))
        return future

    def _version(self, version: int) -> Current:
        """Return any version, learned again from the newest snapshot before it; called in the log's thread."""
        if not 1 <= version <= self.current.version:
            raise UnknownError(
                f"there is no version {version}", f"versions are 1 to {self.current.version}; GET /v1/model/versions"
            )
        known = (self.snapshots.read(one) for one in self.snapshots.versions() if one <= version)
        start = next((one for one in known if one is not None and self._log.link_of(one.version) == one.link), None)
        found = replay(self._log.rows(0 if start is None else start.version), start, version)
        assert found is not None
        return found

    # Challengers

    def add_challenger(self, name: str, model: Learner | int, measure: str = "ndcg@10") -> Future[int]:
        """Let a model learn silently from the same answers, and compare it with the model that ranks.

        Parameters
        ----------
        name : str
            Name of the challenger.
        model : Learner or int
            What it starts from: a model, or any version of this ranker.
        measure : str
            Measure used to compare it with the model that ranks.

        Returns
        -------
        Future of int
            Number of the log's entry; it raises a `ServiceError` if the name is taken, there are too many, or the model
            has other features.

        Raises
        ------
        ServiceError
            If the name or the measure breaks a rule.
        """
        make = check_addition(name, measure)
        return self._request(
            lambda current: make(current, self._version(model).model if isinstance(model, int) else model)
        )

    def remove_challenger(self, name: str) -> Future[int]:
        """Remove a challenger.

        Parameters
        ----------
        name : str
            Name of the challenger.

        Returns
        -------
        Future of int
            Number of the log's entry; it raises a `ServiceError` if there is no such challenger.
        """
        return self._request(lambda current: make_removal(current, name))

    def promote_challenger(self, name: str) -> Future[int]:
        """Rank with a challenger from now on.

        Parameters
        ----------
        name : str
            Name of the challenger.

        Returns
        -------
        Future of int
            Number of the version that this makes; it raises a `ServiceError` if there is no such challenger.
        """
        return self._request(lambda current: make_promotion(current, name))

    def standings(self) -> dict[str, Any]:
        """Return the model that ranks, and how its challengers compare with it.

        Intervals have the error rate `error` over all rounds, however often one looks; so has `better`, over all
        challengers of the model that ranks now.

        Returns
        -------
        dict
            Plain values.
        """
        return Standings.of(self.current, self.settings).as_plain()

    # The log's thread

    def _write(self) -> None:
        self._try_again()  # a kill may have come before a promotion
        is_last = False
        while not is_last:
            batch = [self._queue.get()]
            with suppress(Empty):
                while len(batch) < self.settings.group_answers:
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
            refused = self._fail(error)
            for one in answers:
                if not one.future.done():
                    one.future.set_exception(refused)

    def _take(self, answers: list[Answer]) -> None:
        if self.problem:
            self._catch_up()
        self._promote_if_due()
        additions: list[Addition] = []
        entries: list[Entry] = []
        outcomes: list[tuple[Answer, Acknowledgement | ServiceError]] = []
        new: dict[str, tuple[int, bytes]] = {}
        before = self._log.find_events([one.entry.event_id for one in answers])
        if self.current.n_features is None:
            self._finish_learning()
        # Answers that are being learned from have the features that the model has before.
        current = self.current
        names, n_features, end = current.names, current.n_features, self._logged
        for one in answers:
            entry = in_order(one, names)
            digest, width = digest_of(entry), entry.X.shape[1]
            if (used := new.get(entry.event_id) or before.get(entry.event_id)) is not None:
                outcomes.append((one, repeated(entry, digest, used)))
                continue
            if n_features is None:
                if (wrong := _mismatch(current, width, one.names)) is not None:
                    outcomes.append((one, wrong))
                    continue
                names, n_features = one.names, width
                first = NamesEntry(entry.time, width, None if names is None else list(names))
                additions.append(Addition(encode(first)))
                entries.append(first)
            elif width != n_features or not agree(one.names, names):
                outcomes.append((one, other_features()))
                continue
            additions.append(Addition(encode(entry), entry.event_id, digest))
            entries.append(entry)
            new[entry.event_id] = (end + len(additions), digest)
            outcomes.append((one, Acknowledgement(entry.event_id, end + len(additions), False)))
        rows = self._log.append(additions) if additions else []
        for one, outcome in outcomes:
            if isinstance(outcome, Acknowledgement):
                one.future.set_result(outcome)
            else:
                one.future.set_exception(outcome)
        if rows:
            self._logged = rows[-1].sequence
            self._finish_learning()
            self._learning = self._learner.submit(self._learn, list(zip(rows, entries, strict=True)))

    def _learn(self, logged: list[tuple[Row, Entry]]) -> None:
        """Learn what was logged, in a thread of its own: meanwhile, what came next is logged."""
        try:
            for place in range(0, len(logged), BLOCK):
                before, block = self.current, logged[place : place + BLOCK]
                self._current = before.after_all(block)
                if (watch := self.watch) is not None:  # which another thread may take away
                    watch(before, self._current, block)
        except Exception as error:
            self._fail(error)
            raise

    def _finish_learning(self) -> None:
        """Wait until all that was logged is learned; raise if that failed."""
        learning, self._learning = self._learning, None
        if learning is not None:
            learning.result()

    def _promote_if_due(self) -> None:
        """Log the promotion of a challenger that is shown to be better, before what comes next is logged."""
        if due_promotion(self.current, self.settings) is not None:
            self._finish_learning()
            if (entry := due_promotion(self.current, self.settings)) is not None:
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
        number, link = self._log.end()
        try:  # before it is logged: a log with what cannot be read again would be of no use
            before = nothing_before(entry) if self._current is None else self._current
            after = before.after(Row(number + 1, b"", link), entry)
        except ValueError as error:
            raise InvalidRequestError(f"the model cannot be kept: {error}", "nothing was changed") from None
        (row,) = self._log.append([Addition(encode(entry))])
        self._current = replace(after, link=row.link)
        self._logged = row.sequence

    def _fail(self, error: Exception) -> LearningOffError:
        """Turn learning off until the log can be written again, or what it has can be learned."""
        before, self.problem = self.problem, f"the log cannot be written: {error}"
        if not isinstance(error, (sqlite3.Error, OSError)):
            self.problem = f"learning failed: {type(error).__name__}: {error}"
            if self.problem != before:  # it is tried again every second
                logger.error("%s: %s", self.folder.name, self.problem, exc_info=error)
        advice = getattr(error, "advice", "free some space, and send the answer again with the same event_id")
        return LearningOffError(f"{self.problem}; ranking goes on", advice)

    def _catch_up(self) -> None:
        """Open the log again, and learn what it has that was not learned; so a commit of unknown outcome is settled."""
        with suppress(Exception):  # it was said already, or is learned again
            self._finish_learning()
        self._log.reopen()
        if self._log.link_of(self.current.version) != self.current.link:
            raise OSError("it lacks answers that were acknowledged: start again, to go on from what was learned")
        for row in self._log.rows(self.current.version):
            self._current = self.current.after(row, decode(row.record))
        self._logged = self.current.version
        self._log.check_writable()
        self.problem = ""

    def _try_again(self) -> None:
        """Wait until all is learned, find out whether it can be logged again, or no longer, and promote who is due."""
        try:
            if self.problem:
                self._catch_up()
            else:
                self._log.ping()
            self._finish_learning()
            self._promote_if_due()
        except Exception as error:
            self._fail(error)

    # Snapshots and stopping

    def _save_now_and_then(self) -> None:
        last = looked = time.monotonic()
        while not self._closing.wait(_TICK):
            if (self.problem or time.monotonic() - looked > _LOOK) and self._queue.empty():
                looked = time.monotonic()
                with suppress(OverloadedError):
                    self._put(Mark(started()))
            new = self.current.version - self._saved
            elapsed = time.monotonic() - last
            if new >= self.settings.snapshot_answers or (new > 0 and elapsed >= self.settings.snapshot_seconds):
                self.save()
                last = time.monotonic()

    def save(self) -> None:
        """Write a snapshot of the model now; a failure is kept in `snapshot_problem`, and tried again later."""
        current = self.current
        try:
            self.snapshots.write(current, self.settings.snapshots)
            self._saved, self.snapshot_problem = current.version, ""
        except Exception as error:  # whatever it is, the log has everything
            self.snapshot_problem = f"no snapshot can be written: {error}"

    def warm_up(self) -> None:
        """Rank and learn something with a copy of the model, so that no request waits for compiled code."""
        current = self.current
        X = np.zeros((2, current.n_features or 2))
        X[0, 0] = 1.0
        arranged = Arranged(["1", "2"], X, current.names)
        entry = AnswerEntry(0, "", None, arranged.ids, as_bytes(X), as_bytes([1, 0]), 1.0)
        with suppress(ValueError, ServiceError):
            self._scores(current, arranged)
            learned = current.after(Row(0, b"", b""), entry)
            self._scores(learned, arranged)

    def flush(self) -> None:
        """Wait until all answers so far are logged and learned."""
        future: Future[None] = started()
        self._put(Mark(future))
        future.result()

    def close(self) -> None:
        """Log and learn what waits, write a snapshot, and stop."""
        if self._is_closed:
            return
        future: Future[None] = started()
        self._put(Mark(future, is_last=True))
        self._closing.set()
        self._writer.join()
        self._learner.shutdown()
        self._saver.join()
        if self.current.version != self._saved:
            self.save()
        self._log.close()

    def status(self) -> dict[str, Any]:
        """Return how it is doing.

        Returns
        -------
        dict
            Plain values: version and algorithm of the model, numbers of answers, the size of the log, and its
            `problem`.
        """
        current = self.current
        return {
            "model_version": current.version,
            "algorithm": current.model.name,
            "answers": current.answers,
            "refused_answers": current.refused,
            "last_refusal": current.refusal,
            "waiting_answers": self._queue.qsize(),
            "waiting_rankings": len(self._rankings),
            "log_bytes": self._log.size,
            "learning": not self.problem,
            "problem": self.problem or self.snapshot_problem,
        }


def _stopping() -> OverloadedError:
    return OverloadedError("the service is stopping", "send it again once it has started")


def _mismatch(current: Current, n_features: int, names: tuple[str, ...] | None) -> FeatureMismatchError | None:
    """Return why a model that does not learn could never rank these features; None if it can, or will learn."""
    try:
        if current.shadow.is_fixed:
            find_weights(current.model, n_features, names)
    except ValueError as error:
        return FeatureMismatchError(str(error), "send the features that it has weights of")
    return None


def _model_entry(model: Learner, reason: str, *, fixed: bool) -> ModelEntry | FixedEntry:
    kind = FixedEntry if fixed else ModelEntry
    return kind(time.time_ns(), reason, _text(model).encode())


def _text(model: Learner) -> str:
    return model_text(model.as_document())
