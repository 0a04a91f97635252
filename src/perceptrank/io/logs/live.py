"""Read the documents of an index of a live OpenSearch or Elasticsearch, as they are at one point in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from perceptrank.io.engine_server import EngineError, EngineServer
from perceptrank.stream.validation import ParameterError

MOST_PER_PAGE = 10_000  # engines refuse more, unless an index has another max_result_window
_KEEP_ALIVE = "5m"  # of a point in time, after each page
_ENGINE = "OpenSearch or Elasticsearch"
_FIRST_PAUSE = 0.5  # seconds; doubled before each further attempt
_TIME = "timestamp"
# A sequence number is unique in a shard, hence so are these keys, but for the shards of one index.
# Not the time: engines skip documents without one, if these take more than a page.
_SORT = ["_seq_no", "_index"]
_EVENTS, _QUERIES = "ubi_events", "ubi_queries"


class _Api(NamedTuple):
    """Paths and names that an engine has for points in time."""

    engine: str
    first_version: tuple[int, int]
    path: str
    id_name: str


_OPENSEARCH = _Api("OpenSearch", (2, 4), "/_search/point_in_time", "pit_id")
_ELASTICSEARCH = _Api("Elasticsearch", (7, 10), "/_pit", "id")


class LiveIndex:
    """An index of a live engine: each call returns an iterator over all its documents, each once, with its ``_id``.

    They are as they are when the first is asked for, in the order in which they were written to their shard. The engine
    keeps this point in time until the iterator ends, fails or is closed, or five minutes after the last page if this
    process is killed.

    `url` is the address of OpenSearch 2.4 or later, or Elasticsearch 7.10 or later, with credentials as for
    `EngineServer`; `index` an index or alias, or several separated by commas, with ``*`` for any text. Documents whose
    `timestamp` is earlier than `since`, which is UTC without a zone, are left out; those without one are read. A
    request is sent again up to `retries` times, with growing pauses, if the engine cannot be reached within `timeout`
    seconds or is overloaded.
    """

    def __init__(
        self,
        url: str,
        index: str,
        since: str | date | None = None,
        *,
        page_size: int = 2000,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        if not 1 <= page_size <= MOST_PER_PAGE:
            raise ParameterError("page_size", f"must be from 1 to {MOST_PER_PAGE:,}", page_size)
        self.url, self.index, self.retries = url, index, retries
        self.server = EngineServer(_ENGINE, url, timeout)
        self.name = f"{self.server.address}/{index}"
        self._path = f"/{quote(index, safe=',*')}"
        self._search: dict[str, Any] = {"size": page_size, "sort": _SORT, "track_total_hits": False}
        if since is not None:
            self._search["query"] = _not_before(since)

    def __call__(self) -> Iterator[dict[str, Any]]:
        """Read the documents, page by page."""
        search = self._search.copy()
        api, pit = self._open()
        try:
            if "query" in search:
                kinds = self._ask("GET", f"{self._path}/_field_caps?fields={_TIME}")["fields"].get(_TIME, {})
                if others := kinds.keys() - {"date", "date_nanos"}:  # engines compare texts word by word
                    raise EngineError(
                        f"`since` needs {_TIME} to be a date; {self.server.engine} at {self.server.address} has it as "
                        f"{' and '.join(sorted(others))} in the index {self.index!r}: read all, and select by `time`"
                    )
            while True:
                search["pit"] = {"id": pit, "keep_alive": _KEEP_ALIVE}
                page = self._ask("POST", "/_search?allow_partial_search_results=false", search)
                pit = page.get("pit_id", pit)
                hits = self._check(page)
                is_last = len(hits) < search["size"]
                # documents with the keys of the last one may follow, and search_after would skip them
                complete = hits if is_last else [hit for hit in hits if hit["sort"] != hits[-1]["sort"]]
                for hit in complete:
                    yield {**hit["_source"], "_id": hit["_id"]}
                if is_last:
                    return
                if complete:
                    search["search_after"] = complete[-1]["sort"]
                else:
                    search["size"] *= 2
        finally:
            with suppress(EngineError):  # it ends by itself, and what led here is more important
                self.server.ask("DELETE", api.path, {api.id_name: pit})

    def _open(self) -> tuple[_Api, str]:
        for api in self._list_apis():
            try:
                return api, self._ask("POST", f"{self._path}{api.path}?keep_alive={_KEEP_ALIVE}")[api.id_name]
            except EngineError as error:
                if error.status == 404 and "no such index" in str(error):
                    raise EngineError(
                        f"{self.server.engine} at {self.server.address} has no index {self.index!r}: give the index "
                        "that has the log, like HOST:9200/ubi_events; HOST:9200/_cat/indices lists them",
                        error.status,
                    ) from None
                if "for uri [" not in str(error):  # which an engine says of a path that it does not have
                    raise
        raise self._too_old()

    def _list_apis(self) -> list[_Api]:
        """Return what the engine may understand; it is not asked for what an old version would take for a document."""
        try:
            version = self.server.ask("GET", "/")["version"]
            api = _OPENSEARCH if version.get("distribution") == "opensearch" else _ELASTICSEARCH
            number = tuple(map(int, version["number"].split(".")[:2]))
        except EngineError as error:
            if error.status != 403:
                raise
            return [_ELASTICSEARCH, _OPENSEARCH]  # who may read an index may not always ask for the version
        except (KeyError, TypeError, AttributeError, ValueError):
            problem = f"{self.server.address} does not tell its version: it is not {self.server.engine}"
            raise EngineError(problem) from None
        self.server.engine = f"{api.engine} {version['number']}"
        if number < api.first_version:
            raise self._too_old()
        # OpenSearch can be told to call itself Elasticsearch 7.10.2, for old clients
        return [api] if api is _OPENSEARCH else [_ELASTICSEARCH, _OPENSEARCH]

    def _too_old(self) -> EngineError:
        apis = _OPENSEARCH, _ELASTICSEARCH
        needed = " or ".join(f"{api.engine} {api.first_version[0]}.{api.first_version[1]}" for api in apis)
        return EngineError(
            f"{self.server.engine} at {self.server.address} cannot read {self.index!r} at one point in time, which "
            f"needs {needed} or later: save the documents as NDJSON, one per line, and read that file"
        )

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask, again if it may help, and name the index in errors."""
        for attempt in range(self.retries + 1):
            try:
                return self.server.ask(method, path, body)
            except EngineError as error:
                if not error.may_pass or attempt == self.retries:
                    advice = ""
                    if error.status == 404 and "context" in str(error):
                        advice = (
                            ": the engine has dropped its point in time, because it restarted or more than "
                            f"{_KEEP_ALIVE} passed between two pages; read it again"
                        )
                    raise EngineError(f"{error} (reading the index {self.index!r}){advice}", error.status) from None
            time.sleep(_FIRST_PAUSE * 2**attempt)
        raise AssertionError

    def _check(self, page: Any) -> list[dict[str, Any]]:
        """Return the documents of a page, none of which is missing."""
        where = f"{self.server.engine} at {self.server.address}"
        if page.get("timed_out") or page.get("_shards", {}).get("failed"):
            raise EngineError(f"{where} answered for some shards of {self.index!r} only: see GET /_cluster/health")
        hits: list[dict[str, Any]] = page["hits"]["hits"]
        if any("_source" not in hit for hit in hits):
            raise EngineError(f"{where} has {self.index!r} without the field _source, which its mapping must enable")
        return hits


def _not_before(since: str | date) -> dict[str, Any]:
    try:
        moment = since if isinstance(since, datetime) else datetime.fromisoformat(str(since))
    except ValueError:
        raise ParameterError("since", "must be a time like 2026-11-01 or 2026-11-01T12:30:00Z", since) from None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")  # as UBI's mapping has it
    without = {"bool": {"must_not": {"exists": {"field": _TIME}}}}
    return {"bool": {"should": [{"range": {_TIME: {"gte": text}}}, without]}}


def open_indexes(address: str, since: str | date | None = None) -> list[LiveIndex]:
    """Return the index that an address names, or, for the address of a server alone, those of UBI: queries, events.

    Examples
    --------
    >>> [index.name for index in open_indexes("https://user:password@host:9200")]
    ['https://host:9200/ubi_queries', 'https://host:9200/ubi_events']
    >>> [index.name for index in open_indexes("https://host:9200/shop-*")]
    ['https://host:9200/shop-*']
    """
    parts = urlsplit(address)
    path, _, index = parts.path.rstrip("/").rpartition("/")
    server = urlunsplit(parts._replace(path=path))
    return [LiveIndex(server, name, since) for name in ([unquote(index)] if index else [_QUERIES, _EVENTS])]
