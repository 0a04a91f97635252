"""The interface of transforms."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints, aligned
from perceptrank.kernels.lanes import LANES
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.parameter_docs import add_inherited_parameters
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures, dense
from perceptrank.stream.validation import as_any_features, as_grouped
from perceptrank.transforms.forms import Added, Affine, Filling, Folding, Nodes, Piecewise
from perceptrank.transforms.lineage import Form, Lineage, Outputs

# What does the work of a transform, and what it answers about that to whoever exports and explains models.
_WORK = ("apply", "learn_and_apply", "write", "write_columns")
_ANSWERS: tuple[str, ...] = ("label", "unit", "spread", "affine", "piecewise", "filling", "evaluate", "spreads")
_ANSWERS += ("fold_weights", "sum_with", "trace", "steps", "leaves", "add_nodes")


class Transform(ABC):
    """A transform of features that works query by query, and may learn on the way.

    To write one, define `apply`, and `learn_and_apply` if it learns; `n_outputs` if it changes the number of features.
    To explain and export it, saying that it is `affine` or `piecewise` is enough; otherwise define `rises`, `label`,
    `unit` and `add_nodes`. `transforms.register_transform` makes its name known to the command line and model files.

    Attributes
    ----------
    name : str
        Name in model files and on the command line.
    learns : bool
        Whether outputs depend on what it has seen.
    accepts_missing : bool
        Whether features may be NaN; outputs never are.
    accepts_any_columns : bool
        Whether it goes by the names of columns, so that these may come, go and change their order.
    makes_sparse : bool
        Whether it returns `SparseFeatures` for dense features.
    rises : bool
        Whether it makes one feature of each, in their order, that within a query never falls where the feature rises.
    scope : "feature", "query", or "document"
        What an output depends on: one feature of a document, that feature in the whole query, or the whole document.
    label, unit : str
        What an output is, such as "z-score" or "rank", and what one more of it is, in words; by default its name.
    spread : float
        Standard deviation of outputs; NaN if it is not known, or differs between features.
    settles : bool
        Whether what it learns stops moving after a number of documents.
    wraps : bool
        Whether it is made of other transforms, or of a ranker, and therefore has no name that settings could follow.
    adds : str
        Name of the feature that it adds after the others; empty if it does not.
    learns_grades : bool
        Whether it learns from the grades of queries as well, after these were ranked: `learn_grades`.

    Notes
    -----
    Arguments that mean the same in all methods:

    - `X`: features, float32 or float64, an array of shape (documents, features).
    - `offsets`: where each query begins in X, and the number of documents.
    - `outputs`, `first`: an array of shape (documents, columns), and the first of its columns to write to.
    - `learning`: whether to learn from each query as well.
    - `n_features`: number of features before the transform.
    - `names`: names of these features; None if they have none.
    - `longest`: largest number of documents of a query.
    - `norm`: upper bound on the norm of a document before the transform; may be infinite.
    - `nodes`: an ONNX graph of one query, in which the argument X is the name of the features.
    - `weights`: weights of the outputs.
    - `before`: standard deviations of the features.
    - `form`: what the features are, in words: `label`, `unit`, and what they are made `of`.
    - `lineage`, `inputs`: the record of what outputs are made of, and the features as earlier transforms made them.
    - `stream`: a `QueryStream`; to learn from, also an iterable of blocks.
    - `other`: a transform of the same kind and settings, learned on other queries.
    - `state`: what `state` returned.
    - `relevance`, `query_weights`: grades of the documents, and the weight of each query.

    Examples
    --------
    >>> import perceptrank as pr
    >>> class Halves(Transform):
    ...     name = "halves"
    ...     def apply(self, X, offsets):
    ...         return X / 2
    >>> ranker = pr.ListwisePerceptron(measure="ap", transforms=Halves())
    >>> ranker.learn_one([[4.0, 0.0], [0.0, 2.0]], [0, 1])
    True
    >>> ranker.coef_
    array([-2.,  1.])
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False
    accepts_missing: ClassVar[bool] = False
    accepts_any_columns: ClassVar[bool] = False
    makes_sparse: ClassVar[bool] = False
    rises: ClassVar[bool] = False
    scope: ClassVar[Literal["feature", "query", "document"]] = "feature"
    label: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    spread: ClassVar[float] = math.nan
    settles: ClassVar[bool] = False
    wraps: ClassVar[bool] = False
    adds: ClassVar[str] = ""
    learns_grades: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Forget the answers of a transform where a subclass does something else, as they would no longer be true."""
        super().__init_subclass__()
        add_inherited_parameters(cls)
        has_named_base = any("name" in vars(base) for base in cls.__mro__[1:])
        if has_named_base and any(method in vars(cls) for method in _WORK):
            for answer in _ANSWERS:
                if answer not in vars(cls):
                    setattr(cls, answer, getattr(Transform, answer))

    @property
    def is_settled(self) -> bool:
        """True if its outputs no longer depend on what it sees: it does not learn, or is frozen."""
        return not self.learns or bool(getattr(self, "frozen", False))

    @property
    def has_graph(self) -> bool:
        """True if it can be a part of an ONNX graph."""
        is_known = self.affine(1) is not None or self.piecewise(1) is not None
        return is_known or type(self).add_nodes is not Transform.add_nodes

    @property
    def has_sum(self) -> bool:
        """True if it makes scores, or leaves of trees, of features: `sum_with`."""
        return type(self).sum_with is not Transform.sum_with

    def steps(self) -> list[Transform]:
        """Return the transforms that it applies one after the other: itself, unless it is a chain."""
        return [self]

    def leaves(self) -> list[Transform]:
        """Return the transforms that it is made of in the end: itself, unless it is made of others."""
        return [self]

    def sparse_form(self) -> Transform:
        """Return the transform that takes its place where features are sparse; raise `TypeError` if there is none."""
        raise TypeError(
            f"{self.name} would make sparse features dense, as zeros do not stay zeros; transforms='running' divides "
            "them by their spread, and to_dense() makes a stream dense"
        )

    def transform(self, stream: QueryStream) -> QueryStream:
        """Return a copy of a stream with transformed features and their names, without learning.

        A sparse stream raises `TypeError` if the transform would make it dense.
        """
        form = (self.sparse_form() if stream.is_sparse else self).for_columns(stream.feature_names)
        X: Any = stream.X if stream.is_sparse else dense(stream.X)
        outputs = form.apply(X, stream.offsets)
        if not stream.is_sparse:
            outputs = check_outputs(self, outputs, X)
        return stream.with_features(outputs, feature_names=self.output_names(stream.feature_names))

    def for_columns(self, names: tuple[str, ...] | None) -> Transform:
        """Return this transform for columns of these names: itself, or one that shares what it learns."""
        return self

    @abstractmethod
    def apply(self, X: Features, offsets: Ints) -> Features:
        """Return the transformed features of a block, of the same dtype, without learning."""

    def learn_and_apply(self, X: Features, offsets: Ints) -> Features:
        """Learn from each query of a block, if this transform learns, and return its transformed features."""
        return self.apply(X, offsets)

    def queries_left(self, query_weights: Floats) -> int:
        """Return how many of the next queries, of these weights, it can take before grades may change its outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not learn from grades")

    def learn_grades(self, relevance: Floats, offsets: Ints, query_weights: Floats) -> None:
        """Learn from the grades and weights of the queries that `learn_and_apply` was given last."""

    def n_outputs(self, n_features: int) -> int:
        """Return the number of outputs for `n_features` features."""
        return n_features

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the outputs for features of these names; None if they have none."""
        return names

    def sources(self, n_features: int) -> Ints | None:
        """Return the source feature j of each output (-1 - j if it may fall as j rises); None if it has several."""
        return np.arange(n_features) if self.rises else None

    def slopes(self, n_features: int) -> Floats | None:
        """Return a factor per feature if each output is its feature times that plus a constant, for good; else None."""
        affine = self.affine(n_features)
        is_known = affine is not None and self.is_settled and len(affine.inverse) == n_features
        return affine.inverse if affine is not None and is_known else None

    def affine(self, n_features: int) -> Affine | None:
        """Return mean and inverse if each feature x now becomes (x - mean) * inverse; else None."""
        return None

    def piecewise(self, n_features: int) -> Piecewise | None:
        """Return the functions of features, if outputs are piecewise constant or linear, as they are now; else None."""
        return None

    def filling(self, n_features: int) -> Filling | None:
        """Return what missing values become now, if filling them in is all that the transform does; else None."""
        return None

    def sum_with(self, weights: Floats, n_features: int) -> Added:
        """Return the trees or the ranker that score as weights of outputs do, if it `has_sum`."""
        raise NotImplementedError(f"{self!r} makes no scores of features")

    def fold_weights(self, weights: Floats, n_features: int) -> Folding | None:
        """Return weights of features that score as those of outputs do, if outputs are signed sums of features."""
        return None

    def evaluate(self, X: Floats) -> Floats:
        """Return the outputs of float64 features of any size, bit for bit, for the scope "feature"."""
        return np.asarray(self.apply(X, np.array([0, len(X)])), np.float64)

    def describe(self, form: Form) -> Form:
        """Return what outputs are, in words."""
        return form.become(self.label or self.name, self.unit or f"unit after {self.name}")

    def remarks(self, names: tuple[str, ...] | None) -> list[str]:
        """Return sentences on what it has learned, which the explanation of a model says beside its weights."""
        return []

    def spreads(self, before: Floats) -> Floats:
        """Return the standard deviations of outputs that have one for each feature; NaN where they are not known."""
        return np.full(len(before), self.spread)

    def trace(self, lineage: Lineage, inputs: Outputs) -> Outputs | None:
        """Record what each output is made of; None if outputs may be made of several features."""
        n_features = len(inputs.source)
        if (affine := self.affine(n_features)) is not None:
            form = lineage.rename(inputs, self.describe)
            return inputs._replace(factor=inputs.factor * affine.inverse, spread=self.spreads(inputs.spread), form=form)
        if (functions := self.piecewise(n_features)) is not None:
            return lineage.split(inputs, functions, self.describe)
        if (sources := self.sources(n_features)) is None:
            return None
        outputs = lineage.bend(inputs, self.describe)
        if np.array_equal(sources, np.arange(n_features)):
            return outputs._replace(spread=self.spreads(inputs.spread))
        falling = sources < 0
        outputs = outputs.take(np.where(falling, -1 - sources, sources))
        base = np.where(falling, lineage.new_bases(len(sources)), outputs.base)
        return outputs._replace(rises=outputs.rises & ~falling, base=base)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        """Add what it does to an ONNX graph, if `has_graph`; return the name of the matrix of outputs."""
        if (affine := self.affine(n_features)) is not None:
            return str(nodes.add("Mul", nodes.add("Sub", X, affine.mean), affine.inverse))
        if (functions := self.piecewise(n_features)) is not None:
            return functions.add_nodes(nodes, X)
        raise NotImplementedError(f"there is no ONNX graph of {self!r}")

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document, infinity if there is none."""
        return math.inf

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        """Return an upper bound as `largest_norm` does, given one on the norm of the document before."""
        return self.largest_norm(n_features, longest)

    def merge(self, other: Self) -> Self:
        """Add the statistics of another transform to this one's; raise if they do not fit together."""
        self._check_kind(other)
        if self.learns:
            raise TypeError(f"statistics of {type(self).__name__} cannot be merged")
        if self.state() != other.state():
            raise ValueError(f"{self!r} and {other!r} differ in their settings")
        return self

    def _check_kind(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(f"{self!r} can only be merged with another {type(self).__name__}, got {other!r}")

    def settings(self) -> dict[str, Any]:
        """Return the arguments that construct it, by name; each must be an attribute of that name."""
        return {name: getattr(self, name) for name in _parameters(type(self))}

    def state(self) -> dict[str, Any]:
        """Return settings and learned statistics as numbers and lists."""
        return self.settings()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore settings and statistics; raise if they are inconsistent or incomplete."""
        type(self).__init__(self, **{name: state[name] for name in _parameters(type(self))})

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Transform validated features into columns of an array."""
        written = check_outputs(self, self.learn_and_apply(X, offsets) if learning else self.apply(X, offsets), X)
        outputs[:, first : first + written.shape[1]] = written

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and self.name == other.name and self.state() == other.state()

    def __hash__(self) -> int:
        return hash(self.name)


class WritingTransform(Transform):
    """A transform that writes to columns of an array, so that a join of several makes no copies."""

    def apply(self, X: Features, offsets: Ints) -> Features:
        return self._apply(X, offsets, learning=False)

    def learn_and_apply(self, X: Features, offsets: Ints) -> Features:
        return self._apply(X, offsets, learning=True)

    def _apply(self, X: Features, offsets: Ints, *, learning: bool) -> Features:
        X, offsets = as_grouped(X, offsets)
        outputs: Features = aligned((len(X), self.n_outputs(X.shape[1])), X.dtype)
        self.write(X, offsets, outputs, 0, learning=learning)
        return outputs

    @abstractmethod
    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Transform validated features into columns of an array, from column `first` on."""


class LearningTransform(Transform):
    """A transform that can learn from a stream by itself, and be frozen: then what it has learned stays as it is."""

    learns = True
    frozen = False

    def learn(self, stream: Blocks) -> Self:
        """Learn from the features of a stream; return the transform itself."""
        for part in as_blocks(stream):
            for block in part.blocks():
                self._learn_block(block)
        return self

    def _learn_block(self, block: QueryStream) -> None:
        self.learn_and_apply(dense(block.X), block.offsets)

    def freeze(self) -> Self:
        """Stop learning: what has been learned stays as it is. Return the transform itself."""
        self.frozen = True
        return self


class ElementwiseTransform(WritingTransform):
    """A transform of each number by itself that leaves 0 as it is, so that it takes sparse features as well."""

    def sparse_form(self) -> Transform:
        return self

    def _apply(self, X: Any, offsets: Ints, *, learning: bool) -> Any:
        if not isinstance(X, SparseFeatures):
            return super()._apply(X, offsets, learning=learning)
        values = X.values[X.starts[0] : X.starts[-1]]
        if len(values) == 0:
            return X
        column: Any = values[:, None]
        return X.with_values(super()._apply(column, np.array([0, len(values)]), learning=learning)[:, 0])


class ColumnTransform(WritingTransform):
    """A transform of each column by itself, whose kernel needs at least LANES columns."""

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        n_features = X.shape[1]
        if n_features >= LANES:
            self.write_columns(X, offsets, outputs, first)
            return
        wider: Features = np.zeros((len(X), LANES), X.dtype)
        wider[:, :n_features] = X
        written = np.empty_like(wider)
        self.write_columns(wider, offsets, written, 0)
        outputs[:, first : first + n_features] = written[:, :n_features]

    @abstractmethod
    def write_columns(self, X: Features, offsets: Ints, outputs: Features, first: int) -> None:
        """Write the outputs of at least LANES columns into columns of an array."""


@cache
def _parameters(kind: type[Transform]) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


def check_outputs(transform: Transform, outputs: Any, X: Any) -> Any:
    """Return what a transform, perhaps of another package, returned for X; raise unless kernels can take it."""
    name = type(transform).__name__
    if isinstance(X, SparseFeatures) and not isinstance(outputs, SparseFeatures):
        raise TypeError(f"{name} must return sparse features for sparse ones, got {type(outputs).__name__}")
    if transform.makes_sparse and not isinstance(outputs, SparseFeatures):
        raise TypeError(f"{name} must return sparse features, as makes_sparse says, got {type(outputs).__name__}")
    try:
        features = as_any_features(outputs)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must return features: {error}") from None
    if isinstance(features, SparseFeatures) and not (isinstance(X, SparseFeatures) or transform.makes_sparse):
        raise TypeError(f"{name} must return dense features for dense ones, unless makes_sparse is True")
    shape = len(X), transform.n_outputs(X.shape[1])
    if features.shape != shape:
        raise ValueError(f"{name} must return features of shape {shape}, got {features.shape}")
    return features


def check_width(n_learned: int, n_features: int) -> None:
    """Raise if a transform has learned from another number of features."""
    if n_learned != n_features:
        raise ValueError(f"the transform was learned from {n_learned} features, got {n_features}")


def learned_or_zeros(first: Floats, second: Floats, n_features: int) -> tuple[Floats, Floats]:
    """Return copies of two statistics of each feature, or zeros if nothing was learned."""
    if len(first) == 0:
        return np.zeros(n_features), np.zeros(n_features)
    check_width(len(first), n_features)
    return first.copy(), second.copy()


def in_turn(transforms: list[Transform]) -> list[Transform]:
    """Return transforms applied one after the other, those of sparse features in their sparse form, or raise."""
    if not any(transform.makes_sparse for transform in transforms[:-1]):
        return transforms
    first = next(place for place, transform in enumerate(transforms) if transform.makes_sparse)
    return transforms[: first + 1] + [transform.sparse_form() for transform in transforms[first + 1 :]]


TransformLike: TypeAlias = str | Transform | Sequence[str | Transform] | None
