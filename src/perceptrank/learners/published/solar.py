"""SOLAR: passive-aggressive steps on pairs, and second-order ones."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.scoring import squared_norm
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import Pass, are_valid, close_round, lead_of, open_query
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import check_choice, check_positive

COVARIANCES = ("diagonal", "full")
SolarOneSettings = tuple[bool, float]  # averaging, limit
SolarTwoSettings = tuple[bool, float]  # averaging, regularization


@compiled
def solar_one_pass(settings: SolarOneSettings, block: Block, state: Iterates, record: Record, scratch: Scratch) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, limit = settings
    X, relevance, offsets, _ = block
    weights = state[0]
    scores, mean, x = scratch[0][0], scratch[2][0], scratch[2][1]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(averaging, block, q, state, mean, scores, record) or not are_valid(relevance, start, stop):
            return q
        weight = record[1][q]
        if weight == 0.0:
            continue
        n_moved = 0
        for i in range(start, stop):
            for j in range(start, stop):
                if relevance[i] <= relevance[j]:
                    continue
                loss = 1.0 - lead_of(X, i, j, weights, x)
                if math.isnan(loss):
                    return q
                if not loss > 0.0:
                    continue
                length = squared_norm(x)
                if length > 0.0:
                    n_moved += 1
                    rate = min(weight * limit, loss / length)
                    for k in range(len(x)):
                        weights[k] += rate * x[k]
        if not close_round(q, float(n_moved), state, record):
            return q
    return len(offsets) - 1


class SolarI(CompiledLearner):
    """Passive-aggressive updates, pair by pair: the smallest step to a margin of 1, up to a limit.

    With x = x_i - x_j for grades R_i > R_j and loss = max(0, 1 - w . x), w += min(limit, loss / |x|²) x. Learns from
    all pairs of a list, in the order of its documents. The weight of a query multiplies its limit.

    Parameters
    ----------
    limit : float > 0
        The aggressiveness parameter C, the largest multiple of x in a step.

    References
    ----------
    J. Wang, J. Wan, Y. Zhang and S. C. H. Hoi, "SOLAR: Scalable Online Learning Algorithms for Ranking".

    Examples
    --------
    >>> ranker = SolarI(limit=1.0)
    >>> ranker.learn_one([[2.0, 0.0], [0.0, 0.0]], [1, 0])  # loss 1, squared length 4
    True
    >>> ranker.weights
    array([0.5, 0. ])
    """

    algorithm = "solar-1"
    accepts_query_weights = True
    cost = "m² d"
    takes = "pairs"
    depends_on_rate = False
    kernel = Pass(solar_one_pass, (1, 0, 3))

    limit: float = 0.001

    def _make_settings(self) -> SolarOneSettings:
        return bool(self.average), check_positive("limit", self.limit)


@compiled
def solar_two_pass(
    settings: SolarTwoSettings, block: Block, state: Iterates, extra: tuple[FloatRows], record: Record, scratch: Scratch
) -> int:
    """Rank, then learn, query after query; return how many queries were learned."""
    averaging, regularization = settings
    X, relevance, offsets, _ = block
    weights = state[0]
    (covariance,) = extra
    scores, mean, x, spread = scratch[0][0], scratch[2][0], scratch[2][1], scratch[2][2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if not open_query(averaging, block, q, state, mean, scores, record) or not are_valid(relevance, start, stop):
            return q
        weight = record[1][q]
        if weight == 0.0:
            continue
        n_moved = 0
        for i in range(start, stop):
            for j in range(start, stop):
                if relevance[i] <= relevance[j]:
                    continue
                loss = 1.0 - lead_of(X, i, j, weights, x)
                if math.isnan(loss):
                    return q
                if loss > 0.0 and learn_pair(regularization / weight, loss, x, spread, weights, covariance):
                    n_moved += 1
        if not close_round(q, float(n_moved), state, record):
            return q
    return len(offsets) - 1


@helper
def learn_pair(
    regularization: float, loss: float, x: Floats, spread: Floats, weights: Floats, covariance: FloatRows
) -> bool:
    """Step along the covariance, or its diagonal if it has one row, times x; return False if that is 0."""
    d, diagonal = len(x), len(covariance) < len(x) or len(x) == 1
    for k in range(d):
        product = covariance[0, k] * x[k] if diagonal else 0.0
        if not diagonal:
            for m in range(d):
                product += covariance[k, m] * x[m]
        spread[k] = product
    along = 0.0
    for k in range(d):
        along += x[k] * spread[k]
    if not along > 0.0:
        return False
    share = 1.0 / (along + regularization)
    for k in range(d):
        weights[k] += loss * share * spread[k]
    if diagonal:
        for k in range(d):
            covariance[0, k] -= share * spread[k] * spread[k]
    else:
        for k in range(d):
            for m in range(d):
                covariance[k, m] -= share * spread[k] * spread[m]
    return True


class SolarII(CompiledLearner):
    """Second-order updates, pair by pair: longer steps along directions of large remaining variance.

    With x = x_i - x_j for grades R_i > R_j, loss = max(0, 1 - w . x) > 0 and b = 1 / (xᵀ S x + regularization):
    w += loss b S x and S -= b S x xᵀ S, S being the identity initially. Learns from all pairs of a list, in the
    order of its documents. The weight of a query divides its regularization.

    Parameters
    ----------
    regularization : float > 0
        The parameter γ; larger values make steps smaller.
    covariance : either "diagonal" or "full"
        "full" takes time for every pair, and memory, quadratic in the number of features.

    References
    ----------
    J. Wang, J. Wan, Y. Zhang and S. C. H. Hoi, "SOLAR: Scalable Online Learning Algorithms for Ranking".

    Examples
    --------
    >>> ranker = SolarII(regularization=1.0)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 0.0]], [1, 0])  # loss 1, b = 1/2
    True
    >>> ranker.weights, ranker.covariance_
    (array([0.5, 0. ]), array([0.5, 1. ]))
    """

    algorithm = "solar-2"
    accepts_query_weights = True
    fixed = ("covariance",)
    cost = "m² d, full: m² d²"
    takes = "pairs"
    depends_on_rate = False
    kernel = Pass(solar_two_pass, (1, 0, 4))

    regularization: float = 100.0
    _: KW_ONLY
    covariance: str = "diagonal"

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        if self.covariance == "diagonal":
            return {"covariance": np.ones((1, n_features))}
        check_room(f"the covariance of {n_features} features", n_features**2)
        return {"covariance": np.eye(n_features)}

    @property
    def covariance_(self) -> Floats:
        """The matrix S, or its diagonal."""
        matrix = self._model.require_learned().more["covariance"]
        return matrix[0].copy() if self.covariance == "diagonal" else matrix.copy()

    def _make_settings(self) -> SolarTwoSettings:
        check_choice("covariance", self.covariance, COVARIANCES)
        return bool(self.average), check_positive("regularization", self.regularization)
