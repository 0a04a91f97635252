"""The state of the service: all rankers, health, readiness and metrics."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perceptrank.serve.http.endpoint import Backend, endpoint, respond


@endpoint("GET", "/v1/rankers", "admin", response=dict[str, Any], of_ranker=False)
async def list_rankers(backend: Backend, request: Request) -> Response:
    """Return the status of all rankers."""
    return respond({name: ranker.status() for name, ranker in backend.service.rankers.items()})


@endpoint("GET", "/healthz", "", response=dict[str, Any], of_ranker=False)
async def report_health(backend: Backend, request: Request) -> Response:
    """Tell that the process responds."""
    return respond({"status": "ok"})


@endpoint("GET", "/readyz", "", response=dict[str, Any], of_ranker=False)
async def report_readiness(backend: Backend, request: Request) -> Response:
    """Tell that it ranks, and whether it learns. Only those who may watch see why it does not."""
    return respond(_readiness(backend, request))


@endpoint("GET", "/learnz", "", response=dict[str, Any], of_ranker=False)
async def report_learning(backend: Backend, request: Request) -> Response:
    """Tell whether it learns; status 503 if it only ranks. Only those who may watch see the reason."""
    readiness = _readiness(backend, request)
    return respond(readiness, 503 if readiness["problems"] else 200)


def _readiness(backend: Backend, request: Request) -> dict[str, Any]:
    problems = {name: ranker.problem for name, ranker in backend.service.rankers.items() if ranker.problem}
    if not backend.access.allows(request.headers.get("authorization"), "watch"):
        # It may name folders, and the address of a database.
        problems = dict.fromkeys(problems, "learning is off; a token with the scope watch or admin sees the reason")
    return {"status": "ranking only" if problems else "ok", "problems": problems}


@endpoint("GET", "/metrics", "admin", of_ranker=False)
async def get_metrics(backend: Backend, request: Request) -> Response:
    """Return metrics for Prometheus."""
    return Response(backend.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
