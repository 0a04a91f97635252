"""The first start: it says that it compiles, ranks first, and learns later; nothing that arrives meanwhile is lost."""

import importlib
import json
import logging
import os
import subprocess
import sys
import threading
import time

import pytest
from support.asgi import ask
from support.serving import Running, send

import perceptrank as pr
from perceptrank.serve import ServedRanker, Service, Settings, verify
from perceptrank.serve.documents import Document, make_example
from perceptrank.serve.http.access import Access
from perceptrank.serve.http.app import make_app
from perceptrank.serve.replay import Current
from perceptrank.serve.warm_up import announce_compiling, start_learning, warm_up

DOCUMENTS = [Document("a", {"x": 1.0, "y": 0.0}), Document("b", {"x": 0.0, "y": 1.0})]
QUIET = Settings(snapshot_seconds=1e9)


@pytest.fixture
def held(monkeypatch):
    """An event that the compiling of what learning needs waits for."""
    event = threading.Event()
    monkeypatch.setattr("perceptrank.serve.warm_up.warm_up", lambda current: event.wait(30))
    yield event
    event.set()


def offline(grades):
    model = pr.ListwisePerceptron()
    for one in grades:
        model.learn(pr.QueryStream.from_arrays([[1.0, 0.0], [0.0, 1.0]], one, group=[2], feature_names=["x", "y"]))
    return json.dumps(model.as_document())


def told(app, path):
    status, _, content = ask(app, "GET", path)
    return status, json.loads(content)


def learn(ranker, i):
    return ranker.learn(DOCUMENTS, {"ab"[i % 2]: 1.0 + i % 3}, event_id=str(i)).result(10)


def test_answers_are_logged_and_acknowledged_before_learning_is_ready(tmp_path, held, caplog):
    with caplog.at_level(logging.INFO, "perceptrank.serve"), Service(tmp_path, settings=QUIET) as service:
        app = make_app(service, Access(tmp_path))
        start_learning(service)
        ranker = service.ranker("default")
        assert [learn(ranker, i).sequence for i in range(20)] == list(range(3, 23))
        assert learn(ranker, 7).duplicate
        assert (ranker.current.answers, ranker.current.names) == (0, ("x", "y"))
        assert ranker.rank(DOCUMENTS).order == ["a", "b"]
        assert told(app, "/readyz") == (200, {"status": "ok", "problems": {}})
        assert told(app, "/learnz") == (503, {"status": "compiling", "problems": {}})
        time.sleep(1.3)  # the log is looked at every second, which must not wait for what compiles
        learn(ranker, 20)
        assert not caplog.messages
        held.set()
        ranker.flush()
        assert told(app, "/learnz") == (200, {"status": "ok", "problems": {}})
        assert ranker.current.answers == 21
        grades = [[1.0 + i % 3, 0.0] if i % 2 == 0 else [0.0, 1.0 + i % 3] for i in range(21)]
        assert json.dumps(ranker.current.learner.as_document()) == offline(grades)
    (message,) = caplog.messages
    assert message.startswith("default: ready to learn after ")
    (found,) = verify(tmp_path)
    assert (found.is_sound, found.answers) == (True, 21)


def test_what_waits_to_be_learned_is_bounded(tmp_path, held):
    ranker = ServedRanker(tmp_path / "r", settings=Settings(snapshot_seconds=1e9, waiting_bytes=150))
    ranker.thread.prepare_learning(lambda: held.wait(30))
    for i in range(5):
        learn(ranker, i)  # each of 48 bytes; the fifth is acknowledged, and those after it wait
    late = ranker.learn(DOCUMENTS, {"a": 1.0}, event_id="late")
    time.sleep(0.2)
    assert not late.done()
    held.set()
    assert late.result(10).sequence == 8
    ranker.close()
    assert ranker.current.answers == 6


def test_answers_after_one_that_failed_are_learned_in_order(tmp_path, held, monkeypatch):
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    ranker.thread.prepare_learning(lambda: held.wait(30))
    for i in range(5):
        learn(ranker, i)
    after_all, calls = Current.after_all, []

    def fail_once(current, entries):
        calls.append(len(entries))
        if len(calls) == 1:
            raise MemoryError("for a moment")
        return after_all(current, entries)

    monkeypatch.setattr(Current, "after_all", fail_once)
    held.set()
    ranker.flush()
    ranker.flush()
    assert (ranker.problem, ranker.current.answers, ranker.current.version) == ("", 5, 7)
    assert json.dumps(ranker.current.learner.as_document()) == offline([[1, 0], [0, 2], [3, 0], [0, 1], [2, 0]])
    ranker.close()
    assert verify(tmp_path)[0].is_sound


def test_stopping_learns_what_waits(tmp_path, held):
    ranker = ServedRanker(tmp_path / "r", settings=QUIET)
    ranker.thread.prepare_learning(lambda: held.wait(30))
    learn(ranker, 0)
    threading.Timer(0.2, held.set).start()
    ranker.close()
    assert (ranker.current.answers, ranker.versions()) == (1, [3])


@pytest.mark.parametrize(
    "learner",
    [
        pr.ListwisePerceptron(),
        pr.SlamPerceptron(transforms=["missing"]),
        pr.FixedRanker({"title": 1.0, "prix, en €": 2.0}),
        pr.FixedRanker([1.0, 2.0, 3.0]),
    ],
)
def test_examples_are_what_a_model_takes(learner):
    current = Current.of(learner)
    example = make_example(current)
    assert example.names == current.learner.model.beginning.features
    assert example.X.tolist()[1] == [0.0] * example.X.shape[1]
    warm_up(current)


def test_compiling_is_said_once_with_where_it_is_kept(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PERCEPTRANK_CACHE_DIR", str(tmp_path))
    (tmp_path / "fresh.py").write_text(
        "from perceptrank.kernels.compiled import compiled\n"
        "@compiled\ndef one(x):\n    return x + 1\n@compiled\ndef two(x):\n    return x + 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fresh = importlib.import_module("fresh")

    with announce_compiling(), caplog.at_level(logging.INFO, "perceptrank.serve"):
        assert fresh.one(1) + fresh.two(1) == 5
    assert caplog.messages == [
        f"compiling, once, into {tmp_path}/perceptrank: it ranks after a few seconds, and learns after about half a "
        "minute"
    ]


def started(folder, cache, *words):
    """A service in a process of its own with its messages, once it listens, and when that was."""
    command = [sys.executable, "-m", "perceptrank", "serve", "--data", str(folder), "--port", "0", *words]
    process = subprocess.Popen(
        [*command, "--log-format", "json"],
        env=os.environ | {"PERCEPTRANK_CACHE_DIR": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    for line in process.stderr:
        said.append(json.loads(line))
        if "address" in said[-1]:
            break
    return process, Running(process.pid, int(said[-1]["address"].rpartition(":")[2])), said


def stopped(process):
    """Messages of a service until it has stopped."""
    process.terminate()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    return [json.loads(line) for line in said.splitlines()]


def body(n, **more):
    documents = [{"id": f"d{i}", "features": {"x": i / 7, "y": -i, "z": 0.5}} for i in range(n)]
    return json.dumps({"documents": documents, **more})


@pytest.mark.engine
def test_a_first_start_ranks_before_it_learns_and_a_warm_one_compiles_nothing(tmp_path):
    process, running, said = started(tmp_path / "first", tmp_path / "cache")
    assert said[0]["message"].startswith("compiling, once, into ")
    assert send(running, "GET", "/readyz")[0] == 200
    status, _, content = send(running, "GET", "/learnz")
    assert (status, json.loads(content)["status"]) == (503, "compiling")
    assert send(running, "POST", "/v1/rank", body(3))[0] == 200
    assert send(running, "POST", "/v1/learn", body(3, grades={"d1": 1}, event_id="1"))[0] == 200
    assert send(running, "POST", "/v1/learn", body(9, grades={"d1": 1}, event_id="2"))[0] == 200
    assert send(running, "GET", "/learnz")[0] == 503
    said += stopped(process)
    assert said[-2]["message"].startswith("default: ready to learn after ")
    assert said[-1]["message"] == "stopped; everything is logged and saved"
    assert verify(tmp_path / "first")[0].answers == 2

    warm = os.environ | {"PERCEPTRANK_CACHE_DIR": str(tmp_path / "warm")}
    subprocess.run([sys.executable, "-m", "perceptrank", "warm-up"], env=warm, check=True, capture_output=True)
    process, running, said = started(tmp_path / "second", tmp_path / "warm")
    for n in (1, 2, 40, 700):
        assert send(running, "POST", "/v1/rank", body(n))[0] == 200
        for part in range(3):
            answer = body(n, grades={"d0": 1}, event_id=f"{n} {part}")
            assert send(running, "POST", "/v1/learn", answer)[0] == 200
    said += stopped(process)
    assert not [one for one in said if "compiling" in one["message"]]


@pytest.mark.parametrize("incumbent", [pr.FixedRanker({"text": 1.0, "sales": 2.0}), pr.ListwisePerceptron()])
def test_a_safe_start_is_compiled_ahead(incumbent, caplog):
    if incumbent.learns:
        incumbent.learn_one([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], [1, 0])
    learner = pr.ClickPerceptron(production="score", transforms=[pr.ScoreOf(incumbent), "auto"])
    with caplog.at_level(logging.INFO, "perceptrank.serve"):
        warm_up(Current(learner))
    assert not caplog.records
    assert make_example(Current(learner)).X.shape[1] == (3 if incumbent.learns else 2)
