"""Steps of constant rate, or AdaGrad's."""

import numpy as np

from perceptrank.arrays import Floats
from perceptrank.learners.base import Learner
from perceptrank.learners.state import State
from perceptrank.validation import check_choice

STEPS = ("constant", "adagrad", "adagrad-norm")
_NONE: Floats = np.empty(0)


def squares_of(state: State) -> Floats:
    """The sums of squares of earlier steps, empty if steps are of constant rate."""
    return state.more.get("squares", _NONE)


class AdaptiveSteps(Learner):
    """A learner whose steps may be divided by the root of the sum of squares of those before and itself.

    `steps` is "constant", "adagrad" (per feature) or "adagrad-norm" (as a whole).
    """

    fixed = ("steps",)
    steps: str

    def _check_parameters(self) -> None:
        check_choice("steps", self.steps, STEPS)
        super()._check_parameters()

    @property
    def _by_blocks(self) -> bool:  # type: ignore[override]
        """An update that fails has changed the sums already, so all has to be put back."""
        return self.steps != "constant"

    def _more_state(self, n_features: int) -> dict[str, Floats]:
        if self.steps == "constant":
            return {}
        return {"squares": np.zeros(n_features if self.steps == "adagrad" else 1)}
