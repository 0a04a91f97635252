"""Compiled steps of transforms that replace features by their ranks within a query.

The bits of a number that is not negative are ordered as the number is. So the keys to sort by are the bits of each
feature's distance from the smallest in its query, the last of them replaced by the number of the document. What equal
keys cannot tell apart is compared itself.
"""

from typing import TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, Keys
from perceptrank.kernels.columns import LANES, LARGEST_KEY, carry_places, copy_lanes, make_keys, sort_lanes
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.ordering import sort_descending
from perceptrank.stream.validation import describe_bad_feature

MOST_SORTED = 1024  # beyond, document numbers would leave too few bits to sort by
MOVES_PER_DOCUMENT = 8

# Rows with a place per column: the smallest value, what tells if all are finite, and one value. For LANES columns at a
# time: keys, scores, where runs of equal keys begin and end, two kinds of marks. Scores by twice the rank. Rows of
# floats and of integers with a place per document and two over.
RankScratch: TypeAlias = tuple[Features, Keys, Features, Keys, Keys, Keys, Floats, FloatRows, IntRows]


def make_rank_scratch(X: Features, offsets: Ints) -> RankScratch:
    """Return the arrays that ranking these queries works in."""
    longest = int(np.diff(offsets).max(initial=1))
    rows = 1 << (min(longest, MOST_SORTED) - 1).bit_length()
    return (
        np.empty((3, max(X.shape[1], LANES)), X.dtype),
        np.zeros((rows, LANES), np.int32),
        np.empty((rows, LANES), X.dtype),
        np.empty((rows, LANES), np.int32),
        np.empty((rows, LANES), np.int32),
        np.empty((2, LANES), np.int32),
        np.empty(2 * longest + 1),
        np.empty((2, longest + 2)),
        np.zeros((3, longest + 2), np.int64),
    )


def check_ranked(X: Features, offsets: Ints, query: int) -> None:
    """Raise if a pass returned a query with a feature that is not finite, rather than -1."""
    if query >= 0:
        raise ValueError(describe_bad_feature(X[offsets[query] : offsets[query + 1]], int(offsets[query]), None))


@helper
def rank_query(X: Features, start: int, stop: int, scratch: RankScratch, scores: Features, first: int) -> bool:
    """Write each feature's score within its query, from column `first` of `scores` on; return whether all are finite.

    The score of a value, or of several equal ones, is the entry of the scratch's table at the sum of the first and the
    last of its places, which count from 0 for the smallest value.
    """
    extremes, keys, placed, begins, ends, marks, table, _, _ = scratch
    tied, lossy = marks[0], marks[1]
    m, n_features = stop - start, X.shape[1]
    low, zeros = extremes[0], extremes[1]
    for j in range(n_features):
        low[j], zeros[j] = X[start, j], 0.0
    zero = X[start, 0] - X[start, 0]  # of the features' type, and not a number if that is not finite
    for i in range(start, stop):
        for j in range(n_features):
            low[j] = X[i, j] if X[i, j] < low[j] else low[j]
            zeros[j] += X[i, j] * zero
    for j in range(n_features):
        if zeros[j] != 0.0:  # so is what is not a number
            return False
    if m > MOST_SORTED:
        for j in range(n_features):
            rank_column(X, start, m, j, scratch, scores, first + j)
        return True

    numbers = 1
    while numbers < m:
        numbers *= 2
    numbers -= 1
    values = LARGEST_KEY - numbers
    for i in range(m, min(numbers + 1, keys.shape[0])):
        for lane in range(LANES):
            keys[i, lane] = LARGEST_KEY
    n_lanes = min(LANES, n_features)
    for group in range(0, n_features, LANES):
        column = min(group, n_features - n_lanes)  # the last columns are ranked together with some before them
        for lane in range(LANES):
            tied[lane], lossy[lane], begins[0, lane], ends[m - 1, lane] = 0, 0, 0, m - 1
        build_keys(X, start, m, column, scratch, values)
        sort_lanes(keys, m)
        for r in range(1, m):
            carry_places(keys, (r - 1) * LANES, r * LANES, values, begins, r, tied)
        n_tied = 0
        for lane in range(n_lanes):
            n_tied += tied[lane]
        if n_tied == 0:
            for r in range(m):
                score = table[2 * r]
                for lane in range(LANES):
                    placed[keys[r, lane] & numbers, lane] = score
        else:
            for r in range(m - 2, -1, -1):
                carry_places(keys, (r + 1) * LANES, r * LANES, values, ends, r, tied)
            for r in range(m):
                for lane in range(LANES):
                    placed[keys[r, lane] & numbers, lane] = table[begins[r, lane] + ends[r, lane]]
            for lane in range(n_lanes):
                if tied[lane] and lossy[lane]:
                    rank_lossy(X, start, m, column + lane, lane, numbers, scratch)
        if n_lanes == LANES:
            for i in range(m):
                copy_lanes(placed, i * LANES, scores, (start + i) * scores.shape[1] + first + column)
        else:
            for i in range(m):
                for lane in range(n_lanes):
                    scores[start + i, first + lane] = placed[i, lane]
    return True


@helper
def build_keys(X: Features, start: int, m: int, column: int, scratch: RankScratch, values: int) -> None:
    """Write the keys of LANES columns; those that there are not are all 0 beside the numbers."""
    extremes, keys, n_features = scratch[0], scratch[1], X.shape[1]
    low, row, lossy = extremes[0], extremes[2], scratch[5][1]
    if n_features >= LANES:
        for i in range(m):
            make_keys(X, (start + i) * n_features + column, low, column, values, i, keys, i * LANES, lossy)
        return
    for lane in range(n_features, LANES):
        low[lane], row[lane] = 0.0, 0.0
    for i in range(m):
        for lane in range(n_features):
            row[lane] = X[start + i, lane]
        make_keys(row, 0, low, 0, values, i, keys, i * LANES, lossy)


@helper
def rank_lossy(X: Features, start: int, m: int, j: int, lane: int, numbers: int, scratch: RankScratch) -> None:
    """Write the scores of a column whose sorted keys do not tell all values apart: it is sorted, or nearly so."""
    keys, placed, table, floats, ints = scratch[1], scratch[2], scratch[6], scratch[7], scratch[8]
    order, values = ints[0], floats[0]
    moves = 0
    for r in range(m):
        i = keys[r, lane] & numbers
        value, place = np.float64(X[start + i, j]), r
        while place > 0 and value < values[place - 1]:
            order[place], values[place] = order[place - 1], values[place - 1]
            place -= 1
        order[place], values[place] = i, value
        moves += r - place
        if moves > MOVES_PER_DOCUMENT * m:
            sort_values(X, start, m, j, floats, ints)
            break
    place_runs(m, floats, ints, table, placed, 0, lane)


@helper
def rank_column(X: Features, start: int, m: int, j: int, scratch: RankScratch, scores: Features, column: int) -> None:
    """Write the scores of a column of any length."""
    table, floats, ints = scratch[6], scratch[7], scratch[8]
    sort_values(X, start, m, j, floats, ints)
    place_runs(m, floats, ints, table, scores, start, column)


@helper
def place_runs(
    m: int, floats: FloatRows, ints: IntRows, table: Floats, scores: Features, start: int, column: int
) -> None:
    """Write the scores of sorted values, the same for equal ones."""
    order, values = ints[0], floats[0]
    begin = 0
    while begin < m:
        end = begin
        while end + 1 < m and values[end + 1] == values[begin]:
            end += 1
        for r in range(begin, end + 1):
            scores[start + order[r], column] = table[begin + end]
        begin = end + 1


@helper
def sort_values(X: Features, start: int, m: int, j: int, floats: FloatRows, ints: IntRows) -> None:
    """Sort a column: documents to the first row of `ints`, smallest value first, and values to that of `floats`."""
    values, ties, order = floats[0], floats[1], ints[0]
    for i in range(m):
        values[i], ties[i] = -np.float64(X[start + i, j]), 0.0
    sort_descending(values, ties, m, order, ints[1], ints[2])
    for r in range(m):
        values[r] = X[start + order[r], j]
