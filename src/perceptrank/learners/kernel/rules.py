"""Rules of one query: scores and grades to a coefficient per document. They use scores alone, whatever made these.

The rules are those of the linear learners of the same names, see `learners/listwise/places.py`, `learners/slam.py` and
`learners/minimax.py`, and are made of the same parts.
"""

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import find_levels, read_grades
from perceptrank.kernels.ordering import sort_descending
from perceptrank.learners.listwise.places import move_by_places, weigh_outranked
from perceptrank.theory.hinges import (
    find_rivals,
    is_mistaken,
    move_against_best,
    move_widest_pair,
    order_ideally,
    raise_lower_grades,
)
from perceptrank.theory.weights import lay_weights

ROWS = 10, 9  # of floats and integers
Judge = tuple[bool, int, int]  # binary, cutoff, gain

# All return the mass, the weight that moves; a mass of -1 stands for grades that are invalid.


@compiled
def listwise_rule(
    judge: Judge,
    margin: float,
    scores: Floats,
    relevance: Floats,
    discounts: Floats,
    coefficients: Floats,
    pair: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Move documents towards their ideal places; `pair` is the same mass on the one pair that is violated most."""
    binary, cutoff, gain = judge
    m = len(scores)
    grades, keys, log_place, levels, raised = floats[0], floats[1], floats[2], floats[3], floats[4]
    weight_at, rise, risen, best_below = floats[5], floats[6], floats[7], floats[8]
    order, level_of, first, next_place, ranked = ints[0], ints[1], ints[2], ints[3], ints[4]
    buckets, spare, place_of, rival = ints[5], ints[6], ints[7], ints[8]
    for i in range(m):
        coefficients[i] = 0.0
        pair[i] = 0.0
    n_relevant = read_grades(relevance, 0, m, binary, grades)
    if n_relevant < 0:
        return -1.0
    n_levels = find_levels(grades, m, levels, first, level_of)
    if n_levels < 2:
        return 0.0
    raise_lower_grades(margin, scores, m, n_levels, level_of, raised, keys)
    sort_descending(keys, grades, m, order, buckets, spare)
    lay_weights(binary, cutoff, gain, False, n_relevant, n_levels, levels, first, discounts, weight_at)
    mass = weigh_outranked(False, m, n_levels, order, level_of, first, next_place, weight_at, place_of, ranked)
    if mass > 0.0:
        for p in range(m):
            place = p if cutoff == 0 or p < cutoff else cutoff
            log_place[p] = 1.0 / discounts[place - 1] if place > 0 else 0.0
        k = cutoff if cutoff > 0 else m
        mass = move_by_places(
            mass, gain, k, m, n_levels, levels, first, order, ranked, log_place, rise, risen, coefficients
        )
    if mass > 0.0:
        find_rivals(keys, m, n_levels, level_of, best_below, rival)
        move_widest_pair(0.0, m, keys, level_of, best_below, rival, pair)
        for i in range(m):
            pair[i] *= mass
    return mass


@compiled
def slam_rule(
    judge: Judge,
    margin: float,
    scores: Floats,
    relevance: Floats,
    discounts: Floats,
    coefficients: Floats,
    pair: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Move each document against the best-scored one of a lower grade; `pair` has the same mass on the widest pair."""
    binary, cutoff, gain = judge
    m = len(scores)
    grades, levels, best_below, weight_at, chosen_keys = floats[0], floats[1], floats[2], floats[3], floats[4]
    level_of, first, rival, ideal, chosen = ints[0], ints[1], ints[2], ints[3], ints[4]
    order, buckets, spare = ints[5], ints[6], ints[7]
    for i in range(m):
        coefficients[i] = 0.0
        pair[i] = 0.0
    n_relevant = read_grades(relevance, 0, m, binary, grades)
    if n_relevant < 0:
        return -1.0
    n_levels = find_levels(grades, m, levels, first, level_of)
    if n_levels < 2:
        return 0.0
    counted = cutoff if 0 < cutoff < n_relevant else n_relevant
    find_rivals(scores, m, n_levels, level_of, best_below, rival)
    order_ideally(scores, level_of, first, counted, ideal, chosen_keys, chosen, order, buckets, spare)
    if not is_mistaken(scores, level_of, best_below, ideal, counted):
        return 0.0
    lay_weights(binary, cutoff, gain, False, n_relevant, n_levels, levels, first, discounts, weight_at)
    mass, _ = move_against_best(margin, counted, scores, level_of, best_below, rival, ideal, weight_at, coefficients)
    move_widest_pair(0.0, m, scores, level_of, best_below, rival, pair)
    for i in range(m):
        pair[i] *= mass
    return mass


@compiled
def minimax_rule(
    judge: Judge,
    margin: float,
    scores: Floats,
    relevance: Floats,
    discounts: Floats,
    coefficients: Floats,
    pair: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Move along the most violated pair of a query that was not ranked perfectly."""
    binary, cutoff, _ = judge
    m = len(scores)
    grades, levels, best_below, chosen_keys = floats[0], floats[1], floats[2], floats[3]
    level_of, first, rival, ideal, chosen = ints[0], ints[1], ints[2], ints[3], ints[4]
    order, buckets, spare = ints[5], ints[6], ints[7]
    for i in range(m):
        coefficients[i] = 0.0
        pair[i] = 0.0
    n_relevant = read_grades(relevance, 0, m, binary, grades)
    if n_relevant < 0:
        return -1.0
    n_levels = find_levels(grades, m, levels, first, level_of)
    if n_levels < 2:
        return 0.0
    counted = cutoff if 0 < cutoff < n_relevant else n_relevant
    find_rivals(scores, m, n_levels, level_of, best_below, rival)
    order_ideally(scores, level_of, first, counted, ideal, chosen_keys, chosen, order, buckets, spare)
    if not is_mistaken(scores, level_of, best_below, ideal, counted):
        return 0.0
    mass, _ = move_widest_pair(0.0, m, scores, level_of, best_below, rival, coefficients)
    return mass
