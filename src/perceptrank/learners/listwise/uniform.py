"""The rule of the listwise perceptron with uniform violators."""

from perceptrank.kernels.arrays import Floats, Ints, Query, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.levels import find_levels
from perceptrank.kernels.ordering import sort_descending
from perceptrank.theory.hinges import BY_INDEX, Weighing, is_active, lay_weights


@helper
def uniform_rule(settings: Weighing, query: Query, coefficients: Floats, rows: Rows) -> float:
    """Move each active document against all its violators in equal parts."""
    class_order = settings[3]
    scores, grades, n_relevant, margin, discounts = query
    floats, ints = rows
    levels, weight_at, ranked_scores, share, sums = floats[0], floats[1], floats[2], floats[3], floats[4]
    order, ideal, level_of, first, place_of, ranked = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    reach, counts, buckets, spare = ints[6], ints[7], ints[8], ints[9]
    m = len(scores)
    n_levels = find_levels(grades, m, levels, first, level_of)
    sort_descending(scores, scores, m, order, buckets, spare)
    order_levels(class_order == BY_INDEX, m, n_levels, order, level_of, first, counts, ideal)
    lay_weights(settings, n_relevant, n_levels, levels, first, discounts, weight_at)
    for p in range(m):
        i = order[p]
        place_of[i], ranked[p], ranked_scores[p], share[p] = p, level_of[i], scores[i], 0.0
    find_reach(ranked_scores, m, margin, reach)
    mass = charge_active(
        m, n_relevant, n_levels, first, ideal, place_of, ranked, reach, weight_at, counts, share, coefficients
    )
    if mass > 0.0:
        hand_out_shares(m, n_levels, first, ideal, place_of, ranked, reach, share, counts, sums, coefficients)
    return mass


@helper
def order_levels(
    by_index: bool, m: int, n_levels: int, order: Ints, level_of: Ints, first: Ints, next_place: Ints, ideal: Ints
) -> None:
    """Write the documents by level, inside a level as ranked or by index."""
    for level in range(n_levels):
        next_place[level] = first[level]
    for p in range(m):
        i = p if by_index else order[p]
        ideal[next_place[level_of[i]]] = i
        next_place[level_of[i]] += 1


@helper
def find_reach(ranked_scores: Floats, m: int, margin: float, reach: Ints) -> None:
    """Write for each place of the ranking the number of documents, from the top, above it or closer than the margin."""
    reached = 0
    for p in range(m):
        while reached < m and is_active(ranked_scores[p], ranked_scores[reached], margin):
            reached += 1
        reach[p] = reached


@helper
def charge_active(
    m: int,
    n_relevant: int,
    n_levels: int,
    first: Ints,
    ideal: Ints,
    place_of: Ints,
    ranked: Ints,
    reach: Ints,
    weight_at: Floats,
    counts: Ints,
    share: Floats,
    coefficients: Floats,
) -> float:
    """Charge each active document its weight, to be shared equally by its violators; return the weight of all.

    Violators of the document at place p are the lower-graded ones before place reach[p]; one sum per level along the
    ranking counts them.
    """
    mass = 0.0
    for level in range(n_levels):
        if first[level] >= n_relevant:
            break
        lower = 0
        counts[0] = 0
        for p in range(m):
            lower += 1 if ranked[p] > level else 0
            counts[p + 1] = lower
        for p in range(first[level], first[level + 1]):
            i, weight = ideal[p], weight_at[p]
            n_violators = counts[reach[place_of[i]]]
            if n_violators > 0 and weight > 0.0:
                share[place_of[i]] = weight / n_violators
                coefficients[i] -= weight
                mass += weight
    return mass


@helper
def hand_out_shares(
    m: int,
    n_levels: int,
    first: Ints,
    ideal: Ints,
    place_of: Ints,
    ranked: Ints,
    reach: Ints,
    share: Floats,
    best_place: Ints,
    sums: Floats,
    coefficients: Floats,
) -> None:
    """Give every violator the sum of the shares of those it violates, one sum per level from the end of the ranking.

    best_place is the best place that the document at a place violates; reach never decreases, nor does it.
    """
    for p in range(m + 1):
        best_place[p] = 0
    for p in range(m):
        best_place[reach[p]] += 1
    for p in range(m):
        best_place[p + 1] += best_place[p]
    half = m // 2
    for level in range(1, n_levels):
        for p in range(m):
            sums[p] = share[p] if ranked[p] < level else 0.0
        sums[m] = 0.0
        upper, lower = 0.0, sums[m - 1] if m % 2 else 0.0
        for p in range(1, half + 1):  # both halves at once, because each addition waits for the one before
            upper += sums[half - p]
            lower += sums[2 * half - p]
            sums[half - p] = upper
            sums[2 * half - p] = lower
        for p in range(half):
            sums[p] += lower
        for p in range(first[level], first[level + 1]):
            j = ideal[p]
            coefficients[j] += sums[best_place[place_of[j]]]
