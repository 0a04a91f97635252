"""Learning from the first one or two places of lists that are random now and then."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from perceptrank.clicks.policies import DRAWN, UNIFORM, Policy, Uniform
from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.scoring import squared_norm
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.lists import Counts, List, click_pass
from perceptrank.learners.model import Model
from perceptrank.learners.tally import ROUNDS, Iterates
from perceptrank.stream.validation import ParameterError, check_positive
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike


@helper
def top_rule(settings: Any, shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Write an estimate of the gradient, from the click on the first document or those on the first two."""
    learning_rate, k, _ = settings
    scores, documents, (places, clicks, _, chances), kind, _, _ = shown
    if kind not in (UNIFORM, DRAWN) or len(documents) < k or places[k - 1] != k:
        return 0.0
    m, rate = len(scores), learning_rate * (counts[3][ROUNDS] + 1.0) ** (-2.0 / 3.0)
    mass = 0.0
    if k == 1:
        for i in range(m):
            estimate = clicks[0] / chances[0] if i == documents[0] else 0.0
            coefficients[i] = rate * 2.0 * (scores[i] - estimate) / m
            mass += abs(coefficients[i])
        return mass
    i, j = (documents[0], documents[1]) if clicks[0] > clicks[1] else (documents[1], documents[0])
    if scores[i] - scores[j] < 1.0:
        mass = rate * abs(clicks[0] - clicks[1]) / (m * (m - 1.0) * chances[0] * chances[1])
        coefficients[i], coefficients[j] = -mass, mass
    return mass


@helper
def project_to_ball(settings: tuple[float, int, float], state: Iterates, counts: Counts, weight: float) -> None:
    """Shorten the weights to the radius, if they are longer, and what the query added to their total."""
    weights, total, radius = state[0], state[1], settings[2]
    norm = math.sqrt(squared_norm(weights))
    for j in range(len(weights) if norm > radius else 0):
        before = weights[j]
        weights[j] *= radius / norm
        total[j] += weight * (weights[j] - before)


class TopFeedback(ClickLearner):
    """Descend a loss of all documents, estimated from clicks at the top of lists that are random now and then: RTop-kF.

    In round t, the list is uniformly random with probability t^(-1/3), else the ranking. Clicks on its first k
    documents count as their relevance R, and p is the probability that these came first, in their order. Then w -=
    learning_rate t^(-2/3) g, projected to |w| ≤ radius. k=1: g = (2 / m) (Σ s_i x_i - R x / p), x the first document:
    on average the gradient of the mean of (s_i - R_i)². k=2: g = (R_i - R_j) (x_j - x_i) / (m (m - 1) p) if R_i > R_j
    and s_i - s_j < 1: on average that of the mean hinge of all pairs, as in ranking SVMs. If users examine the first k
    documents and click relevant ones, the expected regret in this loss is O(T^(2/3)).

    Parameters
    ----------
    k : int
        Number of places that are learned from, 1 or 2.
    learning_rate : float > 0
        Factor of the first step.
    radius : float > 0
        Largest norm of the weights.

    References
    ----------
    S. Chaudhuri and A. Tewari, "Online Learning to Rank with Feedback at the Top", AISTATS 2016.

    Examples
    --------
    >>> ranker = TopFeedback(learning_rate=1.0, transforms=None)
    >>> shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=3)
    >>> shown.policy, shown.order, ranker.learn_clicks(shown, [0, 1]), ranker.weights  # p is 1/2
    ('uniform:1.0', array([1, 0]), True, array([ 1., -1.]))
    """

    algorithm = "rtop-k"
    cost = "m d"
    kernel = click_pass(top_rule, follow=project_to_ball)
    accepts_sparse = False
    explores = "uniform"
    policies = ("uniform", "plackett-luce")
    theorem = Theorem("expected regret O(T^(2/3))", assumption="users click what is relevant among the first k")

    k: int = 2
    _: KW_ONLY
    learning_rate: float = 0.1
    radius: float = 10.0
    transforms: TransformLike = "query-minmax"

    def own_policy(self, model: Model) -> Policy:
        return Uniform(float((model.tally[ROUNDS] if model.has_begun else 0.0) + 1.0) ** (-1 / 3))

    def _make_settings(self) -> tuple[Any, ...]:
        if isinstance(self.k, bool) or self.k not in (1, 2):
            raise ParameterError("k", "must be 1 or 2", self.k)
        rate = check_positive("learning_rate", self.learning_rate)
        return self._click_settings(rate, int(self.k), check_positive("radius", self.radius))
