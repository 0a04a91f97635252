"""The learning-to-rank plugin of Elasticsearch and OpenSearch."""

import json
from dataclasses import dataclass, replace
from typing import Any

from perceptrank.deploy import elasticsearch_engine
from perceptrank.deploy.engine_server import EngineServer
from perceptrank.deploy.float_model import FloatModel, FloatTerm
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.score_shift import SHIFT_FEATURE
from perceptrank.kernels.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class ElasticsearchModel(FloatModel):
    """The body of a request that makes a linear model of a feature set: its features have the names of the model's.

    Or, as the other part, a draft of the feature set.
    """

    name = "elasticsearch"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        text, notes = super().write(folded)
        if self.part == "features":
            return text, [
                *notes,
                "a field with negative numbers cannot be a feature: no query may have negative scores",
            ]
        if not self.shift.value:
            notes.append(
                "scores may be negative: a rescored document may then be merged behind those of other shards that are "
                "outside the rescore window, so make the window as large as what users see, or set shift"
            )
        return text, notes

    def draft(self, names: list[str], fields: list[str]) -> Any:
        """Return the request's body for features that are the numbers in fields, and that of the shift."""
        if any("{{" in field for field in fields):
            raise ValueError("a feature set is a template, in which a name with {{ stands for a parameter: rename it")
        features = [elasticsearch_engine.field_feature(*pair) for pair in zip(names, fields, strict=True)]
        if self.shift.value:
            features.append(elasticsearch_engine.constant_feature(SHIFT_FEATURE))
        return {"featureset": {"features": features}}

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

    def ask_name(self, server: EngineServer) -> str:
        """Return the name and version of a live engine."""
        return elasticsearch_engine.engine_of(server)

    def ask_scores(self, server: EngineServer, terms: list[FloatTerm], values: Any, offsets: Ints) -> Floats:
        """Return the scores that a live engine gives to documents."""
        names = [term.name for term in terms]
        constants = [name for name in names if name == SHIFT_FEATURE]
        return elasticsearch_engine.scores_of(
            server,
            lambda name: replace(self, model_name=name).body(terms),
            names[: len(names) - len(constants)],
            constants,
            values,
            offsets,
        )


@dataclass(frozen=True, kw_only=True)
class OpenSearchModel(ElasticsearchModel):
    """The same of OpenSearch."""

    name = "opensearch"
