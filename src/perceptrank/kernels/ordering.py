"""Sort a query's documents: largest key first, then the smaller tie, then the smaller index."""

import math

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import helper_extrema

COUNTING_LIMIT = 64  # up to here every document is compared with every other one: no branches, and whole vectors
MOVES_PER_DOCUMENT = 8


@helper_extrema
def sort_descending(keys: Floats, ties: Floats, m: int, order: Ints, buckets: Ints, spare: Ints) -> None:
    """Write documents 0..m-1 to `order`, sorted by key; of equal keys the smaller tie comes first, then the index.

    Few documents are sorted by counting how many come before each. Many are first dropped into m buckets of equal width
    between the smallest and the largest key, which leaves little to insert; if it leaves much, the keys being spread
    very unevenly, runs are merged. Keys are finite. `spare` has a place more than there are documents.
    """
    if m <= COUNTING_LIMIT:
        n_before = 0
        for i in range(m):
            key, place = keys[i], 0
            for j in range(m):
                place += 1 if keys[j] > key else 0
            order[place] = i
            n_before += place
        if n_before < m * (m - 1) // 2:  # keys are tied
            for i in range(m):
                key, tie, place = keys[i], ties[i], 0
                for j in range(m):
                    before = ties[j] < tie or (ties[j] == tie and j < i)
                    place += 1 if keys[j] > key or (keys[j] == key and before) else 0
                order[place] = i
        return

    low, high, other_low, other_high = keys[0], keys[0], keys[1], keys[1]
    for p in range(1, m // 2):  # two extrema of each kind at once hide each other's latency
        a, b = keys[2 * p], keys[2 * p + 1]
        low, other_low = (a if a < low else low), (b if b < other_low else other_low)
        high, other_high = (a if a > high else high), (b if b > other_high else other_high)
    last = keys[m - 1]
    low, high = (low if low < other_low else other_low), (high if high > other_high else other_high)
    low, high = (low if low < last else last), (high if high > last else last)
    per_width = m * (1.0 - 1e-9) / (high - low)
    if 0.0 < per_width < math.inf:
        for b in range(m + 1):
            spare[b] = 0
        for i in range(m):
            b = int((high - keys[i]) * per_width)
            b = b if b > 0 else 0
            buckets[i] = b if b < m else m - 1
        for i in range(m):
            spare[buckets[i] + 1] += 1
        for b in range(m):
            spare[b + 1] += spare[b]
        for i in range(m):
            b = buckets[i]
            order[spare[b]] = i
            spare[b] += 1
    else:  # all keys are equal, or further apart than numbers go
        for i in range(m):
            order[i] = i
    moves = 0
    for place in range(1, m):
        i = order[place]
        key, tie, p = keys[i], ties[i], place
        while p > 0:
            j = order[p - 1]
            if not (key > keys[j] or (key == keys[j] and tie < ties[j])):
                break
            order[p] = j
            p -= 1
        order[p] = i
        moves += place - p
        if moves > MOVES_PER_DOCUMENT * m:
            break
    if moves <= MOVES_PER_DOCUMENT * m:
        return

    for i in range(m):
        order[i] = i
    width = 1
    while width < m:
        for start in range(0, m, 2 * width):
            middle = start + width if start + width < m else m
            stop = middle + width if middle + width < m else m
            left, right = start, middle
            for p in range(start, stop):
                take_right = left == middle
                if left < middle and right < stop:
                    i, j = order[left], order[right]
                    take_right = keys[j] > keys[i] or (keys[j] == keys[i] and ties[j] < ties[i])
                spare[p] = order[right] if take_right else order[left]
                right += 1 if take_right else 0
                left += 0 if take_right else 1
        for p in range(m):
            order[p] = spare[p]
        width *= 2
