"""The score of trees that are fitted again and again to what was judged so far, as one more feature."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import whole_number
from perceptrank.kernels.arrays import Features, Floats, Ints, aligned
from perceptrank.stream.validation import ParameterError, as_number, check_positive_whole, check_seed
from perceptrank.transforms.forms import Added, Nodes
from perceptrank.transforms.transform import LearningTransform, Transform
from perceptrank.transforms.trees.fitting import UNGRADED, Fit, lightgbm
from perceptrank.transforms.trees.forest import Forest
from perceptrank.transforms.trees.memory import Memory

_MEGABYTE = 10**6
_NAMED = 5  # features
_NEVER = sys.maxsize
_DELAY = 10  # a fit is ready after a tenth of the queries that it was fitted to


class Trees(LearningTransform):
    """Add the score of trees as one more feature, after the others; the trees are fitted to the queries so far.

    After `first_fit` queries, and whenever their number has doubled, LambdaMART is fitted to all queries so far, or to
    a uniform sample of them if they are more than `memory`. The fit runs on a thread of its own. Its trees rank from a
    fixed query on, a tenth of the queries later, so results never depend on timing. Until then, the feature is the
    score of the trees before, or 0. Scores of a query depend on earlier queries alone; their standard deviation within
    a query is about 1. If a fit fails, the trees before it stay, with a warning. Methods take:

    - `part`, `n_parts`: number of a part of the data, which the sample depends on, and of all parts.
    - `share`: share of the queries learned from.

    Parameters
    ----------
    n_trees : int
        Number of trees: of 31 leaves with the rate 0.1 if fewer than 4,000 queries are remembered, else of 63 with 0.2.
    memory : float > 0
        Megabytes for queries to remember, in single precision.
    first_fit : int
        Number of queries before the first fit.
    seed : int

    Attributes
    ----------
    forest : Forest or None
        The trees that rank, None before there are any.
    problem : str
        Why the last fit gave no trees; empty if it did.
    queries : int
        Number of queries learned from, those of weight 0 left out.

    References
    ----------
    C. J. C. Burges, "From RankNet to LambdaRank to LambdaMART: An Overview"; G. Ke et al., "LightGBM".

    Examples
    --------
    `WithTrees` puts them before the transforms of a learner; by hand it is:

    >>> import perceptrank as pr
    >>> ranker = pr.ListwisePerceptron(transforms=[Trees(n_trees=20, first_fit=100), "auto"])
    >>> trace = ranker.learn(pr.mslr_shaped(150, n_documents=10, n_features=5))
    >>> trees = ranker.transforms_[0]
    >>> trees.queries, trees.forest.n_trees
    (150, 20)
    """

    name = "trees"
    adds = "trees"
    learns_grades = True
    scope = "document"
    label = "trees"

    def __init__(self, n_trees: int = 100, memory: float = 256.0, first_fit: int = 250, seed: int = 0) -> None:
        self.n_trees = check_positive_whole("n_trees", n_trees)
        self.memory = as_number(memory)
        if not 0 < self.memory < np.inf:
            raise ParameterError("memory", "must be a number of megabytes > 0", memory)
        self.first_fit = check_positive_whole("first_fit", first_fit)
        self.seed = check_seed(seed)
        self.frozen = False
        self.forest: Forest | None = None
        self.problem = ""
        self.queries, self._next_fit, self._swap_at = 0, self.first_fit, 0
        self._fit: Fit | None = None
        self._remembered = Memory(int(self.memory * _MEGABYTE), self.seed)
        self._seen: Any = None

    @property
    def n_remembered(self) -> int:
        """Number of queries that the next fit would be to, as things are."""
        return len(self._remembered)

    def n_outputs(self, n_features: int) -> int:
        return n_features + 1

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else (*names, self.adds)

    def sparse_form(self) -> Transform:
        raise TypeError("trees take dense features only: to_dense() makes a stream dense")

    def apply(self, X: Features, offsets: Ints) -> Features:
        outputs: Features = aligned((len(X), X.shape[1] + 1), X.dtype)
        outputs[:, :-1] = X
        outputs[:, -1] = 0.0 if self.forest is None else self.forest.scores(X)
        return outputs

    def learn_and_apply(self, X: Features, offsets: Ints) -> Features:
        if not self.frozen:
            self._seen = X
        return self.apply(X, offsets)

    def _left(self) -> int:
        """Return how many queries there are until a fit begins, or its trees rank."""
        return (self._swap_at if self._fit is not None else self._next_fit) - self.queries

    def queries_left(self, query_weights: Floats) -> int:
        return 1 + int(np.searchsorted(np.cumsum(query_weights > 0.0), self._left()))

    def learn_grades(self, relevance: Floats, offsets: Ints, query_weights: Floats) -> None:
        X, self._seen = self._seen, None
        if self.queries == 0 and self._next_fit < _NEVER:
            lightgbm()  # now rather than when the first trees are due
        self._remembered.add(X, relevance, offsets, query_weights)
        self.queries += int(np.count_nonzero(query_weights > 0.0))
        if self._fit is not None and self.queries == self._swap_at:
            forest, self.problem = self._fit.result()
            self._fit, self.forest = None, forest or self.forest
            if self.problem and self.problem != UNGRADED:
                told = f"the fit after {self._next_fit // 2:,} queries failed"
                warnings.warn(f"{told}, so the trees before it stay: {self.problem}", UserWarning, stacklevel=2)
        elif self.queries == self._next_fit:
            self._fit = Fit.begin(self._remembered.queries(), self.n_trees, self.seed)
            self._swap_at, self._next_fit = self.queries + max(1, self.queries // _DELAY), 2 * self.queries

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        empty = np.zeros((n_features, 1))
        scores = nodes.product(X, empty) if self.forest is None else self.forest.add_nodes(nodes, X)
        return str(nodes.add("Concat", X, scores, axis=1))

    def sum_with(self, weights: Floats, n_features: int) -> Added:
        forest = None if self.forest is None else self.forest.with_values(self.forest.values * weights[-1])
        return Added(keeps=True, forest=forest)

    def remarks(self, names: tuple[str, ...] | None) -> list[str]:
        if self.forest is None:
            due = f"the first are fitted after {self.first_fit:,} queries" if not self.problem else self.problem
            return [f"there are no trees{'' if self.frozen else ' yet'}: {due}"]
        shares = self.forest.importance()
        known = names or [f"f{place}" for place in range(1, len(shares) + 1)]
        most = [f"{known[place]} {shares[place]:.0%}" for place in np.argsort(-shares, kind="stable")[:_NAMED]]
        size = f"{self.forest.n_trees} trees of {self.forest.n_leaves:,} leaves"
        return [f"{size}: shares of their splits, by how far these are apart, are {', '.join(most)}"]

    def gather(self, part: int, n_parts: int) -> None:
        """Only remember queries from now on: those of one part of the data, within its share of the memory."""
        self._remembered, self._next_fit = Memory(self._remembered.room // n_parts, self.seed, part), _NEVER

    def sample(self, share: float) -> list[Any]:
        """Return a uniform sample of the queries learned from: that share of them, or all that are remembered."""
        return self._remembered.sample(int(share * self.queries))

    def freeze(self) -> Self:
        """Stop learning: the trees of now stay, and what was remembered is forgotten. Return the transform itself."""
        self._fit, self._seen, self._remembered = None, None, Memory(self._remembered.room, self.seed)
        return super().freeze()

    def state(self) -> dict[str, Any]:
        coming, problem = (None, self.problem) if self._fit is None else self._fit.result()
        kept = self._remembered.queries()
        return self.settings() | {
            "frozen": self.frozen,
            "queries": self.queries,
            "next_fit": self._next_fit,
            "swap_at": self._swap_at if self._fit is not None else None,
            "forest": None if self.forest is None else self.forest.as_plain(),
            "coming": None if coming is None else coming.as_plain(),
            "problem": problem,
            "features": kept[0].X.shape[1] if kept else 0,
            "remembered": self._remembered.as_plain(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if type(state["frozen"]) is not bool or not isinstance(state["problem"], str):
            raise ValueError("frozen of trees must be true or false, and problem a text")
        self.frozen = state["frozen"]
        self.queries = whole_number("queries", state["queries"])
        self._next_fit = whole_number("next_fit", state["next_fit"])
        self.forest = None if state["forest"] is None else Forest.from_plain(state["forest"])
        if state["swap_at"] is not None:
            self._swap_at = whole_number("swap_at", state["swap_at"])
            coming = None if state["coming"] is None else Forest.from_plain(state["coming"])
            self._fit = Fit((coming, state["problem"]))
        else:
            self.problem = state["problem"]
        n_features = whole_number("features", state["features"])
        room = self._remembered.room
        self._remembered = Memory.from_plain(state["remembered"], room, self.seed, n_features)
        if self._left() <= 0 and not self.frozen:
            raise ValueError(f"trees must be fitted, and rank, after more than {self.queries} queries")
        coming = None if self._fit is None else self._fit.result()[0]
        widths = {forest.n_features for forest in (self.forest, coming) if forest is not None}
        if len(widths | ({n_features} - {0})) > 1:
            raise ValueError("the trees and the queries that they remember must have the same features")

    def __deepcopy__(self, memo: Any) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, _remembered=self._remembered.copy(), _seen=None)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_seen": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_trees})"
