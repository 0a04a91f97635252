"""The click perceptron, which has no rate to tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints, Rows
from perceptrank.kernels.compiled import by_layout, compiled, helper
from perceptrank.kernels.scoring import squared_norm
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.lists import N_PLACES, Counts, List, click_pass, keep_scores, swap_share
from perceptrank.learners.model import Model
from perceptrank.learners.starting import Beginning
from perceptrank.learners.tally import NEGATIVE, POSITIVE, UPDATES, Block, Iterates
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError, check_positive
from perceptrank.transforms.transform import TransformLike

AGREEMENT, SQUARES = range(2)  # sums of agreements between steps and the ranking before them, and of their squares
PLACE, WEIGHT = range(2)  # the weight of production's score, and the part of it that stands for production
SMALLEST_SHARE = 1e-6  # of what was learned beside production, so that both can be added


@helper
def clicks_rule(settings: tuple[float], shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Write the differences of residual clicks over all pairs of the list, each weighted against position bias."""
    scores, documents, (places, clicks, _, chances), kind, _, weight = shown
    n, residuals = len(documents), rows[0][0]
    for p in range(n):
        place = min(int(places[p]), N_PLACES) - 1
        residuals[p] = clicks[p] - counts[0][place] / counts[1][place] if counts[1][place] > 0.0 else 0.0
    mass, agreement = 0.0, 0.0
    for p in range(n - 1):
        for r in range(p + 1, n):
            moved = (residuals[p] - residuals[r]) * swap_share(kind, p, r, places, chances)
            coefficients[documents[p]] -= moved
            coefficients[documents[r]] += moved
            agreement += moved * (scores[documents[p]] - scores[documents[r]])
            mass += abs(moved)
    mean, spread = 0.0, 0.0
    for i in range(len(scores)):
        mean += scores[i]
    mean /= len(scores)
    for i in range(len(scores)):
        spread += (scores[i] - mean) * (scores[i] - mean)
    if spread > 0.0:
        agreement *= weight / math.sqrt(spread / len(scores))
        counts[2][AGREEMENT] += agreement
        counts[2][SQUARES] += agreement * agreement
    return mass


@compiled
def trusted(n_updates: float, evidence: Floats) -> float:
    """Return how many of the updates count against production: none while z ≤ 3, nearly all if z is large."""
    sure = evidence[AGREEMENT] / math.sqrt(evidence[SQUARES]) if evidence[SQUARES] > 0.0 else 0.0
    return n_updates * (1.0 - 9.0 / (sure * sure)) if sure > 3.0 else 0.0


@helper
def subtract_dense(settings: tuple[float], block: Block, q: int, counts: Counts, scores: Floats) -> None:
    """Make scores those by what was learned from clicks alone, without production."""
    X, _, offsets, _ = block
    if settings[0] > 0.0:
        production = counts[3]
        for i in range(offsets[q + 1] - offsets[q]):
            scores[i] -= production[WEIGHT] * X[offsets[q] + i, int(production[PLACE] + 0.5)]


subtract_production = by_layout(subtract_dense, keep_scores)  # sparse features have no production


@helper
def follow_production(settings: tuple[float], state: Iterates, counts: Counts, weight: float) -> None:
    """Weigh production's score anew, after an update."""
    (before,), weights, production = settings, state[0], counts[3]
    if before > 0.0:
        place = int(production[PLACE] + 0.5)  # the mean of shards may be off by rounding
        weights[place] -= production[WEIGHT]
        norm = math.sqrt(squared_norm(weights))
        share = max(trusted(state[2][UPDATES], counts[2]) / before, SMALLEST_SHARE)
        production[WEIGHT] = norm / share if norm > 0.0 else production[WEIGHT]
        weights[place] += production[WEIGHT]


class ClickPerceptron(ClickLearner):
    """Add up differences of documents whose clicks were above and below the click rates of their places.

    There is nothing to tune. A list is drawn by Plackett-Luce with scores κ s / sd(s), s being the scores of the
    documents and sd their standard deviation in the query. With e_p the click at place p minus the click rate of that
    place so far, and ρ = P(R*) / (P(R) + P(R*)), R* being the list with documents p and r exchanged,

        w += Σ over p < r of ρ (e_p - e_r) (x_p - x_r).

    If clicks depend on the place alone, the mean of the steps over all lists that may be drawn is 0. There is no bound
    on regret.

    Exploration ends as evidence grows: κ = min(n^(1/3) / 2, 2 + z), where n is the number of updates, and z, at least
    0, tells how sure it is that the ranking predicts clicks: with y = step · w / sd(s) before each update, which is 0
    in the mean if clicks are noise, z = Σ y / √(Σ y²).

    With `production`, it starts as another ranker, whose score is one of the features. It ranks by `evidence` u + m w /
    |w|, where u is 1 for that score, and m = n max(0, 1 - 9 / z²): as production does until clicks say with some
    certainty what is better, and then more and more by what was learned. Lists are drawn with κ = (`evidence` +
    m)^(1/3).

    Parameters
    ----------
    production : str or int, optional
        Feature that has the score of the ranker to start from, by name or number of column; or "score", which the
        transform `ScoreOf` adds. By default it starts from nothing, and with random lists.
    evidence : float > 0
        Number of updates that production counts as much as.
    transforms : str, Transform or list of them, or None
        Transforms that features go through first; those by default are for features of any scale, see
        `ListwisePerceptron`.

    Examples
    --------
    >>> import numpy as np
    >>> ranker = ClickPerceptron(transforms=None)
    >>> X, rng = np.eye(3), np.random.default_rng(1)
    >>> for _ in range(100):
    ...     shown = ranker.show(X, n=3, rng=rng)
    ...     moved = ranker.learn_clicks(shown, shown.order == 2)  # users want the last one
    >>> ranker.rank(X)[0]
    np.int64(2)
    """

    algorithm = "clicks"
    cost = "m d + k³"
    kernel = click_pass(clicks_rule, prepare=subtract_production, follow=follow_production, floats=1)
    explores = "plackett-luce"
    policies = ("plackett-luce", "fair-pairs", "shuffle")
    depends_on_rate = False

    _: KW_ONLY
    evidence: float = 10_000.0
    transforms: TransformLike = "auto"

    def sharpness(self, model: Model) -> float | None:
        """Return κ, the standard deviation of the scores that Plackett-Luce draws a list by."""
        n, evidence = 0.0, np.zeros(2)
        if model.has_begun:
            n, evidence = float(model.tally[UPDATES]), model.more["evidence"]
        if self.production is not None:
            return float((self.evidence + trusted(n, evidence)) ** (1 / 3))
        agreement, squares = evidence.tolist()
        return min(n ** (1 / 3) / 2, 2.0 + (max(0.0, agreement / math.sqrt(squares)) if squares > 0.0 else 0.0))

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return clicks and showings per place, evidence, and what stands for production, at the start."""
        return super().extra_state(n_features) | {"evidence": np.zeros(2), "production": np.array([-1.0, 1.0])}

    def correct_mixture(self, mixture: Model, before: Model, after: Sequence[Model]) -> None:
        """Make weights and counts those of one pass over all shards: sums, as no step depends on the weights."""
        for name in ("place_clicks", "place_shown", "evidence"):
            kept = before.more[name] if before.has_begun else 0.0
            mixture.more[name][:] = kept + sum(model.more[name] - kept for model in after)
        start = _from_clicks(before) if before.has_begun else np.zeros(len(mixture.weights))
        weights = start + sum(_from_clicks(model) - start for model in after)
        if len(signs := mixture.signs):
            weights[((signs == POSITIVE) & (weights < 0.0)) | ((signs == NEGATIVE) & (weights > 0.0))] = 0.0
        if self.production is not None:
            production, norm = mixture.more["production"], float(np.linalg.norm(weights))
            share = trusted(mixture.tally[UPDATES], mixture.more["evidence"]) / self.evidence
            production[WEIGHT] = norm / max(share, SMALLEST_SHARE) if norm > 0.0 else production[WEIGHT]
            weights[round(production[PLACE])] += production[WEIGHT]
        mixture.weights[:] = weights

    def _beginning(self) -> Beginning:
        if self.initial_weights is not None:
            rule = "must be None: give a feature that has the score of the ranker to start from, as `production`"
            raise ParameterError("initial_weights", rule, self.initial_weights)
        return Beginning.of(None, self.positive, self.negative, self.zero, self.production)

    def _make_settings(self) -> tuple[Any, ...]:
        check_positive("evidence", self.evidence)
        if self.average and self.production is not None:
            raise ParameterError("average", "must be False with `production`, whose weight changes", self.average)
        return self._click_settings(0.0 if self.production is None else float(self.evidence))

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        if self.production is not None and state.more["production"][PLACE] < 0:
            if state.is_sparse:
                raise TypeError("`production` needs dense features: to_dense() makes a stream dense")
            state.more["production"][PLACE] = np.argmax(state.weights)
        return super()._pass(state, X, relevance, offsets, predicted, masses)


def _from_clicks(model: Model) -> Floats:
    """Return the weights without production."""
    weights, (place, weight) = np.array(model.weights), model.more["production"]
    if place >= 0:
        weights[int(place)] -= weight
    return weights
