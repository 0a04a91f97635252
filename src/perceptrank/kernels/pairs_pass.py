"""One compiled pass, over a block of queries, of a learner that looks at the pairs of each."""

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.list_pass import close_query, longest_query, score_query
from perceptrank.kernels.pair_rules import PairRule, pair_coefficients
from perceptrank.kernels.scratch import COEFFICIENTS, ORDER, SCORES, allocate_floats, allocate_ints


@compiled
def pairs_pass(
    rule: PairRule,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    total: Floats,
    tally: Floats,
    squares: Floats,
    predicted: Floats,
    masses: Floats,
) -> int:
    """Rank, then learn, query after query; state, outputs and early stop as in `list_pass`."""
    longest = longest_query(offsets)
    floats, ints = allocate_floats(longest), allocate_ints(longest)
    scores, g, moved = floats[SCORES], floats[COEFFICIENTS], ints[ORDER]
    step, mean = np.empty(len(weights)), np.empty(len(weights))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_query(rule.averaging, X, start, stop, weights, total, tally, mean, scores, predicted):
            return q
        mass = pair_coefficients(rule, relevance, start, m, floats, ints)
        if not close_query(rule.learning_rate, X, start, m, mass, g, moved, step, squares, weights, total, tally):
            return q
        masses[q] = mass
    return len(offsets) - 1
