"""A ranker that stays as it is."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.learners.starting import InitialWeights
from perceptrank.learners.tally import LARGEST_WEIGHT, ROUND_WEIGHT, ROUNDS
from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.registry import make_transforms
from perceptrank.transforms.transform import TransformLike


class FixedRanker(Learner):
    """Rank with weights that never change, such as those that a search engine has now.

    It is evaluated, compared, saved and loaded like any learner, may be a member of a tournament or a sum, and ranks
    before it has seen any query. `learn` ranks and records, and learns nothing.

    Parameters
    ----------
    initial_weights : mapping from features to weights, or vector
        The weights: by name, or by number of column, of features as they are, 0 for those that are not named; or a
        vector with one for each feature after the transforms. By name, features are found wherever the data has them.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first; they do not learn either. With weights by feature, they must multiply
        features by fixed numbers, as a frozen standardizer does; scores are those without them, up to a constant.

    Examples
    --------
    >>> import perceptrank as pr
    >>> now = FixedRanker([2.0, -1.0])
    >>> now.predict([[1.0, 0.0], [0.0, 1.0]])
    array([ 2., -1.])
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [0.0, 9.0]], [0, 1], feature_names=["price", "title"])
    >>> FixedRanker({"title": 1.0}).learn(stream, "ndcg").mean("ndcg")
    1.0
    """

    algorithm = "fixed"
    cost = "m d"
    accepts_sparse = True
    accepts_query_weights = True
    learns = False
    depends_on_rate = False
    depends_on_scale = False
    fixed = ("initial_weights", "transforms")

    initial_weights: InitialWeights = None
    _: KW_ONLY
    transforms: TransformLike = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.initial_weights is None:
            raise ParameterError("initial_weights", "must be a mapping from features to weights, or a vector", None)
        for transform in make_transforms(self.transforms):
            if _knows_nothing(transform):
                rule = "must have learned already: a fixed ranker does not learn"
                raise ParameterError("transforms", rule, transform)

    def _pass(self, state: Model, X: Any, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats) -> int:
        valid = (relevance >= 0) & np.isfinite(relevance)
        if relevance.ndim == 1 and not valid.all():  # clicks are checked already
            return int(np.searchsorted(offsets, np.argmin(valid), side="right")) - 1
        predicted[:] = state.linear_scores(X)
        state.tally[ROUNDS] += np.count_nonzero(masses)
        for weight in masses.tolist():  # one by one, so that the sum does not depend on how queries come in blocks
            state.tally[ROUND_WEIGHT] += weight
        state.tally[LARGEST_WEIGHT] = max(state.tally[LARGEST_WEIGHT], masses.max())
        masses[:] = 0.0
        return len(masses)


def _knows_nothing(transform: Any) -> bool:
    """Tell whether a transform learns, and has not."""
    parts = getattr(transform, "parts", None)
    if parts is not None:
        return any(_knows_nothing(part) for part in parts)
    counts = getattr(transform, "counts", None)
    count = getattr(transform, "count", 1) if counts is None else len(counts)
    return bool(transform.learns) and not count
