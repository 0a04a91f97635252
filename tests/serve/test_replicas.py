"""Replicas: they learn what the primary logs, to the bit, send it the answers, and go on ranking without it."""

import json
import os
import shutil
import sqlite3
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import numpy as np
import pytest
from support.asgi import ask
from support.serving import send
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.io.model_file import model_text
from perceptrank.serve import Service, verify
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import (
    EventConflictError,
    ExpiredRankingError,
    FeatureMismatchError,
    LearningOffError,
    ReadOnlyError,
    ServiceError,
    UnauthorizedError,
    UnknownRankingError,
)
from perceptrank.serve.http.access import Access, Gate, RateLimit
from perceptrank.serve.http.app import make_app
from perceptrank.serve.log.records import AnswerEntry, ModelEntry, as_bytes, encode
from perceptrank.serve.replicas import follower
from perceptrank.serve.replicas.links import Peer, announced, find_primary
from perceptrank.serve.replicas.replica import Replica
from perceptrank.serve.settings import Settings

NAMES = ("title", "price")


def query(number):
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(4, 2)).tolist()
    documents = [Document(f"d{i}", dict(zip(NAMES, row, strict=True))) for i, row in enumerate(rows)]
    return documents, {f"d{i}": float(grade) for i, grade in enumerate(rng.integers(0, 3, 4))}


def teach(ranker, first, last):
    for future in [ranker.learn(*query(i), event_id=f"e{i}") for i in range(first, last)]:
        future.result()
    ranker.flush()


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


def bits(current):
    """Everything that ranking and learning depend on."""
    kept = (current.version, current.link, current.names, current.answers, current.refused)
    return (model_text(current.learner.as_document()), current.shadow.as_plain(), *kept)


def check_same(replica, primary):
    wait_until(lambda: replica.current.link == primary.current.link)
    assert bits(replica.current) == bits(primary.current)


def state_of(folder):
    """What a reader must not change: all files but the index that readers of SQLite share."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {path: path.read_bytes() for path in files}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(follower, "_LONGEST_PAUSE", 0.2)


@pytest.fixture
def primary(nursery, tmp_path):
    """A service in another process."""
    made = nursery.start(tmp_path / "primary", snapshot_seconds=1e6)
    yield made
    if not made.has_ended:
        made.end()
    assert all(one.is_sound for one in verify(tmp_path / "primary"))


# A folder


def test_a_replica_of_a_folder_has_the_primarys_model(tmp_path):
    with Service(tmp_path, settings=Settings(snapshot_seconds=1e6)) as service:
        ranker = service.ranker("default")
        teach(ranker, 0, 20)
        ranker.save()
        teach(ranker, 20, 30)
        with Replica(tmp_path) as followers:
            replica = followers.ranker("default")
            assert bits(replica.current) == bits(ranker.current)  # at once: the snapshot, and what came after it
            teach(ranker, 30, 230)
            ranker.add_challenger("slam", pr.SlamPerceptron()).result()
            teach(ranker, 230, 300)
            ranker.promote_challenger("slam").result()
            ranker.roll_back(40).result()
            teach(ranker, 300, 310)
            check_same(replica, ranker)
            documents = query(0)[0]
            assert replica.rank(documents)[1:4] == ranker.rank(documents)[1:4]
            assert replica.status()["entries_behind"] == 0
            assert replica.status()["contact_seconds"] < 5


def test_a_replica_writes_nothing(tmp_path):
    with Service(tmp_path, settings=Settings(snapshot_seconds=1e6)) as service:
        teach(service.ranker("default"), 0, 10)
        before = state_of(tmp_path)
        with Replica(tmp_path, Settings(snapshot_seconds=0.01, snapshot_answers=1)) as followers:
            replica = followers.ranker("default")
            replica.rank(query(0)[0])
            with pytest.raises(ReadOnlyError, match="no snapshots"):
                replica.save()
            assert replica.versions() == []
        assert state_of(tmp_path) == before


def test_changes_are_refused_and_answers_need_a_primary(tmp_path):
    with Service(tmp_path) as service, Replica(tmp_path) as followers:
        replica = followers.ranker("default")
        for change in (replica.roll_back(1), replica.promote(pr.SlamPerceptron()), replica.remove_challenger("a")):
            with pytest.raises(ReadOnlyError, match=f"replica of {tmp_path}; ask the primary"):
                change.result()
        with pytest.raises(LearningOffError, match=r"has no primary.*--primary URL"):
            replica.learn(*query(0), event_id="a").result()
        with pytest.raises(LearningOffError, match="has no primary"):
            replica.owner_of(service.ranker("default").rank(query(0)[0]).ranking_id)
        assert service.ranker("default").current.version == 1


def test_a_log_that_was_cut_is_followed_from_a_snapshot(tmp_path):
    folder, old = tmp_path / "now", tmp_path / "old"
    with Service(folder) as service:
        teach(service.ranker("default"), 0, 10)
    shutil.copytree(folder, old)
    with Service(folder) as service:
        teach(service.ranker("default"), 10, 20)
    with Replica(folder) as followers:
        replica = followers.ranker("default")
        assert replica.current.answers == 20
        os.replace(old / "default" / "log.sqlite", folder / "default" / "log.sqlite")
        (folder / "default" / "acknowledged").unlink()
        for path in (folder / "default" / "versions").iterdir():
            path.unlink()
        wait_until(lambda: replica.current.answers == 10)
        assert "it was cut or restored; this replica goes on from version 12" in replica.messages[0]
        with Service(folder) as service:
            teach(service.ranker("default"), 50, 60)
            check_same(replica, service.ranker("default"))
        assert replica.problem == ""


def test_a_damaged_entry_stops_learning_and_not_ranking(tmp_path):
    with Service(tmp_path) as service:
        teach(service.ranker("default"), 0, 5)
        with Replica(tmp_path) as followers:
            replica = followers.ranker("default")
            with sqlite3.connect(tmp_path / "default" / "log.sqlite") as file:
                file.execute("INSERT INTO entries VALUES (8, x'01', zeroblob(16))")
            file.close()
            wait_until(lambda: replica.problem)
            assert "entry 8 does not follow the one before it" in replica.status()["problem"]
            assert replica.status()["entries_behind"] == 1
            assert not replica.status()["learning"]
            replica.rank(query(0)[0])
            assert replica.current.version == 7
            with sqlite3.connect(tmp_path / "default" / "log.sqlite") as file:
                file.execute("DELETE FROM entries WHERE sequence = 8")
            file.close()
            wait_until(lambda: not replica.problem)


def test_a_log_that_could_not_be_read_is_opened_again(tmp_path, monkeypatch):
    def fail(sequence):
        raise sqlite3.OperationalError("disk I/O error")

    with Service(tmp_path) as service, Replica(tmp_path) as followers:
        replica = followers.ranker("default")
        broken = replica.thread.log._log
        monkeypatch.setattr(broken, "link_of", fail)
        wait_until(lambda: replica.thread.log._log is not broken)
        teach(service.ranker("default"), 0, 5)
        check_same(replica, service.ranker("default"))
        wait_until(lambda: not replica.problem)


@pytest.mark.engine
def test_a_replica_reads_logs_in_postgresql(tmp_path, database):
    with Service(tmp_path, database=database) as service:
        teach(service.ranker("default"), 0, 20)
        with Replica(tmp_path, database=database) as followers:
            teach(service.ranker("default"), 20, 40)
            check_same(followers.ranker("default"), service.ranker("default"))


# An address


@contextmanager
def following(primary, **options):
    with Replica(primary.url, **options) as followers:
        yield followers.ranker("default")


def versions(primary):
    with pr.Client(primary.url) as client:
        return client.versions()["model_version"]


def test_a_replica_of_an_address_has_the_primarys_model_and_sends_answers(primary):
    with pr.Client(primary.url) as client, following(primary) as replica:
        assert replica.current.version == 1
        first = replica.learn(*query(0), event_id="e0")  # names the features
        assert (first.result().sequence, first.result().duplicate) == (3, False)
        together = []
        futures = [replica.learn(*query(i), event_id=f"e{i}", together=together) for i in range(1, 100)]
        replica.submit(together)
        assert [one.result().sequence for one in futures] == list(range(4, 103))
        replica.flush()  # they are learned here too
        assert replica.current.version == 102
        text = model_text(client.model().as_document())
        assert model_text(replica.current.learner.as_document()) == text
        assert replica.learn(*query(5), event_id="e5").result().duplicate
        with pytest.raises(EventConflictError, match="e5"):
            replica.learn(*query(6), event_id="e5").result()
        ranked = replica.rank(query(7)[0])
        answer = replica.feedback(ranked.ranking_id, {"d1": 1.0}).result()
        assert answer.event_id == ranked.ranking_id
        assert replica.feedback(ranked.ranking_id, {"d1": 1.0}).result().duplicate
        wait_until(lambda: replica.current.version == versions(primary) == 103)


def test_weights_and_other_features_are_refused_as_by_the_primary(primary):
    with following(primary) as replica, following(primary) as other:
        late = other.learn([Document("a", [1.0, 2.0, 3.0]), Document("b", [0.0, 0.0, 0.0])], {"a": 1.0}, event_id="x")
        late.result()
        wait_until(lambda: replica.current.n_features == 3)
        with pytest.raises(FeatureMismatchError):
            replica.learn(*query(0), event_id="y")


def test_a_primary_that_goes_and_comes_back(nursery, tmp_path, primary):
    with following(primary) as replica:
        replica.learn(*query(0), event_id="a").result()
        replica.flush()
        port = primary.port
        primary.end()
        wait_until(lambda: replica.problem)
        assert f"{primary.url} cannot be followed: cannot reach" in replica.problem
        assert replica.status()["contact_seconds"] > 0
        replica.rank(query(1)[0])
        with pytest.raises(LearningOffError, match=r"cannot reach.*same event_id"):
            replica.learn(*query(1), event_id="b").result()
        again = nursery.start(tmp_path / "primary", port=port)
        assert replica.learn(*query(1), event_id="b").result().sequence == 4
        wait_until(lambda: replica.current.version == 4 and not replica.problem)
        again.end()


@contextmanager
def other_server(status, content):
    """The address of a server that always answers the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def test_what_is_no_primary_is_named(primary, nursery, tmp_path):
    with pytest.raises(ConnectionError, match=r"cannot reach http://127.0.0.1:1"):
        Replica("http://127.0.0.1:1")
    for status, content, problem in ((404, b"", "has status 404"), (200, b"<html>", "does not answer as expected")):
        with other_server(status, content) as url, pytest.raises(ServiceError, match=problem) as caught:
            Replica(url)
        assert "a perceptrank service?" in str(caught.value)
    with pytest.raises(FileNotFoundError, match=f"no log in {tmp_path}: --follow the folder"):
        Replica(tmp_path)
    folder = tmp_path / "closed"
    folder.mkdir()
    text = Access(folder).add("all", ["admin"])
    other = Access(folder).add("some", ["rank", "feedback"])
    closed = nursery.start(folder)
    with pytest.raises(UnauthorizedError, match="needs a token"):
        Replica(closed.url)
    with pytest.raises(PermissionError, match="lacks the scope 'admin'"):
        Replica(closed.url, token=other)
    with following(closed, token=text) as replica:
        assert replica.learn(*query(0), event_id="a").result().sequence == 3
    closed.end()


# Over HTTP


@contextmanager
def application(service, folder, **options):
    made = make_app(service, Access(folder), **options)
    try:
        yield made
    finally:
        made.state.live.close()


def test_a_replica_shows_its_lag(primary, tmp_path):
    with Replica(primary.url) as followers, application(followers, tmp_path) as made:
        assert json.loads(ask(made, "GET", "/readyz")[2]) == {
            "status": "ok",
            "problems": {},
            "entries_behind": {"default": 0},
        }
        status = json.loads(ask(made, "GET", "/v1/rankers")[2])["default"]
        assert (status["replica_of"], status["entries_behind"]) == (primary.url, 0)
        text = ask(made, "GET", "/metrics")[2].decode()
        assert 'perceptrank_entries_behind{ranker="default"} 0.0' in text
        assert 'perceptrank_contact_seconds{ranker="default"}' in text
        assert made.state.live.frame("default")["status"]["replica_of"] == primary.url
        primary.end()
        wait_until(lambda: followers.ranker("default").problem)
        assert ask(made, "GET", "/learnz")[0] == 503
        assert ask(made, "POST", "/v1/rank", {"documents": [{"id": "a", "features": [1]}]})[0] == 200


def test_a_replica_takes_answers_to_the_primarys_rankings(primary, tmp_path):
    documents = [{"id": "a", "features": {"x": 1.0}}, {"id": "b", "features": {"x": 0.0}}]
    with pr.Client(primary.url) as client, Replica(primary.url) as followers:
        ranking = client.rank(documents)["ranking_id"]
        with application(followers, tmp_path) as made:
            status, _, content = ask(made, "POST", "/v1/feedback", {"ranking_id": ranking, "grades": {"a": 1}})
            assert (status, json.loads(content)["sequence"]) == (200, 3)
            own = followers.ranker("default").rank([Document("a", {"x": 1.0})]).ranking_id
            several = [{"ranking_id": name, "grades": {"a": 1}} for name in (ranking, own, "1-1-0")]
            status, _, content = ask(made, "POST", "/v1/feedback", several)
            first, second, third = json.loads(content)["results"]
            assert (status, first["duplicate"], second["duplicate"]) == (207, True, False)
            assert third["error"]["kind"] == UnknownRankingError.kind
            expired = client.rank(documents)["ranking_id"]
            primary.end()
            assert ask(made, "POST", "/v1/feedback", {"ranking_id": expired, "grades": {"a": 1}})[0] == 507
            assert ask(made, "POST", "/v1/model/rollback", {"version": 1})[0] == 403


def test_the_primary_does_not_know_a_replicas_rankings(primary):
    with pr.Client(primary.url) as client, following(primary) as replica, pytest.raises(ExpiredRankingError):
        client.feedback(replica.rank(query(0)[0]).ranking_id, {"d1": 1})


def forwarded(names=NAMES, **changes):
    fields = {"event_id": "a", "ranking_id": None, "documents": ["a", "b"], "features": as_bytes([[1, 0], [0, 1]])}
    entry = AnswerEntry(**({"time": 1, "grades": as_bytes([1, 0]), "weight": 1.0} | fields | changes))
    return {"record": encode(entry), "names": names}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"record": b"\x01nothing", "names": None}, "cannot be read"),
        ({"record": encode(ModelEntry(1, "", b"")), "names": None}, "it is no answer"),
        (forwarded(event_id=""), "it is no answer"),
        (forwarded(documents=["a", "a"]), "it has ids"),
        (forwarded(documents=["a", ""]), "it has ids"),
        (forwarded(documents=[], features=b"", grades=b""), "cannot be"),
        (forwarded(features=as_bytes([[1, np.nan], [0, 1]])), "it has features"),
        (forwarded(features=as_bytes([[1, np.inf], [0, 1]])), "it has features"),
        (forwarded(grades=as_bytes([1, -1])), "it has grades"),
        (forwarded(grades=as_bytes([1, np.nan])), "it has grades"),
        (forwarded(weight=-1.0), "a weight"),
        (forwarded(weight=float("nan")), "a weight"),
        (forwarded(names=("x",)), "a number of features"),
    ],
)
def test_entries_are_checked_as_answers_are(shared, entry, problem):
    made, ranker = shared
    status, _, content = ask(made, "POST", "/v1/entries", msgspec.to_builtins([entry]))
    (result,) = json.loads(content)["results"]
    assert status == 207
    assert result["error"]["kind"] == "invalid_request"
    assert problem in result["error"]["message"]
    assert ranker.current.version == 1


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    with Service(folder) as service, application(service, folder) as made:
        yield made, service.ranker("default")


def test_numbers_of_entries_are_checked(shared):
    for after in ("x", "-1", "9" * 30):
        assert ask(shared[0], "GET", f"/v1/entries/{after}")[0] == 422
    status, _, content = ask(shared[0], "GET", "/v1/entries/0")
    batch = json.loads(content)
    assert (status, batch["end"], len(batch["rows"])) == (200, 1, 1)
    assert json.loads(ask(shared[0], "GET", "/v1/entries/7")[2]) == {"link": None, "end": 1, "rows": []}


def test_only_admins_follow(nursery, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    text = Access(folder).add("others", ["rank", "feedback", "watch"])
    closed = nursery.start(folder)
    for method, path in (("GET", "/v1/snapshot"), ("GET", "/v1/entries/0"), ("POST", "/v1/entries")):
        assert send(closed, method, path, "[]", {"Authorization": f"Bearer {text}"})[0] == 403
    closed.end()


def test_the_primary_is_found_by_its_folder(tmp_path, primary):
    folder = tmp_path / "primary"
    with announced(folder, primary.url) as token:
        assert find_primary(folder) == Peer(primary.url, token)
        assert (folder / "primary").stat().st_mode & 0o777 == 0o600
        with Replica(folder) as followers:
            assert followers.ranker("default").learn(*query(0), event_id="a").result().sequence == 3
    with pytest.raises(LearningOffError):
        find_primary(folder)


def test_the_services_own_token_may_do_everything(tmp_path):
    access = Access(tmp_path)
    access.add("guest", ["watch"])
    assert not access.allows("Bearer own", "admin")
    access.own_token = "own"
    assert access.allows("Bearer own", "admin")
    assert not access.allows("Bearer ", "admin")
    assert not access.allows(None, "admin")
    gate = Gate(access, RateLimit(1e-9))
    for _ in range(3):  # at any rate
        gate.admit({"authorization": "Bearer own"}, "admin")


# The command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--follow", "nowhere"], "there is no log in nowhere"),
        (["--follow", "http://127.0.0.1:1"], "cannot reach http://127.0.0.1:1"),
        (["--follow", "ftp://host"], "url must be like http://host:port, got"),
        (["--follow", "x", "--model", "m.json"], "--follow and --model exclude each other"),
        (["--follow", "x", "--promote-at", "0.1"], "--follow and --promote-at exclude each other"),
        (["--follow", "x", "--workers", "2"], "--follow and --workers exclude each other"),
        (["--primary", "http://a"], "--primary is for a replica: say --follow"),
        (["--follow-token", "t"], "--follow-token is for a replica: say --follow"),
    ],
)
def test_wrong_options_are_explained(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, ["serve", "--check", "--port", "0", *words])
    assert run.exit_code == 1, run.output
    assert message in run.stderr
    assert "Traceback" not in run.output
    assert list(tmp_path.iterdir()) == []


def test_a_replica_can_be_checked(tmp_path, primary):
    for target in (primary.url, str(tmp_path / "primary")):
        run = CliRunner().invoke(app, ["serve", "--check", "--port", "0", "--follow", target])
        assert run.exit_code == 0, run.output
