"""The learning-to-rank module of Apache Solr."""

import json
from dataclasses import dataclass
from typing import Any

from perceptrank.deploy.float_model import FloatModel, FloatTerm
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.target import choice

PARTS = ("model", "features")
_LTR = "org.apache.solr.ltr"


@dataclass(frozen=True, kw_only=True)
class SolrModel(FloatModel):
    """A `LinearModel` for the model store; or, as the other part, a draft of its features for the feature store."""

    name = "solr"

    store: str = "_DEFAULT_"
    part: str = "model"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "part", self.part, PARTS)
        if not isinstance(self.store, str) or not self.store:
            raise ValueError(f"store of the target solr must be a name, got {self.store!r}")

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        text, notes = super().write(folded)
        if self.part == "model":
            return text, [*notes, "the feature store must have the features first: part=features drafts them"]
        features = [
            {
                "store": self.store,
                "name": term.name,
                "class": f"{_LTR}.feature.FieldValueFeature",
                "params": {"field": term.name},
            }
            for term in folded.terms()
        ]
        draft = "a draft: each feature is the field of its name; replace those that are made otherwise"
        return json.dumps(features, indent=1) + "\n", [draft]

    def body(self, terms: list[FloatTerm]) -> Any:
        """Return the request's body as plain values."""
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

    def run(self, folded: Folded, text: str, columns: Any) -> Any:
        """Return the scores of documents as the engine computes them."""
        if self.part != "model":
            raise ValueError("a draft of features has no scores: parity is of solr with part='model'")
        return super().run(folded, text, columns)

    def read(self, body: Any, names: list[str]) -> list[FloatTerm]:
        """Return the features of a request's body, in their order."""
        found = []
        for feature in body["features"]:
            params = feature.get("norm", {}).get("params", {"avg": "0", "std": "1"})
            weight = body["params"]["weights"][feature["name"]]
            found.append(FloatTerm(feature["name"], weight, float(params["avg"]), float(params["std"])))
        return found
