"""Logging and learning take place side by side: what is logged next does not wait, and nothing is lost."""

import itertools
import json
import random
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.serve import ServedRanker, Service, ServiceError, Settings, verify
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import OverloadedError
from perceptrank.serve.log.log import Addition
from perceptrank.serve.log.records import decode
from perceptrank.serve.log.sqlite import SqliteLog
from perceptrank.serve.page.live import Live
from perceptrank.serve.replay import Current

QUIET = Settings(snapshot_seconds=1e9)


@pytest.fixture
def ranker(tmp_path):
    made = ServedRanker(tmp_path / "r", settings=QUIET)
    yield made
    made.close()


def queries(n):
    rng = np.random.default_rng(3)
    return [(rng.normal(size=(3, 2)), rng.permutation(3).astype(float)) for _ in range(n)]


def learn(ranker, X, grades, event_id, **others):
    documents = [Document(f"d{i}", row) for i, row in enumerate(X.tolist())]
    return ranker.learn(documents, {f"d{i}": one for i, one in enumerate(grades)}, event_id=event_id, **others)


def same_as_offline(ranker, made):
    model = pr.ListwisePerceptron()
    for X, grades in made:
        model.learn_one(X, grades)
    return json.dumps(ranker.current.learner.as_document()) == json.dumps(model.as_document())


def test_answers_are_logged_while_others_are_learned(ranker, monkeypatch):
    made = queries(4)
    learn(ranker, *made[0], "0").result(10)
    ranker.flush()
    may_learn, after_all = threading.Event(), Current.after_all

    def slow(current, entries):
        assert may_learn.wait(20)
        return after_all(current, entries)

    monkeypatch.setattr(Current, "after_all", slow)
    learn(ranker, *made[1], "1").result(10)
    second = learn(ranker, *made[2], "2").result(10)  # acknowledged, though the one before is not learned yet
    assert (ranker.current.version, second.sequence) == (3, 5)
    repeated = learn(ranker, *made[2], "2")
    may_learn.set()
    assert repeated.result(10).duplicate
    third = learn(ranker, *made[3], "3").result(10)
    assert third.sequence == 6
    ranker.flush()
    assert ranker.current.version == 6
    assert same_as_offline(ranker, made)


def test_a_rollback_waits_for_what_is_being_learned(ranker):
    made = queries(30)
    futures = [learn(ranker, *one, str(i)) for i, one in enumerate(made)]
    rolled = ranker.roll_back(32).result(10)  # the model, the names, and 30 answers
    assert rolled == 33
    assert all(one.done() for one in futures)
    assert same_as_offline(ranker, made)


def test_learning_that_fails_is_said_and_made_up_for(ranker, monkeypatch):
    made = queries(3)
    learn(ranker, *made[0], "0").result(10)
    ranker.flush()
    after_all = Current.after_all

    def fail_once(current, entries):
        monkeypatch.setattr(Current, "after_all", after_all)
        raise MemoryError("no room")

    monkeypatch.setattr(Current, "after_all", fail_once)
    assert learn(ranker, *made[1], "1").result(10).sequence == 4  # it is on disk
    ranker.thread._learning[0].exception(10)
    assert "learning failed: MemoryError: no room" in ranker.problem
    learn(ranker, *made[2], "2").result(10)
    ranker.flush()
    assert ranker.problem == ""
    assert same_as_offline(ranker, made)


def test_answers_that_are_handed_over_together_are_logged_together(ranker, monkeypatch):
    made, groups, append = queries(20), [], SqliteLog.append

    def noting(log, additions):
        groups.append(len(additions))
        return append(log, additions)

    monkeypatch.setattr(SqliteLog, "append", noting)
    together = []
    futures = [learn(ranker, *one, str(i), together=together) for i, one in enumerate(made)]
    assert not any(one.done() for one in futures)
    ranker.submit(together)
    assert [one.result(10).sequence for one in futures] == list(range(3, 23))
    assert len(groups) <= 2  # one, or two if the first was taken before the others were there
    ranker.flush()
    assert same_as_offline(ranker, made)


def test_answers_that_are_handed_over_too_late_are_refused(tmp_path):
    ranker, together = ServedRanker(tmp_path / "r", settings=QUIET), []
    future = learn(ranker, *queries(1)[0], "0", together=together)
    ranker.close()
    ranker.submit(together)
    with pytest.raises(OverloadedError, match="stopping"):
        future.result(10)


def test_events_are_found_however_many_are_looked_for(tmp_path):
    log = SqliteLog(tmp_path / "log.sqlite")
    used = [f"e{i}" for i in range(150)]
    log.append([Addition(b"record", (one,), one.encode()) for one in used])
    assert log.find_events([]) == {}
    assert log.find_events(["other"]) == {}
    found = log.find_events([*used, "other", "e7"])
    assert {one: (event.sequence, event.digest) for one, event in found.items()} == {
        one: (i + 1, one.encode()) for i, one in enumerate(used)
    }
    log.close()


def test_the_live_page_may_stop_watching_at_any_moment(ranker, monkeypatch):
    class Watched(type(ranker.thread)):
        watch = property(lambda _: next(seen), lambda *_: None)

    failures, fail = [], ranker.thread._fail
    monkeypatch.setattr(ranker.thread, "_fail", lambda error: (failures.append(error), fail(error))[1])
    seen = iter([lambda *_: None, None, None, None])
    ranker.thread.__class__ = Watched  # which sees it taken away between two looks
    learn(ranker, *queries(1)[0], "0").result(10)
    ranker.flush()
    assert failures == []


def interleave(folder, seed, seconds):
    """Answer, promote, roll back, add, remove, save and watch at once; return what a replay of the log says."""
    weights = pr.FixedRanker({"x": 1.0})
    settings = Settings(snapshot_seconds=0.2, snapshot_answers=7, snapshots=5, promote_at=0.5)
    challengers = {"default": {"a": pr.ListwisePerceptron(), "b": pr.SlamPerceptron()}}
    acknowledged, end = [], time.monotonic() + seconds
    with Service(folder, {"default": weights}, settings, fixed=["default"], challengers=challengers) as service:
        ranker, live = service.ranker("default"), Live(service)

        def answers(number):
            rng = np.random.default_rng([seed, number])
            for i in itertools.takewhile(lambda i: i < 10 or time.monotonic() < end, itertools.count()):
                X = rng.normal(size=(4, 2))
                documents = [Document(f"d{j}", dict(zip("xy", row, strict=True))) for j, row in enumerate(X.tolist())]
                grades = {f"d{j}": float(value > 0.5) for j, value in enumerate(X[:, 1])}
                found = ranker.learn(documents, grades, event_id=f"{number}-{i}").result(20)
                acknowledged.append((found.sequence, found.event_id))

        def changes():
            draw = random.Random(seed)
            for i in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):
                name, version = draw.choice([*ranker.current.shadow.challengers, f"c{i}"]), ranker.current.version
                what = draw.randrange(6)
                with suppress(ServiceError):  # one that was promoted meanwhile, for example
                    if what == 0:
                        ranker.roll_back(draw.randint(min(4, version), version)).result(20)
                    elif what == 1:
                        ranker.promote_challenger(name).result(20)
                    elif what == 2:
                        ranker.add_challenger(f"c{i}", pr.ListwisePerceptron()).result(20)
                    elif what == 3:
                        ranker.remove_challenger(name).result(20)
                    else:
                        (ranker.flush if what == 4 else ranker.save)()

        work = [threading.Thread(target=answers, args=(number,)) for number in range(2)]
        work += [threading.Thread(target=changes)]
        for one in work:
            one.start()
        for one in work:
            one.join()
        live.close()
        assert (ranker.problem, ranker.snapshot_problem) == ("", "")
    log = SqliteLog(folder / "default" / "log.sqlite")
    logged = {row.sequence: decode(row.record) for row in log.rows()}
    log.close()
    assert len(acknowledged) > 10
    assert all(logged[number].event_id == event_id for number, event_id in acknowledged)
    return verify(folder)[0]


def test_whatever_happens_at_once_the_log_has_it(tmp_path):
    assert interleave(tmp_path, 1, 1.0).problems == ()


@pytest.mark.deep
def test_whatever_happens_at_once_many_times_the_log_has_it(tmp_path):
    for seed in range(50):
        assert interleave(tmp_path / str(seed), seed, 2.0).problems == (), seed
