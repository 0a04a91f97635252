"""Linear models of engines that compute with float32."""

import json
import math
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.folding import Folded, fold_function
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import LinearTarget
from perceptrank.kernels.arrays import Floats

ULP = float(np.finfo(np.float32).eps)
_FEWEST_STEPS = 1000.0  # of float32 within a feature's spread


class FloatTerm(NamedTuple):
    """A feature's part of the score, in numbers that float32 holds: weight * ((value - mean) / spread)."""

    name: str
    weight: float
    mean: float
    spread: float

    @property
    def is_normalized(self) -> bool:
        """True if the feature is standardised first."""
        return self.mean != 0.0 or self.spread != 1.0


@dataclass(frozen=True, kw_only=True)
class FloatModel(LinearTarget):
    """A model with a weight per feature in float32, which may be standardised first.

    Parameters
    ----------
    model_name : str
        Name of the model in the engine.
    normalizers : bool
        Let the engine standardise features, which keeps more digits; without, weights are those of raw features, and
        the constant that remains is left out.
    """

    model_name: str = "perceptrank"
    normalizers: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.model_name, str) or not re.fullmatch(r"[A-Za-z_][\w-]*", self.model_name, re.ASCII):
            raise ValueError(
                f"model_name of the target {self.name} must be a word of letters, digits, _ and -, got "
                f"{self.model_name!r}"
            )
        if not isinstance(self.normalizers, bool):
            raise ValueError(f"normalizers of the target {self.name} must be true or false, got {self.normalizers!r}")

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the request's body."""
        terms = self.terms(folded)
        notes = [
            f"{self.name} computes with float32: scores have about 7 digits",
            "a feature that a document does not match is 0 before it is standardised: it must be 0 in learning, too",
        ]
        dropped = self.left_out(folded)
        if dropped:
            notes.append(f"there is no bias: {dropped:g} is left out of every score, which changes no order")
        spreads = dict(zip(folded.names, folded.spreads.tolist(), strict=True))
        coarse = [term.name for term in folded.terms() if _is_coarse(term.offset, spreads[term.name])]
        if coarse:
            notes.append(
                f"float32 holds few digits of what distinguishes documents in {', '.join(map(repr, coarse))}, whose "
                "mean is large beside the spread: subtract a constant from it where it is made"
            )
        return json.dumps(self.body(terms), indent=1) + "\n", notes

    @abstractmethod
    def body(self, terms: list[FloatTerm]) -> Any:
        """Return the request's body as plain values."""

    def terms(self, folded: Folded) -> list[FloatTerm]:
        """Return the features that have a weight; raise if float32 cannot hold a number."""
        found = []
        for place, (name, weight, offset) in zip(folded.places.tolist(), folded.terms(), strict=True):
            spread = float(folded.spreads[place])
            exact = (weight * spread, offset, spread) if self.normalizers else (weight, 0.0, 1.0)
            with np.errstate(over="ignore", under="ignore"):
                term = FloatTerm(name, *(float(np.float32(number)) for number in exact))
            for what, number, given in zip(("weight", "mean", "spread"), term[1:], exact, strict=True):
                lost = number == 0.0 if what != "mean" else False
                if lost or not math.isfinite(number):
                    raise ValueError(
                        f"{self.name} computes with float32, which cannot hold the {what} {given:g} of the feature "
                        f"{name!r}: scale the feature, or export to 'python', 'javascript', 'sql' or 'onnx'"
                    )
            found.append(term)
        return found

    def left_out(self, folded: Folded) -> float:
        """Return what was left out of every score."""
        return folded.bias if self.normalizers else folded.constant

    def drops(self, function: RankingFunction) -> float:
        """Return what was left out of every score."""
        return self.left_out(fold_function(function))

    def tolerance(self, function: RankingFunction) -> float:
        """Return 4 units in the last place of float32 per feature."""
        return 4 * ULP * len(fold_function(function).places)

    def engine(self) -> str:
        """Say that no engine runs."""
        return f"an emulation of {self.name} in float32, from its documentation (no engine was asked)"

    def run(self, folded: Folded, text: str, columns: Any) -> Floats:
        """Return the scores of documents as the engine computes them: each operation in float32, feature by feature."""
        return emulated(self.read(json.loads(text), [term.name for term in folded.terms()]), columns)

    @abstractmethod
    def read(self, body: Any, names: list[str]) -> list[FloatTerm]:
        """Return the features of a request's body, in the order in which the engine adds them."""


def emulated(terms: list[FloatTerm], columns: Any) -> Floats:
    """Return scores, each operation rounded to float32."""
    values = columns.astype(np.float32)
    scores = np.zeros(len(values), np.float32)
    for j, (_, weight, mean, spread) in enumerate(terms):
        normalized = (values[:, j] - np.float32(mean)) / np.float32(spread)
        scores = scores + np.float32(weight) * normalized
    return scores.astype(np.float64)


def _is_coarse(mean: float, spread: float) -> bool:
    return abs(mean) * ULP * _FEWEST_STEPS > abs(spread)
