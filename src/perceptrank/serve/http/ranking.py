"""POST /rank: rank the documents of a query."""

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from perceptrank.deploy.explanation.explanation import explain
from perceptrank.serve.documents import Documents, decode_query
from perceptrank.serve.errors import InvalidRequestError
from perceptrank.serve.http.endpoint import Backend, decode, endpoint, respond
from perceptrank.serve.ranker import Ranked
from perceptrank.stream.query_stream import QueryStream


class RankRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Documents of one query; `contributions` asks for what each feature adds to each score."""

    documents: Documents
    contributions: bool = False


class RankResponse(msgspec.Struct, omit_defaults=True):
    """The ids best first; scores and contributions by id; the version that ranked, and the id to answer with."""

    ranking_id: str
    order: list[str]
    scores: dict[str, float]
    model_version: int
    contributions: dict[str, dict[str, float]] | None = None


@endpoint("POST", "/rank", "rank", request=RankRequest, response=RankResponse)
async def rank(backend: Backend, request: Request) -> Response:
    """Rank the documents of a query, and remember them for the answer."""
    body, ranker = await backend.body(request), backend.ranker(request)
    query = decode_query(RankRequest, body, ranker.current) or decode(RankRequest, body)
    ranked = ranker.rank(query.documents)
    contributions = await backend.in_thread(_contributions, ranked) if query.contributions else None
    return respond(RankResponse(ranked.ranking_id, ranked.order, ranked.scores, ranked.model_version, contributions))


def _contributions(ranked: Ranked) -> dict[str, dict[str, float]]:
    """Return what each feature adds to the score of each document."""
    arranged = ranked.arranged
    query = QueryStream.from_arrays(
        arranged.X, np.zeros(len(arranged.ids)), feature_names=arranged.names, missing="keep"
    )
    try:
        contributions = explain(ranked.learner).contributions(query)
    except (ValueError, AttributeError) as error:  # the latter from models that do not rank by weights
        raise InvalidRequestError(f"there are no contributions: {error}", "ask again without them") from None
    places = contributions.places.tolist()
    return {arranged.ids[row]: dict(contributions.largest(rank)) for rank, row in enumerate(places)}
