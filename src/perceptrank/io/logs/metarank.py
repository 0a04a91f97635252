"""Events of Metarank: rankings and interactions.

An interaction belongs to the ranking that it names, if it comes within 30 minutes of it, or of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perceptrank.io.logs.columnar import Layout
from perceptrank.io.logs.events import Log, count_actions, parse_times
from perceptrank.io.logs.frames import count_where, pl
from perceptrank.io.logs.report import Counts

EVENTS = ("ranking", "interaction", "item", "user")
CLICKS = ("click",)
WINDOW_MS = 30 * 60 * 1000
LAYOUT: Layout = {
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
_QUERIES = ("query", "search", "search_query", "q")


def split_records(frame: Any, clicks: Sequence[str], counts: Counts) -> Log:
    """Split records into interactions and rankings."""
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
        .filter(pl.col("names").is_in(_QUERIES))
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
