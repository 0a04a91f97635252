"""The interface of targets: what a model can be exported to, with the engines that know missing values."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from perceptrank.deploy.additive import Additive, as_sum, read_additive
from perceptrank.deploy.engines.programs import version_of
from perceptrank.deploy.folding import RawSum, among, fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.trees.forest import Forest

DOUBLE = 1e-12  # of the largest absolute score of a query: what sums in another order may differ by


@dataclass(frozen=True)
class Export:
    """A model in the form of a target.

    Methods take:

    - `path`: str or Path.

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
        """Write the file, atomically: if that fails, a file that was there is left as it was."""
        with replaced_file(path) as file:
            file.write(self.content)


class Differences(NamedTuple):
    """Known differences of an engine's scores from the model's."""

    tolerance: float = DOUBLE  # by how much they may differ, relative to the largest of a query
    dropped: float = 0.0  # what is left out of every score, because it changes no order
    added: float = 0.0  # what is added to every score
    reason: str = ""  # what the engine does otherwise that changes orders; nothing if it is rounding alone


@dataclass(frozen=True, kw_only=True)
class Target(ABC):
    """Something that a model can be exported to; its fields are its options.

    Attributes
    ----------
    name : str
        Name for `export` and on the command line.
    """

    name: ClassVar[str]

    def option(self, name: str) -> str:
        """Return what an option is called in errors."""
        return f"{name} of the target {self.name}"

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

    def differences(self, function: RankingFunction) -> Differences:
        """Return by how much scores may differ from those of the model."""
        return Differences()

    def sample(self) -> int | None:
        """Return how many queries of a stream are ranked for parity unless told otherwise, None for all."""
        return None


class SumTarget(Target):
    """A target that takes a sum over raw features: of weights times features, or of functions of single features."""

    def read(self, function: RankingFunction) -> Any:
        return as_sum(function)

    def export(self, function: RankingFunction) -> Export:
        model = self.read(function)
        content, notes = self.write(model)
        return Export(self.name, content.encode(), (*model.notes, *model.left_out(), *notes))

    @abstractmethod
    def write(self, model: Any) -> tuple[str, list[str]]:
        """Return the file, and what must be known to use it; raise if the model cannot be expressed."""

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        model = self.read(function)
        return self.run(model, export.text, model.columns(X))

    @abstractmethod
    def run(self, model: Any, text: str, columns: Any) -> Floats:
        """Return the scores that the engine gives to documents, by the columns of the features in use."""


class FilledTerm(NamedTuple):
    """The part of the score that a raw feature adds: weight * (value - offset), or by whether it is missing."""

    name: str
    place: int  # its column
    weight: float
    offset: float
    fill: float | None  # what a missing value counts as; None if none may be missing
    is_indicator: bool  # True if its value is whether the feature is missing


@dataclass(frozen=True)
class Filled(RawSum):
    """A linear model of raw features of which some may be missing."""

    algorithm: str
    names: tuple[str, ...]
    terms: tuple[FilledTerm, ...]
    bias: float
    notes: tuple[str, ...]
    forest: Forest | None  # of the values of the terms, whose weights are 0 if only trees look at them

    @property
    def places(self) -> Any:
        return np.unique([term.place for term in self.terms])

    @property
    def takes_missing(self) -> bool:
        return self.terms[0].fill is not None

    @property
    def has_indicators(self) -> bool:
        return any(term.is_indicator for term in self.terms)

    def scores(self, X: AnyFeatures) -> Floats:
        """Return the scores of documents, in double precision; NaN is missing."""
        columns = dict(zip(self.used, self.columns(X).T, strict=True))
        scores: Floats = np.full(len(X), self.bias)
        values = np.empty((len(X), len(self.terms)))
        for place, term in enumerate(self.terms):
            value = columns[term.name]
            is_missing = np.isnan(value)
            filled = np.where(is_missing, np.nan if term.fill is None else term.fill, value)
            values[:, place] = is_missing if term.is_indicator else filled
            scores = scores + term.weight * (values[:, place] - term.offset)
        return scores if self.forest is None else scores + self.forest.scores(values)


@dataclass(frozen=True, kw_only=True)
class FillingTarget(SumTarget):
    """A target that takes weights of raw features and knows missing ones; its engine runs in a harness.

    Parameters
    ----------
    harness : str or None
        For parity: the folder of a harness that runs the engine, as in tests/engines; without, it is emulated.
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
    terms = [
        FilledTerm(names[j % n], j % n, weight, offset, float(fills[j % n]) if takes else None, j >= n)
        for j, (_, weight, offset) in zip(folded.places.tolist(), folded.terms(), strict=True)
    ]
    forest = None if folded.forest is None else among(folded.forest, folded.places)
    return Filled(folded.algorithm, names, tuple(terms), folded.bias, (*notes, *folded.notes), forest)


def note_no_bias(dropped: float) -> list[str]:
    """Return a note on a constant that is left out of every score, if there is one."""
    return [f"there is no bias: {dropped:g} is left out of every score, which changes no order"] if dropped else []


def check_word(option: str, value: Any) -> None:
    """Raise if an option is not a word."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][\w-]*", value, re.ASCII):
        raise ParameterError(option, "must be a word of letters, digits, _ and -", value)
