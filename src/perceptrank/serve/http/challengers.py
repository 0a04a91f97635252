"""GET /challengers, and adding and removing them."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import algorithms
from perceptrank.serve.documents import Id
from perceptrank.serve.errors import InvalidRequestError, UnknownError
from perceptrank.serve.http.endpoint import Backend, endpoint, exactly_one, respond
from perceptrank.serve.http.models import ModelDocument, Version, VersionResponse, restore_document
from perceptrank.serve.log.opening import NAME
from perceptrank.serve.shadow.challengers import Standings


class AddChallengerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A model that learns silently from now on, and the measure used to compare it with the model that ranks.

    The measure is of clicks (`preferences`, `team-draft`, `clicks@3:clip=10`) or of grades, such as `ndcg@10`; by
    default as suits.
    It starts from an algorithm's name, a model document, another ranker's model, or a version of this ranker. Exactly
    one of them.
    """

    name: Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
    algorithm: Id | None = None
    model: ModelDocument | None = None
    ranker: Id | None = None
    version: Version | None = None
    measure: Id | None = None


_SOURCES = ("algorithm", "model", "ranker", "version")
_ADDITION = exactly_one(AddChallengerRequest, *_SOURCES)


class RemoveChallengerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The challenger to remove."""

    name: Id


@endpoint("GET", "/challengers", "admin", response=Standings)
async def list_challengers(backend: Backend, request: Request) -> Response:
    """Compare the challengers with the model that ranks."""
    return respond(backend.ranker(request).standings())


@endpoint("POST", "/challengers/add", "admin", request=_ADDITION, response=VersionResponse)
async def add_challenger(backend: Backend, request: Request) -> Response:
    """Add a challenger, which learns silently."""
    wanted = await backend.read(request, AddChallengerRequest)
    sources = {name: getattr(wanted, name) for name in _SOURCES}
    if list(sources.values()).count(None) != len(sources) - 1:
        raise InvalidRequestError(f"give exactly one of {', '.join(sources)}", "say what the challenger starts from")
    model: Learner | int
    if wanted.algorithm is not None:
        known = algorithms() | algorithms(clicks=True)
        if (kind := known.get(wanted.algorithm)) is None:
            raise UnknownError(
                f"there is no algorithm {wanted.algorithm[:100]!r}", f"there are {', '.join(sorted(known))}"
            )
        model = kind()
    elif wanted.ranker is not None:
        model = backend.service.ranker(wanted.ranker).current.learner
    elif wanted.version is not None:
        model = int(wanted.version)
    else:
        model = await backend.in_thread(restore_document, wanted.model)
    future = backend.ranker(request).add_challenger(wanted.name, model, wanted.measure)
    return respond(VersionResponse(await backend.done(future)))


@endpoint("POST", "/challengers/remove", "admin", request=RemoveChallengerRequest, response=VersionResponse)
async def remove_challenger(backend: Backend, request: Request) -> Response:
    """Remove a challenger."""
    wanted = await backend.read(request, RemoveChallengerRequest)
    future = backend.ranker(request).remove_challenger(wanted.name)
    return respond(VersionResponse(await backend.done(future)))
