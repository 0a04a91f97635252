"""The pass of list-wise learners, and the compiled steps that the passes of all learners share.

For each query of a block, a pass opens the query (scores by the current weights, and the scores to rank by), applies
the learner's rule (a coefficient per document) and closes the query (step, average, tally). List-wise learners have one
pass, `learn_lists`, compiled for the rule of each of them.

Averaging and AdaGrad are part of opening and closing instead of wrappers around a pass, for speed: the scores of a
query by the current weights and by their mean come from one read of its features, which dominates the cost of a pass,
and AdaGrad changes a step between the rule and the weights. A learner only passes its settings on.

Kernels allocate nothing: a pass takes `kernels.scratch.Scratch` and names the rows that it uses in its first lines.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints, Query, Rows
from perceptrank.kernels.compiled import by_layout, compiled, helper, specialise
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.scoring import add_rows, score_rows, score_rows_twice, squared_norm
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.sparse_rounds import close_sparse, kept_after, open_sparse
from perceptrank.learners.tally import (
    FADING,
    LARGEST_REACH,
    LARGEST_SQUARED_NORM,
    LARGEST_WEIGHT,
    MASS,
    N_FREE,
    NEGATIVE,
    POSITIVE,
    ROUND_WEIGHT,
    ROUNDS,
    SMALLEST_ROOT,
    SQUARED_REACH,
    SQUARED_STEPS,
    UPDATE_WEIGHT,
    UPDATES,
    ZERO,
    Block,
    Iterates,
    ListSettings,
    Record,
)


@helper
def open_dense(
    averaging: bool, block: Block, q: int, state: Iterates, mean: Floats, scores: Floats, record: Record
) -> bool:
    """Score query q by the current weights, and in the record by those to rank with; return whether all are finite."""
    X, relevance, offsets, _ = block
    weights, total, tally = state[0], state[1], state[2]
    predicted, _ = record
    start, stop = offsets[q], offsets[q + 1]
    by_mean = averaging and tally[ROUND_WEIGHT] > 0.0
    if by_mean:
        share = 1.0 / tally[ROUND_WEIGHT]
        for j in range(len(mean)):
            mean[j] = total[j] * share
        finite = score_rows_twice(X, start, stop, weights, scores, mean, predicted)
    else:
        finite = score_rows(X, start, stop, weights, scores)
    n = len(relevance)
    for i in range(stop - start if len(predicted) > n else 0):
        predicted[n + start + i] = scores[i]
    for i in range(0 if by_mean else stop - start):
        predicted[start + i] = scores[i]
    return finite


@helper
def close_dense(
    learning_rate: float,
    block: Block,
    q: int,
    mass: float,
    coefficients: Floats,
    moved: Ints,
    step: Floats,
    state: Iterates,
    record: Record,
) -> bool:
    """Move the weights against the coefficients, times the weight of the query, if mass > 0, and count the round.

    If the learner forgets, weights and total shrink before the step, by exp(-rate * mass * the weight of the query).
    Returns False if mass is negative, or a step or weight too large: the state is then not that of any moment.
    An adapted step has the reach of its product with the step before it was adapted, so that a relative margin is in
    units of what a step does to the scores.
    """
    X, _, offsets, _ = block
    weights, total, tally, squares = state[0], state[1], state[2], state[3]
    weight = record[1][q]
    if mass < 0.0:
        return False
    if weight == 0.0:
        return True
    if mass > 0.0:
        start = offsets[q]
        n_moved = start - start
        for i in range(offsets[q + 1] - start):
            moved[n_moved] = i
            n_moved += 1 if coefficients[i] != 0.0 else 0
        for j in range(len(step)):
            step[j] = 0.0
        add_rows(X, start, moved, n_moved, coefficients, step)
        length = squared_norm(step)
        reach = length / (mass * mass)
        if mass <= 1e-100:  # the square of the mass could underflow
            reach = 0.0
            for j in range(len(step)):
                reach += (step[j] / mass) * (step[j] / mass)
        reach *= weight
        length *= weight * weight
        if not (weight * reach <= LARGEST_SQUARED_NORM and length <= LARGEST_SQUARED_NORM):
            return False
        rate = learning_rate * weight
        if len(squares) > 0:
            rate = learning_rate
            for j in range(len(step)):
                step[j] *= weight
            reach = adapt(step, squares) / mass / mass / weight
        if tally[FADING] > 0.0:
            kept = kept_after(tally[FADING], weight * mass)
            tally[ROUND_WEIGHT] *= kept
            for j in range(len(weights)):
                weights[j] *= kept
                total[j] *= kept
        if not take_step(weights, step, rate):
            return False
        if len(state) > N_FREE:
            project(weights, state[-1])
        tally[UPDATES] += 1.0
        tally[UPDATE_WEIGHT] += weight
        tally[MASS] += weight * mass
        tally[SQUARED_REACH] += weight * reach
        tally[SQUARED_STEPS] += length
        tally[LARGEST_REACH] = reach if reach > tally[LARGEST_REACH] else tally[LARGEST_REACH]
    tally[ROUNDS] += 1.0
    tally[ROUND_WEIGHT] += weight
    tally[LARGEST_WEIGHT] = weight if weight > tally[LARGEST_WEIGHT] else tally[LARGEST_WEIGHT]
    for j in range(len(weights)):
        total[j] += weight * weights[j]
    record[1][q] = weight * mass
    return True


@helper
def take_step(weights: Floats, step: Floats, learning_rate: float) -> bool:
    """Subtract learning_rate * step from the weights; return whether they are within bounds."""
    for j in range(len(weights)):
        weights[j] -= learning_rate * step[j]
    return squared_norm(weights) <= LARGEST_SQUARED_NORM


@helper
def project(weights: Floats, signs: Floats) -> None:
    """Make weights that do not have their signs 0: the nearest ones that have them."""
    for j in range(len(weights)):
        sign, weight = signs[j], weights[j]
        if sign == ZERO or (sign == POSITIVE and weight < 0.0) or (sign == NEGATIVE and weight > 0.0):
            weights[j] = 0.0


@compiled
def adapt(step: Floats, squares: Floats) -> float:
    """AdaGrad: divide a step by the root of the sum of squares of all steps so far, itself among them.

    squares is that sum for every feature, or one for all of them; if it is empty, the step stays as it is. A step that
    is too long becomes infinite, for the caller to notice. Returns the product of the step before and after, 0 if it
    stays as it is.
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


open_query = by_layout(open_dense, open_sparse)
close_query = by_layout(close_dense, close_sparse)


@helper
def margin_now(absolute: float, relative: float, learning_rate: float, state: Iterates) -> float:
    """Return the margin of this round: `relative` times the mean reach of past steps if that is set, else absolute."""
    tally = state[2]
    if relative > 0.0 and tally[UPDATES] > 0.0:
        return relative * (learning_rate * (tally[SQUARED_REACH] / tally[UPDATE_WEIGHT]))
    return absolute


def rule(settings: Any, query: Query, coefficients: Floats, rows: Rows) -> float:
    """Stand for the rule of a list-wise learner: write coefficients for a query, return the mass that they move.

    The weights move against the coefficients if the mass is positive. Coefficients start as zeros; rows hold what the
    last query left. There are different grades, which the rule may overwrite, unlike scores.
    """
    raise NotImplementedError


def learn_lists(all_settings: ListSettings, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn by a rule, query after query; return how many queries were learned."""
    (averaging, learning_rate, absolute, relative, binary), settings = all_settings
    _, relevance, offsets, discounts = block
    floats, ints, vectors = scratch
    scores, grades, coefficients, moved, mean, step = floats[0], floats[1], floats[2], ints[0], vectors[0], vectors[1]
    rows = floats[3:], ints[1:]
    for q in range(len(offsets) - 1):
        m = offsets[q + 1] - offsets[q]
        if not open_query(averaging, block, q, state, mean, scores, record):
            return q
        n_relevant = read_grades(relevance, offsets[q], m, binary, grades)
        if n_relevant < 0:
            return q
        mass = 0.0
        if grades_differ(grades, m, n_relevant):
            margin = margin_now(absolute, relative, learning_rate, state)
            for i in range(m):
                coefficients[i] = 0.0
            query = scores[:m], grades[:m], n_relevant, margin, discounts
            mass = rule(settings, query, coefficients[:m], rows)
        if not close_query(learning_rate, block, q, mass, coefficients, moved, step, state, record):
            return q
    return len(offsets) - 1


class Pass(NamedTuple):
    """A compiled pass, and what it takes.

    Attributes
    ----------
    function : compiled function
        The pass.
    rows : (int, int, int)
        Rows of floats, of integers (one place per document, and two over) and of vectors (one place per feature).
    spare : function, optional
        From the length of the longest query to further arrays, which follow those of `extra_state`.
    """

    function: Callable[..., int]
    rows: tuple[int, int, int]
    spare: Callable[[int], tuple[Any, ...]] | None = None


@functools.cache
def list_pass(rule: Callable[..., float], *, floats: int = 0, ints: int = 0) -> Pass:
    """Return the pass of a rule, compiled for it, and the rows of scratch that it takes.

    Parameters
    ----------
    rule : compiled helper
        With the arguments of `perceptrank.learners.rounds.rule`.
    floats, ints : int
        Rows that the rule uses, with a place per document and two more.
    """
    name = f"{rule.__qualname__.removesuffix('_rule')}_pass"
    return Pass(compiled(specialise(learn_lists, name, rule.__module__, rule=rule)), (floats + 3, ints + 1, 2))


# For learners that take judged documents or pairs one after the other. Such a pass may stop in the middle of a query;
# the learner then restores its state.


@helper
def are_valid(relevance: Floats, start: int, stop: int) -> bool:
    """Tell whether all grades of a query are finite and not negative."""
    n_valid = 0
    for i in range(start, stop):
        n_valid += 1 if 0.0 <= relevance[i] < math.inf else 0
    return n_valid == stop - start


@helper
def lead_of(X: Features, i: int, j: int, weights: Floats, x: Floats) -> float:
    """Make x the difference of documents i and j; return by how much i is ahead in score."""
    lead = 0.0
    for k in range(len(x)):
        x[k] = np.float64(X[i, k]) - np.float64(X[j, k])
        lead += weights[k] * x[k]
    return lead


@compiled
def count_round(mass: float, state: Iterates, weight: float = 1.0) -> bool:
    """Count a round of a query of this weight that moved this mass; return whether the weights are within bounds."""
    weights, total, tally, _ = state
    tally[ROUNDS] += 1.0
    tally[ROUND_WEIGHT] += weight
    tally[LARGEST_WEIGHT] = weight if weight > tally[LARGEST_WEIGHT] else tally[LARGEST_WEIGHT]
    if mass > 0.0:
        tally[UPDATES] += 1.0
        tally[UPDATE_WEIGHT] += weight
        tally[MASS] += weight * mass
    for k in range(len(weights)):
        total[k] += weight * weights[k]
    return squared_norm(weights) <= LARGEST_SQUARED_NORM


@helper
def close_round(q: int, mass: float, state: Iterates, record: Record) -> bool:
    """Count query q as a round that moved this mass; return whether the weights are within bounds."""
    weight = record[1][q]
    record[1][q] = weight * mass
    return weight == 0.0 or count_round(mass, state, weight)
