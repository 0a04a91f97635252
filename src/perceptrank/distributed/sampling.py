"""Trees for shards: fitted once, to a sample of the queries of all shards, which the shards then leave out.

So the score of a query is always made by trees that have not seen its grades, and learners can trust it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perceptrank.distributed.executors import Executor
from perceptrank.distributed.mixing import check_mixable
from perceptrank.distributed.shards import Shard
from perceptrank.kernels.arrays import Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.stream.blocks import as_blocks
from perceptrank.transforms.trees.fitting import lightgbm, try_fit
from perceptrank.transforms.trees.memory import Remembered
from perceptrank.transforms.trees.trees import Trees

_SHARE = 1 / 3  # of the queries of a shard


@dataclass(frozen=True)
class Sampling:
    """A pass over a shard that samples queries, their features being what the transforms before the trees make."""

    of: ClassVar[str] = "shard"

    ranker: Learner
    numbers: dict[str, int]  # of the shards, by their names

    def run(self, shard: Shard) -> tuple[int, list[Remembered]]:
        """Return the number of queries of a shard, and the sample."""
        ranker = deepcopy(self.ranker)
        model = ranker.model.copy()
        unfitted_trees(model)[0].gather(self.numbers[shard.name], len(self.numbers))
        ranker.adopt(model)
        for block in as_blocks(shard.blocks()):
            ranker.learn(block, ())
        trees = unfitted_trees(ranker.model, begun=True)[0]
        return trees.queries, trees.sample(_SHARE)


def unfitted_trees(model: Model, *, begun: bool = False) -> list[Trees]:
    """Return the trees of a model that shards have to fit first; none if they stay, as the model has learned before."""
    leaves = [leaf for transform in model.transforms for leaf in transform.leaves()]
    is_due = begun or not model.has_begun
    return [leaf for leaf in leaves if is_due and isinstance(leaf, Trees) and not leaf.is_settled]


def check_learnable(ranker: Learner) -> None:
    """Raise if what shards learn of this ranker cannot be mixed, or its trees cannot be fitted, with the reason."""
    trees = unfitted_trees(ranker.model) if isinstance(ranker, Learner) else []
    if len(trees) == 1 and trees[0].queries == 0:
        lightgbm()
        model = ranker.model.copy()
        unfitted_trees(model)[0].freeze()
        ranker = ranker.with_model(model)
    check_mixable(ranker)


def fit_to_sample(ranker: Learner, shards: Sequence[Shard], executor: Executor) -> tuple[Model, dict[str, Ints]]:
    """Fit the trees of a ranker that has learned nothing; warn if there are none.

    Returns the model with its trees, which stay, and by the names of shards the numbers of the queries that these were
    fitted to, counted from 0 without those of weight 0.
    """
    task = Sampling(ranker, {shard.name: number for number, shard in enumerate(shards)})
    samples = dict(executor.map(task, shards))
    in_order = [samples[number] for number in range(len(shards))]
    queries = [query for _, sample in in_order for query in sample]
    n_queries = sum(seen for seen, _ in in_order)
    model = ranker.model.copy()
    trees = unfitted_trees(model)[0].freeze()
    if n_queries < trees.first_fit:
        trees.problem = f"the shards have {n_queries:,} queries in all, fewer than first_fit={trees.first_fit:,}"
    else:
        trees.forest, trees.problem = try_fit(queries, trees.n_trees, trees.seed)
    if trees.forest is None:
        warnings.warn(f"no trees were fitted, and there will be none: {trees.problem}", UserWarning, stacklevel=3)
        return model, {}
    trees.queries = len(queries)
    of_shards = zip(shards, in_order, strict=True)
    return model, {shard.name: np.array([query.number for query in kept], np.int64) for shard, (_, kept) in of_shards}
