"""The learning-to-rank module of Apache Solr."""

import secrets
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from perceptrank.deploy.engines.elasticsearch import batches, in_place
from perceptrank.deploy.engines.float_model import Asked, FloatModel, FloatTerm
from perceptrank.deploy.engines.score_shift import SHIFT_FEATURE
from perceptrank.deploy.engines.trees import FloatTrees
from perceptrank.io.engine_server import EngineError, EngineServer, Removal
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.validation import ParameterError

_LTR = "org.apache.solr.ltr"
SLACK = np.float32(1e-6)  # of RegressionTreeNode


@dataclass(frozen=True, kw_only=True)
class SolrModel(FloatModel):
    """A `LinearModel` or `MultipleAdditiveTreesModel` for the model store, or a draft of its features.

    Other options are those of `FloatModel`.

    Parameters
    ----------
    store : str
        Name of the feature store.
    """

    name = "solr"

    store: str = "_DEFAULT_"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.store, str) or not self.store:
            raise ParameterError(self.option("store"), "must be a name", self.store)

    def own_notes(self, n_features: int) -> list[str]:
        if self.part == "features":
            return []
        return ["the feature store must have the features first: part=features drafts them"]

    def draft(self, names: list[str], fields: list[str]) -> Any:
        features = [
            self._stored(name, "FieldValueFeature", {"field": field}) for name, field in zip(names, fields, strict=True)
        ]
        if self.shift.value:
            features.append(self._stored(SHIFT_FEATURE, "ValueFeature", {"value": 1}))
        return features

    def _stored(self, name: str, kind: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"store": self.store, "name": name, "class": f"{_LTR}.feature.{kind}", "params": params}

    def body(self, terms: list[FloatTerm]) -> Any:
        return {
            "store": self.store,
            "name": self.model_name,
            "class": f"{_LTR}.model.LinearModel",
            "features": [self._feature(term) for term in terms],
            "params": {"weights": {term.name: term.weight for term in terms}},
        }

    def _feature(self, term: FloatTerm) -> dict[str, Any]:
        if not term.is_normalized:
            return {"name": term.name}
        params = {"avg": repr(term.mean), "std": repr(term.spread)}
        return {"name": term.name, "norm": {"class": f"{_LTR}.norm.StandardNormalizer", "params": params}}

    def tree_body(self, trees: FloatTrees) -> tuple[Any, list[str]]:
        """Return the request's body as plain values; thresholds are those to which Solr adds its slack."""
        forest = trees.forest
        exact, (owners, _) = forest.thresholds, forest.owners()
        reached = np.array([self.reached(threshold) for threshold in exact.tolist()])
        order = np.lexsort([exact, forest.features, owners])
        for node, following in pairwise(order.tolist()):
            is_same = owners[node] == owners[following] and forest.features[node] == forest.features[following]
            if is_same and exact[node] < exact[following] <= reached[node]:
                raise ValueError(
                    f"Solr adds {SLACK:g} to thresholds in float32, which makes those of the feature "
                    f"{trees.name(forest.features[node])!r} equal: scale the feature, or export to 'ranklib' or "
                    "'elasticsearch'"
                )
        notes = []
        if late := int((reached != exact).sum()):
            notes.append(
                f"Solr adds {SLACK:g} to thresholds, which is undone here, but for {late} of {len(exact)} that can "
                "only be the next float32 that Solr reaches, mostly a larger one: values between are on the other side"
            )

        def split(feature: int, threshold: float, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
            given = repr(threshold_before_slack(threshold))
            return {"feature": trees.name(feature), "threshold": given, "left": left, "right": right}

        roots = forest.nested(lambda value: {"value": repr(value)}, split)
        body = {
            "store": self.store,
            "name": self.model_name,
            "class": f"{_LTR}.model.MultipleAdditiveTreesModel",
            "features": [{"name": name} for name in trees.used],
            "params": {"trees": [{"weight": "1", "root": root} for root in roots]},
        }
        return body, notes

    def reached(self, threshold: float) -> float:
        return with_slack(threshold_before_slack(threshold))

    def ask_name(self, server: EngineServer) -> str:
        lucene = server.ask("GET", "/admin/system?wt=json").get("lucene", {})
        if "solr-spec-version" not in lucene:
            raise EngineError(f"{server.address} does not tell its version: it is no core of Solr")
        return f"Solr {lucene['solr-spec-version']} at {server.address}"

    def ask_scores(self, asked: Asked) -> Floats:
        """Return the scores of documents that are put into an empty core with the query parser ltr, and removed."""
        server, names, body, values, offsets, _ = asked
        n_present = _select(server, {"q": "{!lucene}*:*", "rows": "0"})["response"]["numFound"]
        if n_present:
            raise ValueError(
                "parity needs an empty core or collection, and empties it afterwards; "
                f"{server.address} has {n_present:,} documents"
            )
        key = server.ask("GET", "/schema/uniquekey?wt=json")["uniqueKey"]
        name = f"perceptrank_{secrets.token_hex(8)}"
        fields = [f"{name}_{j}_f" for j in range(values.shape[1])]
        own = replace(self, store=name, model_name=name)
        with server.leaving_nothing() as removals:
            store, models = "/schema/feature-store", "/schema/model-store"
            try:
                server.make(removals, Removal("DELETE", f"{store}/{name}"), "PUT", store, own.draft(names, fields))
            except EngineError as error:
                if error.status in (400, 404, 405) and "/schema/" in str(error):
                    raise EngineError(
                        f"{error}; is the learning-to-rank module in Solr, and the query parser ltr in solrconfig.xml?",
                        error.status,
                    ) from None
                raise
            server.make(removals, Removal("DELETE", f"{models}/{name}"), "PUT", models, body(own))
            _add_documents(server, removals, name, key, fields, values, offsets)
            scores = np.full(len(values), np.nan)
            for q, (start, stop) in enumerate(pairwise(offsets.tolist())):
                search = {
                    "q": "{!lucene}*:*",
                    "fq": f"{{!term f={name}_query_s}}{q}",
                    "rq": f"{{!ltr model={name} reRankDocs={stop - start}}}",
                    "fl": f"{key},score",
                    "rows": str(stop - start),
                }
                hits = _select(server, search)["response"]["docs"]
                ranked = [(int(hit[key].removeprefix(f"{name}_")), hit["score"]) for hit in hits]
                scores[start:stop] = in_place(server, ranked, start, stop)
        return scores


def with_slack(threshold: float) -> float:
    """Return what Solr makes of a threshold: it adds a millionth, in float32."""
    return float(np.float32(threshold) + SLACK)


def threshold_before_slack(threshold: float) -> float:
    """Return the least float32 of which Solr makes this threshold, or one above it; 0 stays above one below 0."""
    exact = np.float32(threshold)
    before = np.nextafter(np.float32(exact - SLACK), np.float32(-np.inf))
    before = np.nextafter(before, np.float32(-np.inf))
    while before + SLACK < exact:
        following = np.nextafter(before, np.float32(np.inf))
        if exact < 0.0 <= following + SLACK:
            break
        before = following
    return float(before)


def _add_documents(
    server: EngineServer, removals: list[Removal], name: str, key: str, fields: list[str], columns: Any, offsets: Ints
) -> None:
    removals.append(Removal("POST", "/update?commit=true&wt=json", {"delete": {"query": f"{name}_query_s:[* TO *]"}}))
    for batch in batches(columns, offsets):
        documents = []
        for i, query, row in batch:
            values = {field: value for field, value in zip(fields, row, strict=True) if value}
            documents.append({key: f"{name}_{i}", f"{name}_query_s": str(query), **values})
        try:
            server.ask("POST", "/update?wt=json", documents)
        except EngineError as error:
            if error.status == 400:
                raise EngineError(
                    f"{error}; documents have a string in a field *_s and numbers in fields *_f, as the dynamic fields "
                    "of Solr's default schema are",
                    error.status,
                ) from None
            raise
    server.ask("POST", "/update?wt=json", {"commit": {}})


def _select(server: EngineServer, parameters: dict[str, str]) -> Any:
    form = urlencode({**parameters, "wt": "json"}, quote_via=quote).encode()
    return server.ask("POST", "/select", form, kind="application/x-www-form-urlencoded")
