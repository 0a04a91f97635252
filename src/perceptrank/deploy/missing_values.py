"""Models that take missing values, for engines that know them."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.additive import Additive, read_additive
from perceptrank.deploy.folding import Folded, fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Export, Target
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures


class Input(NamedTuple):
    """The source of a weight: the value of a raw feature, or whether that is missing."""

    name: str
    fill: float | None  # what a missing value counts as; None if none may be missing
    is_indicator: bool


@dataclass(frozen=True)
class Filled:
    """A linear model of raw features of which some may be missing.

    Attributes
    ----------
    folded : Folded
        The linear model of features in which missing values are filled, and of indicators, if there are any.
    inputs : tuple of Input
        What each weight of the linear model is of.
    used : tuple of str
        Names of the raw features that have a weight.
    places : tuple of int
        Columns of these features.
    """

    folded: Folded
    inputs: tuple[Input, ...]
    used: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def takes_missing(self) -> bool:
        """True if a feature may be missing."""
        return self.inputs[0].fill is not None

    def columns(self, X: AnyFeatures) -> Any:
        """Return the columns of raw features that have a weight; NaN is missing."""
        dense = X.toarray() if isinstance(X, SparseFeatures) else X
        return np.asarray(dense, np.float64)[:, list(self.places)]

    def scores(self, X: AnyFeatures) -> Floats:
        """Return the scores of documents, in double precision."""
        columns = dict(zip(self.used, self.columns(X).T, strict=True))
        scores: Floats = np.full(len(X), self.folded.bias)
        for one, (_, weight, offset) in zip(self.inputs, self.folded.terms(), strict=True):
            value = columns[one.name]
            is_missing = np.isnan(value)
            filled = np.where(is_missing, np.nan if one.fill is None else one.fill, value)
            scores = scores + weight * ((is_missing if one.is_indicator else filled) - offset)
        return scores


@dataclass(frozen=True, kw_only=True)
class FillingTarget(Target):
    """A target that takes weights of raw features and knows missing ones; its engine runs in a harness.

    Parameters
    ----------
    harness : str or None
        For parity: the folder of a harness that runs the engine, such as one of tests/engines. Without, scores are
        emulated.
    """

    harness: str | None = None

    def export(self, function: RankingFunction) -> Export:
        additive = read_additive(function)
        if additive is not None:
            text, notes = self.write_curves(additive)
            return Export(self.name, text.encode(), (*additive.notes, *additive.left_out(), *notes))
        filled = fold_filled(function)
        text, notes = self.write(filled)
        left_out = len(function.names) - len(filled.used)
        if left_out:
            notes = [f"{left_out} of {len(function.names)} features have no weight and are left out", *notes]
        return Export(self.name, text.encode(), (*filled.folded.notes, *notes))

    @abstractmethod
    def write(self, filled: Filled) -> tuple[str, list[str]]:
        """Return the file, and what must be known to use it; raise if the model cannot be expressed."""

    @abstractmethod
    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        """Return the file of a model of bins, and what must be known to use it; raise if it cannot be expressed."""

    def engine(self) -> str:
        if self.harness is None:
            return "emulated in double precision (no engine was asked: set harness)"
        return self.engine_version(str(self.harness))

    @abstractmethod
    def engine_version(self, harness: str) -> str:
        """Name the version of the engine that a harness runs."""

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        given = read_additive(function) or fold_filled(function)
        return (
            given.scores(X)
            if self.harness is None
            else self.ask(self.harness, given.used, export.text, given.columns(X))
        )

    @abstractmethod
    def ask(self, harness: str, names: tuple[str, ...], text: str, columns: Any) -> Floats:
        """Return the scores that the engine gives to documents, by the columns of the features in use."""


def fold_filled(function: RankingFunction) -> Filled:
    """Fold the transforms of a ranking function, of which the first may fill in missing values."""
    names, notes = function.names, function.notes()
    n, fills, takes = len(names), np.zeros(len(names)), function.is_sparse
    first = function.transforms[0] if function.transforms else None
    filling = None if first is None else first.filling(n)
    if first is not None and filling is not None:
        takes, fills = True, filling.values
        filled = (*names, *(f"missing {name}" for name in names)) if filling.has_indicators else names
        function = replace(function, names=filled, transforms=function.transforms[1:])
        if first.learns:
            notes.append("what missing values become is what the model has now: export it again when it has learned on")
    folded = fold_function(replace(function, is_named=True))
    folded = replace(folded, notes=(*notes, *folded.notes))
    used = folded.places.tolist()
    inputs = tuple(Input(names[j % n], float(fills[j % n]) if takes else None, j >= n) for j in used)
    places = tuple(sorted({j % n for j in used}))
    return Filled(folded, inputs, tuple(names[j] for j in places), places)
