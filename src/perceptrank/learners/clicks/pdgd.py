"""Pairwise differentiable gradient descent."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.lists import Counts, List, click_pass, swap_share
from perceptrank.stream.validation import ParameterError, as_number, check_positive
from perceptrank.transforms.transform import TransformLike


@helper
def last_considered(clicks: Floats) -> int:
    """Return the place after the last click, or the last place; -1 if there is no click."""
    n, last = len(clicks), -1
    for p in range(n):
        last = p if clicks[p] > 0.0 else last
    return last if last < 0 else min(last + 1, n - 1)


@helper
def pdgd_rule(settings: tuple[()], shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Write the gradient of the probabilities of all inferred preferences, each weighted against position bias."""
    scores, documents, (places, clicks, _, chances), kind, _, _ = shown
    mass, last = 0.0, last_considered(clicks)
    for p in range(last):
        for r in range(p + 1, last + 1):
            preferred = clicks[p] - clicks[r]
            if preferred != 0.0:
                i, j = documents[p], documents[r]
                decay = math.exp(-abs(scores[i] - scores[j]))
                slope = decay / ((1.0 + decay) * (1.0 + decay))
                moved = preferred * slope * swap_share(kind, p, r, places, chances)
                coefficients[i] -= moved
                coefficients[j] += moved
                mass += abs(moved)
    return mass


class PDGD(ClickLearner):
    """Step along the gradient of the probabilities of preferences that clicks suggest, weighted against position bias.

    Lists are drawn by Plackett-Luce, in proportion to exp(score). A clicked document is preferred to those that were
    not clicked and stood above the last click or just after it. For each such pair, with k the preferred one,
    w += learning_rate ρ σ(s_k - s_l) σ(s_l - s_k) (x_k - x_l), where σ is the logistic function and ρ = P(R*) / (P(R) +
    P(R*)), R* being the list with the two documents exchanged. The rate is multiplied by `decay` after each update.

    As published, features are scaled to [0, 1] within the query and weights start at 0. It has no bound on regret; in
    expectation, the steps point from less to more preferred documents.

    Parameters
    ----------
    learning_rate : float > 0
        Factor of the first step.
    decay : float
        Above 0 and at most 1.

    References
    ----------
    H. Oosterhuis and M. de Rijke, "Differentiable Unbiased Online Learning to Rank", CIKM 2018.

    Examples
    --------
    >>> ranker = PDGD(learning_rate=1.0, transforms=None)
    >>> shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=3)
    >>> shown.order, ranker.learn_clicks(shown, [0, 1])
    (array([0, 1]), True)
    >>> ranker.weights  # ρ is 1/2, and so is the logistic function at 0
    array([-0.125,  0.125])
    """

    algorithm = "pdgd"
    cost = "m d + k³"
    kernel = click_pass(pdgd_rule)
    explores = "plackett-luce"
    policies = ("plackett-luce", "fair-pairs", "shuffle")

    learning_rate: float = 0.1
    _: KW_ONLY
    decay: float = 0.9999977
    transforms: TransformLike = "query-minmax"

    def _make_settings(self) -> tuple[Any, ...]:
        if not 0 < as_number(self.decay) <= 1:
            raise ParameterError("decay", "must be above 0 and at most 1", self.decay)
        rate = check_positive("learning_rate", self.learning_rate)
        return self._click_settings(learning_rate=rate, decay=float(self.decay))
