"""Models that take missing values, for engines that know them."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.additive import Additive, read_additive
from perceptrank.deploy.folding import Folded, count_left_out, fold_function, take_columns
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Export, SumTarget
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures


class Input(NamedTuple):
    """The source of a weight: the value of a raw feature, or whether that is missing."""

    name: str
    fill: float | None  # what a missing value counts as; None if none may be missing
    is_indicator: bool


@dataclass(frozen=True)
class Filled:
    """A linear model of raw features of which some may be missing."""

    # the linear model of features in which missing values are filled, and of indicators, if there are any
    folded: Folded
    inputs: tuple[Input, ...]  # what each weight of the linear model is of
    used: tuple[str, ...]  # names of the raw features that have a weight
    places: tuple[int, ...]  # columns of these features
    n_features: int  # number of all raw features

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the features."""
        return self.folded.notes

    def left_out(self) -> list[str]:
        """Return a note on how many features have no weight, if any have none."""
        return count_left_out(self.n_features, len(self.used))

    @property
    def takes_missing(self) -> bool:
        """True if a feature may be missing."""
        return self.inputs[0].fill is not None

    def columns(self, X: AnyFeatures) -> Any:
        """Return the columns of raw features that have a weight; NaN is missing."""
        return take_columns(X, list(self.places))

    def scores(self, X: AnyFeatures) -> Floats:
        """Return the scores of documents, in double precision."""
        columns = dict(zip(self.used, self.columns(X).T, strict=True))
        scores: Floats = np.full(len(X), self.folded.bias)
        for source, (_, weight, offset) in zip(self.inputs, self.folded.terms(), strict=True):
            value = columns[source.name]
            is_missing = np.isnan(value)
            filled = np.where(is_missing, np.nan if source.fill is None else source.fill, value)
            scores = scores + weight * ((is_missing if source.is_indicator else filled) - offset)
        return scores


@dataclass(frozen=True, kw_only=True)
class FillingTarget(SumTarget):
    """A target that takes weights of raw features and knows missing ones; its engine runs in a harness.

    Parameters
    ----------
    harness : str or None
        For parity: the folder of a harness that runs the engine, such as one of tests/engines. Without, scores are
        emulated.
    """

    harness: str | None = None

    def read(self, function: RankingFunction) -> Additive | Filled:
        return read_additive(function) or fold_filled(function)

    def engine(self) -> str:
        if self.harness is None:
            return "emulated in double precision (no engine was asked: set harness)"
        return self.engine_version(str(self.harness))

    @abstractmethod
    def engine_version(self, harness: str) -> str:
        """Name the version of the engine that a harness runs."""

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        if self.harness is None:
            return self.read(function).scores(X)
        return super().scores(function, export, X, offsets)


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
    return Filled(folded, inputs, tuple(names[j] for j in places), places, n)
