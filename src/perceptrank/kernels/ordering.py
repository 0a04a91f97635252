"""Sorting and top-k selection of a query's documents, largest key first, equal keys in input order."""

import math

from perceptrank.arrays import FloatRows, IntRows
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scratch import CHOSEN, KEYS, RANKS, RUN, RUN_LENGTH, SPARE, TIED

SELECTION_LIMIT = 24
INSERTION_LIMIT = 16
VECTOR = 16


@compiled
def sort_by_key(floats: FloatRows, ints: IntRows, keys: int, m: int, order: int) -> None:
    """Row `order` = documents 0..m-1 sorted by row `keys`.

    Runs are sorted by counting, which needs no branches and fills the vector unit, and then merged.
    """
    for start in range(0, m, RUN_LENGTH):
        sort_run(floats, ints, keys, start, min(start + RUN_LENGTH, m), order)
    source, target = order, SPARE
    width = RUN_LENGTH
    while width < m:
        for start in range(0, m, 2 * width):
            merge_runs(floats, ints, keys, source, start, min(start + width, m), min(start + 2 * width, m), target)
        source, target = target, source
        width *= 2
    if source != order:
        for p in range(m):
            ints[order, p] = ints[SPARE, p]


@compiled
def sort_run(floats: FloatRows, ints: IntRows, keys: int, start: int, stop: int, order: int) -> None:
    """Places start..stop of row `order` = documents start..stop sorted by row `keys`.

    A document's place is the number of larger keys, and of equal ones before it. The run is padded to whole vectors.
    """
    n = stop - start
    padded = (n + VECTOR - 1) // VECTOR * VECTOR
    for i in range(n):
        floats[RUN, i] = floats[keys, start + i]
    for i in range(n, padded):
        floats[RUN, i] = -math.inf
    places = 0
    for i in range(n):
        key = floats[RUN, i]
        place = 0
        for j in range(padded):
            place += 1 if floats[RUN, j] > key else 0
        ints[order, start + place] = start + i
        places += place
    if places == n * (n - 1) // 2:
        return
    for i in range(n):
        key = floats[RUN, i]
        place = 0
        for j in range(n):
            place += 1 if floats[RUN, j] > key or (floats[RUN, j] == key and j < i) else 0
        ints[order, start + place] = start + i


@compiled
def merge_runs(
    floats: FloatRows, ints: IntRows, keys: int, source: int, start: int, middle: int, stop: int, target: int
) -> None:
    """Merge places start..middle and middle..stop of row `source` into the same places of row `target`."""
    left, right, out = start, middle, start
    while left < middle and right < stop:
        a, b = ints[source, left], ints[source, right]
        right_first = 1 if floats[keys, b] > floats[keys, a] else 0
        ints[target, out] = b if right_first else a
        right += right_first
        left += 1 - right_first
        out += 1
    for p in range(left, middle):
        ints[target, out + p - left] = ints[source, p]
    out += middle - left
    for p in range(right, stop):
        ints[target, out + p - right] = ints[source, p]


@compiled
def sort_chosen(floats: FloatRows, ints: IntRows, keys: int, n: int, order: int, first: int) -> None:
    """Places first..first + n of row `order` = the first n documents of row CHOSEN, sorted by row `keys`."""
    if n <= INSERTION_LIMIT:
        for c in range(n):
            document = ints[CHOSEN, c]
            key = floats[keys, document]
            p = first + c
            while p > first and floats[keys, ints[order, p - 1]] < key:
                ints[order, p] = ints[order, p - 1]
                p -= 1
            ints[order, p] = document
        return
    for c in range(n):
        floats[TIED, c] = floats[keys, ints[CHOSEN, c]]
    sort_by_key(floats, ints, TIED, n, RANKS)
    for p in range(n):
        ints[order, first + p] = ints[CHOSEN, ints[RANKS, p]]


@compiled
def break_ties(floats: FloatRows, ints: IntRows, keys: int, tiebreak: int, n: int, order: int) -> None:
    """Sort every stretch of equal keys among the first n places of row `order` by row `tiebreak`."""
    start = 0
    while start < n - 1:
        stop = start + 1
        while stop < n and floats[keys, ints[order, stop]] == floats[keys, ints[order, start]]:
            stop += 1
        if stop - start > 1:
            for p in range(start, stop):
                ints[CHOSEN, p - start] = ints[order, p]
            sort_chosen(floats, ints, tiebreak, stop - start, order, start)
        start = stop


@compiled
def select_documents(floats: FloatRows, ints: IntRows, keys: int, m: int, k: int, order: int) -> int:
    """Row `order` = the first k documents sorted by row `keys`, and some more; returns how many are sorted.

    What is left out has smaller keys than all that is not, so `break_ties` can follow.
    """
    if k >= m or k > SELECTION_LIMIT:
        sort_by_key(floats, ints, keys, m, order)
        return m
    n = gather_at_least(floats, ints, keys, m, reached_by(floats, keys, m, k))
    sort_chosen(floats, ints, keys, n, order, 0)
    return n


@compiled
def reached_by(floats: FloatRows, keys: int, m: int, k: int) -> float:
    """A key that at least k of m documents reach: the least of the maxima of k groups."""
    for p in range(k):
        floats[KEYS, p] = floats[keys, p]
    for q in range(1, m // k):
        for p in range(k):
            key, largest = floats[keys, q * k + p], floats[KEYS, p]
            floats[KEYS, p] = key if key > largest else largest
    least = floats[KEYS, 0]
    for p in range(1, k):
        least = min(least, floats[KEYS, p])
    return least


@compiled
def gather_at_least(floats: FloatRows, ints: IntRows, keys: int, m: int, bar: float) -> int:
    """Row CHOSEN = documents whose key reaches the bar, in input order; returns how many."""
    n = 0
    for i in range(m):
        ints[CHOSEN, n] = i
        n += 1 if floats[keys, i] >= bar else 0
    return n


@compiled
def gather_equal(floats: FloatRows, ints: IntRows, keys: int, m: int, key: float, chosen: int, first: int) -> int:
    """Row `chosen`, from `first` on = documents that have this key, in input order; returns how many."""
    n = first
    for i in range(m):
        ints[chosen, n] = i
        n += 1 if floats[keys, i] == key else 0
    return n - first
