"""Kill -9 at random moments under load: no acknowledged answer is lost, and the model is that of an offline pass."""

import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from functools import partial

import numpy as np
import psycopg
import pytest
from support.shadows import compare_offline
from support.shopping import learn_offline

import perceptrank as pr
from perceptrank.serve import Service, verify
from perceptrank.serve.documents import Document
from perceptrank.serve.learning import Columns
from perceptrank.serve.log.records import ImpressionEntry, QueryEntry, decode
from perceptrank.serve.log.sqlite import SqliteLog

NAMES = ("title", "price")


class Load:
    """Threads that send answers until the service is gone, and remember what they sent and what was acknowledged."""

    def __init__(self, n_threads=3, judge=None, *, clicks=False):
        self.n_threads, self._judge, self._clicks = n_threads, judge, clicks
        self.sent, self.acknowledged = {}, {}
        self.fatal = None  # number of acknowledgements at which the service is killed
        self._lock, self._number = threading.Lock(), 0

    def _next(self):
        with self._lock:
            self._number += 1
            number = self._number
        rng = np.random.default_rng(number)
        X, grades = rng.normal(size=(3, 2)), rng.integers(0, 3, 3)
        if self._judge is not None:
            grades = self._judge(X)
        self.sent[f"e{number}"] = (X, grades)
        documents = [
            {"id": f"d{i}", "features": dict(zip(NAMES, row, strict=True))} for i, row in enumerate(X.tolist())
        ]
        return f"e{number}", documents, {f"d{i}": int(grade) for i, grade in enumerate(grades)}

    def _work(self, port, pid):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

        def post(path, body):
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            content = response.read()
            assert response.status == 200, content
            return json.loads(content)

        try:
            while True:
                event_id, documents, grades = self._next()
                if self._clicks:
                    found = self._click(post, event_id, documents, grades)
                elif int(event_id[1:]) % 2:
                    answer = {"documents": documents, "grades": grades, "event_id": event_id}
                    found = post("/v1/learn", answer)
                else:
                    ranking = post("/v1/rank", {"documents": documents})["ranking_id"]
                    found = post("/v1/feedback", {"ranking_id": ranking, "grades": grades, "event_id": event_id})
                assert not found["duplicate"]
                self.acknowledged[event_id] = found["sequence"]
                if self.fatal is not None and len(self.acknowledged) >= self.fatal:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)  # at once: what is acknowledged must be on disk by now
        except (OSError, http.client.HTTPException):
            pass  # it was killed
        finally:
            connection.close()

    def _click(self, post, event_id, documents, grades):
        """Rank, and send clicks: all at once, or one after the other."""
        number = int(event_id[1:])
        ranked = post(
            "/v1/rank", {"documents": documents, "places": 2, "session": f"s{number % 7}", "user_query": event_id}
        )
        clicked = [name for name in ranked["order"][:2] if grades[name] > 1]
        answer = {"ranking_id": ranked["ranking_id"], "clicks": clicked, "event_id": event_id}
        if number % 3 == 0:
            note = post("/v1/clicks", answer | {"event_id": f"{event_id}-note", "more": True})
            self.acknowledged[f"{event_id}-note"] = note["sequence"]
        return post("/v1/clicks", answer)

    def run(self, running, until):
        """Send from several threads until `until` returns, which ends the service."""
        threads = [threading.Thread(target=self._work, args=(running.port, running.pid)) for _ in range(self.n_threads)]
        for one in threads:
            one.start()
        until()
        for one in threads:
            one.join()


def events_in(folder, database=None):
    """Event ids of all answers in the log, by number of their entries."""
    if database is None:
        connection = sqlite3.connect(f"file:{folder / 'default' / 'log.sqlite'}?mode=ro", uri=True)
        found = connection.execute("SELECT sequence, record FROM entries").fetchall()
    else:
        connection = psycopg.connect(database)
        found = connection.execute("SELECT sequence, record FROM perceptrank.entries ORDER BY sequence").fetchall()
    connection.close()
    entries = [(number, decode(record)) for number, record in found]
    return {number: entry.event_id for number, entry in entries if isinstance(entry, QueryEntry)}


def kill_after(running, load, n_answers, seconds):
    """Kill a service so many seconds after it has acknowledged so many more answers."""
    deadline = time.monotonic() + 20
    wanted = len(load.acknowledged) + n_answers
    while len(load.acknowledged) < wanted and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    with suppress(ProcessLookupError):  # an acknowledgement has killed it
        running.end(signal.SIGKILL)


FIRST_STARTS = """
import os, random, signal, sys, time
from pathlib import Path
from perceptrank.serve import Service

folder, n_kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
start = time.perf_counter()
Service(folder / "whole").close()
longest = time.perf_counter() - start
for i in range(n_kills):
    pid = os.fork()
    if pid == 0:
        Service(folder / str(i))
        os._exit(0)
    time.sleep(chance.uniform(0.0, longest))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def check_kills_at_the_first_start(folder, n_kills, seed):
    """Kill services while they start in empty folders; all of these folders start, learn, and are sound."""
    subprocess.run([sys.executable, "-c", FIRST_STARTS, str(folder), str(n_kills), str(seed)], check=True)
    documents = [Document("a", {"title": 1.0}), Document("b", {"title": 2.0})]
    stages = set()
    for i in range(n_kills):
        stages.add(tuple(sorted(path.name for path in (folder / str(i)).rglob("*"))))
        with Service(folder / str(i)) as service:
            ranker = service.ranker("default")
            assert ranker.messages == []
            assert ranker.learn(documents, {"b": 1.0}, event_id="e").result(10).sequence == 3
        assert verify(folder / str(i))[0].problems == ()
    assert len(stages) > 2  # kills came at different moments


@pytest.mark.engine
def test_a_kill_at_the_first_start_leaves_a_folder_that_starts(tmp_path):
    check_kills_at_the_first_start(tmp_path, 100, seed=1)


@pytest.mark.deep
def test_many_kills_at_the_first_start_leave_folders_that_start(tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    check_kills_at_the_first_start(tmp_path, 500, seed)


def check_kills(nursery, folder, n_kills, seed, most=40, database=None):
    """Kill a service so many times; compare with what the clients know, and with an offline pass over that."""
    load, chance = Load(), random.Random(seed)
    model = pr.ListwisePerceptron()
    learned = 0
    for _ in range(n_kills):
        snapshot_answers = chance.choice([3, 20, 10**6])
        running = nursery.start(folder, database=database, snapshot_answers=snapshot_answers, snapshot_seconds=0.3)
        moment = chance.randrange(most), chance.uniform(0.0, 0.02)
        load.fatal = len(load.acknowledged) + moment[0] if chance.random() < 0.7 else None
        load.run(running, partial(kill_after, running, load, *moment))
        logged = events_in(folder, database)
        for event_id, sequence in load.acknowledged.items():
            assert logged.get(sequence) == event_id, f"{event_id} was acknowledged and is lost"
        for sequence in sorted(logged)[learned:]:
            X, grades = load.sent[logged[sequence]]
            model.learn_one(Columns(X, NAMES), grades)
        learned = len(logged)
        again = nursery.start(folder, database=database)
        with pr.Client(again.url) as client:
            served = client.model()
        again.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        assert json.dumps(served.as_document()) == json.dumps(model.as_document())
    assert len(load.acknowledged) > 5 * n_kills
    (found,) = verify(folder, database)
    assert found.problems == ()
    assert found.answers == learned
    return len(load.acknowledged)


def test_kills_lose_nothing_that_was_acknowledged(nursery, tmp_path):
    check_kills(nursery, tmp_path, 10, seed=1)


def test_kills_lose_nothing_that_was_acknowledged_by_postgresql(nursery, tmp_path, database):
    check_kills(nursery, tmp_path, 5, seed=2, database=database)


SHADOW = {"weights": {"price": -1.0}, "challengers": {"new": "listwise", "slow": "slam"}}


def check_kills_in_shadow_mode(nursery, folder, n_kills, seed, judge=None, most=40, database=None):
    """Kill a service with challengers; compare them with what an offline pass finds, and with a replay."""
    load, chance = Load(judge=judge), random.Random(seed)
    for _ in range(n_kills):
        running = nursery.start(
            folder,
            database=database,
            shadow=SHADOW,
            snapshot_answers=chance.choice([3, 20, 10**6]),
            snapshot_seconds=0.3,
            promote_at=1e-6 if judge is None else 0.2,
        )
        moment = chance.randrange(most), chance.uniform(0.0, 0.02)
        load.fatal = len(load.acknowledged) + moment[0] if chance.random() < 0.7 else None
        load.run(running, partial(kill_after, running, load, *moment))
        logged = events_in(folder, database)
        for event_id, sequence in load.acknowledged.items():
            assert logged.get(sequence) == event_id, f"{event_id} was acknowledged and is lost"
    models = {"new": pr.ListwisePerceptron(), "slow": pr.SlamPerceptron()}
    rounds = [(load.sent[logged[one]][0], NAMES, load.sent[logged[one]][1], 1.0) for one in sorted(logged)]
    expected = {
        name: compare_offline(rounds, pr.FixedRanker(SHADOW["weights"]), model, fixed=True)
        for name, model in models.items()
    }
    again = nursery.start(folder, database=database)
    with pr.Client(again.url) as client:
        found, served = client.challengers(), client.model()
    again.end()
    (checked,) = verify(folder, database)
    assert checked.problems == ()
    assert checked.answers == len(logged)
    if judge is not None:  # one was promoted, which has learned before and after
        name = found["last_promotion"]["name"]
        assert json.dumps(served.as_document()) == json.dumps(models[name].as_document())
        assert name not in [one["name"] for one in found["challengers"]]
        return
    assert found["last_promotion"] is None
    assert [one["name"] for one in found["challengers"]] == ["new", "slow"]
    for one in found["challengers"]:
        twin = expected[one["name"]]
        assert (one["answers"], one["difference"]) == (twin.n_rounds, twin.difference)
        assert one["interval"] == list(twin.interval(0.05))


def by_price(X):
    return np.digitize(X[:, 1], [0.0, 1.0])


def test_kills_lose_nothing_in_shadow_mode(nursery, tmp_path):
    check_kills_in_shadow_mode(nursery, tmp_path / "a", 3, seed=3)
    check_kills_in_shadow_mode(nursery, tmp_path / "b", 5, seed=4, judge=by_price)


def check_click_kills(nursery, folder, n_kills, seed):
    """Kill a service that explores: acknowledged clicks are in the log, and the model is what the log's lists teach."""
    load, chance = Load(clicks=True), random.Random(seed)
    model, learned = pr.ClickPerceptron(), 0
    for _ in range(n_kills):
        snapshot_answers = chance.choice([3, 20, 10**6])
        running = nursery.start(
            folder,
            models={} if (folder / "default").exists() else {"default": "clicks"},
            snapshot_answers=snapshot_answers,
            snapshot_seconds=0.3,
            ranking_seconds=chance.choice([0.3, 3600.0]),
        )
        moment = chance.randrange(40), chance.uniform(0.0, 0.02)
        load.fatal = len(load.acknowledged) + moment[0] if chance.random() < 0.7 else None
        load.run(running, partial(kill_after, running, load, *moment))
        logged = events_in(folder)
        for event_id, sequence in load.acknowledged.items():
            assert logged.get(sequence) == event_id, f"{event_id} was acknowledged and is lost"
        again = nursery.start(folder)
        with pr.Client(again.url) as client:
            served = client.model()
        again.end(signal.SIGKILL)  # before a list expires, which would be learned from
        with closing(SqliteLog(folder / "default" / "log.sqlite", read_only=True)) as log:
            rows = list(log.rows(learned))
        entries = [entry for row in rows if isinstance(entry := decode(row.record), ImpressionEntry)]
        assert json.dumps(served.as_document()) == json.dumps(learn_offline(model, entries, NAMES).as_document())
        learned = rows[-1].sequence if rows else learned
    assert len(load.acknowledged) > 5 * n_kills
    (found,) = verify(folder)
    assert found.problems == ()
    return len(load.acknowledged)


def test_kills_lose_no_clicks_that_were_acknowledged(nursery, tmp_path):
    check_click_kills(nursery, tmp_path, 10, seed=1)


@pytest.mark.deep
def test_many_kills_lose_no_clicks_that_were_acknowledged(nursery, tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    n = check_click_kills(nursery, tmp_path, 300, seed)
    print(f"seed {seed}: {n} clicks acknowledged before 300 kills, none lost")


@pytest.mark.deep
def test_many_kills_lose_nothing_in_shadow_mode(nursery, tmp_path, database):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    check_kills_in_shadow_mode(nursery, tmp_path / "a", 50, seed)
    check_kills_in_shadow_mode(nursery, tmp_path / "b", 20, seed, database=database)
    for i in range(10):  # few answers each, so that some kills are near the promotion
        check_kills_in_shadow_mode(nursery, tmp_path / f"c{i}", 20, seed + i, judge=by_price, most=15)


@pytest.mark.deep
def test_many_kills_lose_nothing_that_was_acknowledged_by_postgresql(nursery, tmp_path, database):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    check_kills(nursery, tmp_path, 70, seed, database=database)


@pytest.mark.deep
def test_many_kills_lose_nothing_that_was_acknowledged(nursery, tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    check_kills(nursery, tmp_path, 150, seed)
