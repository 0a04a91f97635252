"""Rankings by score, for every tie policy but expected values, and the pass that measures them."""

import math
from collections.abc import Callable
from typing import TypeAlias

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled, helper, specialise
from perceptrank.kernels.levels import read_grades
from perceptrank.kernels.ordering import sort_descending
from perceptrank.kernels.scratch import Scratch

WORST, STABLE, REVERSE, RANDOM, EXPECTED = range(5)
TIES = {"worst": WORST, "stable": STABLE, "reverse": REVERSE, "random": RANDOM, "expected": EXPECTED}
EMPTY = {"skip": math.nan, "one": 1.0, "zero": 0.0}

NDCG, AP, PRECISION, RECIPROCAL_RANK, ERR = range(5)

# Arguments of the kernels: measure, tie policy, value of an empty query, seed, cut-off, gain, largest grade; and
# scores, relevance, offsets, discounts, and a random number per document if the tie policy is random.
Settings: TypeAlias = tuple[int, int, float, int, int, int, float]
Ranked: TypeAlias = tuple[Floats, Floats, Ints, Floats, Floats]

SELECTION_LIMIT = 24  # up to this cut-off, documents that may be among the first are selected before they are sorted


@helper
def rank_first(
    settings: Settings, k: int, ranked: Ranked, start: int, m: int, grades: Floats, scratch: Scratch
) -> None:
    """Write the first k of m documents by score, and perhaps some more, to the last row of the scratch integers.

    Documents that are left out have smaller scores than k others: the least of the maxima of k groups bounds them.
    """
    policy, scores, draws = settings[1], ranked[0], ranked[4]
    keys, ties = scratch[0][1], scratch[0][2]
    chosen, order, buckets, spare = scratch[1][0], scratch[1][1], scratch[1][2], scratch[1][3]
    bar = -math.inf
    if k < m and k <= SELECTION_LIMIT:
        for p in range(k):
            keys[p] = scores[start + p]
        for group in range(1, m // k):
            for p in range(k):
                score = scores[start + group * k + p]
                keys[p] = score if score > keys[p] else keys[p]
        bar = keys[0]
        for p in range(1, k):
            bar = keys[p] if keys[p] < bar else bar
    n = start - start
    for i in range(m):
        chosen[n] = i
        n += 1 if scores[start + i] >= bar else 0
    for p in range(n):
        i = chosen[p]
        keys[p] = scores[start + i]
        if policy == WORST:
            ties[p] = grades[i]
        elif policy == RANDOM:
            ties[p] = -draws[start + i]
        else:
            ties[p] = -i if policy == REVERSE else 0.0
    sort_descending(keys, ties, n, order, buckets, spare)
    ranking = scratch[1][4]
    for p in range(n):
        ranking[p] = chosen[order[p]]


@compiled
def draw_ties(seed: int, first_round: int, offsets: Ints, draws: Floats) -> None:
    """Write a random number per document, a function of the seed, the number of the round and the document alone."""
    for q in range(len(offsets) - 1):
        for i in range(offsets[q + 1] - offsets[q]):
            draws[offsets[q] + i] = noise(seed, first_round + q, i)


def formula(
    settings: Settings, n_relevant: int, k: int, m: int, grades: Floats, order: Ints, discounts: Floats
) -> float:
    """Stand for the formula of a measure: return its value for the first k of m documents."""
    raise NotImplementedError


def measure_queries(settings: Settings, ranked: Ranked, values: Floats, scratch: Scratch) -> None:
    """Write a measure of every query; the policy's value where no document is relevant."""
    _, _, when_empty, _, cutoff, _, _ = settings
    _, relevance, offsets, discounts, _ = ranked
    grades, order = scratch[0][0], scratch[1][4]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        n_relevant = read_grades(relevance, start, m, False, grades)
        values[q] = when_empty
        if n_relevant > 0:
            k = cutoff if 0 < cutoff < m else m
            rank_first(settings, k, ranked, start, m, grades, scratch)
            values[q] = formula(settings, n_relevant, k, m, grades, order, discounts)


def measure_pass(formula: Callable[..., float]) -> Callable[..., None]:
    """Return the pass of a measure, compiled for its formula."""
    return compiled(specialise(measure_queries, f"{formula.__qualname__}_pass", formula.__module__, formula=formula))
