"""Sorting and top-k selection of a query's documents, largest key first, equal keys in input order."""

import math

from perceptrank.kernels.arrays import FloatRows, IntRows
from perceptrank.kernels.compiled import compiled, compiled_extrema
from perceptrank.kernels.scratch import BUCKETS, CHOSEN, COUNTING_LIMIT, KEYS, RANKS, RUN, SPARE

SELECTION_LIMIT = 24
VECTOR = 16
MOVES_PER_DOCUMENT = 8


@compiled
def sort_by_key(floats: FloatRows, ints: IntRows, keys: int, m: int, order: int) -> None:
    """Row `order` = documents 0..m-1 sorted by row `keys`.

    Few documents are sorted by counting. Many are first dropped into m buckets of equal width between the smallest and
    the largest key, which leaves little to insert; if it leaves much, the keys being spread very unevenly, they are
    merged.
    """
    if m <= COUNTING_LIMIT:
        sort_by_counting(floats, ints, keys, m, order)
        return
    drop_into_buckets(floats, ints, keys, m, order)
    if not insert(floats, ints, keys, m, order):
        merge_sort(floats, ints, keys, m, order)


@compiled
def sort_by_counting(floats: FloatRows, ints: IntRows, keys: int, m: int, order: int) -> None:
    """A document's place is the number of larger keys, and of equal ones before it: no branches, and whole vectors."""
    padded = (m + VECTOR - 1) // VECTOR * VECTOR
    for i in range(m):
        floats[RUN, i] = floats[keys, i]
    for i in range(m, padded):
        floats[RUN, i] = -math.inf
    places = 0
    for i in range(m):
        key = floats[RUN, i]
        place = 0
        for j in range(padded):
            place += 1 if floats[RUN, j] > key else 0
        ints[order, place] = i
        places += place
    if places == m * (m - 1) // 2:
        return
    for i in range(m):
        key = floats[RUN, i]
        place = 0
        for j in range(m):
            place += 1 if floats[RUN, j] > key or (floats[RUN, j] == key and j < i) else 0
        ints[order, place] = i


@compiled
def drop_into_buckets(floats: FloatRows, ints: IntRows, keys: int, m: int, order: int) -> None:
    """Row `order` = documents 0..m-1 by bucket, the one with the largest keys first, each in input order."""
    for i in range(m):
        ints[order, i] = i
    smallest, largest = extrema(floats, keys, m)
    per_width = m * (1.0 - 1e-9) / (largest - smallest)
    if not 0.0 < per_width < math.inf:  # all keys are equal, or further apart than numbers go
        return
    for b in range(m + 1):
        ints[SPARE, b] = 0
    for i in range(m):
        ints[BUCKETS, i] = min(max(int((largest - floats[keys, i]) * per_width), 0), m - 1)
    for i in range(m):
        ints[SPARE, ints[BUCKETS, i] + 1] += 1
    for b in range(m):
        ints[SPARE, b + 1] += ints[SPARE, b]
    for i in range(m):
        b = ints[BUCKETS, i]
        ints[order, ints[SPARE, b]] = i
        ints[SPARE, b] += 1


@compiled_extrema
def extrema(floats: FloatRows, keys: int, m: int) -> tuple[float, float]:
    """The smallest and the largest key; two of each at once hide each other's delay."""
    low, high = floats[keys, 0], floats[keys, 0]
    other_low, other_high = low, high
    for q in range(m // 2):
        a, b = floats[keys, 2 * q], floats[keys, 2 * q + 1]
        low, other_low = (a if a < low else low), (b if b < other_low else other_low)
        high, other_high = (a if a > high else high), (b if b > other_high else other_high)
    last = floats[keys, m - 1]
    return min(low, other_low, last), max(high, other_high, last)


@compiled
def insert(floats: FloatRows, ints: IntRows, keys: int, m: int, order: int) -> bool:
    """Sort row `order`, which is nearly sorted, by insertion; False, with some order, if that takes too long."""
    moves = 0
    for i in range(1, m):
        document = ints[order, i]
        key = floats[keys, document]
        p = i
        while p > 0 and floats[keys, ints[order, p - 1]] < key:
            ints[order, p] = ints[order, p - 1]
            p -= 1
        ints[order, p] = document
        moves += i - p
        if moves > MOVES_PER_DOCUMENT * m:
            return False
    return True


@compiled
def merge_sort(floats: FloatRows, ints: IntRows, keys: int, m: int, order: int) -> None:
    """Row `order` = documents 0..m-1 sorted by row `keys`."""
    for i in range(m):
        ints[order, i] = i
    source, target = order, SPARE
    width = 1
    while width < m:
        for start in range(0, m, 2 * width):
            merge_runs(floats, ints, keys, source, start, min(start + width, m), min(start + 2 * width, m), target)
        source, target = target, source
        width *= 2
    if source != order:
        for p in range(m):
            ints[order, p] = ints[SPARE, p]


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
    for c in range(n):
        floats[KEYS, c] = floats[keys, ints[CHOSEN, c]]
    sort_by_key(floats, ints, KEYS, n, RANKS)
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
