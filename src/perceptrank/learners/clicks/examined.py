"""The listwise perceptron on examined documents."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from perceptrank.kernels.arrays import Floats, Rows
from perceptrank.kernels.compiled import helper
from perceptrank.kernels.levels import grades_differ
from perceptrank.learners.clicks.click_learner import ClickLearner
from perceptrank.learners.clicks.lists import Counts, List, click_pass
from perceptrank.learners.clicks.pdgd import last_considered
from perceptrank.learners.listwise.uniform import uniform_rule
from perceptrank.learners.rounds import margin_now
from perceptrank.measures.gains import LINEAR
from perceptrank.stream.validation import check_not_negative
from perceptrank.theory import theorems
from perceptrank.theory.hinges import BY_SCORE
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike


@helper
def examined_rule(settings: Any, shown: List, counts: Counts, coefficients: Floats, rows: Rows) -> float:
    """Apply the listwise perceptron's rule to the documents that were examined, with clicks as grades."""
    relative, weighing = settings
    scores, documents, (_, clicks, examined, _), _, _, _ = shown
    floats, ints = rows
    own_scores, grades, moved, discounts, chosen = floats[0], floats[1], floats[2], floats[3], ints[0]
    stop, n, n_relevant = last_considered(clicks), 0, 0
    for p in range(len(documents)):
        if clicks[p] > 0.0 or examined[p] > 0.0 or (math.isnan(examined[p]) and p < stop):
            chosen[n], own_scores[n], grades[n] = documents[p], scores[documents[p]], clicks[p]
            moved[n], discounts[n] = 0.0, 1.0 / math.log2(n + 2.0)
            n_relevant += 1 if clicks[p] > 0.0 else 0
            n += 1
    if not grades_differ(grades, n, n_relevant):
        return 0.0
    margin = margin_now(0.0, relative, 1.0, counts[1:])
    query = own_scores[:n], grades[:n], n_relevant, margin, discounts
    mass = uniform_rule(weighing, query, moved[:n], (floats[4:], ints[1:]))
    for p in range(n):
        coefficients[chosen[p]] = moved[p]
    return mass


class ExaminedPerceptron(ClickLearner):
    """Move examined documents that were clicked against examined ones that were not.

    The rule of `perceptrank.ListwisePerceptron` with violators="uniform", for NDCG with linear gains, on the examined
    documents alone, with clicks as grades: w += Σ v_i (x_i - the mean x of its violators), violators being examined
    documents with fewer clicks and s_j > s_i - margin or s_j ≥ s_i. The margin is relative_margin times the mean of
    past squared step lengths, each divided by the square of the weight moved.

    The column ``examined`` of a log says what users have looked at. Where it does not (NaN), they are taken to go from
    top to bottom: all places above the last click were examined. Clicked documents were in any case.

    If users click exactly the relevant documents among those they examine, and a unit vector ranks these with margin γ:
    the sum of the weights v_i of outranked examined documents is surely at most (1 + 2 relative_margin) D² / γ²,
    without propensities or exploration. If any two documents are both examined with probability π or more, and the log
    says which were, the expected loss of rankings of all documents by the current weights is at most that divided by π.
    Without the column, this holds for lists that show these rankings, and their own order of ties. Noisy users who stop
    at what they like examine little below it, and can teach the wrong order: compare it with `clicks`.

    Parameters
    ----------
    relative_margin : float >= 0
        The margin in units of the mean of (step length / weight moved)².

    Examples
    --------
    >>> ranker = ExaminedPerceptron(transforms=None)
    >>> shown = ranker.show([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], rng=0)
    >>> ranker.learn_clicks(shown, [0, 1, 0]), ranker.weights  # the third may not have been seen
    (True, array([-1.,  1.,  0.]))
    """

    algorithm = "examined"
    cost = "m d + k (log k + g)"
    kernel = click_pass(examined_rule, floats=9, ints=11)
    depends_on_rate = False

    _: KW_ONLY
    relative_margin: float = 1.0
    average: bool = True
    transforms: TransformLike = "auto"

    @property
    def theorem(self) -> Theorem:
        return self._model.beginning.theorem(theorems.examined(float(self.relative_margin)))

    def _make_settings(self) -> tuple[Any, ...]:
        relative = check_not_negative("relative_margin", self.relative_margin)
        return self._click_settings(relative, (False, 0, LINEAR, BY_SCORE))
