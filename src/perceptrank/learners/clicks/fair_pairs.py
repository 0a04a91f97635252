"""The perceptron on fair pairs, with a margin that grows."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from perceptrank.clicks.policies import PAIRS
from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.impression import PAIRS_FROM_2
from perceptrank.learners.clicks.lists import Counts, List, click_pass, swap_share
from perceptrank.learners.tally import LARGEST_REACH
from perceptrank.stream.validation import check_choice, check_not_negative
from perceptrank.theory import theorems
from perceptrank.theory.hinges import is_active
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike


@helper
def is_coin_pair(kind: int, p: int, places: Floats, chances: Floats) -> bool:
    """Tell whether the documents at p and p + 1 are a pair of fair pairs that might have been shown the other way."""
    return kind in (PAIRS, PAIRS_FROM_2) and swap_share(kind, p, p + 1, places, chances) > 0.0


@helper
def growing_margin(relative: float, counts: Counts) -> float:
    """Return the margin: it grows as the root of the evidence so far, in units of the longest step per weight moved."""
    return relative * counts[3][LARGEST_REACH] * math.sqrt(1.0 + counts[2][0])


@helper
def fair_pairs_rule(settings: Any, shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Move the documents of each coin pair whose clicks differ, unless they are apart by the margin."""
    relative, logistic = settings
    scores, documents, (places, clicks, _, chances), kind, _, _ = shown
    n, margin, mass, seen, above, total = len(documents), growing_margin(relative, counts), 0.0, 0.0, 0.0, 0.0
    for p in range(n - 1):
        total += (n - 1 - p) / math.log2(p + 2.0)
    for p in range(n - 1):
        above += 1.0 / math.log2(p + 2.0)
        preferred = clicks[p + 1] - clicks[p]
        if preferred != 0.0 and not (logistic and preferred < 0.0) and is_coin_pair(kind, p, places, chances):
            i, j = (documents[p + 1], documents[p]) if preferred > 0.0 else (documents[p], documents[p + 1])
            moved = abs(preferred) * (above / total) / (2.0 * chances[p])
            seen += moved
            if logistic:
                moved /= 1.0 + math.exp((scores[i] - scores[j]) / max(margin, 1e-300))
            moved = moved if logistic or is_active(scores[i], scores[j], margin) else 0.0
            coefficients[i] -= moved
            coefficients[j] += moved
            mass += moved
    counts[2][0] += seen
    return mass


class FairPairsPerceptron(ClickLearner):
    """Learn from pairs of neighbours that a coin has ordered, with a margin that grows with the evidence.

    Lists are shown with fair pairs. Of the documents at places q and q + 1, if the coin was theirs, let i have more
    clicks than j; y is the difference of the clicks, d = x_i - x_j, and p the probability of the order shown. Then w +=
    β y d / 2p if w·d < margin or w·d ≤ 0, where β = B_q / ΣB, B_q is the sum of the discounts 1 / log2(1 + place) down
    to place q (what DCG can lose by this pair), and margin = relative_margin r √(1 + N): r is the largest squared
    length of a step per squared weight moved, N the sum of β y / 2p of all pairs so far. `loss="logistic"` uses only
    pairs whose lower document has more clicks, and moves each by β y / 2p / (1 + exp(w·d / margin)).

    The coin favours neither document: on average, clicks differ in favour of the more attractive one. As margins never
    shrink, w / margin descends gradients with falling rates: its regret grows as √N for any users. With μ and n the
    means of y and |y| given the past, the expected sum of β |μ| over misordered pairs is at most that of β (|μ| (1 -
    z)₊ + ½(n - |μ|) (|z| - 1)₊), z = sgn(μ) u·d for any u, plus the regret. Logistic, for users who go from top to
    bottom: that of β μ²/2n is at most that of β n KL plus the regret; KL is 0 if u·x is the logit of attractiveness.

    Parameters
    ----------
    loss : either "hinge" or "logistic"
        See above.
    relative_margin : float >= 0
        Factor of the margin; if it is 0, only misordered pairs are learned from, which fails if clicks are noisy.

    References
    ----------
    F. Radlinski and T. Joachims, "Minimally Invasive Randomization for Collecting Unbiased Preferences", AAAI 2006.

    Examples
    --------
    >>> ranker = FairPairsPerceptron(transforms=None)
    >>> shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=3)
    >>> shown.policy, shown.order, ranker.learn_clicks(shown, [0, 1]), ranker.weights
    ('fair-pairs:1', array([1, 0]), True, array([ 1., -1.]))
    """

    algorithm = "fair-pairs"
    cost = "m d + k"
    kernel = click_pass(fair_pairs_rule)
    explores = "fair-pairs"
    policies = ("fair-pairs",)
    depends_on_rate = False

    loss: str = "hinge"
    _: KW_ONLY
    relative_margin: float = 1.0
    average: bool = True
    transforms: TransformLike = "auto"

    @property
    def theorem(self) -> Theorem:
        return theorems.fair_pairs(logistic=self.loss == "logistic")

    def _make_settings(self) -> tuple[Any, ...]:
        check_choice("loss", self.loss, ("hinge", "logistic"))
        relative = check_not_negative("relative_margin", self.relative_margin)
        return self._click_settings(relative, self.loss == "logistic")
