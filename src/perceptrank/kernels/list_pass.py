"""One compiled pass of a list learner over a block of queries."""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.list_rules import ListRule, list_coefficients
from perceptrank.kernels.scoring import add_rows, score_rows, score_rows_twice, squared_norm
from perceptrank.kernels.scratch import COEFFICIENTS, ORDER, SCORES, allocate_floats, allocate_ints

# Entries of the tally that a learner carries from block to block. A reach is a squared length of step per weight moved.
ROUNDS, UPDATES, MASS, SQUARED_REACH, SQUARED_STEPS, LARGEST_REACH, TALLY_LENGTH = range(7)

# Beyond this, sums of iterates and squared norms could overflow.
LARGEST_SQUARED_NORM = 1e300

# Added to what AdaGrad divides by, so that a step that is 0 but for rounding stays small.
SMALLEST_ROOT = 1e-10


@compiled
def longest_query(offsets: Ints) -> int:
    """Number of documents of the longest query."""
    longest = 0
    for q in range(len(offsets) - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@compiled
def squared_reach(step: Floats, length: float, mass: float) -> float:
    """Squared length of a step per weight it moved, from its squared length unless that underflows."""
    if mass > 1e-100:
        return length / (mass * mass)
    reach = 0.0
    for j in range(len(step)):
        reach += (step[j] / mass) * (step[j] / mass)
    return reach


@compiled
def take_step(weights: Floats, step: Floats, learning_rate: float) -> bool:
    """Weights -= learning_rate * step, unless that grows too large; overwrites step. Returns whether it was taken."""
    for j in range(len(weights)):
        step[j] = weights[j] - learning_rate * step[j]
    if not squared_norm(step) <= LARGEST_SQUARED_NORM:
        return False
    for j in range(len(weights)):
        weights[j] = step[j]
    return True


@compiled
def score_query(
    averaging: bool,
    X: Features,
    start: int,
    stop: int,
    weights: Floats,
    total: Floats,
    tally: Floats,
    mean: Floats,
    scores: Floats,
    predicted: Floats,
) -> bool:
    """Scores by the current weights, and in `predicted` those to rank by; returns whether all are finite."""
    if averaging and tally[ROUNDS] > 0.0:
        share = 1.0 / tally[ROUNDS]
        for j in range(len(weights)):
            mean[j] = total[j] * share
        return score_rows_twice(X, start, stop, weights, scores, mean, predicted)
    sound = score_rows(X, start, stop, weights, scores, 0)
    for i in range(stop - start):
        predicted[start + i] = scores[i]
    return sound


@compiled
def take_update(
    learning_rate: float,
    X: Features,
    start: int,
    m: int,
    mass: float,
    g: Floats,
    moved: Ints,
    step: Floats,
    squares: Floats,
    weights: Floats,
    tally: Floats,
) -> bool:
    """Move the weights against the coefficients g; returns False, with the weights unchanged, if that grows too large.

    squares are those that AdaGrad adapts steps by, see `adapt`. An adapted step has the reach of its product with the
    step before, so that a relative margin is in units of what a step does to the scores.
    """
    n_moved = 0
    for i in range(m):
        moved[n_moved] = i
        n_moved += 1 if g[i] != 0.0 else 0
    for j in range(len(weights)):
        step[j] = 0.0
    add_rows(X, start, moved, n_moved, g, step)
    length = squared_norm(step)
    reach = squared_reach(step, length, mass)
    if not reach <= LARGEST_SQUARED_NORM:
        return False
    if len(squares) > 0:
        reach = adapt(step, squares) / mass / mass
    if not take_step(weights, step, learning_rate):
        return False
    tally[UPDATES] += 1.0
    tally[MASS] += mass
    tally[SQUARED_REACH] += reach
    tally[SQUARED_STEPS] += length
    tally[LARGEST_REACH] = max(tally[LARGEST_REACH], reach)
    return True


@compiled
def close_query(
    learning_rate: float,
    X: Features,
    start: int,
    m: int,
    mass: float,
    g: Floats,
    moved: Ints,
    step: Floats,
    squares: Floats,
    weights: Floats,
    total: Floats,
    tally: Floats,
) -> bool:
    """Take the update of a query, if it has one, and count the round; returns whether all is sound."""
    if mass < 0.0:
        return False
    if mass > 0.0 and not take_update(learning_rate, X, start, m, mass, g, moved, step, squares, weights, tally):
        return False
    tally[ROUNDS] += 1.0
    for j in range(len(weights)):
        total[j] += weights[j]
    return True


@compiled
def adapt(step: Floats, squares: Floats) -> float:
    """AdaGrad: divide a step by the root of the sum of squares of all steps so far, itself among them.

    squares is that sum for every feature, or one for all of them; if it is empty, the step stays as it is. A step that
    is too long becomes infinite, for whoever takes it to notice. Returns the product of the step before and after, 0 if
    it stays as it is.
    """
    if len(squares) == 0:
        return 0.0
    length = squared_norm(step)
    if not length <= LARGEST_SQUARED_NORM:
        for j in range(len(step)):
            step[j] = math.inf
        return math.inf
    if len(squares) < len(step):
        squares[0] += length
        root = math.sqrt(squares[0]) + SMALLEST_ROOT
        for j in range(len(step)):
            step[j] /= root
        return length / root
    product = 0.0
    for j in range(len(step)):
        squares[j] += step[j] * step[j]
        adapted = step[j] / (math.sqrt(squares[j]) + SMALLEST_ROOT)
        product += step[j] * adapted
        step[j] = adapted
    return product


@compiled
def list_pass(
    rule: ListRule,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    discounts: Floats,
    weights: Floats,
    total: Floats,
    tally: Floats,
    squares: Floats,
    predicted: Floats,
    masses: Floats,
) -> int:
    """Rank, then learn, query after query; returns how many queries were learned.

    weights, total (the sum of all iterates after the first), tally and squares are the learner's state. predicted
    receives the scores that each query was ranked by before it was learned from, masses the weight that moved. The pass
    stops early, before it changes anything but squares for that query, where a grade is not sound or a score or weight
    not finite.
    """
    longest = longest_query(offsets)
    floats, ints = allocate_floats(longest), allocate_ints(longest)
    scores, g, moved = floats[SCORES], floats[COEFFICIENTS], ints[ORDER]
    step = np.empty(len(weights))
    mean = np.empty(len(weights))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_query(rule.averaging, X, start, stop, weights, total, tally, mean, scores, predicted):
            return q

        margin = rule.margin
        if rule.relative_margin > 0.0 and tally[UPDATES] > 0.0:
            margin = rule.relative_margin * (rule.learning_rate * (tally[SQUARED_REACH] / tally[UPDATES]))
        mass = list_coefficients(rule, margin, relevance, start, m, discounts, floats, ints)
        if not close_query(rule.learning_rate, X, start, m, mass, g, moved, step, squares, weights, total, tally):
            return q
        masses[q] = mass
    return len(offsets) - 1
