"""The leaves of trees as features, so that a learner goes on where the trees were left."""

from __future__ import annotations

import copy
import math
import os
from typing import Any, Self

import numpy as np

from perceptrank.io.paths import PathLike
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.sparse import SparseFeatures, dense
from perceptrank.stream.validation import ParameterError, check_positive
from perceptrank.transforms.forms import Added
from perceptrank.transforms.transform import Transform
from perceptrank.transforms.trees.forest import Forest
from perceptrank.transforms.trees.forest_files import read_forest


class TreeLeaves(Transform):
    """One feature for each leaf of a forest: 1 if a document reaches the leaf, else 0, as sparse features.

    A linear ranker of these features is a forest with the same splits, whose leaf values are the weights. With
    `start_weights` it begins as these trees; `forest_of` returns those that it has become.

    Parameters
    ----------
    forest : Forest or path
        The trees, or the file that `read_forest` reads them from. They stay as they are. If they and the data have
        names of features, columns are found by name.

    Examples
    --------
    >>> import perceptrank as pr
    >>> from perceptrank.transforms.trees.reading import ForestBuilder
    >>> builder = ForestBuilder()
    >>> builder.add([0], [0.5], [-1], [-2], [0], [0.0, 2.0])  # 2 where the first feature is above 0.5
    >>> leaves = TreeLeaves(builder.forest(n_features=2))
    >>> past = pr.QueryStream.from_arrays([[0.1, 3.0], [0.9, 1.0]], [0, 1])
    >>> leaves.transform(past).X.toarray().tolist(), leaves.start_weights(past).tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0.0, 6.0])
    >>> ranker = pr.ListwisePerceptron(transforms=[leaves], initial_weights=leaves.start_weights(past))
    >>> ranker.scores(past).tolist()
    [0.0, 6.0]
    """

    name = "tree-leaves"
    accepts_missing = True  # as the trees do
    makes_sparse = True
    wraps = True
    scope = "document"

    def __init__(self, forest: Forest | PathLike) -> None:
        if not isinstance(forest, (Forest, str, os.PathLike)):
            raise ParameterError("forest", "must be a Forest, or the path of one", forest)
        self.forest = forest if isinstance(forest, Forest) else read_forest(forest)
        self._columns: Ints | None = None
        _, self._tree_of = self.forest.owners()
        if (np.diff(self._tree_of) < 0).any():
            raise ValueError("leaves of a forest must be numbered tree after tree")

    def for_columns(self, names: tuple[str, ...] | None) -> Self:
        own = self.forest.names
        if names is None or own is None or (names == own and self._columns is None):
            return self
        places = {name: place for place, name in enumerate(names)}
        if lacking := [name for name in own if name not in places]:
            raise ValueError(f"{self!r} needs the feature {lacking[0]!r}, which the data lacks")
        form = copy.copy(self)
        form._columns = np.array([places[name] for name in own])
        return form

    def apply(self, X: Features, offsets: Ints) -> Any:
        leaves = self.forest.leaves(self._own(X))
        starts = np.arange(len(X) + 1) * self.forest.n_trees
        return SparseFeatures(np.ones(leaves.size, X.dtype), leaves.ravel(), starts, self.forest.n_leaves)

    def _own(self, X: Any) -> Any:
        return X if self._columns is None else np.ascontiguousarray(X[:, self._columns])

    def sparse_form(self) -> Transform:
        raise TypeError("tree-leaves takes dense features only: to_dense() makes a stream dense")

    def n_outputs(self, n_features: int) -> int:
        return self.forest.n_leaves

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...]:
        first = np.searchsorted(self._tree_of, self._tree_of)
        return tuple(f"tree {tree} leaf {leaf - first[leaf]}" for leaf, tree in enumerate(self._tree_of.tolist()))

    def largest_norm(self, n_features: int, longest: int) -> float:
        return math.sqrt(self.forest.n_trees)

    def sum_with(self, weights: Floats, n_features: int) -> Added:
        columns = np.arange(n_features) if self._columns is None else self._columns
        forest = self.forest.with_values(weights).with_columns(columns, n_features)
        return Added(keeps=False, forest=forest)

    def start_weights(self, stream: Blocks, strength: float = 3.0) -> Floats:
        """Return initial weights by which a learner ranks as the forest does.

        They are the values of leaves, times the number of trees (as many weights make up a score), times `strength`,
        divided by the mean standard deviation of the forest's scores in a query.

        Parameters
        ----------
        stream : QueryStream or iterable of blocks
            Queries, whose grades are not looked at.
        strength : float > 0
            How much it takes to change the ranking: 2 is twice as much as 1.
        """
        check_positive("strength", strength)
        spreads: list[float] = []
        for part in as_blocks(stream):
            form = self.for_columns(part.feature_names)
            for block in part.blocks():
                scores = self.forest.scores(form._own(dense(block.X)))
                spreads += [float(query.std()) for query in np.split(scores, block.offsets[1:-1])]
        if not spreads:
            raise ParameterError("stream", "must have queries", stream)
        return self.forest.values * (strength * self.forest.n_trees / (np.mean(spreads) or 1.0))

    def state(self) -> dict[str, Any]:
        return {"forest": self.forest.as_plain()}

    def restore(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, Forest.from_plain(state["forest"]))

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # it never changes, and models are copied with every query

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.forest.n_trees} trees, {self.forest.n_leaves} leaves)"
