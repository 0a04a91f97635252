"""Spans for OpenTelemetry, and metrics of the process."""

import json
import re
import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from support.asgi import ask
from support.pages import ROOT

from perceptrank.serve import Service, Settings, traces
from perceptrank.serve.http.access import Access
from perceptrank.serve.http.app import make_app

TRACE, PARENT = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
HEADERS = [(b"traceparent", f"00-{TRACE:032x}-{PARENT:016x}-01".encode()), (b"authorization", b"Bearer secret-token")]
DOCUMENTS = [{"id": "secret-a", "features": {"x": 1.5}}, {"id": "secret-b", "features": {"x": 2.5}}]


@pytest.fixture
def spans():
    """What was traced so far; while it is used, traces are on."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces.turn_on(provider)
    yield exporter.get_finished_spans
    traces.turn_on(None)
    provider.shutdown()


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path, {"default": None, "other": None}, Settings(snapshot_seconds=1e9)) as made:
        yield made


@pytest.fixture
def make(service, tmp_path):
    made = []

    def make():
        made.append(make_app(service, Access(tmp_path)))
        return made[-1]

    yield make
    for app in made:
        app.state.live.close()


def test_requests_continue_traces_and_tell_no_secrets(service, spans, make):
    app = make()
    assert ask(app, "POST", "/v1/rank", {"documents": DOCUMENTS}, HEADERS)[0] == 200
    body = {"documents": DOCUMENTS, "grades": {"secret-a": 1}, "event_id": "secret-event"}
    assert ask(app, "POST", "/v1/learn", body, HEADERS)[0] == 200
    assert ask(app, "POST", "/v1/learn", {"documents": []})[0] == 422
    ask(app, "GET", "/readyz")
    ask(app, "GET", "/metrics")
    service.ranker("default").flush()
    found = {}
    for one in spans():
        found.setdefault(one.name, []).append(one)
    assert set(found) == {"POST /v1/rank", "POST /v1/learn", "log", "learn"}  # none of probes
    (rank,) = found["POST /v1/rank"]
    assert dict(rank.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/rank",
        "http.response.status_code": 200,
        "perceptrank.ranker": "default",
    }
    assert (rank.context.trace_id, rank.parent.span_id) == (TRACE, PARENT)
    taken, refused = found["POST /v1/learn"]
    assert (taken.context.trace_id, refused.parent) == (TRACE, None)
    assert refused.attributes["http.response.status_code"] == 422
    assert refused.status.status_code is StatusCode.UNSET  # which is for errors of the server
    assert dict(found["log"][-1].attributes) == {"perceptrank.ranker": "default", "perceptrank.entries": 2}
    assert dict(found["learn"][0].attributes) == {"perceptrank.ranker": "default", "perceptrank.entries": 1}
    assert "secret" not in "".join(one.to_json() for one in spans())


def test_rankers_by_name_and_errors_of_the_server(service, spans, make, monkeypatch):
    app = make()
    assert ask(app, "POST", "/v1/rankers/other/rank", {"documents": DOCUMENTS})[0] == 200
    assert ask(app, "POST", "/v1/rankers/none-such/rank", {"documents": DOCUMENTS})[0] == 404
    monkeypatch.setattr(type(service.ranker("other")), "rank", lambda *_: 1 / 0)
    assert ask(app, "POST", "/v1/rankers/other/rank", {"documents": DOCUMENTS})[0] == 500
    good, unknown, bad = spans()
    assert good.attributes["http.route"] == unknown.attributes["http.route"] == "/v1/rankers/{name}/rank"
    assert good.attributes["perceptrank.ranker"] == "other"
    assert "none-such" not in unknown.to_json()
    assert bad.status.status_code is StatusCode.ERROR


def test_they_are_off_by_default(make, monkeypatch):
    traces.set_up(wanted=False)
    assert traces._tracer is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:9")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    traces.set_up(wanted=True)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    traces.set_up(wanted=True)
    assert traces._tracer is None
    assert type(make().answers["POST", "/v1/rank"]).__name__ == "_Answer"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(ValueError, match="OTEL_TRACES_EXPORTER must be otlp or none, got zipkin"):
        traces.set_up(wanted=True)


SET_UP = """
import sys
from perceptrank.serve import traces
{before}
traces.set_up(wanted={wanted})
print(traces._tracer.resource.attributes["service.name"] if traces._tracer else "off")
"""


@pytest.mark.engine
@pytest.mark.parametrize(
    ("variables", "wanted", "expected"),
    [
        ({}, False, "off"),
        ({}, True, "perceptrank"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:9"}, False, "perceptrank"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SERVICE_NAME": "shop"}, False, "shop"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=shop"}, True, "shop"),
    ],
)
def test_what_turns_them_on(variables, wanted, expected):
    code = SET_UP.format(before="", wanted=wanted)
    run = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected


@pytest.mark.engine
def test_without_the_extra_the_error_names_it():
    code = SET_UP.format(before="sys.modules['opentelemetry.sdk'] = None", wanted=True)
    run = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=False)
    assert "traces need OpenTelemetry: pip install 'perceptrank[otel]'" in run.stderr


def test_metrics_tell_when_tokens_expire_and_were_used(service, tmp_path):
    access = Access(tmp_path)
    text, _ = access.add("engine", ["admin"], 30), access.add("gone", ["rank"])
    app = make_app(service, access)
    try:
        for _ in range(2):  # of itself, a request tells the time of the one before
            status, _, content = ask(app, "GET", "/metrics", headers=[(b"authorization", f"Bearer {text}".encode())])
            assert status == 200
    finally:
        app.state.live.close()
    lines = [line for line in content.decode().splitlines() if line.startswith("perceptrank_token")]
    values = {name: float(value) for name, value in (line.split(" ") for line in lines)}
    expires, used = values.values()
    assert list(values) == [f'perceptrank_token_{one}_seconds{{token="engine"}}' for one in ("expires", "last_used")]
    assert abs(used - time.time()) < 60
    assert abs(expires - used - 30 * 86400) < 60


def test_the_page_on_operations_names_metrics_that_there_are(make):
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    told = {line.split(" ")[2] for line in ask(make(), "GET", "/metrics")[2].decode().splitlines() if "# HELP" in line}
    named = set(re.findall(r"`((?:perceptrank|process|python)_\w+)`", page))
    assert len(named) > 12
    assert named <= told


def test_metrics_tell_what_the_process_takes(make):
    _, _, content = ask(make(), "GET", "/metrics")
    values = dict(line.rsplit(" ", 1) for line in content.decode().splitlines() if line[:1] != "#")
    assert float(values["process_cpu_seconds_total"]) > 0
    assert float(values["process_resident_memory_bytes"]) > 2**20
    assert float(values["process_open_fds"]) > 3
    assert float(values["process_start_time_seconds"]) > 1e9
    assert any(name.startswith("python_info{") for name in values)
    assert 'python_gc_collections_total{generation="2"}' in values
    assert json.loads(values['perceptrank_learning{ranker="default"}']) == 1.0
