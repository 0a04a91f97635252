"""The relevance classes ("levels") of one query.

Queries have few distinct grades, so a scan per level beats a sort; past `FEW_LEVELS` a sort takes over.
"""

import math

from perceptrank.kernels.arrays import FloatRows, IntRows
from perceptrank.kernels.compiled import compiled, compiled_extrema
from perceptrank.kernels.ordering import SELECTION_LIMIT, gather_equal, sort_by_key, sort_chosen
from perceptrank.kernels.scratch import CHOSEN, GRADES, IDEAL, ORDER, RANKED_GRADES, RANKS, SCORES

FEW_LEVELS = 24
NO_GRADE = -1.0


@compiled_extrema
def larger_below(best: float, value: float, ceiling: float) -> float:
    """The larger of two grades, the second of which counts only below the ceiling."""
    candidate = value if value < ceiling else NO_GRADE
    return candidate if candidate > best else best


@compiled_extrema
def highest_below(floats: FloatRows, grades: int, m: int, ceiling: float) -> float:
    """The largest grade below the ceiling, `NO_GRADE` if there is none. Four maxima at once hide each other's delay."""
    a, b, c, d = NO_GRADE, NO_GRADE, NO_GRADE, NO_GRADE
    for q in range(m // 4):
        a = larger_below(a, floats[grades, 4 * q], ceiling)
        b = larger_below(b, floats[grades, 4 * q + 1], ceiling)
        c = larger_below(c, floats[grades, 4 * q + 2], ceiling)
        d = larger_below(d, floats[grades, 4 * q + 3], ceiling)
    for i in range(m - m % 4, m):
        a = larger_below(a, floats[grades, i], ceiling)
    return max(a, b, c, d)


@compiled
def count_at_least(floats: FloatRows, m: int, floor: float) -> int:
    """Number of documents whose grade reaches the floor."""
    n = 0
    for i in range(m):
        n += 1 if floats[GRADES, i] >= floor else 0
    return n


@compiled
def order_ideally(floats: FloatRows, ints: IntRows, m: int, k: int) -> None:
    """Row IDEAL = the first k documents by grade, then by score, both descending, then by index.

    A small k is filled class by class, so that only documents that may be in it are sorted.
    """
    if k > SELECTION_LIMIT:
        sort_by_key(floats, ints, SCORES, m, ORDER)
        order_by_grade(floats, ints, m)
        return
    filled = 0
    grade = math.inf
    while filled < k:
        grade = highest_below(floats, GRADES, m, grade)
        n = gather_equal(floats, ints, GRADES, m, grade, CHOSEN, 0)
        sort_chosen(floats, ints, SCORES, n, IDEAL, filled)
        filled += n


@compiled
def order_by_grade(floats: FloatRows, ints: IntRows, m: int) -> None:
    """Row IDEAL = the documents of row ORDER, best grade first, each grade in the order they have there."""
    for p in range(m):
        floats[RANKED_GRADES, p] = floats[GRADES, ints[ORDER, p]]
    filled = 0
    grade = math.inf
    for _ in range(FEW_LEVELS):
        grade = highest_below(floats, RANKED_GRADES, m, grade)
        filled += gather_equal(floats, ints, RANKED_GRADES, m, grade, IDEAL, filled)
        if filled == m:
            for p in range(m):
                ints[IDEAL, p] = ints[ORDER, ints[IDEAL, p]]
            return
    sort_by_key(floats, ints, RANKED_GRADES, m, RANKS)
    for p in range(m):
        ints[IDEAL, p] = ints[ORDER, ints[RANKS, p]]
