"""Mix what shards have learned, each from the same state: iterative parameter mixing, Theorem D of docs/theory/.

What a theorem sums up (weight moved, losses) is mixed as the weights are, since the proofs are convex in it; what is
counted (rounds, updates, iterates in their mean) is added up. Sums are made in the order of the shards.

Reference: R. McDonald, K. Hall and G. Mann, "Distributed Training Strategies for the Structured Perceptron".
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Literal, TypeVar

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model
from perceptrank.learners.sparse_rounds import LAG, WIDTH
from perceptrank.learners.tally import (
    CURRENT_LOSS,
    LARGEST_REACH,
    LARGEST_WEIGHT,
    MASS,
    MEAN_LOSS,
    MIXINGS,
    ROUND_WEIGHT,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    UPDATE_WEIGHT,
    UPDATES,
    USED_LOSS,
)
from perceptrank.stream.validation import check_choice
from perceptrank.transforms.transform import Transform


def check_mergeable(state: Model) -> None:
    """Raise if the statistics that shards will learn, each from what this state has, cannot be merged."""
    if state.has_begun:
        return  # they stay as they are
    for transform in [leaf for whole in state.transforms for leaf in whole.leaves()]:
        if transform.is_settled:
            continue
        if transform.settles:
            raise TypeError(
                f"{transform!r} settles after a number of documents, so shards would settle differently: learn it from "
                "a sample, freeze() it, and pass it"
            )
        before = transform.state()
        try:
            after = deepcopy(transform).merge(deepcopy(transform)).state()
        except TypeError as error:
            raise TypeError(
                f"{error}, so that shards cannot learn them: learn them from a sample, freeze() them, and give the "
                "transform"
            ) from None
        if after != before:
            raise ValueError(
                f"{transform!r} has statistics already, which every shard would count again: freeze() it, or give one "
                "that has learned nothing"
            )


def _merged(transforms: tuple[Transform, ...]) -> Transform:
    """Return what several copies of a transform have learned together; parts that are settled are all the same."""
    first, *others = deepcopy(transforms)
    leaves = zip(first.leaves(), *(other.leaves() for other in others), strict=True)
    for leaf, *same in leaves:
        if not leaf.is_settled:
            for other in same:
                leaf.merge(other)
    return first


MixedBy = Literal["queries", "updates", "uniform"]
MIXED_BY = ("queries", "updates", "uniform")

_MIXED = [MASS, MEAN_LOSS, CURRENT_LOSS, USED_LOSS]
_ADDED = [ROUNDS, UPDATES, SQUARED_REACH, SQUARED_STEPS, ROUND_WEIGHT, UPDATE_WEIGHT]
_LARGEST = [LARGEST_REACH, LARGEST_WEIGHT]
# AdaGrad's squares, and counts of click learners: sums along one pass, of which the mean over shards is one again,
# unless the learner corrects them.
_SUMS = {"squares", "place_clicks", "place_shown", "evidence", "production"}

SomeLearner = TypeVar("SomeLearner", bound=Learner)


def check_mixable(ranker: Learner) -> None:
    """Raise `TypeError` if what shards learn of this ranker cannot be mixed, with the reason."""
    if not isinstance(ranker, Learner):
        raise TypeError(f"ranker must be a learner, got {type(ranker).__name__}")
    if not ranker.learns:
        raise TypeError(f"{ranker.name} does not learn: there is nothing to mix")
    model = ranker.model
    if model.members:
        raise TypeError(
            f"{ranker.name} cannot be mixed: its members, or which of them leads, differ between shards; learn one of "
            "its learners, or each of them by itself"
        )
    more = sorted(set(ranker.extra_state(1)) - _SUMS)
    if more:
        raise TypeError(
            f"{ranker.name} cannot be mixed: the mean of its {', '.join(more)} over shards is not a valid state"
        )
    if not model.is_linear:
        raise TypeError(
            f"{ranker.name} cannot be mixed: it ranks by documents that it keeps, others in each shard, and not by "
            "weights alone; learn it in one pass"
        )
    check_mergeable(model)


def mix(start: SomeLearner, learned: Sequence[SomeLearner], by: MixedBy = "queries") -> SomeLearner:
    """Return a ranker with the mean of what several have learned, each from `start` and from queries of its own.

    The theorem of a learner holds for the mixture if each of them counts by its weight in the mean (Theorem D of
    docs/theory/), whatever the weights are.

    Parameters
    ----------
    start : learner
        What all of them began with; its settings are those of the result.
    learned : list of learners
        What they have learned, in a fixed order.
    by : "queries", "updates", or "uniform"
        Their weights in the mean: in proportion to the queries (each by its weight) or to the updates since `start`, or
        equal. Statistics of transforms are merged if `start` has learned nothing, else its own stay.

    Raises
    ------
    TypeError or ValueError
        If the state of such a learner has no mean, one has learned from other features, or none has learned anything.

    Examples
    --------
    >>> import perceptrank as pr
    >>> start, first, second = (pr.SlamPerceptron(learning_rate=1.0) for _ in range(3))
    >>> first.learn_one([[1.0, 0.0], [0.0, 0.0]], [1, 0]), second.learn_one([[0.0, 3.0], [0.0, 0.0]], [1, 0])
    (True, True)
    >>> mix(start, [first, second]).weights
    array([0.5, 1.5])
    """
    check_mixable(start)
    for ranker in learned:
        if type(ranker) is not type(start):
            raise TypeError(f"all must be of one kind, got {type(start).__name__} and {type(ranker).__name__}")
    mixture = deepcopy(start)
    mixture.adopt(mixed(start, start.model, [ranker.model for ranker in learned], by))
    return mixture


def mixed(ranker: Learner, before: Model, after: Sequence[Model], by: MixedBy = "queries") -> Model:
    """Return the mixture of models that a ranker learned from `before`; those that learned nothing are left out."""
    check_choice("by", by, MIXED_BY)
    shards = [state for state in after if state.has_begun and state.queries > before.queries]
    if not shards:
        raise ValueError("nothing was learned that could be mixed")
    if len(shards) == 1:
        return shards[0].copy()
    _check_alike(before, shards)
    result = shards[0].copy()
    base = before.tally if before.has_begun else np.zeros_like(result.tally)
    shares = _shares(base, shards, by)
    total = np.zeros(result.n_features) + (before.total if before.has_begun else 0.0)
    first = total.copy()
    weights, tally = np.zeros(result.n_features), base.copy()
    more = {name: 0.0 * values for name, values in result.more.items()}
    tally[_MIXED] = 0.0
    for share, state in zip(shares, shards, strict=True):
        weights += share * state.weights
        total += state.total - first
        tally[_MIXED] += share * state.tally[_MIXED]
        tally[_ADDED] += state.tally[_ADDED] - base[_ADDED]
        tally[_LARGEST] = np.maximum(tally[_LARGEST], state.tally[_LARGEST])
        for name, values in state.more.items():
            more[name] += share * values
    tally[MIXINGS] = base[MIXINGS] + 1
    result.tally[:] = tally
    result.weights[:] = weights
    for name, values in more.items():
        result.more[name][...] = values
    ranker.correct_mixture(result, before, shards)
    if result.is_sparse:
        result.table[LAG::WIDTH] = tally[ROUND_WEIGHT] * result.weights - total
    else:
        result.total[:] = total
    result.queries = before.queries + sum(state.queries - before.queries for state in shards)
    result.feature_names = next((state.feature_names for state in shards if state.feature_names), None)
    of_shards = zip(*(state.transforms for state in shards), strict=True)
    result.transforms = deepcopy(before.transforms) if before.has_begun else [_merged(copies) for copies in of_shards]
    return result


def _shares(base: Floats, shards: Sequence[Model], by: MixedBy) -> Floats:
    """Return the weights of shards in their mean, which add up to 1."""
    counts = np.ones(len(shards))
    if by != "uniform":
        place = ROUND_WEIGHT if by == "queries" else UPDATE_WEIGHT
        counts = np.array([state.tally[place] - base[place] for state in shards])
    if not counts.sum() > 0:  # no updates, or queries of weight 0: all weights are what they were
        counts = np.ones(len(shards))
    shares: Floats = counts / float(counts.sum())
    return shares


def _check_alike(before: Model, shards: Sequence[Model]) -> None:
    """Raise if shards had different features."""
    first = shards[0]
    names = before.feature_names or first.feature_names
    by_name = bool(first.transforms) and first.transforms[0].accepts_any_columns
    for number, state in enumerate(shards):
        if state.is_sparse != first.is_sparse:
            raise ValueError(
                f"shard {number} has {'sparse' if state.is_sparse else 'dense'} features, others have not: say sparse="
                "True or False when they are read"
            )
        if state.n_features != first.n_features or (state.n_inputs != first.n_inputs and not by_name):
            raise ValueError(
                f"shard {number} has {state.n_inputs} features, shard 0 has {first.n_inputs}: all must have the same; "
                "n_features= says how many there are, where files leave out zeros"
            )
        if state.feature_names and names and state.feature_names != names and not by_name:
            raise ValueError(f"shard {number} has features of other names than the others: {state.feature_names[:5]}…")
