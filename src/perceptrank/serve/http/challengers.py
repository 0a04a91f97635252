"""Paths of the HTTP interface that are about challengers."""

import json
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import msgspec
from fastapi import Request, Response

from perceptrank.io.model_file import parse_model
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import algorithms, restore
from perceptrank.serve.errors import InvalidRequestError, UnknownError
from perceptrank.serve.http import messages
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.service import Service

Handler = Callable[[Request], Awaitable[Response]]
Result = TypeVar("Result")

_encode = msgspec.json.Encoder().encode
_add_decoder = msgspec.json.Decoder(messages.AddChallengerRequest)
_remove_decoder = msgspec.json.Decoder(messages.RemoveChallengerRequest)


class Handling(Protocol):
    """The part that handlers of all paths share."""

    @property
    def _service(self) -> Service: ...
    def _ranker(self, request: Request) -> ServedRanker: ...
    async def _parsed(self, request: Request, decoder: "msgspec.json.Decoder[Result]") -> Result: ...
    async def _in_thread(self, work: Callable[..., Result], *given: Any) -> Result: ...
    async def _done(self, future: "Future[Result]") -> Result: ...


class ShadowPaths:
    """The handlers of the paths of a ranker that are about its challengers."""

    def __init__(self, paths: Handling) -> None:
        self._paths = paths

    def all(self) -> list[tuple[str, str, str, Handler]]:
        """Return path, method, scope and handler of each."""
        return [
            ("/challengers", "GET", "admin", self.standings),
            ("/challengers/add", "POST", "admin", self.add),
            ("/challengers/remove", "POST", "admin", self.remove),
        ]

    async def standings(self, request: Request) -> Response:
        """GET /challengers."""
        return _json(self._paths._ranker(request).standings())

    async def add(self, request: Request) -> Response:
        """POST /challengers/add."""
        given = await self._paths._parsed(request, _add_decoder)
        sources = {"algorithm": given.algorithm, "model": given.model, "ranker": given.ranker, "version": given.version}
        if sum(one is not None for one in sources.values()) != 1:
            raise InvalidRequestError(
                f"give exactly one of {', '.join(sources)}", "say what the challenger starts from"
            )
        ranker, model = self._paths._ranker(request), given.version
        made: Learner | int
        if given.algorithm is not None:
            if (kind := algorithms().get(given.algorithm)) is None:
                raise UnknownError(
                    f"there is no algorithm {given.algorithm[:100]!r}", f"there are {', '.join(sorted(algorithms()))}"
                )
            made = kind()
        elif given.ranker is not None:
            made = self._paths._service.ranker(given.ranker).current.model
        else:
            made = await self._paths._in_thread(restored, given.model) if model is None else model
        future = ranker.add_challenger(given.name, made, given.measure)
        return _json(messages.VersionResponse(await self._paths._done(future)))

    async def remove(self, request: Request) -> Response:
        """POST /challengers/remove."""
        given = await self._paths._parsed(request, _remove_decoder)
        future = self._paths._ranker(request).remove_challenger(given.name)
        return _json(messages.VersionResponse(await self._paths._done(future)))


def restored(document: dict[str, Any] | None) -> Learner:
    """Return the model of a document that was sent."""
    try:
        return restore("the document", parse_model("the document", json.dumps(document)))
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, MemoryError) as error:
        raise InvalidRequestError(
            f"not a model: {error}", "send what GET /v1/model returns, or a saved model"
        ) from None


def _json(value: Any) -> Response:
    return Response(_encode(value), media_type="application/json")
