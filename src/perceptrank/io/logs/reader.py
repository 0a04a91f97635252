"""Read logs of clicks into memory, or scan them block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FileFormatError
from perceptrank.io.logs.features import FeatureTable, NoRowsError
from perceptrank.io.logs.impressions import ClickLog, check_alike, find_kind
from perceptrank.io.logs.pairing import Settings
from perceptrank.io.logs.records import Logs, as_sources, name_of
from perceptrank.io.logs.report import ClickReport, NoImpressionsError
from perceptrank.io.paths import PathLike
from perceptrank.io.tables.columns import Wanted
from perceptrank.io.tables.reader import as_wanted
from perceptrank.stream.blocks import Scan
from perceptrank.stream.query_stream import BLOCK_BYTES, MISSING, QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive_whole

Kind = Literal["auto", "ubi", "metarank", "site_search", "table"]
Report = Callable[[ClickReport], object]

_MAX_SESSION_CLICKS = 200


def read_clicks(
    events: Logs,
    queries: Logs | None = None,
    feature_paths: PathLike | Iterable[PathLike] | None = None,
    *,
    kind: Kind = "auto",
    clicks: Sequence[str] | None = None,
    impressions: Literal["seen", "shown"] = "seen",
    first_place: Literal[0, 1] | None = None,
    max_session_clicks: int | None = _MAX_SESSION_CLICKS,
    since: str | date | None = None,
    qid: str | None = None,
    docid: str | None = None,
    features: str | Sequence[str] | None = None,
    missing: Literal["error", "keep", "zero"] = "error",
    dtype: npt.DTypeLike = np.float32,
    report: Report | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> QueryStream:
    r"""Read a log of clicks into memory, as a stream of impressions. This needs polars (extra ``tables``).

    An impression is one answer to a query: the documents with their places, and which of them were clicked. Its qid is
    the id of the answer; what the user asked is the column ``user_query``, which many impressions share.

    In logs of User Behavior Insights, impression events tell what was seen, and where: ``examined`` is 1. What else the
    query returned was not shown: its place is 0, ``examined`` is 0. If a query has no impression events, all that it
    returned was shown in this order as far as is known, and ``examined`` is NaN. Queries of which neither is known are
    left out: clicks alone do not tell what was passed over.

    Parameters
    ----------
    events : path, several of them, address, records, or a callable
        The log: lines of JSON, bulk requests, answers of a search API with ``hits.hits``, or Parquet, plain or
        compressed; for ``kind="table"`` what `read_table` reads, or Parquet. The address of an index of a live
        OpenSearch or Elasticsearch, like ``https://user:password@host:9200/ubi_events``, or that of the server alone,
        for ``ubi_queries`` and ``ubi_events``; without a user, the environment variable PERCEPTRANK_AUTHORIZATION is
        the header Authorization. Records are dictionaries; a callable returns an iterator of them.
    queries : as `events`, optional
        Queries and what they returned, if they are not among the events.
    feature_paths : path or several of them, optional
        Tables, feature logs of engines, or Parquet, with the features of documents: by query and document, where the
        query is the id of the impression or what the user asked, or by document alone. Without them the stream has no
        features, but those in the rows of a table.
    kind : "auto", "ubi", "metarank", "site_search", or "table"
        User Behavior Insights (schemas 1.0 to 1.3); events of Metarank, whose clicks must come within 30 minutes of the
        ranking, or of the click before; click events of Algolia or Meilisearch, with the answers as `queries`; or a
        table with a row for each document that was shown: the impression, the document, its place, and if it was
        clicked. "auto" looks at the first record.
    clicks : sequence of str, optional
        Actions that count as clicks; default ``click``, in User Behavior Insights also ``click_through``.
    impressions : "seen" or "shown"
        What impression events say. If yours are sent for whole pages, take "shown": ``examined`` is unknown then.
    first_place : 0 or 1, optional
        What positions are counted from. By default this is found out, from documents whose place among the results is
        known, and from where lists begin.
    max_session_clicks : int, optional
        Impressions of sessions with more clicks are left out: these are robots. None for no limit.
    since : str or datetime, optional
        Of a live index, leave out events and queries that are earlier; a time without a zone is UTC.
    qid, docid : str, optional
        Columns of the tables with features, or of the table of impressions; by default found by their usual names.
    features, missing, dtype
        See `read_table`.
    report : callable, optional
        Called with a `ClickReport` at the end, instead of a warning. ``print`` will do.
    progress : callable, optional
        Called with the number of bytes read so far and in total, both without records and live indexes.

    Returns
    -------
    QueryStream
        Impressions in the order in which the log names them first, queries before events, without grades, with the
        columns ``docid``, ``place``, ``clicked``, ``examined``, ``time``, ``session`` and ``user_query``; of tables
        that have them, also ``propensity`` and ``policy``.

    Raises
    ------
    FormatError
        For a line that is not JSON, or a file that is cut off, with its line; for a file of another kind.
    ValueError
        If no impression is left, or none has features; if it is ambiguous what positions are counted from.
    OSError, ImportError, MemoryError
        If a file, a live index, polars, or memory is missing.

    Warns
    -----
    UserWarning
        Once, unless there is a `report`, if anything was left out: how many clicks, documents and impressions, and why.

    Examples
    --------
    >>> query = {"query_id": "q1", "user_query": "shoes", "query_response_hit_ids": ["a", "b", "c"]}
    >>> click = {"action_name": "click", "query_id": "q1", "timestamp": "2026-01-01T12:00:00Z"}
    >>> click["event_attributes"] = {"object": {"object_id": "b"}, "position": {"ordinal": 2}}
    >>> stream = read_clicks([click], [query])
    >>> stream.docids.tolist(), stream.place.tolist(), stream.clicked.tolist()
    (['a', 'b', 'c'], [1, 2, 3], [0.0, 1.0, 0.0])
    """
    settings = Settings(kind, clicks, impressions, first_place, max_session_clicks, report, progress)
    wanted = as_wanted({"qid": qid, "docid": docid}, features, dtype)
    log = _open_log(events, queries, feature_paths, since, settings, wanted, missing)
    blocks = list(log.streams(in_memory=True))
    return blocks[0] if len(blocks) == 1 else QueryStream.concatenate(blocks)


def scan_clicks(
    events: Logs,
    queries: Logs | None = None,
    feature_paths: PathLike | Iterable[PathLike] | None = None,
    *,
    kind: Kind = "auto",
    clicks: Sequence[str] | None = None,
    impressions: Literal["seen", "shown"] = "seen",
    first_place: Literal[0, 1] | None = None,
    max_session_clicks: int | None = _MAX_SESSION_CLICKS,
    since: str | date | None = None,
    qid: str | None = None,
    docid: str | None = None,
    features: str | Sequence[str] | None = None,
    missing: Literal["error", "keep", "zero"] = "error",
    dtype: npt.DTypeLike = np.float32,
    report: Report | None = None,
    progress: Callable[[int, int], object] | None = None,
    max_bytes: int = BLOCK_BYTES,
) -> Scan:
    r"""Read a log of clicks lazily, in re-iterable blocks of whole impressions.

    The impressions are those of `read_clicks`, in the same order: each pass writes the log to temporary files first,
    which take about as much as the log. Memory holds 16 bytes for each impression, the number of clicks of each
    session, the features, and one group of impressions. Of tables, the rows of an impression must be adjacent. Other
    parameters are those of `read_clicks`.

    Parameters
    ----------
    max_bytes : int
        Approximate size of a block.

    Examples
    --------
    >>> query = {"query_id": "q1", "user_query": "shoes", "query_response_hit_ids": ["a", "b", "c"]}
    >>> scan = scan_clicks([query])
    >>> [block.n_documents for block in scan], [block.n_documents for block in scan]
    ([3], [3])
    """
    check_positive_whole("max_bytes", max_bytes)
    settings = Settings(kind, clicks, impressions, first_place, max_session_clicks, report, progress)
    wanted = as_wanted({"qid": qid, "docid": docid}, features, dtype)
    log = _open_log(events, queries, feature_paths, since, settings, wanted, missing)

    def start() -> Iterator[QueryStream]:
        for stream in log.streams(in_memory=False):
            yield from stream.blocks(max_bytes)

    return Scan(start, f"clicks in {', '.join(log.files)}")


def _open_log(
    events: Logs,
    queries: Logs | None,
    feature_paths: PathLike | Iterable[PathLike] | None,
    since: str | date | None,
    settings: Settings,
    wanted: Wanted,
    missing: str,
) -> ClickLog:
    """Check the arguments, and open a log of events or a table."""
    check_choice("kind", settings.kind, get_args(Kind))
    check_choice("impressions", settings.impressions, ("seen", "shown"))
    check_choice("missing", missing, MISSING)
    if settings.first_place not in (None, 0, 1):
        raise ParameterError("first_place", "must be 0 or 1", settings.first_place)
    if settings.max_session_clicks is not None:
        check_positive_whole("max_session_clicks", settings.max_session_clicks)
    sources = as_sources(events, since)
    kind = find_kind(sources[0]) if settings.kind == "auto" else settings.kind
    check_alike(sources)
    if kind == "table" and (queries is not None or settings.clicks is not None):
        raise ValueError("queries and clicks must not be given for a table: its rows have both")
    if kind == "table" and not all(isinstance(source, str) for source in sources):
        raise FileFormatError(name_of(sources[0]), ": a table must be a file; `QueryStream.from_arrays` takes arrays")
    sources = [*([] if queries is None else as_sources(queries, since)), *sources]
    log = ClickLog(sources, settings._replace(kind=kind), wanted.roles)
    if feature_paths is not None:
        log.features = FeatureTable(feature_paths, wanted, missing)
    elif kind == "table":
        layout = log.layout(sources[0])
        own = {"qid": layout["qid"][0], "docid": layout["docid"][0]}
        taken = {name for source in sources for (name,) in log.layout(source).values()}
        try:
            table = FeatureTable(log.files, wanted._replace(roles=own), missing, without=taken)
        except NoRowsError as error:
            raise NoImpressionsError(str(error), ClickReport(kind)) from None
        log.features = table if table.names else None
    return log
