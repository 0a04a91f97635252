"""The listwise perceptron for measures without weights of documents: it moves what the ranking loses to the best one.

Theorem F of docs/theory.md takes any weight from the loss of the ranking up to 1. Here it is the loss of the ranking in
which lower grades are raised by the margin, which is no better than the ranking itself.
"""

from dataclasses import replace

from perceptrank.kernels.arrays import Floats, Ints, Query, Rows
from perceptrank.kernels.compiled import compiled, helper, helper_inlined
from perceptrank.kernels.levels import find_levels
from perceptrank.kernels.ordering import sort_descending
from perceptrank.learners.listwise.places import lay_logarithms, move_by_places
from perceptrank.learners.listwise.safe_averaging import is_mean_safe
from perceptrank.learners.tally import CURRENT_LOSS, MEAN_LOSS, USED_LOSS
from perceptrank.measures import ERR, Measure, Precision, ReciprocalRank
from perceptrank.measures.expected import expected_code
from perceptrank.measures.gains import EXP2
from perceptrank.measures.kinds import err, precision, reciprocal_rank
from perceptrank.measures.ranking import PRECISION, RECIPROCAL_RANK, Settings
from perceptrank.theory.hinges import raise_lower_grades

WITHOUT_WEIGHTS = ERR, Precision, ReciprocalRank


def settings_of(measure: Measure) -> Settings:
    """Return the settings of the rule for a measure."""
    return expected_code(measure), 0, 0.0, 0, measure.cutoff or 0, *measure._settings()


@helper
def value_of(
    settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats
) -> float:
    """Return the measure of a ranking."""
    if settings[0] == PRECISION:
        return precision(settings, n_relevant, k, m, grades, order, discounts)
    if settings[0] == RECIPROCAL_RANK:
        return reciprocal_rank(settings, n_relevant, k, m, grades, order, discounts)
    return err(settings, n_relevant, k, m, grades, order, discounts)


@helper_inlined
def regret_rule(settings: tuple[Settings], query: Query, coefficients: Floats, rows: Rows) -> float:
    """Move documents from their places, lower grades raised by the margin, towards the ideal ones."""
    measure = settings[0]
    scores, grades, n_relevant, margin, discounts = query
    floats, ints = rows
    levels, keys, log_place, raised, rise, risen = floats[0], floats[1], floats[2], floats[3], floats[4], floats[5]
    order, level_of, first, ideal, ranked = ints[0], ints[1], ints[2], ints[3], ints[4]
    buckets, spare = ints[5], ints[6]
    m, cutoff = len(scores), measure[4]
    k = cutoff if 0 < cutoff < m else m
    n_levels = find_levels(grades, m, levels, first, level_of)
    raise_lower_grades(margin, scores, m, n_levels, level_of, raised, keys)
    sort_descending(keys, grades, m, order, buckets, spare)
    sort_descending(grades, grades, m, ideal, buckets, spare)
    best = value_of(measure, n_relevant, k, m, grades, ideal, discounts)
    lost = best - value_of(measure, n_relevant, k, m, grades, order, discounts)
    if not lost > 0.0:
        return 0.0
    for p in range(m):
        ranked[p] = level_of[order[p]]
    lay_logarithms(k, m, discounts, log_place)
    return move_by_places(
        lost, EXP2, k, m, n_levels, levels, first, order, ranked, log_place, rise, risen, coefficients
    )


def regrets(measure: Measure, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
    """Return what rankings lose to the best ones of the same grades, ties in the worst order."""
    judge = replace(measure, ties="worst", empty="zero")
    return judge.per_query(relevance, relevance, offsets) - judge.per_query(scores, relevance, offsets)


@compiled
def choose_pass(
    losses: Floats, offsets: Ints, weights: Floats, largest: float, scores: Floats, tally: Floats, predicted: Floats
) -> None:
    """Do what `safe_pass` does, given the losses of all queries, by the mean and then by the current weights."""
    n, n_documents = len(offsets) - 1, len(predicted)
    for q in range(n):
        safe = is_mean_safe(tally, largest)
        largest = weights[q] if weights[q] > largest else largest
        mean, current = losses[q], losses[n + q]
        tally[CURRENT_LOSS] += weights[q] * current
        tally[MEAN_LOSS] += weights[q] * mean
        tally[USED_LOSS] += weights[q] * (mean if safe else current)
        for i in range(offsets[q], offsets[q + 1]):
            predicted[i] = scores[i] if safe else scores[n_documents + i]
