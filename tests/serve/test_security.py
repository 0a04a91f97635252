"""Who is let in, at which rate, for how long, and what is written about it."""

import asyncio
import http.client
import io
import json
import math
import socket
import time
from contextlib import redirect_stderr, suppress
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from support.serving import send

import perceptrank as pr
from perceptrank.serve import Service
from perceptrank.serve.errors import ForbiddenError, RateLimitedError, UnauthorizedError
from perceptrank.serve.http import access as access_module
from perceptrank.serve.http.access import Access, Gate, RateLimit, check_site
from perceptrank.serve.http.app import make_app
from perceptrank.serve.http.log_lines import AccessLog
from perceptrank.serve.http.server import SlowClients
from perceptrank.serve.settings import Limits

DOCUMENTS = {"d1": {"secret_feature": 1.0}, "d2": {"secret_feature": 0.0}}
BODY = json.dumps({"documents": [{"id": name, "features": features} for name, features in DOCUMENTS.items()]})


@pytest.fixture(scope="module")
def running(nursery, tmp_path_factory):
    """A service without tokens that waits for nobody."""
    limits = {"header_seconds": 1.0, "send_seconds": 1.0}
    made = nursery.start(tmp_path_factory.mktemp("open"), limits=limits)
    yield made
    made.end()


# Rates


def test_a_bucket_fills_at_its_rate():
    now = [0.0]
    limit = RateLimit(2.0, 3.0, lambda: now[0])
    for _ in range(3):
        limit.take("a")
    with pytest.raises(
        RateLimitedError, match=r"more than 2 requests per second; send it again in 0\.5 seconds"
    ) as caught:
        limit.take("a")
    assert caught.value.retry_after == pytest.approx(0.5)
    limit.take("b")  # each has its own
    now[0] = 0.25
    with pytest.raises(RateLimitedError) as caught:
        limit.take("a")
    assert caught.value.retry_after == pytest.approx(0.25)  # refusals take no permits
    now[0] = 0.5
    limit.take("a")
    now[0] = 1000.0
    for _ in range(3):  # and not 2,000
        limit.take("a")
    with pytest.raises(RateLimitedError):
        limit.take("a")


def test_without_a_rate_there_is_no_limit_and_a_burst_is_a_second():
    free = RateLimit()
    for _ in range(10_000):
        free.take("a")
    assert free._buckets == {}
    assert RateLimit(50.0).burst == 50.0
    assert RateLimit(0.1).burst == 1.0


def test_a_token_that_sends_too_much_is_told_when_to_go_on(nursery, tmp_path):
    access = Access(tmp_path)
    first, second = access.add("first", ["rank"]), access.add("second", ["rank"])
    made = nursery.start(tmp_path, limits={"rate_limit": 0.2, "burst": 3})

    def rank(token):
        return send(made, "POST", "/v1/rank", BODY, {"Authorization": f"Bearer {token}"})

    assert [rank(first)[0] for _ in range(3)] == [200] * 3
    status, headers, content = rank(first)
    assert (status, json.loads(content)["error"]["kind"]) == (429, "rate_limited")
    assert 1 <= int(headers["retry-after"]) <= 5
    assert rank(second)[0] == 200
    assert send(made, "GET", "/healthz")[0] == 200  # needs no token, and is not limited
    with pr.Client(made.url, token=first) as client, pytest.raises(OSError, match=r"more than 0\.2 requests") as caught:
        client.rank(DOCUMENTS)
    assert isinstance(caught.value, RateLimitedError)
    made.end()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate_limit": 0.0}, "rate_limit must be a number > 0, got 0.0"),
        ({"burst": 0.5}, "burst must be a number >= 1, got 0.5"),
        ({"body_seconds": math.nan}, "body_seconds must be a number > 0"),
        ({"body_bytes": True}, "body_bytes must be a number > 0"),
    ],
)
def test_limits_are_checked(given, message):
    with pytest.raises(ValueError, match=message):
        Limits(**given)


# Tokens


def test_every_token_is_compared_whichever_it_is(tmp_path, monkeypatch):
    access = Access(tmp_path)
    texts = [access.add(f"t{k}", ["rank"]) for k in range(5)]
    compared = []
    original = access_module.compare_digest

    def compare(a, b):
        compared.append((a, b))
        return original(a, b)

    monkeypatch.setattr(access_module, "compare_digest", compare)
    for k, text in enumerate(texts):
        compared.clear()
        assert access.check(f"Bearer {text}", "rank") == f"t{k}"
        assert len(compared) == 5
        assert all(len(a) == len(b) == 64 for a, b in compared)  # of hashes, so that lengths tell nothing
    compared.clear()
    with pytest.raises(UnauthorizedError):
        access.check("Bearer " + texts[0][:-1], "rank")
    assert len(compared) == 5


def test_tokens_are_made_and_revoked_while_the_service_runs(tmp_path):
    running = Access(tmp_path)
    gate = Gate(running, RateLimit())

    def admit(text):
        return gate.admit({"authorization": f"Bearer {text}"}, "rank")

    assert (running.is_open, gate.admit({}, "rank")) == (True, "")
    first = Access(tmp_path).add("first", ["rank"])  # as another process does
    second = Access(tmp_path).add("second", ["rank"])
    assert (running.is_open, admit(first), admit(second)) == (False, "first", "second")
    with pytest.raises(UnauthorizedError, match=r"needs a token; send the header .* --add-token NAME=SCOPES prints it"):
        gate.admit({}, "rank")
    Access(tmp_path).revoke("first")
    with pytest.raises(
        UnauthorizedError, match=r"was revoked; ask whoever runs the service .* --add-token NAME=SCOPES"
    ):
        admit(first)
    assert admit(second) == "second"
    with pytest.raises(ValueError, match="no token 'first'; there are second"):  # which commands report in a line
        Access(tmp_path).revoke("first")
    Access(tmp_path).revoke("second")
    for access in (running, Access(tmp_path)):  # without tokens, but not open
        assert (access.tokens, access.is_open) == ([], False)
        with pytest.raises(UnauthorizedError):
            access.check(f"Bearer {second}", "rank")
    (tmp_path / "tokens.json").unlink()
    assert not running.is_open
    assert Access(tmp_path).is_open


def test_tokens_expire(tmp_path, monkeypatch):
    access, now = Access(tmp_path), time.time()
    text = access.add("short", ["rank"], days=2)
    assert access.check(f"Bearer {text}", "rank") == "short"
    monkeypatch.setattr(access_module.time, "time", lambda: now + 2.01 * 86_400)
    with pytest.raises(UnauthorizedError, match="the token 'short' has expired; ask whoever"):
        access.check(f"Bearer {text}", "rank")
    for days in (0, -1, math.nan, math.inf, 1e300):
        with pytest.raises(ValueError, match="a number of days > 0, at most 36,500, got"):
            access.add("x", ["rank"], days)


@pytest.mark.parametrize("content", ["{", '{"tokens": [{"name": 1}]}', '{"tokens": [{"name": "a", "scopes": "rank"}]}'])
def test_a_damaged_file_of_tokens_lets_nobody_in(tmp_path, caplog, content):
    access = Access(tmp_path)
    text = access.add("a", ["rank"])
    assert access.allows(f"Bearer {text}", "rank")
    (tmp_path / "tokens.json").write_text(content)
    for _ in range(3):
        assert not access.allows(f"Bearer {text}", "rank")
    assert [record.getMessage()[:27] for record in caplog.records] == ["no token is known any more:"]
    with pytest.raises(ValueError, match="does not hold tokens"):
        Access(tmp_path)


def test_who_may_no_longer_watch_gets_no_more_frames(tmp_path):
    access = Access(tmp_path)
    text = access.add("wall", ["watch"])
    service = Service(tmp_path)
    app = make_app(service, access)
    headers = [(b"authorization", f"Bearer {text}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/live", "headers": headers, "query_string": b""}
    sent = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)
        if len(sent) == 2:
            Access(tmp_path).revoke("wall")

    async def watch():
        async with asyncio.timeout(20):
            await app(scope, receive, send)

    asyncio.run(watch())
    assert sent[0]["status"] == 200
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    app.state.live.close()
    service.close()


# Other sites


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:8080"},
        {"host": "127.0.0.1"},
        {"host": "[::1]:8080"},
        {"host": "localhost:8080", "origin": "http://localhost:8080"},
        {"host": "localhost:8080", "origin": "http://localhost:8080", "sec-fetch-site": "same-origin"},
        {"host": "localhost:8080", "sec-fetch-site": "none"},  # typed into the browser
    ],
)
def test_requests_of_this_machine_are_let_in(headers):
    check_site(headers)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"host": "evil.example"}, "names of this machine only, got 'evil.example'"),
        ({"host": "localhost.evil.example:8080"}, "names of this machine only"),
        ({"host": "10.0.0.1"}, "names of this machine only"),
        ({"host": "[::1"}, "names of this machine only"),
        ({"host": ""}, "names of this machine only"),
        ({"host": "localhost:8080", "origin": "http://evil.example"}, "pages of other sites"),
        ({"host": "localhost:8080", "origin": "http://localhost:3000"}, "pages of other sites"),
        ({"host": "localhost:8080", "origin": "null"}, "pages of other sites"),
        ({"host": "localhost:8080", "origin": "http://["}, "pages of other sites"),
        ({"host": "localhost:8080", "sec-fetch-site": "cross-site"}, "got the origin 'cross-site'"),  # an image
        ({"host": "localhost:8080", "sec-fetch-site": "same-site"}, "pages of other sites"),  # of another port
    ],
)
def test_pages_of_other_sites_are_not(headers, message, tmp_path):
    with pytest.raises(ForbiddenError, match=message):
        check_site(headers)
    access = Access(tmp_path)
    text = access.add("a", ["rank"])
    gate = Gate(access, RateLimit())
    assert gate.admit(headers | {"authorization": f"Bearer {text}"}, "rank") == "a"  # which no page has


def test_a_browser_cannot_be_made_to_teach_the_ranker(running):
    headers = {"Origin": "http://evil.example", "Content-Type": "text/plain"}  # what needs no leave of ours
    status, found, content = send(running, "POST", "/v1/rank", BODY, headers)
    assert (status, json.loads(content)["error"]["kind"]) == (403, "forbidden")
    assert not any(name.lower().startswith("access-control") for name in found)
    status, found, _ = send(
        running, "OPTIONS", "/v1/rank", None, {"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}
    )
    assert status == 405
    assert not any(name.lower().startswith("access-control") for name in found)
    assert send(running, "POST", "/v1/rank", BODY, {"Host": "evil.example"})[0] == 403
    assert send(running, "POST", "/v1/rank", BODY)[0] == 200


# Slow clients


def ends(connection, seconds):
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("start", [b"", b"POST /v1/rank HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-More: "])
def test_headers_that_do_not_arrive_are_not_waited_for(running, start):
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(start)
        assert ends(connection, 20)


def test_nor_are_those_of_a_second_request(running):
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /health")
        assert ends(connection, 20)


@pytest.mark.parametrize("size", [70_000, 300_000])
def test_headers_that_are_too_long_are_refused(running, size):
    with suppress(ConnectionError):  # it may be closed before all is sent
        assert send(running, "GET", "/healthz", None, {"X-More": "a" * size})[0] in (400, 413)
    assert send(running, "GET", "/healthz", None, {"X-More": "a" * 60_000})[0] == 200


def test_connections_that_are_idle_between_requests_stay(running):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    connection.connect()
    socket_of_it = connection.sock
    for _ in range(4):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        time.sleep(0.6)
    assert connection.sock is socket_of_it
    connection.close()


class Connection:
    """What a connection of the server shows of itself."""

    def __init__(self, cycle=None, timer=None, paused=False):
        self.cycle, self.timeout_keep_alive_task = cycle, timer
        self.flow = SimpleNamespace(write_paused=paused)
        self.transport, self.is_closed = self, False

    def abort(self):
        self.is_closed = True


def test_what_is_stuck_is_closed_and_nothing_else():
    now = [0.0]
    slow = SlowClients(Limits(header_seconds=2.0, send_seconds=5.0), lambda: now[0])
    working, done = SimpleNamespace(response_complete=False), SimpleNamespace(response_complete=True)
    connections = {
        "new": Connection(),
        "idle": Connection(done, timer=object()),
        "half": Connection(done),
        "working": Connection(working),
        "unread": Connection(working, paused=True),
    }
    closed = {}
    for second in range(10):
        now[0] = float(second)
        if second == 1:  # another request, which is at its beginning
            connections["half"].cycle = SimpleNamespace(response_complete=True)
        slow.look(connections.values())
        for name, one in list(connections.items()):
            if one.is_closed:
                closed[name] = second
                del connections[name]
    assert closed == {"new": 2, "half": 3, "unread": 5}
    assert set(slow._since) == set()


def test_a_response_that_nobody_reads_is_given_up(running):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)  # more than buffers hold
        time.sleep(4)
        assert ends(connection, 20)
    assert send(running, "GET", "/healthz")[0] == 200


# The access log


def asked(host=b"localhost"):
    """A request to rank."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/rank",
        "headers": [(b"host", host)],
        "query_string": b"",
        "server": ("localhost", 80),
        "scheme": "http",
        "client": ("127.0.0.1", 5),
    }
    return Request(scope)


def line_of(body, host=b"localhost", **settings):
    log, request, written = AccessLog(**settings), asked(host), io.StringIO()
    log.keep(request, body)
    with redirect_stderr(written):
        log.write(request, 200, 0.001, "engine")
    (line,) = written.getvalue().splitlines()
    assert "Infinity" not in line.replace('"Infinity"', "")
    return json.loads(line)


def test_a_line_has_no_features_unless_asked():
    line = line_of(BODY.encode())
    assert set(line) == {"time", "client", "token", "method", "path", "status", "seconds"}
    assert (line["token"], line["client"], line["path"], line["status"]) == ("engine", "127.0.0.1", "/v1/rank", 200)
    assert "secret" not in json.dumps(line)
    assert line_of(BODY.encode(), with_bodies=True)["body"] == json.loads(BODY)
    assert line_of(b"{\n\xff", with_bodies=True)["body"] == "{\n\ufffd"
    assert line_of(b"[Infinity]", with_bodies=True)["body"] == ["Infinity"]


@pytest.mark.parametrize("host", [b"[", b"a/healthz?", b"x#"])
def test_a_line_has_the_path_whatever_the_host_is_said_to_be(host):
    assert line_of(b"", host)["path"] == "/v1/rank"


def test_a_request_is_answered_though_its_line_cannot_be_written():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    closed = io.StringIO()
    closed.close()
    for one in (Full(), closed):
        with redirect_stderr(one):
            AccessLog().write(asked(), 200, 0.001, "engine")


def test_why_it_does_not_learn_is_not_for_everyone(tmp_path):
    access = Access(tmp_path)
    tokens = {name: access.add(name, [name]) for name in ("rank", "watch", "admin")}
    service = Service(tmp_path)
    ranker = service.ranker("default")
    ranker.thread._try_again = lambda: None  # which would find that all is well
    ranker.thread.problem = "no connection to db.example"

    app = make_app(service, access)

    def problem(token=None, path="/learnz"):
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
        sent = []

        async def send(message):
            sent.append(message)

        asyncio.run(app(scope, None, send))
        start, body = sent
        assert start["status"] == (503 if path == "/learnz" else 200)  # it ranks
        return json.loads(body["body"])["problems"]["default"]

    assert (
        problem(tokens["watch"])
        == problem(tokens["admin"])
        == problem(tokens["admin"], "/readyz")
        == "no connection to db.example"
    )
    for other in (None, tokens["rank"], "x"):
        assert problem(other).startswith("learning is off; a token")
        assert problem(other, "/readyz").startswith("learning is off; a token")
    app.state.live.close()
    service.close()
