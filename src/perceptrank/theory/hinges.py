"""Kernels of the hinge surrogates: each document against the best-scored one of a lower grade."""

import math

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.ordering import sort_descending


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
def order_ideally(
    keys: Floats,
    level_of: Ints,
    first: Ints,
    n: int,
    ideal: Ints,
    chosen_keys: Floats,
    chosen: Ints,
    order: Ints,
    buckets: Ints,
    spare: Ints,
) -> None:
    """Write the first n documents of the ideal ranking: by level, then by key, largest first, then by index.

    Only levels that are among the first n are sorted, each on its own.
    """
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


@helper
def order_by_index(m: int, n_levels: int, level_of: Ints, first: Ints, next_place: Ints, ideal: Ints) -> None:
    """Write the documents by level, then by index."""
    for level in range(n_levels):
        next_place[level] = first[level]
    for i in range(m):
        level = level_of[i]
        ideal[next_place[level]] = i
        next_place[level] += 1


@helper
def is_mistaken(scores: Floats, level_of: Ints, best_below: Floats, ideal: Ints, n: int) -> bool:
    """Tell whether the first n places of the ranking have other grades than in the ideal one, ties at their worst.

    They do exactly if one of the first n documents of the ideal ranking, levels ordered by score, has a lower-graded
    document at or above its score.
    """
    n_outranked = 0
    for p in range(n):
        n_outranked += 1 if best_below[level_of[ideal[p]]] >= scores[ideal[p]] else 0
    return n_outranked > 0


@helper
def move_against_best(
    margin: float,
    n: int,
    scores: Floats,
    level_of: Ints,
    best_below: Floats,
    rival: Ints,
    ideal: Ints,
    weight_at: Floats,
    coefficients: Floats,
) -> tuple[float, float]:
    """Move each of the first n ideal documents, by its weight, against the best-scored one of a lower grade (SLAM).

    Returns the weight that moved and the surrogate's value.
    """
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


@helper
def move_widest_pair(
    margin: float, m: int, scores: Floats, level_of: Ints, best_below: Floats, rival: Ints, coefficients: Floats
) -> tuple[float, float]:
    """Move the single pair whose order is violated most, the first of them by index (max-pair).

    Returns the weight that moved, 0 or 1, and the surrogate's value.
    """
    widest, higher = -math.inf, -1
    for i in range(m):
        gap = best_below[level_of[i]] - scores[i]
        if gap > widest:
            widest, higher = gap, i
    if higher < 0 or not is_active(scores[higher], best_below[level_of[higher]], margin):
        return 0.0, 0.0
    coefficients[higher] = -1.0
    coefficients[rival[level_of[higher]]] = 1.0
    return 1.0, max(0.0, margin + widest)


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
