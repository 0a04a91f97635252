"""Transforms that replace features by scores of their ranks within a query.

The bits of a number, taken as a whole number, are ordered as the number is. The keys to sort by are the first of these
bits, and the number of the document. What they cannot tell apart is sorted again, by its place so far and the bits
that follow.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints, Keys, aligned
from perceptrank.kernels.columns import copy_rows, find_places, make_keys, scatter_entries, scatter_places, size_range
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.lanes import LANES
from perceptrank.kernels.networks import LARGEST_KEY, ROWS, sort_lanes
from perceptrank.kernels.scratch import Kept
from perceptrank.stream.validation import bad_feature, read_only
from perceptrank.transforms.forms import Nodes

MOST_SORTED = 1024  # beyond, document numbers would leave too few bits to sort by

# The score of a value of m documents, or of several equal ones, is the entry of scores(m) at the sum of the first and
# the last of its places, which count from 0 for the smallest value.
Scores: TypeAlias = Callable[[int], Floats]

_kept = Kept()


def _borrow_scratch(n_rows: int, dtype: np.dtype[Any]) -> tuple[Keys, Features]:
    """Return scratch of a pass, whose known places are 0, as the pass leaves them."""
    if (n_rows, dtype) not in _kept.scratch:
        keys, rows = aligned((3, n_rows, LANES), np.int32), aligned((n_rows, LANES), dtype)
        keys[2] = 0
        _kept.scratch[n_rows, dtype] = keys, rows
    return _kept.scratch[n_rows, dtype]


def write_scores(X: Features, offsets: Ints, outputs: Features, first: int, scores: Scores) -> None:
    """Write scores of ranks within queries, from a column on; raise if a value is not finite."""
    sizes = (offsets[1:] - offsets[:-1]).tolist()
    if not sizes:
        return
    long = [q for q, m in enumerate(sizes) if m > MOST_SORTED]
    tables = [_table(scores, m, X.dtype) if m <= MOST_SORTED else np.zeros(2 * m - 1, X.dtype) for m in sizes]
    table = read_only(tables[0] if len(tables) == 1 else np.concatenate(tables))
    n_rows = max(1 << (min(max(sizes), MOST_SORTED) - 1).bit_length(), ROWS)
    keys, rows = _borrow_scratch(n_rows, X.dtype)
    if not rank_pass(read_only(X), read_only(offsets), table, keys, rows, outputs, first) or not all(
        np.isfinite(X[offsets[q] : offsets[q + 1]]).all() for q in long
    ):
        raise bad_feature(X, 0, None)
    for q in long:
        start, stop = offsets[q], offsets[q + 1]
        _rank_long(X[start:stop], scores(sizes[q]), outputs[start:stop, first:])


@lru_cache(maxsize=2 * MOST_SORTED)
def _table(scores: Scores, m: int, dtype: np.dtype[Any]) -> Features:
    return read_only(scores(m).astype(dtype))


def _rank_long(X: Features, table: Floats, outputs: Features) -> None:
    """Write scores of the ranks of a long query into the first columns of an array."""
    m = len(X)
    for j in range(X.shape[1]):
        order = np.argsort(X[:, j], kind="stable")
        values = X[order, j]
        begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        lengths = np.diff(begins, append=m)
        outputs[order, j] = table[np.repeat(2 * begins + lengths - 1, lengths)]


def add_places(nodes: Nodes, X: str, width: int) -> str:
    """Add to a graph, for each value of a column, the sum of the first and last place of all equal ones, from 0 on."""
    m, shape = nodes.rows(X), nodes.add("Shape", X)
    values, order = nodes.add("TopK", X, nodes.add("Reshape", m, nodes.whole(1)), axis=0, largest=0, n_outputs=2)
    # Equal values are next to each other, and numbered together; places of each number are found by scattering.
    same = nodes.add("Equal", nodes.slice_rows(values, 1, 2**62), nodes.slice_rows(values, 0, -1))
    begins = nodes.as_whole(nodes.add("Not", same))
    runs = nodes.add("Concat", nodes.constant(np.zeros((1, width)), np.int64), begins, axis=0)
    runs = nodes.add("CumSum", runs, nodes.number(0))
    places = nodes.add("Range", nodes.number(0), m, nodes.number(1))
    places = nodes.add("Expand", nodes.add("Unsqueeze", places, nodes.whole(1)), shape)
    zeros, largest = nodes.add("Expand", nodes.number(0), shape), nodes.add("Expand", m, shape)
    first = nodes.add("ScatterElements", largest, runs, places, axis=0, reduction="min")
    last = nodes.add("ScatterElements", zeros, runs, places, axis=0, reduction="max")
    total = nodes.add("GatherElements", nodes.add("Add", first, last), runs, axis=0)
    return str(nodes.add("ScatterElements", zeros, order, total, axis=0))


@compiled
def rank_pass(
    X: Features, offsets: Ints, table: Features, scratch: Keys, rows: Features, outputs: Features, first: int
) -> bool:
    """Write scores of ranks within all queries that are not too long; return whether their features are finite."""
    keys, places, kept = scratch[0], scratch[1], scratch[2]  # kept: places that are known already, else 0
    n_features, n_outputs = X.shape[1], outputs.shape[1]
    fraction, infinity = (52, 0x7FF << 52) if X.itemsize == 8 else (23, 0xFF << 23)
    for q in range(len(offsets) - 1):
        start, m, bits = offsets[q], offsets[q + 1] - offsets[q], 0
        if m > MOST_SORTED:
            continue
        while 1 << bits < m:
            bits += 1
        for i in range(m, max(1 << bits, ROWS)):
            for lane in range(LANES):
                keys[i, lane] = LARGEST_KEY
        for group in range(0, n_features, LANES):
            column = min(group, n_features - LANES)  # the last columns are ranked together with some before them
            place, mask = start * n_features + column, -1
            least, most = size_range(X, place, n_features, m)
            if most >= infinity:
                return False
            base, shift = max((least >> fraction) - 1, 0) << fraction, 0
            while (most - base) >> (30 - bits + shift):
                shift += 1
            while True:
                make_keys(X, place, n_features, m, base, shift, mask, bits, kept, keys)
                sort_lanes(keys, m)
                if find_places(keys, m, bits, places):
                    break
                scatter_places(places, m, kept)
                following = min(shift, 29 - 2 * bits)
                shift -= following
                mask = (2 << following) - 1
            if mask >= 0:
                for i in range(m):
                    for lane in range(LANES):
                        kept[i, lane] = 0
            scatter_entries(places, m, rows, table, 2 * start - q)
            copy_rows(rows, m, outputs, start * n_outputs + first + column, n_outputs)
    return True
