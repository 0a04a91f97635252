"""The Walsh-Hadamard transform of LANES vectors at once: products with H, where H_ij = -1 to the number of common bits.

A vector of n = 2^k numbers is mixed k times in pairs; 2, 4, 8 or 16 of its numbers are mixed in registers at a time.
Numbers of LANES documents stand beside each other, so that a permutation moves rows and costs nothing.
"""

from typing import Any

from llvmlite import ir
from numba import types

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.lanes import LANES, Lanes, intrinsic, repeat


def _mix(builder: Any, rows: list[Any]) -> list[Any]:
    """Return H times the rows."""
    distance = 1
    while distance < len(rows):
        for low in range(len(rows)):
            if not low & distance:
                left, right = rows[low], rows[low + distance]
                rows[low], rows[low + distance] = builder.fadd(left, right), builder.fsub(left, right)
        distance *= 2
    return rows


def _mixing(n_rows: int) -> Any:
    """Return a function of kernels that mixes rows where they stand, from `first` on, `step` apart."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, (first, step) = Lanes(context, builder, signature, arguments, 0), arguments[1:]
        step = builder.mul(step, ir.Constant(step.type, LANES))
        places = [builder.mul(first, ir.Constant(first.type, LANES))]
        for _ in range(1, n_rows):
            places.append(builder.add(places[-1], step))
        for place, row in zip(places, _mix(builder, [lanes.load(place) for place in places]), strict=True):
            lanes.store(place, row)
        return context.get_dummy_value()

    def mix(_: Any, rows: Any, first: Any, step: Any) -> Any:
        return types.void(rows, types.intp, types.intp), generate

    return intrinsic(mix)


def _taking(n_rows: int) -> Any:
    """Return a function of kernels that mixes rows of a source, in an order and times factors, from `first` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, order, factors, mixed = (
            Lanes(context, builder, signature, arguments, number) for number in (0, 1, 2, 4)
        )
        first = arguments[3]
        rows = []
        for number in range(n_rows):
            at = builder.add(first, ir.Constant(first.type, number))
            row = builder.mul(builder.load(order.at(at)), ir.Constant(first.type, LANES))
            rows.append(builder.fmul(source.load(row), repeat(builder, builder.load(factors.at(at)))))
        place = builder.mul(first, ir.Constant(first.type, LANES))
        for number, row in enumerate(_mix(builder, rows)):
            mixed.store(builder.add(place, ir.Constant(first.type, number * LANES)), row)
        return context.get_dummy_value()

    def take(_: Any, source: Any, order: Any, factors: Any, first: Any, mixed: Any) -> Any:
        return types.void(source, order, factors, types.intp, mixed), generate

    return intrinsic(take)


mix_two, mix_four, mix_eight, mix_sixteen = (_mixing(n_rows) for n_rows in (2, 4, 8, 16))
take_four, take_eight, take_sixteen = (_taking(n_rows) for n_rows in (4, 8, 16))


@helper
def transform_rows(source: Features, order: Ints, factors: Features, n_used: int, n: int, mixed: Features) -> None:
    """Write H f P x for n = 8, 16, ... rows x: P takes row order[i], f multiplies it; 0 from n_used on."""
    bits = 0
    while 1 << bits < n:
        bits += 1
    most = 4 if mixed.itemsize == 4 else 3  # bits at once: rows of twice the size fill the registers twice as fast
    some = even_part(bits, most)
    if some == 4:
        for first in range(0, n_used, 16):
            take_sixteen(source, order, factors, first, mixed)
    elif some == 3:
        for first in range(0, n_used, 8):
            take_eight(source, order, factors, first, mixed)
    else:
        for first in range(0, n_used, 4):
            take_four(source, order, factors, first, mixed)
    step = 1 << some
    for place in range((n_used + step - 1) // step * step * LANES, n * LANES):
        mixed[place] = 0.0
    bits -= some
    while bits > 0:
        some = even_part(bits, most)
        for group in range(0, n, step << some):
            for first in range(group, group + step):
                if some == 4:
                    mix_sixteen(mixed, first, step)
                elif some == 3:
                    mix_eight(mixed, first, step)
                elif some == 2:
                    mix_four(mixed, first, step)
                else:
                    mix_two(mixed, first, step)
        step <<= some
        bits -= some


@helper
def even_part(n: int, most: int) -> int:
    """Return the first of as few parts of n as there can be, none above `most`, that are as even as possible."""
    n_parts = (n + most - 1) // most
    return (n + n_parts - 1) // n_parts


@intrinsic
def turn_rows(_: Any, rows: Any, first: Any, factors: Any, mixed: Any, width: Any) -> Any:
    """Store LANES rows, from `first` on, times factors from there on, as columns of an array so wide."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, scales, turned = (Lanes(context, builder, signature, arguments, number) for number in (0, 2, 3))
        _, first, _, _, width = arguments
        vectors = []
        for number in range(LANES):
            at = builder.add(first, ir.Constant(first.type, number))
            scale = builder.load(scales.at(at))
            row = lanes.load(builder.mul(at, ir.Constant(first.type, LANES)))
            vectors.append(builder.fmul(row, repeat(builder, scale)))
        place = first
        for vector in _turn(builder, vectors):
            turned.store(place, vector)
            place = builder.add(place, width)
        return context.get_dummy_value()

    count = types.intp
    return types.void(rows, count, factors, mixed, count), generate


def _turn(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of LANES rows: in three steps, each exchanges halves, quarters, eighths of pairs of rows."""
    distance = LANES // 2
    while distance:
        for low in range(LANES):
            if not low & distance:
                left, right = rows[low], rows[low + distance]
                takes = [[lane if not lane & distance else LANES + lane - distance for lane in range(LANES)]]
                takes.append([lane + distance if not lane & distance else LANES + lane for lane in range(LANES)])
                rows[low], rows[low + distance] = (_shuffle(builder, left, right, take) for take in takes)
        distance //= 2
    return rows


def _shuffle(builder: Any, left: Any, right: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))
