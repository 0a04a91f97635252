"""Several processes at one port: every answer is taken wherever it arrives, once, and all stop with the primary."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress

import pytest
from support.asgi import ask
from support.serving import Running, send
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import Service, verify
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import ExpiredRankingError, UnauthorizedError
from perceptrank.serve.http.access import Access
from perceptrank.serve.http.app import make_app
from perceptrank.serve.http.server import address_of, listen
from perceptrank.serve.replicas.replica import Replica
from perceptrank.serve.submissions import Acknowledgement

DOCUMENTS = {"a": {"title": 1.0, "price": 0.5}, "b": {"title": 0.0, "price": 2.0}}


class Crew(Running):
    """A service of several processes."""

    def __init__(self, process, lines):
        while (line := next(lines)).startswith("worker"):
            pass
        super().__init__(process.pid, int(re.fullmatch(r"serving .* at http://127\.0\.0\.1:(\d+)\n", line)[1]))
        self.process, self._lines, self.workers = process, lines, []

    def end(self, number=signal.SIGTERM, seconds=30):
        """Send a signal to the primary; return its status once it is gone."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def wait_for_worker(self):
        """Wait until a worker serves, and note its process."""
        while not (found := re.fullmatch(r"worker \d+ serves too, as process (\d+)\n", next(self._lines))):
            pass
        self.workers.append(int(found[1]))
        return self.workers[-1]


@contextmanager
def crew(folder, n=2, *words):
    command = [sys.executable, "-P", "-m", "perceptrank", "serve", "--data", str(folder), "--port", "0"]
    with subprocess.Popen([*command, "--workers", str(n), *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            made = Crew(process, iter(process.stderr))
            for _ in range(n - 1):
                made.wait_for_worker()
            yield made
        finally:
            process.kill()


def is_gone(pid, seconds=5.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError), open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


def rank_and_answer(url, n, token=None):
    """Rank and answer over new connections; return the starts of the processes that ranked, and the entries."""
    starts, sequences = [], []
    for _ in range(n):
        with pr.Client(url, token=token) as client:
            ranking = client.rank(DOCUMENTS)["ranking_id"]
        with pr.Client(url, token=token) as client:
            answer = client.feedback(ranking, {"b": 1})
            assert not answer["duplicate"]
        with pr.Client(url, token=token) as client:
            assert client.feedback(ranking, {"b": 1}) == answer | {"duplicate": True}
        starts.append(ranking.partition("-")[0])
        sequences.append(answer["sequence"])
    return starts, sequences


@pytest.mark.engine
def test_every_answer_is_taken_once_wherever_it_arrives(tmp_path):
    with crew(tmp_path, 3) as running:
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(rank_and_answer(running.url, 40)), daemon=True)
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({start for starts, _ in found for start in starts}) == 3  # all processes have ranked
        assert sorted(number for _, sequences in found for number in sequences) == list(range(3, 123))
        bodies = []
        for _ in range(10):
            with pr.Client(running.url) as client:
                bodies.append({"ranking_id": client.rank(DOCUMENTS)["ranking_id"], "grades": {"a": 1}})
        status, _, content = send(running, "POST", "/v1/feedback", json.dumps(bodies))
        assert status == 200
        assert sorted(one["sequence"] for one in json.loads(content)["results"]) == list(range(123, 133))
        for _ in range(5):  # the primary answers what is for admins
            assert "replica_of" not in json.loads(send(running, "GET", "/v1/rankers")[2])["default"]
            assert send(running, "GET", "/v1/model")[1]["X-Model-Version"] == "132"
            assert send(running, "POST", "/v1/model/rollback", '{"version": 0}')[0] == 422
        with pr.Client(running.url) as client:
            assert client.roll_back(10) == 133
        with Replica(running.url) as followers:  # whichever process it asks
            documents = [Document(name, features) for name, features in DOCUMENTS.items()]
            assert followers.ranker("default").learn(documents, {"a": 1.0}, event_id="x").result().sequence == 134
            followers.ranker("default").flush()
            assert followers.ranker("default").current.version == 134
        assert running.end() == 0
        assert all(is_gone(pid) for pid in running.workers)
    (result,) = verify(tmp_path)
    assert (result.answers, result.problems) == (131, ())
    assert not (tmp_path / "primary").exists()


@pytest.mark.engine
def test_a_worker_that_dies_is_started_again_and_none_outlives_the_primary(tmp_path):
    Access(tmp_path).add("other", ["rank"])
    token = Access(tmp_path).add("all", ["rank", "feedback", "admin"])
    with crew(tmp_path, 2) as running:
        with pr.Client(running.url) as client, pytest.raises(UnauthorizedError):
            client.rank(DOCUMENTS)
        starts, _ = rank_and_answer(running.url, 20, token)
        assert len(set(starts)) == 2
        (worker,) = running.workers
        workers_start = max(starts, key=int)
        rankings = []
        while not rankings or not rankings[-1].startswith(workers_start):
            with pr.Client(running.url, token=token) as client:
                rankings.append(client.rank(DOCUMENTS)["ranking_id"])
        os.kill(worker, signal.SIGKILL)
        assert is_gone(worker)
        time.sleep(0.1)
        with pr.Client(running.url, token=token) as client, pytest.raises(ExpiredRankingError):
            client.feedback(rankings[-1], {"b": 1})
        new = running.wait_for_worker()
        starts, sequences = rank_and_answer(running.url, 20, token)
        assert len(set(starts)) == 2
        assert sequences == list(range(23, 43))
        running.end(signal.SIGKILL)
        assert is_gone(new, 1.0)
        deadline = time.monotonic() + 5.0
        while True:  # until the port is free
            try:
                listen("127.0.0.1", running.port, Access(tmp_path)).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    (result,) = verify(tmp_path)
    assert (result.answers, result.problems) == (40, ())


@pytest.mark.engine
def test_answers_that_were_acknowledged_before_a_stop_are_logged(tmp_path):
    taken = []
    with crew(tmp_path, 2) as running:

        def send_answers(name):
            with suppress(OSError), pr.Client(running.url, retries=0) as client:
                for i in range(10_000):
                    client.learn(DOCUMENTS, {"a": 1}, event_id=f"{name}-{i}")
                    taken.append(f"{name}-{i}")

        threads = [threading.Thread(target=send_answers, args=(name,), daemon=True) for name in range(6)]
        for thread in threads:
            thread.start()
        while len(taken) < 200:
            time.sleep(0.005)
        assert running.end() == 0
        for thread in threads:
            thread.join()
    assert all(one.is_sound for one in verify(tmp_path))
    with Service(tmp_path) as service:
        found = service.ranker("default").thread.log.find_events(taken)
    assert len(found) == len(taken) == len(set(taken))


@pytest.mark.engine
def test_a_port_of_other_workers_is_not_joined(tmp_path):
    with crew(tmp_path / "one", 2) as running:
        words = ["serve", "--data", str(tmp_path / "two"), "--workers", "2", "--port", str(running.port)]
        run = CliRunner().invoke(app, words)
        assert run.exit_code == 1
        assert f"cannot listen at 127.0.0.1:{running.port}" in run.stderr
        running.end()


@pytest.mark.engine
def test_workers_follow_a_database(tmp_path, database):
    with crew(tmp_path, 2, "--database", database) as running:
        starts, sequences = rank_and_answer(running.url, 20)
        assert (len(set(starts)), sequences) == (2, list(range(3, 23)))
        assert running.end() == 0
    assert [(one.answers, one.problems) for one in verify(tmp_path, database)] == [(20, ())]


def test_there_is_at_least_one_process(tmp_path):
    run = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "d"), "--workers", "0"])
    assert run.exit_code == 2
    assert "--workers" in run.stderr


def test_answers_go_to_the_process_that_made_the_ranking(tmp_path):
    sent = []

    def forward(path, answer):
        sent.append((path, answer.ranking_id))
        future = Future()
        future.set_result(Acknowledgement(answer.ranking_id, 7, False))
        return future

    with Service(tmp_path) as service:
        service.ranker("default").owners["123"] = forward
        made = make_app(service, Access(tmp_path))
        status, _, content = ask(made, "POST", "/v1/feedback", {"ranking_id": "123-1-x", "grades": {"a": 1}})
        assert (status, json.loads(content)["sequence"]) == (200, 7)
        own = {"ranking_id": "124-1-x", "grades": {"a": 1}}
        status, _, content = ask(made, "POST", "/v1/feedback", [{**own, "ranking_id": "123-2-x"}, own])
        assert status == 207
        assert [one.get("sequence") for one in json.loads(content)["results"]] == [7, None]
        status, _, content = ask(made, "POST", "/v1/clicks", {"ranking_id": "123-3-x", "clicks": []})
        assert (status, json.loads(content)["sequence"]) == (200, 7)
        assert sent == [("/feedback", "123-1-x"), ("/feedback", "123-2-x"), ("/clicks", "123-3-x")]
        made.state.live.close()


def test_addresses_are_those_of_this_machine(tmp_path):
    Access(tmp_path).add("one", ["rank"])
    for host, shown in (("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("::", "[::1]")):
        with suppress(OSError), listen(host, 0, Access(tmp_path)) as listening:  # without IPv6
            assert address_of(listening) == f"http://{shown}:{listening.getsockname()[1]}"
    with listen("127.0.0.1", 0, Access(tmp_path), shared=True) as one:
        listen("127.0.0.1", one.getsockname()[1], Access(tmp_path), shared=True).close()
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
