"""A stand-in for the learning-to-rank plugin of Elasticsearch and OpenSearch, which no repository of packages has.

It answers the requests that the plugin documents, computing each operation in float32 as the plugin's documentation has
it. All other requests go to a real OpenSearch, which also computes the features, or to an index in memory.
"""

import contextlib
import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


class RefusalError(Exception):
    """An answer with the status of an error."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


class RealIndexes:
    """Indexes in an OpenSearch."""

    def __init__(self, address):
        self.address = address

    def answer(self, method, path, body):
        kind = "application/x-ndjson" if path.endswith("_bulk") else "application/json"
        request = urllib.request.Request(self.address + path, body or None, {"Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                raise RefusalError(error.code, json.loads(error.read())["error"]["root_cause"][0]["reason"]) from None

    def documents(self, index, query, size):
        return list(self._scores(index, query, size))

    def values(self, index, query, template, size):
        return self._scores(index, {"bool": {"must": template, "filter": query}}, size)

    def _scores(self, index, query, size):
        body = json.dumps({"size": size, "_source": False, "query": query}).encode()
        hits = self.answer("POST", f"/{index}/_search", body)["hits"]["hits"]
        return {hit["_id"]: np.float32(hit["_score"]) for hit in hits}


class IndexesInMemory:
    """Indexes of documents with numbers."""

    def __init__(self):
        self.kept = {}

    def answer(self, method, path, body):
        if path == "/":
            return {"version": {"number": "of a stand-in", "distribution": "opensearch"}}
        _, index, *action = path.split("/")
        if method == "PUT":
            self.kept[index] = (set(json.loads(body)["mappings"]["properties"]), {})
        elif index not in self.kept:
            raise RefusalError(404, f"no such index [{index}]")
        elif method == "DELETE":
            del self.kept[index]
        elif action == ["_bulk"]:
            fields, documents = self.kept[index]
            lines = [json.loads(line) for line in body.splitlines()]
            for head, document in zip(lines[::2], lines[1::2], strict=True):
                assert set(document) <= fields
                documents[head["index"]["_id"]] = document
            return {"errors": False, "items": []}
        return {"acknowledged": True}

    def documents(self, index, query, size):
        ((field, value),) = query["bool"]["filter"]["term"].items()
        return [one for one, document in self.kept[index][1].items() if document[field] == value][:size]

    def values(self, index, query, template, size):
        found = {one: np.float32(1) for one in self.documents(index, query, size)}
        if template != {"match_all": {}}:
            how = template["function_score"]
            assert how["boost_mode"] == "replace"
            field, missing = how["field_value_factor"]["field"], how["field_value_factor"]["missing"]
            kept = self.kept[index][1]
            if how["query"] == {"exists": {"field": field}}:
                found = {one: np.float32(kept[one][field]) for one in found if field in kept[one]}
            else:
                assert how["query"] == {"match_all": {}}
                found = {one: np.float32(kept[one].get(field, missing)) for one in found}
            if any(value < 0 for value in found.values()):
                raise RefusalError(400, "field value function must not produce negative scores")
        return found


class LtrStandIn:
    """The plugin's stores.

    `authorization` is the header that is wanted, `spoils` changes the scores of a query, and `version` tells which way
    a feature that a document does not match goes in trees.
    """

    def __init__(self, indexes, *, authorization=None, spoils=lambda scores: scores, version="3.8"):
        self.indexes, self.authorization, self.spoils, self.version = indexes, authorization, spoils, version
        self.stores, self.asked, self.failing = {}, [], {}

    def answer(self, method, path, body, authorization):
        self.asked.append((method, path))
        if self.authorization is not None and authorization != self.authorization:
            raise RefusalError(401, "missing authentication credentials")
        for end, refusal in self.failing.items():
            if f"{method} {path}".endswith(end):
                raise refusal
        if path.startswith("/_ltr/"):
            return self._store(method, path.split("/")[2:], json.loads(body or b"null"))
        if path.endswith("/_search"):
            return self._search(path.split("/")[1], json.loads(body))
        found = self.indexes.answer(method, path, body)
        if path == "/" and isinstance(self.indexes, RealIndexes):
            found["version"]["number"] += " (a stand-in for its plugin)"
        return found

    def _store(self, method, words, body):
        match method, words:
            case "PUT", [store]:
                self.stores[store] = {}
            case "DELETE", [store]:
                del self.stores[store]
            case "PUT", [store, "_featureset", name]:
                assert body["featureset"].get("name", name) == name
                self.stores[store][name] = check_features(body["featureset"]["features"])
            case "POST", [store, "_featureset", name, "_createmodel"]:
                model, features = body["model"]["model"], self.stores[store][name]
                definition = json.loads(model["definition"])
                normalizers = model.get("feature_normalizers", {})
                if model["type"] == "model/xgboost+json":
                    assert not normalizers
                    assert set().union(*map(check_tree, definition)) <= {feature["name"] for feature in features}
                else:
                    assert model["type"] == "model/linear"
                    assert set(definition) <= {feature["name"] for feature in features}
                self.stores[store]["model " + body["model"]["name"]] = features, definition, normalizers
            case _:
                raise RefusalError(400, f"no handler found for uri [/_ltr/{'/'.join(words)}] and method [{method}]")
        return {"acknowledged": True}

    def _search(self, index, body):
        rescore = body["rescore"]["query"]
        assert rescore["query_weight"] == 0
        asked = rescore["rescore_query"]["sltr"]
        assert "params" in asked
        features, definition, normalizers = self.stores[asked["store"]]["model " + asked["model"]]
        assert body["rescore"]["window_size"] >= body["size"]
        documents = self.indexes.documents(index, body["query"], body["size"])
        values = {}
        for feature in features:
            values[feature["name"]] = self._values(index, body, feature, values, documents)
        if isinstance(definition, list):
            found = {one: trees(one, definition, values, self.version) for one in documents}
        else:
            found = {one: linear(one, features, definition, normalizers, values) for one in documents}
        scores = self.spoils(found)
        ranked = sorted(scores, key=lambda one: -scores[one])
        return {"hits": {"hits": [{"_id": one, "_score": float(str(scores[one]))} for one in ranked]}}

    def _values(self, index, body, feature, values, documents):
        if feature["template_language"] == "derived_expression":
            one, other = feature["template"].split(" - ")
            return {i: np.float32(float(values[one][i]) - float(values[other][i])) for i in documents}
        return self.indexes.values(index, body["query"], feature["template"], body["size"])


def check_features(features):
    """Names are different, and what is derived comes after what it is derived from."""
    seen = set()
    for feature in features:
        assert feature["name"] not in seen
        if feature["template_language"] == "derived_expression":
            assert set(feature["template"].split(" - ")) <= seen
        seen.add(feature["name"])
    return features


def linear(document, features, weights, normalizers, values):
    """The sum of weights * normalised features, each operation in float32; 0 for what does not match."""
    score = np.float32(0)
    for feature in features:
        name = feature["name"]
        value = values[name].get(document, np.float32(0))
        if name in normalizers:
            how = normalizers[name]["standard"]
            value = (value - np.float32(how["mean"])) / np.float32(how["standard_deviation"])
        score = score + np.float32(weights.get(name, 0.0)) * value
    return score


def check_tree(root):
    """Numbers of nodes are different, and a split names those of its two children; return the features of splits."""
    numbers, features, nodes = set(), set(), [root]
    while nodes:
        node = nodes.pop()
        assert node["nodeid"] not in numbers
        numbers.add(node["nodeid"])
        if "leaf" not in node:
            assert {node["yes"], node["no"]} == {child["nodeid"] for child in node["children"]}
            assert node["missing"] in (node["yes"], node["no"])
            features.add(node["split"])
            nodes += node["children"]
    return features


def trees(document, roots, values, version):
    """The sum of leaves in float32; less than the condition is yes.

    What does not match is 0 in version 2.19, NaN from 3.2 on, which is less than nothing, and goes the way of missing
    from 3.8 on.
    """
    score = np.float32(0)
    for root in roots:
        node = root
        while "leaf" not in node:
            value = values[node["split"]].get(document, np.float32(0 if version == "2.19" else np.nan))
            way = "yes" if value < np.float32(node["split_condition"]) else "no"
            way = "missing" if np.isnan(value) and version == "3.8" else way
            node = next(child for child in node["children"] if child["nodeid"] == node[way])
        score = score + np.float32(node["leaf"])
    return score


@contextlib.contextmanager
def served(stand_in):
    """Serve a stand-in over HTTP; give its address."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, found = 200, stand_in.answer(self.command, self.path, body, self.headers.get("Authorization"))
            except RefusalError as refusal:
                status, found = refusal.status, {"error": {"root_cause": [{"reason": str(refusal)}]}}
            except Exception as error:
                status, found = 500, {"error": repr(error)}
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
