"""Learning from logs without exploration, by the examination of places."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.fair_pairs import growing_margin
from perceptrank.learners.clicks.lists import N_PLACES, Counts, List, click_pass
from perceptrank.learners.model import Model
from perceptrank.stream.validation import ParameterError, as_numbers, check_positive, read_only
from perceptrank.theory import theorems
from perceptrank.theory.hinges import is_active
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike


@helper
def ips_rule(settings: Any, shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Move each clicked document, by its click over the examination of its place, against all in its way."""
    clip, examination, trust = settings
    scores, documents, (places, clicks, _, _), _, _, _ = shown
    m, margin, mass, seen = len(scores), growing_margin(1.0, counts), 0.0, 0.0
    for p in range(len(documents)):
        i, place = documents[p], int(places[p]) - 1
        weight = clicks[p] - trust[min(place, len(trust) - 1)]
        weight = min(max(weight / examination[min(place, len(examination) - 1)], -clip), clip)
        seen += abs(weight)
        weight /= m - 1
        for j in range(m if weight != 0.0 else 0):
            if j != i and is_active(scores[i], scores[j], margin):
                coefficients[i] -= weight
                coefficients[j] += weight
                mass += abs(weight)
    counts[2][0] += seen * seen
    return mass


def _by_place(name: str, given: Any) -> Floats:
    """Return a value for each place, that of the place before where it is NaN."""
    if isinstance(given, str):
        raise ParameterError(name, "must be a number >= 0 for each place, known for the first", given)
    values: Floats = np.atleast_1d(as_numbers(name, given)).astype(np.float64)
    if values.ndim != 1 or not len(values) or not values[0] >= 0.0 or (values < 0.0).any() or np.isinf(values).any():
        raise ParameterError(name, "must be a number >= 0 for each place, known for the first", given)
    return read_only(values[np.maximum.accumulate(np.arange(len(values)) * ~np.isnan(values))])


class IpsListwise(ClickLearner):
    """Push clicked documents above all others, each weighted by how rarely its place is examined.

    For a document i with click c at place k, w += min(c / θ_k, clip) / (m - 1) Σ (x_i - x_j) over all other documents j
    of the query with s_i - s_j < margin; θ_k is the probability that place k is examined. This descends the hinge loss
    of propensity-weighted ranking SVMs, an upper bound of the mean rank of relevant documents: on average over users,
    it is the loss of the true relevance, if θ is right and nothing is clipped. The margin is r √(1 + N), with r the
    largest squared length of a step per squared weight moved, and N the sum of the squared weights of all lists so far.
    So the regret in this loss grows as √N. Any log will do, also one without exploration; but documents that were never
    shown are never preferred.

    Parameters
    ----------
    examination : array of shape (places,), PositionBias or None
        θ of each place, as `perceptrank.clicks.position_bias` estimates it; the last value is also that of all places
        beyond, and a NaN stands for the value before it. None for 1 / place.
    clip : float > 0
        Largest weight of a click, for less variance and some bias.
    trust : array of shape (places,), optional
        Probability β of a click on an irrelevant document at each place. Weights are then (c - β) / θ for all documents
        shown, with θ the probability of a click on a relevant document minus β. Where they are negative, the loss of
        a list is not convex: only the expected regret is bounded, if θ and β are right and nothing is clipped.

    References
    ----------
    T. Joachims, A. Swaminathan and T. Schnabel, "Unbiased Learning-to-Rank with Biased Feedback", WSDM 2017.

    Examples
    --------
    >>> ranker = IpsListwise(examination=[1.0, 0.5], transforms=None)
    >>> shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=0)
    >>> shown.policy, ranker.learn_clicks(shown, [0, 1]), ranker.weights
    ('none', True, array([-2.,  2.]))
    """

    algorithm = "ips-listwise"
    cost = "m d + k m"
    kernel = click_pass(ips_rule)
    depends_on_rate = False

    examination: npt.ArrayLike | PositionBias | None = None
    _: KW_ONLY
    clip: float = 10.0
    trust: npt.ArrayLike | None = None
    average: bool = True
    transforms: TransformLike = "auto"

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings: weights that correct for trust are right on average only."""
        return theorems.gradient_descent(on_average=self.trust is not None)

    def as_document(self, model: Model | None = None) -> dict[str, Any]:
        document, values = super().as_document(model), zip(("examination", "trust"), self._settings[1][1:], strict=True)
        document["parameters"] |= {name: each.tolist() for name, each in values if getattr(self, name) is not None}
        return document

    def _make_settings(self) -> tuple[Any, ...]:
        given = self.examination.examination if isinstance(self.examination, PositionBias) else self.examination
        examination = _by_place("examination", 1.0 / np.arange(1.0, N_PLACES + 1) if given is None else given)
        if not examination.all():
            raise ParameterError("examination", "must be above 0", given)
        trust = _by_place("trust", 0.0 if self.trust is None else self.trust)
        return self._click_settings(check_positive("clip", self.clip), examination, trust)
