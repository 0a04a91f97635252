"""A stand-in for the indexes of OpenSearch and Elasticsearch: what a reader of all documents asks them."""

import json
import random
from urllib.parse import unquote, urlsplit

from support.ltr_stand_in import RefusalError

VERSIONS = {
    "opensearch": {"number": "2.19.2", "distribution": "opensearch"},
    "elasticsearch": {"number": "8.15.0"},
    "disguised": {"number": "7.10.2"},  # an OpenSearch with compatibility.override_main_response_version
}


class IndexStandIn:
    """Indexes with shards, each with its own sequence numbers; documents with equal keys come in any order.

    `failing` lists paths, and what the next request for each is refused with.
    """

    def __init__(self, engine="opensearch", *, authorization=None, seed=0):
        self.engine, self.authorization, self.rng = engine, authorization, random.Random(seed)
        self.indexes, self.points, self.asked, self.failing = {}, {}, [], []
        self.n_opened, self.type_of_times = 0, "date"

    def write(self, index, documents, n_shards=1):
        """Add documents, given by id, to random shards."""
        shards = self.indexes.setdefault(index, [[] for _ in range(n_shards)])
        for key, source in documents.items():
            self.rng.choice(shards).append((key, source))

    def answer(self, method, path, body, authorization):
        path, body = urlsplit(path).path, json.loads(body or b"null")
        self.asked.append((method, path, body))
        if self.authorization is not None and authorization != self.authorization:
            raise RefusalError(401, "missing authentication credentials")
        for k, (refused, refusal) in enumerate(self.failing):
            if path == refused:
                del self.failing[k]
                raise refusal
        of_elasticsearch = self.engine == "elasticsearch"
        opening, name = ("/_pit", "id") if of_elasticsearch else ("/_search/point_in_time", "pit_id")
        match method, path:
            case "GET", "/":
                return {"version": VERSIONS[self.engine]}
            case "GET", _ if path.endswith("/_field_caps"):
                return {"fields": {"timestamp": {self.type_of_times: {}}}}
            case "POST", "/_search":
                return self._search(body)
            case "DELETE", _ if path == opening:
                del self.points[body[name]]
                return {}
            case "POST", _ if path.endswith(opening):
                return {name: self._open(unquote(path.removesuffix(opening).strip("/")))}
        raise RefusalError(400, f"no handler found for uri [{path}] and method [{method}]")

    def _open(self, pattern):
        if not (names := [name for part in pattern.split(",") for name in self.indexes if matches(name, part)]):
            raise RefusalError(404, f"no such index [{pattern}]")
        self.n_opened += 1
        self.points[f"point {self.n_opened}.0"] = [
            {"_index": name, "_id": key, "_source": json.loads(json.dumps(source)), "keys": (number, name, shard)}
            for name in names
            for shard, documents in enumerate(self.indexes[name])
            for number, (key, source) in enumerate(documents)
        ]
        return f"point {self.n_opened}.0"

    def _search(self, body):
        if (pit := body["pit"]["id"]) not in self.points:
            raise RefusalError(404, "No search context found for id [7]")
        assert body["sort"] == ["_seq_no", "_index"]
        assert body["size"] <= 10_000
        hits = self.points.pop(pit)
        point, _, use = pit.rpartition(".")
        pit = f"{point}.{int(use) + 1}"  # engines may change it
        self.points[pit] = hits
        found = [hit for hit in hits if selects(body.get("query"), hit["_source"])]
        for hit in found:
            hit["sort"] = list(hit["keys"][: 3 if self.engine == "elasticsearch" else 2])  # it breaks ties by itself
        left = [hit for hit in found if hit["sort"] > body.get("search_after", [])]
        page = sorted(self.rng.sample(left, len(left)), key=lambda hit: hit["sort"])[: body["size"]]
        return {"pit_id": pit, "timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": page}}


def matches(name, pattern):
    start, star, end = pattern.partition("*")
    return name.startswith(start) and name.endswith(end) if star else name == pattern


def selects(query, source):
    if query is None:
        return True
    times, without = query["bool"]["should"]
    assert without == {"bool": {"must_not": {"exists": {"field": "timestamp"}}}}
    return source.get("timestamp") is None or source["timestamp"] >= times["range"]["timestamp"]["gte"]


def make_ubi_log():
    """60 queries with their impressions and clicks: events and queries, by id."""
    queries, events = {}, {}
    for k in range(60):
        at, hits = f"2026-11-{1 + k // 3:02}T10:{k:02}", [f"d{(k + i) % 11}" for i in range(5)]
        query = {"query_id": f"q{k}", "user_query": f"shoes {k % 4}", "query_response_hit_ids": hits}
        queries[f"doc{k}"] = query | {"timestamp": f"{at}:00.000Z"}
        for i, hit in enumerate(hits[: 3 + k % 3], 1):
            where = {"object": {"object_id": hit}, "position": {"ordinal": i}}
            event = {"query_id": f"q{k}", "event_attributes": where, "timestamp": f"{at}:0{i}.000Z"}
            events[f"see{k}-{i}"] = event | {"action_name": "impression"}
            if (k * i) % 3 == 1:
                events[f"click{k}-{i}"] = event | {"action_name": "click"}
    return events, queries


def as_records(documents):
    return [source | {"_id": key} for key, source in documents.items()]


def as_rows(stream):
    """All that a log of clicks tells, as lists."""
    columns = [stream.docids, stream.place, stream.clicked, stream.examined]
    queries = [stream.qids, stream.columns["time"], stream.columns["user_query"]]
    return [column.tolist() for column in (stream.offsets, *columns, *queries)]
