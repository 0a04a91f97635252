"""The learning-to-rank module of Apache Solr."""

from dataclasses import dataclass, replace
from typing import Any

from perceptrank.deploy import solr_engine
from perceptrank.deploy.engine_server import EngineServer
from perceptrank.deploy.float_model import FloatModel, FloatTerm
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.score_shift import SHIFT_FEATURE
from perceptrank.kernels.arrays import Floats, Ints

_LTR = "org.apache.solr.ltr"


@dataclass(frozen=True, kw_only=True)
class SolrModel(FloatModel):
    """A `LinearModel` for the model store; or, as the other part, a draft of its features for the feature store."""

    name = "solr"

    store: str = "_DEFAULT_"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.store, str) or not self.store:
            raise ValueError(f"store of the target solr must be a name, got {self.store!r}")

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        text, notes = super().write(folded)
        if self.part == "model":
            notes.append("the feature store must have the features first: part=features drafts them")
        return text, notes

    def draft(self, names: list[str], fields: list[str]) -> Any:
        """Return the request's body for features that are the numbers in fields, and that of the shift."""
        features = [
            self._stored(name, "FieldValueFeature", {"field": field}) for name, field in zip(names, fields, strict=True)
        ]
        if self.shift.value:
            features.append(self._stored(SHIFT_FEATURE, "ValueFeature", {"value": 1}))
        return features

    def _stored(self, name: str, kind: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"store": self.store, "name": name, "class": f"{_LTR}.feature.{kind}", "params": params}

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

    def read(self, body: Any, names: list[str]) -> list[FloatTerm]:
        """Return the features of a request's body, in their order."""
        found = []
        for feature in body["features"]:
            params = feature.get("norm", {}).get("params", {"avg": "0", "std": "1"})
            weight = body["params"]["weights"][feature["name"]]
            found.append(FloatTerm(feature["name"], weight, float(params["avg"]), float(params["std"])))
        return found

    def ask_name(self, server: EngineServer) -> str:
        """Return the name and version of a live Solr."""
        return solr_engine.engine_of(server)

    def ask_scores(self, server: EngineServer, terms: list[FloatTerm], values: Any, offsets: Ints) -> Floats:
        """Return the scores that a live Solr gives to documents."""
        names = [term.name for term in terms if term.name != SHIFT_FEATURE]
        return solr_engine.scores_of(
            server,
            lambda name, fields: replace(self, store=name).draft(names, fields),
            lambda name: replace(self, store=name, model_name=name).body(terms),
            values,
            offsets,
        )
