"""One compiled pass of a learner that takes its documents one at a time."""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.list_pass import (
    LARGEST_REACH,
    MASS,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    UPDATES,
    adapt,
    take_step,
)
from perceptrank.kernels.scoring import score_rows, squared_norm


@compiled
def perceptron_pass(
    averaging: bool,
    learning_rate: float,
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
    """Algorithm 1 over the documents of every query; state, outputs and early stop as in `list_pass`, but for squares.

    A query is ranked as a whole before the first of its documents is learned from. A round is a document.
    """
    step = np.empty(len(weights))
    score = np.empty(1)
    before = np.empty(len(weights))
    total_before = np.empty(len(weights))
    tally_before = np.empty(len(tally))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        before[:] = weights
        total_before[:] = total
        tally_before[:] = tally
        if averaging and tally[ROUNDS] > 0.0:
            for j in range(len(weights)):
                step[j] = total[j] * (1.0 / tally[ROUNDS])
            sound = score_rows(X, start, stop, step, predicted, start)
        else:
            sound = score_rows(X, start, stop, weights, predicted, start)
        for i in range(start, stop):
            if not sound:
                break
            label = 1.0 if relevance[i] > 0.0 else -1.0
            sound = score_rows(X, i, i + 1, weights, score, 0) and 0.0 <= relevance[i] < math.inf
            if sound and label * score[0] <= 0.0:
                for j in range(len(weights)):
                    step[j] = -label * X[i, j]
                length = squared_norm(step)
                adapt(step, squares)
                sound = take_step(weights, step, learning_rate)
                tally[UPDATES] += 1.0
                tally[SQUARED_REACH] += length
                tally[SQUARED_STEPS] += length
                tally[LARGEST_REACH] = max(tally[LARGEST_REACH], length)
            tally[ROUNDS] += 1.0
            for j in range(len(weights)):
                total[j] += weights[j]
        if not sound:
            weights[:] = before
            total[:] = total_before
            tally[:] = tally_before
            return q
        masses[q] = tally[UPDATES] - tally_before[UPDATES]
        tally[MASS] += masses[q]
    return len(offsets) - 1
