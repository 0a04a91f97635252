"""All documents of an index are read from a live engine: here a stand-in, and OpenSearch itself where it can run."""

import base64
import socket
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.index_stand_in import VERSIONS, IndexStandIn, as_records, as_rows, make_ubi_log
from support.ltr_stand_in import RefusalError, served

import perceptrank as pr
from perceptrank.io import FormatError
from perceptrank.io.engine_server import EngineError
from perceptrank.io.logs import live
from perceptrank.io.logs.live import LiveIndex, open_indexes


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    pauses = []
    monkeypatch.setattr(live.time, "sleep", pauses.append)
    return pauses


def make_events(n, start=0):
    return {f"e{i}": {"action_name": "click", "query_id": f"q{i % 7}"} for i in range(start, start + n)}


def read_all(url, index="ubi_events", **options):
    documents = list(LiveIndex(url, index, **options)())
    by_id = {document.pop("_id"): document for document in documents}
    assert len(by_id) == len(documents), "a document was read twice"
    return by_id


@given(
    engine=st.sampled_from(sorted(VERSIONS)),
    n_shards=st.integers(1, 6),
    n=st.integers(0, 60),
    page_size=st.integers(1, 25),
    seed=st.integers(0, 2**32),
)
def test_each_document_is_read_once(engine, n_shards, n, page_size, seed):
    """Whatever the shards and pages, and in whatever order documents with equal keys come."""
    stand_in = IndexStandIn(engine, seed=seed)
    for index in ("ubi_events-1", "ubi_events-2"):
        stand_in.write(index, {f"{index} {key}": source for key, source in make_events(n).items()}, n_shards)
    with served(stand_in) as url:
        documents = read_all(url, "ubi_events-*", page_size=page_size)
    assert documents == {f"ubi_events-{k} {key}": source for k in (1, 2) for key, source in make_events(n).items()}
    assert not stand_in.points


@pytest.mark.parametrize("engine", sorted(VERSIONS))
def test_what_is_written_meanwhile_is_not_seen(engine):
    stand_in = IndexStandIn(engine)
    stand_in.write("ubi_events", make_events(100), 3)
    with served(stand_in) as url:
        documents = LiveIndex(url, "ubi_events", page_size=7)()
        ids = []
        for k, document in enumerate(documents):
            ids.append(document["_id"])
            stand_in.write("ubi_events", make_events(2, 100 + 2 * k))
        assert sorted(ids) == sorted(make_events(100))
        assert len(read_all(url)) == 300
    assert not stand_in.points


def test_pages_are_bounded_and_follow_each_other():
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", make_events(100))
    with served(stand_in) as url:
        assert len(read_all(url, page_size=40)) == 100
    searches = [body for method, path, body in stand_in.asked if path == "/_search"]
    assert [body["size"] for body in searches] == [40] * 3
    assert [body.get("search_after") for body in searches] == [
        None,
        [38, "ubi_events"],
        [77, "ubi_events"],
    ]


def test_a_reader_that_stops_closes_its_point_in_time():
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", make_events(50))
    with served(stand_in) as url:
        documents = LiveIndex(url, "ubi_events", page_size=5)()
        assert stand_in.asked == []  # nothing is asked before the first document is
        next(documents)
        assert len(stand_in.points) == 1
        documents.close()
        assert not stand_in.points
        documents = LiveIndex(url, "ubi_events", page_size=5)()
        next(documents)
        with pytest.raises(ZeroDivisionError):
            documents.throw(ZeroDivisionError)
        assert not stand_in.points


@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch"])
def test_since(engine):
    stand_in = IndexStandIn(engine)
    times = ["2026-11-01T00:00:00.000Z", "2026-11-02T10:00:00.000Z", "2026-11-02T10:00:00.001Z", None]
    stand_in.write("ubi_events", {str(k): {} if time is None else {"timestamp": time} for k, time in enumerate(times)})
    with served(stand_in) as url:
        for since, expected in [
            (None, "0123"),
            ("2026-11-02", "123"),
            (date(2026, 11, 2), "123"),
            ("2026-11-02T10:00:00Z", "123"),
            ("2026-11-02T10:00:00.001", "23"),
            (datetime(2026, 11, 2, 10, 0, 0, 1000, tzinfo=UTC), "23"),
            (datetime(2026, 11, 2, 12, tzinfo=timezone(timedelta(hours=2))), "123"),
            ("2027-01-01", "3"),
        ]:
            assert "".join(sorted(read_all(url, since=since))) == expected, since
        with pytest.raises(ValueError, match="since must be a time like 2026-11-01 or 2026-11-01T12:30:00Z, got 'now'"):
            LiveIndex(url, "ubi_events", since="now")()
        stand_in.type_of_times = "text"
        with pytest.raises(
            EngineError, match=rf"`since` needs timestamp to be a date; .* at {url} has it as text in the"
        ):
            read_all(url, since="2026-11-02")
        assert not stand_in.points


def test_requests_are_repeated_where_that_may_help(no_pauses):
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", make_events(30), 2)
    with served(stand_in) as url:
        for status in (429, 502, 503, 504):
            stand_in.failing = [("/_search", RefusalError(status, "busy"))] * 3
            assert read_all(url, page_size=10).keys() == make_events(30).keys()
        assert no_pauses[:3] == [0.5, 1.0, 2.0]
        for status, n_asked in [(503, 4), (500, 1)]:
            stand_in.asked.clear()
            stand_in.failing = [("/_search", RefusalError(status, "busy"))] * 4
            problem = (
                rf"^OpenSearch 2.19.2 at {url} answered POST /_search\S* with status {status}: busy .*'ubi_events'"
            )
            with pytest.raises(EngineError, match=problem):
                read_all(url)
            assert sum(path == "/_search" for _, path, _ in stand_in.asked) == n_asked
            stand_in.failing.clear()
    assert not stand_in.points


def test_an_index_that_is_not_there():
    for engine in VERSIONS:
        with (
            served(IndexStandIn(engine)) as url,
            pytest.raises(EngineError, match=r" at \S+ has no index 'ubi_event': give the index") as raised,
        ):
            read_all(url, "ubi_event")
        assert raised.value.status == 404


def test_credentials(monkeypatch):
    authorization = "Basic " + base64.b64encode(b"ada:p@ss/word").decode()
    stand_in = IndexStandIn(authorization=authorization)
    stand_in.write("ubi_events", make_events(3))
    with served(stand_in) as url:
        host = url.removeprefix("http://")
        assert len(read_all(f"http://ada:p%40ss%2Fword@{host}")) == 3
        with pytest.raises(
            EngineError, match=rf" at {url} wants other credentials: put them into the address"
        ) as raised:
            read_all(f"http://ada:secret@{host}")
        assert "secret" not in str(raised.value)
        monkeypatch.setenv("PERCEPTRANK_AUTHORIZATION", authorization)
        assert len(read_all(url)) == 3


def test_who_may_not_ask_for_the_version_may_read():
    for engine in VERSIONS:
        stand_in = IndexStandIn(engine)
        stand_in.write("ubi_events", make_events(3))
        stand_in.failing = [("/", RefusalError(403, "no permissions for [cluster:monitor/main]"))]
        with served(stand_in) as url:
            assert len(read_all(url)) == 3
        assert not stand_in.points


def test_a_point_in_time_that_is_lost():
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", make_events(30))
    with served(stand_in) as url:
        documents = LiveIndex(url, "ubi_events", page_size=10)()
        next(documents)
        stand_in.points.clear()
        with pytest.raises(
            EngineError, match=r"\(reading the index 'ubi_events'\): the engine has dropped its point in"
        ):
            list(documents)


@pytest.mark.parametrize(
    ("spoiled", "problem"),
    [
        ({"timed_out": True}, "answered for some shards of 'ubi_events' only"),
        ({"_shards": {"failed": 1}}, "answered for some shards of 'ubi_events' only"),
        ({"hits": {"hits": [{"_id": "a", "sort": [0]}]}}, "has 'ubi_events' without the field _source"),
    ],
)
def test_pages_that_lack_something(spoiled, problem):
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", make_events(3))
    search = stand_in._search
    stand_in._search = lambda body: search(body) | spoiled
    with served(stand_in) as url, pytest.raises(EngineError, match=problem):
        read_all(url)
    assert not stand_in.points


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ({"number": "2.3.0", "distribution": "opensearch"}, "OpenSearch 2.3.0 at .* needs OpenSearch 2.4 or Elastic"),
        ({"number": "7.9.3"}, "Elasticsearch 7.9.3 at .* needs OpenSearch 2.4 or Elasticsearch 7.10 or later: save"),
        ({"number": "new"}, "does not tell its version"),
        ({}, "does not tell its version"),
        (None, "does not tell its version"),
    ],
)
def test_engines_without_points_in_time(monkeypatch, version, problem):
    stand_in = IndexStandIn()
    monkeypatch.setitem(VERSIONS, "opensearch", version)
    with served(stand_in) as url, pytest.raises(EngineError, match=problem):
        read_all(url)
    assert [path for _, path, _ in stand_in.asked] == ["/"]


def test_an_engine_that_is_not_there(no_pauses):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        EngineError, match=rf" at http://127.0.0.1:{port} cannot be reached \(.*refused\): is it running"
    ):
        read_all(f"http://127.0.0.1:{port}")
    assert no_pauses == []  # a wrong address is told at once


def test_an_engine_that_goes_away(no_pauses):
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", make_events(30))
    with served(stand_in) as url:
        documents = LiveIndex(url, "ubi_events", page_size=10)()
        next(documents)
    with pytest.raises(EngineError, match=r"cannot be reached .* \(reading the index 'ubi_events'\)"):
        list(documents)
    assert no_pauses == [0.5, 1.0, 2.0]


def test_addresses():
    assert [(index.url, index.index, index.name) for index in open_indexes("https://u:p%2F@host/engine/ubi%2A/")] == [
        ("https://u:p%2F@host/engine", "ubi*", "https://host/engine/ubi*")
    ]
    assert [index.name for index in open_indexes("http://host/")] == [
        "http://host/ubi_queries",
        "http://host/ubi_events",
    ]
    with pytest.raises(ValueError, match="url of OpenSearch or Elasticsearch must be like http://host:port") as raised:
        LiveIndex("ftp://u:secret@host", "ubi_events")()
    assert "secret" not in str(raised.value)
    for page_size in (0, 10_001):
        with pytest.raises(ValueError, match="page_size must be from 1 to 10,000"):
            LiveIndex("http://host", "ubi_events", page_size=page_size)()


@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch"])
def test_clicks_of_a_live_index_are_those_of_its_documents(engine):
    stand_in = IndexStandIn(engine)
    events, queries = make_ubi_log()
    stand_in.write("ubi_queries", queries)
    stand_in.write("ubi_events", events, 3)
    expected = pr.read_clicks(as_records(events), as_records(queries))
    assert len(expected) == 60
    assert expected.clicked.sum() > 50
    with served(stand_in) as url:
        told = []
        assert as_rows(pr.read_clicks(url, progress=lambda *numbers: told.append(numbers))) == as_rows(expected)
        assert told == [(0, 0)] * 2  # what there is to do is not known
        assert as_rows(pr.read_clicks(f"{url}/ubi_events", f"{url}/ubi_queries")) == as_rows(expected)
        assert as_rows(pr.read_clicks([f"{url}/ubi_queries", f"{url}/ubi_events"])) == as_rows(expected)
        scan = pr.scan_clicks(url)
        assert [as_rows(pr.QueryStream.concatenate(list(scan))) for _ in range(2)] == [as_rows(expected)] * 2
        later = pr.read_clicks(url, since="2026-11-15T10:00:00Z")
        assert later.qids.tolist() == expected.qids.tolist()[42:]
    assert not stand_in.points


def test_what_is_wrong_with_a_live_log_names_it_without_credentials():
    stand_in = IndexStandIn()
    stand_in.write("shop", {"a": {"colour": "red"}})
    with served(stand_in) as url:
        secret = url.replace("http://", "http://ada:secret@")
        with pytest.raises(FormatError, match=rf"^{url}/shop is no known kind of log: its first record has 'colour'"):
            pr.read_clicks(f"{secret}/shop")
        with pytest.raises(ValueError, match=rf"there are no impressions in {url}/shop: left out are 1 records"):
            pr.read_clicks(f"{secret}/shop", kind="ubi")
        with pytest.raises(EngineError, match=rf" at {url} has no index 'ubi_queries': give the index") as raised:
            pr.read_clicks(secret)
        assert "secret" not in str(raised.value)
        assert "secret" not in repr(pr.scan_clicks(f"{secret}/shop", kind="ubi"))
    with pytest.raises(ValueError, match="since applies to the address of a live index only: files are read whole"):
        pr.read_clicks([{"action_name": "click"}], since="2026-11-01")
