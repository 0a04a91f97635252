"""The state of a linear learner."""

from typing import TYPE_CHECKING, Any

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
from perceptrank.transforms.parsing import make_transforms
from perceptrank.transforms.transform import Transform

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner

_NONE: Floats = np.empty(0)
_COUNTS = {"rounds": ROUNDS, "updates": UPDATES}
_SUMS = {
    "mass": MASS,
    "squared_reach": SQUARED_REACH,
    "squared_steps": SQUARED_STEPS,
    "largest_squared_reach": LARGEST_REACH,
}


class State:
    """Everything that a learner has learned: enough to continue as if it had never stopped.

    A learner never changes the state that it holds: it learns on a copy, which then replaces the state in a single
    assignment. Whoever reads a learner, from whichever thread, takes its state once and has all parts of one moment.

    Attributes
    ----------
    has_begun : bool
        True if the number of features is known, and all arrays are there.
    core : tuple of arrays
        The arrays of every learner, as passes take them; empty before the first query.
    more : dict of arrays
        Those of particular learners, by name.
    queries : int
        Number of queries learned from.
    n_inputs : int
        Number of features before the transforms.
    feature_names : tuple of str or None
        Names of the features, if the data had them.
    transforms : list of Transform
        The transforms before the weights, with their statistics.
    inner : Learner or None
        The copy that a wrapper made of its learner.
    members : list of Learner
        Those of an ensemble, each with its own state.
    """

    __slots__ = (
        "_whole",
        "core",
        "feature_names",
        "has_begun",
        "inner",
        "members",
        "more",
        "n_inputs",
        "queries",
        "transforms",
    )

    def __init__(self, transforms: list[Transform]) -> None:
        self.has_begun = False
        self._whole: Floats = _NONE
        self.core: Iterates = (_NONE, _NONE, _NONE, _NONE)
        self.more: dict[str, Floats] = {}
        self.queries = 0
        self.feature_names: tuple[str, ...] | None = None
        self.n_inputs = 0
        self.transforms = transforms
        self.inner: Learner | None = None
        self.members: list[Learner] = []

    def begin(self, n_features: int, more: dict[str, Floats]) -> None:
        """Set the initial values of all arrays."""
        self.more = more
        self._arrange(np.zeros(2 * n_features + TALLY_LENGTH))

    def _arrange(self, whole: Floats) -> None:
        """Make the arrays that a pass takes parts of one, so that copying them is cheap enough for every query."""
        n = (len(whole) - TALLY_LENGTH) // 2
        self.has_begun, self._whole = True, whole
        self.core = whole[:n], whole[n : 2 * n], whole[2 * n :], self.more.get("squares", _NONE)

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
        """Number of features that there are weights for, after the transforms."""
        return len(self.core[0])

    def copy(self) -> "State":
        """Return a copy that can be changed without changing this state."""
        state = State.__new__(State)
        state.more = {name: values.copy() for name, values in self.more.items()} if self.more else {}
        if self.has_begun:
            state._arrange(self._whole.copy())
        else:
            state.has_begun, state._whole, state.core = False, self._whole, self.core
        state.queries, state.n_inputs = self.queries, self.n_inputs
        state.feature_names, state.inner = self.feature_names, self.inner
        state.transforms = make_transforms(self.transforms) if self.transforms else []
        state.members = [one._twin() for one in self.members] if self.members else []
        return state

    def __reduce__(self) -> Any:
        kept = self._whole, self.more, self.queries, self.n_inputs, self.feature_names, self.inner, self.members
        return _unpickled, (self.transforms, *kept)

    def as_plain(self) -> dict[str, Any]:
        """Return the arrays as numbers and lists, for a model file."""
        counts = {name: int(self.tally[place]) for name, place in _COUNTS.items()}
        sums = {name: float(self.tally[place]) for name, place in _SUMS.items()}
        plain = {**counts, **sums, "weights": self.weights.tolist(), "total": self.total.tolist()}
        return plain | {name: values.ravel().tolist() for name, values in self.more.items()}

    def restore(self, plain: dict[str, Any], more: dict[str, Floats]) -> None:
        """Restore the arrays that `as_plain` converted, `more` giving the shapes; raise if they are inconsistent."""
        self.begin(len(plain["weights"]), more)
        self.weights[:] = finite_numbers("weights", plain["weights"], len(self.weights))
        self.total[:] = finite_numbers("total", plain["total"], len(self.weights))
        for name, values in more.items():
            values[...] = finite_numbers(name, plain[name], values.size).reshape(values.shape)
        for name, place in _COUNTS.items():
            self.tally[place] = whole_number(name, plain[name])
        for name, place in _SUMS.items():
            self.tally[place] = finite_numbers(name, [plain[name]], 1)[0]
            if self.tally[place] < 0:
                raise ValueError(f"{name} must not be negative, got {plain[name]}")


def _unpickled(transforms: list[Transform], whole: Floats, more: dict[str, Floats], *rest: Any) -> State:
    state = State(transforms)
    state.more = more
    if len(whole):
        state._arrange(whole)
    state.queries, state.n_inputs, state.feature_names, state.inner, state.members = rest
    return state
