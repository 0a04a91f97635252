"""AdaGrad's steps for any learner that has a rate."""

from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.learners.learner import Learner
from perceptrank.learners.state import State
from perceptrank.learners.wrappers.wrapper import Wrapper
from perceptrank.stream.validation import check_choice
from perceptrank.transforms.scaling import ScalingLike

STEPS = ("diagonal", "norm")


class AdaGrad(Wrapper):
    """A learner whose steps become smaller as they add up, per feature or as a whole.

    Wherever the learner would take a step, w += learning_rate * z, it takes w += learning_rate * z / (sqrt(Z) + 1e-10)
    instead, with Z the sum of squares of all steps so far, z among them: for every feature ("diagonal"), or of the step
    as a whole ("norm"). With the first, rare features learn faster. A relative margin goes by the product of z and the
    step taken, in place of the square of z. What the learner promises with steps of constant rate is not promised any
    more.

    Parameters
    ----------
    learner : learner
        Its settings, among them `learning_rate`, which it must have: SOLAR and PRank set the length of their steps
        themselves; bagging and tournaments go around AdaGrad. Its `average` and `scaling` are those of the whole.
    steps : "diagonal" or "norm"

    Reference: J. Duchi, E. Hazan and Y. Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization".

    >>> import perceptrank as pr
    >>> ranker = AdaGrad(pr.RankNet(learning_rate=0.5))
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 8.0]], [1, 0])  # the first step is as long in every feature
    True
    >>> ranker.coef_
    array([ 0.5, -0.5])
    """

    algorithm = "adagrad"
    fixed = ("steps",)

    def __init__(self, learner: Learner, *, steps: str = "diagonal") -> None:
        self.learner = learner
        self.steps = steps
        self._start()

    def _check_parameters(self) -> None:
        check_choice("steps", self.steps, STEPS)
        super()._check_parameters()
        if "learning_rate" not in self.learner.parameter_names:
            raise ValueError(f"learner must be one whose steps have a rate, got {self.learner!r}")

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        super()._parameters_changed(parameters | {"scaling": self.learner.scaling})

    @property
    def average(self) -> bool:  # type: ignore[override]
        """Whether rankings are by the mean of all iterates, as the learner says."""
        return self._copy.average

    @property
    def scaling(self) -> ScalingLike:  # type: ignore[override]
        """What features go through first, as the learner says."""
        return self._copy.scaling

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return the arrays that it carries beside weights and counts, as they are in the beginning."""
        return self._copy.extra_state(n_features) | {"squares": np.zeros(n_features if self.steps == "diagonal" else 1)}

    def _coefficients(self, state: State) -> Floats:
        return self._copy._coefficients(state)

    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        return self._copy._pass(state, X, relevance, offsets, predicted, masses)
