"""The learning-to-rank plugin of Elasticsearch and OpenSearch."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from perceptrank.deploy.engines.float_model import LARGEST, Asked, FloatModel, FloatTerm
from perceptrank.deploy.engines.score_shift import SHIFT_FEATURE
from perceptrank.deploy.engines.trees import FloatTrees, next_float
from perceptrank.io.engine_server import EngineError, EngineServer, Removal
from perceptrank.kernels.arrays import Floats, Ints

_AT_ONCE = 500  # documents in a request
_MOST_QUERIES = 1025  # leaves of a query, with the setting's default of 1024
_LARGEST_WINDOW = 10_000  # documents of a search, unless the index says otherwise
_CONSTANT: dict[str, Any] = {"match_all": {}}  # a query whose score is 1 for all documents
_NO_PLUGIN = ("no handler found", "incorrect http method", "invalid index name", "must not start with '_'")


@dataclass(frozen=True, kw_only=True)
class ElasticsearchModel(FloatModel):
    """A request for a model, linear or of trees, or a draft of its feature set; options are those of `FloatModel`."""

    name = "elasticsearch"

    def own_notes(self, n_features: int) -> list[str]:
        notes = []
        if n_features * 3 > _MOST_QUERIES:
            notes.append(
                f"a search has a query for each of {n_features:,} features, and two more for one that is a difference: "
                f"more than {_MOST_QUERIES:,} are 'too many nested clauses', unless the server's setting "
                "indices.query.bool.max_clause_count is as large as their number"
            )
        if self.part == "features":
            notes.append("a field with negative numbers cannot be a feature: no query may have negative scores")
        elif not self.shift.value:
            notes.append(
                "scores may be negative: a rescored document may then come behind those outside the rescore window, "
                "which score 0 with query_weight 0, so make the window as large as what users see, or set shift"
            )
        return notes

    def draft(self, names: list[str], fields: list[str]) -> Any:
        if any("{{" in field for field in fields):
            raise ValueError("a feature set is a template, in which a name with {{ stands for a parameter: rename it")
        features = [feature(name, field_query(field)) for name, field in zip(names, fields, strict=True)]
        if self.shift.value:
            features.append(feature(SHIFT_FEATURE, _CONSTANT))
        return {"featureset": {"features": features}}

    def body(self, terms: list[FloatTerm]) -> Any:
        weights = json.dumps({term.name: term.weight for term in terms})
        model: dict[str, Any] = {"type": "model/linear", "definition": weights}
        normalized = {
            term.name: {"standard": {"mean": term.mean, "standard_deviation": term.spread}}
            for term in terms
            if term.is_normalized
        }
        if normalized:
            model["feature_normalizers"] = normalized
        return {"model": {"name": self.model_name, "model": model}}

    def tree_body(self, trees: FloatTrees) -> tuple[Any, list[str]]:
        model = {"type": "model/xgboost+json", "definition": json.dumps(_xgboost_trees(trees))}
        note = (
            "the parts of a feature that is a derived_expression must match every document: OpenSearch from 3.2 on "
            "makes NaN of it otherwise, which counts as 0"
            if trees.are_of_one_feature
            else "every feature must match every document, as those of part=features do: OpenSearch 3.2 to 3.7 takes "
            "one that does not match for larger than any number in a tree, other versions for 0"
        )
        return {"model": {"name": self.model_name, "model": model}}, [note]

    def seen_by_trees(self, values: Any, trees: FloatTrees) -> Any:
        if not trees.are_of_one_feature:
            return values
        return np.where(values < np.float32(LARGEST), values, np.float32(0.0))

    def ask_name(self, server: EngineServer) -> str:
        version = server.ask("GET", "/").get("version", {})
        if "number" not in version:
            raise EngineError(f"{server.address} does not tell its version: it is not {server.engine}")
        kind = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
        return f"{kind} {version['number']} at {server.address}"

    def ask_scores(self, asked: Asked) -> Floats:
        """Return the plugin's scores of documents in a new index and feature store: nothing else is read or changed.

        As no query may have a negative score, a feature with negative values is the difference of two.
        """
        server, names, body, values, offsets, must_match = asked
        name = f"perceptrank-parity-{secrets.token_hex(8)}"
        is_split = (values < 0.0).any(axis=0)
        constants = [SHIFT_FEATURE] if self.shift.value else []
        features = _feature_set(name, names, constants, is_split, must_match=must_match)
        with server.leaving_nothing() as removals:
            _make_store(server, removals, name)
            server.ask("PUT", f"/_ltr/{name}/_featureset/{name}", features)
            model = body(replace(self, model_name=name))
            server.ask("POST", f"/_ltr/{name}/_featureset/{name}/_createmodel", model)
            _make_index(server, removals, name, is_split, int(np.diff(offsets).max()))
            _add_documents(server, name, values, offsets)
            scores = np.full(len(values), np.nan)
            for q, (start, stop) in enumerate(pairwise(offsets.tolist())):
                scores[start:stop] = _search(server, name, q, start, stop)
        return scores


@dataclass(frozen=True, kw_only=True)
class OpenSearchModel(ElasticsearchModel):
    """The same for OpenSearch."""

    name = "opensearch"


def _xgboost_trees(trees: FloatTrees) -> list[dict[str, Any]]:
    """Return trees as XGBoost dumps them, where a value that is less than the condition goes the way of yes.

    A feature that a document does not match is 0, or NaN: OpenSearch 3.2 to 3.7 sends NaN the way of no, later versions
    the way of missing, which is that of 0. In a tree of one feature, a first split sends NaN alone to the leaf of 0.
    """
    forest = trees.forest

    def split(feature: int, condition: float, yes: dict[str, Any], no: dict[str, Any]) -> dict[str, Any]:
        return {"split": trees.name(feature), "split_condition": condition, "children": [yes, no]}

    def split_at(feature: int, threshold: float, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return left if threshold == LARGEST else split(feature, next_float(threshold), left, right)

    roots = forest.nested(lambda value: {"leaf": value}, split_at)
    if trees.are_of_one_feature:
        zeros = forest.values[forest.leaves(np.zeros((1, forest.n_features)))[0]].tolist()
        features = forest.features[forest.roots].tolist()
        guards = zip(features, roots, zeros, strict=True)
        roots = [split(feature, LARGEST, root, {"leaf": zero}) for feature, root, zero in guards]
    for root in roots:
        _number_nodes(root)
    return roots


def _number_nodes(root: dict[str, Any]) -> None:
    nodes = [root]
    root["depth"] = 0
    for number, node in enumerate(nodes):  # the list grows, level by level
        node["nodeid"] = number
        for child in node.get("children", []):
            child["depth"] = node["depth"] + 1
            nodes.append(child)
    for node in nodes:
        if "children" in node:
            yes, no = (child["nodeid"] for child in node["children"])
            node |= {"yes": yes, "no": no, "missing": yes if node["split_condition"] > 0.0 else no}


def field_query(field: str, *, matches_all: bool = True) -> dict[str, Any]:
    """Return a query whose score is the number in a field; a document without one has 0, or does not match."""
    matched: dict[str, Any] = {"match_all": {}} if matches_all else {"exists": {"field": field}}
    value = {"field": field, "missing": 0}
    return {"function_score": {"query": matched, "field_value_factor": value, "boost_mode": "replace"}}


def feature(name: str, template: Any, language: str = "mustache") -> dict[str, Any]:
    """Return a feature of a feature set."""
    return {"name": name, "params": [], "template_language": language, "template": template}


def _make_store(server: EngineServer, removals: list[Removal], name: str) -> None:
    path = f"/_ltr/{name}"
    try:
        server.make(removals, Removal("DELETE", path), "PUT", path, None)
    except EngineError as error:
        if error.status in (400, 404, 405) and any(sign in str(error).lower() for sign in _NO_PLUGIN):
            raise EngineError(
                f"{server.engine} at {server.address} has no learning-to-rank plugin: install it, or omit url "
                "to use the emulation",
                error.status,
            ) from None
        raise


def _feature_set(name: str, names: list[str], constants: list[str], split: Any, *, must_match: bool) -> Any:
    prefix = "perceptrank_"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    parts = [f"{sign}{j}" for j in np.flatnonzero(split) for sign in ("p", "n")]
    features = [feature(prefix + field, field_query(field)) for field in parts]  # before what is derived from them
    for j, own in enumerate(names):
        if split[j]:
            features.append(feature(own, f"{prefix}p{j} - {prefix}n{j}", "derived_expression"))
        else:
            features.append(feature(own, field_query(f"p{j}", matches_all=must_match)))  # those of a shop may not
    features += [feature(constant, _CONSTANT) for constant in constants]
    return {"featureset": {"name": name, "features": features}}


def _make_index(server: EngineServer, removals: list[Removal], name: str, split: Any, most: int) -> None:
    fields = [f"p{j}" for j in range(len(split))] + [f"n{j}" for j in np.flatnonzero(split)]
    settings: dict[str, Any] = {"number_of_shards": 1, "number_of_replicas": 0}
    settings["mapping.total_fields.limit"] = max(1000, len(fields) + 10)
    if most > _LARGEST_WINDOW:
        settings |= {"max_result_window": most, "max_rescore_window": most}
    properties = {"query": {"type": "integer"}, **{field: {"type": "float"} for field in fields}}
    body = {"settings": {"index": settings}, "mappings": {"properties": properties}}
    server.make(removals, Removal("DELETE", f"/{name}"), "PUT", f"/{name}", body)


def _add_documents(server: EngineServer, name: str, columns: Any, offsets: Ints) -> None:
    for documents in batches(columns, offsets):
        lines = []
        for i, query, row in documents:
            document = {f"{'n' if value < 0 else 'p'}{j}": abs(value) for j, value in enumerate(row) if value}
            lines += [json.dumps({"index": {"_id": str(i)}}), json.dumps({"query": query, **document})]
        body = ("\n".join(lines) + "\n").encode()
        done = server.ask("POST", f"/{name}/_bulk", body, kind="application/x-ndjson")
        if done.get("errors"):
            failed = next(item["index"]["error"] for item in done["items"] if "error" in item["index"])
            raise EngineError(f"{server.engine} at {server.address} refuses a document: {failed.get('reason', failed)}")
    server.ask("POST", f"/{name}/_refresh")


def _search(server: EngineServer, name: str, query: int, start: int, stop: int) -> Floats:
    size = stop - start
    rescoring = {"sltr": {"model": name, "store": name, "params": {"query": query}}}
    body = {
        "size": size,
        "_source": False,
        "query": {"bool": {"filter": {"term": {"query": query}}}},
        "rescore": {"window_size": size, "query": {"query_weight": 0, "rescore_query": rescoring}},
    }
    hits = server.ask("POST", f"/{name}/_search", body)["hits"]["hits"]
    return in_place(server, [(int(hit["_id"]), hit["_score"]) for hit in hits], start, stop)


def in_place(server: EngineServer, ranked: list[tuple[int, float]], start: int, stop: int) -> Floats:
    """Return the scores of documents in their order, of an engine's ranking of them, best first."""
    places = np.array([place for place, _ in ranked], np.int64) - start
    if sorted(places.tolist()) != list(range(stop - start)):
        raise EngineError(
            f"{server.engine} at {server.address} ranked {len(ranked)} documents of a query with {stop - start}"
        )
    falling = np.array([score for _, score in ranked], np.float32)
    if (np.diff(falling) > 0).any():
        raise EngineError(f"{server.engine} at {server.address} does not rank documents by the scores it gives them")
    scores = np.empty(stop - start)
    scores[places] = falling
    return scores


def batches(columns: Any, offsets: Ints) -> Iterator[list[tuple[int, int, list[float]]]]:
    """Yield documents for one request each: their row, the number of their query, and their values."""
    queries = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)).tolist()
    for first in range(0, len(columns), _AT_ONCE):
        rows = columns[first : first + _AT_ONCE].tolist()
        yield [(i, queries[i], row) for i, row in enumerate(rows, first)]
