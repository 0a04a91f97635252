"""The learning-to-rank plugin of Elasticsearch and OpenSearch."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from perceptrank.deploy.additive import Additive
from perceptrank.deploy.engines import elasticsearch_server
from perceptrank.deploy.engines.engine_server import EngineServer
from perceptrank.deploy.engines.float_model import FloatModel, FloatTerm
from perceptrank.deploy.engines.score_shift import SHIFT_FEATURE
from perceptrank.deploy.engines.trees import FloatTree, next_float
from perceptrank.deploy.folding import Folded
from perceptrank.kernels.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class ElasticsearchModel(FloatModel):
    """The body of a request that makes a model of a feature set: its features have the names of the model's.

    The model is a linear one, or of bins one of trees.

    Or, as the other part, a draft of the feature set.

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
    """

    name = "elasticsearch"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        return self._with_limits(*super().write(folded))

    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        """Return the request's body of a model of bins, as trees in the format of XGBoost."""
        return self._with_limits(*super().write_curves(additive))

    def _with_limits(self, text: str, notes: list[str]) -> tuple[str, list[str]]:
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
        features = [elasticsearch_server.field_feature(*pair) for pair in zip(names, fields, strict=True)]
        if self.shift.value:
            features.append(elasticsearch_server.constant_feature(SHIFT_FEATURE))
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

    def tree_body(self, trees: list[FloatTree]) -> tuple[Any, list[str]]:
        """Return the request's body as plain values."""
        model = {"type": "model/xgboost+json", "definition": json.dumps([_xgboost_tree(tree) for tree in trees])}
        return {"model": {"name": self.model_name, "model": model}}, []

    def ask_name(self, server: EngineServer) -> str:
        """Return the name and version of a live engine."""
        return elasticsearch_server.engine_of(server)

    def ask_scores(
        self, server: EngineServer, names: list[str], body: Callable[[Any], Any], values: Any, offsets: Ints
    ) -> Floats:
        """Return the scores that a live engine gives to documents."""
        constants = [SHIFT_FEATURE] if self.shift.value else []
        return elasticsearch_server.scores_of(
            server, lambda name: body(replace(self, model_name=name)), names, constants, values, offsets
        )


@dataclass(frozen=True, kw_only=True)
class OpenSearchModel(ElasticsearchModel):
    """The body of a request that makes a model of a feature set of OpenSearch.

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
    """

    name = "opensearch"


def _xgboost_tree(tree: FloatTree) -> dict[str, Any]:
    """Return a tree as XGBoost dumps it, where a value that is less than the condition goes the way of yes.

    One that is missing goes the way of 0.
    """

    def split(threshold: float, up: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        return {"split": tree.name, "split_condition": next_float(threshold), "children": [up, above]}

    root = tree.nested(lambda value: {"leaf": value}, split)
    level, numbers, depth = [root], itertools.count(), 0
    while level:
        for node in level:
            node |= {"nodeid": next(numbers), "depth": depth}
        level, depth = [child for node in level for child in node.get("children", [])], depth + 1
    _point(root)
    return root


def _point(node: dict[str, Any]) -> None:
    if "children" in node:
        yes, no = (child["nodeid"] for child in node["children"])
        node |= {"yes": yes, "no": no, "missing": yes if node["split_condition"] > 0.0 else no}
        for child in node["children"]:
            _point(child)
