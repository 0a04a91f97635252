"""The HTTP interface: paths, what they take and return, and who may use them."""

import asyncio
import json
import logging
import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perceptrank import __version__
from perceptrank.deploy.explanation.explanation import explain
from perceptrank.deploy.exports import export, targets
from perceptrank.io.model_file import model_text
from perceptrank.serve.documents import Document
from perceptrank.serve.errors import (
    InvalidRequestError,
    NotAllowedError,
    RateLimitedError,
    ServiceError,
    TooLargeError,
    TooSlowError,
    UnknownError,
)
from perceptrank.serve.http import messages
from perceptrank.serve.http.access import Access, Gate, RateLimit
from perceptrank.serve.http.challengers import ShadowPaths, restored
from perceptrank.serve.http.log_lines import AccessLog
from perceptrank.serve.http.metrics import Metrics
from perceptrank.serve.http.openapi import describe
from perceptrank.serve.page.live import Live
from perceptrank.serve.page.page import Page
from perceptrank.serve.ranker import Ranked, ServedRanker
from perceptrank.serve.scanning import Scanned
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Limits
from perceptrank.serve.submissions import Acknowledgement, Answer
from perceptrank.stream.query_stream import QueryStream

Handler = Callable[[Request], Awaitable[Response]]
Result = TypeVar("Result")
Given = TypeVar("Given")
WithDocuments = TypeVar("WithDocuments", messages.RankRequest, messages.LearnRequest)
Options = TypeVar("Options", messages.RankOptions, messages.LearnOptions)

_TURN_SECONDS = 0.0002  # for one of several answers after the other, before others are ranked
logger = logging.getLogger("perceptrank.serve")
_encode = msgspec.json.Encoder().encode
_rank_decoder = msgspec.json.Decoder(messages.RankRequest)
_rank_options_decoder = msgspec.json.Decoder(messages.RankOptions)
_learn_decoder = msgspec.json.Decoder(messages.LearnRequest)
_learn_options_decoder = msgspec.json.Decoder(messages.LearnOptions)
_rollback_decoder = msgspec.json.Decoder(messages.RollbackRequest)
_promote_decoder = msgspec.json.Decoder(messages.PromoteRequest)
_feedback_decoder: msgspec.json.Decoder[messages.FeedbackBody] = msgspec.json.Decoder(messages.FeedbackBody)


def make_app(
    service: Service,
    access: Access,
    limits: Limits | None = None,
    *,
    access_log: bool = False,
    log_features: bool = False,
) -> FastAPI:
    """Return the application; when it stops, the service finishes, flushes and writes snapshots."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(live.close)
        await asyncio.to_thread(service.close)

    app = _App(title="perceptrank", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.live = live = Live(service)
    log = AccessLog(with_bodies=log_features) if access_log or log_features else None
    paths = _Paths(service, access, Metrics(service), limits or Limits(), log, live)
    for path, method, scope, handler in [*paths.all(), *paths.page()]:
        endpoint = _Endpoint(paths.guarded(path, scope, handler))
        # A route of Starlette's: handlers read and check bodies themselves, and need nothing of what FastAPI's does.
        route = Route(path, endpoint, methods=[method], include_in_schema=False)
        route.methods = {method}
        app.router.routes.append(route)
        if "{" not in path:
            app.endpoints[method, path] = endpoint
    app.openapi = lambda: describe([(path, method, scope) for path, method, scope, _ in paths.all()])  # type: ignore[method-assign]

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        known: ServiceError
        path = request.scope["path"][:200]
        if error.status_code == 405:
            known = NotAllowedError(f"{request.method} is not a method of {path}", "see /openapi.json")
        else:
            known = UnknownError(f"there is nothing at {path}", "see /openapi.json")
        return _failed(known, dict(error.headers or {}))

    return app


class _Endpoint:
    """A handler as the server calls it."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self._handle(Request(scope, receive))
        await response(scope, receive, send)


class _App(FastAPI):
    """An application that calls the endpoint of a path without variable parts at once, and routes other requests."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.endpoints: dict[tuple[str, str], _Endpoint] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        endpoint = self.endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        await (super().__call__ if endpoint is None else endpoint)(scope, receive, send)


class _Paths:
    """The handlers of all paths."""

    def __init__(
        self,
        service: Service,
        access: Access,
        metrics: Metrics,
        limits: Limits,
        log: AccessLog | None,
        live: Live,
    ) -> None:
        self._service, self._metrics, self._access = service, metrics, access
        self._limits, self._log = limits, log
        self._gate = Gate(access, RateLimit(limits.rate_limit, limits.burst))
        self._live, self._page = live, Page(live)

    def all(self) -> list[tuple[str, str, str, Handler]]:
        """Return path, method, scope (none for all) and handler of everything there is."""
        of_a_ranker: list[tuple[str, str, str, Handler]] = [
            ("/rank", "POST", "rank", self.rank),
            ("/feedback", "POST", "feedback", self.feedback),
            ("/learn", "POST", "feedback", self.learn),
            ("/model", "GET", "admin", self.model),
            ("/model/versions", "GET", "admin", self.versions),
            ("/model/rollback", "POST", "admin", self.rollback),
            ("/model/promote", "POST", "admin", self.promote),
            *ShadowPaths(self).all(),
            ("/export/{target}", "GET", "admin", self.export),
        ]
        named = [("/v1/rankers/{name}" + path, *rest) for path, *rest in of_a_ranker]
        return [
            *(("/v1" + path, *rest) for path, *rest in of_a_ranker),  # type: ignore[list-item]
            ("/v1/rankers", "GET", "admin", self.rankers),
            *named,  # type: ignore[list-item]
            ("/healthz", "GET", "", self.healthy),
            ("/readyz", "GET", "", self.ready),
            ("/metrics", "GET", "admin", self.metrics),
        ]

    def page(self) -> list[tuple[str, str, str, Handler]]:
        """Return the same of the live page, which is not part of the interface that is promised."""
        return [
            ("/", "GET", "", self._page.html),
            ("/page.js", "GET", "", self._page.script),
            ("/page.css", "GET", "", self._page.style),
            ("/live", "GET", "watch", self.live),
            ("/live/{name}", "GET", "watch", self.live),
        ]

    async def live(self, request: Request) -> Response:
        """GET /live: the events behind the page."""
        return await self._page.events(request, request.path_params.get("name", self._service.first))

    def guarded(self, path: str, scope: str, handler: Handler) -> Handler:
        """Return a handler that checks who asks, turns errors into responses, and counts."""
        times = self._live.times_of(path)

        async def handle(request: Request) -> Response:
            start, who = time.perf_counter(), ""
            try:
                if scope:
                    who = self._gate.admit(request.headers, scope)
                response = await handler(request)
            except ServiceError as error:
                response = _failed(error)
            except Exception as error:
                logger.exception("%s %s failed: %s: %s", request.method, path, type(error).__name__, error)
                response = _failed(ServiceError("something went wrong that should not", "see the service's log"))
            seconds = time.perf_counter() - start
            self._metrics.count(path, response.status_code, seconds)
            times.add(seconds)
            if self._log is not None:
                self._log.write(request, response.status_code, seconds, who)
            return response

        return handle

    def _ranker(self, request: Request) -> ServedRanker:
        return self._service.ranker(request.path_params.get("name", self._service.first))

    async def _body(self, request: Request) -> bytes:
        most, parts, size = self._limits.body_bytes, [], 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise TooLargeError(f"a request may have {most} bytes, got more", "send it in parts")
                    parts.append(part)
        except ClientDisconnect:
            raise TooSlowError("the request ended before all of it had come", "send it again") from None
        except TimeoutError:
            raise TooSlowError(
                f"the request did not arrive within {self._limits.body_seconds:g} seconds", "send it again"
            ) from None
        body = b"".join(parts)
        if self._log is not None:
            self._log.keep(request, body)
        return body

    async def _parsed(self, request: Request, decoder: "msgspec.json.Decoder[Result]") -> Result:
        return _decoded(decoder, await self._body(request))

    async def _in_thread(self, work: Callable[..., Result], *given: Any) -> Result:
        """Do what takes longer in another thread."""
        try:
            async with asyncio.timeout(self._limits.work_seconds):
                return await asyncio.to_thread(work, *given)
        except TimeoutError:
            raise TooSlowError(f"it takes more than {self._limits.work_seconds:g} seconds", "ask for less") from None

    def _deadline(self) -> float:
        """Return when the answers of a request that comes now must be logged."""
        return asyncio.get_running_loop().time() + self._limits.answer_seconds

    async def _done(self, future: "Future[Result]", deadline: float | None = None) -> Result:
        if future.done():  # also after the deadline
            return future.result()
        try:
            async with asyncio.timeout_at(self._deadline() if deadline is None else deadline):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise TooSlowError(
                f"not logged within {self._limits.answer_seconds:g} seconds, perhaps later",
                "send it again with the same event_id",
            ) from None

    async def rank(self, request: Request) -> Response:
        """POST /rank."""
        body, ranker = await self._body(request), self._ranker(request)
        documents, given = _documents(ranker, body, _rank_decoder, _rank_options_decoder)
        ranked = ranker.rank(documents)
        contributions = await self._in_thread(_contributions, ranked) if given.contributions else None
        return _json(
            messages.RankResponse(ranked.ranking_id, ranked.order, ranked.scores, ranked.model_version, contributions)
        )

    async def feedback(self, request: Request) -> Response:
        """POST /feedback."""
        given = _decoded(_feedback_decoder, await self._body(request))
        ranker = self._ranker(request)

        def take(one: messages.FeedbackRequest, together: list[Answer] | None = None) -> "Future[Acknowledgement]":
            return ranker.feedback(
                one.ranking_id,
                one.grades,
                event_id=one.event_id,
                weight=one.weight,
                omit=one.omit_ungraded,
                together=together,
            )

        if isinstance(given, messages.FeedbackRequest):
            return _json(_acknowledged(await self._done(take(given))))
        return await self._several(ranker, take, given)

    async def learn(self, request: Request) -> Response:
        """POST /learn: one query, or JSON lines."""
        body = await self._body(request)
        ranker = self._ranker(request)

        def take(content: bytes, together: list[Answer] | None = None) -> "Future[Acknowledgement]":
            documents, one = _documents(ranker, content, _learn_decoder, _learn_options_decoder)
            event_id = one.event_id or uuid.uuid4().hex
            return ranker.learn(
                documents, one.grades, event_id=event_id, weight=one.weight, omit=one.omit_ungraded, together=together
            )

        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in ("application/x-ndjson", "application/jsonl"):
            return _json(_acknowledged(await self._done(take(body))))
        lines = [line for line in body.splitlines() if line.strip()]
        if not lines:
            raise InvalidRequestError("there must be a line, got none", "send a JSON object per line")
        if len(lines) > messages.MOST_ANSWERS:
            raise TooLargeError(
                f"a request may have 1 to {messages.MOST_ANSWERS} lines, got {len(lines)}", "send it in parts"
            )
        return await self._several(ranker, take, lines)

    async def _several(
        self,
        ranker: ServedRanker,
        take: "Callable[[Given, list[Answer]], Future[Acknowledgement]]",
        given: Sequence[Given],
    ) -> Response:
        """Submit all, as many together as are logged together, then wait for all; each has its own result."""
        waiting: list[Future[Acknowledgement] | ServiceError] = []
        together: list[Answer] = []
        start = time.perf_counter()
        for one in given:
            try:
                waiting.append(take(one, together))
            except ServiceError as error:
                waiting.append(error)
            if len(together) >= ranker.settings.group_answers:
                ranker.submit(together)
                together = []
            if time.perf_counter() - start > _TURN_SECONDS:
                await asyncio.sleep(0)
                start = time.perf_counter()
        ranker.submit(together)
        results: list[Any] = []
        status, deadline = 200, self._deadline()
        for future in waiting:
            try:
                results.append(_acknowledged(await self._done(_raised(future), deadline)))
            except ServiceError as error:
                results.append(error.as_plain())
                status = 207
        return _json({"results": results}, status)

    async def model(self, request: Request) -> Response:
        """GET /model."""
        current = self._ranker(request).current
        text = await self._in_thread(lambda: model_text(current.model.as_document()))  # large ones take a while
        return Response(text, media_type="application/json", headers={"X-Model-Version": str(current.version)})

    async def versions(self, request: Request) -> Response:
        """GET /model/versions."""
        ranker = self._ranker(request)
        return _json(messages.VersionsResponse(ranker.current.version, ranker.versions()))

    async def rollback(self, request: Request) -> Response:
        """POST /model/rollback."""
        given = await self._parsed(request, _rollback_decoder)
        future = self._ranker(request).roll_back(given.version)
        return _json(messages.VersionResponse(await self._done(future)))

    async def promote(self, request: Request) -> Response:
        """POST /model/promote."""
        given = await self._parsed(request, _promote_decoder)
        if [given.ranker, given.model, given.challenger].count(None) != 2:
            raise InvalidRequestError(
                "give exactly one of challenger, ranker and model", "name a challenger or a ranker, or send a document"
            )
        ranker = self._ranker(request)
        if given.challenger is not None:
            return _json(messages.VersionResponse(await self._done(ranker.promote_challenger(given.challenger))))
        if given.ranker is not None:
            model, reason = self._service.ranker(given.ranker).current.model, f"promoted from {given.ranker}"
        else:
            model, reason = await self._in_thread(restored, given.model), "promoted from a document"
        return _json(messages.VersionResponse(await self._done(ranker.promote(model, reason, fixed=given.fixed))))

    async def export(self, request: Request) -> Response:
        """GET /export/{target}."""
        target = request.path_params["target"]
        if target not in targets():
            raise UnknownError(f"there is no target {target[:100]!r}", f"there are {', '.join(targets())}")
        try:
            made = await self._in_thread(export, self._ranker(request).current.model, target)
        except (ValueError, AttributeError, ImportError) as error:
            raise InvalidRequestError(
                f"the model cannot be exported to {target}: {error}", "see docs/deploy.md"
            ) from None
        headers = {"X-Notes": json.dumps(made.notes)}
        kind = "text/plain; charset=utf-8" if made.is_text else "application/octet-stream"
        return Response(made.content, media_type=kind, headers=headers)

    async def rankers(self, request: Request) -> Response:
        """GET /rankers."""
        return _json({name: one.status() for name, one in self._service.rankers.items()})

    async def healthy(self, request: Request) -> Response:
        """GET /healthz: the process answers."""
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """GET /readyz: it ranks, and learns; 503 if it only ranks. The reason is for those who may watch."""
        off = {name: one.problem for name, one in self._service.rankers.items() if one.problem}
        try:
            self._access.check(request.headers.get("authorization"), "watch")
        except ServiceError:  # it may name folders, and the address of a database
            off = dict.fromkeys(off, "it does not learn; a token with the scope watch or admin is told why")
        status = {"status": "ranking only" if off else "ok", "problems": off}
        return _json(status, 503 if off else 200)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _decoded(decoder: "msgspec.json.Decoder[Result]", body: bytes) -> Result:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"the body is not as described: {error}", "see /openapi.json") from None


def _documents(
    ranker: ServedRanker,
    body: bytes,
    decoder: "msgspec.json.Decoder[WithDocuments]",
    others: "msgspec.json.Decoder[Options]",
) -> "tuple[Sequence[Document] | Scanned, WithDocuments | Options]":
    """Return the documents of a body, and its other fields."""
    if (scanned := ranker.scan(body)) is not None:
        with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):  # the decoder of all of it says why
            return scanned, others.decode(scanned.others)
    given = _decoded(decoder, body)
    return given.documents, given


def _raised(one: "Future[Acknowledgement] | ServiceError") -> "Future[Acknowledgement]":
    if isinstance(one, ServiceError):
        raise one
    return one


def _acknowledged(one: Acknowledgement) -> messages.Acknowledged:
    return messages.Acknowledged(one.event_id, one.sequence, one.duplicate)


def _json(value: Any, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def _failed(error: ServiceError, headers: dict[str, str] | None = None) -> Response:
    if isinstance(error, RateLimitedError):
        headers = {"Retry-After": str(math.ceil(error.retry_after))}
    return Response(_encode(error.as_plain()), error.status, headers, media_type="application/json")


def _contributions(ranked: Ranked) -> dict[str, dict[str, float]]:
    """Return what each feature adds to the score of each document."""
    arranged = ranked.arranged
    query = QueryStream.from_arrays(
        arranged.X, np.zeros(len(arranged.ids)), feature_names=arranged.names, missing="keep"
    )
    try:
        found = explain(ranked.model).contributions(query)
    except (ValueError, AttributeError) as error:
        raise InvalidRequestError(f"there are no contributions: {error}", "ask again without them") from None
    return {arranged.ids[row]: dict(found.largest(rank)) for rank, row in enumerate(found.places.tolist())}
