"""Sorting networks over LANES columns: they make the same exchanges whatever the data, so that columns share them."""

from collections.abc import Callable
from typing import Any, TypeAlias

from numba import types

from perceptrank.kernels.arrays import Keys
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.lanes import LANES, Lanes, intrinsic

ROWS = 16  # that are sorted at once; arrays of keys have at least so many
LARGEST_KEY = 2**31 - 1

Pair: TypeAlias = tuple[int, int]


def _exchanging(pairs: list[Pair]) -> Callable[..., Any]:
    """Return what generates code that loads rows of keys, exchanges pairs that are out of order, and stores them."""
    n_rows = 1 + max(high for _, high in pairs)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, (first, step, second) = Lanes(context, builder, signature, arguments, 0), arguments[1:]
        places = [first]
        for number in range(1, n_rows):
            middle = number == n_rows // 2
            places.append(second if middle else builder.add(places[-1], step))
        rows = [lanes.load(place) for place in places]
        for low, high in pairs:
            in_order = builder.icmp_signed("<", rows[low], rows[high])
            smaller = builder.select(in_order, rows[low], rows[high])
            rows[high] = builder.select(in_order, rows[high], rows[low])
            rows[low] = smaller
        for row, place in zip(rows, places, strict=True):
            lanes.store(place, row)
        return context.get_dummy_value()

    return generate


def _halving(n_rows: int) -> list[Pair]:
    """Return the exchanges at distances n_rows / 2, …, 2, 1, with which a merge goes on."""
    distances = [1 << power for power in range(n_rows.bit_length() - 2, -1, -1)]
    return [(i, i + distance) for distance in distances for i in range(n_rows) if not i & distance]


def _odd_even(n_rows: int) -> list[Pair]:
    """Return the exchanges of K. E. Batcher's odd-even merge sort."""
    pairs, run = [], 1
    while run < n_rows:
        distance = run
        while distance:
            pairs += [
                (i, i + distance)
                for i in range(distance % run, n_rows - distance)
                if (i - distance % run) % (2 * distance) < distance and i // (2 * run) == (i + distance) // (2 * run)
            ]
            distance //= 2
        run *= 2
    return pairs


def _network(pairs: list[Pair]) -> Any:
    """Return a function of kernels that makes exchanges; half of the rows start at `first`, half at `second`."""

    def exchange(_: Any, keys: Any, first: Any, step: Any, second: Any) -> Any:
        return types.void(keys, types.intp, types.intp, types.intp), _exchanging(pairs)

    return intrinsic(exchange)


sort_rows = _network(_odd_even(ROWS))
# A merge begins with exchanges of the first row with the last, and so on: three steps with one load and store of each.
begin_merge = _network([(i, 7 - i) for i in range(4)] + _halving(8)[4:])
merge_eight, merge_four, merge_two = (_network(_halving(n_rows)) for n_rows in (8, 4, 2))  # its last steps


@helper
def sort_lanes(keys: Keys, m: int) -> None:
    """Sort LANES columns of m keys, smallest first, in place: bitonic merges of runs of ROWS keys.

    Rows from m up to the next power of two, or to ROWS, must hold LARGEST_KEY: exchanges with them would change
    nothing, and most are left out.
    """
    for start in range(0, m, ROWS):
        sort_rows(keys, start * LANES, LANES, (start + ROWS // 2) * LANES)
    run = ROWS
    while run < m:
        step = run // 4
        for start in range(0, m - run, 2 * run):
            for i in range(step):
                begin_merge(keys, (start + i) * LANES, step * LANES, (start + run + step - 1 - i) * LANES)
        distance = run // 8
        while distance >= 4:
            step = distance // 4
            for start in range(0, m, 2 * distance):
                for i in range(start, min(start + step, m - step)):
                    merge_eight(keys, i * LANES, step * LANES, (i + distance) * LANES)
            distance //= 8
        if distance == 2:
            for i in range(0, m, 4):
                merge_four(keys, i * LANES, LANES, (i + 2) * LANES)
        elif distance == 1:
            for i in range(0, m, 2):
                merge_two(keys, i * LANES, LANES, (i + 1) * LANES)
        run *= 2
