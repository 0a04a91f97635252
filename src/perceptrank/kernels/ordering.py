"""Sorting and top-k selection of a query's documents by two keys."""

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled, compiled_extrema

RUN_LENGTH = 128
SELECTION_LIMIT = 24


@compiled
def precedes(primary: Floats, secondary: Floats, a: int, b: int) -> bool:
    """Whether document a comes strictly before document b: larger primary key, then larger secondary key."""
    if primary[a] != primary[b]:
        return primary[a] > primary[b]
    return secondary[a] > secondary[b]


@compiled
def sort_documents(primary: Floats, secondary: Floats, m: int, order: Ints, spare: Ints) -> None:
    """Put documents 0..m-1 into order[:m], both keys descending, then index ascending.

    Runs are sorted by counting, which needs no branches and fills the vector unit, and then merged.
    """
    for start in range(0, m, RUN_LENGTH):
        stop = min(start + RUN_LENGTH, m)
        if not sort_run(primary[start:stop], start, order[start:stop], spare):
            sort_tied_run(primary, secondary, start, stop, order)
    source, target, swapped = order, spare, False
    width = RUN_LENGTH
    while width < m:
        for start in range(0, m, 2 * width):
            merge_runs(primary, secondary, source, start, min(start + width, m), min(start + 2 * width, m), target)
        source, target, swapped = target, source, not swapped
        width *= 2
    if swapped:
        for p in range(m):
            order[p] = spare[p]


@compiled
def sort_run(keys: Floats, start: int, order: Ints, ranks: Ints) -> bool:
    """order[:len(keys)] = start + positions of the keys, largest first; False if two keys are equal."""
    n = len(keys)
    rank_sum = 0
    for i in range(n):
        key = keys[i]
        rank = 0
        for j in range(n):
            rank += 1 if keys[j] > key else 0
        ranks[i] = rank
        rank_sum += rank
    if rank_sum != n * (n - 1) // 2:
        return False
    for i in range(n):
        order[ranks[i]] = start + i
    return True


@compiled
def sort_tied_run(primary: Floats, secondary: Floats, start: int, stop: int, order: Ints) -> None:
    """`sort_run` by both keys and the index: an insertion sort."""
    for i in range(start, stop):
        p = i
        while p > start and precedes(primary, secondary, i, order[p - 1]):
            order[p] = order[p - 1]
            p -= 1
        order[p] = i


@compiled
def merge_runs(
    primary: Floats, secondary: Floats, source: Ints, start: int, middle: int, stop: int, target: Ints
) -> None:
    """Merge source[start:middle] and source[middle:stop] into the same places of target."""
    left, right, out = start, middle, start
    while left < middle and right < stop:
        a, b = source[left], source[right]
        right_first = precedes(primary, secondary, b, a)
        target[out] = b if right_first else a
        right += right_first
        left += not right_first
        out += 1
    for p in range(left, middle):
        target[out + p - left] = source[p]
    out += middle - left
    for p in range(right, stop):
        target[out + p - right] = source[p]


@compiled
def select_documents(primary: Floats, secondary: Floats, k: int, order: Ints, spare: Ints, maxima: Floats) -> None:
    """Put the first k documents of that order into order[:k]; the rest of order, spare and maxima are scratch."""
    m = len(primary)
    if k >= m or k > SELECTION_LIMIT:
        sort_documents(primary, secondary, m, order, spare)
    else:
        n = gather_at_least(primary, reached_by(primary, k, maxima), spare)
        insert_candidates(primary, secondary, spare, n, k, order)


@compiled_extrema
def reached_by(keys: Floats, k: int, maxima: Floats) -> float:
    """A key that at least k of the keys reach: the least of the maxima of k groups."""
    for p in range(k):
        maxima[p] = keys[p]
    for start in range(k, len(keys) - k + 1, k):
        group = keys[start : start + k]
        for p in range(k):
            maxima[p] = group[p] if group[p] > maxima[p] else maxima[p]
    least = maxima[0]
    for p in range(1, k):
        least = min(least, maxima[p])
    return least


@compiled
def gather_at_least(keys: Floats, bar: float, documents: Ints) -> int:
    """documents[:n] = those whose key reaches the bar, in input order; returns n."""
    n = 0
    for i in range(len(keys)):
        documents[n] = i
        n += 1 if keys[i] >= bar else 0
    return n


@compiled
def insert_candidates(primary: Floats, secondary: Floats, candidates: Ints, n: int, k: int, order: Ints) -> None:
    """order[:k] = the first k of n candidates, which come in input order."""
    held = 0
    for c in range(n):
        i = candidates[c]
        if held == k and not precedes(primary, secondary, i, order[k - 1]):
            continue
        p = min(held, k - 1)
        held = min(held + 1, k)
        while p > 0 and precedes(primary, secondary, i, order[p - 1]):
            order[p] = order[p - 1]
            p -= 1
        order[p] = i
