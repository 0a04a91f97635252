"""Compiled steps of transforms that replace features by their ranks within a query.

The bits of a number that is not negative are ordered as the number is. So the keys to sort by are the bits of each
feature's distance from the smallest in its query, the last of them replaced by the number of the document. What equal
keys cannot tell apart is compared itself.
"""

from typing import TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, Keys
from perceptrank.kernels.columns import LANES, LARGEST_KEY, carry_places, copy_lanes, make_keys, sort_lanes
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.stream.validation import describe_bad_feature, read_only
from perceptrank.transforms.normal_scores import normal_quantile

MOST_SORTED = 1024  # beyond, document numbers would leave too few bits to sort by

# Rows with a place per column: the smallest value, what tells if all are finite, and one value. For LANES columns at a
# time: keys, scores, where runs of equal keys begin and end, two kinds of marks. Scores by twice the rank. Rows of
# floats and of integers with a place per document.
RankScratch: TypeAlias = tuple[Features, Keys, Features, Keys, Keys, Keys, Floats, FloatRows, IntRows]


def make_scratch(X: Features, longest: int) -> RankScratch:
    """Return the arrays that ranking queries of up to `longest` documents works in."""
    rows = 1 << (min(longest, MOST_SORTED) - 1).bit_length()
    return (
        np.empty((3, max(X.shape[1], LANES)), X.dtype),
        np.zeros((rows, LANES), np.int32),
        np.empty((rows, LANES), X.dtype),
        np.empty((rows, LANES), np.int32),
        np.empty((rows, LANES), np.int32),
        np.empty((2, LANES), np.int32),
        np.empty(2 * longest + 1),
        np.empty((2, longest)),
        np.zeros((2, longest), np.int64),
    )


def write_scores(X: Features, offsets: Ints, outputs: Features, first: int, *, normal: bool) -> None:
    """Write ranks within queries or their normal scores, from a column on; raise if a value is not finite."""
    longest = int(np.diff(offsets).max(initial=1))
    query = rank_pass(read_only(X), read_only(offsets), normal, outputs, first, make_scratch(X, longest))
    if query >= 0:
        start, stop = int(offsets[query]), int(offsets[query + 1])
        raise ValueError(describe_bad_feature(X[start:stop], start, None))


@compiled
def rank_pass(X: Features, offsets: Ints, normal: bool, scores: Features, first: int, scratch: RankScratch) -> int:
    """Replace features by scores of their ranks within queries; return the first query with one not finite, or -1.

    The score of a value, or of several equal ones, is the entry of the table at the sum of the first and the last of
    its places, which count from 0 for the smallest value.
    """
    extremes, keys, placed, begins, ends, marks, table, _, ints = scratch
    low, zeros, tied, lossy, order = extremes[0], extremes[1], marks[0], marks[1], ints[0]
    n_features, n_lanes, last_m = X.shape[1], min(LANES, X.shape[1]), 0
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        if m != last_m:
            last_m = m
            for place in range(2 * m - 1):
                table[place] = 0.0
                if place != m - 1:
                    table[place] = normal_quantile((place + 1) / (2 * m)) if normal else (place - (m - 1)) / (m - 1)
        for j in range(n_features):
            low[j], zeros[j] = X[start, j], 0.0
        zero = X[start, 0] - X[start, 0]  # of the features' type, and not a number if that is not finite
        for i in range(start, start + m):
            for j in range(n_features):
                low[j] = X[i, j] if X[i, j] < low[j] else low[j]
                zeros[j] += X[i, j] * zero
        for j in range(n_features):
            if zeros[j] != 0.0:  # so is what is not a number
                return q
        if m > MOST_SORTED:
            for j in range(n_features):
                for i in range(m):
                    order[i] = i
                rank_column(X, start, m, j, scratch, scores, start, first + j)
            continue

        numbers = 1
        while numbers < m:
            numbers *= 2
        numbers -= 1
        values = LARGEST_KEY - numbers
        for i in range(m, min(numbers + 1, keys.shape[0])):
            for lane in range(LANES):
                keys[i, lane] = LARGEST_KEY
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
                        for r in range(m):
                            order[r] = keys[r, lane] & numbers
                        rank_column(X, start, m, column + lane, scratch, placed, start - start, lane)
            if n_lanes == LANES:
                for i in range(m):
                    copy_lanes(placed, i * LANES, scores, (start + i) * scores.shape[1] + first + column)
            else:
                for i in range(m):
                    for lane in range(n_lanes):
                        scores[start + i, first + lane] = placed[i, lane]
    return -1


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
def rank_column(
    X: Features, start: int, m: int, j: int, scratch: RankScratch, scores: Features, row: int, column: int
) -> None:
    """Write the scores of column j, its values sorted by merging runs; the scratch has an order to begin with."""
    table, floats, ints = scratch[6], scratch[7], scratch[8]
    values, left, order, left_order = floats[0], floats[1], ints[0], ints[1]
    for r in range(m):
        values[r] = X[start + order[r], j]
    width = 1
    while width < m:
        for begin in range(0, m - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, m)
            if values[middle] < values[middle - 1]:
                for r in range(begin, middle):
                    left[r], left_order[r] = values[r], order[r]
                i, k = begin, middle
                for r in range(begin, end):
                    if i == middle:
                        break
                    take_right = k < end and values[k] < left[i]
                    values[r], order[r] = (values[k], order[k]) if take_right else (left[i], left_order[i])
                    k += 1 if take_right else 0
                    i += 0 if take_right else 1
        width *= 2
    begin = 0
    while begin < m:
        end = begin
        while end + 1 < m and values[end + 1] == values[begin]:
            end += 1
        for r in range(begin, end + 1):
            scores[row + order[r], column] = table[begin + end]
        begin = end + 1
