"""Models of bins as sums of functions of single raw features."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from perceptrank.deploy.folding import Folded, RawSum, fold_function, refuse
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.transforms.forms import Piecewise
from perceptrank.transforms.transform import Transform

_BITS = 64
_LARGEST = float(np.finfo(np.float64).max)


class ScoreCurve(NamedTuple):
    """The part of the score that a feature adds, as a function of it.

    Steps have one more height than edges: up to and including the first edge, from there to the second, ..., above the
    last. Lines have one at each edge, beyond which the function is constant.
    """

    name: str
    place: int  # its column
    before: tuple[tuple[float, float], ...]  # what becomes of it first: (x - mean) * inverse, one after the other
    edges: tuple[float, ...]  # in rising order
    heights: tuple[float, ...]

    def lines(self) -> Iterator[tuple[float, float, float, float]]:
        """Yield each line between two edges: where it starts, how far it goes, and its height and rise there."""
        for (low, high), (start, end) in zip(pairwise(self.edges), pairwise(self.heights), strict=True):
            yield low, high - low, start, end - start


@dataclass(frozen=True)
class Additive(RawSum):
    """A model as a sum of piecewise constant, or of piecewise linear functions of raw features, and a constant."""

    algorithm: str
    curves: tuple[ScoreCurve, ...]  # of the features that change the score
    has_steps: bool  # True if they are piecewise constant, False if piecewise linear
    bias: float
    names: tuple[str, ...]
    # True if edges are values that features of documents had, as no statistics have changed since they were found
    are_edges_data: bool
    notes: tuple[str, ...]

    is_sparse: ClassVar[bool] = False  # bins take dense features only, of which none may be absent
    takes_missing: ClassVar[bool] = False
    kind: ClassVar[str] = "a sum of functions of features"
    forest: ClassVar[None] = None  # type: ignore[misc]
    unused: ClassVar[str] = "change no score"

    @property
    def places(self) -> Any:
        return np.array([curve.place for curve in self.curves])

    def scores(self, X: AnyFeatures) -> Floats:
        scores: Floats = np.full(len(X), self.bias)
        for curve, column in zip(self.curves, self.columns(X).T, strict=True):
            values = column
            for mean, inverse in curve.before:
                values = (values - mean) * inverse
            if self.has_steps:
                scores = scores + np.array(curve.heights)[np.searchsorted(curve.edges, values, side="left")]
            else:
                scores = scores + np.interp(values, curve.edges, curve.heights)
        return scores


class Table(NamedTuple):
    """The numbers of a sum, for a program that goes through them, a row for each feature that begins with its name."""

    name: str
    columns: str  # what stands in a row after the feature's name
    parts: str  # names of that
    rows: list[tuple[Any, ...]]


def table_of(model: Folded | Additive) -> Table:
    """Return the terms or curves of a model as a table."""
    if isinstance(model, Folded):
        columns = "weight, and what is subtracted from the feature first"
        return Table("TERMS", columns, "weight, offset", list(map(tuple, model.terms())))
    if model.has_steps:
        steps = "edges, and what it adds: up to the first, up to the second, ..., above the last"
        rows = [(curve.name, curve.edges, curve.heights) for curve in model.curves]
        return Table("CURVES", steps, "edges, heights", rows)
    lines = "what it is scaled by, edges, and what it adds there: linear in between, constant beyond"
    scaled = [(curve.name, curve.before, curve.edges, curve.heights) for curve in model.curves]
    return Table("CURVES", lines, "scaling, edges, heights", scaled)


def as_sum(function: RankingFunction) -> Folded | Additive:
    """Return a model as a sum over raw features: of functions of them, if there are bins, or of products."""
    return read_additive(function) or fold_function(function)


def read_additive(function: RankingFunction) -> Additive | None:
    """Return a model of piecewise functions, as bins are, as a sum of functions of features; None if it has none.

    Transforms before these must rise with each feature (or be linear, for hats), and those after them be linear.
    """
    n = len(function.names)
    forms = [transform.piecewise(n) for transform in function.transforms]
    place = next((place for place, form in enumerate(forms) if form is not None), None)
    functions = None if place is None else forms[place]
    if place is None or functions is None:
        return None
    before, bins, after = function.transforms[:place], function.transforms[place], function.transforms[place + 1 :]
    for transform in before:
        if not is_rising(transform):
            raise refuse(transform, function)
        if not functions.has_steps and transform.affine(n) is None:
            raise ValueError(
                f"{function.algorithm} ranks by hats of features after {transform!r}, which are not linear between "
                "edges: export to 'onnx', or learn again with kind='one-hot' or 'thermometer' of the bins"
            )
    outputs = tuple(map(str, range(n * functions.n_each)))
    folded = fold_function(replace(function, names=outputs, is_named=True, transforms=after))
    weights = folded.weights.reshape(n, functions.n_each)
    make = _steps if functions.has_steps else _lines
    curves, bias = [], folded.constant
    for place, curve in enumerate(make(function.names, functions, before, weights)):
        if len(curve.heights) > 1:
            curves.append(curve._replace(place=place))
        else:
            bias += curve.heights[0]
    if not curves:
        raise ValueError("no feature changes the score of a document: there is nothing to export")
    notes = [*function.notes(), *folded.notes]
    if not all(transform.is_settled for transform in (*before, bins)):
        notes.append("edges of bins are those that the model has now: export it again when it has learned on")
    are_data, distinct = not any(transform.learns for transform in before), tuple(dict.fromkeys(notes))
    return Additive(function.algorithm, tuple(curves), functions.has_steps, bias, function.names, are_data, distinct)


def is_rising(transform: Transform) -> bool:
    """Tell if a transform makes a function of each feature alone that never falls."""
    return transform.rises and transform.scope == "feature"


def raw_thresholds(transforms: list[Transform], edges: Floats) -> Floats:
    """Return raw thresholds of edges that features have after transforms that are rising.

    The transformed feature is above an edge if and only if the raw one is above the threshold, so that rounding changes
    no bin. It is found by bisection; infinite where no finite number is above the edge, minus infinite where all are.

    Examples
    --------
    >>> from perceptrank.transforms import Clip
    >>> raw_thresholds([Clip(2.0)], np.array([[-3.0, 1.0, 2.0]]))
    array([[-inf,   1.,  inf]])
    """
    if not transforms:
        return edges.copy()

    def is_above(X: Floats) -> Any:
        with np.errstate(over="ignore"):
            for transform in transforms:
                X = transform.evaluate(X)
        return X > edges.T

    low, high = np.full(edges.T.shape, -_LARGEST), np.full(edges.T.shape, _LARGEST)
    always, never = is_above(low), ~is_above(high)
    lows, highs = _flip_negative(low.view(np.int64)), _flip_negative(high.view(np.int64))
    for _ in range(_BITS):
        middles = (lows >> 1) + (highs >> 1) + (lows & highs & 1)
        above = is_above(_flip_negative(middles).view(np.float64))
        lows, highs = np.where(above, lows, middles), np.where(above, middles, highs)
    numbers = _flip_negative(lows).view(np.float64)
    thresholds: Floats = np.where(always, -np.inf, np.where(never, np.inf, numbers)).T
    return thresholds


def _flip_negative(bits: Any) -> Any:
    """Turn bits of double precision into whole numbers in the same order, or back."""
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _steps(names: tuple[str, ...], functions: Piecewise, before: list[Transform], weights: Floats) -> list[ScoreCurve]:
    levels = weights
    if functions.kind == "thermometer":
        levels = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    thresholds = raw_thresholds(before, functions.edges)
    curves = []
    for name, edges, own in zip(names, thresholds.tolist(), levels.tolist(), strict=True):
        below = sum(edge == -np.inf for edge in edges)  # of which every document is above
        reached = [edge for edge in edges if np.isfinite(edge)]
        kept, heights = merge_equal(reached, own[below : below + len(reached) + 1])
        steps = [k for k in range(len(kept)) if heights[k + 1] != heights[k]]  # other edges are left out
        levels_of = (heights[0], *(heights[k + 1] for k in steps))
        curves.append(ScoreCurve(name, 0, (), tuple(kept[k] for k in steps), levels_of))
    return curves


def merge_equal(edges: Sequence[float], heights: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return different edges of rising ones, and the heights between them.

    Above equal edges are documents of the bin after the last of them.

    Examples
    --------
    >>> merge_equal([1.0, 2.0, 2.0], [0.0, 0.1, 0.2, 0.3])
    ([1.0, 2.0], [0.0, 0.1, 0.3])
    """
    after = dict(zip(edges, heights[1:], strict=True))
    return list(after), [heights[0], *after.values()]


def _lines(names: tuple[str, ...], functions: Piecewise, before: list[Transform], weights: Floats) -> list[ScoreCurve]:
    n = len(names)
    forms = [form for transform in before if (form := transform.affine(n)) is not None]
    curves = []
    for j, name in enumerate(names):
        edges, firsts = np.unique(functions.edges[j], return_index=True)
        heights = weights[j, firsts]
        own = tuple((float(mean[j]), float(inverse[j])) for mean, inverse in forms)
        if not np.isfinite(np.diff(edges)).all() or not np.isfinite(np.diff(heights)).all():
            raise ValueError(f"edges of feature {name!r} are further apart than double precision holds: scale it")
        if any(inverse == 0.0 for _, inverse in own):  # a constant feature
            value = 0.0
            for mean, inverse in own:
                value = (value - mean) * inverse
            heights = np.interp([value], edges, heights)
        elif (heights == heights[0]).all():
            heights = heights[:1]
        curves.append(ScoreCurve(name, 0, own, tuple(edges.tolist()), tuple(heights.tolist())))
    return curves
