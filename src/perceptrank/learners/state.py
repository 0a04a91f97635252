"""The state of a linear learner."""

from typing import Any

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.rounds import (
    LARGEST_REACH,
    MASS,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    TALLY_LENGTH,
    UPDATES,
    Iterates,
)

_NONE: Floats = np.empty(0)
_COUNTS = {"rounds": ROUNDS, "updates": UPDATES}
_SUMS = {
    "mass": MASS,
    "squared_reach": SQUARED_REACH,
    "squared_steps": SQUARED_STEPS,
    "largest_squared_reach": LARGEST_REACH,
}


class State:
    """The complete state of a learner: enough to continue as if it had never stopped.

    `core` holds the arrays of every learner, as passes take them; `more` those of particular learners, by name.
    """

    __slots__ = ("core", "more")

    def __init__(self, core: Iterates, more: dict[str, Floats]) -> None:
        self.core = core
        self.more = more

    @classmethod
    def zero(cls, n_features: int, more: dict[str, Floats]) -> "State":
        """Return the initial state."""
        zeros = np.zeros(n_features), np.zeros(n_features), np.zeros(TALLY_LENGTH)
        return cls((*zeros, more.get("squares", _NONE)), more)

    @property
    def weights(self) -> Floats:
        """The current iterate."""
        return self.core[0]

    @property
    def total(self) -> Floats:
        """The sum of all iterates after the first."""
        return self.core[1]

    @property
    def tally(self) -> Floats:
        """Counters and sums, see `rounds`."""
        return self.core[2]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.core[0])

    def copy(self) -> "State":
        """Return a deep copy."""
        more = {name: values.copy() for name, values in self.more.items()}
        weights, total, tally, _ = self.core
        return State((weights.copy(), total.copy(), tally.copy(), more.get("squares", _NONE)), more)

    def as_plain(self) -> dict[str, Any]:
        """Return the state as numbers and lists, for a model file."""
        counts = {name: int(self.tally[place]) for name, place in _COUNTS.items()}
        sums = {name: float(self.tally[place]) for name, place in _SUMS.items()}
        plain = {**counts, **sums, "weights": self.weights.tolist(), "total": self.total.tolist()}
        return plain | {name: values.ravel().tolist() for name, values in self.more.items()}

    @classmethod
    def from_plain(cls, plain: dict[str, Any], more: dict[str, Floats]) -> "State":
        """Restore the state that `as_plain` converted, `more` giving the shapes; raise if it is inconsistent."""
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
