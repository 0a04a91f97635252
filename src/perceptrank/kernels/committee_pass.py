"""The pass of the committee perceptron; state, outputs and early stop as in `single_documents`."""

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, Ints
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.list_pass import ROUNDS, adapt, longest_query
from perceptrank.kernels.scoring import score_rows
from perceptrank.kernels.single_documents import close_round, is_grade


@compiled
def committee_pass(
    learning_rate: float,
    seed: int,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    total: Floats,
    tally: Floats,
    squares: Floats,
    members: FloatRows,
    successes: Floats,
    current: Floats,
    predicted: Floats,
    masses: Floats,
) -> int:
    """The pairs of each query in random order; a misordered one moves the current hypothesis, which then starts anew.

    members and successes are the hypotheses that were right longest and for how many pairs; current holds how many
    pairs the current one was right for. Rankings are by the mean of members and current, weighted by successes.
    """
    d = len(weights)
    longest = longest_query(offsets)
    pairs = np.empty((longest * longest // 2 + 1, 2), np.int64)
    mean, step = np.empty(d), np.empty(d)
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        combine(weights, members, successes, current[0], mean)
        if not score_rows(X, start, stop, mean, predicted, start):
            return q
        n = 0
        for i in range(start, stop):
            if not is_grade(relevance[i]):
                return q
            for j in range(start, stop):
                if relevance[i] > relevance[j]:
                    pairs[n, 0], pairs[n, 1] = i, j
                    n += 1
        n_moved = 0
        for p in range(n):
            chosen = p + int(noise(seed, int(tally[ROUNDS]), p) * (n - p))
            i, j = pairs[chosen, 0], pairs[chosen, 1]
            pairs[chosen, 0], pairs[chosen, 1] = pairs[p, 0], pairs[p, 1]
            lead = 0.0
            for k in range(d):
                step[k] = np.float64(X[i, k]) - np.float64(X[j, k])
                lead += weights[k] * step[k]
            if lead > 0.0:
                current[0] += 1.0
                continue
            if np.isnan(lead):
                return q
            offer(weights, current[0], members, successes)
            current[0] = 0.0
            n_moved += 1
            adapt(step, squares)
            for k in range(d):
                weights[k] += learning_rate * step[k]
        masses[q] = n_moved
        if not close_round(masses[q], weights, total, tally):
            return q
    return len(offsets) - 1


@compiled
def offer(weights: Floats, right: float, members: FloatRows, successes: Floats) -> None:
    """Take a hypothesis into the committee in place of the first that was right least, if it was right more."""
    least = 0
    for member in range(1, len(successes)):
        if successes[member] < successes[least]:
            least = member
    if right > successes[least]:
        successes[least] = right
        for k in range(len(weights)):
            members[least, k] = weights[k]


@compiled
def combine(weights: Floats, members: FloatRows, successes: Floats, right: float, mean: Floats) -> None:
    """The mean of the members and the current hypothesis, weighted by successes; the current one if there are none."""
    whole = right
    for member in range(len(successes)):
        whole += successes[member]
    for k in range(len(weights)):
        mean[k] = right * weights[k] if whole > 0.0 else weights[k]
    if whole > 0.0:
        for member in range(len(successes)):
            for k in range(len(weights)):
                mean[k] += successes[member] * members[member, k]
        for k in range(len(weights)):
            mean[k] /= whole
