"""Opening and closing a query whose features are sparse, at a cost in proportion to its non-zeros.

A table holds two numbers for each feature, side by side so that both come with one access to memory: its weight w, and
its lag. The mean of the iterates after each of T rounds is kept without touching a feature that does not occur: with
d_t the change of w in round t, the sum of these iterates is T times the first w plus the sum of (T + 1 - t) d_t, so
their mean is w - lag / T with the lag being the sum of (t - 1) d_t, wherever w started. With query weights, the
sum of the weights of all rounds takes the place of T, and that of the rounds before t the place of t - 1.

A learner that forgets (`wrappers/fading.py`) multiplies weights w and their total T by a factor before each update.
Neither is touched: the table has v = w / F, F being the product of all factors, and T / F is the plain sum of the v,
since T = factor * T + w becomes T / F = T / F + v with the new F. So its lag is that of v, made with a sum of weights
of rounds that does not fade; only the mean divides by one that does. When F is small, it is multiplied into the table.

The sum over the non-zeros of a document is taken in this order, so that results are the same on every machine: terms
0, 4, 8, … are added up one after the other, so are terms 1, 5, 9, …, and so on; the four sums are added as (first +
second) + (third + fourth). Weights move by one document after the other.
"""

import math

import numpy as np

from perceptrank.kernels.arrays import Columns, Floats, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.fetching import AHEAD, at, fetch
from perceptrank.learners.tally import (
    FADED,
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
    SINCE,
    SMALLEST_ROOT,
    SQUARED_REACH,
    SQUARED_STEPS,
    UPDATE_WEIGHT,
    UPDATES,
    ZERO,
    Record,
    SparseBlock,
    SparseIterates,
)

WIDTH = 2
WEIGHT, LAG = range(WIDTH)
SMALLEST_FACTOR, LARGEST_EXPONENT = 2.0**-40, 27.0
LARGEST_LOSS, SMALLEST_SUM = 1e-6, 1e-290  # of a sum's terms, and by itself: below, rounding may be too much of it


@helper
def row_at(indices: Columns, k: int) -> int:
    """Return where the row of the table begins that non-zero k belongs to; no index is negative."""
    return int(np.uint32(at(indices, k))) * WIDTH


@helper
def score_row_by_table(X: SparseArrays, i: int, table: Floats) -> tuple[float, float]:
    """Return the sums of value times weight, and of value times lag, over the non-zeros of document i."""
    values, indices, starts = X
    first, last = starts[i], starts[i + 1]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    e, f, g, h = 0.0, 0.0, 0.0, 0.0
    whole, ahead = last - (last - first) % 4, min(AHEAD, len(indices) - last)
    for k in range(first, whole, 4):
        fetch(table, row_at(indices, k + ahead))
        fetch(table, row_at(indices, k + ahead + 1))
        fetch(table, row_at(indices, k + ahead + 2))
        fetch(table, row_at(indices, k + ahead + 3))
        p, q, r, s = row_at(indices, k), row_at(indices, k + 1), row_at(indices, k + 2), row_at(indices, k + 3)
        v, w = np.float64(at(values, k)), np.float64(at(values, k + 1))
        x, y = np.float64(at(values, k + 2)), np.float64(at(values, k + 3))
        a += v * table[p + WEIGHT]
        e += v * table[p + LAG]
        b += w * table[q + WEIGHT]
        f += w * table[q + LAG]
        c += x * table[r + WEIGHT]
        g += x * table[r + LAG]
        d += y * table[s + WEIGHT]
        h += y * table[s + LAG]
    for k in range(whole, last):
        p, v = row_at(indices, k), np.float64(at(values, k))
        if k == whole:
            a += v * table[p + WEIGHT]
            e += v * table[p + LAG]
        elif k == whole + 1:
            b += v * table[p + WEIGHT]
            f += v * table[p + LAG]
        else:
            c += v * table[p + WEIGHT]
            g += v * table[p + LAG]
    return (a + b) + (c + d), (e + f) + (g + h)


@helper
def open_sparse(
    averaging: bool, block: SparseBlock, q: int, state: SparseIterates, mean: Floats, scores: Floats, record: Record
) -> bool:
    """Score query q by the current weights, and in the record by those to rank with; return whether all are finite.

    `mean` is not used.
    """
    X, relevance, offsets, _ = block
    table, room, tally = state[0], state[1], state[2]
    _, kept = room
    predicted, _ = record
    start, stop, n = offsets[q], offsets[q + 1], len(relevance)
    by_mean = averaging and tally[ROUND_WEIGHT] > 0.0
    share, factor, scale = 1.0 / tally[ROUND_WEIGHT] if by_mean else 0.0, 1.0, 1.0
    if tally[FADING] > 0.0:
        factor, scale = tally[FADED], tally[FADED]
        if by_mean:
            share, factor = 1.0 / tally[SINCE], scale * tally[SINCE] / tally[ROUND_WEIGHT]
    zero = 0.0
    for i in range(start, stop):
        score, lag = score_row_by_table(X, i, table)
        kept[i - start] = score
        scores[i - start] = score * scale
        predicted[i] = (score - lag * share) * factor
        if len(predicted) > n:
            predicted[n + i] = score * scale
        zero += score * 0.0 + lag * 0.0
    return zero == 0.0


@compiled
def score_by_table(X: SparseArrays, table: Floats, share: float, factor: float, scores: Floats) -> bool:
    """Score documents by (weight - lag * share) * factor of their features; return whether all scores are finite."""
    zero = 0.0
    for i in range(len(scores)):
        score, lag = score_row_by_table(X, i, table)
        scores[i] = (score - lag * share) * factor
        zero += scores[i] * 0.0
    return zero == 0.0


@helper
def close_sparse(
    learning_rate: float,
    block: SparseBlock,
    q: int,
    mass: float,
    coefficients: Floats,
    moved: Ints,
    step: Floats,
    state: SparseIterates,
    record: Record,
) -> bool:
    """Move the weights against the coefficients, times the weight of the query, if mass > 0, and count the round.

    See `close_dense`. If it returns False, the table is not that of any moment. `moved` is not used.
    """
    X, _, offsets, _ = block
    table, room, tally, squares = state[0], state[1], state[2], state[3]
    touched, kept = room
    weight = record[1][q]
    if mass < 0.0:
        return False
    if weight == 0.0:
        return True
    if mass > 0.0:
        start, stop, before, scale = offsets[q], offsets[q + 1], tally[ROUND_WEIGHT], 1.0
        if tally[FADING] > 0.0:
            kept_part = kept_after(tally[FADING], weight * mass)
            tally[ROUND_WEIGHT] *= kept_part
            tally[FADED] *= kept_part
            before, scale = tally[SINCE], tally[FADED]
        if len(squares) > 0:
            n = gather_step(X, start, stop, coefficients, step, touched)
            length, product, largest = take_adapted(
                weight, step, touched, kept, n, table, squares, learning_rate, before
            )
            reach = product / mass / mass / weight
        else:
            length, largest, is_accurate = take_at_once(
                X, start, stop, coefficients, kept, table, learning_rate * weight / scale, before
            )
            largest *= scale * scale
            if not is_accurate:
                length = squared_step(X, start, stop, coefficients, table, kept)
            reach = weight * (length / mass / mass)
            length *= weight * weight
        if not (largest <= LARGEST_SQUARED_NORM and length <= LARGEST_SQUARED_NORM):
            return False
        if not weight * reach <= LARGEST_SQUARED_NORM:
            return False
        if len(state) > N_FREE:
            project_moved(X, start, stop, coefficients, table, state[-1], before)
        tally[UPDATES] += 1.0
        tally[UPDATE_WEIGHT] += weight
        tally[MASS] += weight * mass
        tally[SQUARED_REACH] += weight * reach
        tally[SQUARED_STEPS] += length
        tally[LARGEST_REACH] = reach if reach > tally[LARGEST_REACH] else tally[LARGEST_REACH]
    tally[ROUNDS] += 1.0
    tally[ROUND_WEIGHT] += weight
    if tally[FADING] > 0.0:
        tally[SINCE] += weight
        if tally[FADED] < SMALLEST_FACTOR:
            fold_factor(table, tally)
    tally[LARGEST_WEIGHT] = weight if weight > tally[LARGEST_WEIGHT] else tally[LARGEST_WEIGHT]
    record[1][q] = weight * mass
    return True


@helper
def kept_after(rate: float, moved: float) -> float:
    """Return the part of the weights that an update leaves, of the weight that it moves times that of the query."""
    return math.exp(-rate * moved) if rate * moved < LARGEST_EXPONENT else math.exp(-LARGEST_EXPONENT)


@helper
def fold_factor(table: Floats, tally: Floats) -> None:
    """Multiply the factor of a table into it, so that lags are made with the sum of weights of rounds that fades."""
    factor, more = tally[FADED], tally[ROUND_WEIGHT] - tally[SINCE]
    for row in range(0, len(table), WIDTH):
        table[row + LAG] = factor * (table[row + WEIGHT] * more + table[row + LAG])
        table[row + WEIGHT] *= factor
    tally[FADED], tally[SINCE] = 1.0, tally[ROUND_WEIGHT]


@helper
def take_at_once(
    X: SparseArrays,
    start: int,
    stop: int,
    coefficients: Floats,
    scores: Floats,
    table: Floats,
    learning_rate: float,
    before: float,
) -> tuple[float, float, bool]:
    """Subtract learning_rate * coefficient * value from the weight of each non-zero, one document after the other.

    Returns the squared length of the step per learning_rate, the largest square of a weight, and whether the length is
    accurate. The squared length is the change of the weights' own, plus twice the inner product of the step with the
    weights before it: that is the sum of coefficients times scores. Little of these terms is left, and `squared_step`
    is to be used, where weights are much larger than the step, or documents have much in common. `before` is the sum of
    the earlier query weights.
    """
    values, indices, starts = X
    growth, product, largest, size = 0.0, 0.0, 0.0, 0.0
    for i in range(start, stop):
        coefficient = coefficients[i - start]
        if coefficient != 0.0:
            product += coefficient * scores[i - start]
            rate = learning_rate * coefficient
            first, last = starts[i], starts[i + 1]
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            whole = last - (last - first) % 4
            for k in range(first, whole, 4):
                a += move_weight(table, row_at(indices, k), rate * at(values, k), before)
                b += move_weight(table, row_at(indices, k + 1), rate * at(values, k + 1), before)
                c += move_weight(table, row_at(indices, k + 2), rate * at(values, k + 2), before)
                d += move_weight(table, row_at(indices, k + 3), rate * at(values, k + 3), before)
            if whole < last:
                a += move_weight(table, row_at(indices, whole), rate * at(values, whole), before)
            if whole + 1 < last:
                b += move_weight(table, row_at(indices, whole + 1), rate * at(values, whole + 1), before)
            if whole + 2 < last:
                c += move_weight(table, row_at(indices, whole + 2), rate * at(values, whole + 2), before)
            growth += (a + b) + (c + d)
            size += abs((a + b) + (c + d)) + abs(2.0 * rate * scores[i - start])
            largest = largest if largest > abs(growth) else abs(growth)
    squared = growth + 2.0 * learning_rate * product
    return squared / learning_rate / learning_rate, largest, squared > LARGEST_LOSS * size + SMALLEST_SUM


@helper
def move_weight(table: Floats, row: int, change: float, before: float) -> float:
    """Subtract a change from a weight, and `before` times as much from its lag; return by how much its square grows."""
    weight = table[row + WEIGHT]
    table[row + WEIGHT] = weight - change
    table[row + LAG] -= before * change
    return (change - 2.0 * weight) * change


@helper
def squared_step(X: SparseArrays, start: int, stop: int, coefficients: Floats, table: Floats, kept: Floats) -> float:
    """Return the squared length of a step, the sum of coefficients times rows.

    It is summed up in the place of the weights, which are put back: each non-zero keeps what was there before it came,
    so that in the reverse order the first to come is the last to put back.
    """
    values, indices, starts = X
    first, n, length = starts[start], starts[stop] - starts[start], 0.0
    for k in range(n):
        row = row_at(indices, first + k)
        kept[k] = table[row + WEIGHT]
        table[row + WEIGHT] = 0.0
    for i in range(start, stop):
        for k in range(starts[i], starts[i + 1]):
            table[row_at(indices, k) + WEIGHT] += coefficients[i - start] * values[k]
    for k in range(n):
        row = row_at(indices, first + k)
        length += table[row + WEIGHT] * table[row + WEIGHT]
        table[row + WEIGHT] = 0.0
    for k in range(n):
        table[row_at(indices, first + n - 1 - k) + WEIGHT] = kept[n - 1 - k]
    return length


@helper
def project_moved(
    X: SparseArrays, start: int, stop: int, coefficients: Floats, table: Floats, signs: Floats, before: float
) -> None:
    """Make weights that were moved, and do not have their signs, 0; see `rounds.project`.

    A lag is kept from the wrong side of 0, where rounding may have left it: the mean of weights of one sign has it too.
    `before` is the sum of the earlier query weights.
    """
    _, indices, starts = X
    for i in range(start, stop):
        if coefficients[i - start] != 0.0:
            for k in range(starts[i], starts[i + 1]):
                row = row_at(indices, k)
                sign, weight = signs[row // WIDTH], table[row + WEIGHT]
                if sign == ZERO:
                    table[row + WEIGHT], table[row + LAG] = 0.0, 0.0
                elif (sign == POSITIVE and weight < 0.0) or (sign == NEGATIVE and weight > 0.0):
                    lag = table[row + LAG] - before * weight
                    table[row + WEIGHT], table[row + LAG] = 0.0, lag if sign * lag < 0.0 else 0.0


# AdaGrad divides a step before it is taken, feature by feature, so the step is made apart.


@helper
def gather_step(X: SparseArrays, start: int, stop: int, coefficients: Floats, step: Floats, touched: Ints) -> int:
    """Add coefficient times value of each non-zero to a step of zeros; write the features that it moves.

    Returns how many were written. One is written twice if its sum has come back to 0.
    """
    values, indices, starts = X
    n = start - start
    for i in range(start, stop):
        coefficient = coefficients[i - start]
        if coefficient != 0.0:
            for k in range(starts[i], starts[i + 1]):
                j = row_at(indices, k) // WIDTH
                touched[n] = j
                n += 1 if step[j] == 0.0 else 0
                step[j] += coefficient * values[k]
    return n


@helper
def take_adapted(
    weight: float,
    step: Floats,
    touched: Ints,
    sums: Floats,
    n: int,
    table: Floats,
    squares: Floats,
    learning_rate: float,
    before: float,
) -> tuple[float, float, float]:
    """Take a step times the weight of a query, adapted as `rounds.adapt` does it, and make it zeros again.

    Returns the squared length of the step, its product with the adapted one, and the largest growth of a weight's
    square.
    """
    length, product, largest = 0.0, 0.0, 0.0
    for p in range(n):
        sums[p] = weight * step[touched[p]]
        step[touched[p]] = 0.0  # so is the sum of a feature that comes again
        length += sums[p] * sums[p]
    if len(squares) == 1:
        squares[0] += length
    for p in range(n):
        own = touched[p] if len(squares) > 1 else 0
        squares[own] += sums[p] * sums[p] if len(squares) > 1 else 0.0
        adapted = sums[p] / (math.sqrt(squares[own]) + SMALLEST_ROOT)
        product += sums[p] * adapted
        grown = abs(move_weight(table, touched[p] * WIDTH, learning_rate * adapted, before))
        largest = largest if largest > grown else grown
    return length, product, largest
