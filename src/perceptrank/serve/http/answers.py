"""POST /feedback, /clicks and /learn: answers to rankings, clicks on them, and queries with their answers."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from perceptrank.serve.documents import MOST_DOCUMENTS, Documents, Id, decode_query
from perceptrank.serve.errors import InvalidRequestError, ServiceError, TooLargeError
from perceptrank.serve.http.endpoint import Backend, decode, endpoint, respond, within
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.settings import MOST_PLACES
from perceptrank.serve.submissions import Acknowledgement, Answer

MOST_ANSWERS = 10_000
_TOGETHER_BYTES = 2**24  # of answers that wait for others of their request
_TURN_SECONDS = 0.0002  # for one of several answers after the other, before others are ranked

Grades = Annotated[dict[Id, Annotated[float, Meta(ge=0)]], Meta(min_length=1, max_length=MOST_DOCUMENTS)]
Ids = Annotated[list[Id], Meta(max_length=MOST_DOCUMENTS)]
Weight = Annotated[float, Meta(ge=0, le=1e100, extra_json_schema={"anyOf": [{"const": 0}, {"minimum": 1e-100}]})]
Item = TypeVar("Item")


class FeedbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to a ranking: grades of documents by id.

    Documents without a grade have 0, or are left out with `omit_ungraded`.
    """

    ranking_id: Id
    grades: Grades
    event_id: Id | None = None
    weight: Weight = 1.0
    omit_ungraded: bool = False

    def take(self, ranker: ServedRanker, together: list[Answer] | None) -> "Future[Acknowledgement]":
        """Give the grades to a ranker."""
        about: dict[str, Any] = {"event_id": self.event_id, "weight": self.weight, "omit": self.omit_ungraded}
        return ranker.feedback(self.ranking_id, self.grades, **about, together=together)


class ClicksRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The clicks on a ranking that was shown: ids of documents, or numbers from 0 to 1 by id; none, if there was none.

    `examined` is what the user has looked at: ids, or the last place, counted from 1. With `more`, further clicks may
    follow: all are learned from together, once an answer without it comes, or the ranking expires.
    """

    ranking_id: Id
    clicks: Ids | Annotated[dict[Id, Annotated[float, within(0, 1)]], Meta(max_length=MOST_DOCUMENTS)]
    examined: Ids | Annotated[float, within(0, MOST_PLACES, multipleOf=1)] | None = None
    more: bool = False
    event_id: Id | None = None

    def take(self, ranker: ServedRanker, together: list[Answer] | None) -> "Future[Acknowledgement]":
        """Give the clicks to a ranker."""
        about: dict[str, Any] = {"examined": self.examined, "more": self.more, "event_id": self.event_id}
        return ranker.clicks(self.ranking_id, self.clicks, **about, together=together)


class LearnRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A query and its answer at once."""

    documents: Documents
    grades: Grades
    event_id: Id | None = None
    weight: Weight = 1.0
    omit_ungraded: bool = False


class SeveralResponse(msgspec.Struct):
    """For each answer, in their order, what one alone would have got; the status is 207 if some were not taken."""

    results: list[dict[str, Any]]


ClicksBody = ClicksRequest | Annotated[list[ClicksRequest], Meta(min_length=1, max_length=MOST_ANSWERS)]
FeedbackBody = FeedbackRequest | Annotated[list[FeedbackRequest], Meta(min_length=1, max_length=MOST_ANSWERS)]


@endpoint("POST", "/feedback", "feedback", request=FeedbackBody, response=Acknowledgement, takes_several=True)
async def feedback(backend: Backend, request: Request) -> Response:
    """Answer one ranking or several."""
    return await _take_answers(backend, request, FeedbackBody)


@endpoint("POST", "/clicks", "feedback", request=ClicksBody, response=Acknowledgement, takes_several=True)
async def clicks(backend: Backend, request: Request) -> Response:
    """Say what was clicked in one ranking or several."""
    return await _take_answers(backend, request, ClicksBody)


async def _take_answers(backend: Backend, request: Request, kind: Any) -> Response:
    """Take one answer or several, or send them to the processes that made their rankings."""
    answers: Any = await backend.read(request, kind)
    ranker, is_forwarded = backend.ranker(request), request.scope["query_string"] == b"forwarded"
    path = f"/{request.scope['path'].rpartition('/')[2]}"

    def take(answer: Any, together: list[Answer] | None = None) -> "Future[Acknowledgement]":
        forward = None if is_forwarded else ranker.owner_of(answer.ranking_id)
        return answer.take(ranker, together) if forward is None else forward(path, answer)

    if isinstance(answers, list):
        return await take_several(backend, ranker, take, answers)
    return respond(await backend.done(take(answers)))


@endpoint(
    "POST", "/learn", "feedback", request=LearnRequest, response=Acknowledgement, takes_several=True, takes_lines=True
)
async def learn(backend: Backend, request: Request) -> Response:
    """Learn from a query and its answer, or from JSON lines of them."""
    body, ranker = await backend.body(request), backend.ranker(request)

    def take(content: bytes, together: list[Answer] | None = None) -> "Future[Acknowledgement]":
        query = decode_query(LearnRequest, content, ranker.current) or decode(LearnRequest, content)
        event_id = query.event_id or uuid.uuid4().hex
        given: dict[str, Any] = {"event_id": event_id, "weight": query.weight, "omit": query.omit_ungraded}
        return ranker.learn(query.documents, query.grades, **given, together=together)

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-ndjson", "application/jsonl"):
        return respond(await backend.done(take(body)))
    lines = [line for line in body.splitlines() if line.strip()]
    if not lines:
        raise InvalidRequestError("there must be a line, got none", "send a JSON object per line")
    if len(lines) > MOST_ANSWERS:
        raise TooLargeError(f"a request may have 1 to {MOST_ANSWERS} lines, got {len(lines)}", "send it in parts")
    return await take_several(backend, ranker, take, lines)


async def take_several(
    backend: Backend,
    ranker: ServedRanker,
    take: "Callable[[Item, list[Answer]], Future[Acknowledgement]]",
    items: Sequence[Item],
) -> Response:
    """Submit all, as many together as are logged together, then wait for all; each has its own result."""
    waiting: list[Future[Acknowledgement] | ServiceError] = []
    together: list[Answer] = []
    n_bytes, start = 0, time.perf_counter()
    for item in items:
        try:
            waiting.append(take(item, together))
            n_bytes += together[-1].n_bytes if together else 0  # some are sent to other processes
        except ServiceError as error:
            waiting.append(error)
        if len(together) >= ranker.settings.group_answers or n_bytes >= _TOGETHER_BYTES:
            ranker.submit(together)
            together, n_bytes = [], 0
        if time.perf_counter() - start > _TURN_SECONDS:
            await asyncio.sleep(0)
            start = time.perf_counter()
    ranker.submit(together)
    results: list[Any] = []
    status, deadline = 200, backend.deadline()
    for outcome in waiting:
        try:
            if isinstance(outcome, ServiceError):
                raise outcome
            results.append(await backend.done(outcome, deadline))
        except ServiceError as error:
            results.append(error.as_plain())
            status = 207
    return respond({"results": results}, status)
