"""Click events of Algolia and Meilisearch, beside the answers to which they belong.

Events name the answer and the documents; what was shown is in the answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perceptrank.io.logs.columnar import Layout
from perceptrank.io.logs.events import MOST_PLACES, Log, count_actions, parse_times
from perceptrank.io.logs.frames import pl
from perceptrank.io.logs.report import Counts

NAMES = ("queryID", "queryUid")
CLICKS = ("click",)
VIEW = "view"
LAYOUT: Layout = {
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


def split_records(frame: Any, clicks: Sequence[str], counts: Counts) -> Log:
    """Split records into events, one for each document, and answers."""
    qid, session, action = pl.coalesce("algolia", "meilisearch"), pl.coalesce("session", "user"), pl.col("action")
    named = [VIEW, *clicks]
    count_actions("events of the type", frame.filter(action.is_not_null() & ~action.is_in(named))["action"], counts)
    chosen = frame.filter(action.is_in(named))
    chosen = chosen.with_columns(
        time=parse_times(chosen["time"], counts),
        documents=pl.coalesce(
            pl.when(pl.col("documents").list.len() > 0).then("documents"), pl.concat_list("document")
        ),
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
    counts.noted[f"answers that do not begin at a place from 0 to {MOST_PLACES:,}, taken to begin at 0"] += len(
        answers.filter(~is_valid)
    )
    return Log.of(
        chosen.select(
            qid=qid,
            docid="documents",
            session=session,
            is_click=action != VIEW,
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
