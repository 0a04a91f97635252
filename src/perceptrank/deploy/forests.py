"""One forest of several, without trees that are constant."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Ints
from perceptrank.transforms.trees.forest import GOES_LEFT, ZERO, Forest


def join_forests(forests: Sequence[Forest]) -> tuple[Forest | None, float]:
    """Return the sum of forests of the same columns, which compares in double precision, and what is constant in it.

    Trees whose leaves all have the same value are in the constant; without others there is no forest.
    """
    parts, constant = [], 0.0
    for forest in forests:
        if (forest.missing & ~GOES_LEFT == ZERO).any():
            raise ValueError("trees that take zeros as missing cannot be exported: fit them without zero_as_missing")
        part, added = _without_constants(forest.in_double())
        constant += added
        parts += [part] if part.n_trees else []
    if not parts:
        return None, constant
    whole = parts[0]
    for part in parts[1:]:
        whole = _concatenate(whole, part)
    return whole.check(), constant


def node_rows(forest: Forest, names: Sequence[str]) -> list[tuple[str, float, int, int]]:
    """Return the nodes of a forest as rows, for a program that goes through them: feature, threshold, left, right."""
    features = [names[feature] for feature in forest.features.tolist()]
    return list(zip(features, forest.thresholds.tolist(), forest.left.tolist(), forest.right.tolist(), strict=True))


def _without_constants(forest: Forest) -> tuple[Forest, float]:
    lows, highs = forest.ranges()
    is_kept = lows < highs
    nodes, leaves = (is_kept[owners] for owners in forest.owners())
    # of each node and then of each leaf from the last to the first, where it will be: -1 - leaf counts from the end
    places = np.concatenate([np.cumsum(nodes) - 1, -1 * np.cumsum(leaves)[::-1]])
    kept = replace(
        forest,
        roots=places[forest.roots[is_kept]],
        left=places[forest.left[nodes]],
        right=places[forest.right[nodes]],
        values=forest.values[leaves],
        **{name: getattr(forest, name)[nodes] for name in ("features", "thresholds", "missing")},
    )
    return kept, float(lows[~is_kept].sum())


def _concatenate(forest: Forest, other: Forest) -> Forest:
    def after(ends: Ints) -> Ints:
        return np.where(ends >= 0, ends + len(forest.features), ends - forest.n_leaves)

    moved = replace(other, roots=after(other.roots), left=after(other.left), right=after(other.right))
    names = ("roots", "features", "thresholds", "left", "right", "missing", "values")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(forest, name), getattr(moved, name)]) for name in names}
    return replace(forest, **arrays)
