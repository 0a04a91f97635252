"""Work on LANES columns at once: sorting networks and the steps around them, in whole vectors.

A network makes the same exchanges whatever the data, so that all columns share every instruction. Numba does not turn
such short loops into vector instructions by itself; intrinsics say what is meant. They check no index.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types

from perceptrank.kernels.arrays import Keys
from perceptrank.kernels.compiled import helper

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic

LANES = 16  # columns that are worked on together: their keys stay in the nearest cache
LARGEST_KEY = 2**31 - 1

_KEYS = ir.VectorType(ir.IntType(32), LANES)
_START = ir.Constant(ir.IntType(64), 0)


class _Lanes:
    """Vectors of LANES elements of an array, as code generators see them."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        self._builder = builder
        self._data = context.make_array(array_type)(context, builder, array).data
        self._size = 8 if array_type.dtype == types.float64 else 4
        element = {types.float64: ir.DoubleType(), types.float32: ir.FloatType()}.get(array_type.dtype, ir.IntType(32))
        self._vector = ir.VectorType(element, LANES)

    def _at(self, place: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._data, [place]), self._vector.as_pointer())

    def load(self, place: Any) -> Any:
        return self._builder.load(self._at(place), align=self._size)

    def store(self, place: Any, vector: Any) -> None:
        self._builder.store(vector, self._at(place), align=self._size)


def _repeat(builder: Any, number: Any) -> Any:
    """Return a vector with the same number in every lane."""
    vector = builder.insert_element(ir.Constant(_KEYS, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(_KEYS, [0] * LANES)
    return builder.shuffle_vector(vector, ir.Constant(_KEYS, ir.Undefined), zeros)


def _exchanging(*pairs: tuple[int, int]) -> Callable[..., Any]:
    """Return what generates code that loads rows of keys, exchanges pairs that are out of order, and stores them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature.args[0], arguments[0])
        rows = [lanes.load(place) for place in arguments[1:]]
        for low, high in pairs:
            in_order = builder.icmp_signed("<", rows[low], rows[high])
            smaller = builder.select(in_order, rows[low], rows[high])
            rows[high] = builder.select(in_order, rows[high], rows[low])
            rows[low] = smaller
        for row, place in zip(rows, arguments[1:], strict=True):
            lanes.store(place, row)
        return context.get_dummy_value()

    return generate


@intrinsic
def exchange_two(typing_context: Any, keys: Any, a: Any, b: Any) -> Any:
    """Exchange the keys from place a on with those from b on wherever those at b are smaller."""
    return types.void(keys, *[types.intp] * 2), _exchanging((0, 1))


@intrinsic
def exchange_four(typing_context: Any, keys: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Make two steps of a merge, at distances 2 and 1, with one load and store of each row."""
    return types.void(keys, *[types.intp] * 4), _exchanging((0, 2), (1, 3), (0, 1), (2, 3))


@intrinsic
def make_keys(
    typing_context: Any, X: Any, a: Any, low: Any, b: Any, mask: Any, number: Any, keys: Any, c: Any, lossy: Any
) -> Any:
    """Store the bits of float32(X - low) under a mask, and a number in the bits that the mask leaves.

    Marks lanes whose values may not all be told apart by their keys, as bits are lost.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = {place: _Lanes(context, builder, signature.args[place], arguments[place]) for place in (0, 2, 6, 8)}
        values, lowest = lanes[0].load(arguments[1]), lanes[2].load(arguments[3])
        distance = exact = builder.fsub(values, lowest)
        if signature.args[0].dtype == types.float64:
            distance = builder.fptrunc(exact, ir.VectorType(ir.FloatType(), LANES))
            exact = builder.fpext(distance, exact.type)
        bits, mask = builder.bitcast(distance, _KEYS), _repeat(builder, arguments[4])
        kept = builder.and_(bits, mask)
        lanes[6].store(arguments[7], builder.or_(kept, _repeat(builder, arguments[5])))
        changed = builder.fcmp_unordered("!=", builder.fadd(exact, lowest), values)
        lost = builder.or_(builder.icmp_signed("!=", bits, kept), changed)
        lanes[8].store(_START, builder.or_(lanes[8].load(_START), builder.zext(lost, _KEYS)))
        return context.get_dummy_value()

    arguments = X, types.intp, low, types.intp, types.int32, types.int32, keys, types.intp, lossy
    return types.void(*arguments), generate


@intrinsic
def carry_places(
    typing_context: Any, keys: Any, a: Any, b: Any, mask: Any, places: Any, number: Any, marks: Any
) -> Any:
    """Give keys at b the places of those at a where they agree under a mask, elsewhere a number; mark where they do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = {place: _Lanes(context, builder, signature.args[place], arguments[place]) for place in (0, 4, 6)}
        differing = builder.xor(lanes[0].load(arguments[1]), lanes[0].load(arguments[2]))
        differing = builder.and_(differing, _repeat(builder, arguments[3]))
        equal = builder.icmp_signed("==", differing, ir.Constant(_KEYS, [0] * LANES))
        carried = builder.select(equal, lanes[4].load(arguments[1]), _repeat(builder, arguments[5]))
        lanes[4].store(arguments[2], carried)
        lanes[6].store(_START, builder.or_(lanes[6].load(_START), builder.zext(equal, _KEYS)))
        return context.get_dummy_value()

    return types.void(keys, types.intp, types.intp, types.int32, places, types.int32, marks), generate


@intrinsic
def copy_lanes(typing_context: Any, source: Any, a: Any, target: Any, b: Any) -> Any:
    """Copy elements from place a of one array to place b of another of the same type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _Lanes(context, builder, signature.args[0], arguments[0]).load(arguments[1])
        _Lanes(context, builder, signature.args[2], arguments[2]).store(arguments[3], row)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), generate


@helper
def sort_lanes(keys: Keys, m: int) -> None:
    """Sort LANES columns of m keys, smallest first, in place: bitonic merges of runs of 1, 2, 4, … keys.

    Rows from m up to the next power of two must hold LARGEST_KEY: exchanges with them would change nothing, and most
    are left out.
    """
    run = 1
    while run < m:
        for start in range(0, m, 2 * run):
            for other in range(start + run, min(start + 2 * run, m)):
                exchange_two(keys, (2 * (start + run) - 1 - other) * LANES, other * LANES)
        distance = run // 2
        while distance >= 2:
            half = distance // 2
            for start in range(0, m, 2 * distance):
                for i in range(start, min(start + half, m - half)):
                    exchange_four(
                        keys,
                        i * LANES,
                        (i + half) * LANES,
                        (i + distance) * LANES,
                        (i + distance + half) * LANES,
                    )
            distance //= 4
        if distance == 1:
            for i in range(0, m - 1, 2):
                exchange_two(keys, i * LANES, (i + 1) * LANES)
        run *= 2
