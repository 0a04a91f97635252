"""The function that a linear model ranks by, taken from its state in one moment."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
from perceptrank.stream.query_stream import QueryStream
from perceptrank.transforms.transform import Transform


@dataclass(frozen=True)
class RankingFunction:
    """Score = transformed features . weights."""

    algorithm: str  # the learner's name
    names: tuple[str, ...]  # names of the features before the transforms: f1, f2, ... if they have none
    is_named: bool  # True if the features have names of their own
    transforms: list[Transform]  # what features go through, one after the other, with their statistics
    weights: Floats  # weights of the transformed features
    is_sparse: bool  # True if features are sparse before the transforms, so that one that is absent is 0

    @classmethod
    def of(cls, model: Any, n_features: int | None = None, names: tuple[str, ...] | None = None) -> "RankingFunction":
        """Read a model; raise if it is none, has learned nothing, or does not rank by one vector of weights.

        One that has initial weights only is that of so many features, with these names.
        """
        if not isinstance(model, Learner):
            raise TypeError(f"a model to export must be a learner of perceptrank, got {type(model).__name__}")
        state = ready_model(model, n_features, names)
        if not state.has_begun:
            raise ValueError(f"this {type(model).__name__} has not learned anything yet: there is nothing to export")
        try:
            weights = state.coefficients
        except AttributeError as error:  # of an ensemble
            raise ValueError(f"this {type(model).__name__} cannot be exported: {error}") from None
        transforms = [step for transform in state.all_transforms for step in transform.steps()]
        if not np.isfinite(weights).all():
            place = int(np.argmin(np.isfinite(weights)))
            raise ValueError(f"weights must be finite to be exported, got {weights[place]} for feature {place}")
        if not weights.any():
            raise ValueError("all weights are 0, so that all documents have the same score: there is nothing to export")
        names = state.input_names()
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise ValueError(f"features must have different names to be exported, got {twice!r} twice")
        name = str(getattr(model, "name", type(model).__name__))
        return cls(name, names, state.feature_names is not None, transforms, weights, state.takes_sparse)

    def aligned(self, block: QueryStream) -> QueryStream:
        """Return a block in double precision, with the features of the model alone if it has all of them by name."""
        names = block.feature_names or tuple(f"f{place}" for place in range(1, block.n_features + 1))
        if self.is_named and names != self.names and set(self.names) <= set(names):
            block = block.with_features(block.X, feature_names=names).select(self.names)
        return block.with_features(block.X.astype(np.float64))

    def notes(self) -> list[str]:
        """Say what of the features whoever deploys the model must know."""
        return [] if self.is_named else [note_no_names(len(self.names))]


def note_no_names(n_features: int) -> str:
    """Return a note on features without names."""
    return f"the features have no names: they are f1 to f{n_features}, in the order of the columns"
