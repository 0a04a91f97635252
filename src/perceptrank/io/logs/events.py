"""Events and queries of a log, whatever its kind, as data frames; and what a session, a time and a place are in them.

Events have an `id`, `qid`, `docid`, `session`, `is_click` (else it is an impression), `user_query`, `ordinal`,
`has_ordinal` (which may be none that is valid) and `time`; `amount` is 1 for a click. Known of tables only are
`examined`, `propensity`, `policy`, and `hit`, 0 for what was not shown. Queries have a `qid`, `user_query`, `hits`,
`session`, `time`, and the `offset` of the first hit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perceptrank.io.logs.report import Counts
from perceptrank.io.tables.delimited import import_polars

MOST_PLACES = 10_000  # as many hits as search engines return
_SECONDS_BELOW = 10**11  # as milliseconds, this was in 1973
_FORMATS = ("%+", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f")


class _Polars:
    """Polars is optional: it is imported when it is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_polars(), name)


pl: Any = _Polars()


class Log(NamedTuple):
    """Events and queries, as two data frames; what is not known is null."""

    events: Any
    queries: Any

    @classmethod
    def of(cls, events: Any, queries: Any = None) -> Log:
        """Return a log whose columns are complete and in order."""
        texts = ("id", "qid", "docid", "session", "user_query", "policy")
        kinds = dict.fromkeys(texts, pl.String) | dict.fromkeys(("ordinal", "hit"), pl.Int64)
        kinds |= dict.fromkeys(("amount", "examined", "propensity"), pl.Float64)
        kinds |= {"is_click": pl.Boolean, "has_ordinal": pl.Boolean, "time": pl.Datetime("ms")}
        asked = dict.fromkeys(("qid", "user_query", "session"), pl.String)
        asked |= {"hits": pl.List(pl.String), "time": pl.Datetime("ms"), "offset": pl.Int64}
        no_events, no_queries = pl.DataFrame(schema=kinds), pl.DataFrame(schema=asked)
        return cls(
            pl.concat([no_events, events], how="diagonal").with_columns(
                pl.col("has_ordinal").fill_null(False), pl.coalesce("amount", pl.col("is_click").cast(pl.Float64))
            ),
            no_queries if queries is None else pl.concat([no_queries, queries], how="diagonal"),
        )


def join_logs(logs: list[Log]) -> Log:
    """Return the events and the queries of several parts of a log."""
    return Log(pl.concat([log.events for log in logs]), pl.concat([log.queries for log in logs]))


def parse_times(texts: Any, counts: Counts) -> Any:
    """Return times in UTC from ISO 8601, or from milliseconds or seconds since 1970; count those that are neither."""
    kind = pl.Datetime("ms")
    if texts.dtype != pl.String:
        texts = texts.cast(pl.String)
    times = texts.str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", strict=False, time_unit="ms")
    if times.null_count() == texts.null_count():
        return times
    numbers = texts.cast(pl.Float64, strict=False)
    numbers = pl.select(pl.when(numbers.abs() < _SECONDS_BELOW).then(numbers * 1000).otherwise(numbers)).to_series()
    times = times.zip_with(times.is_not_null(), numbers.cast(pl.Int64, strict=False).cast(kind))
    for format in _FORMATS:
        if times.null_count() > texts.null_count():
            parsed = texts.str.to_datetime(format, strict=False, time_unit="ms").dt.replace_time_zone(None)
            times = times.zip_with(times.is_not_null(), parsed)
    n_unknown = times.null_count() - texts.null_count()
    counts.noted["times that are not ISO 8601 or milliseconds, taken as unknown"] += n_unknown
    return times


def count_actions(what: str, actions: Any, counts: Counts) -> None:
    """Count events that are left out by their names."""
    for name, count in actions.value_counts().sort(actions.name).iter_rows():
        counts.left_out[f"{what} {name!r}"] += count


def count_where(frame: Any, condition: Any) -> int:
    """Count the rows for which a condition holds."""
    return int(frame.select(condition.sum()).item())
