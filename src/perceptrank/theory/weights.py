"""The weights v of a measure's surrogate, by places of the ideal ranking."""

from typing import TypeAlias

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import helper
from perceptrank.measures.gains import gain_of, gain_shift

BY_SCORE, BY_MEAN, BY_INDEX = range(3)
CLASS_ORDERS = {"score": BY_SCORE, "mean": BY_MEAN, "index": BY_INDEX}

# Binary grades, cut-off (0 for none), gain, class order.
Weighing: TypeAlias = tuple[bool, int, int, int]


@helper
def lay_weights(
    binary: bool,
    cutoff: int,
    gain: int,
    shared: bool,
    n_relevant: int,
    n_levels: int,
    levels: Floats,
    first: Ints,
    discounts: Floats,
    weight_at: Floats,
) -> None:
    """Write the weight of every place of the ideal ranking that a relevant document takes.

    AP (binary): 1 / n_relevant. NDCG: gain * discount / ideal DCG in the first `cutoff` places, 0 after them; if
    shared, every document of a level has the mean weight of the level.
    """
    if binary:
        for p in range(n_relevant):
            weight_at[p] = 1.0 / n_relevant
        return
    counted = cutoff if 0 < cutoff < n_relevant else n_relevant
    shift = gain_shift(gain, levels[0])
    best = 0.0
    for level in range(n_levels):
        level_gain = gain_of(gain, levels[level], shift)
        stop = first[level + 1] if first[level + 1] < counted else counted
        for p in range(first[level], stop):
            weight_at[p] = level_gain * discounts[p]
            best += weight_at[p]
    if best > 0.0:  # it is 0 when every gain underflows
        for p in range(counted):
            weight_at[p] /= best
    for p in range(counted, n_relevant):
        weight_at[p] = 0.0
    if shared:
        for level in range(n_levels):
            start, stop = first[level], first[level + 1]
            if start < n_relevant:
                weight = 0.0
                for p in range(start, stop):
                    weight += weight_at[p]
                for p in range(start, stop):
                    weight_at[p] = weight / (stop - start)
