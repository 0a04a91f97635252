"""The description of the HTTP interface."""

from collections.abc import Sequence
from typing import Any

import msgspec

from perceptrank import __version__
from perceptrank.serve.errors import KINDS
from perceptrank.serve.http.answers import SeveralResponse
from perceptrank.serve.http.endpoint import Endpoint

_JSON = "application/json"
_LINES = "application/x-ndjson"
_ERRORS = sorted({error.status for error in KINDS.values()} - {405, 500})


class ErrorDetail(msgspec.Struct):
    """The rule that was broken, by name and in words, and what to do next."""

    kind: str
    message: str
    advice: str


class ErrorResponse(msgspec.Struct):
    """A request that was not carried out."""

    error: ErrorDetail


_TEXT = {"type": "string", "minLength": 1}
_NUMBERS = {"after": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}}  # parts of paths that are no text


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI description of endpoints."""
    kinds = [kind for endpoint in endpoints for kind in (endpoint.request, endpoint.response) if kind is not None]
    kinds += [SeveralResponse, ErrorResponse]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    known = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        for path in endpoint.paths:
            paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "perceptrank", "version": __version__, "description": "Rank, log the answer, learn from it."},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(endpoint: Endpoint, path: str, known: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}{path.replace('/', '_').replace('{', '').replace('}', '')}",
        "summary": endpoint.summary,
        "responses": _responses(endpoint, known),
    }
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _NUMBERS.get(name, _TEXT)} for name in names
        ]
    if endpoint.request is not None:
        content: dict[str, Any] = {_JSON: {"schema": known[repr(endpoint.request)]}}
        if endpoint.takes_lines:
            content[_LINES] = {"schema": {"type": "string", "description": "One such object per line"}}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.scope:
        operation["security"] = [{"token": []}, {}]
        operation["description"] = f"Needs the scope {endpoint.scope}, if the service has tokens."
    return operation


def _responses(endpoint: Endpoint, known: dict[str, Any]) -> dict[str, Any]:
    several = known[repr(SeveralResponse)]
    error = {"content": {_JSON: {"schema": known[repr(ErrorResponse)]}}}
    fine: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.response is None:
        fine["content"] = {"text/plain": {}, "application/octet-stream": {}}
    else:
        schema = known[repr(endpoint.response)]
        fine["content"] = {_JSON: {"schema": {"anyOf": [schema, several]} if endpoint.takes_several else schema}}
    responses = {"200": fine}
    if endpoint.takes_several:
        responses["207"] = {"description": "Some were not taken", "content": {_JSON: {"schema": several}}}
    if endpoint.scope:
        responses |= {str(status): {"description": "Not carried out", **error} for status in _ERRORS}
    elif endpoint.path == "/learnz":
        responses["503"] = {"description": "It only ranks", "content": {_JSON: {}}}
    return responses
