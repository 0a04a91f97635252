"""Documents of each query: every one that it returned, that was seen or that was clicked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from perceptrank.io.logs.events import MOST_PLACES, Log
from perceptrank.io.logs.frames import count_where, pl
from perceptrank.io.logs.report import ClickReport, Counts


class Settings(NamedTuple):
    """Settings of `read_clicks`."""

    kind: str
    clicks: Sequence[str] | None
    impressions: str
    first_place: int | None
    max_session_clicks: int | None
    report: Callable[[ClickReport], object] | None
    progress: Callable[[int, int], object] | None
    window_ms: int | None = None  # after which a click no longer belongs to an impression


def drop_nameless(log: Log, counts: Counts) -> Log:
    """Return the events that have a query and a document; count the others."""
    events = log.events
    for name, what in (("qid", "without a query id"), ("docid", "without a document")):
        lacking = pl.col(name).is_null() | (pl.col(name) == "")
        if n_lacking := count_where(events, lacking):
            n_clicks = count_where(events, lacking & pl.col("is_click"))
            counts.dropped[what] += n_clicks
            counts.left_out[f"impression events {what}"] += n_lacking - n_clicks
            events = events.filter(~lacking)
    return Log(events, log.queries)


def drop_repeated(log: Log, counts: Counts) -> Log:
    """Return events of which none has the id of one before."""
    events = log.events
    if events["id"].null_count() < len(events):
        events = events.filter(pl.col("id").is_null() | pl.col("id").is_first_distinct())
        counts.left_out["events that are there twice"] += len(log.events) - len(events)
    return Log(events, log.queries)


def count_session_clicks(events: Any) -> Any:
    """Return the number of clicks of each session."""
    return events.filter(pl.col("is_click") & pl.col("session").is_not_null()).group_by("session").agg(n=pl.len())


def pair_documents(log: Log, settings: Settings, counts: Counts) -> tuple[Any, Any]:
    """Return the documents of each query, and the queries, both in the order in which the log names them first."""
    events, given = log
    queries = _join_queries(events, given, counts)
    numbers = queries.select("qid", "q", "time")
    events = events.with_row_index("row").join(numbers.rename({"time": "begun"}), on="qid", how="left")
    if settings.window_ms is not None:
        events = _close_windows(events, settings.window_ms, counts)
    ordinal, is_click = pl.col("ordinal"), pl.col("is_click")
    is_early = is_click & (pl.col("time") < pl.col("begun"))
    counts.noted["clicks before the time of their query"] += count_where(events, is_early)
    if settings.kind == "table":  # with one row for each document of an impression
        rows = events.filter(~is_click).select("q", "docid")
        again = "rows that name a document of their impression again: is the id of the impression in another column?"
        counts.left_out[again] += len(rows) - rows.n_unique()
    is_valid = ordinal.is_between(0, MOST_PLACES)
    counts.noted[f"positions that are not whole numbers from 0 to {MOST_PLACES:,}, ignored"] += count_where(
        events, pl.col("has_ordinal") & ~is_valid.fill_null(False)
    )
    returned = (
        given.filter(pl.col("hits").list.len() > 0)
        .unique("qid", keep="first", maintain_order=True)
        .join(numbers, on="qid", how="left")
        .select("q", "offset", docid="hits", hit=pl.int_ranges(1, pl.col("hits").list.len() + 1))
        .explode("docid", "hit")
        .filter(pl.col("docid").is_not_null() & (pl.col("docid") != ""))
        .with_columns(pl.col("hit") + pl.col("offset").fill_null(0))
        .select("q", "docid", "hit", amount=pl.lit(0.0), row=pl.col("hit") - MOST_PLACES * 1000)
    )
    ordinal = pl.when(is_valid).then(ordinal)
    logged = events.select(
        *("q", "docid", "amount", "examined", "propensity", "hit"),
        seen=~is_click & pl.col("hit").is_null(),
        n=is_click.cast(pl.UInt32),
        shown=pl.when(~is_click).then(ordinal),
        clicked_at=pl.when(is_click).then(ordinal),
        row=pl.col("row").cast(pl.Int64),
    )
    pairs = (
        pl.concat([returned, logged], how="diagonal")
        .group_by("q", "docid")
        .agg(
            pl.col("seen").any(),
            pl.col("n").sum(),
            pl.col("shown", "clicked_at", "hit", "row").min(),
            pl.col("amount", "examined", "propensity").max(),
            last_shown=pl.col("shown").max(),
        )
    )
    counts.noted["documents with two places in an impression, which have the upper one"] += count_where(
        pairs, pl.col("last_shown") > pl.col("shown")
    )
    flags = pairs.group_by("q").agg(
        is_seen=pl.col("seen").any(), is_listed=(pl.col("seen") | pl.col("hit").is_not_null()).any()
    )
    queries = queries.join(flags, on="q", how="left").with_columns(pl.col("is_seen", "is_listed").fill_null(False))
    return pairs.join(flags, on="q", how="left"), queries


def _join_queries(events: Any, given: Any, counts: Counts) -> Any:
    """Return each query once, numbered as the log names them: first those of the queries, then those of events only."""
    first = [pl.col(name).drop_nulls().first() for name in ("user_query", "session")]
    time, n_lists = pl.col("time").min(), (pl.col("hits").list.len() > 0).sum()
    known = given.group_by("qid").agg(*first, time, n_lists=n_lists)
    counts.noted["queries with several lists of results, of which the first is taken"] += count_where(
        known, pl.col("n_lists") > 1
    )
    logged = events.group_by("qid").agg(*first, time, policy=pl.col("policy").drop_nulls().first())
    qids = pl.concat([given.select("qid"), events.select("qid")]).unique(maintain_order=True)
    both = (
        qids.with_row_index("q").join(known, on="qid", how="left").join(logged, on="qid", how="left", suffix="_logged")
    )
    return both.sort("q").select(
        "q",
        "qid",
        "policy",
        user_query=pl.coalesce("user_query", "user_query_logged"),
        session=pl.coalesce("session_logged", "session"),
        time=pl.coalesce("time", "time_logged"),
    )


def _close_windows(events: Any, window_ms: int, counts: Counts) -> Any:
    """Drop clicks that come later than a while after the impression, or after the last click on it."""
    events = events.sort("q", "time", "row")
    before = pl.max_horizontal(pl.col("time").shift(1).over("q"), "begun")
    is_late = (pl.col("time") - before) > pl.duration(milliseconds=window_ms)
    events = events.with_columns(is_late=is_late.fill_null(False).cum_max().over("q"))
    counts.dropped[f"more than {window_ms // 60000} minutes after the impression or the last click"] += count_where(
        events, pl.col("is_late")
    )
    return events.filter(~pl.col("is_late")).sort("row")
