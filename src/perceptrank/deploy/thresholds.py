"""Raw thresholds: values at which functions of raw features that rise cross the edges of bins."""

from collections.abc import Callable
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.transforms.transform import Transform

_BITS = 64
_LARGEST = float(np.finfo(np.float64).max)


def is_rising(transform: Transform) -> bool:
    """Tell if a transform makes a function of each feature alone that never falls."""
    return transform.rises and transform.scope == "feature"


def raw_thresholds(transforms: list[Transform], edges: Floats) -> Floats:
    """Return raw thresholds of edges that features have after transforms that are rising.

    The transformed feature is above an edge if and only if the raw one is above the threshold, which is the largest
    number of double precision that is not: so no document changes its bin by rounding. It is found by bisection.

    A threshold is infinite where no finite number is above the edge, minus infinite where all are.

    Examples
    --------
    >>> from perceptrank.transforms import Clip
    >>> raw_thresholds([Clip(2.0)], np.array([[-3.0, 1.0, 2.0]]))
    array([[-inf,   1.,  inf]])
    """
    if not transforms:
        return edges.copy()
    return last_not_above(lambda X: _transformed(transforms, X), edges.T).T


def last_not_above(rising: Callable[[Floats], Floats], edges: Floats) -> Floats:
    """Return for each edge the largest number at which a function that rises is not above it."""
    low, high = np.full(edges.shape, -_LARGEST), np.full(edges.shape, _LARGEST)
    always, never = rising(low) > edges, rising(high) <= edges
    lows, highs = _numbered(low), _numbered(high)
    for _ in range(_BITS):
        middles = (lows >> 1) + (highs >> 1) + (lows & highs & 1)
        above = rising(_number(middles)) > edges
        lows, highs = np.where(above, lows, middles), np.where(above, middles, highs)
    found: Floats = np.where(always, -np.inf, np.where(never, np.inf, _number(lows)))
    return found


def _numbered(values: Floats) -> Any:
    """Return whole numbers in the same order as numbers of double precision, neighbours of which are neighbours."""
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _number(numbers: Any) -> Floats:
    bits = np.where(numbers < 0, numbers ^ np.int64(2**63 - 1), numbers)
    values: Floats = bits.view(np.float64)
    return values


def _transformed(transforms: list[Transform], X: Floats) -> Floats:
    with np.errstate(over="ignore"):
        for transform in transforms:
            X = transform.evaluate(X)
    return X
