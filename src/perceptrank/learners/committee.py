"""The committee perceptron."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats, IntRows
from perceptrank.kernels.chance import noise
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.kernels.scoring import score_rows
from perceptrank.kernels.scratch import Scratch
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.model import Model
from perceptrank.learners.rounds import Pass, adapt, are_valid, close_round, lead_of
from perceptrank.learners.tally import ROUNDS, Block, Iterates, Record
from perceptrank.stream.memory import check_room
from perceptrank.stream.validation import check_positive, check_positive_whole, check_seed

CommitteeSettings = tuple[float, int]  # learning_rate, seed


@compiled
def committee_pass(
    settings: CommitteeSettings,
    block: Block,
    state: Iterates,
    extra: tuple[FloatRows, Floats, Floats, IntRows],
    record: Record,
    scratch: Scratch,
) -> int:
    """Learn the pairs of each query in random order; a misordered one moves the current hypothesis.

    `members` are the hypotheses with the most correct pairs in a row, `successes` these numbers, `current` the number
    for the current hypothesis. Rankings are by the mean of all, weighted by successes.
    """
    learning_rate, seed = settings
    X, relevance, offsets, _ = block
    weights, _, tally, squares = state
    members, successes, current, pairs = extra
    predicted, _ = record
    mean, step = scratch[2][0], scratch[2][1]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        combine(weights, members, successes, current[0], mean)
        if not score_rows(X, start, stop, mean, predicted[start:]) or not are_valid(relevance, start, stop):
            return q
        weight = record[1][q]
        if weight == 0.0:
            continue
        n = list_pairs(relevance, start, stop, pairs)
        n_moved = 0
        for p in range(n):
            chosen = p + int(noise(seed, int(tally[ROUNDS]), p) * (n - p))
            i, j = pairs[chosen, 0], pairs[chosen, 1]
            pairs[chosen, 0], pairs[chosen, 1] = pairs[p, 0], pairs[p, 1]
            lead = lead_of(X, i, j, weights, step)
            if lead > 0.0:
                current[0] += weight
                continue
            if math.isnan(lead):
                return q
            offer(weights, current[0], members, successes)
            current[0] = 0.0
            n_moved += 1
            for k in range(len(weights)):
                step[k] *= weight
            adapt(step, squares)
            for k in range(len(weights)):
                weights[k] += learning_rate * step[k]
        if not close_round(q, float(n_moved), state, record):
            return q
    return len(offsets) - 1


@helper
def list_pairs(relevance: Floats, start: int, stop: int, pairs: IntRows) -> int:
    """Write the rows of all pairs R_i > R_j, in the order of i, then of j; return how many there are."""
    n = start - start
    for i in range(start, stop):
        for j in range(start, stop):
            if relevance[i] > relevance[j]:
                pairs[n, 0], pairs[n, 1] = i, j
                n += 1
    return n


@helper
def offer(weights: Floats, right: float, members: FloatRows, successes: Floats) -> None:
    """Replace the first member with the fewest successes by a hypothesis, if that has more."""
    least = 0
    for member in range(1, len(successes)):
        if successes[member] < successes[least]:
            least = member
    if right > successes[least]:
        successes[least] = right
        for k in range(len(weights)):
            members[least, k] = weights[k]


@compiled
def combine(weights: Floats, members: FloatRows, successes: Floats, right: float, mean: Floats) -> None:
    """Write the mean of members and current hypothesis, weighted by successes; the current one if there are none."""
    whole = right
    for member in range(len(successes)):
        whole += successes[member]
    for k in range(len(weights)):
        mean[k] = right * weights[k] if whole > 0.0 else weights[k]
    if whole > 0.0:
        for member in range(len(successes)):
            for k in range(len(weights)):
                mean[k] += successes[member] * members[member, k]
        for k in range(len(weights)):
            mean[k] /= whole


class CommitteeModel(Model):
    """The model of a committee; its weights are those of the current hypothesis."""

    @property
    def coefficients(self) -> Floats:
        """The mean of the committee and the current hypothesis, weighted by successes."""
        mean, more = np.empty(self.n_features), self.more
        combine(self.core[0], more["members"], more["successes"], float(more["current"][0]), mean)
        return mean


class CommitteePerceptron(CompiledLearner):
    """A pairwise perceptron that ranks with the weighted mean of its most successful hypotheses.

    The pairs of a query are learned in random order. A pair of grades R_i > R_j with w . (x_i - x_j) ≤ 0 moves the
    current hypothesis, w += learning_rate (x_i - x_j); before that, it is offered to a committee of those with the most
    successes in a row. Rankings are by the mean of the committee and the current hypothesis, weighted by successes. A
    query takes memory for all its pairs. The weight of a query multiplies its steps, and the successes of its pairs.

    References
    ----------
    J. L. Elsas, V. R. Carvalho and J. G. Carbonell, "Fast Learning of Document Ranking Functions with the Committee
    Perceptron".

    Examples
    --------
    >>> ranker = CommitteePerceptron()
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> ranker.coef_
    array([ 1., -1.])
    """

    algorithm = "committee"
    model_class = CommitteeModel
    accepts_query_weights = True
    fixed = ("n_members",)
    cost = "m² d"
    longest_query = 4000
    takes = "pairs"
    depends_on_rate = False
    average: ClassVar[bool] = False  # type: ignore[misc]
    kernel = Pass(committee_pass, (0, 0, 2), lambda longest: (np.empty((longest * longest // 2 + 1, 2), np.int64),))

    n_members: int = 20
    _: KW_ONLY
    learning_rate: float = 1.0
    seed: int = 0

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        check_room(f"a committee of {self.n_members}", self.n_members * (n_features + 1))
        members = np.zeros((self.n_members, n_features))
        return {"members": members, "successes": np.zeros(self.n_members), "current": np.zeros(1)}

    def _make_settings(self) -> CommitteeSettings:
        check_positive_whole("n_members", self.n_members)
        check_seed(self.seed)
        return check_positive("learning_rate", self.learning_rate), int(self.seed)
