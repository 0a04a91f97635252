"""The state of a linear learner."""

from typing import TYPE_CHECKING, Any

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.sparse_rounds import LAG, WEIGHT, WIDTH
from perceptrank.learners.starting import NO_SIGNS, check_signs
from perceptrank.learners.tally import (
    CURRENT_LOSS,
    LARGEST_REACH,
    LARGEST_WEIGHT,
    MASS,
    MEAN_LOSS,
    MIXINGS,
    ROUND_WEIGHT,
    ROUNDS,
    SQUARED_REACH,
    SQUARED_STEPS,
    TALLY_LENGTH,
    UPDATE_WEIGHT,
    UPDATES,
    USED_LOSS,
    Iterates,
)
from perceptrank.stream.memory import check_room
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
_LOSSES = {"mean_loss": MEAN_LOSS, "current_loss": CURRENT_LOSS, "used_loss": USED_LOSS}  # left out while 0
# Left out while all weights of queries are 1, as earlier versions know none.
_WEIGHTS = {"weight_of_rounds": ROUND_WEIGHT, "weight_of_updates": UPDATE_WEIGHT, "largest_weight": LARGEST_WEIGHT}


class State:
    """Everything that a learner has learned: enough to continue as if it had never stopped.

    A learner never changes the state that it holds: it learns on a copy, which then replaces the state in a single
    assignment. Whoever reads a learner, from whichever thread, takes its state once and has all parts of one moment.

    Attributes
    ----------
    has_begun : bool
        True if the number of features is known, and all arrays are there.
    is_sparse : bool
        True if the first features, after the transforms, were sparse: weights are then in the table of `sparse_rounds`.
    core : tuple of arrays
        Weights, their total, tally, AdaGrad's squares, and the signs if there are any, as passes over dense features
        take them; empty before the first query, and the first two if the state is sparse.
    signs : array
        The signs that weights keep, empty if none is constrained. They never change, so that copies share them.
    table : array
        The table of a sparse state.
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
        "is_sparse",
        "members",
        "more",
        "n_inputs",
        "queries",
        "signs",
        "table",
        "transforms",
    )

    def __init__(self, transforms: list[Transform]) -> None:
        self.has_begun = self.is_sparse = False
        self._whole: Floats = _NONE
        self.signs: Floats = NO_SIGNS
        self.table: Floats = _NONE
        self.core: Iterates = (_NONE, _NONE, _NONE, _NONE)
        self.more: dict[str, Floats] = {}
        self.queries = 0
        self.feature_names: tuple[str, ...] | None = None
        self.n_inputs = 0
        self.transforms = transforms
        self.inner: Learner | None = None
        self.members: list[Learner] = []

    def begin(
        self,
        n_features: int,
        more: dict[str, Floats],
        *,
        sparse: bool = False,
        weights: Floats | None = None,
        signs: Floats = NO_SIGNS,
    ) -> None:
        """Set the initial values of all arrays: the weights, zeros if there are none, and the signs that they keep."""
        self.more, self.signs = more, signs
        self._arrange(np.zeros(2 * n_features + TALLY_LENGTH), sparse=sparse)
        if weights is not None:
            check_signs("initial_weights", weights, signs)
            self._own_weights[:] = weights

    def _arrange(self, whole: Floats, *, sparse: bool) -> None:
        """Make the arrays that a pass takes parts of one, so that copying them is cheap enough for every query."""
        n = (len(whole) - TALLY_LENGTH) // 2
        self.has_begun, self.is_sparse, self._whole = True, sparse, whole
        tally, squares = whole[2 * n :], self.more.get("squares", _NONE)
        self.table = whole[: 2 * n] if sparse else _NONE
        self.core = (_NONE, _NONE, tally, squares) if sparse else (whole[:n], whole[n : 2 * n], tally, squares)
        if len(self.signs):
            self.core = (*self.core, self.signs)

    @property
    def _own_weights(self) -> Floats:
        """The weights as arrays hold them: the current iterate, but for the factor of a sparse state that fades."""
        return self.table[WEIGHT::WIDTH] if self.is_sparse else self.core[0]

    @property
    def weights(self) -> Floats:
        """The current iterate; a copy if the state is sparse and fades."""
        own = self._own_weights
        return self.more["faded"][0] * own if self.is_sparse and "faded" in self.more else own

    @property
    def total(self) -> Floats:
        """The sum of all iterates after the first, times the weights of queries; a copy if the state is sparse."""
        if self.is_sparse and "faded" in self.more:
            factor, since = self.more["faded"]
            return factor * (since * self._own_weights - self.table[LAG::WIDTH])
        return self.tally[ROUND_WEIGHT] * self.weights - self.table[LAG::WIDTH] if self.is_sparse else self.core[1]

    def table_scale(self, *, mean: bool) -> tuple[float, float]:
        """Return share and factor with which (weight - lag * share) * factor of a table is the mean, or the iterate."""
        whole = float(self.tally[ROUND_WEIGHT])
        if "faded" not in self.more:
            return (1.0 / whole if mean else 0.0), 1.0
        factor, since = map(float, self.more["faded"])
        return (1.0 / since, factor * since / whole) if mean else (0.0, factor)

    @property
    def takes_sparse(self) -> bool:
        """True if features are sparse before the transforms, rather than made so by one of them."""
        return self.is_sparse and not any(transform.makes_sparse for transform in self.transforms)

    def mean(self) -> Floats:
        """Return the mean of all iterates after the first, weighted as their queries; raise if there are none."""
        if not self.is_sparse:
            return self.total * (1.0 / self.tally[ROUND_WEIGHT])
        share, factor = self.table_scale(mean=True)
        return (self._own_weights - self.table[LAG::WIDTH] * share) * factor

    @property
    def tally(self) -> Floats:
        """Counters and sums, see `rounds`."""
        return self.core[2]

    @property
    def n_features(self) -> int:
        """Number of features that there are weights for, after the transforms."""
        return (len(self._whole) - TALLY_LENGTH) // 2 if self.has_begun else 0

    def copy(self) -> "State":
        """Return a copy that can be changed without changing this state."""
        state = type(self).__new__(type(self))
        state.more = {name: values.copy() for name, values in self.more.items()} if self.more else {}
        state.signs = self.signs
        if self.has_begun:
            state._arrange(self._whole.copy(), sparse=self.is_sparse)
        else:
            state.has_begun = state.is_sparse = False
            state._whole, state.core, state.table = self._whole, self.core, self.table
        state.queries, state.n_inputs = self.queries, self.n_inputs
        state.feature_names, state.inner = self.feature_names, self.inner
        state.transforms = make_transforms(self.transforms) if self.transforms else []
        state.members = [one._twin() for one in self.members] if self.members else []
        return state

    def __reduce__(self) -> Any:
        kept = self.queries, self.n_inputs, self.feature_names, self.inner, self.members
        return _unpickled, (self.transforms, self._whole, self.signs, self.more, self.is_sparse, *kept)

    def as_plain(self) -> dict[str, Any]:
        """Return the arrays as numbers and lists, for a model file."""
        counts = {name: int(self.tally[place]) for name, place in _COUNTS.items()}
        sums = {name: float(self.tally[place]) for name, place in _SUMS.items()}
        sums |= {name: float(self.tally[place]) for name, place in _LOSSES.items() if self.tally[place] > 0}
        if not self.has_equal_weights:
            sums |= {name: float(self.tally[place]) for name, place in _WEIGHTS.items()}
        plain: dict[str, Any] = {**counts, **sums}
        if self.tally[MIXINGS] > 0:
            plain["mixings"] = int(self.tally[MIXINGS])
        if self.is_sparse:
            plain |= {"weights": _non_zeros(self._own_weights), "lags": _non_zeros(self.table[LAG::WIDTH])}
            plain["features"] = self.n_features
            return plain | {name: _non_zeros(values.ravel()) for name, values in self.more.items()}
        plain |= {"weights": self.weights.tolist(), "total": self.total.tolist()}
        return plain | {name: values.ravel().tolist() for name, values in self.more.items()}

    def restore(self, plain: dict[str, Any], more: dict[str, Floats], signs: Floats = NO_SIGNS) -> None:
        """Restore the arrays that `as_plain` converted, `more` giving the shapes; raise if they are inconsistent."""
        sparse = "lags" in plain
        self.begin(width_of(plain), more, sparse=sparse, signs=signs)
        read = _from_non_zeros if sparse else finite_numbers
        self._own_weights[:] = read("weights", plain["weights"], self.n_features)
        if sparse:
            self.table[LAG::WIDTH] = read("lags", plain["lags"], self.n_features)
        else:
            self.total[:] = read("total", plain["total"], self.n_features)
        check_signs("weights", self.weights, signs)
        for name, values in more.items():
            values[...] = read(name, plain[name], values.size).reshape(values.shape)
        for name, place in _COUNTS.items():
            self.tally[place] = whole_number(name, plain[name])
        self.tally[MIXINGS] = whole_number("mixings", plain.get("mixings", 0))
        self.tally[ROUND_WEIGHT], self.tally[UPDATE_WEIGHT] = self.tally[ROUNDS], self.tally[UPDATES]
        self.tally[LARGEST_WEIGHT] = 1.0 if self.tally[ROUNDS] > 0 else 0.0
        weighted = any(name in plain for name in _WEIGHTS)
        sums = _SUMS | (_WEIGHTS if weighted else {}) | {name: _LOSSES[name] for name in _LOSSES if name in plain}
        for name, place in sums.items():
            self.tally[place] = finite_numbers(name, [plain[name]], 1)[0]
            if self.tally[place] < 0:
                raise ValueError(f"{name} must not be negative, got {plain[name]}")
        self._check_weights()

    def _check_weights(self) -> None:
        """Raise if the sums of weights of queries, read from a file, are none that rounds can have."""
        rounds, updates, largest = (self.tally[place] for place in (ROUNDS, UPDATES, LARGEST_WEIGHT))
        weight, moved = self.tally[ROUND_WEIGHT], self.tally[UPDATE_WEIGHT]
        if (weight > 0) != (rounds > 0) or (moved > 0) != (updates > 0) or (largest > 0) != (rounds > 0):
            raise ValueError(
                "weight_of_rounds, weight_of_updates and largest_weight must be positive if there are rounds or "
                f"updates, and only then, got {weight}, {moved} and {largest}"
            )

    @property
    def has_equal_weights(self) -> bool:
        """True if all rounds so far were queries of weight 1."""
        sums_are_counts = (self.tally[[ROUND_WEIGHT, UPDATE_WEIGHT]] == self.tally[[ROUNDS, UPDATES]]).all()
        return bool(sums_are_counts and self.tally[LARGEST_WEIGHT] <= 1.0)


def width_of(plain: dict[str, Any]) -> int:
    """Return the number of weights of a state that `State.as_plain` converted."""
    if "lags" not in plain:
        return len(plain["weights"])
    width = whole_number("features", plain["features"])
    if not 0 < width < 2**31:
        raise ValueError(f"features must be from 1 to {2**31 - 1}, got {width}")
    check_room(f"a model of {width} features", 2 * width)
    return width


def _non_zeros(values: Floats) -> dict[str, list[float]]:
    """Return a vector of mostly zeros as plain values."""
    places = np.flatnonzero(values)
    return {"places": places.tolist(), "values": values[places].tolist()}


def _from_non_zeros(name: str, plain: Any, n: int) -> Floats:
    """Return the vector that `_non_zeros` converted; raise if it is inconsistent."""
    values = finite_numbers(name, plain["values"], len(plain["values"]))
    places = finite_numbers(name, plain["places"], len(values))
    rising = len(places) == 0 or (places[0] >= 0 and places[-1] < n and (np.diff(places) > 0).all())
    if not rising or (places % 1).any():
        raise ValueError(f"places of {name} must be whole numbers that increase, all below {n}")
    vector = np.zeros(n)
    vector[places.astype(np.int64)] = values
    return vector


def _unpickled(
    transforms: list[Transform], whole: Floats, signs: Floats, more: dict[str, Floats], is_sparse: bool, *rest: Any
) -> State:
    state = State(transforms)
    state.more, state.signs = more, signs
    if len(whole):
        state._arrange(whole, sparse=is_sparse)
    state.queries, state.n_inputs, state.feature_names, state.inner, state.members = rest
    return state
