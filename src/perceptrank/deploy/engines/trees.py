"""Models of bins as sums of small trees, one for each feature, in numbers that float32 holds."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from perceptrank.deploy.additive import Additive, merge_equal

Node = TypeVar("Node")

_LARGEST = float(np.finfo(np.float32).max)
EXACT = "a document whose features float32 holds is in the bins that it is in for the model"
ROUNDED = "a document is in another bin than for the model if float32 does not tell its value from an edge below it"
_NAMED = 3  # features that a text names


class FloatTree(NamedTuple):
    """A tree of one feature: a leaf for values up to the first threshold, up to the second, ..., above the last."""

    name: str
    place: int
    thresholds: tuple[float, ...]
    leaves: tuple[float, ...]

    def nested(self, leaf: Callable[[float], Node], split: Callable[[float, Node, Node], Node]) -> Node:
        """Make a balanced tree: of each leaf, and of each threshold with what is up to it and what is above."""
        return balanced(self.thresholds, [leaf(value) for value in self.leaves], split)


class FloatTrees(NamedTuple):
    """A sum of trees."""

    trees: list[FloatTree]
    dropped: float  # what was left out of every score
    size: float  # sum of the largest absolute leaf of each tree
    notes: list[str]  # what must be known of them


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


def check_steps(target: str, additive: Additive) -> None:
    """Raise if a model is no sum of trees."""
    if not additive.has_steps:
        raise ValueError(
            f"{target} takes bins as trees, which are constant between edges, and hats are linear there: learn again "
            "with kind='one-hot' or 'thermometer' (--transform bins:kind=one-hot), or export to 'python', "
            "'javascript', 'sql', 'vespa', 'pmml' or 'onnx', which take hats"
        )


def float_trees(target: str, additive: Additive, shift: float = 0.0) -> FloatTrees:
    """Return a model of bins as trees; raise if it is none, or float32 cannot hold a number.

    Leaves of a tree are around 0, which keeps digits, and what that takes away is left out of every score; the shift
    is added to those of the first tree. A threshold is the nearest float32 if edges are values of documents: these are
    rounded alike, so that one at the edge stays at the edge. Otherwise it is the largest float32 that is not above the
    edge, so that every document that float32 holds is on its side of it.
    """
    check_steps(target, additive)
    trees: list[FloatTree] = []
    merged: list[str] = []
    dropped, size, is_exact = additive.bias, 0.0, True
    for curve in additive.curves:
        middle = 0.5 * min(curve.heights) + 0.5 * max(curve.heights)
        rounded_edges = [in_float(edge, rounded_down=not additive.are_edges_data) for edge in curve.edges]
        edges, heights = merge_equal(rounded_edges, curve.heights)
        is_exact &= not additive.are_edges_data or all(float(np.float32(edge)) == edge for edge in curve.edges)
        if len(edges) < len(curve.edges):
            merged.append(curve.name)
        dropped += middle
        leaves = [height - middle for height in heights]
        size += max(map(abs, leaves))
        added = shift if not trees else 0.0
        rounded = np.array([leaf + added for leaf in leaves]).astype(np.float32)
        for leaf, number in zip(leaves, rounded.tolist(), strict=True):
            if not math.isfinite(number) or (leaf and not number and not added):
                raise ValueError(
                    f"{target} computes with float32, which cannot hold the {leaf:g} that {curve.name!r} adds to a "
                    "score: export to 'python', 'javascript', 'sql' or 'onnx'"
                )
        trees.append(FloatTree(curve.name, curve.place, tuple(edges), tuple(rounded.tolist())))
    notes = [f"{target} computes with float32: scores have about 7 digits, and {EXACT if is_exact else ROUNDED}"]
    if merged:
        notes.append(
            f"float32 cannot tell all edges of {name_some(merged)} apart: bins between equal ones are left out; "
            "subtract a constant from the feature where it is made, or scale it"
        )
    return FloatTrees(trees, dropped, size, notes)


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
