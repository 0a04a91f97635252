"""Transforms made of others: one after the other, or side by side."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.lineage import Lineage, Outputs
from perceptrank.transforms.transform import Transform, TransformLike, WritingTransform, in_turn


class Composition(Transform):
    """A transform made of others; its `parts` are copies of these.

    Parameters
    ----------
    *transforms : str or Transform
        Names or transforms; a list of them is a chain.
    """

    wraps = True

    def __init__(self, *transforms: TransformLike) -> None:
        from perceptrank.transforms.registry import check_names, make_transforms

        check_names([part for item in transforms for part in (item if isinstance(item, (list, tuple)) else [item])])
        lists = [make_transforms(transform) for transform in transforms]
        if not lists or not all(lists):
            raise ValueError(f"{type(self).__name__} must be made of at least one transform, and so must its lists be")
        self.parts: list[Transform] = [parts[0] if len(parts) == 1 else Chain(*parts) for parts in lists]
        self._fit_together()

    def _fit_together(self) -> None:
        """Make the parts fit together, or raise, where some make sparse features."""

    @property
    def makes_sparse(self) -> bool:  # type: ignore[override]
        return any(part.makes_sparse for part in self.parts)

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return any(part.learns for part in self.parts)

    @property
    def _first(self) -> list[Transform]:
        """The parts that take the features as they come."""
        return self.parts

    @property
    def accepts_missing(self) -> bool:  # type: ignore[override]
        return all(part.accepts_missing for part in self._first)

    @property
    def accepts_any_columns(self) -> bool:  # type: ignore[override]
        return all(part.accepts_any_columns for part in self._first)

    def for_columns(self, names: tuple[str, ...] | None) -> Self:
        first = [part.for_columns(names) for part in self._first]
        return self._with_parts(first + self.parts[len(first) :])

    def sparse_form(self) -> Transform:
        return self._with_parts([part.sparse_form() for part in self.parts])

    def leaves(self) -> list[Transform]:
        return [leaf for part in self.parts for leaf in part.leaves()]

    def merge(self, other: Self) -> Self:
        self._check_kind(other)
        if [part.name for part in self.parts] != [part.name for part in other.parts]:
            raise ValueError(f"{self!r} and {other!r} are made of different transforms")
        pairs = zip(self.parts, other.parts, strict=True)
        self.parts = [copy.deepcopy(part).merge(another) for part, another in pairs]  # of which one may raise
        return self

    def _with_parts(self, parts: list[Transform]) -> Self:
        if all(part is own for part, own in zip(parts, self.parts, strict=True)):
            return self
        form = copy.copy(self)
        form.parts = parts
        return form

    def state(self) -> dict[str, Any]:
        return {"parts": [{"name": part.name, **part.state()} for part in self.parts]}

    def restore(self, state: dict[str, Any]) -> None:
        from perceptrank.transforms.registry import from_plain

        self.parts = [from_plain(part) for part in state["parts"]]
        if not self.parts:
            raise ValueError(f"{self.name} must be made of at least one transform")
        self._fit_together()

    def largest_norm(self, n_features: int, longest: int) -> float:
        return self.largest_norm_after(math.inf, n_features, longest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


class Chain(Composition):
    """Apply transforms one after the other, each to what the one before it returns.

    Examples
    --------
    >>> Chain("running", "clip")
    Chain(RunningStandardizer(), Clip(3))
    """

    name = "chain"

    def _fit_together(self) -> None:
        self.parts = in_turn(self.parts)

    @property
    def _first(self) -> list[Transform]:
        return self.parts[:1]

    def steps(self) -> list[Transform]:
        return [step for part in self.parts for step in part.steps()]

    def trace(self, lineage: Lineage, inputs: Outputs) -> Outputs | None:
        outputs: Outputs | None = inputs
        for part in self.parts:
            outputs = None if outputs is None else part.trace(lineage, outputs)
        return outputs

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        for part, width in self._widths(n_features):
            X = part.add_nodes(nodes, X, width)
        return X

    def apply(self, X: Features, offsets: Ints) -> Features:
        for part in self.parts:
            X = part.apply(X, offsets)
        return X

    def learn_and_apply(self, X: Features, offsets: Ints) -> Features:
        for part in self.parts:
            X = part.learn_and_apply(X, offsets)
        return X

    def _widths(self, n_features: int) -> Iterator[tuple[Transform, int]]:
        for part in self.parts:
            yield part, n_features
            n_features = part.n_outputs(n_features)

    def n_outputs(self, n_features: int) -> int:
        for part in self.parts:
            n_features = part.n_outputs(n_features)
        return n_features

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for part in self.parts:
            names = part.output_names(names)
        return names

    def sources(self, n_features: int) -> Ints | None:
        origins: Ints = np.arange(n_features)
        for part in self.parts:
            if (sources := part.sources(len(origins))) is None:
                return None
            falling = sources < 0
            before = origins[np.where(falling, -1 - sources, sources)]
            origins = np.where(falling & (before >= 0), -1 - before, before)
        return origins

    def slopes(self, n_features: int) -> Floats | None:
        product = np.ones(n_features)
        for part in self.parts:
            if (slopes := part.slopes(n_features)) is None:
                return None
            product = product * slopes
        return product

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        for part, width in self._widths(n_features):
            norm = part.largest_norm_after(norm, width, longest)
        return norm


class Join(Composition, WritingTransform):
    """Put the outputs of several transforms of the same features side by side.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0], [30.0], [2.0]], [0, 1, 0], feature_names=["bm25"])
    >>> joined = Join("query-minmax", "query-rank").transform(stream)
    >>> joined.X.round(2)
    array([[ 0.  , -1.  ],
           [ 1.  ,  1.  ],
           [ 0.03,  0.  ]])
    >>> joined.feature_names
    ('bm25 query-minmax', 'bm25 query-rank')
    """

    name = "join"

    def _fit_together(self) -> None:
        if self.makes_sparse and not all(part.makes_sparse for part in self.parts):
            dense = next(part for part in self.parts if not part.makes_sparse)
            raise ValueError(f"all parts of a Join must be sparse, or none: {dense!r} is dense")

    def trace(self, lineage: Lineage, inputs: Outputs) -> Outputs | None:
        traced = [outputs for part in self.parts if (outputs := part.trace(lineage, inputs)) is not None]
        return Outputs.beside(traced) if len(traced) == len(self.parts) else None

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        return str(nodes.add("Concat", *(part.add_nodes(nodes, X, n_features) for part in self.parts), axis=1))

    def _apply(self, X: Any, offsets: Ints, *, learning: bool) -> Any:
        if not isinstance(X, SparseFeatures) and not self.makes_sparse:
            return super()._apply(X, offsets, learning=learning)
        parts: Any = self.parts
        return SparseFeatures.beside(
            [part.learn_and_apply(X, offsets) if learning else part.apply(X, offsets) for part in parts]
        )

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        for part in self.parts:
            part.write(X, offsets, outputs, first, learning=learning)
            first += part.n_outputs(X.shape[1])

    def n_outputs(self, n_features: int) -> int:
        return sum(part.n_outputs(n_features) for part in self.parts)

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        return tuple(f"{name} {part.name}" for part in self.parts for name in part.output_names(names) or ())

    def sources(self, n_features: int) -> Ints | None:
        known = [sources for part in self.parts if (sources := part.sources(n_features)) is not None]
        return np.concatenate(known) if len(known) == len(self.parts) else None

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        return math.hypot(*(part.largest_norm_after(norm, n_features, longest) for part in self.parts))
