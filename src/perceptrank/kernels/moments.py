"""Mean and deviation of LANES columns at once."""

from typing import Any

from llvmlite import ir
from numba import types

from perceptrank.kernels.lanes import LANES, Carried, Lanes, call_on_lanes, constant, count_to, intrinsic, repeat


@intrinsic
def standardize_lanes(
    typing_context: Any, X: Any, place: Any, stride: Any, m: Any, outputs: Any, output_place: Any, output_stride: Any
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
            values.expect(builder.add(place, builder.mul(loop.index, stride)))
            total.set(builder.fadd(total.get(), builder.fsub(row(loop.index), first)))
        mean = builder.fdiv(total.get(), count)
        with count_to(builder, m) as loop:
            gap = builder.fsub(builder.fsub(row(loop.index), first), mean)
            squares.set(builder.fadd(squares.get(), builder.fmul(gap, gap)))
        mean, found = builder.fadd(mean, first), squares.get()
        deviation = call_on_lanes(builder, "sqrt", builder.fdiv(found, count))
        spread = builder.fcmp_ordered(">", deviation, zeros)
        inverse = builder.select(spread, builder.fdiv(ones, deviation), zeros)
        with count_to(builder, m) as loop:
            scaled = builder.fmul(builder.fsub(row(loop.index), mean), inverse)
            if narrow:
                scaled = builder.fptrunc(scaled, ir.VectorType(ir.FloatType(), LANES))
            outputs.store(builder.add(output_place, builder.mul(loop.index, output_stride)), scaled)
        together = ir.IntType(LANES)
        overflow = builder.fcmp_unordered("!=", builder.fsub(found, found), zeros)
        lane = builder.cttz(builder.bitcast(overflow, together), ir.Constant(ir.IntType(1), 0))
        return builder.zext(lane, m.type)

    count = types.intp
    return count(X, count, count, count, outputs, count, count), generate
