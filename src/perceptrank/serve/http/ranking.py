"""POST /rank: rank the documents of a query."""

from typing import Annotated

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from perceptrank.deploy.explanation.explanation import explain
from perceptrank.serve.documents import Documents, Id, Name, decode_query
from perceptrank.serve.errors import InvalidRequestError
from perceptrank.serve.exploring import Showing
from perceptrank.serve.http.endpoint import Backend, decode, endpoint, respond, within
from perceptrank.serve.ranker import Ranked
from perceptrank.serve.settings import MOST_PLACES
from perceptrank.stream.query_stream import QueryStream


class RankRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Documents of one query; `contributions` asks for what each feature adds to each score.

    What is shown: `places` documents, the first `keep` of which are not explored, nor any without `explore`. A ranking
    that is explored counts as shown, and so does one with `shown`. A `session` that asks again for the same
    `user_query` and documents gets the same list again.
    """

    documents: Documents
    contributions: bool = False
    shown: bool = False
    explore: bool = True
    places: Annotated[float, within(1, MOST_PLACES, multipleOf=1)] | None = None  # JSON has no integers
    keep: Annotated[float, within(0, MOST_PLACES, multipleOf=1)] = 0
    session: Id | None = None
    user_query: Name | None = None


class RankResponse(msgspec.Struct, omit_defaults=True):
    """The ids best first; scores and contributions by id; the version that ranked, and the id to answer with.

    The first `places` documents are to be shown in this order, which the exploration `policy` has drawn; both are left
    out if the ranking is not explored and does not count as shown.
    """

    ranking_id: str
    order: list[str]
    scores: dict[str, float]
    model_version: int
    policy: str = ""
    places: int = 0
    contributions: dict[str, dict[str, float]] | None = None


@endpoint("POST", "/rank", "rank", request=RankRequest, response=RankResponse)
async def rank(backend: Backend, request: Request) -> Response:
    """Rank the documents of a query, and remember them for the answer."""
    body, ranker = await backend.body(request), backend.ranker(request)
    query = decode_query(RankRequest, body, ranker.current) or decode(RankRequest, body)
    places = None if query.places is None else _whole(query.places)
    showing = Showing(query.shown, query.explore, places, _whole(query.keep), query.session, query.user_query)
    ranked = ranker.rank(query.documents, showing)
    contributions = await backend.in_thread(_contributions, ranked) if query.contributions else None
    ranking_id, order, scores, version, *_, policy, n_shown = ranked
    return respond(RankResponse(ranking_id, order, scores, version, policy, n_shown, contributions))


def _whole(number: float) -> int:
    """Return a number as an integer if it is one; others are refused by name."""
    return int(number) if float(number).is_integer() else number  # type: ignore[return-value]


def _contributions(ranked: Ranked) -> dict[str, dict[str, float]]:
    """Return what each feature adds to the score of each document."""
    arranged = ranked.arranged
    zeros = np.zeros(len(arranged.ids))
    query = QueryStream.from_arrays(arranged.X, zeros, feature_names=arranged.names, missing="keep")
    try:
        contributions = explain(ranked.learner).contributions(query)
    except (ValueError, AttributeError) as error:  # the latter from models that do not rank by weights
        raise InvalidRequestError(f"there are no contributions: {error}", "ask again without them") from None
    places = contributions.places.tolist()
    return {arranged.ids[row]: dict(contributions.largest(rank)) for rank, row in enumerate(places)}
