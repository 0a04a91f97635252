"""The interface of transforms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from perceptrank.kernels.alignment import aligned
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.lanes import LANES
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures, dense
from perceptrank.stream.validation import as_any_features, as_grouped


class Transform(ABC):
    """A transform of features that works query by query, and may learn on the way.

    To write one, define `apply`, and `learn_and_apply` if it learns; `n_outputs` if it changes the number of features.

    Attributes
    ----------
    name : str
        Name in model files and on the command line.
    learns : bool
        True if it has statistics, so that what it returns depends on what it has seen.
    accepts_missing : bool
        True if features may be NaN, and what it returns is not.
    accepts_any_columns : bool
        True if it goes by the names of columns, so that these may come, go and change their order.
    makes_sparse : bool
        True if it returns `SparseFeatures` for dense features.
    rises : bool
        True if it makes one feature of each, in their order, which within a query never falls where the feature rises.

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

    def sparse_form(self) -> Transform:
        """Return the transform that takes its place where features are sparse.

        What it returns has an `apply`, and a `learn_and_apply` if it learns, that take and return `SparseFeatures`.

        Returns
        -------
        Transform

        Raises
        ------
        TypeError
            If there is none, as zeros would not stay zeros.
        """
        raise TypeError(
            f"{self.name} would make sparse features dense, as zeros do not stay zeros; transforms='running' divides "
            "them by their spread, and to_dense() makes a stream dense"
        )

    def transform(self, stream: QueryStream) -> QueryStream:
        """Transform the features of a stream, without learning.

        Parameters
        ----------
        stream : QueryStream

        Returns
        -------
        QueryStream
            A copy, with the names of the new features.

        Raises
        ------
        TypeError
            If the stream is sparse, and the transform would make it dense.
        ValueError
            If a feature is invalid, or the features are not those that were learned.
        """
        if stream.is_sparse:
            form: Any = self.sparse_form().for_columns(stream.feature_names)
            made = form.apply(stream.X, stream.offsets)
            return stream.with_features(made, feature_names=self.output_names(stream.feature_names))
        given = dense(stream.X)
        X = checked(self, self.for_columns(stream.feature_names).apply(given, stream.offsets), given)
        return stream.with_features(X, feature_names=self.output_names(stream.feature_names))

    def for_columns(self, names: tuple[str, ...] | None) -> Transform:
        """Return this transform for columns of these names.

        Parameters
        ----------
        names : tuple of str or None

        Returns
        -------
        Transform
            Itself, or one that shares what it learns.
        """
        return self

    @abstractmethod
    def apply(self, X: Features, offsets: Ints) -> Features:
        """Return the transformed features of a block, without learning.

        Parameters
        ----------
        X : array of shape (documents, features)
            Features, float32 or float64.
        offsets : array of int of shape (queries + 1,)
            Where each query begins, and the number of documents.

        Returns
        -------
        array of shape (documents, outputs)
            Features of the same dtype; `SparseFeatures` if it makes such.
        """

    def learn_and_apply(self, X: Features, offsets: Ints) -> Features:
        """Learn from each query of a block, if this transform learns, and return its transformed features.

        Parameters
        ----------
        X : array of shape (documents, features)
            Features, float32 or float64.
        offsets : array of int of shape (queries + 1,)
            Where each query begins, and the number of documents.

        Returns
        -------
        array of shape (documents, outputs)
        """
        return self.apply(X, offsets)

    def n_outputs(self, n_features: int) -> int:
        """Return the number of features that so many become.

        Parameters
        ----------
        n_features : int

        Returns
        -------
        int
        """
        return n_features

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the features that features of these names become.

        Parameters
        ----------
        names : tuple of str or None

        Returns
        -------
        tuple of str or None
            None if the features have no names.
        """
        return names

    def sources(self, n_features: int) -> Ints | None:
        """Return the feature that each output is made of.

        Parameters
        ----------
        n_features : int

        Returns
        -------
        array of int of shape (outputs,), or None
            For an output of feature j, j if the output, within a query, never falls where the feature rises, else -1 -
            j. None if an output may be made of several features.
        """
        return np.arange(n_features) if self.rises else None

    def slopes(self, n_features: int) -> Floats | None:
        """Return the factors of features, if outputs are features times these plus constants, from now on.

        Parameters
        ----------
        n_features : int

        Returns
        -------
        array of float of shape (features,), or None
            None if the transform is not of that form, or still learns.
        """
        return None

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document.

        Parameters
        ----------
        n_features : int
            Number of features, before the transform.
        longest : int
            Largest number of documents of a query.

        Returns
        -------
        float
            Infinity if there is none.
        """
        return math.inf

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document, given one on its norm before.

        It is `largest_norm`, unless the transform says more: one that keeps features beside new ones does.

        Parameters
        ----------
        norm : float
            Upper bound on the norm of a document before the transform; may be infinite.
        n_features : int
            Number of features, before the transform.
        longest : int
            Largest number of documents of a query.

        Returns
        -------
        float
            Infinity if there is none.
        """
        return self.largest_norm(n_features, longest)

    def merge(self, other: Self) -> Self:
        """Add the statistics of another transform of the same kind, learned on other queries, to this one's.

        Parameters
        ----------
        other : Transform

        Returns
        -------
        Transform
            Itself.

        Raises
        ------
        TypeError
            If the other one is of another kind, or statistics of this kind cannot be merged.
        ValueError
            If their settings differ, or what they have learned does not fit together.
        """
        self._check_kind(other)
        if self.learns:
            raise TypeError(f"statistics of {type(self).__name__} cannot be merged")
        if self.state() != other.state():
            raise ValueError(f"{self!r} and {other!r} differ in their settings")
        return self

    def _check_kind(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(f"{self!r} can only be merged with another {type(self).__name__}, got {other!r}")

    def state(self) -> dict[str, Any]:
        """Return settings and learned statistics as numbers and lists.

        Returns
        -------
        dict
        """
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore settings and statistics.

        Parameters
        ----------
        state : dict
            As `state` returned it.

        Raises
        ------
        ValueError, KeyError, or TypeError
            If it is inconsistent or incomplete.
        """

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Transform validated features into columns of an array.

        Parameters
        ----------
        X : array of shape (documents, features)
        offsets : array of int of shape (queries + 1,)
        outputs : array of shape (documents, columns)
            Written to.
        first : int
            The first column to write to.
        learning : bool
            Learn from each query as well.
        """
        made = checked(self, self.learn_and_apply(X, offsets) if learning else self.apply(X, offsets), X)
        outputs[:, first : first + made.shape[1]] = made

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and self.name == other.name and self.state() == other.state()

    def __hash__(self) -> int:
        return hash(self.name)


class WritingTransform(Transform):
    """A transform that writes to columns of an array, so that a join of several makes no copies."""

    def apply(self, X: Features, offsets: Ints) -> Features:
        """Return the transformed features of a block, without learning."""
        return self._apply(X, offsets, learning=False)

    def learn_and_apply(self, X: Features, offsets: Ints) -> Features:
        """Learn from each query of a block, if this transform learns, and return its transformed features."""
        return self._apply(X, offsets, learning=True)

    def _apply(self, X: Features, offsets: Ints, *, learning: bool) -> Features:
        X, offsets = as_grouped(X, offsets)
        outputs: Features = aligned((len(X), self.n_outputs(X.shape[1])), X.dtype)
        self.write(X, offsets, outputs, 0, learning=learning)
        return outputs

    @abstractmethod
    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Transform validated features into columns of an array, from column `first` on."""


class ElementwiseTransform(WritingTransform):
    """A transform of each number by itself that leaves 0 as it is, so that it takes sparse features as well."""

    def sparse_form(self) -> Transform:
        """Return this transform."""
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
        """Write the transformed features into columns of an array, from column `first` on."""
        n_features = X.shape[1]
        if n_features >= LANES:
            self.write_columns(X, offsets, outputs, first)
            return
        wider: Features = np.zeros((len(X), LANES), X.dtype)
        wider[:, :n_features] = X
        made = np.empty_like(wider)
        self.write_columns(wider, offsets, made, 0)
        outputs[:, first : first + n_features] = made[:, :n_features]

    @abstractmethod
    def write_columns(self, X: Features, offsets: Ints, outputs: Features, first: int) -> None:
        """Write the outputs of at least LANES columns into columns of an array.

        Parameters
        ----------
        X : array of shape (documents, features)
        offsets : array of int of shape (queries + 1,)
        outputs : array of shape (documents, columns)
            Written to.
        first : int
            The first column to write to.
        """


def checked(transform: Transform, made: Any, X: Any) -> Any:
    """Return what a transform, perhaps of another package, has made of X; raise unless kernels can take it.

    Values that are not finite are left to the kernels, which notice them.
    """
    name = type(transform).__name__
    if isinstance(X, SparseFeatures) and not isinstance(made, SparseFeatures):
        raise TypeError(f"{name} must return sparse features for sparse ones, got {type(made).__name__}")
    if transform.makes_sparse and not isinstance(made, SparseFeatures):
        raise TypeError(f"{name} must return sparse features, as makes_sparse says, got {type(made).__name__}")
    try:
        features = as_any_features(made)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must return features: {error}") from None
    if isinstance(features, SparseFeatures) and not (isinstance(X, SparseFeatures) or transform.makes_sparse):
        raise TypeError(f"{name} must return dense features for dense ones, unless makes_sparse is True")
    shape = len(X), transform.n_outputs(X.shape[1])
    if features.shape != shape:
        raise ValueError(f"{name} must return features of shape {shape}, got {features.shape}")
    return features


def in_turn(transforms: list[Transform]) -> list[Transform]:
    """Return transforms that are applied one after the other: those of sparse features in their sparse form.

    Raises `TypeError` if one has none.
    """
    if not any(transform.makes_sparse for transform in transforms[:-1]):
        return transforms
    first = next(place for place, transform in enumerate(transforms) if transform.makes_sparse)
    return transforms[: first + 1] + [transform.sparse_form() for transform in transforms[first + 1 :]]


TransformLike: TypeAlias = str | Transform | Sequence[str | Transform] | None
