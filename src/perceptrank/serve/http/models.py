"""The model, its versions, rollback, promotion and exports to engines; its challengers, adding and removing them."""

import json
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from perceptrank.deploy.exports import export, targets
from perceptrank.io.model_file import FORMAT, VERSION, model_text, parse_model
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import algorithms, restore
from perceptrank.serve.documents import Id
from perceptrank.serve.errors import InvalidRequestError, UnknownError
from perceptrank.serve.http.endpoint import Backend, check_one, endpoint, exactly_one, respond
from perceptrank.serve.log.opening import NAME
from perceptrank.serve.shadow.challengers import Standings

Version = Annotated[float, Meta(ge=1, multiple_of=1)]  # JSON has no integers: 1.0 is 1
_SAVED = {"required": ["format", "version"], "properties": {"format": {"const": FORMAT}, "version": {"const": VERSION}}}
ModelDocument = Annotated[dict[str, Any], Meta(extra_json_schema=_SAVED)]


class VersionResponse(msgspec.Struct):
    """The version that ranks now."""

    model_version: int


class VersionsResponse(msgspec.Struct):
    """The version that ranks now, and those that have a snapshot, newest first; any from 1 on can be restored."""

    model_version: int
    snapshots: list[int]


class RollbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The version to go back to."""

    version: Version


class PromoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The model that ranks from now on: a challenger, that of another ranker, or a model document. Exactly one.

    With `fixed`, that of another ranker or a document does not learn.
    """

    ranker: Id | None = None
    model: ModelDocument | None = None
    challenger: Id | None = None
    fixed: bool = False


_SOURCES = ("challenger", "ranker", "model")
_PROMOTION = exactly_one(PromoteRequest, *_SOURCES)


@endpoint("GET", "/model", "admin", response=dict[str, Any])
async def get_model(backend: Backend, request: Request) -> Response:
    """Return the model as a model file."""
    current = backend.ranker(request).current
    text = await backend.in_thread(lambda: model_text(current.learner.as_document()))  # large ones take a while
    return Response(text, media_type="application/json", headers={"X-Model-Version": str(current.version)})


@endpoint("GET", "/model/versions", "admin", response=VersionsResponse)
async def list_versions(backend: Backend, request: Request) -> Response:
    """List the versions of the model."""
    ranker = backend.ranker(request)
    return respond(VersionsResponse(ranker.current.version, ranker.versions()))


@endpoint("POST", "/model/rollback", "admin", request=RollbackRequest, response=VersionResponse)
async def roll_back(backend: Backend, request: Request) -> Response:
    """Go back to an earlier version."""
    wanted = await backend.read(request, RollbackRequest)
    return respond(VersionResponse(await backend.done(backend.ranker(request).roll_back(int(wanted.version)))))


@endpoint("POST", "/model/promote", "admin", request=_PROMOTION, response=VersionResponse)
async def promote(backend: Backend, request: Request) -> Response:
    """Rank with another model from now on."""
    wanted = await backend.read(request, PromoteRequest)
    check_one(wanted, *_SOURCES)
    ranker = backend.ranker(request)
    if wanted.challenger is not None:
        future = ranker.promote_challenger(wanted.challenger)
    elif wanted.ranker is not None:
        model, reason = backend.service.ranker(wanted.ranker).current.learner, f"promoted from {wanted.ranker}"
        future = ranker.promote(model, reason, fixed=wanted.fixed)
    else:
        model = await backend.in_thread(restore_document, wanted.model)
        future = ranker.promote(model, "promoted from a document", fixed=wanted.fixed)
    return respond(VersionResponse(await backend.done(future)))


@endpoint("GET", "/export/{target}", "admin")
async def export_model(backend: Backend, request: Request) -> Response:
    """Export the model to the format of another engine."""
    target = request.path_params["target"]
    if target not in targets():
        raise UnknownError(f"there is no target {target[:100]!r}", f"there are {', '.join(targets())}")
    try:
        exported = await backend.in_thread(export, backend.ranker(request).current.learner, target)
    except (ValueError, AttributeError, ImportError) as error:  # AttributeError: it does not rank by weights
        raise InvalidRequestError(f"the model cannot be exported to {target}: {error}", "see docs/deploy.md") from None
    headers = {"X-Notes": json.dumps(exported.notes)}
    kind = "text/plain; charset=utf-8" if exported.is_text else "application/octet-stream"
    return Response(exported.content, media_type=kind, headers=headers)


def restore_document(document: dict[str, Any] | None) -> Learner:
    """Return the model of a document that was sent."""
    try:
        return restore("the document", parse_model("the document", json.dumps(document)))
    except (ValueError, MemoryError) as error:
        raise InvalidRequestError(f"not a model: {error}", "send what GET /v1/model returns, or a model file") from None


class AddChallengerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A model that learns silently from now on, and the measure used to compare it with the model that ranks.

    The measure is of clicks (`preferences`, `team-draft`, `clicks@3:clip=10`) or of grades, such as `ndcg@10`. The
    model starts from exactly one of: an algorithm's name, a model document, another ranker's model, a version of this.
    """

    name: Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
    algorithm: Id | None = None
    model: ModelDocument | None = None
    ranker: Id | None = None
    version: Version | None = None
    measure: Id | None = None


_STARTS = ("algorithm", "model", "ranker", "version")
_ADDITION = exactly_one(AddChallengerRequest, *_STARTS)


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
    check_one(wanted, *_STARTS)
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
