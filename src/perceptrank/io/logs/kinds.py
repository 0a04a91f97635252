"""Kinds of logs: where the fields stand in their records, and which records are events, and which are queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from perceptrank.io.logs.events import MOST_PLACES, Log, count_actions, count_where, parse_times, pl
from perceptrank.io.logs.records import Layout, Record
from perceptrank.io.logs.report import Counts


class Kind(NamedTuple):
    """A kind of log; `split` takes records, the actions that are clicks, and counts of what is left out."""

    layout: Layout
    split: Callable[[Any, Sequence[str], Counts], Log]
    clicks: tuple[str, ...] = ("click",)
    window_ms: int | None = None  # after which a click no longer belongs to an impression


_IMPRESSION = "impression"
_UBI_VERSIONS = ("1.0", "1.1", "1.2", "1.3")
_UBI: Layout = {
    "id": ("_id",),
    "action": ("action_name",),
    "qid": ("query_id",),
    "session": ("session_id",),
    "client": ("client_id",),
    "user_query": ("user_query",),
    "time": ("timestamp",),
    "docid": ("event_attributes", "object", "object_id"),
    "internal_id": ("event_attributes", "object", "internal_id"),
    "ordinal": ("event_attributes", "position", "ordinal"),
    "hits": ("query_response_hit_ids", "[]"),
    "objects": ("query_response_objects_ids", "[]"),  # in drafts of 1.0
}


def note_version(record: Record, counts: Counts) -> None:
    """Note a version of the schema that is unknown, where records name one."""
    version = record.get("ubi_version", record.get("schema_version"))
    if version is not None and not str(version).startswith(_UBI_VERSIONS):
        counts.noted[f"log of the unknown schema version {version}, read as {_UBI_VERSIONS[-1]}"] = 1


def _split_ubi(frame: Any, clicks: Sequence[str], counts: Counts) -> Log:
    """Split User Behavior Insights of OpenSearch, Elasticsearch and Solr: an event has an action, a query has none."""
    frame = frame.with_columns(docid=pl.coalesce("docid", "internal_id"), hits=pl.coalesce("hits", "objects"))
    action, is_named = pl.col("action"), pl.col("qid").is_not_null() & (pl.col("qid") != "")
    events = frame.filter(action.is_not_null())
    chosen = events.filter(action.is_in([_IMPRESSION, *clicks]))
    count_actions("events of the action", events.filter(~action.is_in([_IMPRESSION, *clicks]))["action"], counts)
    others = frame.filter(action.is_null())
    is_query = is_named & (pl.col("user_query").is_not_null() | pl.col("hits").is_not_null())
    counts.left_out["records that are neither an event nor a query with its id"] += len(others.filter(~is_query))
    session = pl.coalesce("session", "client")
    queries = others.filter(is_query)
    return Log.of(
        chosen.select(
            "id",
            "qid",
            "docid",
            "user_query",
            session=session,
            is_click=action != _IMPRESSION,
            ordinal=_ordinals(chosen["ordinal"]),
            has_ordinal=pl.col("ordinal").is_not_null() & (pl.col("ordinal") != "{}"),
            time=parse_times(chosen["time"], counts),
        ),
        queries.select("qid", "user_query", "hits", session=session, time=parse_times(queries["time"], counts)),
    )


def _ordinals(texts: Any) -> Any:
    """Return ordinals, which are numbers, or, up to version 1.2, objects with an index."""
    numbers = texts.cast(pl.Int64, strict=False)
    if numbers.null_count() == texts.null_count():
        return numbers
    index = texts.str.extract(r'^\{"index": ?"?(-?[0-9]+)"?\}$').cast(pl.Int64, strict=False)
    return numbers.zip_with(numbers.is_not_null(), index)


METARANK_EVENTS = ("ranking", "interaction", "item", "user")
_METARANK: Layout = {
    "id": ("id",),
    "event": ("event",),
    "time": ("timestamp",),
    "user": ("user",),
    "session": ("session",),
    "ranking": ("ranking",),
    "type": ("type",),
    "item": ("item",),
    "hits": ("items", "[]", "id"),
    "names": ("fields", "[]", "name"),
    "values": ("fields", "[]", "value"),
}
_METARANK_QUERIES = ("query", "search", "search_query", "q")


def _split_metarank(frame: Any, clicks: Sequence[str], counts: Counts) -> Log:
    """Split events of Metarank into interactions and rankings."""
    event, session = pl.col("event"), pl.coalesce("session", "user")
    others = frame.filter(event.is_null() | ~event.is_in(["ranking", "interaction"]))
    count_actions("events of the type", others["event"], counts)
    interactions = frame.filter(event == "interaction")
    is_click = pl.col("type").is_in(clicks).fill_null(False)
    count_actions("interactions of the type", interactions.filter(~is_click)["type"], counts)
    chosen = interactions.filter(is_click)
    rankings = frame.filter((event == "ranking") & pl.col("id").is_not_null()).with_row_index("row")
    counts.left_out["rankings without an id"] += count_where(frame, (event == "ranking") & pl.col("id").is_null())
    asked = (
        rankings.select("row", "names", "values")
        .filter(pl.col("names").list.len() > 0)
        .explode("names", "values")
        .filter(pl.col("names").is_in(_METARANK_QUERIES))
        .unique("row", keep="first")
        .select("row", user_query="values")
    )
    return Log.of(
        chosen.select(
            "id",
            qid="ranking",
            docid="item",
            session=session,
            is_click=pl.lit(True),
            time=parse_times(chosen["time"], counts),
        ),
        rankings.join(asked, on="row", how="left", maintain_order="left").select(
            "user_query",
            "hits",
            qid="id",
            session=session,
            time=parse_times(rankings["time"], counts),
        ),
    )


SITE_SEARCH_NAMES = ("queryID", "queryUid")
_VIEW = "view"
_SITE_SEARCH: Layout = {
    "action": ("eventType",),
    "algolia": ("queryID",),
    "meilisearch": ("queryUid",),
    "documents": ("objectIDs", "[]"),
    "document": ("objectId",),
    "positions": ("positions", "[]"),
    "position": ("position",),
    "time": ("timestamp",),
    "session": ("userToken",),
    "user": ("userId",),
    "user_query": ("query",),
    "objects": ("hits", "[]", "objectID"),
    "hits": ("hits", "[]", "id"),
    "page": ("page",),
    "per_page": ("hitsPerPage",),
    "offset": ("offset",),
}


def _split_site_search(frame: Any, clicks: Sequence[str], counts: Counts) -> Log:
    """Split click events of Algolia and Meilisearch, one for each document, from answers.

    Events name the answer and the documents; what was shown is in the answers alone.
    """
    qid, session, action = pl.coalesce("algolia", "meilisearch"), pl.coalesce("session", "user"), pl.col("action")
    named = [_VIEW, *clicks]
    count_actions("events of the type", frame.filter(action.is_not_null() & ~action.is_in(named))["action"], counts)
    chosen = frame.filter(action.is_in(named))
    several = pl.when(pl.col("documents").list.len() > 0).then("documents")
    chosen = chosen.with_columns(
        time=parse_times(chosen["time"], counts),
        documents=pl.coalesce(several, pl.concat_list("document")),
        positions=pl.coalesce("positions", pl.concat_list("position")),
    )
    n_documents = pl.col("documents").list.len()
    positions = pl.when(pl.col("positions").list.len() == n_documents).then("positions")
    chosen = chosen.with_columns(positions=pl.coalesce(positions, pl.lit(None, pl.String).repeat_by(n_documents)))
    chosen = chosen.explode("documents", "positions")
    number = pl.col("positions").cast(pl.Int64, strict=False)
    answers = frame.filter(action.is_null())
    is_named = qid.is_not_null() & (pl.col("hits").list.len() > 0)
    counts.left_out["records that are neither an event nor an answer with its id"] += len(answers.filter(~is_named))
    answers = answers.filter(is_named)
    page, per_page, offset = (pl.col(name).cast(pl.Int64, strict=False) for name in ("page", "per_page", "offset"))
    answers = answers.with_columns(offset=pl.coalesce(offset, page * per_page, pl.lit(0)))
    is_valid = pl.col("offset").is_between(0, MOST_PLACES)
    strange = f"answers that do not begin at a place from 0 to {MOST_PLACES:,}, taken to begin at 0"
    counts.noted[strange] += len(answers.filter(~is_valid))
    return Log.of(
        chosen.select(
            qid=qid,
            docid="documents",
            session=session,
            is_click=action != _VIEW,
            ordinal=number,
            has_ordinal=pl.col("positions").is_not_null(),
            time="time",
        ),
        answers.select(
            qid=qid,
            user_query="user_query",
            hits=pl.coalesce(_filled("objects"), _filled("hits")),
            session=session,
            time=parse_times(answers["time"], counts),
            offset=pl.when(is_valid).then("offset").otherwise(0),
        ),
    )


def _filled(name: str) -> Any:
    ids = pl.col(name).list.drop_nulls()
    return pl.when(ids.list.len() > 0).then(ids)


KINDS = {
    "ubi": Kind(_UBI, _split_ubi, ("click", "click_through")),  # schemas 1.0 to 1.3
    # An interaction belongs to the ranking that it names, if it comes within 30 minutes of it, or of the one before.
    "metarank": Kind(_METARANK, _split_metarank, window_ms=30 * 60 * 1000),
    "site_search": Kind(_SITE_SEARCH, _split_site_search),
}
