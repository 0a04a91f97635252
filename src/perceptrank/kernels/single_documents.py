"""Passes of learners that take judged documents one at a time and carry more than weights.

State, outputs and early stop as in `list_pass`, except that what a query has changed before its pass stops stays
changed: the learner puts everything back. A query is ranked as a whole before the first of its documents is learned
from.
"""

import math

import numpy as np

from perceptrank.kernels.arrays import Features, FloatRows, Floats, Ints
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.list_pass import LARGEST_SQUARED_NORM, MASS, ROUNDS, UPDATES, adapt, longest_query, score_query
from perceptrank.kernels.scoring import score_rows, squared_norm


@compiled
def close_round(mass: float, weights: Floats, total: Floats, tally: Floats) -> bool:
    """Count a round that moved so much; returns whether the weights are sound."""
    tally[ROUNDS] += 1.0
    if mass > 0.0:
        tally[UPDATES] += 1.0
        tally[MASS] += mass
    for k in range(len(weights)):
        total[k] += weights[k]
    return squared_norm(weights) <= LARGEST_SQUARED_NORM


@compiled
def is_grade(grade: float) -> bool:
    """Whether a grade is sound."""
    return 0.0 <= grade < math.inf


@compiled
def prank_pass(
    averaging: bool,
    share: float,
    seed: int,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    total: Floats,
    tally: Floats,
    members: FloatRows,
    thresholds: FloatRows,
    predicted: Floats,
    masses: Floats,
) -> int:
    """PRank for every member, each of which sees a document with probability `share`; weights are the members' mean."""
    n_members, n_thresholds = thresholds.shape
    mean, score, scores = np.empty(len(weights)), np.empty(1), np.empty(longest_query(offsets))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not score_query(averaging, X, start, stop, weights, total, tally, mean, scores, predicted):
            return q
        updates_before = tally[UPDATES]
        for i in range(start, stop):
            if not is_grade(relevance[i]):
                return q
            moved = False
            for member in range(n_members):
                if share < 1.0 and noise(seed, int(tally[ROUNDS]), member) >= share:
                    continue
                if not score_rows(X, i, i + 1, members[member], score, 0):
                    return q
                step = 0.0
                for r in range(n_thresholds):
                    side = 1.0 if relevance[i] >= r + 1 else -1.0
                    if (score[0] - thresholds[member, r]) * side <= 0.0:
                        step += side
                        thresholds[member, r] -= side
                        moved = True
                for k in range(len(weights)):
                    members[member, k] += step * X[i, k]
                    weights[k] += step * X[i, k] / n_members
            if not close_round(1.0 if moved else 0.0, weights, total, tally):
                return q
        masses[q] = tally[UPDATES] - updates_before
    return len(offsets) - 1


@compiled
def opauc_pass(
    averaging: bool,
    learning_rate: float,
    decay: float,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    total: Floats,
    tally: Floats,
    squares: Floats,
    counts: Floats,
    centers: FloatRows,
    moments: Floats,
    predicted: Floats,
    masses: Floats,
) -> int:
    """OPAUC: the squared loss of all pairs with the other class so far, from its mean and covariance.

    counts, centers and moments (sums of products of deviations) have an entry per class: irrelevant, relevant.
    """
    d = len(weights)
    mean, apart, step, scores = np.empty(d), np.empty(d), np.empty(d), np.empty(longest_query(offsets))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not score_query(averaging, X, start, stop, weights, total, tally, mean, scores, predicted):
            return q
        updates_before = tally[UPDATES]
        for i in range(start, stop):
            if not is_grade(relevance[i]):
                return q
            for k in range(d):
                apart[k] = X[i, k]
            if not squared_norm(apart) <= LARGEST_SQUARED_NORM:
                return q
            own = 1 if relevance[i] > 0.0 else 0
            other, sign = 1 - own, 1.0 if own == 1 else -1.0
            if counts[other] > 0.0:
                lead = 0.0
                for k in range(d):
                    apart[k] = X[i, k] - centers[other, k]
                    lead += apart[k] * weights[k]
                for k in range(d):
                    covered = 0.0
                    for j in range(d):
                        covered += moments[other, k, j] * weights[j]
                    step[k] = decay * weights[k] - sign * apart[k] + apart[k] * lead + covered / counts[other]
                adapt(step, squares)
                for k in range(d):
                    weights[k] -= learning_rate * step[k]
            counts[own] += 1.0
            for k in range(d):
                apart[k] = X[i, k] - centers[own, k]
                centers[own, k] += apart[k] / counts[own]
            for k in range(d):
                for j in range(d):
                    moments[own, k, j] += apart[k] * (X[i, j] - centers[own, j])
            if not close_round(1.0 if counts[other] > 0.0 else 0.0, weights, total, tally):
                return q
        masses[q] = tally[UPDATES] - updates_before
    return len(offsets) - 1


@compiled
def buffered_pass(
    averaging: bool,
    learning_rate: float,
    margin: float,
    seed: int,
    X: Features,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    total: Floats,
    tally: Floats,
    squares: Floats,
    kept: FloatRows,
    grades: Floats,
    predicted: Floats,
    masses: Floats,
) -> int:
    """Pairwise hinges against a reservoir of documents, of which every one so far is there with the same chance."""
    d, size = len(weights), len(grades)
    mean, step, scores = np.empty(d), np.empty(d), np.empty(longest_query(offsets))
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not score_query(averaging, X, start, stop, weights, total, tally, mean, scores, predicted):
            return q
        updates_before = tally[UPDATES]
        for i in range(start, stop):
            if not is_grade(relevance[i]):
                return q
            n_seen = int(tally[ROUNDS])
            n_kept = min(n_seen, size)
            n_pairs = 0
            moved = False
            for k in range(d):
                step[k] = 0.0
            for p in range(n_kept):
                if grades[p] == relevance[i]:
                    continue
                n_pairs += 1
                sign = 1.0 if relevance[i] > grades[p] else -1.0
                lead = 0.0
                for k in range(d):
                    lead += weights[k] * (X[i, k] - kept[p, k])
                if sign * lead < margin:
                    moved = True
                    for k in range(d):
                        step[k] += sign * (X[i, k] - kept[p, k])
            if moved:
                for k in range(d):
                    step[k] /= n_pairs
                adapt(step, squares)
                for k in range(d):
                    weights[k] += learning_rate * step[k]
            place = n_seen if n_seen < size else int(noise(seed, n_seen, 0) * (n_seen + 1))
            if place < size:
                grades[place] = relevance[i]
                for k in range(d):
                    kept[place, k] = X[i, k]
            if not close_round(1.0 if moved else 0.0, weights, total, tally):
                return q
        masses[q] = tally[UPDATES] - updates_before
    return len(offsets) - 1
