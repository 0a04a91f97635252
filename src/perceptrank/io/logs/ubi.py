"""User Behavior Insights of OpenSearch, Elasticsearch and Solr: events and queries, schemas 1.0 to 1.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perceptrank.io.logs.columnar import Layout
from perceptrank.io.logs.events import Log, count_actions, parse_times
from perceptrank.io.logs.frames import pl
from perceptrank.io.logs.records import Record
from perceptrank.io.logs.report import Counts

CLICKS = ("click", "click_through")
IMPRESSION = "impression"
_VERSIONS = ("1.0", "1.1", "1.2", "1.3")
LAYOUT: Layout = {
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
    if version is not None and not str(version).startswith(_VERSIONS):
        counts.noted[f"log of the unknown schema version {version}, read as {_VERSIONS[-1]}"] = 1


def split_records(frame: Any, clicks: Sequence[str], counts: Counts) -> Log:
    """Split records into events and queries: an event has an action, a query has none."""
    frame = frame.with_columns(docid=pl.coalesce("docid", "internal_id"), hits=pl.coalesce("hits", "objects"))
    action, is_named = pl.col("action"), pl.col("qid").is_not_null() & (pl.col("qid") != "")
    events = frame.filter(action.is_not_null())
    chosen = events.filter(action.is_in([IMPRESSION, *clicks]))
    count_actions("events of the action", events.filter(~action.is_in([IMPRESSION, *clicks]))["action"], counts)
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
            is_click=action != IMPRESSION,
            ordinal=_ordinals(chosen["ordinal"]),
            has_ordinal=pl.col("ordinal").is_not_null() & (pl.col("ordinal") != "{}"),
            time=parse_times(chosen["time"], counts),
        ),
        queries.select(
            "qid",
            "user_query",
            "hits",
            session=session,
            time=parse_times(queries["time"], counts),
        ),
    )


def _ordinals(texts: Any) -> Any:
    """Return ordinals, which are numbers, or, up to version 1.2, objects with an index."""
    numbers = texts.cast(pl.Int64, strict=False)
    if numbers.null_count() == texts.null_count():
        return numbers
    index = texts.str.extract(r'^\{"index": ?"?(-?[0-9]+)"?\}$').cast(pl.Int64, strict=False)
    return numbers.zip_with(numbers.is_not_null(), index)
