"""Transforms on shards: statistics are learned in the first pass, merged, and then stay as they are."""

from collections.abc import Sequence
from copy import deepcopy

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.learners.model import Model
from perceptrank.transforms.transform import Transform


class Held(Transform):
    """A transform whose statistics stay as they are while a shard learns."""

    name = "held"

    def __init__(self, held: Transform) -> None:
        self.held = held
        self.accepts_missing = held.accepts_missing  # type: ignore[misc]
        self.accepts_any_columns = held.accepts_any_columns  # type: ignore[misc]
        self.makes_sparse = held.makes_sparse  # type: ignore[misc]

    def apply(self, X: Features, offsets: Ints) -> Features:
        """Return what the transform makes of features, without learning."""
        return self.held.apply(X, offsets)

    def sparse_form(self) -> Transform:
        """Return the transform that takes its place where features are sparse, held as well."""
        return Held(self.held.sparse_form())

    def for_columns(self, names: tuple[str, ...] | None) -> Transform:
        """Return this transform for columns of these names."""
        return Held(self.held.for_columns(names))

    def n_outputs(self, n_features: int) -> int:
        """Return the number of features that so many become."""
        return self.held.n_outputs(n_features)


def hold(model: Model) -> Model:
    """Return a model whose transforms keep their statistics as they are; `release` undoes it."""
    copied = model.copy()
    copied.transforms = [Held(one) if one.learns else one for one in copied.transforms]
    return copied


def release(model: Model) -> Model:
    """Undo `hold`."""
    copied = model.copy()
    copied.transforms = [one.held if isinstance(one, Held) else one for one in copied.transforms]
    return copied


def check_mergeable(state: Model) -> None:
    """Raise if the statistics that shards will learn, each from what this state has, cannot be merged."""
    if state.has_begun:
        return  # they stay as they are
    for transform in [leaf for one in state.transforms for leaf in one.leaves()]:
        if transform.is_settled:
            continue
        if transform.settles:
            raise TypeError(
                f"what {transform!r} learns stops moving after some documents, which are others in each shard: learn "
                "it from a sample, freeze() it, and give the transform"
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


def merged_transforms(before: Model, shards: Sequence[Model]) -> list[Transform]:
    """Return the transforms of states that were learned from `before`, with the statistics of all of them."""
    if before.has_begun:
        return deepcopy(before.transforms)
    return [_merged(list(one)) for one in zip(*(state.transforms for state in shards), strict=True)]


def _merged(transforms: list[Transform]) -> Transform:
    """Return what several copies of a transform have learned together; parts that are settled are all the same."""
    first, *others = deepcopy(transforms)
    leaves = zip(first.leaves(), *(other.leaves() for other in others), strict=True)
    for leaf, *same in leaves:
        if not leaf.is_settled:
            for other in same:
                leaf.merge(other)
    return first
