"""Standardising each query's features by the mean and deviation of the query."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.lanes import LANES, Carried, Lanes, call_on_lanes, constant, count_to, intrinsic, repeat
from perceptrank.stream.validation import read_only
from perceptrank.transforms.forms import Nodes, add_inverse
from perceptrank.transforms.standardizing import check_overflow
from perceptrank.transforms.transform import ColumnTransform


class QueryZScore(ColumnTransform):
    """Standardise each feature to mean 0 and standard deviation 1 within a query; constant features become 0.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0]], [0, 1])
    >>> QueryZScore().transform(stream).X
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    name = "query-zscore"
    rises = True
    scope = "query"
    label, unit = "z-score", "standard deviation within its query"
    spread = 1.0

    def write_columns(self, X: Features, offsets: Ints, outputs: Features, first: int) -> None:
        check_overflow(query_zscore_pass(read_only(X), read_only(offsets), outputs, first), X)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        """Add the scaling; values are taken relative to the first row, so that a constant column becomes exactly 0."""
        first = nodes.slice_rows(X, 0, 1)
        gaps = nodes.add("Sub", X, first)
        mean = nodes.reduce("ReduceMean", gaps)
        centred = nodes.add("Sub", gaps, mean)
        deviation = nodes.add("Sqrt", nodes.reduce("ReduceMean", nodes.add("Mul", centred, centred)))
        inverse = add_inverse(nodes, deviation, nodes.add("Greater", deviation, 0.0))
        return str(nodes.add("Mul", nodes.add("Sub", X, nodes.add("Add", mean, first)), inverse))

    def largest_norm(self, n_features: int, longest: int) -> float:
        return math.sqrt(n_features * (longest - 1))


@intrinsic
def standardize_lanes(
    _: Any, X: Any, place: Any, stride: Any, m: Any, outputs: Any, output_place: Any, output_stride: Any
) -> Any:
    """Write m rows less their mean, over their standard deviation; 0 where that is 0.

    Values are taken relative to the first row, so that a constant column has exactly zero deviation. Returns the first
    lane whose squared deviations overflow, LANES if none does.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, outputs = (Lanes(context, builder, signature, arguments, number) for number in (0, 4))
        _, place, stride, m, _, output_place, output_stride = arguments
        floats = ir.VectorType(ir.DoubleType(), LANES)
        narrow = signature.args[0].dtype == types.float32
        zeros, ones = constant(floats, 0.0), constant(floats, 1.0)

        def row(number: Any) -> Any:
            vector = values.load(builder.add(place, builder.mul(number, stride)))
            return builder.fpext(vector, floats) if narrow else vector

        first, count = row(ir.Constant(m.type, 0)), repeat(builder, builder.sitofp(m, ir.DoubleType()))
        total, squares = Carried(builder, zeros), Carried(builder, zeros)
        with count_to(builder, m) as loop:
            values.expect(builder.add(place, builder.mul(builder.add(m, loop.index), stride)))  # of the next query
            total.set(builder.fadd(total.get(), builder.fsub(row(loop.index), first)))
        mean = builder.fdiv(total.get(), count)
        with count_to(builder, m) as loop:
            gap = builder.fsub(builder.fsub(row(loop.index), first), mean)
            squares.set(builder.fadd(squares.get(), builder.fmul(gap, gap)))
        mean, total_squares = builder.fadd(mean, first), squares.get()
        deviation = call_on_lanes(builder, "sqrt", builder.fdiv(total_squares, count))
        spread = builder.fcmp_ordered(">", deviation, zeros)
        inverse = builder.select(spread, builder.fdiv(ones, deviation), zeros)
        with count_to(builder, m) as loop:
            scaled = builder.fmul(builder.fsub(row(loop.index), mean), inverse)
            if narrow:
                scaled = builder.fptrunc(scaled, ir.VectorType(ir.FloatType(), LANES))
            outputs.store(builder.add(output_place, builder.mul(loop.index, output_stride)), scaled)
        together = ir.IntType(LANES)
        overflow = builder.fcmp_unordered("!=", builder.fsub(total_squares, total_squares), zeros)
        lane = builder.cttz(builder.bitcast(overflow, together), ir.Constant(ir.IntType(1), 0))
        return builder.zext(lane, m.type)

    count = types.intp
    return count(X, count, count, count, outputs, count, count), generate


@compiled
def query_zscore_pass(X: Features, offsets: Ints, scaled: Features, first: int) -> int:
    """Standardise every query by its own mean and deviation; return the first feature that overflows, or -1."""
    n_features, n_outputs = X.shape[1], scaled.shape[1]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        for group in range(0, n_features, LANES):
            column = min(group, n_features - LANES)  # the last columns are scaled together with some before them
            target = start * n_outputs + first + column
            lane = standardize_lanes(X, start * n_features + column, n_features, m, scaled, target, n_outputs)
            if lane < LANES:
                return column + lane
    return -1
