"""Linear models, and sums of trees, of engines that compute with float32."""

import json
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from perceptrank.deploy.additive import Additive, as_sum
from perceptrank.deploy.engines.score_shift import (
    NO_SHIFT,
    SHIFT_FEATURE,
    Shift,
    as_shift,
    find_values,
    make_shift,
    make_tree_shift,
)
from perceptrank.deploy.engines.trees import FloatTrees, float_trees, is_linear
from perceptrank.deploy.folding import Folded, among
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Differences, Export, SumTarget, check_word, note_no_bias
from perceptrank.io.engine_server import EngineServer
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError, check_choice, check_positive

ULP = float(np.finfo(np.float32).eps)
PARTS = ("model", "features")
LIVE_QUERIES = 200  # that a live engine ranks, unless told otherwise
LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).tiny)
_FEWEST_STEPS = 1000.0  # of float32 within a feature's spread


class FloatTerm(NamedTuple):
    """A feature's part of the score, in numbers that float32 holds: weight * ((value - mean) / spread)."""

    name: str
    weight: float
    mean: float
    spread: float

    @property
    def is_normalized(self) -> bool:
        return self.mean != 0.0 or self.spread != 1.0


class Asked(NamedTuple):
    """A question to a live engine: the scores of documents, whose float32 values are those of the names."""

    server: EngineServer
    names: list[str]
    body: Callable[[Any], Any]  # makes the request's body for this target with other names
    values: Any
    offsets: Ints
    must_match: bool = False  # features match documents whose value is 0


@dataclass(frozen=True, kw_only=True)
class FloatModel(SumTarget):
    """A model with a weight per feature in float32, which may be standardised first; or with a tree per feature.

    Parameters
    ----------
    model_name : str
        Name of the model in the engine.
    normalizers : bool
        Let the engine standardise features, which keeps more digits; without, weights are of raw features.
    part : either "model" or "features"
        The model, or a draft of its features.
    shift : float, "auto", path, stream, or Shift
        What is added to every score, by a feature that is 1 for all documents, so that scores are not negative: "auto"
        of documents without negative features, a file or stream of its own documents.
    values : path or stream, optional
        Documents that have all values of the features with a weight; of a model with trees, too, weights then become
        trees with a leaf for each value.
    url : str, optional
        For parity: where the engine is; without, scores are emulated.
    timeout : float
        For parity: seconds to wait for an answer of the engine.
    """

    model_name: str = "perceptrank"
    normalizers: bool = True
    part: str = "model"
    shift: Any = 0.0
    values: Any = None
    url: str | None = field(default=None, repr=False)  # it may hold a password
    timeout: float = 60.0

    def __post_init__(self) -> None:
        check_word(self.option("model_name"), self.model_name)
        if not isinstance(self.normalizers, bool):
            raise ParameterError(self.option("normalizers"), "must be true or false", self.normalizers)
        check_choice(self.option("part"), self.part, PARTS)
        check_positive(self.option("timeout"), self.timeout)
        if isinstance(self.shift, (int, float)) and not isinstance(self.shift, bool):
            if not 0 <= self.shift <= LARGEST:
                raise ParameterError(self.option("shift"), "must be >= 0 and within float32", self.shift)
            object.__setattr__(self, "shift", as_shift(self.shift))
        if self.url is not None:
            self.server()

    def server(self) -> EngineServer:
        return EngineServer(self.name, str(self.url), self.timeout)

    def settled(self, model: Any, function: RankingFunction) -> Self:
        folded = as_sum(function)
        values = find_values(self.values, self.name, function, folded)
        if not is_linear(folded):
            trees = float_trees(self.name, folded, values=values)
            shift = make_tree_shift(self.shift, self.name, model, function, trees)
            return replace(self, shift=shift, values=values)
        if isinstance(self.shift, Shift):
            return self
        dropped = self.left_out(folded)
        shift = make_shift(self.shift, self.name, model, function, dropped, standardised=self.normalizers)
        return replace(self, shift=shift)

    def write(self, model: Folded | Additive) -> tuple[str, list[str]]:
        if self.part == "features":
            target = self
            if is_linear(model):
                self.terms(model)  # which raises if float32 cannot hold a number
            else:
                self.trees(model)
                target = replace(self, shift=NO_SHIFT)  # which leaves have
            body = target.draft(list(model.used), list(model.used))
            notes = ["a draft: each feature is the field of its name; replace those that are made otherwise"]
        else:
            body, notes = self._weights_of(model) if is_linear(model) else self._trees_of(model)
        return json.dumps(body, indent=1) + "\n", notes

    def _weights_of(self, folded: Folded) -> tuple[Any, list[str]]:
        notes = [
            f"{self.name} computes with float32: scores have about 7 digits",
            "a feature that a document does not match is 0 before it is standardised: it must be 0 in learning, too",
        ]
        notes += self._constant_notes(self.left_out(folded))
        spreads = dict(zip(folded.names, folded.spreads.tolist(), strict=True))
        step = ULP * _FEWEST_STEPS
        coarse = [name for name, _, mean in folded.terms() if abs(mean) * step > abs(spreads[name])]
        if coarse:
            notes.append(
                f"float32 holds few digits of what distinguishes documents in {', '.join(map(repr, coarse))}, whose "
                "mean is large beside the spread: subtract a constant from it where it is made"
            )
        return self.body(self.terms(folded)), notes

    def trees(self, model: Folded | Additive) -> FloatTrees:
        return float_trees(self.name, model, self.shift.value, self.values)

    def _trees_of(self, model: Folded | Additive) -> tuple[Any, list[str]]:
        trees = self.trees(model)
        body, own = self.tree_body(trees)
        absent = "a feature that a document does not match is 0: it must be 0 in learning, too"
        return body, [*trees.notes, absent, *own, *self._constant_notes(trees.dropped)]

    def export(self, function: RankingFunction) -> Export:
        export = super().export(function)
        return replace(export, notes=(*export.notes, *self.own_notes(len(as_sum(function).places))))

    @abstractmethod
    def own_notes(self, n_features: int) -> list[str]:
        """Return notes on the engine that do not depend on the model but on its number of weighted features."""

    def _constant_notes(self, dropped: float) -> list[str]:
        return [*([self.shift.promise] if self.shift.promise else []), *note_no_bias(dropped)]

    @abstractmethod
    def body(self, terms: list[FloatTerm]) -> Any:
        """Return the request's body as plain values."""

    @abstractmethod
    def tree_body(self, trees: FloatTrees) -> tuple[Any, list[str]]:
        """Return the request's body of trees as plain values, and what must be known of it."""

    def terms(self, folded: Folded) -> list[FloatTerm]:
        """Return the features that have a weight; raise if float32 cannot hold a number."""
        terms = []
        for place, (name, weight, offset) in zip(folded.places.tolist(), folded.terms(), strict=True):
            spread = float(folded.spreads[place])
            exact = (weight * spread, offset, spread) if self.normalizers else (weight, 0.0, 1.0)
            with np.errstate(over="ignore", under="ignore"):
                term = FloatTerm(name, *(float(np.float32(number)) for number in exact))
            for what, number, full in zip(("weight", "mean", "spread"), term[1:], exact, strict=True):
                lost = what != "mean" and abs(number) < SMALLEST  # smaller numbers have few digits, or none
                if lost or not math.isfinite(number):
                    raise ValueError(
                        f"{self.name} computes with float32, which cannot hold the {what} {full:g} of the feature "
                        f"{name!r}: scale the feature, or export to 'python', 'javascript', 'sql' or 'onnx'"
                    )
            terms.append(term)
        if self.shift.value:
            if SHIFT_FEATURE in folded.names:
                raise ValueError(f"a feature is called {SHIFT_FEATURE!r}, as that of the shift: rename it")
            terms.append(FloatTerm(SHIFT_FEATURE, self.shift.value, 0.0, 1.0))
        return terms

    def left_out(self, folded: Folded) -> float:
        """Return what was left out of every score."""
        return folded.bias if self.normalizers else folded.constant

    def differences(self, function: RankingFunction) -> Differences:
        model, added = as_sum(function), float(self.shift.value)
        if is_linear(model):
            dropped, n = self.left_out(model), len(model.places)
        else:
            trees = self.trees(model)
            dropped, n = trees.dropped, trees.forest.n_trees
        few_digits = f"float32 keeps few digits of scores to which {added:g} is added: take a smaller shift"
        return Differences(4 * ULP * n, dropped, added, few_digits if added else "")

    def sample(self) -> int | None:
        return None if self.url is None else LIVE_QUERIES

    def engine(self) -> str:
        if self.url is not None:
            return self.ask_name(self.server())
        return "emulated in float32, from its documentation (no engine was asked: set url)"

    def scores(self, function: RankingFunction, export: Export, X: AnyFeatures, offsets: Ints) -> Floats:
        if self.part != "model":
            raise ValueError(f"parity with {self.name} needs part='model', got {self.part!r}")
        if self.url is None:
            return super().scores(function, export, X, offsets)
        model = as_sum(function)
        with np.errstate(over="ignore"):
            values = model.columns(X).astype(np.float32)
        if not np.isfinite(values).all():
            raise ValueError(f"{self.name} computes with float32, which cannot hold some values of the features")
        server, names = self.server(), list(model.used)
        if not is_linear(model):
            trees, plain = self.trees(model), replace(self, shift=NO_SHIFT)
            asked = Asked(server, names, lambda target: target.tree_body(trees)[0], values, offsets)
            return plain.ask_scores(asked._replace(must_match=not trees.are_of_one_feature))
        terms = self.terms(model)
        return self.ask_scores(Asked(server, names, lambda target: target.body(terms), values, offsets))

    @abstractmethod
    def ask_name(self, server: EngineServer) -> str:
        """Return the name and version of a live engine."""

    @abstractmethod
    def ask_scores(self, asked: Asked) -> Floats:
        """Return the scores that a live engine gives; nothing is left behind on the server."""

    @abstractmethod
    def draft(self, names: list[str], fields: list[str]) -> Any:
        """Return the request's body for features that are the numbers in fields, and that of a shift."""

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        """Return the scores of documents as the engine computes them: each operation in float32, feature by feature."""
        values = columns.astype(np.float32)
        scores = np.zeros(len(values), np.float32)
        if not is_linear(model):
            trees = self.trees(model)
            forest = among(trees.forest, model.places)
            thresholds = np.array([self.reached(threshold) for threshold in forest.thresholds.tolist()])
            seen = self.seen_by_trees(values, trees).astype(np.float64)
            for leaves in replace(forest, thresholds=thresholds).leaves(seen).T:
                scores = scores + forest.values[leaves].astype(np.float32)
            return scores.astype(np.float64)
        values = np.column_stack([values, np.ones(len(values), np.float32)])  # the last is the feature of the shift
        for j, (_, weight, mean, spread) in enumerate(self.terms(model)):
            scores = scores + np.float32(weight) * ((values[:, j] - np.float32(mean)) / np.float32(spread))
        return scores.astype(np.float64)

    def seen_by_trees(self, values: Any, trees: FloatTrees) -> Any:
        """Return the values that trees of the engine see in place of those of documents."""
        return values

    def reached(self, threshold: float) -> float:
        """Return the threshold that the engine makes of the one that it is given for this."""
        return threshold
