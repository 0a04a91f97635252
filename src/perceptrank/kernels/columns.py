"""Places of values among those of the same column, for LANES columns at once."""

from typing import Any

from llvmlite import ir
from numba import types

from perceptrank.kernels.lanes import (
    INT,
    INTS,
    LANES,
    Carried,
    Lanes,
    call_on_lanes,
    constant,
    count_to,
    intrinsic,
    repeat,
)

_TUPLE: Any = types.Tuple


class _Sizes:
    """The bits of LANES values, less the sign, as whole numbers that are ordered as the sizes of the values are."""

    def __init__(self, X: Any) -> None:
        self.width = X.dtype.bitwidth
        self.word = ir.IntType(self.width)
        self.words = ir.VectorType(self.word, LANES)

    def read(self, builder: Any, values: Any) -> tuple[Any, Any]:
        """Return sizes, and -1 for values with a sign, else 0."""
        bits = builder.bitcast(values, self.words)
        sign = builder.ashr(bits, constant(self.words, self.width - 1))
        return builder.and_(bits, constant(self.words, 2 ** (self.width - 1) - 1)), sign

    def reduced(self, builder: Any, operation: str, vector: Any) -> Any:
        """Return a reduction of a vector."""
        return call_on_lanes(builder, f"vector.reduce.{operation}", vector, returned=self.word)


@intrinsic
def size_range(_: Any, X: Any, place: Any, stride: Any, m: Any) -> Any:
    """Return the smallest size, but for 0, and the largest of m rows of values; a size is bits taken as a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, sizes = Lanes(context, builder, signature, arguments, 0), _Sizes(X)
        _, place, stride, m = arguments
        largest = constant(sizes.words, 2 ** (sizes.width - 1) - 1)
        least, most = Carried(builder, largest), Carried(builder, constant(sizes.words, 0))
        with count_to(builder, m) as loop:
            at = builder.add(place, builder.mul(loop.index, stride))
            values.expect(builder.add(at, ir.Constant(m.type, 16)))  # of the next columns
            size, _ = sizes.read(builder, values.load(at))
            most.set(builder.select(builder.icmp_signed(">", size, most.get()), size, most.get()))
            size = builder.add(size, largest)  # what is not 0 becomes less than that
            least.set(builder.select(builder.icmp_signed("<", size, least.get()), size, least.get()))
        bounds = [sizes.reduced(builder, "smin", least.get()), sizes.reduced(builder, "smax", most.get())]
        bounds[0] = builder.sub(bounds[0], ir.Constant(sizes.word, 2 ** (sizes.width - 1) - 1))
        bounds = [builder.zext(size, ir.IntType(64)) if sizes.width < 64 else size for size in bounds]
        return context.make_tuple(builder, signature.return_type, bounds)

    count, number = types.intp, types.int64
    return _TUPLE((number, number))(X, count, count, count), generate


@intrinsic
def make_keys(
    _: Any, X: Any, place: Any, stride: Any, m: Any, base: Any, shift: Any, mask: Any, bits: Any, kept: Any, keys: Any
) -> Any:
    """Store m rows of keys: bits of the values of X, whether others follow that are not 0, and the number of the row.

    Sizes less a base, which is below all but 0, with the sign of the value, are whole numbers. Their bits but for the
    last `shift`, and whether these are not 0, are masked; `bits` bits follow. What is kept from before stands in front.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, kept, rows = (Lanes(context, builder, signature, arguments, number) for number in (0, 8, 9))
        _, place, stride, m, base, shift, mask, bits, _, _ = arguments
        sizes, zeros = _Sizes(X), constant(_Sizes(X).words, 0)
        base, shift = (builder.trunc(number, sizes.word) if sizes.width < 64 else number for number in (base, shift))
        one = ir.Constant(sizes.word, 1)
        rest = repeat(builder, builder.sub(builder.shl(one, shift), one))
        base, shift, mask, mark = (repeat(builder, number) for number in (base, shift, mask, bits))
        before, ones = builder.sub(constant(INTS, 30), mark), constant(sizes.words, 1)
        with count_to(builder, m) as loop:
            size, sign = sizes.read(builder, values.load(builder.add(place, builder.mul(loop.index, stride))))
            size = builder.sub(size, base)
            size = builder.select(builder.icmp_signed(">", size, zeros), size, zeros)
            number = builder.sub(builder.xor(size, sign), sign)
            more = builder.zext(builder.icmp_signed("!=", builder.and_(number, rest), zeros), sizes.words)
            key = builder.or_(builder.shl(builder.lshr(number, shift), ones), more)
            key = builder.and_(builder.trunc(key, INTS) if sizes.width > 32 else key, mask)
            key = builder.or_(builder.shl(key, mark), repeat(builder, builder.trunc(loop.index, INT)))
            row = builder.mul(loop.index, ir.Constant(m.type, LANES))
            rows.store(row, builder.or_(key, builder.shl(kept.load(row), before)))
        return context.get_dummy_value()

    count, number = types.intp, types.int32
    return types.void(X, count, count, count, count, count, number, number, kept, keys), generate


@intrinsic
def find_places(_: Any, keys: Any, m: Any, bits: Any, places: Any) -> Any:
    """Store the sum of the first and the last place of each key among m sorted ones that agree but for the last `bits`.

    Beside it, in the lower half, stands the place of the row that these bits number. Returns whether keys that agree
    stand for values with no more bits.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, totals = (Lanes(context, builder, signature, arguments, number) for number in (0, 3))
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
        with count_to(builder, m) as loop:
            at, key, equal = turn(loop.index)
            doubtful.set(builder.or_(doubtful.get(), builder.select(equal, key, none)))
            totals.store(at, place.get())
        before.set(builder.not_(before.get()))
        with count_to(builder, m) as loop:
            at, key, _ = turn(builder.sub(builder.sub(m, loop.index), ir.Constant(m.type, 1)))
            total = builder.shl(builder.add(totals.load(at), place.get()), constant(INTS, 16))
            row = builder.mul(builder.and_(key, numbers), constant(INTS, LANES))
            totals.store(at, builder.or_(total, row))
        lanes, together = builder.icmp_signed("==", builder.and_(doubtful.get(), mark), none), ir.IntType(LANES)
        return builder.icmp_signed("==", builder.bitcast(lanes, together), ir.Constant(together, -1))

    return types.boolean(keys, types.intp, types.int32, places), generate


def _scattering(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate code that stores totals of places, or what a table has for them, in the rows that belong to them."""
    places, rows = (Lanes(context, builder, signature, arguments, number) for number in (0, 2))
    m = arguments[1]
    with count_to(builder, m) as loop:
        first = builder.mul(loop.index, ir.Constant(m.type, LANES))
        for lane in (ir.Constant(m.type, lane) for lane in range(LANES)):
            place = builder.load(places.at(builder.add(first, lane)))
            entry = builder.lshr(place, ir.Constant(INT, 16))
            to = rows.at(builder.add(builder.zext(builder.and_(place, ir.Constant(INT, 2**16 - 1)), m.type), lane))
            if len(arguments) > 3:
                table = Lanes(context, builder, signature, arguments, 3)
                at = table.at(builder.add(arguments[4], builder.zext(entry, m.type)))
                # Processors store more whole numbers at a time than others.
                word = ir.IntType(signature.args[3].dtype.bitwidth).as_pointer()
                entry, to = builder.load(builder.bitcast(at, word)), builder.bitcast(to, word)
            builder.store(entry, to)
    return context.get_dummy_value()


@intrinsic
def scatter_places(_: Any, places: Any, m: Any, rows: Any) -> Any:
    """Store the totals of m rows of places in the rows that belong to them."""
    return types.void(places, types.intp, rows), _scattering


@intrinsic
def scatter_entries(_: Any, places: Any, m: Any, rows: Any, table: Any, start: Any) -> Any:
    """Store the entries that a table, from `start` on, has for the totals of m rows of places."""
    return types.void(places, types.intp, rows, table, types.intp), _scattering


@intrinsic
def copy_rows(_: Any, rows: Any, m: Any, outputs: Any, place: Any, stride: Any) -> Any:
    """Copy m rows to an output, from a place on, `stride` apart."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, outputs = (Lanes(context, builder, signature, arguments, number) for number in (0, 2))
        _, m, _, place, stride = arguments
        with count_to(builder, m) as loop:
            row = rows.load(builder.mul(loop.index, ir.Constant(m.type, LANES)))
            outputs.store(builder.add(place, builder.mul(loop.index, stride)), row)
        return context.get_dummy_value()

    return types.void(rows, types.intp, outputs, types.intp, types.intp), generate
