"""The relevance levels of one query: its distinct grades, best first.

Queries have few distinct grades, so a scan per level beats a sort.
"""

import math

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import helper, helper_extrema, helper_sums

NO_GRADE = -1.0


@helper_sums
def read_grades(relevance: Floats, start: int, m: int, binary: bool, grades: Floats) -> int:
    """Copy grades, as 0 and 1 if binary; return how many are positive, -1 if one is negative or not finite."""
    n_relevant, n_negative, n_finite = 0, 0, 0
    for i in range(m):
        grade = relevance[start + i]
        grades[i] = grade
        n_relevant += 1 if grade > 0.0 else 0
        n_negative += 1 if grade < 0.0 else 0
        n_finite += 1 if grade < math.inf else 0
    if n_negative > 0 or n_finite < m:
        return -1
    if binary:
        for i in range(m):
            grades[i] = 1.0 if grades[i] > 0.0 else 0.0
    return n_relevant


@helper_extrema
def highest_below(grades: Floats, m: int, ceiling: float) -> float:
    """Return the largest grade below the ceiling, `NO_GRADE` if there is none. Four maxima at once hide latency."""
    a, b, c, d = NO_GRADE, NO_GRADE, NO_GRADE, NO_GRADE
    for q in range(m // 4):
        e, f, g, h = grades[4 * q], grades[4 * q + 1], grades[4 * q + 2], grades[4 * q + 3]
        e, f = (e if e < ceiling else NO_GRADE), (f if f < ceiling else NO_GRADE)
        g, h = (g if g < ceiling else NO_GRADE), (h if h < ceiling else NO_GRADE)
        a, b = (e if e > a else a), (f if f > b else b)
        c, d = (g if g > c else c), (h if h > d else d)
    for i in range(m - m % 4, m):
        e = grades[i] if grades[i] < ceiling else NO_GRADE
        a = e if e > a else a
    a, c = (a if a > b else b), (c if c > d else d)
    return a if a > c else c


@helper
def find_levels(grades: Floats, m: int, levels: Floats, first: Ints, level_of: Ints) -> int:
    """Write the distinct grades, best first, and each document's level; return how many levels there are.

    first[l] is the number of documents above level l, its first place in an ideal ranking; first[n_levels] is m.
    """
    n_levels, n_above, ceiling = 0, 0, math.inf
    while n_above < m:
        grade = highest_below(grades, m, ceiling)
        levels[n_levels], first[n_levels] = grade, n_above
        for i in range(m):
            here = grades[i] == grade
            level_of[i] = n_levels if here else level_of[i]
            n_above += 1 if here else 0
        n_levels += 1
        ceiling = grade
    first[n_levels] = m
    return n_levels


@helper
def grades_differ(grades: Floats, m: int, n_relevant: int) -> bool:
    """Tell whether there is a pair of documents that can be misordered."""
    if n_relevant < m:
        return n_relevant > 0
    return highest_below(grades, m, highest_below(grades, m, math.inf)) != NO_GRADE
