"""The pass of click learners, and what their rules share.

For each impression, the pass scores the documents, puts those that were shown in the order of their places, applies the
learner's rule, and moves the weights as list-wise learners do. All count showings and clicks per place.

Rules know the randomisation by the propensities of the shown documents alone. For Plackett-Luce, these are conditional:
with e the exponential of a score and D the sum of e over the documents not yet placed, the propensity at a place is e /
D, and D is less by e at the next one. So the propensities are e and D of all places, up to a factor.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from perceptrank.clicks.policies import DRAWN, PAIRS, SHUFFLED
from perceptrank.kernels.arrays import FloatRows, Floats, Ints, Rows
from perceptrank.kernels.compiled import compiled, helper, specialise
from perceptrank.kernels.ordering import sort_descending
from perceptrank.kernels.scratch import Scratch, borrow_scratch
from perceptrank.learners.clicks.impression import AT, CHANCE, CLICK, KIND, PAIRS_FROM_2, SEEN
from perceptrank.learners.rounds import Pass, close_query, open_query
from perceptrank.learners.tally import UPDATES, Block, Iterates, Record

N_PLACES = 100  # places that clicks are counted for; those beyond count as the last one
LARGEST_ODDS = 1e100

# What the rule of a click learner takes: scores of all documents; the documents shown, by place; the places, clicks,
# examinations and propensities of these; the code of the policy, how many updates there were, the weight of the query.
List: TypeAlias = tuple[Floats, Ints, tuple[Floats, Floats, Floats, Floats], int, float, float]
# Clicks and showings per place, the evidence that rules may count, and what else a learner keeps; for rules, the tally.
Counts: TypeAlias = tuple[Floats, ...]


@helper
def swap_share(kind: int, p: int, r: int, places: Floats, chances: Floats) -> float:
    """Return the share of the list with its documents at p < r exchanged in the probability of both lists together.

    It is 1/2 where the policy shows both orders equally often, and 0 where it would never have shown the other, or
    where what stood between the two is not known.
    """
    if kind == SHUFFLED:
        return 0.5 if chances[p] < 1.0 and chances[r] < 1.0 else 0.0
    if places[r] - places[p] != r - p:
        return 0.0
    if kind == DRAWN:
        # In units of D at place p; h is the ratio of the two probabilities.
        left, odds = 1.0, 1.0
        for place in range(p, r):
            left *= 1.0 - chances[place]
        other = chances[r] * left
        left = 1.0
        for place in range(p + 1, r + 1):
            left *= 1.0 - chances[place - 1]
            rest = left + chances[p] - other
            odds *= left / rest if rest > left / LARGEST_ODDS else LARGEST_ODDS
            odds = odds if odds < LARGEST_ODDS else LARGEST_ODDS
        return odds / (1.0 + odds)
    starts_pair = (kind == PAIRS and places[p] % 2 == 1) or (kind == PAIRS_FROM_2 and places[p] % 2 == 0)
    if r == p + 1 and starts_pair:
        return 1.0 - chances[p]
    return 0.0


@helper
def order_list(answers: FloatRows, start: int, m: int, floats: FloatRows, ints: Ints) -> int:
    """Write the documents of an impression that were shown to ints[0], by place, and their answers to floats; count."""
    keys, places, clicks, examined, chances = floats[0], floats[1], floats[2], floats[3], floats[4]
    shown, order, found, buckets, spare = ints[0], ints[1], ints[2], ints[3], ints[4]
    n = 0
    for i in range(m):
        if answers[start + i, AT] > 0.0:
            found[n], keys[n] = i, -answers[start + i, AT]
            n += 1
    sort_descending(keys, keys, n, order, buckets, spare)
    for p in range(n):
        i = found[order[p]]
        shown[p] = i
        row = answers[start + i]
        places[p], clicks[p], examined[p], chances[p] = row[AT], row[CLICK], row[SEEN], row[CHANCE]
    return n


@helper
def count_places(places: Floats, clicks: Floats, n: int, weight: float, counts: Counts) -> None:
    """Count the clicks and showings of a list, times the weight of the query."""
    for p in range(n):
        place = min(int(places[p]), N_PLACES) - 1
        counts[0][place] += weight * clicks[p]
        counts[1][place] += weight


@compiled
def agreement_pass(
    answers: FloatRows, offsets: Ints, scores: Floats, floats: FloatRows, ints: Ints, values: Floats
) -> None:
    """Write how much the order of scores agrees with the clicks of each impression, NaN if nothing can be said."""
    for q in range(len(offsets) - 1):
        start, value, is_known = offsets[q], 0.0, False
        n = order_list(answers, start, offsets[q + 1] - start, floats, ints)
        kind, shown, clicks, chances = int(answers[start, KIND]), ints[0], floats[2], floats[4]
        for p in range(n - 1):
            for r in range(p + 1, n):
                preferred = clicks[p] - clicks[r]
                share = swap_share(kind, p, r, floats[1], chances) if preferred != 0.0 else 0.0
                lead = scores[start + shown[p]] - scores[start + shown[r]]
                value += preferred * share * (1.0 if lead > 0.0 else -1.0 if lead < 0.0 else 0.0)
                is_known |= share > 0.0
        values[q] = value if is_known else np.nan


def agree(scores: Floats, answers: FloatRows, offsets: Ints, values: Floats) -> None:
    """Write how much rankings by scores agree with the clicks of impressions, in expectation without position bias."""
    floats, ints, _ = borrow_scratch(int(np.diff(offsets).max()), 0, 5, 5, 0)
    agreement_pass(answers, offsets, scores, floats, ints, values)


def rule(settings: Any, shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Stand for the rule of a click learner, as `rounds.rule` of a list-wise one; some document was shown."""
    raise NotImplementedError


@helper
def keep_scores(settings: Any, block: Block, q: int, counts: Counts, scores: Floats) -> None:
    """Let the rule have the scores that documents are ranked by."""


@helper
def keep_weights(settings: Any, state: Iterates, counts: Counts, weight: float) -> None:
    """Change nothing after an update."""


def learn_lists(
    all_settings: Any, block: Block, state: Iterates, counts: Counts, record: Record, scratch: Scratch
) -> int:
    """Rank, then learn by a rule, impression after impression; return how many were learned."""
    (averaging, learning_rate, decay), settings = all_settings
    _, answers, offsets, _ = block
    floats, ints, vectors = scratch
    scores, coefficients, listed, moved = floats[0], floats[1], floats[2:7], ints[5]
    rows = floats[7:], ints[6:]
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if not open_query(averaging, block, q, state, vectors[0], scores, record):
            return q
        weight, mass, n_updates = record[1][q], 0.0, state[2][UPDATES]
        n = order_list(answers, offsets[q], m, listed, ints)
        if n > 0 and weight > 0.0:
            for i in range(m):
                coefficients[i] = 0.0
            given = listed[1][:n], listed[2][:n], listed[3][:n], listed[4][:n]
            kind = int(answers[offsets[q], KIND])
            prepare(settings, block, q, counts, scores)
            shown = scores[:m], ints[0][:n], given, kind, n_updates, weight
            known = counts[0], counts[1], counts[2], state[2]
            mass = rule(settings, shown, known, coefficients[:m], rows)
        rate = learning_rate * decay**n_updates if decay < 1.0 else learning_rate
        if not close_query(rate, block, q, mass, coefficients, moved, vectors[1], state, record):
            return q
        if mass > 0.0:
            follow(settings, state, counts, weight)
        if weight > 0.0:
            count_places(listed[1], listed[2], n, weight, counts)
    return len(offsets) - 1


prepare, follow = keep_scores, keep_weights  # stand for what a click learner does before its rule, after an update


@functools.cache
def click_pass(
    rule: Callable[..., float],
    *,
    prepare: Callable[..., None] = keep_scores,
    follow: Callable[..., None] = keep_weights,
    floats: int = 0,
    ints: int = 0,
) -> Pass:
    """Return the pass of a click rule, compiled for it, and the rows of scratch that it takes.

    Compiled helpers `prepare` the scores that the rule takes, and `follow` each update.
    """
    name = f"{rule.__qualname__.removesuffix('_rule')}_pass"
    parts = {"rule": rule, "prepare": prepare, "follow": follow}
    return Pass(compiled(specialise(learn_lists, name, rule.__module__, **parts)), (floats + 7, ints + 6, 2))
