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
    """Tell whether it learns; status 503 if it only ranks. Only those who may watch see the reason.

    "compiling" is said after a start: answers are taken, and learned in a moment.
    """
    readiness = _readiness(backend, request)
    if not readiness["problems"] and any(ranker.thread.is_compiling for ranker in backend.service.rankers.values()):
        readiness["status"] = "compiling"
    return respond(readiness, 200 if readiness["status"] == "ok" else 503)


def _readiness(backend: Backend, request: Request) -> dict[str, Any]:
    problems = {name: ranker.problem for name, ranker in backend.service.rankers.items() if ranker.problem}
    if not backend.access.allows(request.headers.get("authorization"), "watch"):
        # It may name folders, and the address of a database.
        problems = dict.fromkeys(problems, "learning is off; a token with the scope watch or admin sees the reason")
    readiness = {"status": "ranking only" if problems else "ok", "problems": problems}
    states = {name: ranker.status() for name, ranker in backend.service.rankers.items()}
    behind = {name: status["entries_behind"] for name, status in states.items() if "entries_behind" in status}
    return readiness | ({"entries_behind": behind} if behind else {})


@endpoint("GET", "/metrics", "admin", of_ranker=False)
async def get_metrics(backend: Backend, request: Request) -> Response:
    """Return metrics for Prometheus."""
    return Response(backend.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
