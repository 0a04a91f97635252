"""A model as a sum over features: which weights belong to which feature, read in one moment."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.model import Model, as_learned, named, transformed
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.transforms.forms import Piecewise
from perceptrank.transforms.lineage import RAW, Form, Lineage, Outputs
from perceptrank.transforms.transform import Transform


class Step(NamedTuple):
    """Transforms that features go through one after the other, and the state they belong to."""

    state: Model
    transforms: list[Transform]


class Part(NamedTuple):
    """Weights of features after some steps; scores are the sum of the products of all parts."""

    name: str  # the member of an ensemble that it comes from, if there are several parts
    steps: list[Step]
    weights: Floats  # weights of the transformed features
    outputs: Outputs  # what these are
    # order, starts, features: those that have a weight in the order of their features, where each feature begins there,
    # and which it is
    order: Ints
    starts: Ints
    features: Ints

    def transformed(self, X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None) -> AnyFeatures:
        """Return the features that the weights belong to."""
        for state, transforms in self.steps:
            X = transformed(transforms, as_learned(state, X), offsets, names)
        return X


class Products(NamedTuple):
    """Contributions of features to scores, those that are not 0: of which document, which feature, and how much."""

    rows: Ints
    features: Ints
    values: Floats


@dataclass(frozen=True)
class Terms:
    """A model as a sum of contributions of features."""

    model: Learner
    state: Model  # what it had learned when this was read
    names: tuple[str, ...] | None  # names of the columns, if they have any
    # names of what contributes: the features before the transforms, f1, f2, ... if they have no names; after them,
    # transformed ones that are made of several
    features: tuple[str, ...]
    parts: list[Part]
    forms: list[Form]  # those of the outputs of all parts, by number
    curves: list[tuple[Piecewise, Form]]  # the piecewise functions of all parts, and what they are functions of
    notes: tuple[str, ...]  # what must be known of the features

    @classmethod
    def of(cls, model: Any, block: QueryStream | None = None) -> "Terms":
        """Read a model; with columns as a block has them if it goes by their names, or has learned nothing yet."""
        if not isinstance(model, Learner):
            raise TypeError(f"a model to explain must be a learner of perceptrank, got {type(model).__name__}")
        state = model.model if block is not None else model.ready_model()
        if block is not None:
            block = _aligned(model, block)
            state.check_features(block.n_features, block.feature_names)
            state = model.ready_model(block.n_features, block.feature_names, sparse=block.is_sparse, model=state)
        if not state.has_begun:
            raise ValueError(f"this {type(model).__name__} has not learned anything yet: there is nothing to explain")
        names, n_inputs = state.feature_names, state.n_inputs
        if block is not None and (names is None or _goes_by_names(state)):
            names, n_inputs = block.feature_names or names, block.n_features
        features = list(_distinct(names)) if names else [f"f{place}" for place in range(1, n_inputs + 1)]
        notes = (
            [] if names else [f"the features have no names: they are f1 to f{n_inputs}, in the order of the columns"]
        )
        lineage = Lineage()
        parts = []
        found = _parts(model, state)
        for name, steps, weights in found:
            label = name if len(found) > 1 else ""
            parts.append(_read(label, steps, weights, names, n_inputs, lineage, features, notes))
        return cls(
            model, state, names, tuple(features), parts, lineage.forms, lineage.curves, tuple(dict.fromkeys(notes))
        )

    def aligned(self, block: QueryStream) -> QueryStream:
        """Return a block with the features of the model alone, in their order; raise if it has not all of them.

        Raises too if a model takes any columns, and they are others than those that this was read for.
        """
        block = _aligned(self.model, block)
        self.state.check_features(block.n_features, block.feature_names)
        if _goes_by_names(self.state) and block.feature_names not in (None, self.names):
            raise ValueError(
                "the columns of the stream change, or are not those that were explained: explain each alone"
            )
        return block

    def scores(self, block: QueryStream) -> Floats:
        """Return the scores of a block, by what the model had learned when this was read."""
        return self.state.scores(block)

    def contributions(self, block: QueryStream) -> Floats | Products:
        """Return what each feature contributes to each document's score: a matrix, or terms if it would be sparse."""
        names = block.feature_names or self.state.feature_names
        found = [_of_part(part, part.transformed(block.X, block.offsets, names)) for part in self.parts]
        if not any(isinstance(one, Products) for one in found):
            matrix = np.zeros((block.n_documents, len(self.features)))
            for part, one in zip(self.parts, found, strict=True):
                matrix[:, part.features] += one
            return matrix
        pieces = [
            one if isinstance(one, Products) else _as_products(one, part.features)
            for part, one in zip(self.parts, found, strict=True)
        ]
        return _merged(Products(*map(np.concatenate, zip(*pieces, strict=True))), len(self.features))


def _parts(model: Learner, state: Model) -> list[tuple[str, list[Step], Floats]]:
    """Return names, steps and weights of what a model ranks by the sum of."""
    if type(state).linear_scores is not Model.linear_scores:
        raise ValueError(
            f"{type(model).__name__} ranks in a way of its own, not by weights of features: it cannot be explained"
        )
    parts = state.parts
    names = _distinct(tuple(part.name or model.name for part in parts))
    return [(name, [Step(*step) for step in part.steps], part.weights) for name, part in zip(names, parts, strict=True)]


def _aligned(model: Learner, block: QueryStream) -> QueryStream:
    """Return a block with the features of a model alone, in their order, if it has all of them by name."""
    needed = model.model.needed_names
    if needed is None or block.feature_names in (None, needed) or not set(needed) <= set(block.feature_names or ()):
        return block
    return block.select(needed)


def _goes_by_names(state: Model) -> bool:
    transforms = state.all_transforms
    return bool(transforms) and transforms[0].accepts_any_columns


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names, those that are there before with a number.

    Examples
    --------
    >>> _distinct(("a", "b", "a"))
    ('a', 'b', 'a (2)')
    """
    counts: dict[str, int] = {}
    made = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        made.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(made)


def _read(
    name: str,
    steps: list[Step],
    weights: Floats,
    names: tuple[str, ...] | None,
    n_inputs: int,
    lineage: Lineage,
    features: list[str],
    notes: list[str],
) -> Part:
    flat = [
        Step(state, named(state, [step for transform in transforms for step in transform.steps()], names))
        for state, transforms in steps
    ]
    *before, last = flat
    width = n_inputs
    for transform in [one for step in before for one in step.transforms] + last.transforms[:-1]:
        width = transform.n_outputs(width)
    folding = last.transforms[-1].fold_weights(weights, width) if last.transforms else None
    if folding is not None:
        weights = folding.weights
        notes += folding.notes
        flat = [*before, Step(last.state, last.transforms[:-1])]
    outputs = _walked(lineage, flat, names, n_inputs, name, features, notes)
    if name:
        present = np.unique(outputs.form)
        for number in present.tolist():
            form = lineage.forms[number]
            lineage.forms[number] = form._replace(label=f"{name}: {form.label}")
    used = np.flatnonzero(weights)
    order = used[np.argsort(outputs.source[used], kind="stable")]
    present, starts = np.unique(outputs.source[order], return_index=True)
    return Part(name, flat, weights, outputs, order, starts, present)


def _walked(
    lineage: Lineage,
    steps: list[Step],
    names: tuple[str, ...] | None,
    n_inputs: int,
    name: str,
    features: list[str],
    notes: list[str],
) -> Outputs:
    """Return what the steps make of features; what is made of several becomes a feature of its own, with a name."""
    outputs, labels = lineage.start(n_inputs), names
    for transform in [one for step in steps for one in step.transforms]:
        labels = transform.output_names(labels)
        made = transform.trace(lineage, outputs)
        if made is None:
            n = transform.n_outputs(len(outputs.source))
            notes.append(f"what {transform!r} makes may be made of several features: it is shown in their place")
            if not name:
                features.clear()
            outputs = lineage.start(n, RAW._replace(unit=f"unit after {transform.name}"))
            made = outputs._replace(source=outputs.source + len(features), linear=np.zeros(n, bool))
            own = labels or tuple(f"{transform.name} {place}" for place in range(1, n + 1))
            features += [f"{name}: {label}" if name else label for label in own]
        outputs = made
    return outputs


def _of_part(part: Part, X: AnyFeatures) -> Floats | Products:
    """Return what features contribute by one part: a column for each that has a weight, or terms."""
    if isinstance(X, SparseFeatures):
        inside = slice(X.starts[0], X.starts[-1])
        indices = X.indices[inside].astype(np.int64)
        rows = np.repeat(np.arange(len(X)), np.diff(X.starts))
        values = X.values[inside].astype(np.float64) * part.weights[indices]
        kept = np.flatnonzero(values)
        return Products(rows[kept], part.outputs.source[indices[kept]], values[kept])
    if len(part.order) == 0:
        return np.zeros((len(X), 0))
    products = np.asarray(X, np.float64)[:, part.order] * part.weights[part.order]
    sums: Floats = np.add.reduceat(products, part.starts, axis=1)
    return sums


def _as_products(matrix: Floats, features: Ints) -> Products:
    rows, columns = np.nonzero(matrix)
    return Products(rows, features[columns], matrix[rows, columns])


def _merged(given: Products, n_features: int) -> Products:
    """Add up terms of the same document and feature."""
    keys, places = np.unique(given.rows * n_features + given.features, return_inverse=True)
    values: Any = np.bincount(places, given.values, len(keys))
    return Products(keys // n_features, keys % n_features, values)
