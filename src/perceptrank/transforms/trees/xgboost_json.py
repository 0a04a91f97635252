"""Forests from the JSON of XGBoost."""

import json
import math
from typing import Any

import numpy as np

from perceptrank.transforms.trees.forest import GOES_LEFT, NAN, Forest
from perceptrank.transforms.trees.reading import ForestBuilder

# Objectives whose base score is a probability, or a mean, and not what trees add to.
_LOGIT = ("binary:logistic", "reg:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox")


def parse_xgboost(text: str) -> Forest:
    """Return the forest of what `Booster.save_model("model.json")` wrote; raise if it is damaged, or of another kind.

    Scores are those of `Booster.predict(output_margin=True)`. The base score is one more tree, the last.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or "learner" not in document:
        raise ValueError("JSON must be what XGBoost's Booster.save_model('model.json') writes, got no 'learner'")
    learner = document["learner"]
    booster, settings = learner["gradient_booster"], learner["learner_model_param"]
    if booster["name"] != "gbtree":
        raise ValueError(f"a model of XGBoost must be fitted with booster='gbtree', got {booster['name']!r}")
    if int(settings.get("num_class", 0)) > 1 or int(settings.get("num_target", 1)) > 1:
        raise ValueError("a model of XGBoost must have one score per document, got several: fit it with one output")
    builder = ForestBuilder()
    for number, tree in enumerate(booster["model"]["trees"]):
        try:
            _add_tree(builder, tree)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problem = f"lacks {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"tree {number} is damaged, or not one of thresholds: {problem}") from None
    if base := _base_margin(str(settings["base_score"]).strip("[]"), learner["objective"]["name"]):
        builder.add([], [], [], [], [], [base])
    n_features, names = int(settings["num_feature"]), tuple(learner.get("feature_names") or ())
    if names and (len(set(names)) != n_features or not all(isinstance(name, str) for name in names)):
        raise ValueError(f"feature_names must be {n_features} different texts")
    return builder.forest(n_features, names or None, is_single=True)


def _base_margin(text: str, objective: str) -> float:
    base = float(text)
    if objective in _LOGIT:
        return math.log(base) - math.log1p(-base)
    return math.log(base) if objective in _LOG else base


def _add_tree(builder: ForestBuilder, tree: dict[str, Any]) -> None:
    """Add a tree whose nodes and leaves are numbered together, some of which may have been pruned."""
    if tree.get("categories_nodes") or any(tree.get("split_type", [])):
        raise ValueError("it has categorical splits, which are not known here: encode categories as numbers")
    if int(tree["tree_param"].get("size_leaf_vector", 0)) > 1:
        raise ValueError("it has several outputs: fit it with multi_strategy='one_output_per_tree' and one output")
    n = len(tree["left_children"])
    left, right, features, default_left, conditions = (
        _numbers(tree, name, n)
        for name in ("left_children", "right_children", "split_indices", "default_left", "split_conditions")
    )
    nodes: list[int] = []
    leaves: list[int] = []
    numbers: dict[int, int] = {}
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if not 0 <= node < n or node in numbers:
            raise ValueError(f"children must be nodes from 0 to {n - 1}, each with one parent, got {node}")
        if left[node] == -1:
            numbers[node] = -1 - len(leaves)
            leaves.append(node)
        else:
            numbers[node] = len(nodes)
            nodes.append(node)
            waiting += [right[node], left[node]]
    with np.errstate(over="ignore"):
        thresholds = np.array([conditions[node] for node in nodes], np.float32)
    builder.add(
        [features[node] for node in nodes],
        np.nextafter(thresholds, np.float32(-np.inf)),  # XGBoost goes left below the threshold, a forest up to it
        [numbers[left[node]] for node in nodes],
        [numbers[right[node]] for node in nodes],
        [NAN + GOES_LEFT if default_left[node] else NAN for node in nodes],
        [conditions[leaf] for leaf in leaves],
    )


def _numbers(tree: dict[str, Any], name: str, n: int) -> list[Any]:
    values, kinds = tree[name], (float, int) if name == "split_conditions" else (bool, int)
    if not isinstance(values, list) or len(values) != n or not all(type(value) in kinds for value in values):
        raise ValueError(f"{name} must be {n} numbers")
    return values
