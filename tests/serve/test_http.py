"""The HTTP interface and its client, against a running service."""

import asyncio
import json
import re
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from support.serving import send

import perceptrank as pr
from perceptrank.serve import Service, ServiceError, verify
from perceptrank.serve.errors import (
    EventConflictError,
    ExpiredRankingError,
    FeatureMismatchError,
    ForbiddenError,
    InvalidRequestError,
    TooLargeError,
    UnauthorizedError,
    UnknownError,
    UnknownRankingError,
)
from perceptrank.serve.http import models
from perceptrank.serve.http.access import SCOPES, Access
from perceptrank.serve.http.app import make_app
from perceptrank.serve.learning import Columns

DOCUMENTS = {"d1": {"title": 1.0, "price": 0.5}, "d2": {"title": 0.0, "price": 2.0}, "d3": {"title": 0.5, "price": 1.0}}


def listed(documents):
    return [{"id": name, "features": features} for name, features in documents.items()]


@pytest.fixture(scope="module")
def running(nursery, tmp_path_factory):
    """A service with two rankers that stay as they are, unless a test has one of its own."""
    folder = tmp_path_factory.mktemp("service")
    models = {"default": "listwise", "slow": "slam"}
    made = nursery.start(folder, models=models, limits={"body_bytes": 10**6, "body_seconds": 1.0})
    yield made
    made.end()
    assert all(one.is_sound for one in verify(folder))


@pytest.fixture
def own(nursery, tmp_path):
    """A new service."""
    made = nursery.start(tmp_path / "own", rankings=3)
    yield made
    made.end()


@pytest.fixture
def client(running):
    with pr.Client(running.url) as made:
        yield made


def test_rank_answer_and_learn(own):
    with pr.Client(own.url) as client:
        first = client.rank(DOCUMENTS)
        assert first["order"] == ["d1", "d2", "d3"]  # nothing learned: as they came
        assert first["scores"] == dict.fromkeys(DOCUMENTS, 0.0)
        assert first["model_version"] == 1
        assert set(first) == {"ranking_id", "order", "scores", "model_version"}
        answer = client.feedback(first["ranking_id"], {"d2": 2, "d3": 1}, event_id="e1")
        assert answer == {"event_id": "e1", "sequence": 3, "duplicate": False}
        assert client.feedback(first["ranking_id"], {"d2": 2, "d3": 1}, event_id="e1")["duplicate"]
        client.learn(listed(DOCUMENTS), {"d2": 1, "d1": 0}, event_id="e2", weight=0.5, omit_ungraded=True)
        expected = pr.ListwisePerceptron()
        X = np.array([[1.0, 0.5], [0.0, 2.0], [0.5, 1.0]])
        expected.learn_one(Columns(X, ("title", "price")), [0, 2, 1])
        expected.learn_one(X[:2], [0, 1], 0.5)
        while client.versions()["model_version"] < 4:
            time.sleep(0.01)
        assert json.dumps(client.model().as_document()) == json.dumps(expected.as_document())
        ranked = client.rank(DOCUMENTS, contributions=True)
        assert list(ranked["scores"].values()) == expected.predict(X).tolist()
        assert ranked["order"][0] == "d2"
        for name, parts in ranked["contributions"].items():
            assert sum(parts.values()) == pytest.approx(ranked["scores"][name])


def test_the_model_is_the_file_that_save_writes(own, tmp_path):
    with pr.Client(own.url) as client:
        client.learn(DOCUMENTS, {"d2": 1}, event_id="a")
        while client.versions()["model_version"] < 3:
            time.sleep(0.01)
        status, headers, content = send(own, "GET", "/v1/model")
        client.model().save(tmp_path / "model.json")
        assert (status, headers["X-Model-Version"]) == (200, "3")
        assert content == (tmp_path / "model.json").read_bytes()


def test_rankings_do_not_wait_while_a_large_model_is_written(tmp_path, monkeypatch):
    threads = []
    monkeypatch.setattr(models, "model_text", lambda _: threads.append(threading.current_thread()) or "{}")
    service = Service(tmp_path)
    app = make_app(service, Access(tmp_path))
    scope = {"type": "http", "method": "GET", "path": "/v1/model", "headers": [], "query_string": b""}
    sent = []

    async def note(message):
        sent.append(message)

    asyncio.run(app(scope, None, note))
    assert (sent[0]["status"], sent[1]["body"]) == (200, b"{}")
    assert threads != [threading.current_thread()]  # which is that of the requests
    app.state.live.close()
    service.close()


def test_bulk_learning_and_several_answers(own):
    with pr.Client(own.url) as client:
        many = [{"documents": DOCUMENTS, "grades": {"d1": i}, "event_id": f"b{i}"} for i in range(5)]
        many.insert(2, {"documents": {"d1": {"other": 1.0}}, "grades": {"d1": 1}, "event_id": "wrong"})
        results = client.learn_many(many)
        assert [one.get("sequence") for one in results] == [3, 4, None, 5, 6, 7]
        assert results[2]["error"]["kind"] == "feature_mismatch"
        ids = [client.rank(DOCUMENTS)["ranking_id"] for _ in range(2)]
        several = [{"ranking_id": one, "grades": {"d3": 1}} for one in [*ids, "x-y-z", ids[0]]]
        status, _, content = send(own, "POST", "/v1/feedback", json.dumps(several))
        found = json.loads(content)["results"]
        assert status == 207
        assert [one.get("duplicate") for one in found] == [False, False, None, True]
        assert found[2]["error"]["kind"] == "unknown_ranking"
        status, _, _ = send(own, "POST", "/v1/feedback", json.dumps(several[:2]))
        assert status == 200


def test_errors_are_the_librarys(own):
    with pr.Client(own.url) as client:
        ids = [client.rank(DOCUMENTS)["ranking_id"] for _ in range(5)]
        with pytest.raises(UnknownRankingError, match="there is no ranking 'nix'; send the ranking_id"):
            client.feedback("nix", {"d1": 1})
        with pytest.raises(ExpiredRankingError, match="has expired"):
            client.feedback(ids[0], {"d1": 1})
        with pytest.raises(UnknownError, match="no document 'd9'"):
            client.feedback(ids[4], {"d9": 1})
        with pytest.raises(ValueError, match=r"Expected `float` >= 0.0 - at `\$.grades"):
            client.feedback(ids[4], {"d1": -1})
        client.feedback(ids[4], {"d1": 1}, event_id="e")
        with pytest.raises(EventConflictError, match="used for another answer, entry 3"):
            client.feedback(ids[4], {"d1": 2}, event_id="e")
        with pytest.raises(FeatureMismatchError, match="lacks the feature 'price'"):
            client.rank({"d1": {"title": 1.0}})
        with pytest.raises(LookupError, match="no version 99; versions are 1 to"):
            client.roll_back(99)
        with pytest.raises(InvalidRequestError, match="not a model"):
            client._request("POST", "/model/promote", {"model": {"format": "x"}})
        with pytest.raises(InvalidRequestError, match="exactly one of challenger, ranker and model"):
            client._request("POST", "/model/promote", {})
        with pytest.raises(UnknownError, match="no target 'nix'"):
            client.export("nix")
        with pytest.raises(InvalidRequestError, match="cannot be exported to sql"):
            client.export("sql")  # the default transforms depend on the other documents
    with pr.Client(own.url, ranker="nix") as other, pytest.raises(UnknownError, match="no ranker 'nix'"):
        other.rank(DOCUMENTS)
    with pytest.raises(ValueError, match="url must be like http://host:port, got 'localhost'"):
        pr.Client("localhost")
    with pytest.raises(OSError, match=r"cannot reach http://127\.0\.0\.1:1"):
        pr.Client("http://127.0.0.1:1", retries=0).rank(DOCUMENTS)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/v1/rank", b"", 422, "invalid_request"),
        ("POST", "/v1/rank", b"{", 422, "invalid_request"),
        ("POST", "/v1/rank", b"[" * 100_000, 422, "invalid_request"),
        ("POST", "/v1/rank", b'{"documents": [], "more": 1}', 422, "invalid_request"),
        ("POST", "/v1/rank", b'{"documents": [{"id": "a", "features": {"x": NaN}}]}', 422, "invalid_request"),
        ("POST", "/v1/rank", b'{"documents": [{"id": "a", "features": {"x": 1e999}}]}', 422, "invalid_request"),
        ("POST", "/v1/rank", b'{"documents": [{"id": "\\ud800", "features": [1]}]}', 422, "invalid_request"),
        ("POST", "/v1/rank", b'{"documents": [{"id": "a", "features": []}]}', 422, "invalid_request"),
        (
            "POST",
            "/v1/rank",
            b'{"documents": [{"id": "a", "features": {"%s": 1}}]}' % (b"x" * 1001),
            422,
            "invalid_request",
        ),
        ("POST", "/v1/rank", b'{"documents": [{"id": "%s", "features": [1]}]}' % (b"x" * 201), 422, "invalid_request"),
        ("POST", "/v1/feedback", b'{"ranking_id": "a", "grades": {"%s": 1}}' % (b"x" * 201), 422, "invalid_request"),
        ("POST", "/v1/rank", b" " * (10**6 + 1), 413, "too_large"),
        ("POST", "/v1/rank", json.dumps({"documents": [{"id": "a", "features": [1]}] * 10_001}), 413, "too_large"),
        ("GET", "/v1/rankers/", None, 404, "unknown"),
        ("POST", "/v1/model/rollback", b'{"version": 123456789012345678901}', 404, "unknown"),
        ("POST", "/v1/model/rollback", b'{"version": 0}', 422, "invalid_request"),
        ("GET", "/v1/rank", None, 405, "not_allowed"),
        ("GET", "/v1/nothing", None, 404, "unknown"),
        ("GET", "/v1/rankers/..%2f..%2fetc/model", None, 404, "unknown"),
        ("GET", "/live/nix", None, 404, "unknown"),
        ("GET", "/v1/export/{target}", None, 404, "unknown"),  # names of parts of paths are not paths
        ("GET", "/v1/rankers/{name}/model", None, 404, "unknown"),
        ("GET", "/live/%7Bname%7D", None, 404, "unknown"),
    ],
)
def test_wrong_requests_are_told_what_to_do(running, method, path, body, status, kind):
    got, headers, content = send(running, method, path, body)
    error = json.loads(content)["error"]
    assert (got, error["kind"]) == (status, kind)
    assert error["message"]
    assert error["advice"]
    assert headers["content-type"] == "application/json"


def test_a_body_that_does_not_arrive_is_not_waited_for(running):
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_bulk_request_has_a_limit_of_lines(client):
    with pytest.raises(TooLargeError, match="1 to 10000 lines, got 10001"):
        client._send("POST", "/learn", b"{}\n" * 10_001, "application/x-ndjson")
    with pytest.raises(InvalidRequestError, match="there must be a line, got none"):
        client._send("POST", "/learn", b"\n\n", "application/x-ndjson")


def test_named_rankers_are_apart(own, nursery, tmp_path):
    made = nursery.start(tmp_path / "two", models={"default": "listwise", "b": "slam"})
    with pr.Client(made.url) as one, pr.Client(made.url, ranker="b") as other:
        other.learn(DOCUMENTS, {"d2": 1}, event_id="x")
        while other.versions()["model_version"] < 3:
            time.sleep(0.01)
        assert other.model().name == "slam"
        assert one.versions()["model_version"] == 1
        assert one.promote("b") == 2
        assert json.dumps(one.model().as_document()) == json.dumps(other.model().as_document())
        model = pr.ListwisePerceptron(transforms=None)
        model.learn_one(Columns(np.eye(2), ("title", "price")), [0, 1])
        assert one.promote(model) == 3
        assert b"def score" in one.export("python")
        assert one.roll_back(1) == 4
        assert one.model().n_queries == 0
        _, _, content = send(made, "GET", "/v1/rankers")
        assert set(json.loads(content)) == {"default", "b"}
    made.end()


def test_health_readiness_and_metrics(running, client):
    client.rank(DOCUMENTS)
    assert json.loads(send(running, "GET", "/healthz")[2]) == {"status": "ok"}
    for path in ("/readyz", "/learnz"):
        status, _, content = send(running, "GET", path)
        assert (status, json.loads(content)["status"]) == (200, "ok")
    text = send(running, "GET", "/metrics")[2].decode()
    assert 'perceptrank_learning{ranker="default"} 1.0' in text
    assert 'perceptrank_request_seconds_count{path="/v1/rank"}' in text


def test_the_description_names_every_path(running):
    description = json.loads(send(running, "GET", "/openapi.json")[2])
    paths = set(description["paths"])
    expected = {"rank", "feedback", "learn", "model", "model/versions", "model/rollback", "model/promote"}
    assert {f"/v1/{one}" for one in expected} | {f"/v1/rankers/{{name}}/{one}" for one in expected} <= paths
    fields = description["components"]["schemas"]["RankResponse"]["properties"]
    assert {"ranking_id", "order", "scores", "model_version", "policy", "places", "contributions"} == set(fields)


def test_stopping_finishes_what_has_begun_and_saves(nursery, tmp_path):
    running = nursery.start(tmp_path, snapshot_seconds=1e9)
    acknowledged = []

    def work():
        with pr.Client(running.url, retries=0) as client, suppress(OSError, ServiceError):
            acknowledged.extend(
                client.learn(DOCUMENTS, {"d2": 1}, event_id=f"e{number}")["sequence"] for number in range(10_000)
            )

    thread = threading.Thread(target=work)
    thread.start()
    while len(acknowledged) < 20:
        time.sleep(0.01)
    running.end()
    thread.join()
    (found,) = verify(tmp_path)
    assert found.problems == ()
    assert found.snapshots == 1
    assert found.answers >= len(acknowledged) >= 20


def test_a_client_sends_again_after_a_restart(nursery, tmp_path):
    running = nursery.start(tmp_path)
    with pr.Client(running.url, retries=0) as client:
        client.learn(DOCUMENTS, {"d2": 1}, event_id="e")
        running.end()
        with pytest.raises(ConnectionError, match="cannot reach"):
            client.learn(DOCUMENTS, {"d2": 1}, event_id="e")
    again = nursery.start(tmp_path)
    with pr.Client(again.url) as client:
        client.rank(DOCUMENTS)
        client._own.connection.sock.shutdown(socket.SHUT_RDWR)  # the connection breaks
        assert client.learn(DOCUMENTS, {"d2": 1}, event_id="e")["duplicate"]
    again.end()


class Losing(ThreadingHTTPServer):
    """Passes requests on to a service; of those to some path, the first one is carried out and gets no response."""

    def __init__(self, running, path):
        super().__init__(("127.0.0.1", 0), Passing)
        self.running, self.path, self.taken = running, path, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=[0.01], daemon=True).start()

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)


class Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, headers, content = send(self.server.running, "POST", self.path, body, dict(self.headers))
        self.server.taken += self.path == self.server.path
        if self.path == self.server.path and self.server.taken == 1:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", headers["Content-Length"])
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        pass


def test_queries_without_an_event_id_are_learned_once_if_the_response_is_lost(own):
    with Losing(own, "/v1/learn") as losing, pr.Client(losing.url) as client:
        results = client.learn_many([{"documents": DOCUMENTS, "grades": {"d2": 1}}] * 3)
        assert losing.taken == 2
        assert [one["duplicate"] for one in results] == [True] * 3
        assert len({one["event_id"] for one in results}) == 3


def test_changes_are_not_sent_again_if_the_response_is_lost(own):
    with Losing(own, "/v1/model/rollback") as losing, pr.Client(losing.url) as client:
        with pytest.raises(ConnectionError, match=r"did not answer: .*; the change may have been made: see versions"):
            client.roll_back(1)
        assert losing.taken == 1
    with pr.Client(own.url) as client:
        assert client.versions()["model_version"] == 2
        client._own.connection.sock.shutdown(socket.SHUT_RDWR)  # one that was idle is broken: there is a new one
        assert client.roll_back(1) == 3
    with pytest.raises(ConnectionError, match="cannot reach"):
        pr.Client("http://127.0.0.1:1", retries=1).roll_back(1)


def test_tokens_have_scopes(nursery, tmp_path):
    access = Access(tmp_path)
    rank, feedback, admin = (access.add(name, [name]) for name in ("rank", "feedback", "admin"))
    kept = (tmp_path / "tokens.json").read_text()
    assert not any(one in kept for one in (rank, feedback, admin))
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidRequestError, match="names of their own, got 'rank'"):
        access.add("rank", ["rank"])
    with pytest.raises(InvalidRequestError, match="scopes must be some of rank, feedback, watch, admin, got all"):
        access.add("x", ["all"])
    running = nursery.start(tmp_path)

    def call(token, do):
        with pr.Client(running.url, token=token) as client:
            return do(client)

    calls = {
        "rank": lambda client: client.rank(DOCUMENTS),
        "feedback": lambda client: client.learn(DOCUMENTS, {"d2": 1}, event_id="e"),
        "admin": lambda client: client.versions(),
    }
    for scope, token in (("rank", rank), ("feedback", feedback), ("admin", admin)):
        for needed, do in calls.items():
            if needed == scope:
                call(token, do)
            else:
                with pytest.raises(ForbiddenError, match=f"'{scope}' lacks the scope '{needed}'"):
                    call(token, do)
    for wrong in (None, "x", rank + "x", rank[:-1]):
        with pytest.raises(UnauthorizedError, match=r"needs a token|token is not known"):
            call(wrong, calls["rank"])
    assert send(running, "GET", "/healthz")[0] == 200
    assert send(running, "GET", "/metrics")[0] == 401
    running.end()


def test_every_path_needs_its_scope(nursery, tmp_path):
    access = Access(tmp_path)
    tokens = {name: access.add(name, [name]) for name in SCOPES}
    running = nursery.start(tmp_path)
    described = json.loads(send(running, "GET", "/openapi.json")[2])["paths"]
    needed = {(path, method.upper()): "admin" for path, methods in described.items() for method in methods}
    needed |= {(path, "POST"): "rank" for path, _ in needed if path.endswith("/rank")}
    needed |= {(path, "POST"): "feedback" for path, _ in needed if path.endswith(("/feedback", "/clicks", "/learn"))}
    needed |= dict.fromkeys(
        [("/healthz", "GET"), ("/readyz", "GET"), ("/learnz", "GET"), ("/", "GET"), ("/page.js", "GET")]
    )
    assert len(needed) >= 25
    for (path, method), scope in [*needed.items(), (("/live", "GET"), "watch"), (("/live/{name}", "GET"), "watch")]:
        place = path.replace("{name}", "default").replace("{target}", "nix")

        def status(header, place=place, method=method):
            return send(running, method, place, None, header)[0]

        if scope is None:
            assert status({}) == 200, path
            continue
        assert status({}) == 401, path
        for name, token in tokens.items():
            if name == scope == "watch" or (scope, name) == ("watch", "admin"):
                continue  # a stream without an end, of which other tests are
            found = status({"Authorization": f"Bearer {token}"})
            assert (found == 403) == (name != scope), (path, name, found)
            assert found != 401
    running.end()


# Why a body that the description allows may be refused: what no description says, or what depends on the ranker.
KNOWN_REASONS = (
    "not a model|unknown measure|measure must|ids of documents must differ|there are no contributions|"
    "features must be finite numbers, got nan|a document must have 1 to 100000 features, got 0|there is a challenger|"
    "a ranker may have 16 challengers|[a-z0-9-]+ takes no query weights"
)


def explore(running, n_cases, paths=None):
    """Send what Schemathesis makes of the description, right and wrong, to every path, or to some."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    n_sent = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if paths is not None and operation.path not in paths:
            continue
        takes_something = bool(operation.body.items)  # else nothing in it can be wrong
        for mode in (GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if takes_something else [])):
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(
                max_examples=n_cases,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def send_case(case):
                nonlocal n_sent
                n_sent += 1
                response = case.call_and_validate(checks=checks, timeout=20)
                if case.meta.generation.mode is GenerationMode.POSITIVE and response.status_code in (413, 422):
                    error = response.json()["error"]
                    assert error["kind"] == "feature_mismatch" or re.match(KNOWN_REASONS, error["message"]), error

            send_case()
    return n_sent


def test_no_request_breaks_it(nursery, tmp_path):
    running = nursery.start(tmp_path)
    assert explore(running, 4, {"/v1/rank", "/v1/feedback", "/v1/learn", "/v1/export/{target}"}) >= 20
    running.end()
    assert verify(tmp_path)[0].problems == ()


@pytest.mark.deep
def test_ten_thousand_requests_do_not_break_it(nursery, tmp_path):
    running = nursery.start(tmp_path)
    assert explore(running, 420) >= 10_000
    running.end()
    assert verify(tmp_path)[0].problems == ()
