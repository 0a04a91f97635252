"""All documents of an index are read from OpenSearch itself while it is written to, stopped, or killed."""

import json
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from support.engines import opensearch_server
from support.index_stand_in import as_records, as_rows, make_ubi_log
from support.ltr_stand_in import RealIndexes, RefusalError, served

import perceptrank as pr
from perceptrank.io.engine_server import EngineError
from perceptrank.io.logs.live import LiveIndex

# The types of UBI's own index.
MAPPING = {
    "dynamic": False,
    "properties": {
        "action_name": {"type": "keyword", "ignore_above": 100},
        "query_id": {"type": "keyword", "ignore_above": 100},
        "timestamp": {"type": "date", "format": "strict_date_time", "ignore_malformed": True},
    },
}


@pytest.fixture(scope="module")
def opensearch():
    with opensearch_server() as address:
        yield address


def make_event(i):
    return {
        "action_name": "click" if i % 3 else "impression",
        "query_id": f"q{i // 10}",
        "timestamp": f"2026-11-{1 + i % 28:02}T10:00:00.{i % 1000:03}Z",
        "event_attributes": {"object": {"object_id": str(i % 97)}, "position": {"ordinal": 1 + i % 10}},
    }


def make_events(n, start=0):
    return {f"e{i}": make_event(i) for i in range(start, start + n)}


def send(address, method, path, body=None):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return RealIndexes(address).answer(method, path, data)


def create(address, index, n_shards=1, mapping=MAPPING):
    settings = {"number_of_shards": n_shards, "number_of_replicas": 0}
    send(address, "PUT", f"/{index}", {"settings": settings, "mappings": mapping})


def write(address, index, documents, refresh=True):
    lines = [line for key, source in documents.items() for line in ({"index": {"_id": key}}, source)]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert not send(address, "POST", f"/{index}/_bulk", text)["errors"]
    if refresh:
        send(address, "POST", f"/{index}/_refresh")


def read_all(url, index, **options):
    documents = list(LiveIndex(url, index, **options)())
    by_id = {document.pop("_id"): document for document in documents}
    assert len(by_id) == len(documents), "a document was read twice"
    return by_id


def count_points(address):
    """The number of open points in time; OpenSearch has no answer if there are none."""
    try:
        return len(send(address, "GET", "/_search/point_in_time/_all")["pits"])
    except RefusalError as refusal:
        if refusal.status == 404:
            return 0
        raise


class ElasticsearchApi:
    """OpenSearch, with the points in time of Elasticsearch instead of its own; `authorization` is wanted, if given."""

    def __init__(self, address, authorization=None):
        self.address, self.authorization = address, authorization

    def answer(self, method, path, body, authorization):
        if self.authorization not in (None, authorization):
            raise RefusalError(401, "missing authentication credentials")
        own = urlsplit(path).path
        if own == "/":
            return {"version": {"number": "8.15.0"}}
        if own.endswith("point_in_time"):
            raise RefusalError(400, f"no handler found for uri [{path}] and method [{method}]")
        if method == "POST" and own.endswith("/_pit"):
            return {"id": send(self.address, "POST", path.replace("/_pit", "/_search/point_in_time"))["pit_id"]}
        if (method, own) == ("DELETE", "/_pit"):
            return send(self.address, "DELETE", "/_search/point_in_time", {"pit_id": [json.loads(body)["id"]]})
        return send(self.address, method, path, body)


@pytest.mark.parametrize("api", ["opensearch", "elasticsearch"])
def test_each_document_is_read_once_while_others_write(opensearch, api):
    """Documents are added, changed and deleted, and segments merged, from the first page on to the last."""
    index = f"busy_{api}"
    create(opensearch, index, n_shards=3)
    expected = make_events(12_000)
    write(opensearch, index, expected)
    later = dict(expected)
    documents = {}
    with served(ElasticsearchApi(opensearch)) as stand_in:
        reader = LiveIndex(stand_in if api == "elasticsearch" else opensearch, index, page_size=250)()
        for n_read, document in enumerate(reader):
            assert documents.setdefault(document.pop("_id"), document) is document, "it was read twice"
            if n_read % 1500 == 0:
                changes = make_events(50, 12_000 + n_read)
                changes |= {f"e{i}": {"action_name": "late"} for i in range(n_read + 700, n_read + 900)}
                write(opensearch, index, changes)
                gone = [f"e{i}" for i in range(n_read + 1000, n_read + 1100)]
                erase = "".join(json.dumps({"delete": {"_id": key}}) + "\n" for key in gone)
                assert not send(opensearch, "POST", f"/{index}/_bulk", erase.encode())["errors"]
                send(opensearch, "POST", f"/{index}/_forcemerge?max_num_segments=1")
                later |= changes
                later = {key: source for key, source in later.items() if key not in gone}
    assert documents == expected
    assert count_points(opensearch) == 0
    send(opensearch, "POST", f"/{index}/_refresh")
    assert read_all(opensearch, index, page_size=5000) == later


@pytest.mark.parametrize("page_size", [1, 2, 7])
def test_documents_with_equal_keys_are_not_skipped(opensearch, page_size):
    """Shards and indexes have the same sequence numbers."""
    if page_size == 1:
        for day in range(3):
            create(opensearch, f"daily-{day}", n_shards=5)
            write(opensearch, f"daily-{day}", make_events(40, 40 * day))
    assert read_all(opensearch, "daily-*", page_size=page_size) == make_events(120)
    assert read_all(opensearch, "daily-0,daily-2", page_size=page_size) == make_events(40) | make_events(40, 80)


@pytest.mark.parametrize("index", ["since_mapped", "since_guessed"])
def test_since(opensearch, index):
    create(opensearch, index, 2, MAPPING if index == "since_mapped" else {})
    events = make_events(300) | {"timeless": {"action_name": "click"}}
    write(opensearch, index, events)
    expected = {
        key: event for key, event in events.items() if event.get("timestamp", "3") >= "2026-11-20T10:00:00.019Z"
    }
    assert 50 < len(expected) < 250
    assert read_all(opensearch, index, since="2026-11-20T11:00:00.019+01:00", page_size=11) == expected


def test_clicks_are_those_of_the_documents(opensearch):
    events, queries = make_ubi_log()
    create(opensearch, "ubi_events", 3)
    create(opensearch, "ubi_queries")
    write(opensearch, "ubi_events", events)
    write(opensearch, "ubi_queries", queries)
    expected = pr.read_clicks(as_records(events), as_records(queries))
    assert as_rows(pr.read_clicks(opensearch)) == as_rows(expected)
    assert as_rows(pr.QueryStream.concatenate(list(pr.scan_clicks(opensearch)))) == as_rows(expected)
    later = pr.read_clicks(opensearch, since="2026-11-15")
    assert later.qids.tolist() == expected.qids.tolist()[42:]
    assert count_points(opensearch) == 0


def test_since_needs_dates(opensearch):
    for kind in ("text", "keyword", "long"):
        create(opensearch, f"times_{kind}", 2, {"properties": {"timestamp": {"type": kind}}})
        with pytest.raises(
            EngineError, match=f"`since` needs timestamp to be a date; .* has it as {kind} in the index"
        ):
            read_all(opensearch, f"times_{kind}", since="2026-11-20")
    create(opensearch, "timeless", 2, {})
    write(opensearch, "timeless", {f"e{i}": {"action_name": "click"} for i in range(50)})
    assert len(read_all(opensearch, "timeless", page_size=7, since="2026-11-20")) == 50
    assert count_points(opensearch) == 0


def test_what_cannot_be_read(opensearch):
    with pytest.raises(
        EngineError, match=rf"^OpenSearch 2.19.2 at {opensearch} has no index 'ubi_event': give the index"
    ):
        read_all(opensearch, "ubi_event")
    create(opensearch, "shut")
    write(opensearch, "shut", make_events(3))
    send(opensearch, "POST", "/shut/_close")
    with pytest.raises(EngineError, match=r"answered POST /shut/_search/point_in_time\S+ with status 400: .*closed"):
        read_all(opensearch, "shut")
    create(opensearch, "sourceless", mapping={"_source": {"enabled": False}})
    write(opensearch, "sourceless", make_events(3))
    with pytest.raises(EngineError, match="has 'sourceless' without the field _source"):
        read_all(opensearch, "sourceless")
    with (
        served(ElasticsearchApi(opensearch, authorization="ApiKey right")) as url,
        pytest.raises(EngineError, match=rf" at {url} wants other credentials: put them into the address"),
    ):
        read_all(url, "shut")
    create(opensearch, "empty")
    assert read_all(opensearch, "empty") == {}
    assert count_points(opensearch) == 0


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/_search/point_in_time/_all", r"\(reading the index 'going'\): the engine has dropped its point in time"),
        ("/going", r"with status 404: no such index \[going\]"),
    ],
)
def test_a_point_in_time_or_an_index_that_is_deleted(opensearch, path, problem):
    create(opensearch, "going")
    write(opensearch, "going", make_events(30))
    documents = LiveIndex(opensearch, "going", page_size=10)()
    next(documents)
    assert count_points(opensearch) == 1
    send(opensearch, "DELETE", path)
    with pytest.raises(EngineError, match=problem):
        list(documents)
    assert count_points(opensearch) == 0
    if path != "/going":
        send(opensearch, "DELETE", "/going")


READER = """
import sys
from perceptrank.io.logs.live import LiveIndex
documents = LiveIndex(sys.argv[1], "interrupted", page_size=10)()
print(next(documents)["_id"], flush=True)
sys.stdin.read()
"""


def test_a_reader_that_is_interrupted_closes_its_point_in_time(opensearch):
    create(opensearch, "interrupted")
    write(opensearch, "interrupted", make_events(30))
    command = [sys.executable, "-c", READER, opensearch]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        assert reader.stdout.readline() == b"e0\n"
        assert count_points(opensearch) == 1
        os.kill(reader.pid, signal.SIGINT)
        reader.wait(30)
    assert count_points(opensearch) == 0


@pytest.mark.engine
def test_an_engine_that_is_killed():
    with opensearch_server() as address:
        create(address, "ubi_events")
        write(address, "ubi_events", make_events(300))
        documents = LiveIndex(address, "ubi_events", page_size=100, retries=1)()
        ids = [next(documents)["_id"]]
    with pytest.raises(EngineError, match=rf"^OpenSearch 2.19.2 at {address} cannot be reached .*'ubi_events'"):
        ids.extend(document["_id"] for document in documents)
    assert len(set(ids)) == len(ids) == 99
