"""Safe averaging: rank with the mean of all iterates, unless it has lost much more than the current ones.

Two cumulative losses of the measure that is learned are kept: of ranking by the mean of all iterates, L_mean, and by
the current weights, L_current. The next query is ranked by the mean while L_mean ≤ 2 L_current + 1, else by the
current weights. Whatever the stream, the loss of the rankings that were used is then at most the smaller of
3 L_current + 2 and (3 L_mean + 1) / 2: Theorem H of docs/theory/. With query weights, losses are weighted, and
the largest weight so far takes the place of 1 in the condition.

A pass hands out the scores of both rankings, as neither depends on which of them is used; they are judged after it, by
a kernel of its own. What is counted is the number of documents above each one with a gain: that takes whole vectors at
a time, and two sorts would cost more than all the rest of a pass over short queries.
"""

from typing import TypeAlias

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows, Ints
from perceptrank.kernels.compiled import compiled, helper, helper_sums
from perceptrank.kernels.levels import find_levels, read_grades
from perceptrank.kernels.ordering import sort_descending
from perceptrank.learners.tally import CURRENT_LOSS, MEAN_LOSS, USED_LOSS
from perceptrank.measures.gains import gain_of, gain_shift
from perceptrank.theory.theorems import HEAD_START, MEAN_FACTOR

ROWS = 5, 5
COUNTING_LIMIT = 128  # documents with a gain; of more, sorting is faster

# binary, cut-off, gain: the measure; and relevance, offsets, discounts 1 / log2(2 + place).
Judge: TypeAlias = tuple[bool, int, int]
Judged: TypeAlias = tuple[Floats, Ints, Floats]


@compiled
def safe_pass(
    judge: Judge,
    block: Judged,
    weights: Floats,
    largest: float,
    scores: Floats,
    tally: Floats,
    predicted: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> None:
    """Choose the scores that queries are ranked by, those by the mean or those by the current weights that follow them.

    Counts the losses of both rankings and of the one that is used, times the query weights; `largest` is the
    largest of these before the block. Ties are in the worst order. A query whose grades are all equal has no loss.
    """
    binary, cutoff, gain = judge
    relevance, offsets, discounts = block
    grades, levels, level_gains, ranked, ranked_by_mean = floats[0], floats[1], floats[2], floats[3], floats[4]
    first, level_of, chosen, places, places_by_mean = ints[0], ints[1], ints[2], ints[3], ints[4]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        by_mean, by_current = scores[start : start + m], scores[len(relevance) + start : len(relevance) + start + m]
        safe = is_mean_safe(tally, largest)
        largest = weights[q] if weights[q] > largest else largest
        read_grades(relevance, start, m, binary, grades)
        n_levels = find_levels(grades, m, levels, first, level_of)
        if n_levels > 1:
            shift, n_gained = gain_shift(gain, levels[0]), 0
            for level in range(n_levels):
                level_gains[level] = gain_of(gain, levels[level], shift)
                n_gained += 1 if level_gains[level] > 0.0 else 0  # it is 0 when it underflows
            n = start - start
            for i in range(m):
                ranked[i], ranked_by_mean[i] = 0.0, 0.0
                chosen[n] = i
                n += 1 if level_of[i] < n_gained else 0
            if n <= COUNTING_LIMIT:
                find_last_places(m, by_current, n, chosen, places)
                find_last_places(m, by_mean, n, chosen, places_by_mean)
                for p in range(n):
                    level_gain = level_gains[level_of[chosen[p]]]
                    put_gain(level_gain, places[p], ranked)
                    put_gain(level_gain, places_by_mean[p], ranked_by_mean)
            else:
                for by in range(2):
                    sort_descending(by_mean if by else by_current, grades, m, chosen, places, places_by_mean)
                    for p in range(m):
                        (ranked_by_mean if by else ranked)[p] = level_gains[level_of[chosen[p]]]
            if binary:
                current, mean = missed_precision(m, ranked), missed_precision(m, ranked_by_mean)
            else:
                k = cutoff if 0 < cutoff < m else m
                ideal = grades  # not needed any more
                for level in range(n_levels):
                    for p in range(first[level], first[level + 1]):
                        ideal[p] = level_gains[level]
                current, mean = missed_gains(k, ideal, ranked, ranked_by_mean, discounts)
            tally[CURRENT_LOSS] += weights[q] * current
            tally[MEAN_LOSS] += weights[q] * mean
            tally[USED_LOSS] += weights[q] * (mean if safe else current)
        for i in range(m):
            predicted[start + i] = by_mean[i] if safe else by_current[i]


@helper
def is_mean_safe(tally: Floats, largest: float) -> bool:
    """Tell whether the mean ranks the next query, `largest` being the largest weight of a query before it."""
    return tally[MEAN_LOSS] <= MEAN_FACTOR * tally[CURRENT_LOSS] + HEAD_START * largest


@helper
def find_last_places(m: int, scores: Floats, n: int, chosen: Ints, places: Ints) -> None:
    """Write the places of n chosen documents by their scores, each the last place of its tie; four at a time."""
    for p in range(0, n, 4):
        q, r, s = min(p + 1, n - 1), min(p + 2, n - 1), min(p + 3, n - 1)
        a, b, c, d = scores[chosen[p]], scores[chosen[q]], scores[chosen[r]], scores[chosen[s]]
        n_a, n_b, n_c, n_d = -1, -1, -1, -1
        for j in range(m):
            score = scores[j]
            n_a += 1 if score >= a else 0
            n_b += 1 if score >= b else 0
            n_c += 1 if score >= c else 0
            n_d += 1 if score >= d else 0
        places[p], places[q], places[r], places[s] = n_a, n_b, n_c, n_d


@helper
def put_gain(gain: float, place: int, ranked: Floats) -> None:
    """Put a gain at the last place of its tie, or before those that are there: of tied gains the larger comes later."""
    while ranked[place] > 0.0:
        smaller = ranked[place] if ranked[place] < gain else gain
        ranked[place] = gain if ranked[place] < gain else ranked[place]
        gain = smaller
        place -= 1
    ranked[place] = gain


@helper_sums
def missed_gains(k: int, ideal: Floats, ranked: Floats, others: Floats, discounts: Floats) -> tuple[float, float]:
    """Return the parts of the ideal DCG that two rankings of gains miss; 0 if there is none."""
    best, missed, others_missed = 0.0, 0.0, 0.0
    for p in range(k):
        best += ideal[p] * discounts[p]
        missed += (ideal[p] - ranked[p]) * discounts[p]
        others_missed += (ideal[p] - others[p]) * discounts[p]
    return missed / best if missed > 0.0 else 0.0, others_missed / best if others_missed > 0.0 else 0.0


@helper
def missed_precision(m: int, ranked: Floats) -> float:
    """Return the mean of 1 - precision at the ranks of relevant documents, whose gain is 1."""
    found, missed = 0.0, 0.0
    for p in range(m):
        found += ranked[p]
        missed += ranked[p] * (p + 1.0 - found) / (p + 1.0)
    return missed / found
