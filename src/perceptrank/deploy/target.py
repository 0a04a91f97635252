"""The interface of targets: what a model can be exported to, with the engines that know missing values."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from perceptrank.deploy.additive import Additive, as_sum, read_additive
from perceptrank.deploy.engines.programs import version_of
from perceptrank.deploy.folding import Folded, count_left_out, fold_function, take_columns
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures

DOUBLE = 1e-12  # of the largest absolute score of a query: what sums in another order may differ by


@dataclass(frozen=True)
class Export:
    """A model in the form of a target.

    Attributes
    ----------
    target : str
        What it was exported to.
    content : bytes
        The file.
    notes : tuple of str
        What must be known to use it: limits of the target, and what was left out.
    """

    target: str
    content: bytes = field(repr=False)
    notes: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        """True if the file is text, as that of all targets but onnx."""
        return self.target != "onnx"

    @property
    def text(self) -> str:
        """The file as text; ValueError if it is binary."""
        if not self.is_text:
            raise ValueError(f"the file of {self.target} is no text: save it, or take its content")
        return self.content.decode()

    def save(self, path: str | Path) -> None:
        """Write the file, atomically: if that fails, a file that was there is left as it was.

        Parameters
        ----------
        path : str or Path
        """
        with replaced_file(path) as file:
            file.write(self.content)


@dataclass(frozen=True, kw_only=True)
class Target(ABC):
    """Something that a model can be exported to; its fields are its options.

    Attributes
    ----------
    name : str
        Name for `export` and on the command line.
    """

    name: ClassVar[str]

    def settled(self, model: Any, function: RankingFunction) -> Self:
        """Return this target with the options that depend on the model made plain values."""
        return self

    @abstractmethod
    def export(self, function: RankingFunction) -> Export:
        """Return a model in the form of this target; raise if it cannot be expressed."""

    @abstractmethod
    def engine(self) -> str:
        """Name what runs in `scores`, with its version; raise if it is not there."""

    @abstractmethod
    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        """Return the scores that the engine gives to documents of queries with these offsets."""

    def tolerance(self, function: RankingFunction) -> float:
        """Return by how much scores may differ, relative to the largest of a query."""
        return DOUBLE

    def order_tolerance(self, function: RankingFunction) -> float:
        """Return by how much scores may differ, relative to the largest of a query, that rounding puts in any order."""
        return self.tolerance(function)

    def why_another_order(self) -> str:
        """Say what the engine does otherwise than the model that changes orders; nothing if it is rounding alone."""
        return ""

    def drops(self, function: RankingFunction) -> float:
        """Return what was left out of every score, because it changes no order."""
        return 0.0

    def adds(self, function: RankingFunction) -> float:
        """Return what was added to every score."""
        return 0.0

    def sample(self) -> int | None:
        """Return how many queries of a stream are ranked for parity unless told otherwise, None for all."""
        return None


class SumTarget(Target):
    """A target that takes a sum over raw features: of weights times features, or of functions of single features."""

    def read(self, function: RankingFunction) -> Any:
        """Return the sum that a model is."""
        return as_sum(function)

    def export(self, function: RankingFunction) -> Export:
        model = self.read(function)
        content, notes = self.write_curves(model) if isinstance(model, Additive) else self.write(model)
        return Export(self.name, content.encode(), (*model.notes, *model.left_out(), *notes))

    @abstractmethod
    def write(self, folded: Any) -> tuple[str, list[str]]:
        """Return the file, and what must be known to use it; raise if the model cannot be expressed."""

    @abstractmethod
    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        """Return the file of a model of bins, and what must be known to use it; raise if it cannot be expressed."""

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        model = self.read(function)
        return self.run(model, export.text, model.columns(X))

    @abstractmethod
    def run(self, model: Any, text: str, columns: Any) -> Floats:
        """Return the scores that the engine gives to documents, by the columns of the features in use."""


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

    engine_name: ClassVar[str]  # with a place for the version
    artefact: ClassVar[str]  # the Java archive whose version that is
    harness: str | None = None

    def read(self, function: RankingFunction) -> Additive | Filled:
        return read_additive(function) or fold_filled(function)

    def engine(self) -> str:
        if self.harness is None:
            return "emulated in double precision (no engine was asked: set harness)"
        return self.engine_name.format(version_of(str(self.harness), self.artefact))

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


def note_no_bias(dropped: float) -> list[str]:
    """Return a note on a constant that is left out of every score, if there is one."""
    return [f"there is no bias: {dropped:g} is left out of every score, which changes no order"] if dropped else []


def check_word(target: str, option: str, value: Any) -> None:
    """Raise if an option is not a word."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][\w-]*", value, re.ASCII):
        raise ValueError(f"{option} of the target {target} must be a word of letters, digits, _ and -, got {value!r}")


def check_choice(target: str, option: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise if an option is none of its choices."""
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise ValueError(f"{option} of the target {target} must be one of {known}, got {value!r}")
