"""The perturbed preference perceptron."""

from __future__ import annotations

import math
from typing import Any

from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.fair_pairs import is_coin_pair
from perceptrank.learners.clicks.lists import Counts, List, click_pass
from perceptrank.theory import theorems
from perceptrank.transforms.transform import TransformLike


@helper
def perturbed_rule(settings: tuple[()], shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Exchange the documents of each coin pair whose lower one has more clicks."""
    _, documents, (places, clicks, _, chances), kind, _, _ = shown
    mass = 0.0
    for p in range(len(documents) - 1):
        preferred = clicks[p + 1] - clicks[p]
        if preferred > 0.0 and is_coin_pair(kind, p, places, chances):
            moved = preferred * (1.0 / math.log2(places[p] + 1.0) - 1.0 / math.log2(places[p] + 2.0))
            coefficients[documents[p + 1]] -= moved
            coefficients[documents[p]] += moved
            mass += moved
    return mass


class PerturbedPerceptron(ClickLearner):
    """Exchange neighbours whose lower document was clicked, and move towards the list that results: 3PR.

    Lists are shown with fair pairs. For each pair of places q and q + 1 that a coin has ordered, if the lower document
    was clicked and the upper one was not, w += (g_q - g_(q+1)) (x_lower - x_upper), with g_q = 1 / log2(q + 1), whether
    or not w orders the pair so already. Clicks between 0 and 1 count by their difference.

    Let ζ be the step of a list, M the sum of the weights moved, A = Σ w·ζ what users affirmed of the ranking, and D the
    largest distance of two documents. For every vector u and any users, the gain of the exchanges by u is Σ u·ζ ≤ |u|
    √(D² M + 2A). If it is, on average, at least a share α of what the lists lost by u against the best ones, they lost
    at most this bound divided by α.

    References
    ----------
    K. Raman, T. Joachims, P. Shivaswamy and T. Schnabel, "Stable Coactive Learning via Perturbation", ICML 2013.

    Examples
    --------
    >>> ranker = PerturbedPerceptron(transforms=None)
    >>> shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=3)
    >>> shown.policy, shown.order, ranker.learn_clicks(shown, [0, 1]), ranker.weights  # 1 - 1 / log2(3)
    ('fair-pairs:1', array([1, 0]), True, array([ 0.36907025, -0.36907025]))
    """

    algorithm = "3pr"
    cost = "m d + k"
    kernel = click_pass(perturbed_rule)
    explores = "fair-pairs"
    policies = ("fair-pairs",)
    theorem = theorems.perturbed()
    depends_on_rate = False

    transforms: TransformLike = "auto"

    def _make_settings(self) -> tuple[Any, ...]:
        return self._click_settings()
