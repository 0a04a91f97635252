"""The click perceptron, which has no rate to tune."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.lists import N_PLACES, Counts, List, click_pass, swap_share
from perceptrank.learners.model import Model
from perceptrank.learners.tally import UPDATES
from perceptrank.transforms.transform import TransformLike


@helper
def clicks_rule(settings: tuple[()], shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Write the differences of residual clicks over all pairs of the list, each weighted against position bias."""
    _, documents, (places, clicks, _, chances), kind, _, _ = shown
    n = len(documents)
    residuals = rows[0][0]
    for p in range(n):
        place = min(int(places[p]), N_PLACES) - 1
        residuals[p] = clicks[p] - counts[0][place] / counts[1][place] if counts[1][place] > 0.0 else 0.0
    mass = 0.0
    for p in range(n - 1):
        for r in range(p + 1, n):
            moved = (residuals[p] - residuals[r]) * swap_share(kind, p, r, places, chances)
            coefficients[documents[p]] -= moved
            coefficients[documents[r]] += moved
            mass += abs(moved)
    return mass


class ClickPerceptron(ClickLearner):
    """Add up differences of documents whose clicks were above and below the click rates of their places."""

    algorithm = "clicks"
    cost = "m d + k³"
    kernel = click_pass(clicks_rule, floats=1)
    explores = "plackett-luce"
    policies = ("plackett-luce", "fair-pairs", "shuffle")
    depends_on_rate = False

    _: KW_ONLY
    average: bool = True
    transforms: TransformLike = "auto"

    def sharpness(self, model: Model) -> float | None:
        """Return the standard deviation of the scores that lists are drawn by.

        Parameters
        ----------
        model : Model
            The model with its counts.
        """
        return float(model.tally[UPDATES] ** (1 / 3) / 2) if model.has_begun else 0.0

    def _make_settings(self) -> tuple[Any, ...]:
        return self._click_settings()
