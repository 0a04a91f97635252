"""The engine: log, acknowledge, learn; what a crash, a full disk or damage leaves."""

import logging
import random
import re
import resource
import shutil
import sqlite3
import threading
import time
import tracemalloc

import numpy as np
import pytest
from support.answers import NAMES, QUIET, abandon, answer, document, offline, queries
from support.small_disk import mounted

import perceptrank as pr
from perceptrank.serve import ServedRanker, Service, Settings, verify
from perceptrank.serve.documents import Arranged, Document
from perceptrank.serve.errors import (
    DamagedLogError,
    EventConflictError,
    ExpiredRankingError,
    FeatureMismatchError,
    InvalidRequestError,
    LearningOffError,
    OverloadedError,
    UnknownError,
    UnknownRankingError,
)
from perceptrank.serve.exploring import Listed
from perceptrank.serve.learning import Columns
from perceptrank.serve.log.records import AnswerEntry, NamesEntry, as_bytes, decode, encode, link_after
from perceptrank.serve.log.sqlite import SqliteLog
from perceptrank.serve.rankings import Rankings, Waiting
from perceptrank.serve.snapshots import Snapshots
from perceptrank.serve.submissions import Acknowledgement
from perceptrank.serve.warm_up import warm_up


@pytest.fixture
def ranker(tmp_path):
    made = ServedRanker(tmp_path / "r", settings=QUIET)
    yield made
    made.close()


def learned(*names):
    """A model of features with these names, or with none."""
    model, X = pr.ListwisePerceptron(), np.eye(2, len(names))
    model.learn_one(X if None in names else Columns(X, names), [1, 0])
    return model


def test_answers_are_learned_as_offline_to_the_bit(ranker):
    made = queries(40)
    acknowledged = answer(ranker, made)
    assert [one.sequence for one in acknowledged] == list(range(3, 43))  # after the model and the names
    ranker.flush()
    expected = offline(made)
    assert document(ranker.current.learner) == document(expected)
    documents, _ = queries(1, seed=9)[0]
    ranked = ranker.rank(documents)
    X = np.array([[one.features[name] for name in NAMES] for one in documents])
    assert list(ranked.scores.values()) == expected.predict(X).tolist()
    assert ranked.order == [f"d{i}" for i in expected.rank(X)]
    assert ranked.model_version == 42


@pytest.mark.parametrize(
    "make",
    [
        lambda: pr.SlamPerceptron(transforms=["missing", "running"]),
        lambda: pr.Bagging(pr.Perceptron(average=True), n_members=2),
        lambda: pr.FixedRanker({"price": 2.0, "title": -1.0, "clicks": 0.5}),
        lambda: pr.Tournament([pr.SlamPerceptron(), pr.Perceptron()]),
        lambda: pr.Sum([pr.SlamPerceptron(transforms="running"), pr.Perceptron()]),
        lambda: pr.ListwisePerceptron(transforms="auto+bins"),
    ],
)
def test_scores_are_those_of_predict(tmp_path, make):
    made = queries(6)
    ranker = ServedRanker(tmp_path / "r", make(), QUIET)
    for documents, grades in made:
        names = ranker.current.names or NAMES
        X = np.array([[one.features[name] for name in names] for one in documents])
        ranked = ranker.rank(documents)
        assert list(ranked.scores.values()) == ranker.current.learner.predict(Columns(X, names)).tolist()
        ranker.feedback(ranked.ranking_id, grades).result(10)
        ranker.flush()
    assert ranker.current.refused == 0
    ranker.close()


@pytest.mark.parametrize("snapshot_at", [None, 0, 7, 20])
def test_a_start_replays_to_the_same_bits(tmp_path, snapshot_at):
    made = queries(30)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    answer(ranker, made[: snapshot_at or 0])
    if snapshot_at is not None:
        ranker.flush()
        ranker.save()
    answer(ranker, made[snapshot_at or 0 : 20])
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert document(again.current.learner) == document(offline(made[:20]))
    assert again.current.answers == 20
    answer(again, made[20:])
    again.close()
    assert document(again.current.learner) == document(offline(made))
    (found,) = verify(tmp_path)
    assert (found.answers, found.problems) == (30, ())
    assert found.snapshots == 1 + (snapshot_at is not None)
    assert document(pr.load(Snapshots(tmp_path / "r" / "versions").path(again.current.version))) == document(
        offline(made)
    )


def test_any_learner_goes_on_from_where_it_was(tmp_path):
    made = queries(24)
    model = offline(made[:6], pr.Bagging(pr.SlamPerceptron(transforms="running"), n_members=2))
    before = document(model)
    ranker = ServedRanker(tmp_path / "r", model, QUIET)
    answer(ranker, made[6:15])
    abandon(ranker)
    assert document(model) == before  # the caller's model is not touched
    again = ServedRanker(tmp_path / "r", model, QUIET)  # the model it began with: fine
    answer(again, made[15:])
    again.close()
    assert document(again.current.learner) == document(offline(made[6:], model))
    with pytest.raises(InvalidRequestError, match="began with another model"):
        ServedRanker(tmp_path / "r", pr.Perceptron(), QUIET)


def test_an_event_counts_once(ranker):
    (documents, grades), (others, other_grades) = queries(2)
    ranking = ranker.rank(documents).ranking_id
    first = ranker.feedback(ranking, grades, event_id="e1").result(10)
    assert not first.duplicate
    assert ranker.feedback(ranking, grades, event_id="e1").result(10) == Acknowledgement(
        first.event_id, first.sequence, True
    )
    with pytest.raises(EventConflictError, match="another answer, entry 3"):
        ranker.feedback(ranking, {"d0": 9.0}, event_id="e1").result(10)
    at_once = [ranker.learn(others, other_grades, event_id="e2") for _ in range(5)]
    assert sorted(one.result(10).duplicate for one in at_once) == [False, True, True, True, True]
    again = ranker.feedback(ranking, grades, event_id="e3").result(10)  # an event of its own is an answer of its own
    assert (again.sequence, again.duplicate) == (5, False)
    without = ranker.feedback(ranking, grades).result(10)
    assert without.event_id == ranking
    assert ranker.feedback(ranking, grades).result(10).duplicate
    ranker.flush()
    twice = [(documents, grades), (others, other_grades), (documents, grades), (documents, grades)]
    assert document(ranker.current.learner) == document(offline(twice))


def test_events_are_remembered_across_starts(tmp_path):
    documents, grades = queries(1)[0]
    for expected in (False, True):
        ranker = ServedRanker(tmp_path / "r", settings=QUIET)
        assert ranker.learn(documents, grades, event_id="e").result(10).duplicate is expected
        ranker.close()
    assert ranker.current.answers == 1


def test_answers_out_of_order_are_learned_in_the_order_they_come(ranker):
    made = queries(5)
    ids = [ranker.rank(documents).ranking_id for documents, _ in made]
    for i in (3, 0, 4, 1, 2):
        ranker.feedback(ids[i], made[i][1]).result(10)
    ranker.flush()
    assert document(ranker.current.learner) == document(offline([made[i] for i in (3, 0, 4, 1, 2)]))


def test_unknown_and_expired_rankings(tmp_path):
    made = queries(4)
    ranker = ServedRanker(tmp_path / "r", settings=Settings(rankings=2, snapshot_seconds=1e9))
    ids = [ranker.rank(documents).ranking_id for documents, _ in made]
    for wrong in ("", "x", "1-2-3", ids[0][:-1] + "!", "9-9-" + ids[0].split("-")[2], "1-" + "9" * 50 + "-a"):
        with pytest.raises(UnknownRankingError, match="there is no ranking"):
            ranker.feedback(wrong, made[0][1])
    with pytest.raises(ExpiredRankingError, match="has expired"):
        ranker.feedback(ids[0], made[0][1])
    ranker.feedback(ids[3], made[3][1]).result(10)
    ranker.close()
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert again.feedback(ids[3], made[3][1]).result(10).duplicate
    with pytest.raises(ExpiredRankingError, match="survive a restart only if"):
        again.feedback(ids[2], made[2][1])
    again._rankings._clock = lambda: time.monotonic() + 3601
    late = again.rank(made[0][0]).ranking_id
    again._rankings._clock = lambda: time.monotonic() + 7300
    with pytest.raises(ExpiredRankingError, match="3600 seconds"):
        again.feedback(late, made[0][1])
    again.close()


def test_rankings_take_bounded_memory(tmp_path):
    ranker = ServedRanker(tmp_path / "r", settings=Settings(ranking_bytes=40_000, snapshot_seconds=1e9))
    for documents, _ in queries(200):
        ranker.rank(documents)
    assert 10 < len(ranker._rankings) <= 40_000 // 1000
    ranker.close()


@pytest.mark.parametrize(
    ("n_documents", "id_length", "n_features", "name_length", "shared"),
    [(5, 3, 3, 5, True), (100, 200, 1, 5, True), (1, 3, 1, 100_000, False), (2, 3, 100, 500, False)],
)
@pytest.mark.parametrize("letter", ["a", "\N{OCTOPUS}"])  # of 1 byte and of 4
def test_what_waiting_rankings_keep_is_what_is_counted(letter, n_documents, id_length, n_features, name_length, shared):
    most = 2_000_000
    rankings = Rankings(b"secret", 1, Settings(ranking_bytes=most))
    known = tuple(f"{j}{letter * name_length}" for j in range(n_features))
    tracemalloc.start()
    try:
        for _ in range(200):
            ids = [f"{i}{letter * id_length}" for i in range(n_documents)]
            names = known if shared else tuple(f"{j}{letter * name_length}" for j in range(n_features))
            arranged = Arranged(ids, np.zeros((n_documents, n_features)), names)
            order = list(range(min(10, n_documents)))
            listed = Listed(order, order.copy(), "none", np.ones(len(order)), 2**62, None, False, "", {}, 1)
            rankings.add(rankings.next_number(), Waiting(arranged, listed), known)
        ids = names = arranged = listed = order = None
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= 1.1 * most
    assert 0.5 * kept <= rankings._size <= 1.5 * kept


def test_a_ranking_that_comes_again_is_kept_once():
    """A replica sends what it keeps again if the connection broke; the ranking waits from then on."""
    now = [0.0]
    rankings = Rankings(b"secret", 1, Settings(ranking_seconds=10), clock=lambda: now[0])

    def waiting(coins):
        listed = Listed([0], [0], "none", np.ones(1), coins, None, False, "", {}, 1)
        return Waiting(Arranged(["a"], np.zeros((1, 1)), None), listed)

    first, second = (rankings.add(rankings.next_number(), waiting(coins), None) for coins in (1, 2))
    size = rankings._size
    now[0] = 5.0
    rankings.restore(first, waiting(1), None)
    assert (len(rankings), rankings._size) == (2, size)
    now[0] = 12.0
    rankings.take_expired()
    assert first in rankings
    assert second not in rankings
    now[0] = 16.0
    rankings.take_expired()
    assert (len(rankings), rankings._size) == (0, 0)


def test_answers_that_wait_are_bounded_by_what_they_take(tmp_path, monkeypatch):
    """Many answers to one ranking have a copy of its features each."""
    ranker = ServedRanker(tmp_path / "r", settings=Settings(snapshot_seconds=1e9, waiting_bytes=10_000))
    documents, grades = queries(1, m=20)[0]
    ranked, go_on, append = ranker.rank(documents), threading.Event(), ranker.thread.log.append
    monkeypatch.setattr(ranker.thread.log, "append", lambda additions: go_on.wait(10) and append(additions))
    size = 20 * (3 + 1) * 8
    taken = [ranker.feedback(ranked.ranking_id, grades, event_id=str(i)) for i in range(10_000 // size)]
    with pytest.raises(OverloadedError, match=r"answers of 9600 bytes wait to be logged"):
        ranker.feedback(ranked.ranking_id, grades, event_id="more")
    go_on.set()
    assert [one.result(10).duplicate for one in taken] == [False] * len(taken)
    ranker.flush()
    assert ranker.thread.waiting_bytes == 0
    large, grades = queries(1, m=400)[0]  # alone, it may take more
    assert not ranker.learn(large, grades, event_id="large").result(10).duplicate
    ranker.close()


def test_documents_without_a_grade_have_0_or_are_left_out(ranker):
    (documents, _), (others, _) = queries(2)
    ranker.learn(documents, {"d1": 2.0}, event_id="a").result(10)
    ranker.learn(others, {"d1": 2.0, "d3": 1.0}, event_id="b", omit=True).result(10)
    ranker.flush()
    zero = {"d0": 0.0, "d1": 2.0, "d2": 0.0, "d3": 0.0}
    expected = offline([(documents, zero), ([others[1], others[3]], {"d1": 2.0, "d3": 1.0})])
    assert document(ranker.current.learner) == document(expected)


def test_weights_of_queries_are_logged_and_learned(tmp_path):
    documents, grades = queries(1)[0]
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    ranker.learn(documents, grades, event_id="a", weight=2.5).result(10)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    X = np.array([[one.features[name] for name in NAMES] for one in documents])
    expected = pr.ListwisePerceptron()
    expected.learn_one(Columns(X, NAMES), list(grades.values()), 2.5)
    assert document(again.current.learner) == document(expected)
    for wrong in (-1.0, float("nan"), float("inf"), 1e-200):
        with pytest.raises(InvalidRequestError, match="weight must be"):
            again.learn(documents, grades, event_id="b", weight=wrong)
    again.close()


@pytest.mark.parametrize(
    ("documents", "kind", "message"),
    [
        ([], InvalidRequestError, "must not be empty"),
        ([Document("a", {"title": 1.0}), Document("a", {"title": 1.0})], InvalidRequestError, "'a' twice"),
        ([Document("a", {"title": 1.0})], FeatureMismatchError, "lacks the feature 'price'"),
        ([Document("a", dict.fromkeys([*NAMES, "new"], 1.0))], FeatureMismatchError, "'new' that the ranker does not"),
        ([Document("a", {"title": 1.0, "x": 1.0, "y": 1.0})], FeatureMismatchError, "'x' that the ranker"),
        ([Document("a", [1.0])], FeatureMismatchError, "1 features, expected 3"),
        ([Document("a", [1.0, None, 2.0])], InvalidRequestError, "got nan for feature 'price' of document 'a'"),
        ([Document("a", [1.0, float("inf"), 2.0])], InvalidRequestError, "got inf"),
    ],
)
def test_features_that_do_not_fit_are_refused(ranker, documents, kind, message):
    answer(ranker, queries(1))  # the first answer tells the names
    ranker.flush()
    with pytest.raises(kind, match=message):
        ranker.rank(documents)


def test_the_order_of_names_does_not_matter(ranker):
    made = queries(6)
    answer(ranker, made[:3])
    for documents, grades in made[3:]:
        turned = [Document(one.id, dict(reversed(one.features.items()))) for one in documents]
        ranker.learn(turned, grades, event_id=str(id(documents))).result(10)
    ranker.flush()
    assert document(ranker.current.learner) == document(offline(made))


def test_the_first_answer_tells_the_names_whatever_was_ranked_before(ranker):
    made = queries(3)
    ranker.rank([Document("a", {"typo": 1.0})])
    turned = [Document(one.id, dict(reversed(one.features.items()))) for one in made[1][0]]
    rankings = [ranker.rank(documents).ranking_id for documents in (made[0][0], turned)]
    other = ranker.rank([Document("d0", [1.0, 2.0])]).ranking_id
    answers = [ranker.feedback(one, grades) for one, (_, grades) in zip(rankings, made, strict=False)]
    assert [one.result(10).sequence for one in answers] == [3, 4]
    ranker.flush()
    assert document(ranker.current.learner) == document(offline(made[:2]))
    assert ranker.feedback(rankings[1], made[1][1]).result(10).duplicate
    with pytest.raises(FeatureMismatchError, match="other features"):
        ranker.feedback(other, {"d0": 1.0}).result(10)


def test_missing_values_for_a_model_that_takes_them(tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.ListwisePerceptron(transforms=["missing", "running"]), QUIET)
    ranker.rank([Document("a", {"title": 1.0, "price": None}), Document("b", {"price": 2.0})])
    ranker.close()


def test_lists_of_numbers_need_no_names(tmp_path):
    made = queries(8)
    plain = [([Document(one.id, list(one.features.values())) for one in documents], g) for documents, g in made]
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    answer(ranker, plain)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    expected = pr.ListwisePerceptron()
    for documents, grades in plain:
        expected.learn_one(np.array([one.features for one in documents]), list(grades.values()))
    assert document(again.current.learner) == document(expected)
    with pytest.raises(FeatureMismatchError, match="have no names"):
        again.rank(made[0][0])
    again.close()


@pytest.mark.parametrize("grades", [{}, {"d0": -1.0}, {"d0": float("inf")}, {"d9": 1.0}])
def test_wrong_grades_are_refused_before_they_are_logged(ranker, grades):
    documents, _ = queries(1)[0]
    with pytest.raises((InvalidRequestError, UnknownError), match=r"grades must|no document 'd9'"):
        ranker.feedback(ranker.rank(documents).ranking_id, grades)
    ranker.flush()
    assert ranker.current.version == 1


def test_an_answer_that_cannot_be_learned_is_counted_and_changes_nothing(tmp_path):
    model = pr.ListwisePerceptron(transforms=None)
    ranker = ServedRanker(tmp_path / "r", model, QUIET)
    huge = [Document("a", [1e200]), Document("b", [-1e200])]
    ranker.learn(huge, {"b": 1.0}, event_id="x").result(10)
    ranker.learn([Document("a", [1.0]), Document("b", [-1.0])], {"b": 1.0}, event_id="y").result(10)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert (again.current.answers, again.current.refused) == (2, 1)
    assert "overflow" in again.current.refusal
    assert again.current.learner.n_queries == 1
    again.close()
    assert verify(tmp_path)[0].is_sound


@pytest.mark.parametrize("algorithm", ["listwise", "slam", "perceptron", "ranknet", "prank"])
def test_blocks_of_answers_are_learned_as_one_after_the_other(tmp_path, algorithm):
    model = pr.algorithms()[algorithm]()
    ranker = ServedRanker(tmp_path / "r", model, QUIET)
    made = queries(150, m=3)
    made[70][0][0].features["title"] = 1e250  # cannot be learned from, without transforms that take any scale
    weights = [2.0 if i % 7 == 0 and model.accepts_query_weights else 1.0 for i in range(len(made))]
    futures = [
        ranker.learn(documents, grades, event_id=str(i), weight=weight)
        for i, ((documents, grades), weight) in enumerate(zip(made, weights, strict=True))
    ]
    assert all(one.result(20) for one in futures)
    ranker.flush()
    refused = 0
    for (documents, grades), weight in zip(made, weights, strict=True):
        X = np.array([[one.features[name] for name in NAMES] for one in documents])
        try:
            model.learn_one(Columns(X, NAMES), list(grades.values()), weight)
        except ValueError:
            refused += 1
    assert document(ranker.current.learner) == document(model)
    assert (ranker.current.answers, ranker.current.refused) == (150, refused)
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert document(again.current.learner) == document(model)
    again.close()
    assert verify(tmp_path)[0].is_sound


def test_ranking_does_not_wait_for_learning(tmp_path):
    class Slow(pr.ListwisePerceptron):
        algorithm = "slow"
        go = threading.Event()

        def _pass(self, *given):
            assert self.go.wait(10)
            return super()._pass(*given)

    pr.register(Slow)
    try:
        ranker = ServedRanker(tmp_path / "r", Slow(), QUIET)
        documents, grades = queries(1)[0]
        assert ranker.learn(documents, grades, event_id="a").result(10).sequence == 3  # acknowledged before learned
        assert ranker.rank(documents).model_version <= 2
        Slow.go.set()
        ranker.flush()
        assert ranker.rank(documents).model_version == 3
        ranker.close()
    finally:
        pr.unregister("slow")


def test_rollback_to_any_version_and_promotion(tmp_path):
    made = queries(20)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    answer(ranker, made[:5])
    ranker.save()
    answer(ranker, made[5:12])
    assert ranker.roll_back(2 + 8).result(10) == 15  # after 8 answers, which no snapshot has
    assert document(ranker.current.learner) == document(offline(made[:8]))
    for wrong in (0, 16, -1):
        with pytest.raises(UnknownError, match=f"no version {wrong}"):
            ranker.roll_back(wrong).result(10)
    other = offline(made[:3], pr.SlamPerceptron())
    assert ranker.promote(other).result(10) == 16
    answer(ranker, made[12:])
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert document(again.current.learner) == document(offline(made[12:], other))
    again.close()
    assert verify(tmp_path)[0].is_sound


def test_an_answer_to_a_ranking_of_other_features_is_refused(ranker):
    documents, grades = queries(1)[0]
    ranking = ranker.rank(documents).ranking_id
    other = pr.ListwisePerceptron()
    other.learn_one(np.eye(2), [1, 0])
    ranker.promote(other).result(10)
    with pytest.raises(FeatureMismatchError, match="other features than the model has by now"):
        ranker.feedback(ranking, grades).result(10)


def test_snapshots_are_written_in_the_background_and_the_oldest_removed(tmp_path):
    ranker = ServedRanker(tmp_path / "r", settings=Settings(snapshot_answers=5, snapshots=2, snapshot_seconds=1e9))
    for part in range(3):
        answer(ranker, queries(5, seed=part))
        ranker.flush()
        deadline = time.monotonic() + 20
        expected = [2 + 5 * k for k in range(part + 1, 0, -1)][:2]
        while ranker.versions() != expected and time.monotonic() < deadline:
            time.sleep(0.02)
    while len(ranker.versions()) > 2 and time.monotonic() < deadline:  # written first, then removed
        time.sleep(0.02)
    assert ranker.versions() == [17, 12]
    ranker.close()


def test_a_kill_at_any_statement_of_the_first_start_leaves_a_folder_that_starts(tmp_path, monkeypatch):
    class Killed(BaseException):
        """Ends what would write more, as a kill would."""

    left = 0

    class Connection(sqlite3.Connection):
        def _run(self, run, *given):
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return run(*given)

        def execute(self, *given):
            return self._run(super().execute, *given)

        def executescript(self, script):
            return self._run(super().executescript, script)

        def executemany(self, *given):
            return self._run(super().executemany, *given)

    n_kills, connect = 0, sqlite3.connect
    while True:
        folder, left = tmp_path / str(n_kills), n_kills
        monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, factory=Connection, **named))
        try:
            ServedRanker(folder, settings=QUIET).close()
        except Killed:
            n_kills += 1
        else:
            break
        finally:
            left = -1  # no more kills
            monkeypatch.undo()
        ranker = ServedRanker(folder, settings=QUIET)
        answer(ranker, queries(1))
        ranker.close()
        assert ranker.messages == []
    assert n_kills > 10


def open_log(folder):
    return sqlite3.connect(folder / "log.sqlite", isolation_level=None)


def filled(folder, n=10):
    ranker = ServedRanker(folder, settings=QUIET)
    answer(ranker, queries(n))
    ranker.close()


@pytest.mark.parametrize("damage", ["record", "link", "missing", "null", "last two"])
@pytest.mark.parametrize("with_snapshot", [False, True])
def test_a_damaged_end_is_cut_with_a_message(tmp_path, damage, with_snapshot):
    folder = tmp_path / "r"
    filled(folder)
    if not with_snapshot:
        for path in (folder / "versions").iterdir():
            path.unlink()
    log = open_log(folder)
    change = {
        "record": "UPDATE entries SET record = substr(record, 1, 20) WHERE sequence = 12",
        "link": "UPDATE entries SET link = zeroblob(16) WHERE sequence = 12",
        "missing": "DELETE FROM entries WHERE sequence = 11",
        "null": "UPDATE entries SET record = 'text' WHERE sequence = 12",
        "last two": "UPDATE entries SET record = zeroblob(9) WHERE sequence >= 11",
    }[damage]
    log.execute(change)
    log.close()
    if damage == "missing":
        assert "from entry 11 on" in verify(tmp_path)[0].problems[0]
    n_left = 8 if damage in ("missing", "last two") else 9
    ranker = ServedRanker(folder, settings=QUIET)
    assert "the end of the log was damaged" in ranker.messages[0]
    if with_snapshot:  # what was learned is kept, and the log goes on from it
        assert "goes on from the model of that snapshot" in ranker.messages[1]
        assert document(ranker.current.learner) == document(offline(queries(10)))
    else:
        assert document(ranker.current.learner) == document(offline(queries(n_left)))
    more = queries(3, seed=5)
    answer(ranker, more)
    expected = document(offline(more, offline(queries(10 if with_snapshot else n_left))))
    abandon(ranker)
    again = ServedRanker(folder, settings=QUIET)
    assert again.messages == []
    assert document(again.current.learner) == expected
    again.close()
    (found,) = verify(tmp_path)
    assert len(found.problems) == 1
    assert "cut off earlier" in found.problems[0]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET record = zeroblob(30) WHERE sequence = 5",
        "UPDATE entries SET link = zeroblob(16) WHERE sequence = 5",
        "DELETE FROM entries WHERE sequence = 5",
        "DELETE FROM entries WHERE sequence = 1",
    ],
)
def test_a_damaged_middle_refuses_to_start(tmp_path, damage):
    folder = tmp_path / "r"
    filled(folder)
    log = open_log(folder)
    log.execute(damage)
    log.close()
    with pytest.raises(DamagedLogError, match=r"entry \d+ is damaged, and entry \d+ after it is not; keep a copy"):
        ServedRanker(folder, settings=QUIET)
    (problem,) = verify(tmp_path)[0].problems  # of the snapshot nothing is known
    assert "is damaged, and entry" in problem


def test_a_snapshot_that_the_log_lacks_is_found(tmp_path):
    filled(tmp_path / "r")
    log = open_log(tmp_path / "r")
    log.execute("DELETE FROM entries WHERE sequence = 12")
    log.execute("DELETE FROM events WHERE sequence = 12")
    log.close()
    assert verify(tmp_path)[0].problems == (
        "the log has lost entries that were acknowledged: it lacks entry 12 as it was",
        "the log does not have version 12 of a snapshot",
    )


def leave_as_a_kill_would(folder, copied, n=10):
    """Answer queries, and copy the folder while the log's end is still in the write-ahead log."""
    ranker = ServedRanker(folder, settings=QUIET)
    for query in queries(n):
        answer(ranker, [query])  # each with a commit of its own
    shutil.copytree(folder, copied)
    ranker.close()


def check_flip(whole, folder, place, n=10):
    """Flip a bit of the write-ahead log, and start: nothing is lost, or it is told; return whether something was."""
    shutil.copytree(whole, folder)
    path = folder / "log.sqlite-wal"
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    try:
        ranker = ServedRanker(folder, settings=QUIET)
    except DamagedLogError:
        return path.with_name("log.sqlite-wal.damaged").read_bytes() == content
    n_answers, told = ranker.current.answers, ranker.messages
    assert document(ranker.current.learner) == document(offline(queries(n)[:n_answers]))
    if n_answers < n:
        assert any("was damaged" in each or "has lost entries that were acknowledged" in each for each in told)
        more = answer(ranker, queries(3, seed=5))
        assert not any(one.duplicate for one in more)
    ranker.close()
    again = ServedRanker(folder, settings=QUIET)
    assert again.messages == []
    again.close()
    return n_answers < n


def test_answers_lost_with_the_write_ahead_log_are_noticed(tmp_path):
    leave_as_a_kill_would(tmp_path / "r", tmp_path / "whole")
    size = 8 * (tmp_path / "whole" / "log.sqlite-wal").stat().st_size
    places = [3, *range(8 * 50, size, size // 20)]  # in the header, whose loss is that of all, and in frames
    losses = [check_flip(tmp_path / "whole", tmp_path / str(place), place) for place in places]
    assert losses[0]
    assert sum(losses) > 5
    for name in ("cut", "gone"):
        shutil.copytree(tmp_path / "whole", tmp_path / name / "r")
        path = tmp_path / name / "r" / "log.sqlite-wal"
        path.write_bytes(path.read_bytes()[:-5000] if name == "cut" else b"")
    (told,) = verify(tmp_path / "cut")[0].problems
    assert "it lacks entry 12 as it was" in told
    content = (tmp_path / "cut" / "r" / "log.sqlite-wal").read_bytes()
    ranker = ServedRanker(tmp_path / "cut" / "r", settings=QUIET)
    assert "it ends at entry 11, and lacks entry 12" in ranker.messages[0]
    assert (tmp_path / "cut" / "r" / "log.sqlite-wal.damaged").read_bytes() == content
    ranker.close()
    with pytest.raises(DamagedLogError, match="is empty, but 12 entries were acknowledged; keep a copy"):
        ServedRanker(tmp_path / "gone" / "r", settings=QUIET)


@pytest.mark.deep
def test_every_bit_of_the_write_ahead_log_counts(tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    leave_as_a_kill_would(tmp_path / "r", tmp_path / "whole")
    size = 8 * (tmp_path / "whole" / "log.sqlite-wal").stat().st_size
    chance = random.Random(seed)
    for i in range(400):
        check_flip(tmp_path / "whole", tmp_path / "flipped", chance.randrange(8 * 32 if i % 10 == 0 else size))
        shutil.rmtree(tmp_path / "flipped")


def test_an_older_mark_of_what_was_acknowledged_is_right_and_a_damaged_one_ignored(tmp_path):
    folder = tmp_path / "r"
    filled(folder, 5)
    before = (folder / "acknowledged").read_bytes()
    ranker = ServedRanker(folder, settings=QUIET)
    answer(ranker, queries(3, seed=5))
    ranker.close()
    for content in (before, b"", b"x" * 70, before[:30], before.replace(b"7 ", b"9 ")):
        (folder / "acknowledged").write_bytes(content)
        ranker = ServedRanker(folder, settings=QUIET)
        assert ranker.messages == []
        ranker.close()
        assert verify(tmp_path)[0].problems == ()


def test_a_start_on_a_full_disk_ranks_and_does_not_learn(tmp_path, monkeypatch):
    filled(tmp_path / "r", 3)

    def full(log, n_bytes):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "make_room", full)
        ranker = ServedRanker(tmp_path / "r", settings=QUIET)
        assert ranker.problem == "the log cannot be written: database or disk is full"  # before an answer comes
        assert len(ranker.rank(queries(1)[0][0]).order) == 4
    ranker.flush()
    assert ranker.problem == ""
    ranker.close()


def test_a_loss_is_told_even_if_the_start_then_fails(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("perceptrank.serve"), "propagate", True)
    leave_as_a_kill_would(tmp_path / "r", tmp_path / "killed")
    path = tmp_path / "killed" / "log.sqlite-wal"
    path.write_bytes(path.read_bytes()[:-5000])
    (tmp_path / "killed" / "log.sqlite-wal.damaged").write_bytes(b"of an earlier loss")
    with pytest.raises(InvalidRequestError, match="began with another model"):
        ServedRanker(tmp_path / "killed", pr.SlamPerceptron(), QUIET)
    (told,) = set(caplog.messages)  # the next start finds nothing wrong
    assert "has lost entries that were acknowledged: it ends at entry 11" in told
    assert told.endswith("log.sqlite-wal.damaged1")


def test_a_log_without_its_secret_is_damaged(tmp_path):
    filled(tmp_path / "r", 1)
    log = open_log(tmp_path / "r")
    log.execute("DELETE FROM about")
    log.close()
    with pytest.raises(DamagedLogError, match="lacks its secret"):
        ServedRanker(tmp_path / "r", settings=QUIET)


@pytest.mark.parametrize("change", ["event_id = 'other'", "digest = x'00'", "sequence = 1"])
def test_event_ids_that_are_damaged_are_found_by_a_check(tmp_path, change):
    filled(tmp_path / "r", 5)
    log = open_log(tmp_path / "r")
    log.execute(f"UPDATE events SET {change} WHERE sequence = 4")
    log.close()
    (told,) = verify(tmp_path)[0].problems
    assert "the event ids of 1 answers are damaged: sent again" in told


@pytest.mark.parametrize("check_all", [True, False])
def test_event_ids_that_are_missing_are_restored(tmp_path, check_all):
    folder = tmp_path / "r"
    documents, grades = queries(1)[0]
    ranker = ServedRanker(folder, settings=QUIET)
    answer(ranker, queries(5))
    ranker.learn(documents, grades, event_id="mine").result(10)
    ranker.close()
    log = open_log(folder)
    log.execute("DELETE FROM events WHERE event_id = 'mine' OR sequence = 4")
    log.close()
    assert verify(tmp_path)[0].problems == ("6 answers, but 4 event ids",)
    again = ServedRanker(folder, settings=QUIET, check_all=check_all)
    (told,) = again.messages
    assert "lacked the event ids of 2 answers: they are restored" in told
    assert again.learn(documents, grades, event_id="mine").result(10) == Acknowledgement("mine", 8, True)
    again.close()
    assert verify(tmp_path)[0].problems == ()


def test_files_that_are_no_logs_are_refused(tmp_path):
    folder = tmp_path / "r"
    filled(folder)
    content = (folder / "log.sqlite").read_bytes()
    (folder / "log.sqlite").write_bytes(content[:4096] + bytes(len(content) - 4096))
    with pytest.raises(DamagedLogError, match="cannot be read"):
        ServedRanker(folder, settings=QUIET)
    assert "cannot be read" in str(verify(tmp_path)[0].problems)
    (folder / "log.sqlite").write_bytes(b"something else " * 1000)
    with pytest.raises(DamagedLogError, match="file is not a database"):
        ServedRanker(folder, settings=QUIET)
    (folder / "log.sqlite").unlink()
    other = sqlite3.connect(folder / "log.sqlite")
    other.execute("CREATE TABLE mine (a)")
    other.close()
    with pytest.raises(DamagedLogError, match="is not a log of perceptrank"):
        ServedRanker(folder, settings=QUIET)


def test_a_damaged_snapshot_is_passed_over(tmp_path):
    folder = tmp_path / "r"
    filled(folder)
    (path,) = (folder / "versions").iterdir()
    path.write_text(path.read_text().replace('"queries": 10', '"queries": 11'))
    assert "is damaged" in verify(tmp_path)[0].problems[0]
    ranker = ServedRanker(folder, settings=QUIET)
    assert document(ranker.current.learner) == document(offline(queries(10)))
    ranker.close()


def test_a_snapshot_that_differs_from_the_log_is_found(tmp_path):
    folder = tmp_path / "r"
    filled(folder)
    snapshots = Snapshots(folder / "versions")
    (version,) = snapshots.versions()
    found = snapshots.read(version)
    snapshots.write(type(found)(offline(queries(9)), *list(vars(found).values())[1:]), 5)
    assert "differs from the log's replay" in verify(tmp_path)[0].problems[0]


def test_only_a_folder_that_is_not_there_has_no_snapshots(tmp_path):
    assert Snapshots(tmp_path / "versions").versions() == []
    (tmp_path / "versions").write_text("not a folder")
    with pytest.raises(NotADirectoryError):
        Snapshots(tmp_path / "versions").versions()


def test_a_full_disk_turns_learning_off_and_recovers(tmp_path):
    made = queries(60)
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    answer(ranker, made[:10])
    ranker.flush()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(path.stat().st_size for path in (tmp_path / "r").iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        lost = ranker.learn(*made[10], event_id="again")
        with pytest.raises(LearningOffError, match=r"the log cannot be written: .*; ranking goes on"):
            lost.result(10)
        assert not ranker.status()["learning"]
        assert ranker.rank(made[0][0]).model_version == 12
        ranker.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    deadline = time.monotonic() + 20
    while ranker.problem and time.monotonic() < deadline:  # without another answer
        time.sleep(0.02)
    assert ranker.status()["learning"]
    ranker.learn(*made[10], event_id="again").result(10)
    answer(ranker, made[11:])
    ranker.close()
    assert document(ranker.current.learner) == document(offline(made))
    assert verify(tmp_path)[0].is_sound


def test_where_a_little_can_be_written_but_no_answer_learning_stays_off(tmp_path):
    documents = [Document(f"d{i}", [float(i * j % 7) for j in range(50)]) for i in range(100)]
    with mounted(tmp_path / "small", "1m") as disk:
        ranker = ServedRanker(disk.path / "r", settings=QUIET)
        ranker.learn(documents, {"d1": 1.0}, event_id="1").result(10)
        disk.fill(but=30_000)
        looks = []
        for number in range(3):
            with pytest.raises(LearningOffError):
                ranker.learn(documents, {"d1": 1.0}, event_id=f"lost-{number}").result(10)
            for _ in range(20):
                time.sleep(0.02)
                looks.append(ranker.status()["learning"])
        assert not any(looks)
        disk.free()
        deadline = time.monotonic() + 20
        while ranker.problem and time.monotonic() < deadline:
            time.sleep(0.02)
        ranker.learn(documents, {"d1": 1.0}, event_id="2").result(10)
        ranker.close()
        assert verify(disk.path)[0].is_sound
        assert ranker.current.answers == 2


@pytest.mark.parametrize(
    ("model", "difference"),
    [
        (lambda: learned("title", "price", "stock"), "it lacks 'clicks', and it needs 'stock'"),
        (lambda: learned("title", "price"), "it lacks 'clicks'$"),
        (lambda: learned(*NAMES, *"abcdef"), "it needs 'a', 'b', 'c', 'd', 'e' and 1 more"),
        (lambda: learned(None, None), "it has 2, not 3"),
        (lambda: learned(None, None, None), "no names, those of the ranker have: 'title', 'price', 'clicks'"),
        (lambda: pr.FixedRanker({"stock": 1.0}), "no weights for the ranker: .*stock"),
        (lambda: pr.FixedRanker([1.0, 2.0]), "no weights for the ranker"),
    ],
)
def test_a_model_with_other_features_is_not_promoted(ranker, model, difference):
    made = queries(3)
    answer(ranker, made)
    ranker.flush()
    version = ranker.current.version
    with pytest.raises(FeatureMismatchError) as caught:
        ranker.promote(model()).result(10)
    assert re.search(difference, caught.value.message)
    assert ranker.rank(made[0][0]).model_version == version


def test_nor_is_such_a_challenger(tmp_path):
    settings = Settings(snapshot_seconds=1e9)
    ranker = ServedRanker(tmp_path / "r", settings=settings, challengers={"other": learned("title", "stock")})
    answer(ranker, queries(2))
    with pytest.raises(
        FeatureMismatchError, match=r"'other' has other .* lacks 'price', 'clicks', and it needs 'stock'"
    ):
        ranker.promote_challenger("other").result(10)
    ranker.close()


@pytest.mark.parametrize(
    "model", [lambda: learned(*NAMES[::-1]), pr.SlamPerceptron, lambda: pr.FixedRanker({"price": 1.0})]
)
def test_models_of_the_same_features_in_any_order_are_promoted(ranker, model):
    made = queries(3)
    answer(ranker, made)
    version = ranker.promote(model()).result(10)
    assert ranker.rank(made[0][0]).model_version == version


def test_every_promotion_is_a_message(tmp_path, caplog):
    caplog.set_level("INFO", "perceptrank.serve")
    ranker = ServedRanker(tmp_path / "r", settings=QUIET, challengers={"new": pr.SlamPerceptron()})
    answer(ranker, queries(3))
    ranker.promote_challenger("new").result(10)
    ranker.promote(pr.SlamPerceptron(), "promoted from a document").result(10)
    ranker.roll_back(3).result(10)
    ranker.close()
    assert [record.getMessage() for record in caplog.records if "ranks" in record.getMessage()] == [
        "r: version 7 ranks: challenger new promoted",
        "r: version 8 ranks: promoted from a document",
        "r: version 9 ranks: rollback to version 3",
    ]


@pytest.mark.parametrize("n_answers", [0, 3])
def test_warming_up_changes_nothing(ranker, n_answers):
    answer(ranker, queries(n_answers))
    ranker.flush()
    before, version = document(ranker.current.learner), ranker.current.version
    warm_up(ranker.current)
    assert (document(ranker.current.learner), ranker.current.version) == (before, version)


def test_many_threads_at_once(ranker):
    made = queries(200)
    results = [None] * len(made)

    def work(part):
        for i in range(part, len(made), 4):
            ranking = ranker.rank(made[i][0]).ranking_id
            results[i] = ranker.feedback(ranking, made[i][1]).result(10).sequence

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(results) == list(range(3, 203))
    ranker.flush()
    assert document(ranker.current.learner) == document(offline([made[i] for i in np.argsort(results)]))


def test_rankers_are_independent_and_a_folder_has_one_process(tmp_path):
    made = queries(6)
    with Service(tmp_path, {"a": None, "b": pr.SlamPerceptron()}, QUIET) as service:
        answer(service.ranker("a"), made)
        answer(service.ranker("b"), made[:2])
        with pytest.raises(BlockingIOError, match="used by another process"):
            Service(tmp_path)
        with pytest.raises(UnknownError, match="no ranker 'c'; there are 'a', 'b'"):
            service.ranker("c")
    with Service(tmp_path, settings=QUIET) as service:
        assert document(service.ranker("a").current.learner) == document(offline(made))
        assert document(service.ranker("b").current.learner) == document(offline(made[:2], pr.SlamPerceptron()))
        assert service.first == "a"
    with pytest.raises(InvalidRequestError, match="name of a ranker"):
        Service(tmp_path / "other", {"../x": None})
    with Service(tmp_path / "new") as service:
        assert service.first == "default"


def test_records_are_canonical_and_linked():
    entry = AnswerEntry(7, "e", None, ["a", "b"], as_bytes([[1.0], [2.0]]), as_bytes([1, 0]), 1.0)
    record = encode(entry)
    assert decode(record) == entry
    assert encode(decode(record)) == record
    assert entry.X.tolist() == [[1.0], [2.0]]
    assert entry.relevance.tolist() == [1.0, 0.0]
    assert link_after(bytes(16), record) != link_after(bytes([1] * 16), record)
    for wrong in (b"", b"\x03" + record[1:], record[:-1], record + b"x", b"\x01\x90"):
        with pytest.raises(ValueError, match="an entry"):
            decode(wrong)
    short = AnswerEntry(7, "e", None, ["a", "b"], as_bytes([[1.0], [2.0]]), as_bytes([1]), 1.0)
    with pytest.raises(ValueError, match="2 documents, 1 grades"):
        decode(encode(short))
    assert decode(encode(NamesEntry(1, 2, ["x", "y"]))).names == ["x", "y"]


def test_settings_are_checked():
    with pytest.raises(ValueError, match="snapshots must be a number > 0, got 0"):
        Settings(snapshots=0)


class Unregistered(pr.NumpyLearner):
    """A learner that no log can be read with."""

    algorithm = "unregistered"

    def update(self, scores, X, relevance):
        return relevance - relevance.mean()


def test_a_model_that_could_not_be_read_again_is_not_logged(ranker, tmp_path):
    made = queries(6)
    answer(ranker, made[:3])
    for asked in (
        lambda: ranker.promote(Unregistered()),
        lambda: ranker.promote(Unregistered(), fixed=True),
        lambda: ranker.add_challenger("new", Unregistered()),
    ):
        with pytest.raises(InvalidRequestError, match="unknown algorithm 'unregistered'"):
            asked().result(10)
    assert ranker.problem == ""
    answer(ranker, made[3:])
    ranker.close()
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    assert document(again.current.learner) == document(offline(made))
    again.close()
    with pytest.raises(InvalidRequestError, match="unknown algorithm 'unregistered'"):
        ServedRanker(tmp_path / "new", Unregistered())
    ServedRanker(tmp_path / "new", pr.SlamPerceptron()).close()


def test_ids_that_are_there_twice_are_found_soon(ranker):
    documents = [Document(f"{i:05d}", [1.0]) for i in range(9_999)]
    ranker.rank(documents[:2])  # compiled, if no other test has done so
    start = time.thread_time()
    with pytest.raises(InvalidRequestError, match="'09998' twice"):
        ranker.rank([*documents, documents[-1]])
    assert time.thread_time() - start < 0.5  # comparing all with all takes seconds


@pytest.mark.parametrize("snapshot_at", [None, 12, 21])
def test_trees_are_replayed_to_the_same_bits(tmp_path, snapshot_at):
    """Fitted after 10, 20 and 40 answers; snapshots are taken between a fit and the answer from which on it ranks."""
    pytest.importorskip("lightgbm")
    made = queries(50)
    learner = pr.WithTrees(n_trees=3, first_fit=10)
    ranker = ServedRanker(tmp_path / "r", learner, QUIET)
    answer(ranker, made[: snapshot_at or 0])
    if snapshot_at is not None:
        ranker.flush()
        ranker.save()
    answer(ranker, made[snapshot_at or 0 : 30])
    abandon(ranker)
    again = ServedRanker(tmp_path / "r", settings=QUIET)
    answer(again, made[30:])
    again.flush()
    expected = offline(made, pr.WithTrees(n_trees=3, first_fit=10))
    assert document(again.current.learner) == document(expected)
    assert again.current.learner.trees.forest is not None
    assert again.current.refused == 0
    again.close()
