"""A ranker that learns while it ranks: log first, acknowledge, then learn; no acknowledged answer is ever lost."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import one_query, ready_model
from perceptrank.serve.documents import Arranged, Document, arrange, graded
from perceptrank.serve.errors import InvalidRequestError, OverloadedError, ServiceError
from perceptrank.serve.learning import MODEL_BYTES, check_bounded
from perceptrank.serve.log.log import Row, damage
from perceptrank.serve.log.opening import open_log
from perceptrank.serve.log.records import AnswerEntry, Entry, as_bytes
from perceptrank.serve.log_thread import LogThread, model_entry
from perceptrank.serve.rankings import Rankings
from perceptrank.serve.replay import Current
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.challengers import Standings, check_addition, make_promotion, make_removal
from perceptrank.serve.snapshots import Snapshots
from perceptrank.serve.submissions import Acknowledgement, Answer, EntryRequest, Mark, check_promotion
from perceptrank.stream.memory import limited_room

_TICK = 0.2  # seconds between checks whether a snapshot is due
_LOOK = 1.0  # seconds between checks whether the log is still there


class Ranked(NamedTuple):
    """A ranking: the ids of its documents, best first, their scores by id, and the learner that ranked."""

    ranking_id: str
    order: list[str]
    scores: dict[str, float]
    model_version: int
    arranged: Arranged
    learner: Learner


class ServedRanker:
    """A model behind a log, in a folder; its methods raise a `ServiceError` for what they cannot carry out.

    `rank` never waits for learning. `feedback` and `learn` return futures, which are done once the answer is on disk;
    it is learned right after. Answers are learned in the order of the log, so that a replay gives bit-identical models.
    Changes of the model, and of its challengers, return futures of the number of the new version. Futures raise a
    `ServiceError` if what was asked for fails. Methods take:

    - `documents`: a sequence of `Document`;
    - `ranking_id`: the id that `rank` has returned;
    - `grades`: a mapping from ids of documents to grades;
    - `event_id`: the id of the answer: an answer sent twice counts once; by default, the id of the ranking;
    - `weight`: the weight of the query;
    - `omit`: leave out documents without a grade; by default, their grade is 0;
    - `together`, `answers`: a list to add the answer to, for `submit`, so that several are logged together;
    - `name`: the name of a challenger;
    - `version`: any version from 1 on.

    Parameters
    ----------
    folder : Path
        Folder of the log and the snapshots; created if missing.
    model : Learner, optional
        Model to start a new log with; by default an empty `ListwisePerceptron`. An existing log is continued.
    settings : Settings, optional
        Limits and intervals.
    check_all : bool
        Check the whole log at the start, not only the entries after the newest snapshot.
    database : str, optional
        Address of the PostgreSQL database with the log; by default, the log is an SQLite file in the folder.
    fixed : bool
        The model ranks but does not learn.
    challengers : mapping from names to Learner, optional
        Models that learn silently; names that the log already has are ignored.

    Attributes
    ----------
    messages : list of str
        Problems found at the start, and what was done about them.
    snapshots : Snapshots
        The versions that are kept as model files.
    thread : LogThread
        The log, and the threads that log and learn.

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
        self.snapshot_problem = ""
        (folder / "versions").mkdir(parents=True, exist_ok=True)
        self.snapshots = Snapshots(folder / "versions")
        log = open_log(folder, database)
        self.thread = LogThread(folder, log, self.snapshots, self.settings)
        self.messages = self.thread.messages
        try:
            self._rankings = Rankings(log.secret, time.time_ns() // 1000, self.settings)
            self.thread.start(model, fixed=fixed, check_all=check_all)
        except BaseException as error:
            log.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise damage(log.path, error) from None
            raise
        self._saved = max(self.snapshots.versions(), default=-1)
        self._closing = threading.Event()
        self._saver = threading.Thread(target=self._save_now_and_then, name=f"snapshots of {folder.name}", daemon=True)
        self._saver.start()
        try:
            for name, challenger in (challengers or {}).items():
                if name not in self.current.shadow.known:
                    self.add_challenger(name, challenger).result()
        except BaseException:
            self.close()
            raise

    @property
    def current(self) -> Current:
        """The learner now, and its version."""
        return self.thread.current

    @property
    def problem(self) -> str:
        """Reason why learning is off; empty if it is on."""
        return self.thread.problem

    def rank(self, documents: Sequence[Document]) -> Ranked:
        """Rank documents, and remember them for the answer."""
        current = self.current
        arranged = arrange(documents, current)
        scores = _scores(current, arranged)
        order = np.argsort(-scores, kind="stable")
        ids = arranged.ids
        return Ranked(
            self._rankings.add(arranged, current.names),
            [ids[i] for i in order.tolist()],
            dict(zip(ids, scores.tolist(), strict=True)),
            current.version,
            arranged,
            current.learner,
        )

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
        """Take the answer to a ranking."""
        arranged = self._rankings.find(ranking_id)
        return self._submit(arranged, grades, event_id or ranking_id, ranking_id, weight, omit, together)

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
        """Take a query with its answer."""
        return self._submit(arrange(documents, self.current), grades, event_id, None, weight, omit, together)

    def submit(self, answers: list[Answer]) -> None:
        """Log answers together that `feedback` and `learn` have collected."""
        self.thread.submit(answers)

    def _submit(
        self,
        arranged: Arranged,
        grades: Mapping[str, float],
        event_id: str,
        ranking_id: str | None,
        weight: float,
        omit: bool,
        together: list[Answer] | None,
    ) -> Future[Acknowledgement]:
        if not self.current.learner.accepts_query_weights and weight != 1.0:
            raise InvalidRequestError(
                f"{self.current.learner.name} takes no query weights, got {weight}", "leave weight out"
            )
        if weight != 0.0 and not 1e-100 <= weight <= 1e100:
            raise InvalidRequestError(f"weight must be 0, or from 1e-100 to 1e100, got {weight}", "leave weight out")
        ids, X, relevance = graded(arranged, grades, omit=omit)
        settings, n_waiting, n_bytes = self.settings, self.thread.n_waiting, self.thread.waiting_bytes
        if n_waiting >= settings.waiting_answers or (n_bytes and n_bytes + X.nbytes > settings.waiting_bytes):
            raise OverloadedError(
                f"{n_waiting} answers of {n_bytes} bytes wait to be logged", "send it again a little later"
            )
        entry = AnswerEntry(time.time_ns(), event_id, ranking_id, ids, as_bytes(X), as_bytes(relevance), float(weight))
        answer = Answer(entry, arranged.names)
        if together is None:
            self.thread.put(answer)
        else:
            together.append(answer)
        return answer.future

    # Versions

    def versions(self) -> list[int]:
        """Return the versions that have a snapshot, newest first."""
        return self.snapshots.versions()

    def roll_back(self, version: int) -> Future[int]:
        """Continue with the model of any earlier version."""

        def make(_: Current) -> Entry:
            restored = self.thread.version(version)
            return model_entry(restored.learner, f"rollback to version {version}", fixed=restored.shadow.is_fixed)

        return self._request(make)

    def promote(self, model: Learner, reason: str = "promoted", *, fixed: bool = False) -> Future[int]:
        """Rank with another model from now on, and compare challengers with it.

        It fails if the model has other features than the ranker.

        Parameters
        ----------
        model : Learner
        reason : str
            Kept in the log.
        fixed : bool
            The model does not learn; it may then know fewer features than there are.
        """
        fixed = fixed or not model.learns

        def make(current: Current) -> Entry:
            if not fixed:
                check_bounded("the model", model)
            check_promotion(model, current, fixed=fixed)
            return model_entry(model, reason, fixed=fixed)

        return self._request(make)

    def _request(self, make: Callable[[Current], Entry]) -> Future[int]:
        request = EntryRequest(make)
        self.thread.put(request)
        return request.future

    # Challengers

    def add_challenger(self, name: str, model: Learner | int, measure: str = "ndcg@10") -> Future[int]:
        """Let a model learn silently from the same answers, and compare it with the model that ranks.

        It fails if the name is taken, there are too many challengers, or the model has other features.

        Parameters
        ----------
        model : Learner or int
            What it starts from: a model, or any version of this ranker.
        measure : str
            Measure used to compare it with the model that ranks.
        """
        make = check_addition(name, measure)
        return self._request(
            lambda current: make(current, self.thread.version(model).learner if isinstance(model, int) else model)
        )

    def remove_challenger(self, name: str) -> Future[int]:
        """Remove a challenger."""
        return self._request(lambda current: make_removal(current, name))

    def promote_challenger(self, name: str) -> Future[int]:
        """Rank with a challenger from now on."""
        return self._request(lambda current: make_promotion(current, name))

    def standings(self) -> dict[str, Any]:
        """Return the model that ranks, and how its challengers compare with it.

        Intervals hold at the error rate `error` over all rounds, however often they are looked at; so does `better`,
        over all challengers of the model that ranks now.
        """
        return Standings.of(self.current, self.settings).as_plain()

    # Snapshots and stopping

    def _save_now_and_then(self) -> None:
        last = looked = time.monotonic()
        while not self._closing.wait(_TICK):
            if (self.problem or time.monotonic() - looked > _LOOK) and self.thread.n_waiting == 0:
                looked = time.monotonic()
                with suppress(OverloadedError):
                    self.thread.put(Mark())
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
        with suppress(Exception):  # whatever fails here fails again where it is reported
            _scores(current, arranged)
            learned = current.after(Row(0, b"", b""), entry)
            _scores(learned, arranged)

    def flush(self) -> None:
        """Wait until all answers so far are logged and learned."""
        mark = Mark()
        self.thread.put(mark)
        mark.future.result()

    def close(self) -> None:
        """Log and learn what waits, write a snapshot, and stop."""
        if self.thread.is_closed:
            return
        self.thread.close()
        self._closing.set()
        self._saver.join()
        if self.current.version != self._saved:
            self.save()
        self.thread.log.close()

    def status(self) -> dict[str, Any]:
        """Return version and algorithm of the model, numbers of answers, the size of the log, and its `problem`."""
        current = self.current
        return {
            "model_version": current.version,
            "algorithm": current.learner.name,
            "answers": current.answers,
            "refused_answers": current.refused,
            "last_refusal": current.refusal,
            "waiting_answers": self.thread.n_waiting,
            "waiting_rankings": len(self._rankings),
            "log_bytes": self.thread.log.size,
            "learning": not self.problem,
            "problem": self.problem or self.snapshot_problem,
        }


def _scores(current: Current, arranged: Arranged) -> Floats:
    """Return what `predict` would of one query, whose features are known to be in order."""
    try:
        with limited_room(MODEL_BYTES):
            model = ready_model(current.learner, arranged.X.shape[1], arranged.names)
            return model.block_scores(arranged.X, one_query(len(arranged.X)), arranged.names)
    except ServiceError:
        raise
    except ValueError as error:
        raise InvalidRequestError(str(error), "check the features") from None
