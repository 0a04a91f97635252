"""OPAUC: one-pass optimisation of the area under the ROC curve."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scoring import squared_norm
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import Pass, adapt, are_valid, count_round, open_query
from perceptrank.learners.tally import LARGEST_SQUARED_NORM, Block, Iterates, Record
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import check_not_negative, check_positive

OpaucSettings = tuple[bool, float, float]  # averaging, learning_rate, decay


@compiled
def opauc_pass(
    settings: OpaucSettings,
    block: Block,
    state: Iterates,
    extra: tuple[Floats, FloatRows, Floats],
    record: Record,
    scratch: Scratch,
) -> int:
    """Rank each query, then learn from one document after the other; return how many queries were learned.

    counts, centers and moments (sums of products of deviations) have an entry per class: irrelevant, relevant.
    """
    averaging, learning_rate, decay = settings
    X, relevance, offsets, _ = block
    weights, squares, d = state[0], state[3], len(state[0])
    counts, centers, moments = extra
    _, masses = record
    scores, mean, apart, step = scratch[0][0], scratch[2][0], scratch[2][1], scratch[2][2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(averaging, block, q, state, mean, scores, record) or not are_valid(relevance, start, stop):
            return q
        weight = masses[q]
        if weight == 0.0:
            continue
        masses[q] = 0.0
        for i in range(start, stop):
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
                    step[k] *= weight
                adapt(step, squares)
                for k in range(d):
                    weights[k] -= learning_rate * step[k]
            counts[own] += weight
            for k in range(d):
                apart[k] = X[i, k] - centers[own, k]
                centers[own, k] += weight * apart[k] / counts[own]
            for k in range(d):
                for j in range(d):
                    moments[own, k, j] += weight * apart[k] * (X[i, j] - centers[own, j])
            moved = 1.0 if counts[other] > 0.0 else 0.0
            masses[q] += weight * moved
            if not count_round(moved, state, weight):
                return q
    return len(offsets) - 1


class Opauc(CompiledLearner):
    """Gradient descent on the squared loss of all pairs of relevant and irrelevant documents so far, in one pass.

    The pairs of a document x with all of the other class enter through that class's mean c and covariance S: for a
    relevant x, w -= learning_rate (decay w - (x - c) + (x - c)(x - c)ᵀ w + S w); for an irrelevant one, the
    second term has the opposite sign. Learns from documents one by one, across queries; a document is relevant if its
    grade is positive. Means, covariances and steps count a document by its query's weight. Time and memory are
    quadratic in the number of features.

    Parameters
    ----------
    decay : float ≥ 0
        Weight decay: the factor of w in the step.

    References
    ----------
    W. Gao, R. Jin, S. Zhu and Z.-H. Zhou, "One-Pass AUC Optimization".

    Examples
    --------
    >>> ranker = Opauc(learning_rate=0.5)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])  # the second meets the mean of the first: +(x - c)
    True
    >>> ranker.weights
    array([ 0.5, -0.5])
    """

    algorithm = "opauc"
    accepts_query_weights = True
    cost = "m d²"
    takes = "documents"
    kernel = Pass(opauc_pass, (1, 0, 3))

    learning_rate: float = 0.01
    _: KW_ONLY
    decay: float = 0.0

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"the covariance of {n_features} features, twice,", 2 * n_features**2)
        return {
            "counts": np.zeros(2),
            "centers": np.zeros((2, n_features)),
            "moments": np.zeros((2, n_features, n_features)),
        }

    def _make_settings(self) -> OpaucSettings:
        rate, decay = check_positive("learning_rate", self.learning_rate), check_not_negative("decay", self.decay)
        return bool(self.average), rate, decay
