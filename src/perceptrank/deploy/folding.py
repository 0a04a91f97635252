"""Folding transforms into weights of raw features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.transforms.transform import Transform


class Term(NamedTuple):
    """The part of the score that a feature, of this name, adds: weight * (value - offset)."""

    name: str
    weight: float
    offset: float


class RawSum(ABC):
    """A model as a sum over raw features, of which some are used.

    - `X`: raw features of documents, an array of shape (documents, features) or SparseFeatures.
    """

    algorithm: str  # the learner's name
    names: tuple[str, ...]  # of all features
    bias: float  # part of the score that depends on no feature
    notes: tuple[str, ...]  # what must be known of the features

    kind: ClassVar[str] = "a linear model"
    unused: ClassVar[str] = "have no weight"

    @property
    @abstractmethod
    def places(self) -> Any:
        """Columns of the features in use."""

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the features in use."""
        return tuple(self.names[j] for j in self.places.tolist())

    def left_out(self) -> list[str]:
        """Return a note on how many features are not in use, if any are not."""
        n = len(self.names) - len(self.places)
        return [f"{n} of {len(self.names)} features {self.unused} and are left out"] if n else []

    def columns(self, X: AnyFeatures) -> Any:
        """Return the columns in use, dense and in double precision."""
        if isinstance(X, SparseFeatures):
            return X.select(self.places).toarray().astype(np.float64)
        return np.asarray(X, np.float64)[:, self.places]


@dataclass(frozen=True)
class Folded(RawSum):
    """A model as a linear function of raw features.

    score(x) = bias + the sum over features of weights * (x - offsets) = constant + the sum of weights * x

    The first form loses no digits if a feature's mean is large beside its deviation, and its scores are those of
    `predict`. Without the constant, which is the same for all documents, the second ranks alike.

    - `X`: raw features of documents, an array of shape (documents, features) or SparseFeatures.

    Attributes
    ----------
    algorithm : str
        The learner's name.
    names : tuple of str
        Names of the features: f1, f2, ... if they have none.
    weights, offsets : arrays of shape (features,)
        Weights of raw features, and what is subtracted from them first; both 0 for a feature without weight.
    spreads : array of shape (features,)
        What the transforms divide a feature by: weights * spreads are the weights of standardised features.
    bias : float
        Part of the score that depends on no feature: 0, unless there are standardisers one after the other.
    is_sparse : bool
        True if the model has learned from sparse features, so that one that is absent is 0.
    notes : tuple of str
        What must be known of the features.
    """

    algorithm: str
    names: tuple[str, ...]
    weights: Floats
    offsets: Floats
    spreads: Floats
    bias: float
    is_sparse: bool
    notes: tuple[str, ...]

    @property
    def constant(self) -> float:
        """The score of a document whose features are all 0."""
        return self.bias - float(self.weights @ self.offsets)

    @property
    def places(self) -> Any:
        """Columns of the features that have a weight."""
        return np.flatnonzero(self.weights)

    def terms(self) -> Iterator[Term]:
        """Yield names, weights and offsets of the features that have a weight."""
        for j in self.places.tolist():
            yield Term(self.names[j], float(self.weights[j]), float(self.offsets[j]))

    def scores(self, X: AnyFeatures) -> Floats:
        """Return the scores of documents, as `predict` does."""
        scores: Floats = (self.columns(X) - self.offsets[self.places]) @ self.weights[self.places] + self.bias
        return scores


def fold(model: Any) -> Folded:
    r"""Fold the transforms of a model into weights of raw features.

    For a feature x that the transforms standardise to (x - m) s, with the mean m and 1 over the deviation s as they
    are now, and the weight w of that: w (x - m) s = (w s) (x - m). Of standardisers one after the other, with m', s' of
    the second, w ((x - m) s - m') s' = (w s s') (x - m) - w m' s', of which the last is part of the bias.

    Parameters
    ----------
    model : learner
        One that has learned, with transforms that are affine for each feature: none, `running`, `running-spread`, or
        several of them one after the other.

    Raises
    ------
    ValueError
        If the model is not a linear function of raw features; the message says why, and the way out.

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = pr.ListwisePerceptron(transforms="running")
    >>> ranker.learn_one([[0.0, 10.0], [4.0, 10.0], [8.0, 13.0]], [0, 1, 2])
    True
    >>> folded = fold(ranker)
    >>> folded.offsets
    array([ 4., 11.])
    >>> bool(abs(folded.scores([[8.0, 13.0]]) - ranker.predict([[8.0, 13.0]])) < 1e-15)
    True
    """
    return fold_function(RankingFunction.of(model))


def fold_function(function: RankingFunction) -> Folded:
    """Fold the transforms of a ranking function into weights of raw features."""
    n = len(function.names)
    # What the transforms so far do to a feature x: slope * (x - offset) + shift. The first mean becomes the offset, as
    # digits are lost where it is large; those of later standardisers are small.
    slope, offset, shift = np.ones(n), np.zeros(n), np.zeros(n)
    for transform in function.transforms:
        affine = transform.affine(n)
        if affine is None:
            raise refuse(transform, function)
        mean, inverse = affine
        first = (offset == 0.0) & (shift == 0.0) & (slope != 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            offset = np.where(first, mean / np.where(first, slope, 1.0), offset)
            shift = np.where(first, 0.0, (shift - mean) * inverse)
            slope = slope * inverse
    with np.errstate(over="ignore", invalid="ignore"):
        weights = function.weights * slope
        bias = float(function.weights @ shift)
    offsets = np.where(weights == 0.0, 0.0, offset)
    for j in np.flatnonzero(~np.isfinite(weights) | ~np.isfinite(offsets) | ((weights == 0.0) & (slope != 0.0))):
        if function.weights[j] != 0.0:
            raise ValueError(
                f"feature {function.names[j]!r} has a spread of {1 / slope[j]:g} and a weight of "
                f"{function.weights[j]:g}: for raw features that is a weight beyond double precision; scale the feature"
            )
    if not weights.any():
        raise ValueError("all weights are 0, so that all documents have the same score: there is nothing to export")
    spreads = np.where(weights == 0.0, 1.0, 1.0 / np.where(slope == 0.0, 1.0, slope))
    notes = function.notes()
    if any(transform.learns for transform in function.transforms):
        notes.append("means and deviations are those that the model has now: export it again when it has learned on")
    return Folded(function.algorithm, function.names, weights, offsets, spreads, bias, function.is_sparse, tuple(notes))


def refuse(transform: Transform, function: RankingFunction) -> ValueError:
    """Return the error that says why a model is not a linear function of raw features, and what to do."""
    scopes = {leaf.scope for leaf in transform.leaves()}
    if "query" in scopes:
        why = "depends on the other documents of the query, so no weights of a document's own features rank alike"
    elif "document" in scopes:
        why = "makes functions of all features together that are not linear, so no weights of raw features rank alike"
    else:
        why = "is not linear in each feature, so no weights of raw features rank alike"
    has_graph = all(leaf.has_graph for step in function.transforms for leaf in step.leaves())
    way = "export to 'onnx', whose graph ranks a whole query, or " if has_graph and not function.is_sparse else ""
    return ValueError(
        f"{function.algorithm} ranks by features after {transform!r}, which {why}: {way}learn again with "
        "transforms='running' alone (--transform running of the command learn)"
    )
