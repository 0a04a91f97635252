"""The relevance classes ("levels") of one query.

Queries have few distinct grades, so a scan per level beats a sort; past `FEW_LEVELS` a sort takes over.
"""

import math

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled, compiled_extrema, compiled_sums
from perceptrank.kernels.ordering import SELECTION_LIMIT, gather_at_least, insert_candidates, sort_documents
from perceptrank.kernels.scratch import Scratch

FEW_LEVELS = 24
NO_GRADE = -1.0


@compiled_extrema
def highest_below(grades: Floats, ceiling: float) -> float:
    """The largest grade below the ceiling, `NO_GRADE` if there is none."""
    highest = NO_GRADE
    for i in range(len(grades)):
        candidate = grades[i] if grades[i] < ceiling else NO_GRADE
        highest = candidate if candidate > highest else highest
    return highest


@compiled_extrema
def lowest_of(grades: Floats) -> float:
    """The smallest grade."""
    lowest = grades[0]
    for i in range(len(grades)):
        lowest = grades[i] if grades[i] < lowest else lowest
    return lowest


@compiled_sums
def grades_sound(grades: Floats) -> bool:
    """Whether all grades are finite and none is negative."""
    zero = 0.0
    negative = 0
    for i in range(len(grades)):
        zero += grades[i] * 0.0
        negative += 1 if grades[i] < 0.0 else 0
    return zero == 0.0 and negative == 0


@compiled
def count_at_least(grades: Floats, floor: float) -> int:
    """Number of documents whose grade reaches the floor."""
    n = 0
    for i in range(len(grades)):
        n += 1 if grades[i] >= floor else 0
    return n


@compiled
def order_ideally(keys: Floats, k: int, room: Scratch) -> None:
    """room.ideal[:k] = documents by room.grades, then keys, both descending, then index.

    Small k: insertion among the few documents that can be in it. Otherwise: one sort by key, then by level.
    """
    m = len(keys)
    grades = room.grades[:m]
    if k <= SELECTION_LIMIT:
        floor = highest_below(grades, math.inf)
        for _ in range(FEW_LEVELS):
            if count_at_least(grades, floor) >= k:
                n = gather_at_least(grades, floor, room.spare)
                insert_candidates(grades, keys, room.spare, n, k, room.ideal)
                return
            floor = highest_below(grades, floor)
    sort_documents(keys, keys, m, room.order, room.spare)
    n_levels = assign_levels(grades, room)
    order_by_level(room.order, room.level, m, n_levels, room.ends, room.ideal)


@compiled
def assign_levels(grades: Floats, room: Scratch) -> int:
    """room.level[i] = rank of document i's grade among the distinct ones, 0 the lowest; returns how many there are.

    room.ideal and room.spare are used as scratch.
    """
    m = len(grades)
    level = room.level[:m]
    for i in range(m):
        level[i] = 0
    n_levels = 0
    grade = highest_below(grades, math.inf)
    while grade != NO_GRADE and n_levels < FEW_LEVELS:
        below = highest_below(grades, grade)
        if below != NO_GRADE:
            for i in range(m):
                level[i] += 1 if grades[i] > below else 0
        n_levels += 1
        grade = below
    if grade == NO_GRADE:
        return n_levels
    by_grade = room.ideal
    sort_documents(grades, grades, m, by_grade, room.spare)
    n_levels = 0
    for p in range(m - 1, -1, -1):
        if p < m - 1 and grades[by_grade[p]] != grades[by_grade[p + 1]]:
            n_levels += 1
        level[by_grade[p]] = n_levels
    return n_levels + 1


@compiled
def order_by_level(order: Ints, level: Ints, m: int, n_levels: int, ends: Ints, ideal: Ints) -> None:
    """Stable counting sort: order's documents, best level first, into ideal[:m].

    ends[q] becomes the end, in ideal, of the q-th best level.
    """
    for q in range(n_levels + 1):
        ends[q] = 0
    for i in range(m):
        ends[n_levels - level[i]] += 1
    for q in range(n_levels):
        ends[q + 1] += ends[q]
    for p in range(m):
        q = n_levels - 1 - level[order[p]]
        ideal[ends[q]] = order[p]
        ends[q] += 1
