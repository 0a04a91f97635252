"""SOLAR-I: passive-aggressive steps on pairs."""

from __future__ import annotations

import math

from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.scoring import squared_norm
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.rounds import Pass, are_valid, close_round, lead_of, open_query
from perceptrank.learners.tally import Block, Iterates, Record
from perceptrank.stream.validation import check_positive

SolarOneSettings = tuple[bool, float]  # averaging, limit


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
