"""Exponential forgetting for learners that move by steps."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

import numpy as np

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.model import Model
from perceptrank.learners.tally import FADED, FADING, SINCE
from perceptrank.learners.wrappers.wrapper import StepWrapper
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError, as_number
from perceptrank.theory import theorems
from perceptrank.theory.theorem import NO_THEOREM, Theorem

SHORTEST, LONGEST = 1e-2, 1e15


class Fading(StepWrapper):
    """Let what was learned fade: before each update, the weights shrink by a factor that depends on the weight moved.

    An update that moves the weight V (at most 1 for perceptrons, times the weight of the query) is w = exp(-rate V) w +
    step, with rate = ln(2) / half_life: a step counts half once the weight `half_life` has been moved after it. Rounds
    without an update leave everything as it is, so a learner that makes no mistakes forgets nothing.

    If the learner averages, iterates fade in its mean at the same rate: after an update the sum of all iterates, and
    their number, shrink by the same factor before the new one is added. `ranks_with` says which of the two ranks.

    If the learner has a theorem with a constant, the loss of rankings by the current weights (from clicks, only the
    weight moved) is bounded against a ranker that moves, by the length of its way: `perceptrank.theory.drift.fading`.

    Parameters
    ----------
    learner : learner
        Settings of the learner, one that takes sparse features (docs/learners/inputs.md); its `average` and
        `transforms` apply. Statistics of its transforms do not fade.
    half_life : float > 0
        Weight moved after which a step counts half; on noisy streams, about so many queries. Rankings depend on it.

    References
    ----------
    - J. Kivinen, A. J. Smola and R. C. Williamson, "Online Learning with Kernels".
    - G. Cavallanti, N. Cesa-Bianchi and C. Gentile, "Tracking the best hyperplane with a simple budget Perceptron".

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = Fading(pr.MinimaxPerceptron(), half_life=1)
    >>> ranker.learn_one([[8.0], [0.0]], [1, 0]), ranker.learn_one([[0.0], [1.0]], [1, 0])
    (True, True)
    >>> ranker.weights  # half of 8, minus 1
    array([3.])
    """

    algorithm = "fading"

    _: KW_ONLY
    half_life: float = 300.0

    @property
    def theorem(self) -> Theorem:
        if self._copy.theorem.symbol is None:  # C is that of its theorem
            return NO_THEOREM
        beginning = self._model.beginning
        theorem = theorems.fading(starts=beginning.ranks, from_clicks=self.learner.takes == "clicks")
        return theorems.constrained(theorem) if beginning.constraints else theorem

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.learner, CompiledLearner) and self.learner.accepts_sparse):
            raise ParameterError(
                "learner", "must be one that takes sparse features, since these learn by steps alone", self.learner
            )
        if self.learner.takes == "clicks" and self.learner.production is not None:
            raise ParameterError("learner", "must not start from production, which would fade", self.learner)
        half_life = as_number(self.half_life)
        if not SHORTEST <= half_life <= LONGEST:
            raise ParameterError("half_life", f"must be from {SHORTEST:g} to {LONGEST:g}", self.half_life)
        self._rate = math.log(2.0) / half_life

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        return super().extra_state(n_features) | {"faded": np.array([1.0, 0.0])}

    @property
    def ranks_with(self) -> str:
        """The weights that rank the next query: the "mean" of iterates that fade, or the "current" ones."""
        return self._model.require_learned().ranks_with

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        tally, faded = state.tally, state.more["faded"]
        tally[FADING], tally[FADED], tally[SINCE] = self._rate, faded[0], faded[1]
        done = super()._pass(state, X, relevance, offsets, predicted, masses)
        faded[0], faded[1] = tally[FADED], tally[SINCE]
        return done
