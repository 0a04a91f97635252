"""Forests put together of trees, and those of LightGBM's text: a damaged one is an error, whatever is in it."""

from typing import Any

import numpy as np

from perceptrank.transforms.trees.forest import GOES_LEFT, Forest

# Far more than forests have, and little enough for what they take in memory.
_MOST_TREES, _MOST_LEAVES, _MOST_FEATURES = 100_000, 20_000_000, 10_000_000


class ForestBuilder:
    """Puts trees together, whose nodes and leaves are numbered from 0 in each of them."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._roots: list[int] = []
        self._n_nodes = self._n_leaves = 0

    def add(self, features: Any, thresholds: Any, left: Any, right: Any, missing: Any, values: Any) -> None:
        """Add a tree whose root is node 0; children are nodes, or -1 - leaf. Without nodes it is one leaf."""
        features, values = np.asarray(features, np.int64), np.asarray(values, np.float64)
        sides = [np.asarray(side, np.int64) for side in (left, right)]
        left, right = (np.where(side >= 0, side + self._n_nodes, side - self._n_leaves) for side in sides)
        self._roots.append(self._n_nodes if len(features) else -1 - self._n_leaves)
        part = {"features": features, "thresholds": np.asarray(thresholds, np.float64), "left": left, "right": right}
        self._parts.append(part | {"missing": np.asarray(missing, np.int64), "values": values})
        self._n_nodes, self._n_leaves = self._n_nodes + len(features), self._n_leaves + len(values)
        if len(self._roots) > _MOST_TREES or self._n_leaves > _MOST_LEAVES:
            raise ValueError(f"a forest must have at most {_MOST_TREES:,} trees and {_MOST_LEAVES:,} leaves, got more")

    def forest(self, n_features: int, names: tuple[str, ...] | None = None, *, is_single: bool = False) -> Forest:
        """Return the forest of all trees; raise if they are none."""
        if not self._parts:
            raise ValueError("a forest must have trees, got none")
        check_n_features(n_features)
        arrays = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        roots = np.array(self._roots, np.int64)
        return Forest(roots, n_features=n_features, is_single=is_single, names=names, **arrays).check()


def check_n_features(n_features: int) -> None:
    """Raise if a forest has no features, or more than it may have."""
    if not 0 < n_features <= _MOST_FEATURES:
        raise ValueError(f"a forest must have 1 to {_MOST_FEATURES:,} features, got {n_features}")


def parse_lightgbm(text: str) -> Forest:
    """Return the forest of LightGBM's text format; raise if it is damaged, or has splits that are not thresholds.

    Scores are those of `Booster.predict(raw_score=True)`.
    """
    head, *trees = text.split("\nTree=")
    if not head.startswith("tree\n") or not trees:
        raise ValueError("a model of LightGBM must begin with the line 'tree' and have trees")
    settings = _fields(head)
    if settings.get("num_class", "1") != "1" or settings.get("num_tree_per_iteration", "1") != "1":
        raise ValueError("a model of LightGBM must have one score per document, got one per class")
    if lacking := {"max_feature_idx", "feature_names"} - set(settings):
        raise ValueError(f"a model of LightGBM must have the line {min(lacking)}=")
    n_features = int(settings["max_feature_idx"]) + 1
    check_n_features(n_features)
    names = tuple(settings["feature_names"].split())
    if len(set(names)) != n_features:
        raise ValueError(f"feature_names of LightGBM must be {n_features} different names, got {len(set(names))}")
    if "tree_sizes" in settings and len(settings["tree_sizes"].split()) != len(trees):
        raise ValueError(f"a model of LightGBM must have a tree for each of its tree_sizes, got {len(trees)}")
    trees[-1] = trees[-1].partition("\nend of trees")[0]  # lines for each feature follow, by its name
    builder = ForestBuilder()
    for number, tree in enumerate(trees):
        try:
            _add_lightgbm_tree(builder, _fields(tree))
        except (KeyError, ValueError, OverflowError) as error:
            problem = f"lacks the line {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"tree {number} is damaged, or not one of thresholds: {problem}") from None
    unnamed = names == tuple(f"Column_{place}" for place in range(n_features))
    return builder.forest(n_features, None if unnamed else names)


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def _add_lightgbm_tree(builder: ForestBuilder, fields: dict[str, str]) -> None:
    n_leaves = int(fields["num_leaves"])
    if fields.get("is_linear", "0") != "0":
        raise ValueError("it has linear leaves, which are not known here: fit it with linear_tree=false")

    def numbers(name: str, kind: type[float] | type[int], n: int) -> list[Any]:
        values = [kind(word) for word in fields[name].split()]
        if len(values) != n:
            raise ValueError(f"{name} must be {n} numbers, got {len(values)}")
        return values

    n = n_leaves - 1
    values = numbers("leaf_value", float, n_leaves)
    fields["shrinkage"]  # the last line: without it, numbers may have been cut off
    if n == 0:
        builder.add([], [], [], [], [], values)
        return
    kinds = np.array(numbers("decision_type", int, n), np.int64)
    if (kinds & 1).any():
        raise ValueError("it has categorical splits, which are not known here: encode categories as numbers")
    counts = (kinds >> 2) & 3
    missing = counts | np.where((kinds & 2 > 0) & (counts > 0), GOES_LEFT, 0)
    features = numbers("split_feature", int, n)
    # An infinite one tells numbers from missing values: all numbers go left.
    thresholds = np.minimum(numbers("threshold", float, n), np.finfo(np.float64).max)
    left, right = numbers("left_child", int, n), numbers("right_child", int, n)
    builder.add(features, thresholds, left, right, missing, values)
