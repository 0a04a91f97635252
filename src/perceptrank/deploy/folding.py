"""Folding transforms into weights of raw features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from perceptrank.deploy.forests import join_forests
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.transforms.forms import Added
from perceptrank.transforms.transform import Transform
from perceptrank.transforms.trees.forest import Forest


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
    forest: Forest | None  # trees that are added to the rest

    unused: ClassVar[str] = "have no weight"

    @property
    def kind(self) -> str:
        """Kind of the model, in words."""
        return "a linear model" if self.forest is None else "a linear model and trees"

    @property
    @abstractmethod
    def places(self) -> Any:
        """Columns of the features in use."""

    @property
    def used(self) -> tuple[str, ...]:
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
    """A model as a linear function of raw features, to which trees of raw features may be added.

    score(x) = bias + the sum over features of weights * (x - offsets) = constant + the sum of weights * x, + forest(x)

    The first form loses no digits if a mean is large beside the deviation, and scores as `predict`. The second ranks
    alike without the constant.

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
    forest : Forest or None
        Trees of raw features, of which none is constant.
    """

    algorithm: str
    names: tuple[str, ...]
    weights: Floats
    offsets: Floats
    spreads: Floats
    bias: float
    is_sparse: bool
    notes: tuple[str, ...]
    forest: Forest | None = None

    @property
    def constant(self) -> float:
        """The score of a document whose features are all 0, without trees."""
        return self.bias - float(self.weights @ self.offsets)

    @property
    def kind(self) -> str:
        return super().kind if self.weights.any() else "trees"

    @property
    def places(self) -> Any:
        """Columns of the features that have a weight, or that trees look at."""
        weighted = np.flatnonzero(self.weights)
        return weighted if self.forest is None else np.union1d(weighted, self.forest.features)

    def terms(self) -> Iterator[Term]:
        """Yield names, weights and offsets of the features in use; those that only trees look at have the weight 0."""
        for j in self.places.tolist():
            yield Term(self.names[j], float(self.weights[j]), float(self.offsets[j]))

    def scores(self, X: AnyFeatures) -> Floats:
        """Return the scores of documents, as `predict` does."""
        columns, places = self.columns(X), self.places
        scores: Floats = (columns - self.offsets[places]) @ self.weights[places] + self.bias
        return scores if self.forest is None else scores + among(self.forest, places).scores(columns)


def among(forest: Forest, places: Any) -> Forest:
    """Return a forest for the columns at these places alone."""
    return forest.with_columns(np.searchsorted(places, np.arange(forest.n_features)), len(places))


def fold(model: Any) -> Folded:
    r"""Fold the transforms of a model into weights of raw features.

    A feature x of weight w is standardised to (x - m) s, with the mean m and 1 over the deviation s as they are now:
    w (x - m) s = (w s) (x - m). By another standardiser, with m' and s', after that:
    w ((x - m) s - m') s' = (w s s') (x - m) - w m' s', of which the last is part of the bias.

    Parameters
    ----------
    model : learner
        One that has learned, with transforms that are affine for each feature: none, `running`, `running-spread`, or
        several. Before these, there may be scores of trees, or of another ranker of that kind.

    Raises
    ------
    ValueError
        If the model is no linear function of raw features plus trees of these; the message says why, and the way out.

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
    """Fold the transforms of a ranking function into weights of raw features, and trees of these."""
    n = len(function.names)
    for place, transform in enumerate(function.transforms):
        if transform.has_sum:
            return _fold_sum(function, place)
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


def _fold_sum(function: RankingFunction, place: int) -> Folded:
    """Fold a ranking function whose transform at a place makes scores or leaves of features."""
    n, names = len(function.names), function.names
    if place:
        before = function.transforms[0]
        if before.affine(n) is None:
            raise refuse(before, function)
        raise ValueError(
            f"{function.algorithm} ranks by {function.transforms[place]!r} of features after {before!r}: "
            "learn again with these the other way round, as `WithTrees` has them"
        )
    form = function.transforms[0].for_columns(names if function.is_named else None)
    outputs = form.output_names(names) or ()
    for later in function.transforms[1:]:
        if not later.has_sum and later.affine(len(outputs)) is None:
            raise refuse(later, function)
    # Only the first transform goes by names.
    following = replace(function, names=outputs, is_named=False, transforms=function.transforms[1:])
    folded = fold_function(following)
    added = form.sum_with(folded.weights, n)
    kept = n if added.keeps else 0
    weights, offsets, spreads = np.zeros(n), np.zeros(n), np.ones(n)
    weights[:kept], offsets[:kept], spreads[:kept] = folded.weights[:kept], folded.offsets[:kept], folded.spreads[:kept]
    bias = folded.bias - float(folded.weights[kept:] @ folded.offsets[kept:])
    forests, notes = [] if added.forest is None else [added.forest], function.notes()
    notes += [note for note in folded.notes if note not in following.notes()]
    if folded.forest is not None:
        if (folded.forest.features >= kept).any():
            raise ValueError(
                f"{function.algorithm} ranks by trees that look at what {form!r} makes: learn the trees without it"
            )
        forests.append(folded.forest.with_columns(np.arange(len(outputs)), n))
    if added.factor:
        own, columns = _of_ranker(added, function)
        theirs = np.zeros(n)
        theirs[columns] = added.factor * own.weights
        is_new = weights == 0.0
        their_offsets = np.zeros(n)
        their_offsets[columns] = own.offsets
        spreads[columns] = np.where(is_new[columns], own.spreads, spreads[columns])
        offsets = np.where(is_new, their_offsets, offsets)
        bias += added.factor * own.bias + float(theirs @ (offsets - their_offsets))
        weights = weights + theirs
        if own.forest is not None:
            forest = own.forest.with_values(own.forest.values * added.factor)
            forests.append(forest.with_columns(columns, n))
    joined, constant = join_forests(forests)
    if joined is None and not weights.any():
        raise ValueError("all documents have the same score: there is nothing to export")
    if form.learns:
        trees = "no tree changes a score yet" if joined is None else "trees are those that the model has now"
        notes.append(f"{trees}: export it again when it has learned on")
    offsets = np.where(weights == 0.0, 0.0, offsets)
    sums = weights, offsets, spreads, bias + constant
    return Folded(function.algorithm, names, *sums, function.is_sparse, tuple(dict.fromkeys(notes)), joined)


def _of_ranker(added: Added, function: RankingFunction) -> tuple[Folded, Any]:
    """Return another ranker whose score is a feature, and the columns that its features are."""
    n, known = len(function.names), added.ranker.model.feature_names
    names = function.names if function.is_named else None
    if names is None or known is None:
        return fold_function(RankingFunction.of(added.ranker, n, names)), np.arange(n)
    inner = RankingFunction.of(added.ranker, len(known), known)
    return fold_function(inner), np.array([names.index(name) for name in known])


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
    names = [*(step.name for step in function.transforms if step.learns_grades), "running"]
    again = f"transforms={names}" if names[1:] else "transforms='running' alone"
    options = " ".join(f"--transform {name}" for name in names)
    return ValueError(
        f"{function.algorithm} ranks by features after {transform!r}, which {why}: {way}learn again with {again} "
        f"({options} of the command learn)"
    )
