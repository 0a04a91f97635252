"""A ranker that learns while it ranks: log first, acknowledge, then learn; no acknowledged answer is ever lost."""

from __future__ import annotations

import logging
import math
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import one_query, policies_of, ready_model, takes_clicks
from perceptrank.serve.documents import Arranged, Document, arrange, graded, make_example
from perceptrank.serve.errors import (
    EventConflictError,
    ExpiredRankingError,
    InvalidRequestError,
    OverloadedError,
    ServiceError,
)
from perceptrank.serve.exploring import NOT_SHOWN, Explorer, Listed, Showing
from perceptrank.serve.learning import MODEL_BYTES, check_bounded, explores
from perceptrank.serve.log.log import Log, Row, damage
from perceptrank.serve.log.opening import open_log
from perceptrank.serve.log.records import (
    Answered,
    AnswerEntry,
    Entry,
    ImpressionEntry,
    QueryEntry,
    ShownEntry,
    as_bytes,
    as_numbers,
    digest,
)
from perceptrank.serve.log_thread import LogThread, model_entry
from perceptrank.serve.rankings import Rankings, Waiting
from perceptrank.serve.replay import Current
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.challengers import (
    LIKE_CLICKS,
    NOT_EXPLORED,
    Standings,
    check_addition,
    grades_are_doubtful,
    make_promotion,
    make_removal,
)
from perceptrank.serve.snapshots import Snapshots
from perceptrank.serve.submissions import Acknowledgement, Answer, EntryRequest, Mark, check_promotion, conflict
from perceptrank.stream.memory import limited_room

NOTHING_LEARNED = (
    "nothing is learned from clicks here: neither the model nor a challenger takes them. Start a ranker with "
    "--algorithm clicks, or add such a challenger"
)
logger = logging.getLogger("perceptrank.serve")
OPEN = ":open:"  # in the event ids of lists that are noted before a stop
_OWN_IDS = re.compile(r"^[0-9]+-[0-9]+-[0-9a-f]{16}:(:end|expired|open:)")  # of entries that nobody has sent
TICK = 0.2  # seconds between checks whether a snapshot is due
_LOOK = 1.0  # seconds between checks whether the log is still there
# Sends the request of an answer to the same path of another process.
Forward = Callable[[str, msgspec.Struct], "Future[Acknowledgement]"]


def draw_start() -> int:
    """Return a number for the ids of rankings that no other start of a primary has."""
    return time.time_ns() // 1000


class Ranked(NamedTuple):
    """A ranking: the ids of its documents, best first, their scores by id, and the learner that ranked.

    The first `places` are shown in the order that the exploration `policy` has drawn; 0 if nobody says that they are.
    """

    ranking_id: str
    order: list[str]
    scores: dict[str, float]
    model_version: int
    arranged: Arranged
    learner: Learner
    policy: str
    places: int


class ServedRanker:
    """A model behind a log, in a folder; its methods raise a `ServiceError` for what they cannot carry out.

    `rank` never waits for learning. Answers return futures, which are done once they are on disk; they are learned
    right after, in the order of the log, so that a replay gives bit-identical models. Changes of the model, and of its
    challengers, return futures of the number of the new version. Futures raise a `ServiceError`. Methods take:

    - `documents`: a sequence of `Document`;
    - `showing`: a `Showing`, how many documents are shown, to whom, and whether they may be explored;
    - `entry`: what the log has of a list that was shown;
    - `ranking_id`: the id that `rank` has returned;
    - `grades`: a mapping from ids of documents to grades;
    - `clicks`: the ids of documents that were clicked, or a mapping from ids to numbers from 0 to 1;
    - `examined`: what the user has looked at: ids of documents, or the last place; whatever was clicked is added;
    - `more`: more clicks may follow: all are learned after an answer without `more`, or once the ranking expires;
    - `event_id`: the id of the answer: an answer sent twice counts once; by default, the id of the ranking;
    - `weight`: the weight of the query;
    - `omit`: leave out documents without a grade; by default, their grade is 0;
    - `together`, `answers`: a list to add the answer to, for `submit`, so that several are logged together;
    - `name`: the name of a challenger;
    - `version`: any version from 1 on;
    - `model`: a model with the features of the ranker; of a challenger also any version of the ranker;
    - `measure`: the measure used to compare a challenger with the model that ranks; by default NDCG@10, or
      "preferences" if there is exploration or one of the two learns from clicks. "clicks@3:clip=10" estimates clicks
      per list, and "team-draft" interleaves the two;
    - `reason`: a text for the log;
    - `fixed`: the model ranks but does not learn; it may then know fewer features than there are.

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
    ServiceError or OSError
        If the log cannot be trusted or began with another model, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from perceptrank.serve.documents import Document
    >>> folder = tempfile.TemporaryDirectory()
    >>> ranker = ServedRanker(Path(folder.name))
    >>> documents = [Document("shoe", {"bm25": 4.1}), Document("boot", {"bm25": 3.9})]
    >>> ranker.learn(documents, {"boot": 1.0}, event_id="1").result()
    Acknowledgement(event_id='1', sequence=3, duplicate=False, warning='')
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
        (folder / "versions").mkdir(parents=True, exist_ok=True)
        self.snapshots = Snapshots(folder / "versions")
        log = open_log(folder, database)
        self.thread = LogThread(folder, log, self.snapshots, self.settings)
        try:
            self._init_answering(log.secret, draw_start())
            if model is not None:
                self._explorer.check(model)  # before there is a log of it
            self.thread.start(model, fixed=fixed, check_all=check_all)
            self._explorer.check(self.current.learner)
            self._adopt_open(log, self.current.open)
        except BaseException as error:
            log.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise damage(log.path, error) from None
            raise
        self._saved = max(self.snapshots.versions(), default=-1)
        self._saver = threading.Thread(target=self._save_now_and_then, name=f"snapshots of {folder.name}", daemon=True)
        self._saver.start()
        try:
            for name, challenger in (challengers or {}).items():
                if name not in self.current.shadow.known:
                    self.add_challenger(name, challenger).result()
        except BaseException:
            self.close()
            raise

    def _init_answering(self, secret: bytes, start: int) -> None:
        """Get ready to rank and to take answers, whoever logs them."""
        self.messages, self.snapshot_problem, self.secret = self.thread.messages, "", secret
        self.owners: dict[str, Forward] = {}  # of rankings that other processes made, by the starts of their ids
        self._rankings = Rankings(secret, start, self.settings)
        self._explorer = Explorer(self.settings, secret)
        self._closing = threading.Event()
        self._answering, self._is_stopping = threading.RLock(), False  # of all that changes what was said of rankings
        self._orphans: dict[str, float] = {}  # lists of replicas that are open, and since when

    @property
    def current(self) -> Current:
        """The learner now, and its version."""
        return self.thread.current

    @property
    def problem(self) -> str:
        """Reason why learning is off; empty if it is on."""
        return self.thread.problem

    def rank(self, documents: Sequence[Document], showing: Showing | None = None) -> Ranked:
        """Rank documents, and remember them for the answer; `showing` says how they are shown.

        A session that asks again for the same documents of the same query gets the list that it has.
        """
        current, showing = self.current, showing or Showing()
        showing.check()
        arranged = arrange(documents, current)
        scores, ids, coins = _scores(current, arranged), arranged.ids, None
        order, known = np.argsort(-scores, kind="stable").tolist(), None
        if showing.session is not None:
            coins, before = self._explorer.draw_session(digest([*showing, ids]))
            known = self._rankings.find_drawn(coins) or self._rankings.find_drawn(before)
        if known is not None and not known[1].is_answered:
            ranking_id, listed = known[0], known[1].listed
        else:
            number = self._rankings.next_number()
            if coins is None:
                coins = self._explorer.draw_coins(self._rankings.start, number)
            try:
                # Shown again, by coins whose clicks are known, it teaches nothing.
                listed = (
                    known[1].listed.as_repeated()
                    if known is not None
                    else self._explorer.list_documents(current, arranged, scores, order, showing, coins)
                )
            except ValueError as error:
                raise InvalidRequestError(str(error), "check the features, or explore less") from None
            ranking_id = self._rankings.add(number, Waiting(arranged, listed), current.names)
        if listed.by or listed.order != listed.base or known is not None:
            first = set(listed.order)
            order = [*listed.order, *(row for row in order if row not in first)]
        ranked, by_id = [ids[i] for i in order], dict(zip(ids, scores.tolist(), strict=True))
        shown = (listed.policy, len(listed.order)) if listed.is_shown else ("", 0)
        return Ranked(ranking_id, ranked, by_id, current.version, arranged, current.learner, *shown)

    # Answers

    def owner_of(self, ranking_id: str) -> Forward | None:
        """Return what sends the request of an answer to the process that made the ranking; None if it is this one."""
        return self.owners.get(ranking_id.partition("-")[0])

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
        with self._answering:
            own = event_id or ranking_id
            waiting = self._find(ranking_id, own, AnswerEntry)
            future = self._submit(waiting.arranged, grades, own, ranking_id, weight, omit, together)
            if not waiting.said:  # whoever answers by grades says nothing of clicks
                self._end(waiting, future)
        return future

    def _find(self, ranking_id: str, event_id: str, kind: type[QueryEntry]) -> Waiting:
        """Return a ranking; if it has expired, what the log has of it, so that an answer sent again is a duplicate."""
        try:
            return self._rankings.find(ranking_id)
        except ExpiredRankingError:
            entry = None
            with suppress(Exception):  # the log may be out of reach
                entry = self._find_answer(event_id)
            if not isinstance(entry, kind) or entry.ranking_id != ranking_id:
                raise
            return _waiting_of(entry)

    def _find_answer(self, event_id: str) -> Entry | None:
        """Return the entry of an event id, None if it is not in the log."""
        with closing(self.thread.log.reader()) as log:
            event = log.find_events([event_id]).get(event_id)
            return None if event is None else log.entry(event.sequence)

    @staticmethod
    def _end(waiting: Waiting, future: Future[Acknowledgement]) -> None:
        """Take a ranking as answered, unless its answer cannot be logged."""
        if not waiting.is_answered:
            waiting.is_answered = True
            future.add_done_callback(lambda done: setattr(waiting, "is_answered", done.exception() is None))

    def clicks(
        self,
        ranking_id: str,
        clicks: Mapping[str, float] | Sequence[str],
        *,
        examined: Sequence[str] | float | None = None,
        more: bool = False,
        event_id: str | None = None,
        together: list[Answer] | None = None,
    ) -> Future[Acknowledgement]:
        """Take the clicks on a ranking that was shown; an empty list is an answer, too."""
        with self._answering:
            if self._is_stopping:
                raise OverloadedError("the service is stopping", "send it again once it has started")
            waiting = self._find(ranking_id, event_id or ranking_id, ShownEntry)
            own, seen = _places(waiting, clicks, examined)
            said = digest([ranking_id, sorted(own.items()), sorted(seen.items()), more])
            event_id = event_id or (f"{ranking_id}:{said.hex()}" if more else ranking_id)
            if waiting.said.get(event_id, (said,))[0] != said:
                raise conflict(event_id)
            is_new = event_id not in waiting.said
            waiting.said[event_id] = said, own, seen
            try:
                kind = ShownEntry if more else ImpressionEntry
                entry = _as_entry(kind, ranking_id, waiting, event_id, said)
                future = self._log(entry, waiting.arranged.names, together, self._click_warning())
            except BaseException:
                if is_new:
                    del waiting.said[event_id]
                raise
            waiting.listed = waiting.listed._replace(is_shown=True)  # or it could not have been clicked
            if is_new:
                future.add_done_callback(lambda done: self._unsay(waiting, event_id, done))
            if not more:
                self._end(waiting, future)
        return future

    def _unsay(self, waiting: Waiting, event_id: str, done: Future[Acknowledgement]) -> None:
        """Forget what could not be logged."""
        if done.exception() is not None:
            with self._answering:
                waiting.said.pop(event_id, None)

    def _click_warning(self) -> str:
        current = self.current
        if policies_of(current.learner) and not explores(current.learner, self.settings):
            return NOT_EXPLORED
        takers = [current.learner, *(each.learner for each in current.shadow.challengers.values())]
        is_judged = any(each.is_by_clicks for each in current.shadow.challengers.values())
        return "" if is_judged or any(map(takes_clicks, takers)) else NOTHING_LEARNED

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
            name = self.current.learner.name
            raise InvalidRequestError(f"{name} takes no query weights, got {weight}", "leave weight out")
        if weight != 0.0 and not 1e-100 <= weight <= 1e100:
            raise InvalidRequestError(f"weight must be 0, or from 1e-100 to 1e100, got {weight}", "leave weight out")
        ids, X, relevance = graded(arranged, grades, omit=omit)
        entry = AnswerEntry(time.time_ns(), event_id, ranking_id, ids, as_bytes(X), as_bytes(relevance), float(weight))
        warning = LIKE_CLICKS if grades_are_doubtful(self.current, self.settings) else ""
        return self._log(entry, arranged.names, together, warning)

    def _log(
        self, entry: Answered, names: tuple[str, ...] | None, together: list[Answer] | None, warning: str = ""
    ) -> Future[Acknowledgement]:
        """Submit an entry, or add it to those that are logged together; raise if too many wait."""
        if _OWN_IDS.search(entry.event_id):
            raise InvalidRequestError(
                f"event_id must not have ::end, :expired or :open: after a ranking_id, got {entry.event_id!r}",
                "choose another",
            )
        settings, n_waiting, n_bytes = self.settings, self.thread.n_waiting, self.thread.waiting_bytes
        if n_waiting >= settings.waiting_answers or (n_bytes and n_bytes + entry.n_bytes > settings.waiting_bytes):
            raise OverloadedError(f"{n_waiting} answers of {n_bytes} bytes wait to be logged", "send it again later")
        answer = Answer(entry, names, warning)
        if together is None:
            self.thread.put(answer)
        else:
            together.append(answer)
        return answer.future

    # Lists that were shown

    def _adopt_open(self, log: Log, ranking_ids: Iterable[str]) -> None:
        """Remember lists that may still be clicked, from their notes in the log."""
        for ranking_id in ranking_ids:
            if (number := self.current.open.get(ranking_id)) is not None:
                self.adopt(ranking_id, cast(ShownEntry, log.entry(number)))

    def adopt(self, ranking_id: str, entry: ShownEntry) -> None:
        """Remember a list that may still be clicked, of an earlier start or of a replica that has stopped."""
        self._rankings.restore(ranking_id, _waiting_of(entry), self.current.names)

    def _log_expired(self) -> None:
        """Log lists that nobody has answered in time: what was not clicked says something too."""
        if self.thread.n_waiting < self.settings.waiting_answers // 2 and not self.problem:
            for ranking_id, waiting in self._rankings.take_expired():
                with self._answering:
                    if waiting.is_open:
                        self._note(ImpressionEntry, ranking_id, waiting, f"{ranking_id}:expired")

    def _adopt_orphans(self) -> None:
        """Take over lists whose replica is gone: those that are open for long, and that this process does not have."""
        now, before = time.monotonic(), self._orphans
        unknown = [key for key in self.current.open if key not in self._rankings]
        self._orphans = {key: before.get(key, now) for key in unknown}
        late = [key for key, since in self._orphans.items() if now - since > 2 * self.settings.ranking_seconds]
        if late:
            with closing(self.thread.log.reader()) as log:
                self._adopt_open(log, late)

    def _note_open(self) -> None:
        """Log the lists that may still be clicked, so that the next start remembers them; take no more clicks."""
        with self._answering:
            self._is_stopping = True
            for ranking_id, waiting in self._rankings.all_open():
                self._note(ShownEntry, ranking_id, waiting, f"{ranking_id}{OPEN}{time.time_ns()}")

    def _note(self, kind: type[ShownEntry], ranking_id: str, waiting: Waiting, event_id: str) -> None:
        entry = _as_entry(kind, ranking_id, waiting, event_id, digest([ranking_id, kind.__name__]))
        answer = Answer(entry, waiting.arranged.names)

        def check(done: Future[Acknowledgement]) -> None:
            if done.exception() is not None and not isinstance(done.exception(), EventConflictError):
                waiting.is_answered = False
                self._rankings.take_back(ranking_id, waiting)  # the log cannot be written, or is out of reach

        waiting.is_answered = kind is ImpressionEntry
        answer.future.add_done_callback(check)
        self.thread.submit([answer])

    # Versions

    def versions(self) -> list[int]:
        """Return the versions that have a snapshot, newest first."""
        return self.snapshots.versions()

    def roll_back(self, version: int) -> Future[int]:
        """Continue with the model of an earlier version."""

        def make(_: Current) -> Entry:
            restored = self.thread.version(version)
            return model_entry(restored.learner, f"rollback to version {version}", fixed=restored.shadow.is_fixed)

        return self._request(make)

    def promote(self, model: Learner, reason: str = "promoted", *, fixed: bool = False) -> Future[int]:
        """Rank with another model from now on, and compare challengers with it."""
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

    def add_challenger(self, name: str, model: Learner | int, measure: str | None = None) -> Future[int]:
        """Let a model learn silently from the same answers, and compare it with the model that ranks."""
        make = check_addition(name, measure, explored=self.settings.explore not in ("own", "none"))
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

        Intervals and `better` hold at the error rate `error` over all rounds, however often they are looked at.
        """
        return Standings.of(self.current, self.settings).as_plain()

    # Snapshots and stopping

    def _save_now_and_then(self) -> None:
        last, warned = time.monotonic(), False
        looked = last
        while not self._closing.wait(TICK):
            self._log_expired()
            self._adopt_orphans()
            if self.current.looks_like_clicks and not warned and not self.settings.judged:
                warned = True
                logger.warning("%s: %s", self.folder.name, LIKE_CLICKS, extra={"fields": {"ranker": self.folder.name}})
            is_idle = self.thread.n_waiting == 0 and not self.thread.is_compiling
            if is_idle and (self.problem or time.monotonic() - looked > _LOOK):
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

    def flush(self) -> None:
        """Wait until all answers so far are logged and learned."""
        mark = Mark()
        self.thread.put(mark)
        mark.future.result()

    def close(self) -> None:
        """Log and learn what waits, write a snapshot, and stop."""
        if self.thread.is_closed:
            return
        self._note_open()
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
            "impressions": current.impressions,
            "dropped_impressions": self._rankings.n_dropped,
            "warning": LIKE_CLICKS if grades_are_doubtful(current, self.settings) else "",
            "refused_answers": current.refused,
            "last_refusal": current.refusal,
            "waiting_answers": self.thread.n_waiting,
            "waiting_rankings": len(self._rankings),
            "log_bytes": self.thread.log.size,
            "learning": not self.problem,
            "problem": self.problem or self.snapshot_problem,
        }


def _waiting_of(entry: QueryEntry) -> Waiting:
    """Return the ranking that an entry is about, with the clicks that it has."""
    if not isinstance(entry, ShownEntry):
        return Waiting(Arranged(entry.documents, entry.X, None), NOT_SHOWN)
    names = None if entry.names is None else tuple(entry.names)
    propensity, *said = map(as_numbers, (entry.propensities, entry.clicks, entry.examined))
    shown = entry.order, entry.base, entry.policy, propensity, entry.coins, entry.user_query
    listed = Listed(*shown, True, entry.by, entry.chances, entry.version)
    clicks, examined = (
        {place: value for place, value in enumerate(values.tolist()) if not math.isnan(value)} for values in said
    )
    return Waiting(Arranged(entry.documents, entry.X, names), listed, said={"": (b"", clicks, examined)})


def _as_entry(kind: type[ShownEntry], ranking_id: str, waiting: Waiting, event_id: str, said: bytes) -> ShownEntry:
    """Return the entry of a list that was shown, with all clicks so far."""
    arranged, listed = waiting.arranged, waiting.listed._asdict()
    del listed["is_shown"]
    return kind(
        time=time.time_ns(),
        event_id=event_id,
        ranking_id=ranking_id,
        documents=arranged.ids,
        features=as_bytes(arranged.X),
        said=said,
        propensities=as_bytes(listed.pop("propensity")),
        clicks=as_bytes(waiting.values(1, 0.0)),
        examined=as_bytes(waiting.values(2, math.nan)),
        names=list(arranged.names) if kind is ShownEntry and arranged.names is not None else None,
        **listed,
    )


def _places(
    waiting: Waiting, clicks: Mapping[str, float] | Sequence[str], examined: Sequence[str] | float | None
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the places, from 0, of the clicks and their values, and of what was examined, 1, or was not, 0."""
    ids, order = waiting.arranged.ids, waiting.listed.order
    places = {ids[row]: place for place, row in enumerate(order)}

    def place_of(name: str, what: str) -> int:
        if name not in places:
            where = f"was ranked, but not shown among the first {len(order)}" if name in ids else "was not ranked"
            raise InvalidRequestError(
                f"{what} must be of documents that were shown: {name[:100]!r} {where}",
                "say with places, when ranking, how many documents are shown",
            )
        return places[name]

    listed = [clicks] if isinstance(clicks, str) else clicks
    values = listed if isinstance(listed, Mapping) else dict.fromkeys(listed, 1.0)
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
            rule = "clicks must be numbers from 0 to 1"
            raise InvalidRequestError(f"{rule}, got {value!r} for {name[:100]!r}", "send 1 for a click")
    own = {place_of(name, "clicks"): float(value) for name, value in values.items()}
    if examined is None:
        return own, {}
    if isinstance(examined, (bool, int, float, str)):
        is_place = not isinstance(examined, (bool, str)) and 0 <= examined <= len(order) and examined == int(examined)
        if not is_place:
            raise InvalidRequestError(
                f"examined must be ids, or a whole number from 0 to {len(order)}, the last place that was seen, got "
                f"{examined!r}",
                "count places from 1",
            )
        seen = set(range(int(examined)))
    else:
        seen = {place_of(name, "examined") for name in examined}
    seen |= {place for place, value in own.items() if value > 0.0}  # nobody clicks what they do not look at
    return own, {place: float(place in seen) for place in range(len(order))}


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


def warm_up_ranking(current: Current) -> None:
    """Read, rank and show something as requests are, so that none waits for compiled code."""
    arranged = make_example(current)
    Explorer(Settings(), b"").list_documents(current, arranged, _scores(current, arranged), [0, 1], Showing(), 1)


def warm_up_learning(current: Current) -> None:
    """Learn something with a copy of the model, and rank by what it has learned."""
    arranged = make_example(current)
    entry: Answered = AnswerEntry(0, "", None, arranged.ids, as_bytes(arranged.X), as_bytes([1, 0]), 1.0)
    if takes_clicks(current.learner):
        listed = Explorer(Settings(), b"").list_documents(current, arranged, np.zeros(2), [0, 1], Showing(), 1)
        entry = _as_entry(ImpressionEntry, "", Waiting(arranged, listed, said={"": (b"", {0: 1.0}, {})}), "", b"")
    _scores(current.after(Row(0, b"", b""), entry), arranged)
