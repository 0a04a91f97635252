"""Models of bins, a small tree for each feature, and of trees as sums of trees in numbers that float32 holds."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeGuard, TypeVar

import numpy as np

from perceptrank.deploy.additive import Additive, ScoreCurve, merge_equal
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.forests import join_forests
from perceptrank.kernels.arrays import Floats
from perceptrank.transforms.trees.forest import NEVER, Forest
from perceptrank.transforms.trees.reading import ForestBuilder

Node = TypeVar("Node")

_LARGEST = float(np.finfo(np.float32).max)
EXACT = "a document whose features float32 holds is in the {0} that it is in for the model"
ROUNDED = "a document is in another {1} than for the model if float32 does not tell its value from an edge below it"
MOST_VALUES = 256  # of a feature whose weight becomes a tree
_NAMED = 3  # features that a text names


class Values(NamedTuple):
    """All values that features have, in rising order, of which MOST_VALUES and one more are enough to know."""

    of: dict[int, Floats]  # by column
    promise: str


class FloatTrees(NamedTuple):
    """A sum of trees."""

    forest: Forest  # of the raw features, of the same names
    dropped: float  # what was left out of every score
    size: float  # sum of the largest absolute leaf of each tree
    notes: list[str]  # what must be known of them

    @property
    def used(self) -> list[str]:
        return [self.name(place) for place in np.unique(self.forest.features).tolist()]

    @property
    def are_of_one_feature(self) -> bool:
        """True if no tree looks at several features."""
        owners, _ = self.forest.owners()
        return len(np.unique(np.column_stack([owners, self.forest.features]), axis=0)) == self.forest.n_trees

    def name(self, place: int) -> str:
        return (self.forest.names or ())[place]


def balanced(thresholds: tuple[float, ...], leaves: list[Node], split: Callable[[float, Node, Node], Node]) -> Node:
    """Make a balanced tree of leaves between thresholds.

    Examples
    --------
    >>> balanced((1.0, 2.0, 3.0), ["a", "b", "c", "d"], lambda t, up, above: f"({up} {t} {above})")
    '((a 1.0 b) 2.0 (c 3.0 d))'
    """
    if not thresholds:
        return leaves[0]
    middle = len(thresholds) // 2
    up = balanced(thresholds[:middle], leaves[: middle + 1], split)
    return split(thresholds[middle], up, balanced(thresholds[middle + 1 :], leaves[middle + 1 :], split))


def is_linear(model: Folded | Additive) -> TypeGuard[Folded]:
    """Tell whether an engine that takes either weights or trees gets weights."""
    return isinstance(model, Folded) and model.forest is None


def float_trees(target: str, model: Folded | Additive, shift: float = 0.0, values: Values | None = None) -> FloatTrees:
    """Return a model of bins or of trees as trees; raise if it is none, or float32 cannot hold a number.

    Leaves of a tree are around 0, which keeps digits; the rest is left out of every score. The shift is added to those
    of the first tree. Edges that are values of documents become the nearest float32, as these do; others become the
    largest float32 that is not above, so that documents that float32 holds stay on their side.
    """
    if isinstance(model, Additive):
        if not model.has_steps:
            raise ValueError(
                f"{target} takes bins as trees, which are constant between edges, and hats are linear there: learn "
                "again with kind='one-hot' or 'thermometer' (--transform bins:kind=one-hot), or export to 'python', "
                "'javascript', 'sql', 'vespa', 'pmml' or 'onnx', which take hats"
            )
        curves, where, are_data = list(model.curves), ("bins", "bin"), model.are_edges_data
    else:
        curves, where, are_data = _curves_of_values(target, model, values), ("leaves", "leaf"), True
    builder, merged, is_exact = ForestBuilder(), list[str](), True
    for curve in curves:
        rounded_edges = [in_float(edge, rounded_down=not are_data) for edge in curve.edges]
        edges, heights = merge_equal(rounded_edges, curve.heights)
        is_exact &= not are_data or all(float(np.float32(edge)) == edge for edge in curve.edges)
        if len(edges) < len(curve.edges):
            merged.append(curve.name)
        _add_curve(builder, curve.place, edges, heights)
    forests = [builder.forest(len(model.names))] if curves else []
    if model.forest is not None:
        down = [in_float(threshold, rounded_down=True) for threshold in model.forest.thresholds.tolist()]
        forests.append(replace(model.forest, thresholds=np.array(down)))
    forest, constant = join_forests(forests)
    assert forest is not None
    lows, highs = forest.ranges()
    middles, (_, owners) = 0.5 * lows + 0.5 * highs, forest.owners()
    leaves, added = forest.values - middles[owners], np.where(owners == 0, shift, 0.0)
    with np.errstate(over="ignore", under="ignore"):
        rounded = (leaves + added).astype(np.float32).astype(np.float64)
    lost = ~np.isfinite(rounded) | ((leaves != 0.0) & (rounded == 0.0) & (added == 0.0))
    if lost.any():
        place = int(np.argmax(lost))
        feature = model.names[forest.features[forest.roots[owners[place]]]]
        raise ValueError(
            f"{target} computes with float32, which cannot hold the {leaves[place]:g} that {feature!r} adds to a "
            "score: export to 'python', 'javascript', 'sql' or 'onnx'"
        )
    said = (EXACT if is_exact else ROUNDED).format(*where)
    notes = [f"{target} computes with float32: scores have about 7 digits, and {said}"]
    if merged:
        notes.append(
            f"float32 cannot tell all edges of {name_some(merged)} apart: bins between equal ones are left out; "
            "subtract a constant from the feature where it is made, or scale it"
        )
    if values is not None:
        notes.append(values.promise)
    dropped, size = model.bias + constant + float(middles.sum()), float((0.5 * highs - 0.5 * lows).sum())
    return FloatTrees(replace(forest, values=rounded, names=model.names), dropped, size, notes)


def _add_curve(builder: ForestBuilder, place: int, edges: list[float], heights: list[float]) -> None:
    nodes: list[tuple[float, int, int]] = []  # from the root on, which is made last

    def split(edge: float, up: int, above: int) -> int:
        nodes.insert(0, (edge, up, above))
        return len(edges) - len(nodes)

    balanced(tuple(edges), [-1 - leaf for leaf in range(len(heights))], split)
    thresholds, left, right = zip(*nodes, strict=True) if nodes else ((), (), ())
    builder.add([place] * len(edges), thresholds, left, right, [NEVER] * len(edges), heights)


def _curves_of_values(target: str, model: Folded, values: Values | None) -> list[ScoreCurve]:
    """Return the linear part of a model as steps, one for each value that a feature has; raise if none are known."""
    weighted = np.flatnonzero(model.weights).tolist()
    many = [place for place in weighted if values is not None and len(values.of[place]) > MOST_VALUES]
    if many or (weighted and values is None):
        why = f"{target} takes weights or trees, and this model has both"
        more = (
            f", or, if features have few values, name documents that have all of these by the option values of {target}"
        )
        if many:
            why, more = f"values of {target}: {model.names[many[0]]!r} has more than the {MOST_VALUES} of a tree", ""
        raise ValueError(
            f"{why}: learn with `TreeLeaves(model.trees.forest)` as the only transform, or export to 'python', "
            f"'javascript', 'sql', 'onnx', 'vespa' or 'pmml'{more}"
        )
    curves, known = [], {} if values is None else values.of
    for place in weighted:
        own = known[place]
        heights = model.weights[place] * (own - model.offsets[place])
        curves.append(ScoreCurve(model.names[place], place, (), tuple(own[:-1].tolist()), tuple(heights.tolist())))
    return curves


def name_some(names: list[str]) -> str:
    """Quote the first of some names."""
    return ", ".join(map(repr, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")


def in_float(edge: float, *, rounded_down: bool) -> float:
    """Return an edge as a float32, the nearest or the largest that is not above it; it stays finite.

    Examples
    --------
    >>> in_float(0.1, rounded_down=False) > 0.1 > in_float(0.1, rounded_down=True)
    True
    """
    with np.errstate(over="ignore"):
        number = np.float32(edge)
    if rounded_down and float(number) > edge:
        number = np.nextafter(number, np.float32(-np.inf))
    return min(max(float(number), -_LARGEST), _LARGEST)


def next_float(number: float) -> float:
    """Return the smallest float32 above another."""
    return float(np.nextafter(np.float32(number), np.float32(np.inf)))
