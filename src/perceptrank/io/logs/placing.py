"""Places of documents: what positions are counted from, where each document was shown, and why some are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from perceptrank.io.logs.frames import count_where, pl
from perceptrank.io.logs.pairing import Settings
from perceptrank.io.logs.report import Counts
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
    """Count documents whose ordinal says that places are counted from 0, from 1, and whose place depends on it.

    What says so is their order among the hits, and where seen lists begin.
    """
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
    dropped = [pairs.filter(pl.col("reason") > 0)]
    pairs = pairs.filter(pl.col("reason") == 0).sort("q", pl.col("place") == 0, "place", ~pl.col("seen"), "row")
    is_taken = (
        (pl.col("place") > 0) & (pl.col("place") == pl.col("place").shift(1)) & (pl.col("q") == pl.col("q").shift(1))
    )
    pairs = pairs.with_columns(is_taken=is_taken.fill_null(False))
    dropped.append(pairs.filter("is_taken").with_columns(reason=pl.lit(5)))
    pairs = pairs.filter(~pl.col("is_taken"))
    _count_dropped(dropped, settings, counts)
    is_unseen = is_clicked & (pl.col("place") == 0)
    counts.dropped["on documents that were not shown"] += int(pairs.filter(is_unseen)["n"].sum())
    pairs = pairs.with_columns(pl.when(~is_unseen).then(pl.col("n", "amount")).otherwise(0))
    if n_robots := count_where(queries, pl.col("is_robot")):
        counts.left_out[f"impressions of sessions with more than {settings.max_session_clicks:,} clicks"] += n_robots
    is_unknown = ~pl.col("is_listed") & ~pl.col("is_robot")
    counts.left_out["queries whose results are unknown"] += count_where(queries, is_unknown)
    unknown = (
        pl.when(is_seen & (settings.impressions == "seen"))
        .then((seen | is_clicked).cast(pl.Float64))
        .otherwise(float("nan"))
    )
    counts.repeated += int(pairs.select((pl.col("n").cast(pl.Int64) - 1).clip(0).sum()).item())
    pairs = pairs.select(
        "q", "docid", "place", "propensity", clicked="amount", examined=pl.coalesce("examined", unknown)
    )
    return pairs, queries.join(pairs.select("q"), on="q", how="semi").sort("q")


def _count_dropped(parts: list[Any], settings: Settings, counts: Counts) -> None:
    for part in parts:
        for reason, n_clicks, n_rows in part.group_by("reason").agg(pl.col("n").sum(), rows=pl.len()).iter_rows():
            counts.dropped[_REASONS[reason].format(limit=settings.max_session_clicks)] += n_clicks
            if reason in _DOCUMENTS:
                counts.left_out[_DOCUMENTS[reason]] += n_rows
