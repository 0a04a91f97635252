"""Learning from logs without exploration, by the examination of places."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.kernels.arrays import FloatRows, Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.fair_pairs import growing_margin
from perceptrank.learners.clicks.lists import N_PLACES, Counts, List, click_pass
from perceptrank.learners.model import Model
from perceptrank.stream.validation import ParameterError, as_numbers, check_not_negative, check_positive, read_only
from perceptrank.theory import theorems
from perceptrank.theory.hinges import is_active
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike


@helper
def ips_rule(
    settings: tuple[float, float, FloatRows], shown: List, counts: Counts, coefficients: Floats, rows: Rows
) -> float:
    """Move each clicked document, by its click over the examination of its place, against all in its way."""
    relative, clip, by_place = settings
    scores, documents, (places, clicks, _, _), _, _, _ = shown
    m, margin, mass, seen = len(scores), growing_margin(relative, counts), 0.0, 0.0
    for p in range(len(documents)):
        place = min(int(places[p]), by_place.shape[1]) - 1
        relevance = (clicks[p] - by_place[1, place]) / by_place[0, place]
        weight = min(max(relevance, -clip), clip) / (m - 1)
        i = documents[p]
        seen += abs(weight) * (m - 1)
        for j in range(m if weight != 0.0 else 0):
            if j != i and is_active(scores[i], scores[j], margin):
                coefficients[i] -= weight
                coefficients[j] += weight
                mass += abs(weight)
    counts[3][0] += seen * seen
    return mass


class IpsListwise(ClickLearner):
    """Push clicked documents above all others, each weighted by how rarely its place is examined.

    For a document i with click c at place k, and all other documents j of the query, w += (1 / (m - 1)) min(c / θ_k,
    clip) Σ_j (x_i - x_j) over those with s_i - s_j < margin; θ_k is the probability that place k is examined. This is
    the hinge loss of propensity-weighted ranking SVMs, an upper bound of the mean rank of relevant documents: its
    average over users is the loss of the true relevance, if θ is right and nothing is clipped. The margin is
    relative_margin r √(1 + N), with r the largest squared length of a step per squared weight moved, and N the sum of
    the squared weights of all lists so far; it never shrinks, so that the regret in this loss grows as √N.

    Any log will do, also one without exploration. What remains: documents that were never shown are never preferred,
    and errors of θ do not average out.

    Parameters
    ----------
    examination : array of shape (places,), PositionBias, or None
        θ of each place, as `perceptrank.clicks.position_bias` estimates it; the last one is also that of all places
        beyond. A NaN, for a place that is not identified, stands for the value before it, which weights clicks too
        little rather than too much. None for 1 / place.
    clip : float > 0
        Largest weight of a click, for less variance and some bias.
    trust : array of shape (places,), optional
        Probabilities β of a click on an irrelevant document at each place. Weights are then (c - β) / θ for all
        documents shown, with θ the probability for relevant ones minus β: clicks on top places are trusted less.
    relative_margin : float >= 0
        Factor of the margin.

    References
    ----------
    T. Joachims, A. Swaminathan and T. Schnabel, "Unbiased Learning-to-Rank with Biased Feedback", WSDM 2017. A.
    Vardasbi, H. Oosterhuis and M. de Rijke, "When Inverse Propensity Scoring does not Work", CIKM 2020.

    Examples
    --------
    >>> ranker = IpsListwise(examination=[1.0, 0.5], transforms=None)
    >>> shown = ranker.show([[1.0, 0.0], [0.0, 1.0]], rng=0)
    >>> shown.policy, shown.order, ranker.learn_clicks(shown, [0, 1])
    ('none', array([0, 1]), True)
    >>> ranker.weights
    array([-2.,  2.])
    """

    algorithm = "ips-listwise"
    cost = "m d + k m"
    kernel = click_pass(ips_rule)
    depends_on_rate = False

    examination: npt.ArrayLike | PositionBias | None = None
    _: KW_ONLY
    clip: float = 10.0
    trust: npt.ArrayLike | None = None
    relative_margin: float = 1.0
    average: bool = True
    transforms: TransformLike = "auto"

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""
        return theorems.ips()

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return clicks and showings per place, and the evidence N, before anything was learned."""
        return {**super().extra_state(n_features), "evidence": np.zeros(1)}

    def as_document(self, model: Model | None = None) -> dict[str, Any]:
        """Return the model as a dictionary of plain values, as `save` writes it.

        Parameters
        ----------
        model : Model, optional
            Another model than the current one.
        """
        document = super().as_document(model)
        for name, row in (("examination", 0), ("trust", 1)):
            if document["parameters"][name] is not None:
                document["parameters"][name] = self._by_place[row].tolist()
        return document

    def _make_settings(self) -> tuple[Any, ...]:
        given = self.examination.examination if isinstance(self.examination, PositionBias) else self.examination
        examination = 1.0 / np.arange(1.0, N_PLACES + 1) if given is None else _values("examination", given)
        trust = np.zeros(1) if self.trust is None else _values("trust", self.trust)
        examination = examination[np.maximum.accumulate(np.arange(len(examination)) * ~np.isnan(examination))]
        if not ((examination > 0.0) & (examination < np.inf)).all():
            raise ParameterError("examination", "must be above 0 in each place, known in the first", given)
        if not ((trust >= 0.0) & (trust < 1.0)).all():
            raise ParameterError("trust", "must be probabilities below 1", self.trust)
        n = max(len(examination), len(trust))
        rows = [np.pad(values, (0, n - len(values)), mode="edge") for values in (examination, trust)]
        self._by_place: FloatRows = read_only(np.array(rows))
        clip, relative = check_positive("clip", self.clip), check_not_negative("relative_margin", self.relative_margin)
        return self._click_settings(relative, clip, self._by_place)


def _values(name: str, given: Any) -> Floats:
    values = np.atleast_1d(as_numbers(name, given)).astype(np.float64)
    if values.ndim != 1 or not len(values):
        raise ParameterError(name, "must have one value per place", given)
    return values
