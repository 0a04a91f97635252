"""AdaGrad for any learner with a learning rate."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.learners.wrappers.wrapper import StepWrapper
from perceptrank.stream.validation import ParameterError, check_choice

STEPS = ("diagonal", "norm")


class AdaGrad(StepWrapper):
    """Adapt the steps of a learner to the sum of squares of all steps so far, per feature or of the whole step.

    A step w += learning_rate * z of the learner becomes w += learning_rate * z / (√(Z) + 1e-10), with Z the sum of
    squares of all steps so far, z included: of each feature ("diagonal"), or of the step's norm ("norm"). With the
    first, rare features learn faster. A relative margin uses the inner product of z and the adapted step in place of
    the square of z. The theorem of the learner, which is for a constant rate, does not apply.

    Parameters
    ----------
    learner : learner
        Settings of the learner, which must have a `learning_rate`: SOLAR and PRank determine the length of their steps
        themselves; bagging and tournaments wrap AdaGrad, not the reverse. Its `average` and `transforms` apply.
    steps : either "diagonal" or "norm"
        Adapt each feature, or the step as a whole.

    References
    ----------
    J. Duchi, E. Hazan and Y. Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization".

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = AdaGrad(pr.RankNet(learning_rate=0.5))
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 8.0]], [1, 0])  # the first step has the same length in every feature
    True
    >>> ranker.coef_
    array([ 0.5, -0.5])
    """

    algorithm = "adagrad"
    fixed = ("steps",)

    _: KW_ONLY
    steps: str = "diagonal"

    def _check_parameters(self) -> None:
        check_choice("steps", self.steps, STEPS)
        super()._check_parameters()
        if "learning_rate" not in self.learner.parameter_names:
            raise ParameterError("learner", "must be one with a learning_rate", self.learner)

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        return self._copy.extra_state(n_features) | {"squares": np.zeros(n_features if self.steps == "diagonal" else 1)}
