"""The HTTP interface: all endpoints, who may use them, and what becomes of errors."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from perceptrank import __version__
from perceptrank.serve.errors import NotAllowedError, ServiceError, TooLargeError, UnknownError
from perceptrank.serve.http import answers, models, ranking, replication, status
from perceptrank.serve.http.access import Access, Gate, RateLimit
from perceptrank.serve.http.endpoint import Backend, Endpoint, respond_error
from perceptrank.serve.http.log_lines import AccessLog
from perceptrank.serve.http.metrics import Metrics
from perceptrank.serve.http.openapi import describe
from perceptrank.serve.page.live import Live
from perceptrank.serve.page.page import Page
from perceptrank.serve.replicas.links import Peer
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Limits
from perceptrank.serve.traces import traced

_FAMILIES = (ranking, answers, models, status, replication)
ENDPOINTS = [value for family in _FAMILIES for value in vars(family).values() if isinstance(value, Endpoint)]
HEADER_BYTES = 2**16  # the server notices only those that come in several parts
Handler = Callable[[Request], Awaitable[Response]]
logger = logging.getLogger("perceptrank.serve")


def make_app(
    service: Service,
    access: Access,
    limits: Limits | None = None,
    *,
    access_log: bool = False,
    log_features: bool = False,
    primary: Callable[[], Peer] | None = None,
) -> FastAPI:
    """Return the application; when it stops, the service finishes, flushes and writes snapshots.

    With a `primary`, that answers what is for the scope admin: then it does not matter which process is asked.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(live.close)
        await asyncio.to_thread(service.close)

    app = _App(lifespan=lifespan)
    app.state.live = live = Live(service)
    log = AccessLog(with_bodies=log_features) if access_log or log_features else None
    backend = Backend(service, access, Metrics(service, access), limits or Limits(), log)
    gate = Gate(access, RateLimit(backend.limits.rate_limit, backend.limits.burst))

    def add(path: str, method: str, scope: str, handle: Handler, *, is_traced: bool = False) -> None:
        answer: ASGIApp = _Answer(path, scope, handle, backend, gate, live)
        if is_traced:
            answer = traced(answer, path, service)
        # A route of Starlette's: handlers read and check bodies themselves, and need nothing of what FastAPI's does.
        route = Route(path, answer, methods=[method], include_in_schema=False)
        route.methods = {method}
        app.router.routes.append(route)
        if "{" not in path:
            app.answers[method, path] = answer

    relay = None if primary is None else replication.relay_to(primary)
    for endpoint in ENDPOINTS:
        run = relay if relay is not None and endpoint.scope == "admin" else endpoint.handle
        for path in endpoint.paths:
            # Those of probes are not traced.
            add(path, endpoint.method, endpoint.scope, partial(run, backend), is_traced=endpoint.of_ranker)
    pages = Page(live, service, access.allows)  # which are not part of the interface that is promised
    for path, scope, handle in pages.paths():
        add(path, "GET", scope, handle)
    app.openapi = lambda: describe(ENDPOINTS)  # type: ignore[method-assign]

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        path = request.scope["path"][:200]
        known: ServiceError = UnknownError(f"there is nothing at {path}", "see /openapi.json")
        if error.status_code == 405:
            known = NotAllowedError(f"{request.method} is not a method of {path}", "see /openapi.json")
        return respond_error(known, dict(error.headers or {}))

    return app


class _Answer:
    """The answer to requests of a path: checks who asks, runs the handler, turns errors into responses, and counts."""

    def __init__(self, path: str, scope: str, handle: Handler, backend: Backend, gate: Gate, live: Live) -> None:
        self._path, self._scope, self._handle = path, scope, handle
        self._backend, self._gate, self._times = backend, gate, live.times_of(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request, start, who = Request(scope, receive), time.perf_counter(), ""
        try:
            if self._scope:
                # As a dict, whose first values count, as those of `request.headers`: each look into that takes longer.
                headers = {name.decode("latin-1"): one.decode("latin-1") for name, one in reversed(scope["headers"])}
                who = self._gate.admit(headers, self._scope)
            response = await self._handle(request)
        except ServiceError as error:
            response = respond_error(error)
        except Exception as error:
            logger.exception("%s %s failed: %s: %s", request.method, self._path, type(error).__name__, error)
            response = respond_error(ServiceError("an unexpected error occurred", "see the service's log"))
        seconds = time.perf_counter() - start
        self._backend.metrics.count(self._path, response.status_code, seconds)
        self._times.add(seconds)
        if self._backend.log is not None:
            self._backend.log.write(request, response.status_code, seconds, who)
        await response(scope, receive, send)


class _App(FastAPI):
    """An application that answers paths without variable parts at once, and routes other requests."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            title="perceptrank", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False, **settings
        )
        self.answers: dict[tuple[str, str], ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer: ASGIApp | None = None
        if scope["type"] == "http":
            answer = self.answers.get((scope["method"], scope["path"]))
            size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
            if size + sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
                answer = respond_error(
                    TooLargeError(f"line and headers of a request may have {HEADER_BYTES} bytes, got more", "send less")
                )
        await (answer or super().__call__)(scope, receive, send)
