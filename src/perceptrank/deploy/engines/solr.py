"""The learning-to-rank module of Apache Solr."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perceptrank.deploy.additive import Additive
from perceptrank.deploy.engines import solr_server
from perceptrank.deploy.engines.engine_server import EngineServer
from perceptrank.deploy.engines.float_model import FloatModel, FloatTerm
from perceptrank.deploy.engines.score_shift import SHIFT_FEATURE
from perceptrank.deploy.engines.trees import FloatTree
from perceptrank.deploy.folding import Folded
from perceptrank.kernels.arrays import Floats, Ints

_LTR = "org.apache.solr.ltr"
SLACK = np.float32(1e-6)  # of RegressionTreeNode


@dataclass(frozen=True, kw_only=True)
class SolrModel(FloatModel):
    """A `LinearModel` for the model store, or of bins a `MultipleAdditiveTreesModel`.

    Or, as the other part, a draft of its features for the feature store.

    Parameters
    ----------
    model_name : str
        Name of the model in the engine.
    normalizers : bool
        Let the engine standardise features, which keeps more digits; without, weights are those of raw features, and
        the constant that remains is left out.
    part : either "model" or "features"
        The model, or a draft of its features.
    shift : float, "auto", path, or stream
        What is added to every score, by a feature that is 1 for all documents; "auto" makes the scores of all
        documents positive whose features are not negative, and a file or stream those of its own documents.
    url : str, optional
        For parity: where the engine is; without, scores are emulated.
    timeout : float
        For parity: seconds to wait for an answer of the engine.
    store : str
        Name of the feature store.
    """

    name = "solr"

    store: str = "_DEFAULT_"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.store, str) or not self.store:
            raise ValueError(f"store of the target solr must be a name, got {self.store!r}")

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        return self._with_store(*super().write(folded))

    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        """Return the request's body of a model of bins, as trees."""
        return self._with_store(*super().write_curves(additive))

    def _with_store(self, text: str, notes: list[str]) -> tuple[str, list[str]]:
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

    def tree_body(self, trees: list[FloatTree]) -> tuple[Any, list[str]]:
        """Return the request's body as plain values; thresholds are those to which Solr adds its slack."""
        made, late = [], 0
        for tree in trees:
            given = [threshold_before_slack(threshold) for threshold in tree.thresholds]
            for one, following in zip(given, [*tree.thresholds[1:], math.inf], strict=True):
                if with_slack(one) >= following:
                    raise ValueError(
                        f"Solr adds {SLACK:g} to thresholds, beside which those of the feature {tree.name!r} are too "
                        "near each other: scale the feature, or export to 'ranklib' or 'elasticsearch'"
                    )
            late += sum(with_slack(one) != exact for one, exact in zip(given, tree.thresholds, strict=True))
            made.append({"weight": "1", "root": _root(tree._replace(thresholds=tuple(given)))})
        notes = []
        if late:
            total = sum(len(tree.thresholds) for tree in trees)
            notes.append(
                f"Solr adds {SLACK:g} to thresholds, which is undone here, but for {late} of {total} that can only be "
                "a larger float32, the next that Solr reaches: values up to there count as not above the edge"
            )
        body = {
            "store": self.store,
            "name": self.model_name,
            "class": f"{_LTR}.model.MultipleAdditiveTreesModel",
            "features": [{"name": tree.name} for tree in trees],
            "params": {"trees": made},
        }
        return body, notes

    def reached(self, threshold: float) -> float:
        """Return the threshold that Solr makes of the one that it is given for this."""
        return with_slack(threshold_before_slack(threshold))

    def ask_name(self, server: EngineServer) -> str:
        """Return the name and version of a live Solr."""
        return solr_server.engine_of(server)

    def ask_scores(
        self, server: EngineServer, names: list[str], body: Callable[[Any], Any], values: Any, offsets: Ints
    ) -> Floats:
        """Return the scores that a live Solr gives to documents."""
        return solr_server.scores_of(
            server,
            lambda name, fields: replace(self, store=name).draft(names, fields),
            lambda name: body(replace(self, store=name, model_name=name)),
            values,
            offsets,
        )


def with_slack(threshold: float) -> float:
    """Return what Solr makes of a threshold: it adds a millionth, in float32."""
    return float(np.float32(threshold) + SLACK)


def threshold_before_slack(threshold: float) -> float:
    """Return the float32 that Solr makes a threshold of, or if there is none, one that is above it, the least."""
    exact = np.float32(threshold)
    given = np.nextafter(np.float32(exact - SLACK), np.float32(-np.inf))
    given = np.nextafter(given, np.float32(-np.inf))
    while given + SLACK < exact:
        given = np.nextafter(given, np.float32(np.inf))
    return float(given)


def _root(tree: FloatTree) -> dict[str, Any]:
    def split(threshold: float, up: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        return {"feature": tree.name, "threshold": repr(threshold), "left": up, "right": above}

    return tree.nested(lambda value: {"value": repr(value)}, split)
