"""Documents of each query: those that it returned, that were seen or clicked; and the place of each.

Places tell what positions are counted from, where each document was shown, and why some are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from perceptrank.io.logs.events import MOST_PLACES, Log, count_where, pl
from perceptrank.io.logs.report import ClickReport, Counts
from perceptrank.kernels.arrays import Ints

_CLEAR_SHARE = 0.95  # of the votes
_REASONS = {
    1: "of sessions with more than {limit:,} clicks",
    2: "of queries whose results are unknown",
    3: "on documents that were not in the list",
    4: "on documents whose place is unknown",
    5: "on documents at the place of another one",
}
_DOCUMENTS = {4: "documents whose place is unknown", 5: "documents at the place of another one"}


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
        n_again = len(rows) - rows.n_unique()
        counts.left_out[again] += n_again
        counts.table_rows += len(rows)
        counts.repeated_rows += n_again
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


def decide_first_place(zero: int, one: int, n_needed: int) -> int | None:
    """Return what ordinals are counted from by votes, None if no place depends on it; raise if that is ambiguous."""
    if not n_needed:
        return None
    total = zero + one
    if total and max(zero, one) >= _CLEAR_SHARE * total:
        return int(one > zero)
    votes = f"{zero:,} say 0, {one:,} say 1" if total else "none tells"
    raise ValueError(
        f"first_place must be 0 or 1 for this log: its positions may be counted from either, of those that can be "
        f"compared with the order of the results, or begin a list, {votes}"
    )


def count_votes(pairs: Any) -> Ints:
    """Count documents whose hit, or begin of a list, says that places count from 0, from 1, and that depend on it."""
    ordinal, hit = pl.coalesce("shown", "clicked_at"), pl.col("hit")
    needed = pl.col("is_seen") & (pl.col("shown").is_not_null() | (hit & pl.col("clicked_at")).is_not_null())
    zero, one, n_needed = pairs.select((ordinal == hit - 1).sum(), one=(ordinal == hit).sum(), n=needed.sum()).row(0)
    first = pairs.group_by("q").agg(pl.col("shown").min())["shown"]
    return np.array([zero + (first == 0).sum(), one + (first == 1).sum(), n_needed])


def place_documents(
    pairs: Any, queries: Any, robots: Any, first_place: int | None, settings: Settings, counts: Counts
) -> tuple[Any, Any]:
    """Return the documents that have a place, or were returned and not seen, in order; and their queries.

    Impression events tell the places, where a query has them: what else it returned was not shown. Where it has none,
    all that it returned was shown in this order, as far as is known.
    """
    is_robot = pl.col("session").is_in(robots.implode()).fill_null(False) if len(robots) else pl.lit(False)
    queries = queries.with_columns(is_robot=is_robot)
    pairs = pairs.join(queries.select("q", "is_robot"), on="q", how="left")
    base = 0 if first_place is None else first_place
    shown, at, hit = (pl.col(name) for name in ("shown", "clicked_at", "hit"))
    is_above = pl.min_horizontal(shown, at) < base
    counts.noted[f"positions below {base}, the first place, ignored"] += count_where(pairs, is_above)
    logged, clicked = (pl.when(ordinal >= base).then(ordinal - base + 1) for ordinal in (shown, at))
    is_clicked, seen, is_seen = pl.col("n") > 0, pl.col("seen"), pl.col("is_seen")
    in_list = seen | hit.is_not_null()
    place = (
        pl.when(~is_seen)
        .then(hit)
        .when(seen)
        .then(pl.coalesce(logged, hit))
        .when(is_clicked & in_list)
        .then(pl.coalesce(clicked, hit))
        .when(in_list)
        .then(0)
    )
    problems = pl.col("is_robot"), ~pl.col("is_listed"), ~in_list, place.is_null()
    first_problem = pl.coalesce(*(pl.when(is_so).then(number) for number, is_so in enumerate(problems, 1)), 0)
    pairs = pairs.with_columns(place=place, reason=first_problem)
    _count_dropped(pairs.filter(pl.col("reason") > 0), settings, counts)
    pairs = pairs.filter(pl.col("reason") == 0).sort("q", pl.col("place") == 0, "place", ~pl.col("seen"), "row")
    is_same = [pl.col(name) == pl.col(name).shift(1) for name in ("q", "place")]
    is_taken = pl.all_horizontal(pl.col("place") > 0, *is_same)
    pairs = pairs.with_columns(is_taken=is_taken.fill_null(False))
    _count_dropped(pairs.filter("is_taken").with_columns(reason=pl.lit(5)), settings, counts)
    pairs = pairs.filter(~pl.col("is_taken"))
    is_unseen = is_clicked & (pl.col("place") == 0)
    counts.dropped["on documents that were not shown"] += int(pairs.filter(is_unseen)["n"].sum())
    pairs = pairs.with_columns(pl.when(~is_unseen).then(pl.col("n", "amount")).otherwise(0))
    if n_robots := count_where(queries, pl.col("is_robot")):
        counts.left_out[f"impressions of sessions with more than {settings.max_session_clicks:,} clicks"] += n_robots
    is_unknown = ~pl.col("is_listed") & ~pl.col("is_robot")
    counts.left_out["queries whose results are unknown"] += count_where(queries, is_unknown)
    is_known, was_examined = is_seen & (settings.impressions == "seen"), (seen | is_clicked).cast(pl.Float64)
    examined = pl.when(is_known).then(was_examined).otherwise(float("nan"))
    counts.repeated += int(pairs.select((pl.col("n").cast(pl.Int64) - 1).clip(0).sum()).item())
    pairs = pairs.select(
        "q", "docid", "place", "propensity", clicked="amount", examined=pl.coalesce("examined", examined)
    )
    return pairs, queries.join(pairs.select("q"), on="q", how="semi").sort("q")


def _count_dropped(pairs: Any, settings: Settings, counts: Counts) -> None:
    for reason, n_clicks, n_rows in pairs.group_by("reason").agg(pl.col("n").sum(), rows=pl.len()).iter_rows():
        counts.dropped[_REASONS[reason].format(limit=settings.max_session_clicks)] += n_clicks
        if reason in _DOCUMENTS:
            counts.left_out[_DOCUMENTS[reason]] += n_rows
