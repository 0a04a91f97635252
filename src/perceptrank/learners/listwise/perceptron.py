"""The listwise perceptron."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.learners.compiled_learner import CompiledLearner, list_settings
from perceptrank.learners.listwise.places import places_rule
from perceptrank.learners.listwise.regrets import WITHOUT_WEIGHTS, choose_pass, regret_rule, regrets, settings_of
from perceptrank.learners.listwise.safe_averaging import ROWS, safe_pass
from perceptrank.learners.listwise.uniform import uniform_rule
from perceptrank.learners.model import Model
from perceptrank.learners.rounds import Pass, list_pass
from perceptrank.learners.slam import SLAM_PASS
from perceptrank.learners.starting import Startable
from perceptrank.learners.tally import LARGEST_WEIGHT, ListSettings
from perceptrank.measures import ERR, MeasureLike, parse
from perceptrank.measures.gains import discounts
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError, as_number, check_choice
from perceptrank.theory import theorems
from perceptrank.theory.surrogates import weighing_of
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import TransformLike

# The best-scored violator alone is Algorithm 2's, on every round that has one.
_PASSES = {
    "places": list_pass(places_rule, floats=7, ints=8),
    "uniform": list_pass(uniform_rule, floats=5, ints=10),
    "top": SLAM_PASS,
}
_REGRET_PASS = list_pass(regret_rule, floats=6, ints=7)


class ListwisePerceptron(Startable, CompiledLearner):
    """Move outranked documents against those that outrank them, by their total weight in the measure.

    A pair of grades R_i > R_j is violated, and i active, if s_j ≥ s_i - margin * (the number of grades in the query
    from R_j up to R_i, without R_j). w += learning_rate * V * a weighted mean of x_i - x_j over violated pairs, where V
    is the sum of the weights v_i, those of `perceptrank.Slam`, of the active documents. The margin is relative_margin
    times learning_rate times the mean of past squared step lengths, each divided by the square of the weight moved (0
    before the first update), so rankings depend neither on the learning rate nor on the scale of the features.

    `violators` determines the weights of pairs. "places": take the ranking by s_i - margin * (the number of lower
    grades in the query), lower grades first among equals. For each grade but the lowest, move the documents of that
    grade or a higher one before all others. Each document's coefficient is the logarithm of its place minus that of its
    new place, times the gain of this grade over the next lower one, summed over grades. These coefficients are
    scaled by V over the sum of the positive moves. With a measure cut off at k, places after k count as place k + 1,
    and only grades of the k best documents are considered; if nothing moves then, there is no update.

    Cumulative loss on a stream that a unit vector ranks with margin γ: at most (1 + 2 relative_margin) D² /
    γ² (with violators="top", D² / γ² up to a relative margin of 1/2, and 9/8 of it at 1), with D the largest
    distance between two differently graded documents of a query, independent of the number of documents, of grades and
    the cut-off, for rankings by the current weights (`average=False`). The mean of all iterates, which the default
    ranks with, is better on noisy data, and at times far worse: the default ranks by the current weights instead as
    long as the mean has lost more than twice what they have, plus 1, in the measure that is learned. The loss is then
    at most 3 times that bound, plus 2, on every such stream (`ranks_with`).

    Measures that do not weight documents are learned too: `measure` may be "err", "rr" or "p", with a cut-off or not.
    V is then what the ranking by s_i - margin * (the number of lower grades) loses to the best one, and the bounds are
    on the sum of these losses: for "rr" of 1 - measure, for the others of the best value minus the measure.

    Parameters
    ----------
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        Also "err", "err@k", "rr", "rr@k" and "p@k", with violators="places".
    violators : "places", "uniform", or "top"
        By places, as above; or each active document, by its own weight, against all its violators in equal parts, or
        against the best-scored one of them. With these two the margin is the same for all grades (s_j > s_i - margin
        violates, and s_j ≥ s_i).
    relative_margin : float or None
        The margin in units of the mean of (step length / weight moved)²; 0 or None for no margin.
    margin : float or None
        An absolute margin instead of the default relative one (giving both is an error); rankings then depend on
        margin / learning_rate.
    average : bool
        Rank with the mean of all iterates, while it is safe, instead of the last one.
    transforms : str, Transform or list of them, or None
        Transforms that features go through first. By default each feature becomes two, its z-score within the query
        and the normal score of its rank there, so that features can be of any scale; sparse features are divided by
        their running spread. Give "running" where weights of single features are needed, None for features as they are,
        which "auto" is with initial weights by feature.

    Examples
    --------
    >>> ranker = ListwisePerceptron(measure="ap", transforms=None)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    True
    >>> ranker.coef_, ranker.rank([[1.0, 0.0], [0.0, 1.0]])
    (array([-1.,  1.]), array([1, 0]))
    """

    algorithm = "listwise"
    cost = "m (d + log m + g)"
    depends_on_rate = False

    measure: MeasureLike = "ndcg"
    _: KW_ONLY
    violators: str = "places"
    relative_margin: float | None = 1.0
    margin: float | None = None
    learning_rate: float = 1.0
    class_order: str = "score"
    average: bool = True
    transforms: TransformLike = "auto"

    @property
    def theorem(self) -> Theorem:
        surrogate, splits = "level-pair" if self.violators == "places" else "slam", self.violators == "top"
        relative = 0.0 if self.margin is not None else float(self.relative_margin or 0.0)
        promised = theorems.listwise(relative, surrogate, splits=splits)
        if self.margin:
            promised = theorems.slam(float(self.learning_rate), float(self.margin), surrogate, splits=splits)
        if self.violators != "places" or not (relative or self.margin):
            promised = theorems.for_top(promised, parse(self.measure).cutoff)
        return self._model.beginning.theorem(theorems.safe_averaging(promised) if self.average else promised)

    @property
    def ranks_with(self) -> str:
        """The weights that rank the next query: "mean" or "current"; "current" without `average`."""
        return self._model.require_learned().ranks_with

    @property
    def mean_loss(self) -> float:
        """Cumulative loss, 1 - measure with ties in the worst order, of ranking by the mean of all iterates.

        The three losses count queries learned with `average`, times their weights.
        """
        return self._model.require_learned().counts.mean_loss

    @property
    def current_loss(self) -> float:
        """Cumulative loss of ranking by the current weights."""
        return self._model.require_learned().counts.current_loss

    @property
    def used_loss(self) -> float:
        """Cumulative loss of the rankings used: by the mean, or by the current weights where that was not safe."""
        return self._model.require_learned().counts.used_loss

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        chosen = parse(self.measure)
        chosen.check_grades(relevance)
        if not self.average:
            return super()._pass(state, X, relevance, offsets, predicted, masses)
        scores, weights, largest = np.empty(2 * len(relevance)), masses.copy(), state.tally[LARGEST_WEIGHT]
        done = super()._pass(state, X, relevance, offsets, scores, masses)
        if done == len(masses) and isinstance(chosen, WITHOUT_WEIGHTS):
            losses = np.concatenate([regrets(chosen, half, relevance, offsets) for half in np.split(scores, 2)])
            choose_pass(losses, offsets, weights, largest, scores, state.tally, predicted)
        elif done == len(masses):
            longest = len(relevance) if done == 1 else int(np.diff(offsets).max())
            floats, ints, _ = borrow_scratch(longest, 0, *ROWS, 0)
            judged = relevance, offsets, discounts(longest)
            safe_pass(self._judge, judged, weights, largest, scores, state.tally, predicted, floats, ints)
        return done

    @property
    def kernel(self) -> Pass:  # type: ignore[override]
        """The pass of the rule that `violators` names."""
        return _REGRET_PASS if isinstance(parse(self.measure), WITHOUT_WEIGHTS) else _PASSES[self.violators]

    def _make_settings(self) -> ListSettings:
        check_choice("violators", self.violators, _PASSES)
        relative, absolute = _margin("relative_margin", self.relative_margin), _margin("margin", self.margin)
        if self.margin is not None and relative not in (0.0, 1.0):
            raise ValueError(f"give margin or relative_margin, not both, got {self.margin} and {self.relative_margin}")
        margins = absolute, 0.0 if self.margin is not None else relative
        chosen, rates = parse(self.measure), {"margin": margins[0], "relative_margin": margins[1]}
        if isinstance(chosen, WITHOUT_WEIGHTS) and self.violators == "places":
            return list_settings(self, settings_of(chosen), binary=not isinstance(chosen, ERR), **rates)
        weighing = weighing_of(chosen, self.class_order)
        self._judge = weighing[:3]
        settings = (False, weighing) if self.violators == "top" else weighing
        return list_settings(self, *settings, binary=weighing[0], **rates)


def _margin(name: str, value: Any) -> float:
    number = 0.0 if value is None else as_number(value)
    if not 0 <= number < np.inf:
        raise ParameterError(name, "must be a number >= 0 or None", value)
    return number
