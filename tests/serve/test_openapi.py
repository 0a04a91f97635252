"""The description of the HTTP interface, and limits that hold before any handler runs."""

import json

import jsonschema
import msgspec
import pytest
from support.asgi import ask

from perceptrank.serve import Service
from perceptrank.serve.errors import ServiceError, TooLargeError
from perceptrank.serve.http.access import Access
from perceptrank.serve.http.answers import FeedbackBody, LearnRequest
from perceptrank.serve.http.app import ENDPOINTS, make_app
from perceptrank.serve.http.endpoint import decode
from perceptrank.serve.http.openapi import describe
from perceptrank.serve.http.ranking import RankRequest

DOCUMENT = {"id": "a", "features": {"x": 1.0}}
DESCRIPTION = describe(ENDPOINTS)


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    service = Service(folder)
    made = make_app(service, Access(folder))
    yield made
    made.state.live.close()
    service.close()


def allows(path, body):
    """Tell whether the description allows a body."""
    content = DESCRIPTION["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    validator = jsonschema.Draft202012Validator(content["schema"] | {"components": DESCRIPTION["components"]})
    return validator.is_valid(body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rank", {"documents": []}),
        ("/v1/rank", {"documents": [{"id": "a", "features": []}]}),
        ("/v1/rank", {"documents": [{"id": "a", "features": {"x" * 1001: 1.0}}]}),
        ("/v1/learn", {"documents": [DOCUMENT], "grades": {"a": 1}, "weight": -1}),
        ("/v1/learn", {"documents": [DOCUMENT], "grades": {"a": 1}, "weight": 1e-101}),
        ("/v1/learn", {"documents": [DOCUMENT], "grades": {"a": 1}, "weight": 1e101}),
        ("/v1/learn", {"documents": [DOCUMENT], "grades": {"a" * 201: 1}}),
        ("/v1/feedback", {"ranking_id": "a", "grades": {}}),
        ("/v1/model/rollback", {"version": 0}),
        ("/v1/model/rollback", {"version": 1.5}),
        ("/v1/model/promote", {}),
        ("/v1/model/promote", {"ranker": None, "fixed": True}),
        ("/v1/model/promote", {"ranker": "default", "challenger": "a"}),
        ("/v1/model/promote", {"model": {}}),
        ("/v1/model/promote", {"model": {"format": "perceptrank model", "version": 1}}),
        ("/v1/challengers/add", {"name": "a"}),
        ("/v1/challengers/add", {"name": "a b", "algorithm": "slam"}),
        ("/v1/challengers/add", {"name": "a" * 65, "algorithm": "slam"}),
        ("/v1/challengers/add", {"name": "a", "algorithm": "slam", "version": 1}),
    ],
)
def test_what_is_always_refused_is_not_described_as_right(app, path, body):
    assert ask(app, "POST", path, body)[0] in (413, 422)
    assert not allows(path, body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rank", {"documents": [DOCUMENT], "contributions": False}),
        ("/v1/rank", {"documents": [{"id": "a", "features": [1, 0.5]}]}),
        ("/v1/model/rollback", {"version": 1.0}),
        ("/v1/model/promote", {"ranker": "default", "model": None}),
        ("/v1/challengers/add", {"name": "a", "algorithm": "slam", "model": None}),
    ],
)
def test_what_is_described_as_right_is_taken(app, path, body):
    assert allows(path, body)
    assert ask(app, "POST", path, body)[0] == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (RankRequest, {"documents": [DOCUMENT] * 10_001}),
        (LearnRequest, {"documents": [DOCUMENT] * 10_001, "grades": {"a": 1}}),
        (LearnRequest, {"documents": [DOCUMENT], "grades": {str(i): 1 for i in range(10_001)}}),
        (FeedbackBody, [{"ranking_id": "a", "grades": {"a": 1}}] * 10_001),
    ],
)
def test_more_than_a_limit_is_too_large(kind, body):
    with pytest.raises(TooLargeError, match="length <= 10000"):
        decode(kind, msgspec.json.encode(body))
    with pytest.raises(ServiceError) as caught:
        decode(RankRequest, b'{"documents": []}')
    assert caught.value.status == 422


def test_headers_have_a_limit(app):
    assert ask(app, "GET", "/healthz", headers=[(b"x", b"a" * (2**16 - 1))])[0] == 200
    status, _, content = ask(app, "GET", "/healthz", headers=[(b"x", b"a" * 70_000)])
    assert (status, json.loads(content)["error"]["kind"]) == (413, "too_large")


def test_no_path_redirects(app):
    for path in ("/v1/rankers/", "/v1/rank/", "/healthz/"):
        status, headers, _ = ask(app, "GET", path, headers=[(b"host", b"evil.example")])
        assert (status, b"location" in headers) == (404, False), path
