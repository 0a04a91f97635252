"""The learning-to-rank plugin of Elasticsearch and OpenSearch."""

import json
from dataclasses import dataclass
from typing import Any

from perceptrank.deploy.float_model import FloatModel, FloatTerm
from perceptrank.deploy.folding import Folded


@dataclass(frozen=True, kw_only=True)
class ElasticsearchModel(FloatModel):
    """The body of a request that makes a linear model of a feature set: its features have the names of the model's."""

    name = "elasticsearch"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        text, notes = super().write(folded)
        return text, [
            *notes,
            "scores may be negative: a rescored document may then be merged behind those of other shards that are "
            "outside the rescore window, so make the window as large as what users see",
        ]

    def body(self, terms: list[FloatTerm]) -> Any:
        """Return the request's body as plain values."""
        model: dict[str, Any] = {
            "type": "model/linear",
            "definition": json.dumps({term.name: term.weight for term in terms}),
        }
        normalized = {
            term.name: {"standard": {"mean": term.mean, "standard_deviation": term.spread}}
            for term in terms
            if term.is_normalized
        }
        if normalized:
            model["feature_normalizers"] = normalized
        return {"model": {"name": self.model_name, "model": model}}

    def read(self, body: Any, names: list[str]) -> list[FloatTerm]:
        """Return the features of a request's body, in the order of the feature set."""
        model = body["model"]["model"]
        weights, normalizers = json.loads(model["definition"]), model.get("feature_normalizers", {})
        one = {"standard": {"mean": 0.0, "standard_deviation": 1.0}}
        found = [(name, normalizers.get(name, one)["standard"]) for name in names]
        return [FloatTerm(name, weights[name], how["mean"], how["standard_deviation"]) for name, how in found]


@dataclass(frozen=True, kw_only=True)
class OpenSearchModel(ElasticsearchModel):
    """The same of OpenSearch."""

    name = "opensearch"
