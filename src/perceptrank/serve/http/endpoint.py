"""Endpoints as values, and what their handlers share: bodies, deadlines and responses."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from perceptrank.serve.errors import InvalidRequestError, RateLimitedError, ServiceError, TooLargeError, TooSlowError
from perceptrank.serve.http.access import Access
from perceptrank.serve.http.log_lines import AccessLog
from perceptrank.serve.http.metrics import Metrics
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Limits

Result = TypeVar("Result")
_encode = msgspec.json.Encoder().encode
_TOO_MANY = re.compile("Expected `(array|object)` of length <=")


@dataclass(frozen=True)
class Backend:
    """Service, limits and logs that handlers work with."""

    service: Service
    access: Access
    metrics: Metrics
    limits: Limits
    log: AccessLog | None = None

    def ranker(self, request: Request) -> ServedRanker:
        """Return the ranker that a path names, or the service's first."""
        return self.service.ranker(request.path_params.get("name", self.service.first))

    async def body(self, request: Request, at_least: int = 0) -> bytes:
        """Return the body of a request, within the limits of size, which is `at_least` this one, and time."""
        most, parts, size = max(self.limits.body_bytes, at_least), [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise TooLargeError(f"a request may have {most} bytes, got more", "send it in parts")
                    parts.append(part)
        except ClientDisconnect:
            raise TooSlowError("the connection closed before the whole request arrived", "send it again") from None
        except TimeoutError:
            raise TooSlowError(
                f"the request did not arrive within {self.limits.body_seconds:g} seconds", "send it again"
            ) from None
        body = b"".join(parts)
        if self.log is not None:
            self.log.keep(request, body)
        return body

    async def read(self, request: Request, kind: type[Result]) -> Result:
        """Return the body of a request as a message."""
        return decode(kind, await self.body(request))

    async def in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do what takes longer in another thread."""
        try:
            async with asyncio.timeout(self.limits.work_seconds):
                return await asyncio.to_thread(work, *arguments)
        except TimeoutError:
            raise TooSlowError(f"it takes more than {self.limits.work_seconds:g} seconds", "ask for less") from None

    def deadline(self) -> float:
        """Return when the answers of a request that comes now must be logged."""
        return asyncio.get_running_loop().time() + self.limits.answer_seconds

    async def done(self, future: "Future[Result]", deadline: float | None = None) -> Result:
        """Return the result of a future once it is there."""
        if future.done():  # also after the deadline
            return future.result()
        try:
            async with asyncio.timeout_at(self.deadline() if deadline is None else deadline):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise TooSlowError(
                f"not logged within {self.limits.answer_seconds:g} seconds, perhaps later",
                "send it again with the same event_id",
            ) from None


Handler = Callable[[Backend, Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A path and method, the scope that a token needs (empty: none), its handler, and the messages of its bodies.

    Paths of a ranker come after /v1 and /v1/rankers/NAME. Without a request there is no body; without a response, it
    is not JSON.
    """

    method: str
    path: str
    scope: str
    handle: Handler
    request: Any = None
    response: Any = None
    takes_several: bool = False  # messages in one request
    takes_lines: bool = False  # also as JSON lines
    of_ranker: bool = True  # each ranker has it

    @property
    def summary(self) -> str:
        """The first sentence of the handler's docstring."""
        return (self.handle.__doc__ or "").partition(".")[0]

    @property
    def paths(self) -> list[str]:
        """All paths that lead to it."""
        return ["/v1" + self.path, "/v1/rankers/{name}" + self.path] if self.of_ranker else [self.path]


def endpoint(method: str, path: str, scope: str, **about: Any) -> Callable[[Handler], Endpoint]:
    """Declare the endpoint that a function handles."""
    return lambda handle: Endpoint(method=method, path=path, scope=scope, handle=handle, **about)


def exactly_one(kind: Any, *names: str) -> Any:
    """Return the type of a message that must have one of several fields, which `check_one` checks."""
    choices = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names]
    return Annotated[kind, msgspec.Meta(extra_json_schema={"oneOf": choices})]


def check_one(message: Any, *names: str) -> None:
    """Raise unless a message has exactly one of several fields."""
    if sum(getattr(message, name) is not None for name in names) != 1:
        choices = f"{', '.join(names[:-1])} and {names[-1]}"
        raise InvalidRequestError(f"give exactly one of {choices}", "leave the others out")


def within(least: float, most: float, **more: float) -> msgspec.Meta:
    """Describe the range of a number that the ranker checks, since its errors name the value."""
    return msgspec.Meta(extra_json_schema={"minimum": least, "maximum": most} | more)


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode(kind: type[Result], body: bytes) -> Result:
    """Return a body as a message; raise if it is none."""
    try:
        decoder: msgspec.json.Decoder[Result] = _decoder(kind)  # type: ignore[arg-type]
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        if _TOO_MANY.match(str(error)):
            raise TooLargeError(f"the body has too much: {error}", "send it in parts, or less of it") from None
        raise InvalidRequestError(f"the body is not as described: {error}", "see /openapi.json") from None


def respond(value: Any, status: int = 200) -> Response:
    """Return a response with a value as JSON."""
    return Response(_encode(value), status, media_type="application/json")


def respond_error(error: ServiceError, headers: dict[str, str] | None = None) -> Response:
    """Return the response for a request that was not carried out."""
    if isinstance(error, RateLimitedError):
        headers = {"Retry-After": str(math.ceil(error.retry_after))}
    return Response(_encode(error.as_plain()), error.status, headers, media_type="application/json")
