"""Counters and sums of a state, and the types of a pass's arguments."""

from typing import Any, TypeAlias

from perceptrank.kernels.arrays import Features, Floats, Ints, SparseArrays

# Entries of the tally. A reach is a squared length of a step per weight moved, times the weight of the query. The
# losses are those of rankings by the mean of all iterates, by the current ones, and by the one of them that ranked: see
# `safe_averaging`. Sums are over rounds, each times the weight of its query. The last three are the sum of these
# weights in all rounds and in those with an update, and the largest; a query of weight 0 is no round. Mixings are how
# often the weights became the mean of those that several shards had learned: `distributed`. Three are of
# learners that forget (`wrappers/fading.py`): the rate, 0 of all others; and for sparse features, the factor of the
# table, and the sum of weights of rounds that its lags are made with. The sum of weights of rounds then fades as well.
# The last is how often settings that the theorems depend on were changed after learning had begun.
ROUNDS, UPDATES, MASS, SQUARED_REACH, SQUARED_STEPS, LARGEST_REACH = range(6)
MEAN_LOSS, CURRENT_LOSS, USED_LOSS, ROUND_WEIGHT, UPDATE_WEIGHT, LARGEST_WEIGHT = range(6, 12)
MIXINGS, FADING, FADED, SINCE, CHANGES, TALLY_LENGTH = range(12, 18)

# Signs that weights keep.
FREE, POSITIVE, NEGATIVE, ZERO = 0.0, 1.0, -1.0, 2.0

# Beyond this, sums of iterates and squared norms could overflow.
LARGEST_SQUARED_NORM = 1e300

# Added to AdaGrad's divisor, so that a step that is 0 up to rounding stays small.
SMALLEST_ROOT = 1e-10

# Arguments of a pass, as plain tuples: Numba unboxes those faster than any other compound type.
Block: TypeAlias = tuple[Features, Floats, Ints, Floats]  # X, relevance, offsets, discounts 1 / log2(2 + place)
# Weights, their total, tally, AdaGrad's squares; and the signs that weights keep, where there are any. Whether there
# are is known when a pass is compiled, so that it costs passes over free weights nothing.
Iterates: TypeAlias = tuple[Floats, ...]
# Scores that queries were ranked by before they were learned, and masses moved. If there is room for more scores than
# there are documents, those by the current weights follow. Until a query is closed, its mass is the query's weight.
Record: TypeAlias = tuple[Floats, Floats]
SparseBlock: TypeAlias = tuple[SparseArrays, Floats, Ints, Floats]  # the same with sparse X

# Room for the features that a step moves, and for a number for each of them or for each document of a query.
Room: TypeAlias = tuple[Ints, Floats]
# Table, room, tally, AdaGrad's squares, and the signs in the same way.
SparseIterates: TypeAlias = tuple[Floats, Room, Floats, Floats] | tuple[Floats, Room, Floats, Floats, Floats]
N_FREE = 4  # of these, if weights are free

# Of a list-wise learner: averaging, learning rate, margin, relative margin, whether grades are read as 0 and 1; and the
# settings of its rule.
ListSettings: TypeAlias = tuple[tuple[bool, float, float, float, bool], tuple[Any, ...]]
