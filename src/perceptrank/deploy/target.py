"""The interface of targets: what a model can be exported to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from perceptrank.deploy.additive import Additive, as_sum
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
        """The file as text; raises ValueError if it is none."""
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

    @classmethod
    def options(cls) -> list[str]:
        """Return the names of the options."""
        return [option.name for option in fields(cls)]


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


def note_no_bias(dropped: float) -> list[str]:
    """Return a note on a constant that is left out of every score, if there is one."""
    return [f"there is no bias: {dropped:g} is left out of every score, which changes no order"] if dropped else []


def choice(target: str, option: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise if an option is none of its choices."""
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise ValueError(f"{option} of the target {target} must be one of {known}, got {value!r}")
