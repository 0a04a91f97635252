"""A model as a sum over features: which weights belong to which feature, read in one moment."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.ranking_function import note_no_names
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
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

    steps: list[Step]
    weights: Floats  # weights of the transformed features
    outputs: Outputs  # what these are
    # order, starts, features: those that have a weight in the order of their features, where each feature begins there,
    # and which it is
    order: Ints
    starts: Ints
    features: Ints

    def transform(self, X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None) -> AnyFeatures:
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
        state = model.model if block is not None else ready_model(model)
        if block is not None:
            block = _aligned(model, block)
            state.check_features(block.n_features, block.feature_names)
            state = ready_model(model, block.n_features, block.feature_names, sparse=block.is_sparse, model=state)
        if not state.has_begun:
            raise ValueError(f"this {type(model).__name__} has not learned anything yet: there is nothing to explain")
        names, n_inputs = state.feature_names, state.n_inputs
        if block is not None and (names is None or _goes_by_names(state)):
            names, n_inputs = block.feature_names or names, block.n_features
        if block is None:
            state.input_names()  # which raises if they are too many to list
        features = list(_distinct(names)) if names else [f"f{place}" for place in range(1, n_inputs + 1)]
        notes = [] if names else [note_no_names(n_inputs)]
        if type(state).linear_scores is not Model.linear_scores:
            raise ValueError(
                f"{type(model).__name__} ranks in a way of its own, not by weights of features: it cannot be explained"
            )
        reader = _Reader(names, n_inputs, features, notes)
        several = len(state.parts) > 1
        labels = _distinct(tuple(part.name or model.name for part in state.parts))
        parts = [
            reader.read(label if several else "", [Step(*step) for step in part.steps], part.weights)
            for label, part in zip(labels, state.parts, strict=True)
        ]
        forms, curves = reader.lineage.forms, reader.lineage.curves
        return cls(model, state, names, tuple(features), parts, forms, curves, tuple(dict.fromkeys(notes)))

    @cached_property
    def outputs(self) -> Outputs:
        """Outputs that have a weight, part by part, in the order of features."""
        return Outputs.beside([part.outputs.take(part.order) for part in self.parts])

    @cached_property
    def weights(self) -> Floats:
        return np.concatenate([part.weights[part.order] for part in self.parts])

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

    def contributions(self, block: QueryStream) -> Floats | Products:
        """Return what each feature contributes to each document's score: a matrix, or terms if it would be sparse."""
        names = block.feature_names or self.state.feature_names
        sums = [_of_part(part, part.transform(block.X, block.offsets, names)) for part in self.parts]
        if not any(isinstance(own, Products) for own in sums):
            matrix = np.zeros((block.n_documents, len(self.features)))
            for part, own in zip(self.parts, sums, strict=True):
                matrix[:, part.features] += own
            return matrix
        pieces = [
            own if isinstance(own, Products) else _as_products(own, part.features)
            for part, own in zip(self.parts, sums, strict=True)
        ]
        together = Products(*map(np.concatenate, zip(*pieces, strict=True)))
        n = len(self.features)
        keys, places = np.unique(together.rows * n + together.features, return_inverse=True)
        values: Any = np.bincount(places, together.values, len(keys))  # of the same document and feature
        return Products(keys // n, keys % n, values)


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
    """Return names, numbered from the second time that one occurs.

    Examples
    --------
    >>> _distinct(("a", "b", "a"))
    ('a', 'b', 'a (2)')
    """
    counts = Counter[str]()
    distinct = []
    for name in names:
        counts[name] += 1
        distinct.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(distinct)


@dataclass
class _Reader:
    """Reads parts of a model one after the other; what is made of several features becomes a feature of its own."""

    names: tuple[str, ...] | None
    n_inputs: int
    features: list[str]
    notes: list[str]
    lineage: Lineage = field(default_factory=Lineage)

    def read(self, name: str, steps: list[Step], weights: Floats) -> Part:
        """Read a part; its name, if there are several, becomes part of the names of what it makes."""
        flat = [
            Step(state, named(state, [step for transform in transforms for step in transform.steps()], self.names))
            for state, transforms in steps
        ]
        *before, last = flat
        width = self.n_inputs
        for transform in [transform for step in before for transform in step.transforms] + last.transforms[:-1]:
            width = transform.n_outputs(width)
        folding = last.transforms[-1].fold_weights(weights, width) if last.transforms else None
        if folding is not None:
            weights = folding.weights
            self.notes += folding.notes
            flat = [*before, Step(last.state, last.transforms[:-1])]
        outputs = self._trace(flat, name)
        if name:
            for number in np.unique(outputs.form).tolist():
                form = self.lineage.forms[number]
                self.lineage.forms[number] = form._replace(label=f"{name}: {form.label}")
        used = np.flatnonzero(weights)
        order = used[np.argsort(outputs.source[used], kind="stable")]
        present, starts = np.unique(outputs.source[order], return_index=True)
        return Part(flat, weights, outputs, order, starts, present)

    def _trace(self, steps: list[Step], name: str) -> Outputs:
        outputs, labels = self.lineage.start(self.n_inputs), self.names
        for transform in [transform for step in steps for transform in step.transforms]:
            self.notes += transform.remarks(labels)
            labels = transform.output_names(labels)
            if transform.adds:
                score = self.lineage.start(1, RAW._replace(unit=f"unit after {transform.name}"))
                score = score._replace(source=np.array([len(self.features)]), linear=np.zeros(1, bool))
                label = f"{name}: {transform.adds}" if name else transform.adds
                self.features.append(_distinct((*self.features, label))[-1])
                outputs = Outputs.beside([outputs, score])
                continue
            traced = transform.trace(self.lineage, outputs)
            if traced is None:
                n = transform.n_outputs(len(outputs.source))
                self.notes.append(
                    f"what {transform!r} makes may be made of several features: it is shown in their place"
                )
                if not name:
                    self.features.clear()
                outputs = self.lineage.start(n, RAW._replace(unit=f"unit after {transform.name}"))
                traced = outputs._replace(source=outputs.source + len(self.features), linear=np.zeros(n, bool))
                own = labels or tuple(f"{transform.name} {place}" for place in range(1, n + 1))
                self.features += [f"{name}: {label}" if name else label for label in own]
            outputs = traced
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
