"""Kernels of the hinge surrogates: each document against the best-scored one of a lower grade.

Steps that take `rows` share them: levels, their best lower scores, weights and keys; each document's level, the first
places of levels, rivals, the ideal ranking, and room to sort.
"""

import math
from typing import TypeAlias

from perceptrank.kernels.arrays import Floats, Ints, Query, Rows
from perceptrank.kernels.compiled import helper, helper_inlined
from perceptrank.kernels.levels import find_levels
from perceptrank.kernels.ordering import sort_descending
from perceptrank.measures.gains import gain_of, gain_shift

HINGE_ROWS = 4, 8

BY_SCORE, BY_MEAN, BY_INDEX = range(3)
CLASS_ORDERS = {"score": BY_SCORE, "mean": BY_MEAN, "index": BY_INDEX}

# Binary grades, cut-off (0 for none), gain, class order.
Weighing: TypeAlias = tuple[bool, int, int, int]


@helper
def lay_weights(
    weighing: Weighing,
    n_relevant: int,
    n_levels: int,
    levels: Floats,
    first: Ints,
    discounts: Floats,
    weight_at: Floats,
) -> None:
    """Write the weight v of every place of the ideal ranking that a relevant document takes.

    AP (binary): 1 / n_relevant. NDCG: gain * discount / ideal DCG in the first `cutoff` places, 0 after them; by mean,
    every document of a level has the mean weight of the level.
    """
    binary, cutoff, gain, class_order = weighing
    if binary:
        for p in range(n_relevant):
            weight_at[p] = 1.0 / n_relevant
        return
    counted = cutoff if 0 < cutoff < n_relevant else n_relevant
    shift = gain_shift(gain, levels[0])
    best = 0.0
    for level in range(n_levels):
        level_gain = gain_of(gain, levels[level], shift)
        stop = first[level + 1] if first[level + 1] < counted else counted
        for p in range(first[level], stop):
            weight_at[p] = level_gain * discounts[p]
            best += weight_at[p]
    if best > 0.0:  # it is 0 when every gain underflows
        for p in range(counted):
            weight_at[p] /= best
    for p in range(counted, n_relevant):
        weight_at[p] = 0.0
    if class_order == BY_MEAN:
        for level in range(n_levels):
            start, stop = first[level], first[level + 1]
            if start < n_relevant:
                weight = 0.0
                for p in range(start, stop):
                    weight += weight_at[p]
                for p in range(start, stop):
                    weight_at[p] = weight / (stop - start)


@helper
def is_active(score: float, rival: float, margin: float) -> bool:
    """Tell whether a lower-graded rival violates the margin; without a margin, a tie does."""
    return rival > score - margin or rival >= score


@helper
def find_rivals(scores: Floats, m: int, n_levels: int, level_of: Ints, best_below: Floats, rival: Ints) -> None:
    """Write for each level the best score of a lower grade and the first document that has it, -1 if there is none."""
    for level in range(n_levels):
        best_below[level], rival[level] = -math.inf, -1
    for i in range(m):  # for now, each level's own best
        level = level_of[i]
        if scores[i] > best_below[level]:
            best_below[level], rival[level] = scores[i], i
    top, top_document = -math.inf, -1
    for level in range(n_levels - 1, -1, -1):
        own, document = best_below[level], rival[level]
        best_below[level], rival[level] = top, top_document
        if own > top or (own == top and document < top_document):
            top, top_document = own, document


@helper
def order_ideally(keys: Floats, n: int, rows: Rows) -> None:
    """Write the first n documents of the ideal ranking: by level, then by key, largest first, then by index.

    Only levels that are among the first n are sorted, each on its own.
    """
    floats, ints = rows
    level_of, first, ideal, chosen, chosen_keys = ints[0], ints[1], ints[3], ints[4], floats[3]
    order, buckets, spare = ints[5], ints[6], ints[7]
    m_chosen, level = 0, 0
    while first[level] < n:
        size = first[level + 1] - first[level]
        m_chosen, i = 0, 0
        while m_chosen < size:
            chosen[m_chosen] = i
            chosen_keys[m_chosen] = keys[i]
            m_chosen += 1 if level_of[i] == level else 0
            i += 1
        sort_descending(chosen_keys, chosen_keys, size, order, buckets, spare)
        for p in range(size):
            ideal[first[level] + p] = chosen[order[p]]
        level += 1


@helper_inlined
def find_hinges(scores: Floats, grades: Floats, rows: Rows) -> int:
    """Write levels and rivals of a query; return how many levels there are."""
    floats, ints = rows
    level_of, first, rival = ints[0], ints[1], ints[2]
    n_levels = find_levels(grades, len(scores), floats[0], first, level_of)
    find_rivals(scores, len(scores), n_levels, level_of, floats[1], rival)
    return n_levels


@helper_inlined
def is_mistaken(cutoff: int, scores: Floats, n_relevant: int, rows: Rows) -> bool:
    """Tell whether the counted places of the ranking have other grades than in the ideal one, ties at their worst.

    They do if a document of a level that is wholly among them has a lower-graded one at or above its score, or if fewer
    documents of the last level among them have none than it has places there.
    """
    floats, ints = rows
    best_below, level_of, first = floats[1], ints[0], ints[1]
    counted = cutoff if 0 < cutoff < n_relevant else n_relevant
    last = 0
    while first[last + 1] < counted:
        last += 1
    n_ahead, n_ahead_of_last = 0, 0
    for i in range(len(scores)):
        level = level_of[i]
        ahead = 1 if best_below[level] < scores[i] else 0
        n_ahead += ahead if level < last else 0
        n_ahead_of_last += ahead if level == last else 0
    return n_ahead < first[last] or n_ahead_of_last < counted - first[last]


@helper_inlined
def descend_slam(
    mistakes_only: bool, weighing: Weighing, query: Query, keys: Floats, n_levels: int, coefficients: Floats, rows: Rows
) -> tuple[float, float]:
    """Move each document, by its weight, against the best-scored one of a lower grade: a subgradient of SLAM.

    After `find_hinges`; returns the weight that moved and the surrogate's value. By score, documents of a level have
    the larger weights the larger their keys are. With `mistakes_only`, where keys are scores, both are 0 for rankings
    that are not mistaken (see `is_mistaken`; the ideal ranking tells it sooner).
    """
    cutoff, class_order = weighing[1], weighing[3]
    scores, _, n_relevant, margin, discounts = query
    floats, ints = rows
    best_below, weight_at, level_of, first, rival, ideal = floats[1], floats[2], ints[0], ints[1], ints[2], ints[3]
    counted = cutoff if 0 < cutoff < n_relevant else n_relevant
    n = n_relevant if class_order == BY_MEAN else counted
    if mistakes_only or class_order != BY_INDEX:
        order_ideally(keys, n, rows)
    if mistakes_only:
        n_outranked = 0
        for p in range(counted):
            n_outranked += 1 if best_below[level_of[ideal[p]]] >= scores[ideal[p]] else 0
        if n_outranked == 0:
            return 0.0, 0.0
    if class_order == BY_INDEX:
        next_place = ints[5]
        for level in range(n_levels):
            next_place[level] = first[level]
        for i in range(len(scores)):
            ideal[next_place[level_of[i]]] = i
            next_place[level_of[i]] += 1
    lay_weights(weighing, n_relevant, n_levels, floats[0], first, discounts, weight_at)
    mass, value = 0.0, 0.0
    for p in range(n):
        i, weight = ideal[p], weight_at[p]
        level = level_of[i]
        if weight > 0.0 and rival[level] >= 0 and is_active(scores[i], best_below[level], margin):
            mass += weight
            value += weight * max(0.0, margin + (best_below[level] - scores[i]))
            coefficients[i] -= weight
            coefficients[rival[level]] += weight
    return mass, value


@helper_inlined
def move_widest_pair(margin: float, scores: Floats, coefficients: Floats, rows: Rows) -> tuple[float, float]:
    """Move the single pair whose order is violated most, the first of them by index (max-pair), after `find_hinges`.

    Returns the weight that moved, 0 or 1, and the surrogate's value.
    """
    floats, ints = rows
    best_below, level_of, rival = floats[1], ints[0], ints[2]
    widest, higher = -math.inf, -1
    for i in range(len(scores)):
        gap = best_below[level_of[i]] - scores[i]
        if gap > widest:
            widest, higher = gap, i
    if higher < 0 or not is_active(scores[higher], best_below[level_of[higher]], margin):
        return 0.0, 0.0
    coefficients[higher] = -1.0
    coefficients[rival[level_of[higher]]] = 1.0
    return 1.0, max(0.0, margin + widest)


@helper
def move_widest_level_pair(
    per_level: float, margin: float, query: Query, coefficients: Floats, rows: Rows
) -> tuple[float, float]:
    """As `move_widest_pair`, with lower grades raised by `per_level` for each grade above them."""
    scores, grades, _, _, _ = query
    floats, ints = rows
    best_below, raised, keys, level_of, rival = floats[1], floats[2], floats[3][: len(scores)], ints[0], ints[2]
    n_levels = find_levels(grades, len(scores), floats[0], ints[1], level_of)
    raise_lower_grades(per_level, scores, len(scores), n_levels, level_of, raised, keys)
    find_rivals(keys, len(scores), n_levels, level_of, best_below, rival)
    return move_widest_pair(margin, keys, coefficients, rows)


@helper
def raise_lower_grades(
    margin: float, scores: Floats, m: int, n_levels: int, level_of: Ints, raised: Floats, keys: Floats
) -> None:
    """Write scores plus the margin times the number of higher grades in the query; `raised` has the latter by level."""
    rise = 0.0
    for level in range(n_levels):
        raised[level] = rise
        rise += margin
    for i in range(m):
        keys[i] = scores[i] + raised[level_of[i]]
