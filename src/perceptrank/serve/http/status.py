"""The state of the service: all rankers, health, readiness and metrics."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perceptrank.serve.errors import ServiceError
from perceptrank.serve.http.endpoint import Backend, Endpoint, respond


async def list_rankers(backend: Backend, request: Request) -> Response:
    """Return the status of all rankers."""
    return respond({name: ranker.status() for name, ranker in backend.service.rankers.items()})


async def report_health(backend: Backend, request: Request) -> Response:
    """Say that the process answers."""
    return respond({"status": "ok"})


async def report_readiness(backend: Backend, request: Request) -> Response:
    """Say whether it ranks and learns; 503 if it only ranks. The reason is for those who may watch."""
    problems = {name: ranker.problem for name, ranker in backend.service.rankers.items() if ranker.problem}
    try:
        backend.access.check(request.headers.get("authorization"), "watch")
    except ServiceError:  # it may name folders, and the address of a database
        problems = dict.fromkeys(problems, "it does not learn; a token with the scope watch or admin is told why")
    status = {"status": "ranking only" if problems else "ok", "problems": problems}
    return respond(status, 503 if problems else 200)


async def get_metrics(backend: Backend, request: Request) -> Response:
    """Return metrics for Prometheus."""
    return Response(backend.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


ENDPOINTS = [
    Endpoint(
        "/v1/rankers",
        "GET",
        "admin",
        list_rankers,
        "All rankers and their status",
        None,
        dict[str, Any],
        of_ranker=False,
    ),
    Endpoint("/healthz", "GET", "", report_health, "The process answers", None, dict[str, Any], of_ranker=False),
    Endpoint(
        "/readyz",
        "GET",
        "",
        report_readiness,
        "It ranks and learns; 503 if it only ranks",
        None,
        dict[str, Any],
        of_ranker=False,
    ),
    Endpoint("/metrics", "GET", "admin", get_metrics, "Metrics for Prometheus", of_ranker=False),
]
