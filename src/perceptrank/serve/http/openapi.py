"""The description of the HTTP interface."""

from typing import Any

import msgspec

from perceptrank import __version__
from perceptrank.serve.errors import KINDS
from perceptrank.serve.http import messages

_JSON = "application/json"
_LINES = "application/x-ndjson"
_ERRORS = sorted({one.status for one in KINDS.values()} - {405, 500})

# Summary, body of the request, and body of the response, by the end of the path.
_ABOUT: dict[str, tuple[str, Any, Any]] = {
    "/rank": ("Rank the documents of a query", messages.RankRequest, messages.RankResponse),
    "/feedback": ("Answer one ranking or several", messages.FeedbackBody, messages.Acknowledged),
    "/learn": ("Learn from a query and its answer", messages.LearnRequest, messages.Acknowledged),
    "/model": ("The model, as a model file", None, dict[str, Any]),
    "/model/versions": ("Versions of the model", None, messages.VersionsResponse),
    "/model/rollback": ("Go back to a version", messages.RollbackRequest, messages.VersionResponse),
    "/model/promote": ("Go on with another model", messages.PromoteRequest, messages.VersionResponse),
    "/challengers": ("How the challengers are doing", None, messages.StandingsResponse),
    "/challengers/add": ("Let a model learn silently", messages.AddChallengerRequest, messages.VersionResponse),
    "/challengers/remove": ("Let a challenger go", messages.RemoveChallengerRequest, messages.VersionResponse),
    "/export/{target}": ("The model as the file of another engine", None, None),
    "/v1/rankers": ("All rankers and how they are doing", None, dict[str, Any]),
    "/healthz": ("The process answers", None, dict[str, Any]),
    "/readyz": ("It ranks and learns; 503 if it only ranks", None, dict[str, Any]),
    "/metrics": ("Metrics for Prometheus", None, None),
}
_SEVERAL = {"/feedback", "/learn"}


def describe(routes: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the OpenAPI description of routes, each a path, a method and a scope."""
    kinds = [kind for _, *both in _ABOUT.values() for kind in both if kind is not None]
    kinds += [messages.SeveralResponse, messages.ErrorResponse]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    known = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for path, method, scope in routes:
        paths.setdefault(path, {})[method.lower()] = _operation(path, method, scope, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "perceptrank", "version": __version__, "description": "Rank, log the answer, learn from it."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(path: str, method: str, scope: str, known: dict[str, Any]) -> dict[str, Any]:
    tail = path.removeprefix("/v1/rankers/{name}") if "{name}" in path else path
    tail = tail if tail in _ABOUT else tail.removeprefix("/v1")
    summary, asked, returned = _ABOUT[tail]
    several = known[repr(messages.SeveralResponse)]
    error = {"content": {_JSON: {"schema": known[repr(messages.ErrorResponse)]}}}
    schema = {} if returned is None else known[repr(returned)]
    fine: dict[str, Any] = {"description": summary}
    if returned is None:
        fine["content"] = {"text/plain": {}, "application/octet-stream": {}}
    else:
        fine["content"] = {_JSON: {"schema": {"anyOf": [schema, several]} if tail in _SEVERAL else schema}}
    responses = {"200": fine}
    if tail in _SEVERAL:
        responses["207"] = {"description": "Some were not taken", "content": {_JSON: {"schema": several}}}
    if scope:
        responses |= {str(status): {"description": "Not carried out", **error} for status in _ERRORS}
    elif tail == "/readyz":
        responses["503"] = {"description": "It only ranks", "content": {_JSON: {}}}
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()}{path.replace('/', '_').replace('{', '').replace('}', '')}",
        "summary": summary,
        "responses": responses,
    }
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in names
        ]
    if asked is not None:
        content: dict[str, Any] = {_JSON: {"schema": known[repr(asked)]}}
        if tail == "/learn":
            content[_LINES] = {"schema": {"type": "string", "description": "One such object per line"}}
        operation["requestBody"] = {"required": True, "content": content}
    if scope:
        operation["security"] = [{"token": []}, {}]
        operation["description"] = f"Needs the scope {scope}, if the service has tokens."
    return operation
