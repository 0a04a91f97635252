"""Places of values among those of the same column, for LANES columns at once."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from perceptrank.kernels.lanes import INT, INTS, LANES, Carried, Lanes, all_lanes, constant, intrinsic, repeat

EXPONENT = 7  # bits that are enough for exponents near 0


@intrinsic
def make_keys(
    typing_context: Any,
    X: Any,
    place: Any,
    stride: Any,
    m: Any,
    wide: Any,
    shift: Any,
    mask: Any,
    bits: Any,
    kept: Any,
    keys: Any,
) -> Any:
    """Store m rows of keys: bits of the values of X, whether others follow that are not 0, and the number of the row.

    Whole numbers that are ordered as the values are, without the last `shift` bits, are masked, and leave 1 + `bits`
    bits for the rest. What is kept from before stands in front of them. Unless they are to be wide, whole numbers have
    fewer bits than values, but stand only for 0 and what is near enough to 1: returns whether all values are.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, kept, rows = (Lanes(context, builder, signature, arguments, number) for number in (0, 8, 9))
        _, place, stride, m, wide, shift, mask, bits, _, _ = arguments
        width, fraction = (64, 52) if X.dtype == types.float64 else (32, 23)
        word = ir.IntType(width)
        words = ir.VectorType(word, LANES)
        zeros, none = constant(words, 0), constant(INTS, 0)
        least = ir.Constant(word, (2 ** (width - fraction - 2) - 2 ** (EXPONENT - 1)) << fraction)
        least = repeat(builder, builder.select(wide, ir.Constant(word, 0), least))
        left_out = builder.zext(shift, word) if width > 32 else shift
        rest = repeat(builder, builder.sub(builder.shl(ir.Constant(word, 1), left_out), ir.Constant(word, 1)))
        left_out, mask, mark = (repeat(builder, number) for number in (left_out, mask, bits))
        after = builder.add(mark, constant(INTS, 1))
        before = builder.sub(constant(INTS, 30), mark)
        strange, largest = Carried(builder, zeros), Carried(builder, zeros)
        with cgutils.for_range(builder, m) as loop:
            at = builder.add(place, builder.mul(loop.index, stride))
            values.expect(at)
            value = builder.bitcast(values.load(at), words)
            size = builder.and_(value, constant(words, 2 ** (width - 1) - 1))
            sign = builder.ashr(value, constant(words, width - 1))
            above = builder.sub(size, least)
            low = builder.sext(builder.icmp_signed("<=", above, zeros), words)
            zero = builder.sext(builder.icmp_signed("==", size, zeros), words)
            strange.set(builder.or_(strange.get(), builder.xor(low, zero)))
            above = builder.and_(above, builder.not_(low))
            largest.set(builder.or_(largest.get(), above))
            number = builder.sub(builder.xor(above, sign), sign)
            key = builder.lshr(number, left_out)
            key = builder.and_(builder.trunc(key, INTS) if width > 32 else key, mask)
            more = builder.icmp_signed("!=", builder.and_(number, rest), zeros)
            key = builder.or_(builder.shl(key, after), builder.shl(builder.zext(more, INTS), mark))
            key = builder.or_(key, repeat(builder, builder.trunc(loop.index, INT)))
            row = builder.mul(loop.index, ir.Constant(m.type, LANES))
            rows.store(row, builder.or_(key, builder.shl(kept.load(row), before)))
        beyond = builder.lshr(largest.get(), constant(words, fraction + EXPONENT))
        return all_lanes(builder, builder.icmp_signed("==", builder.or_(strange.get(), beyond), zeros))

    number, count = types.int32, types.intp
    return types.boolean(X, count, count, count, types.boolean, number, number, number, kept, keys), generate


@intrinsic
def find_places(typing_context: Any, keys: Any, m: Any, bits: Any, places: Any) -> Any:
    """Store the sum of the first and the last place of each key among m sorted ones that agree but for the last `bits`.

    Beside it, in the lower half, stands the place of the row that these bits number. Returns whether keys that agree
    stand for values with no more bits.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, found = (Lanes(context, builder, signature, arguments, number) for number in (0, 3))
        _, m, bits, _ = arguments
        none = constant(INTS, 0)
        mark = repeat(builder, builder.shl(ir.Constant(INT, 1), bits))
        numbers = builder.sub(mark, constant(INTS, 1))
        before, place = Carried(builder, none), Carried(builder, none)
        doubtful = Carried(builder, none)

        def turn(row: Any) -> Any:
            """Carry the place of the row before to this one where they agree, else set it to this row's number."""
            at = builder.mul(row, ir.Constant(m.type, LANES))
            key = rows.load(at)
            gap = builder.xor(key, before.get())
            equal = builder.icmp_unsigned("<=", gap, numbers)
            place.set(builder.select(equal, place.get(), repeat(builder, builder.trunc(row, INT))))
            before.set(key)
            return at, key, equal

        before.set(builder.not_(rows.load(ir.Constant(m.type, 0))))
        with cgutils.for_range(builder, m) as loop:
            at, key, equal = turn(loop.index)
            doubtful.set(builder.or_(doubtful.get(), builder.select(equal, key, none)))
            found.store(at, place.get())
        before.set(builder.not_(before.get()))
        with cgutils.for_range(builder, m) as loop:
            at, key, _ = turn(builder.sub(builder.sub(m, loop.index), ir.Constant(m.type, 1)))
            total = builder.shl(builder.add(found.load(at), place.get()), constant(INTS, 16))
            row = builder.mul(builder.and_(key, numbers), constant(INTS, LANES))
            found.store(at, builder.or_(total, row))
        return all_lanes(builder, builder.icmp_signed("==", builder.and_(doubtful.get(), mark), none))

    return types.boolean(keys, types.intp, types.int32, places), generate


def _scattering(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate code that stores totals of places, or what a table has for them, in the rows that belong to them."""
    places, rows = (Lanes(context, builder, signature, arguments, number) for number in (0, 2))
    m = arguments[1]
    with cgutils.for_range(builder, m) as loop:
        first = builder.mul(loop.index, ir.Constant(m.type, LANES))
        for lane in (ir.Constant(m.type, lane) for lane in range(LANES)):
            found = builder.load(places.at(builder.add(first, lane)))
            entry = builder.lshr(found, ir.Constant(INT, 16))
            to = rows.at(builder.add(builder.zext(builder.and_(found, ir.Constant(INT, 2**16 - 1)), m.type), lane))
            if len(arguments) > 3:
                table = Lanes(context, builder, signature, arguments, 3)
                at = table.at(builder.add(arguments[4], builder.zext(entry, m.type)))
                # Processors store more whole numbers at a time than others.
                word = ir.IntType(signature.args[3].dtype.bitwidth).as_pointer()
                entry, to = builder.load(builder.bitcast(at, word)), builder.bitcast(to, word)
            builder.store(entry, to)
    return context.get_dummy_value()


@intrinsic
def scatter_places(typing_context: Any, places: Any, m: Any, rows: Any) -> Any:
    """Store the totals of m rows of places in the rows that belong to them."""
    return types.void(places, types.intp, rows), _scattering


@intrinsic
def scatter_entries(typing_context: Any, places: Any, m: Any, rows: Any, table: Any, start: Any) -> Any:
    """Store the entries that a table, from `start` on, has for the totals of m rows of places."""
    return types.void(places, types.intp, rows, table, types.intp), _scattering


@intrinsic
def copy_rows(typing_context: Any, rows: Any, m: Any, outputs: Any, place: Any, stride: Any) -> Any:
    """Copy m rows to an output, from a place on, `stride` apart."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, outputs = (Lanes(context, builder, signature, arguments, number) for number in (0, 2))
        _, m, _, place, stride = arguments
        with cgutils.for_range(builder, m) as loop:
            row = rows.load(builder.mul(loop.index, ir.Constant(m.type, LANES)))
            outputs.store(builder.add(place, builder.mul(loop.index, stride)), row)
        return context.get_dummy_value()

    return types.void(rows, types.intp, outputs, types.intp, types.intp), generate
