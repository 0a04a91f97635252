"""Replicas over HTTP: a snapshot to start from, the entries of the log, and answers that they took."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from perceptrank.serve.documents import LONGEST_ID, MOST_DOCUMENTS, MOST_VALUES
from perceptrank.serve.errors import InvalidRequestError, ReadOnlyError
from perceptrank.serve.http.answers import MOST_ANSWERS, SeveralResponse, take_several
from perceptrank.serve.http.endpoint import Backend, Handler, decode, endpoint, respond
from perceptrank.serve.log.records import AnswerEntry, ShownEntry, as_numbers
from perceptrank.serve.log.records import decode as decode_record
from perceptrank.serve.ranker import OPEN, ServedRanker
from perceptrank.serve.replay import Current
from perceptrank.serve.replicas.follower import ForwardedEntry
from perceptrank.serve.replicas.links import Link, Peer
from perceptrank.serve.replicas.replica import ReplicaRanker
from perceptrank.serve.replicas.sources import Batch, Start, read_batch
from perceptrank.serve.snapshots import snapshot_text
from perceptrank.serve.submissions import Acknowledgement, Answer

_WAIT = 1.0  # seconds that a request for entries waits for some
_LOOK = 0.02
_BODY_BYTES = 2**26  # of the largest answer that there can be: 8 bytes of a value are 11 here, and may be 2 in JSON

Entries = Annotated[list[ForwardedEntry], Meta(min_length=1, max_length=MOST_ANSWERS)]


@endpoint("GET", "/snapshot", "admin", response=Start)
async def get_snapshot(backend: Backend, request: Request) -> Response:
    """Return the model now, for a replica to start from."""
    ranker = _primary(backend, request)
    return respond(Start(await backend.in_thread(snapshot_text, ranker.current), ranker.secret))


@endpoint("GET", "/entries/{after}", "admin", response=Batch)
async def get_entries(backend: Backend, request: Request) -> Response:
    """Return the entries of the log after a number, once there are some, but within a second."""
    ranker, text = _primary(backend, request), request.path_params["after"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidRequestError(f"the number of an entry is expected, got {text[:100]!r}", "send 0 for all entries")
    after, deadline = int(text), time.monotonic() + _WAIT
    while (current := ranker.current).version == after:
        if time.monotonic() > deadline:
            return respond(Batch(current.link, after, []))
        await asyncio.sleep(_LOOK)

    def read() -> Batch:
        with closing(ranker.thread.log.reader()) as log:
            return read_batch(log, after)

    return respond(await backend.in_thread(read))


def _primary(backend: Backend, request: Request) -> ServedRanker:
    ranker = backend.ranker(request)
    if isinstance(ranker, ReplicaRanker):
        raise ReadOnlyError("this is a replica itself", "follow its primary")
    return ranker


@endpoint("POST", "/entries", "admin", request=Entries, response=SeveralResponse, takes_several=True)
async def take_entries(backend: Backend, request: Request) -> Response:
    """Take answers that replicas took."""
    entries = decode(Entries, await backend.body(request, _BODY_BYTES))
    ranker = backend.ranker(request)

    def take(forwarded: ForwardedEntry, together: list[Answer]) -> "Future[Acknowledgement]":
        answer = _as_answer(forwarded, ranker.current)
        together.append(answer)
        entry = answer.entry
        if isinstance(entry, ShownEntry) and entry.ranking_id is not None and OPEN in entry.event_id:
            ranker.adopt(entry.ranking_id, entry)  # the replica stops
        return answer.future

    return await take_several(backend, ranker, take, entries)


def _as_answer(forwarded: ForwardedEntry, current: Current) -> Answer:
    """Return an answer that a replica took; raise unless it keeps the rules of answers that come as JSON."""
    try:
        entry: Any = decode_record(forwarded.record)
        event_id, names = getattr(entry, "event_id", ""), forwarded.names
        if not isinstance(entry, AnswerEntry | ShownEntry) or not 0 < len(event_id) <= 2 * LONGEST_ID:
            raise ValueError("it is no answer")
        ids, X, weight = entry.documents, entry.X, getattr(entry, "weight", 1.0)
        grades = entry.relevance if isinstance(entry, AnswerEntry) else as_numbers(entry.clicks)
        takes_weight = current.learner.accepts_query_weights and (weight == 0 or 1e-100 <= weight <= 1e100)
        rules = {
            "ids": 0 < len(set(ids)) == len(ids) <= MOST_DOCUMENTS and all(0 < len(name) <= LONGEST_ID for name in ids),
            "a number of features": 0 < X.size <= MOST_VALUES and (names is None or len(set(names)) == X.shape[1]),
            "features": not (np.isinf(X) if current.takes_missing else ~np.isfinite(X)).any(),
            "grades": bool(((grades >= 0) & np.isfinite(grades)).all()),
            "clicks": isinstance(entry, AnswerEntry) or bool((grades <= 1).all()),
            "a weight": weight == 1 or takes_weight,
        }
        if broken := [what for what, is_kept in rules.items() if not is_kept]:
            raise ValueError(f"it has {broken[0]} that no answer can have")
    except ValueError as error:
        raise InvalidRequestError(f"an entry cannot be taken: {error}", "send what a replica sends") from None
    return Answer(msgspec.structs.replace(entry, time=time.time_ns()), names)


def relay_to(find: Callable[[], Peer]) -> Handler:
    """Return a handler that lets the primary answer."""

    async def relay(backend: Backend, request: Request) -> Response:
        path = request.scope["raw_path"].decode() + (f"?{request.url.query}" if request.url.query else "")
        kind, body = request.headers.get("content-type", "application/json"), await backend.body(request, _BODY_BYTES)
        status, headers, content = await backend.in_thread(Link(find()).relay, request.method, path, kind, body)
        return Response(content, status, headers)

    return relay
