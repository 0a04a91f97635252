"""Forests: sums of decision trees as plain arrays, which no other library is needed to rank by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.transforms import forms
from perceptrank.transforms.transform import check_width

# What a node takes as missing: nothing (NaN is then 0), zeros and NaN, or NaN; plus `GOES_LEFT` if that goes left.
NEVER, ZERO, NAN, GOES_LEFT = 0, 1, 2, 4
_ALMOST_ZERO = 1e-35  # what LightGBM takes as zero

Nodes = tuple[Ints, Ints, Floats, Ints, Ints, Ints]  # of a forest, as kernels take them


@dataclass(frozen=True, eq=False)
class Forest:
    """A sum of trees: a document goes left at a node if its feature is not above the threshold.

    Nodes of all trees are numbered together, each before its children, and so are leaves.

    Parameters
    ----------
    roots : array
        The first node of each tree, or -1 - leaf if it is nothing but a leaf.
    features, thresholds, left, right, missing : array
        Of each node, the column that it looks at, the largest value that goes left, where documents go (a node, or
        -1 - leaf), what counts as missing, and where that goes.
    values : array
        What each leaf adds to the score.
    n_features : int
        Number of columns.
    is_single : bool
        True if features are rounded to float32 before they are compared, as XGBoost and RankLib do.
    names : tuple of str or None
        Names of the columns, if the file that it was read from has them.

    Notes
    -----
    Arguments that mean the same in all methods:

    - `X`: documents, an array of shape (documents, features).
    - `values`: a number for each leaf.
    - `plain`: what `as_plain` returned.
    - `columns`, `n_features`: of each column, which one it becomes, and how many there are then.
    - `nodes`: an ONNX graph, in which the argument X is the name of the features.
    - `leaf`, `split`: functions that make something of a leaf's value, and of a node and what its children became.

    Examples
    --------
    >>> import numpy as np
    >>> forest = Forest(  # 1 if the second feature is above 0.5, else -1
    ...     roots=np.array([0]), features=np.array([1]), thresholds=np.array([0.5]), left=np.array([-1]),
    ...     right=np.array([-2]), missing=np.array([0]), values=np.array([-1.0, 1.0]), n_features=2,
    ... ).check()
    >>> forest.scores(np.array([[3.0, 0.5], [0.0, 0.6]])).tolist()
    [-1.0, 1.0]
    """

    roots: Ints
    features: Ints
    thresholds: Floats
    left: Ints
    right: Ints
    missing: Ints
    values: Floats
    n_features: int
    is_single: bool = False
    names: tuple[str, ...] | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return len(self.values)

    @property
    def _nodes(self) -> Nodes:
        return self.roots, self.features, self.thresholds, self.left, self.right, self.missing

    def check(self) -> Forest:
        """Return itself; raise unless its nodes are trees that kernels can walk down."""
        n, own = len(self.features), np.arange(len(self.features))
        if not 0 < self.n_features < 2**31:
            raise ValueError(f"a forest must have features, got {self.n_features}")
        if any(len(part) != n for part in (self.thresholds, self.left, self.right, self.missing)):
            raise ValueError("features, thresholds, left, right and missing of a forest must be as many as its nodes")
        if ((self.features < 0) | (self.features >= self.n_features)).any():
            raise ValueError(f"features of a forest must be columns from 0 to {self.n_features - 1}")
        if not np.isfinite(self.thresholds).all() or not np.isfinite(self.values).all():
            raise ValueError("thresholds and values of a forest must be finite")
        if not np.isin(self.missing & ~GOES_LEFT, (NEVER, ZERO, NAN)).all():
            raise ValueError("what counts as missing in a forest must be nothing, zeros, or NaN")
        children = np.concatenate([self.left, self.right])
        if ((children >= 0) & (children <= np.tile(own, 2))).any():
            raise ValueError("children of a forest must have higher numbers than their parents")
        ends = np.concatenate([children, self.roots])
        nodes, leaves = ends[ends >= 0], -1 - ends[ends < 0]
        if not np.array_equal(np.sort(nodes), own) or not np.array_equal(np.sort(leaves), np.arange(self.n_leaves)):
            raise ValueError("every node and leaf of a forest must have one parent, or be the root of a tree")
        return self

    def scores(self, X: Features) -> Floats:
        """Return the score of each document."""
        check_width(self.n_features, X.shape[1])
        scores = np.empty(len(X))
        score_rows_by_trees(X, self._nodes, self.values, self.is_single, scores)
        return scores

    def leaves(self, X: Features) -> npt.NDArray[np.int32]:
        """Return the leaf that each document reaches in each tree, of shape (documents, trees)."""
        check_width(self.n_features, X.shape[1])
        leaves = np.empty((len(X), self.n_trees), np.int32)
        find_leaves(X, self._nodes, self.is_single, leaves)
        return leaves

    def with_values(self, values: Floats) -> Forest:
        """Return a forest whose leaves have other values."""
        return replace(self, values=values)

    def with_columns(self, columns: Ints, n_features: int) -> Forest:
        """Return a forest of other columns: what was column j is now `columns[j]`, of so many."""
        return replace(self, features=columns[self.features], n_features=n_features, names=None)

    def in_double(self) -> Forest:
        """Return a forest with the same leaves for all documents that compares features in double precision."""
        if not self.is_single:
            return self
        # A number is rounded to a threshold or below if it is not above the middle between that and the next float32,
        # or below the middle if that is rounded up, to an even one.
        thresholds = self.thresholds.astype(np.float32)
        with np.errstate(over="ignore"):
            following = np.nextafter(thresholds, np.float32(np.inf)).astype(np.float64)
            following[np.isinf(following)] = 2.0**128
            middles = 0.5 * thresholds.astype(np.float64) + 0.5 * following
            is_up = middles.astype(np.float32) > thresholds
        return replace(self, thresholds=np.where(is_up, np.nextafter(middles, -np.inf), middles), is_single=False)

    def owners(self) -> tuple[Ints, Ints]:
        """Return the number of the tree that each node, and each leaf, belongs to."""
        n = len(self.features)
        trees = np.empty(n + self.n_leaves, np.int64)  # of nodes, then of leaves from the last to the first: -1 - leaf
        trees[self.roots] = np.arange(self.n_trees)
        for node, (left, right) in enumerate(zip(self.left.tolist(), self.right.tolist(), strict=True)):
            trees[left] = trees[right] = trees[node]  # parents come first
        return trees[:n], trees[n:][::-1].copy()

    def ranges(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value of the leaves of each tree."""
        _, owners = self.owners()
        lows, highs = np.full(self.n_trees, np.inf), np.full(self.n_trees, -np.inf)
        np.minimum.at(lows, owners, self.values)
        np.maximum.at(highs, owners, self.values)
        return lows, highs

    def nested(self, leaf: Callable[[float], Any], split: Callable[[int, float, Any, Any], Any]) -> list[Any]:
        """Make each tree: of the value of each leaf, and of feature, threshold, left and right of each node."""
        features, thresholds = self.features.tolist(), self.thresholds.tolist()
        left, right = self.left.tolist(), self.right.tolist()
        made: list[Any] = [*features, *map(leaf, self.values[::-1].tolist())]
        for node in reversed(range(len(features))):  # children come after their parents
            made[node] = split(features[node], thresholds[node], made[left[node]], made[right[node]])
        return [made[root] for root in self.roots.tolist()]

    def importance(self) -> Floats:
        """Return, for each feature, its share of the differences that splits make: |left - right| of their means."""
        means = np.concatenate([self.values[::-1], np.zeros(len(self.features))])  # leaf k at -1 - k, counted from n
        n, shares = self.n_leaves, np.zeros(self.n_features)
        for node in range(len(self.features) - 1, -1, -1):
            left, right = means[n + self.left[node]], means[n + self.right[node]]
            means[n + node] = 0.5 * (left + right)
            shares[self.features[node]] += abs(left - right)
        return shares / shares.sum() if shares.any() else shares

    def add_nodes(self, nodes: forms.Nodes, X: str) -> str:
        """Add the forest to an ONNX graph of finite features; return the name of the column of scores."""
        if (self.missing & ~GOES_LEFT == ZERO).any():
            raise ValueError("trees that take zeros as missing have no ONNX graph: fit them without zero_as_missing")
        # A tree that is nothing but a leaf becomes a node with that leaf on both sides.
        n, alone = len(self.features), self.roots < 0
        left, right = (np.concatenate([side, self.roots[alone]]) for side in (self.left, self.right))
        extra = np.zeros(int(alone.sum()))
        roots = self.roots.copy()
        roots[alone] = n + np.arange(len(extra))
        return nodes.trees(
            X,
            aggregate_function=1,
            n_targets=1,
            tree_roots=roots.tolist(),
            nodes_featureids=np.concatenate([self.features, extra]).astype(int).tolist(),
            nodes_splits=np.concatenate([self.in_double().thresholds, extra]),
            nodes_modes=np.zeros(n + len(extra), np.uint8),
            nodes_truenodeids=np.where(left >= 0, left, -1 - left).tolist(),
            nodes_trueleafs=(left < 0).astype(int).tolist(),
            nodes_falsenodeids=np.where(right >= 0, right, -1 - right).tolist(),
            nodes_falseleafs=(right < 0).astype(int).tolist(),
            leaf_targetids=[0] * self.n_leaves,
            leaf_weights=self.values,
        )

    def as_plain(self) -> dict[str, Any]:
        """Return the arrays as lists, for a model file."""
        arrays = ("roots", "features", "thresholds", "left", "right", "missing", "values")
        plain: dict[str, Any] = {name: getattr(self, name).tolist() for name in arrays}
        names = None if self.names is None else list(self.names)
        return plain | {"n_features": self.n_features, "is_single": self.is_single, "names": names}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Forest:
        """Return the forest that `as_plain` converted; raise if it is inconsistent."""
        whole: dict[str, Any] = {
            name: _whole(name, plain[name]) for name in ("roots", "features", "left", "right", "missing")
        }
        real: dict[str, Any] = {
            name: finite_numbers(name, plain[name], len(plain[name])) for name in ("thresholds", "values")
        }
        if type(plain["is_single"]) is not bool:
            raise ValueError(f"is_single of a forest must be true or false, got {plain['is_single']!r}")
        names = plain["names"]
        n_features = whole_number("n_features", plain["n_features"])
        if names is not None and (len(names) != n_features or not all(isinstance(name, str) for name in names)):
            raise ValueError(f"names of a forest must be {n_features} texts, or null")
        own = None if names is None else tuple(names)
        return cls(**whole, **real, n_features=n_features, is_single=plain["is_single"], names=own).check()


def _whole(name: str, values: Any) -> Ints:
    numbers = finite_numbers(name, values, len(values))
    if (numbers % 1).any() or (abs(numbers) >= 2**31).any():
        raise ValueError(f"{name} of a forest must be whole numbers")
    return numbers.astype(np.int64)


@helper
def goes_left_beyond(value: float, threshold: float, kind: int) -> bool:
    """Tell whether a value goes left at a node that may take it as missing."""
    counts = kind & 3
    if counts == NEVER:
        return (0.0 if np.isnan(value) else value) <= threshold
    if np.isnan(value) or (counts == ZERO and abs(value) <= _ALMOST_ZERO):
        return kind & GOES_LEFT != 0
    return value <= threshold


@helper
def leaf_of(X: Features, i: int, tree: int, nodes: Nodes, is_single: bool) -> int:
    """Return the leaf of a tree that a document reaches."""
    roots, features, thresholds, left, right, missing = nodes
    node = roots[tree]
    while node >= 0:
        value = np.float64(X[i, features[node]])
        if is_single:
            value = np.float64(np.float32(value))
        kind = missing[node]
        goes_left = value <= thresholds[node]
        if kind != NEVER or np.isnan(value):
            goes_left = goes_left_beyond(value, thresholds[node], kind)
        up, above = left[node], right[node]  # both are read, which is faster than to guess which one will be needed
        node = up if goes_left else above
    return -1 - node


@compiled
def score_rows_by_trees(X: Features, nodes: Nodes, values: Floats, is_single: bool, scores: Floats) -> None:
    """Write the sum over all trees, in their order, of what the leaves of each document add."""
    for i in range(len(scores)):
        total = 0.0
        for tree in range(len(nodes[0])):
            total += values[leaf_of(X, i, tree, nodes, is_single)]
        scores[i] = total


@compiled
def find_leaves(X: Features, nodes: Nodes, is_single: bool, leaves: npt.NDArray[np.int32]) -> None:
    """Write the leaf of each tree that each document reaches."""
    for i in range(leaves.shape[0]):
        for tree in range(leaves.shape[1]):
            leaves[i, tree] = leaf_of(X, i, tree, nodes, is_single)
