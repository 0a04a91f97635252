"""The rule of the listwise perceptron whose violators are weighted by places."""

from perceptrank.kernels.arrays import Floats, Ints, Query, Rows
from perceptrank.kernels.compiled import helper, helper_inlined
from perceptrank.kernels.levels import find_levels
from perceptrank.kernels.ordering import sort_descending
from perceptrank.measures.gains import gain_of, gain_shift
from perceptrank.theory.hinges import BY_INDEX, Weighing, lay_weights, raise_lower_grades


@helper_inlined
def places_rule(settings: Weighing, query: Query, coefficients: Floats, rows: Rows) -> float:
    """Move documents from their places, lower grades raised by the margin, towards the ideal ones."""
    _, cutoff, gain, class_order = settings
    scores, grades, n_relevant, margin, discounts = query
    floats, ints = rows
    levels, keys, log_place, raised, weight_at = floats[0], floats[1], floats[2], floats[3], floats[4]
    rise, risen = floats[5], floats[6]
    order, level_of, first, next_place, ranked = ints[0], ints[1], ints[2], ints[3], ints[4]
    buckets, spare, place_of = ints[5], ints[6], ints[7]
    m = len(scores)
    n_levels = find_levels(grades, m, levels, first, level_of)
    raise_lower_grades(margin, scores, m, n_levels, level_of, raised, keys)
    sort_descending(keys, grades, m, order, buckets, spare)
    by_index = class_order == BY_INDEX
    lay_weights(settings, n_relevant, n_levels, levels, first, discounts, weight_at)
    mass = weigh_outranked(by_index, m, n_levels, order, level_of, first, next_place, weight_at, place_of, ranked)
    if not mass > 0.0:
        return 0.0
    k = cutoff if cutoff > 0 else m
    lay_logarithms(k, m, discounts, log_place)
    return move_by_places(
        mass, gain, k, m, n_levels, levels, first, order, ranked, log_place, rise, risen, coefficients
    )


@helper
def lay_logarithms(k: int, m: int, discounts: Floats, log_place: Floats) -> None:
    """Write the logarithms of m places, all after k as place k + 1."""
    log_place[0] = 0.0
    for p in range(1, min(k + 1, m)):
        log_place[p] = 1.0 / discounts[p - 1]  # the logarithm of p + 1
    for p in range(k + 1, m):
        log_place[p] = log_place[k]


@helper
def weigh_outranked(
    by_index: bool,
    m: int,
    n_levels: int,
    order: Ints,
    level_of: Ints,
    first: Ints,
    next_place: Ints,
    weight_at: Floats,
    place_of: Ints,
    ranked: Ints,
) -> float:
    """Return the weight of all documents that have a lower grade before them; write the levels in ranked order.

    A document's weight is that of its place in the ideal ranking, levels ordered as ranked or by index.
    """
    for level in range(n_levels):
        next_place[level] = first[level]
    if by_index:
        for i in range(m):
            place_of[i] = next_place[level_of[i]]
            next_place[level_of[i]] += 1
    weight, lowest = 0.0, 0
    for p in range(m):
        i = order[p]
        level = level_of[i]
        ranked[p] = level
        place = next_place[level]
        next_place[level] = place + 1
        place = place_of[i] if by_index else place
        weight += weight_at[place] if level < lowest else 0.0  # whoever has a lower grade before it is relevant
        lowest = level if level > lowest else lowest
    return weight


@helper
def move_by_places(
    weight: float,
    gain: int,
    k: int,
    m: int,
    n_levels: int,
    levels: Floats,
    first: Ints,
    order: Ints,
    ranked: Ints,
    log_place: Floats,
    rise: Floats,
    risen: Floats,
    coefficients: Floats,
) -> float:
    """Write coefficients that move documents from their places towards the ideal ones, with total weight `weight`.

    For every level but the lowest, documents of that level or above should come before all others, otherwise in their
    current order. Each rises by the difference of the logarithms of its two places, times the gain of the level over
    the next. Under a cut-off k all places after k count as place k + 1, and only levels of the k best
    documents are considered. Returns the weight, 0 if nothing rises.
    """
    for p in range(m):
        rise[p] = 0.0
    shift = gain_shift(gain, levels[0])
    highest = gain_of(gain, levels[0], shift)
    total, above = 0.0, highest
    for level in range(n_levels - 1):
        below = gain_of(gain, levels[level + 1], shift)
        share = (above - below) / highest
        above = below
        high, low = 0, first[level + 1]
        for p in range(m):
            is_high = ranked[p] <= level
            upward = share * (log_place[p] - log_place[high if is_high else low])
            rise[p] += upward
            risen[high] = upward  # and again, until it is one that rises
            high += 1 if is_high else 0
            low += 0 if is_high else 1
        for p in range(high):  # apart from the loop above, whose steps need not wait for each other
            total += risen[p]
        if first[level + 1] >= k:
            break
    if not total > 0.0:  # the first k places are right, or gains differ by less than rounding
        return 0.0
    for p in range(m):
        rise[p] = -weight * (rise[p] / total)
    for p in range(m):
        coefficients[order[p]] = rise[p]
    return weight
