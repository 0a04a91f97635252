"""What a linear learner has learned."""

from typing import Any, NamedTuple

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.list_pass import (
    LARGEST_REACH,
    MASS,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    TALLY_LENGTH,
    UPDATES,
)

_NONE: Floats = np.empty(0)
_COUNTS = {"rounds": ROUNDS, "updates": UPDATES}
_SUMS = {
    "mass": MASS,
    "squared_reach": SQUARED_REACH,
    "squared_steps": SQUARED_STEPS,
    "largest_squared_reach": LARGEST_REACH,
}


class State(NamedTuple):
    """All that a learner has learned: enough to go on as if it had never stopped."""

    weights: Floats
    total: Floats  # the sum of all iterates after the first
    tally: Floats
    more: dict[str, Floats]  # what only some learners have, by name

    @classmethod
    def zero(cls, n_features: int, more: dict[str, Floats]) -> "State":
        """Where every learner starts."""
        return cls(np.zeros(n_features), np.zeros(n_features), np.zeros(TALLY_LENGTH), more)

    @property
    def core(self) -> tuple[Floats, Floats, Floats]:
        """What all learners have."""
        return self.weights, self.total, self.tally

    @property
    def squares(self) -> Floats:
        """Sums of squares of all steps, per feature or in all, empty unless steps are AdaGrad's."""
        return self.more.get("squares", _NONE)

    def copy(self) -> "State":
        """A copy that later rounds leave alone."""
        more = {name: values.copy() for name, values in self.more.items()}
        return State(self.weights.copy(), self.total.copy(), self.tally.copy(), more)

    def as_plain(self) -> dict[str, Any]:
        """The state as numbers and lists, for a model file."""
        counts = {name: int(self.tally[place]) for name, place in _COUNTS.items()}
        sums = {name: float(self.tally[place]) for name, place in _SUMS.items()}
        plain = {**counts, **sums, "weights": self.weights.tolist(), "total": self.total.tolist()}
        return plain | {name: values.ravel().tolist() for name, values in self.more.items()}

    @classmethod
    def from_plain(cls, plain: dict[str, Any], more: dict[str, Floats]) -> "State":
        """What `as_plain` was made of, `more` having the shapes; raises if it does not hold together."""
        state = cls.zero(len(plain["weights"]), more)
        state.weights[:] = finite_numbers("weights", plain["weights"], len(state.weights))
        state.total[:] = finite_numbers("total", plain["total"], len(state.weights))
        for name, values in more.items():
            values[...] = finite_numbers(name, plain[name], values.size).reshape(values.shape)
        for name, place in _COUNTS.items():
            state.tally[place] = whole_number(name, plain[name])
        for name, place in _SUMS.items():
            state.tally[place] = finite_numbers(name, [plain[name]], 1)[0]
            if state.tally[place] < 0:
                raise ValueError(f"{name} must not be negative, got {plain[name]}")
        return state
