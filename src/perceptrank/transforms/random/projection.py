"""Products of documents with many directions at once.

Directions stand in panels: PANEL[dtype] of them, feature by feature, so that a panel stays in the fastest cache while
documents pass by, ROWS at a time. Each product is a sum over features in their order, one after the other: its bits do
not depend on which documents are beside it.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from perceptrank.kernels.arrays import Features, Floats, aligned
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.lanes import LANES, Carried, Lanes, call_on_lanes, constant, count_to, intrinsic, repeat

ROWS = 6  # with a panel of two vectors each, they fill all but four of sixteen registers
N_TILES = 8  # of ROWS documents, which panels are read for once


def panel_width(dtype: Any) -> int:
    """Return how many directions are in a panel: as many as fill 64 bytes."""
    return 64 // np.dtype(dtype).itemsize


def as_panels(directions: Floats, dtype: Any) -> Features:
    """Return directions, one in each row, as panels of shape (panels, features, width), the last filled with zeros."""
    width = panel_width(dtype)
    n, n_features = directions.shape
    panels: Features = aligned((-(-n // width), n_features, width), dtype)
    panels[-1] = 0.0
    for number in range(len(panels)):
        some = directions[number * width : (number + 1) * width]
        panels[number, :, : len(some)] = some.T
    return panels


@helper
def fill_tiles(X: Features, start: int, stop: int, factor: float, tiles: Features) -> int:
    """Write rows of X times a factor to tiles (tiles, features, ROWS), then zeros; return the number of tiles."""
    n_features = X.shape[1]
    n_tiles = (stop - start + ROWS - 1) // ROWS
    for number in range(n_tiles):
        for k in range(ROWS):
            i = start + number * ROWS + k
            if i < stop:
                for j in range(n_features):
                    tiles[number, j, k] = X[i, j] * factor
            else:
                for j in range(n_features):
                    tiles[number, j, k] = 0.0
    return n_tiles


@intrinsic
def project_tile(_: Any, tiles: Any, tile: Any, n_features: Any, panels: Any, panel: Any, products: Any) -> Any:
    """Store the products of ROWS documents, from a place of the tiles on, with those of a panel; a row for each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, directions, stored = (Lanes(context, builder, signature, arguments, number) for number in (0, 3, 5))
        _, tile, n_features, _, panel, _ = arguments
        kind = ir.VectorType(context.get_value_type(panels.dtype), LANES)
        width = 512 // panels.dtype.bitwidth
        n_vectors = width // LANES
        zero = constant(kind, 0.0)
        sums = [[Carried(builder, zero) for _ in range(n_vectors)] for _ in range(ROWS)]

        def whole(number: int) -> Any:
            return ir.Constant(tile.type, number)

        with count_to(builder, n_features) as loop:
            at = builder.add(panel, builder.mul(loop.index, whole(width)))
            vectors = [directions.load(builder.add(at, whole(LANES * v))) for v in range(n_vectors)]
            row = builder.add(tile, builder.mul(loop.index, whole(ROWS)))
            for k in range(ROWS):
                value = repeat(builder, builder.load(rows.at(builder.add(row, whole(k)))))
                for total, vector in zip(sums[k], vectors, strict=True):
                    total.set(call_on_lanes(builder, "fmuladd", value, vector, total.get()))
        for k in range(ROWS):
            for v in range(n_vectors):
                stored.store(whole(k * width + v * LANES), sums[k][v].get())
        return context.get_dummy_value()

    count = types.intp
    return types.void(tiles, count, count, panels, count, products), generate
