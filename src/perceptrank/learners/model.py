"""The model of a learner: all that it has learned at one moment, and how that ranks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.scoring import score_rows
from perceptrank.learners.sparse_rounds import LAG, WEIGHT, WIDTH, score_by_table
from perceptrank.learners.starting import NO_SIGNS, Beginning, check_signs
from perceptrank.learners.tally import (
    CHANGES,
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
from perceptrank.stream.frames import encode_frame, is_frame
from perceptrank.stream.grouping import group_rows
from perceptrank.stream.memory import check_room
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import (
    are_finite,
    as_any_features,
    as_identifiers,
    bad_feature,
    check_positive_whole,
    column_names,
    find_bad_feature,
    read_only,
)
from perceptrank.theory.theorems import HEAD_START, MEAN_FACTOR
from perceptrank.transforms.registry import make_transforms
from perceptrank.transforms.sharing import share
from perceptrank.transforms.transform import Transform, check_outputs

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner

TRANSFORMED_BYTES = 2**21
_WIDEST_BYTES = 2**24
_MOST_MADE_UP = 2**20  # names of features that have none, if not as many weights are stored

_NONE: Floats = np.empty(0)
_NO_QUERIES: Ints = np.zeros(0, dtype=np.int64)  # where nothing depends on them
_COUNTS = {"rounds": ROUNDS, "updates": UPDATES}
_RARE = {"mixings": MIXINGS, "changes": CHANGES}  # left out while 0
_SUMS = {
    "mass": MASS,
    "squared_reach": SQUARED_REACH,
    "squared_steps": SQUARED_STEPS,
    "largest_squared_reach": LARGEST_REACH,
}
_LOSSES = {"mean_loss": MEAN_LOSS, "current_loss": CURRENT_LOSS, "used_loss": USED_LOSS}  # left out while 0
# Left out while all query weights are 1.
_WEIGHTS = {"weight_of_rounds": ROUND_WEIGHT, "weight_of_updates": UPDATE_WEIGHT, "largest_weight": LARGEST_WEIGHT}


class LinearPart(NamedTuple):
    """Weights of features after the transforms of several models, one after the other; named if those of a member."""

    name: str
    steps: list[tuple["Model", list[Transform]]]
    weights: Floats


class Counts(NamedTuple):
    """Counters and sums of all rounds so far, see `tally`; sums are weighted as the queries are."""

    rounds: int
    updates: int
    mixings: int
    changes: int
    mass: float
    squared_steps: float
    largest_squared_reach: float
    largest_weight: float
    mean_loss: float
    current_loss: float
    used_loss: float


class Model:
    """Everything that a learner has learned at one moment: enough to rank, and to continue as if it had never stopped.

    `learner.model` is the current one, and never changes: the learner learns on a copy, which then replaces it in a
    single assignment. Whoever takes it once, from whichever thread, has all parts of one moment.

    Attributes
    ----------
    kind, average : str, bool
        Class of the learner; True if it ranks with the mean of all iterates.
    beginning : Beginning
        The weights to start from, and the signs that weights keep.
    has_begun : bool
        True if the number of features is known, and all arrays are there.
    is_sparse : bool
        True if the first features, after the transforms, were sparse: weights are then in the table of `sparse_rounds`.
    core : tuple of arrays
        Weights, their total, tally, AdaGrad's squares, and the signs if there are any, as passes over dense features
        take them; empty before the first query, and the first two if the model is sparse.
    signs : array
        The signs that weights keep, empty if none is constrained; copies share them.
    table : array
        The table of a sparse model.
    more : dict of arrays
        Those of particular learners, by name.
    queries, n_inputs : int
        Number of queries learned from, and of features before the transforms.
    feature_names : tuple of str or None
        Names of the features, if the data had them.
    transforms, is_held : list of Transform, bool
        The transforms before the weights, with their statistics; True if these stay as they are when it learns.
    inner, members : Learner or None, list of Learner
        The copy that a wrapper made of its learner; those of an ensemble, each with its own model.
    zero_missing : bool
        True if missing values were replaced by 0 in the data, as `perceptrank learn --zero-missing` does.

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = pr.SlamPerceptron(learning_rate=1.0)
    >>> before = ranker.model
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 0.0]], [1, 0])
    True
    >>> ranker.model.queries, ranker.model.coefficients, before.queries
    (1, array([1., 0.]), 0)
    """

    never_negative: ClassVar[tuple[str, ...]] = ("squares",)  # arrays of `more`

    def __init__(self, transforms: list[Transform], kind: str = "", *, average: bool = False) -> None:
        self.kind, self.average, self.beginning = kind, average, Beginning()
        self.has_begun = self.is_sparse = self.zero_missing = False
        self._whole: Floats = _NONE
        self.signs: Floats = NO_SIGNS
        self.table: Floats = _NONE
        self.core: Iterates = (_NONE, _NONE, _NONE, _NONE)
        self.more: dict[str, Floats] = {}
        self.queries = 0
        self.feature_names: tuple[str, ...] | None = None
        self.n_inputs = 0
        self.transforms, self.is_held = transforms, False
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
        """The current iterate; a copy if the model is sparse and fades."""
        own = self._own_weights
        return self.more["faded"][0] * own if self.is_sparse and "faded" in self.more else own

    @property
    def total(self) -> Floats:
        """The sum of all iterates after the first, times the query weights; a copy if the model is sparse."""
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

    def copy(self) -> "Model":
        """Return a copy that can be changed without changing this model."""
        state = type(self).__new__(type(self))
        if type(self) is not Model:
            state.__dict__.update(self.__dict__)
        # Of the base class one by one, which takes a microsecond less.
        state.kind, state.average, state.beginning = self.kind, self.average, self.beginning
        state.more = {name: values.copy() for name, values in self.more.items()} if self.more else {}
        state.signs = self.signs
        if self.has_begun:
            state._arrange(self._whole.copy(), sparse=self.is_sparse)
        else:
            state.has_begun = state.is_sparse = False
            state._whole, state.core, state.table = self._whole, self.core, self.table
        state.queries, state.n_inputs = self.queries, self.n_inputs
        state.feature_names, state.inner, state.is_held = self.feature_names, self.inner, self.is_held
        state.zero_missing = self.zero_missing
        state.transforms = make_transforms(self.transforms) if self.transforms else []
        state.members = [member.with_model(member.model.copy()) for member in self.members] if self.members else []
        return state

    def with_zero_missing(self) -> "Model":
        """Return a copy that says that missing values were replaced by 0 in the data."""
        model = self.copy()
        model.zero_missing = True
        return model

    # Reading

    def require_learned(self) -> Self:
        """Return itself; raise if nothing was learned."""
        if not self.has_begun:
            raise AttributeError(f"this {self.kind} has not learned anything yet")
        return self

    @property
    def ranks_with(self) -> str:
        """The weights that rank the next query: the "mean" of all iterates, or the "current" one."""
        with_mean = self.average and self.tally[ROUNDS] > 0 and is_mean_safe(self.tally)
        return "mean" if with_mean else "current"

    @property
    def coefficients(self) -> Floats:
        """The weights that rank, of features after `all_transforms`; a copy."""
        return self.mean() if self.ranks_with == "mean" else self.weights.copy()

    @property
    def all_transforms(self) -> list[Transform]:
        """The transforms that features go through before `coefficients` apply to them."""
        return self.transforms

    @property
    def counts(self) -> Counts:
        """Counters and sums of all rounds so far."""
        tally = self.tally if self.has_begun else np.zeros(TALLY_LENGTH)
        whole = (int(tally[place]) for place in (ROUNDS, UPDATES, MIXINGS, CHANGES))
        places = _SUMS | _WEIGHTS | _LOSSES
        sums: Any = {name: float(tally[places[name]]) for name in Counts._fields[4:]}
        return Counts(*whole, **sums)

    def check_signs(self, what: str, weights: Floats) -> None:
        """Raise unless weights of transformed features have the signs that those of the model keep."""
        check_signs(what, weights, self.signs)

    @property
    def parts(self) -> list[LinearPart]:
        """Parts whose sum is the score: weights of features, each after transforms of its own."""
        return [LinearPart("", [(self, self.all_transforms)], self.coefficients)]

    @property
    def learners(self) -> list["Learner"]:
        """The learners that it is made of: the one that is wrapped, or the members of an ensemble."""
        return self.members if self.inner is None else [self.inner]

    @property
    def is_linear(self) -> bool:
        """True if it ranks by weights of features."""
        return all(learner.model.is_linear for learner in self.learners)

    def check_weights(self, weights: Floats) -> None:
        """Raise if queries cannot have these weights, whatever the learners say that it is made of."""

    def follow_members(self) -> None:
        """Update the weights after those of the members, where they are made of them."""

    @property
    def has_transforms(self) -> bool:
        """True if features are transformed, so that a score may depend on the other documents of a query."""
        return bool(self.all_transforms)

    @property
    def takes_missing(self) -> bool:
        """True if features may be NaN: the first transform takes them, or those of all members do."""
        if self.transforms:
            return self.transforms[0].accepts_missing
        return bool(self.members) and all(member.model.takes_missing for member in self.members)

    @property
    def needed_names(self) -> tuple[str, ...] | None:
        """Names of the features that streams must have, in their order; None if any do."""
        takes_any = bool(self.transforms) and self.transforms[0].accepts_any_columns
        return None if takes_any else self.feature_names

    def input_names(self) -> tuple[str, ...]:
        """Return the names of the features before the transforms, f1, f2, … if they have none; raise if too many."""
        if self.feature_names is not None:
            return self.feature_names
        most = max(_MOST_MADE_UP, 0 if self.is_sparse else self.n_features)
        if self.n_inputs > most:
            raise ValueError(
                f"this model has {self.n_inputs:,} features without names, and no more than {most:,} can be listed: "
                "learn from data whose features have names, `feature_names=…`, or from fewer columns"
            )
        return tuple(f"f{place}" for place in range(1, self.n_inputs + 1))

    def check_features(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise if features do not match those that were learned; by name, or if they have none, by number."""
        if names and self.has_begun and self.transforms and self.transforms[0].accepts_any_columns:
            if self.feature_names is None:
                raise ValueError("the model was learned from features without names: give X without names")
            return
        if self.has_begun and n_features != self.n_inputs:
            raise ValueError(
                f"X has {n_features} features, but {self.kind} is expecting "
                f"{self.n_inputs} features as input{_difference(names, self.feature_names)}"
            )
        if names and self.feature_names and names != self.feature_names:
            pairs = zip(names, self.feature_names, strict=True)
            name, expected = next((name, learned) for name, learned in pairs if name != learned)
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"got {name!r} where {expected!r} was learned{_difference(names, self.feature_names)}"
            )

    # Ranking

    def scores(self, stream: QueryStream) -> Floats:
        """Return the scores of all documents of a stream, features transformed query by query."""
        self.check_features(stream.n_features, stream.feature_names)
        names = stream.feature_names or self.feature_names
        try:
            scores = [self.block_scores(block.X, block.offsets, names) for block in self.blocks(stream)]
        except ValueError:
            self.check_values(stream)
            raise
        return np.concatenate([np.empty(0), *scores])

    def predict(
        self, X: AnyFeatures, names: tuple[str, ...] | None, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
    ) -> Floats:
        """Return one score per row of X, whose columns have these names; the rows of a query may be apart."""
        if qid is not None and group is not None:
            raise ValueError("give qid or group, not both")
        identifiers = None if qid is None else as_identifiers(qid)
        if identifiers is not None and identifiers.shape != (len(X),):
            raise ValueError(f"qid must have one entry per document ({len(X)}), got {identifiers.shape}")
        if len(X) == 0 or (group is None and not self.has_transforms):
            return self.block_scores(X, _NO_QUERIES, self.feature_names)
        rows = None if identifiers is None else group_rows(identifiers, len(X))[0]
        if identifiers is not None and rows is not None:
            X, identifiers = X[rows], identifiers[rows]
        grades, names = np.zeros(len(X)), names or self.feature_names
        stream = QueryStream.from_arrays(X, grades, qid=identifiers, group=group, feature_names=names, missing="keep")
        scores = np.empty(len(X))
        scores[slice(None) if rows is None else rows] = self.scores(stream)
        return scores

    def block_scores(self, X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None) -> Floats:
        """Return the scores of the queries with these offsets, whose features are known to fit; names are theirs."""
        if not self.has_begun:  # all documents score 0, whatever transforms have yet to see
            if not isinstance(X, SparseFeatures) and self.takes_missing:
                X = np.where(np.isnan(X), 0.0, X)
            return self.linear_scores(X, names)
        return self.linear_scores(self.transformed(self.all_transforms, X, offsets, names), names)

    def transformed(
        self, transforms: list[Transform], X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None
    ) -> AnyFeatures:
        """Return features after transforms of this model, whose columns have these names."""
        return transformed(named(self, transforms, names), as_learned(self, X), offsets, names)

    def linear_scores(self, X: AnyFeatures, names: tuple[str, ...] | None = None, *, current: bool = False) -> Floats:
        """Return the scores of transformed features; names are those of features before, for an error.

        With `current`, they are those by the current weights, even if the mean ranks.
        """
        by_mean = self.has_begun and not current and self.ranks_with == "mean"
        scores = np.zeros(X.shape[0])
        if isinstance(X, SparseFeatures):
            is_finite = are_finite(X)
            if self.has_begun:
                share, factor = self.table_scale(mean=by_mean)
                is_finite = score_by_table(X.arrays, self.table, share, factor, scores)
        else:
            weights = np.zeros(X.shape[1])
            if self.has_begun:
                weights = self.weights if current else self.coefficients
            is_finite = score_rows(read_only(X), 0, len(X), weights, scores)
        if not is_finite:
            if are_finite(X):
                raise ValueError("scores overflow: the features are too large")
            raise bad_feature(X, 0, names)
        return scores

    def blocks(self, stream: QueryStream) -> Iterator[QueryStream]:
        """Iterate over blocks that are small enough for their transformed features to stay in the cache."""
        if stream.is_sparse and self.has_begun and not self.takes_sparse:
            return _dense_blocks(stream)
        transforms = self.all_transforms
        if not transforms or stream.is_sparse:
            return stream.blocks()
        widths = [max(1, stream.n_features)]
        for transform in transforms:
            widths.append(max(1, transform.n_outputs(widths[-1])))
        # Features that become many take memory in proportion to what they become.
        return stream.blocks(min(TRANSFORMED_BYTES, _WIDEST_BYTES * widths[0] // max(widths)))

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document, a radius for `guarantee`; it may be infinite.

        There are `n_features` before the transforms, and the longest query has `longest` documents.

        Examples
        --------
        >>> import perceptrank as pr
        >>> round(pr.ListwisePerceptron(transforms="auto").model.largest_norm(136, longest=120), 1)
        130.9
        """
        check_positive_whole("n_features", n_features)
        check_positive_whole("longest", longest)
        norm = np.inf
        for transform in self.all_transforms:
            norm = transform.largest_norm_after(norm, n_features, longest)
            n_features = transform.n_outputs(n_features)
        return norm

    def check_values(self, stream: QueryStream) -> None:
        """Raise if a feature has a value that cannot be taken, such as one that is missing; passes notice only that."""
        start = 0
        for block in stream.blocks():
            bad = find_bad_feature(block.X, stream.feature_names, keep_missing=self.takes_missing, first_row=start)
            if bad is not None:
                raise bad from None
            start += block.n_documents

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.queries} queries, {self.n_inputs} features)"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("core", "table")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, core=(_NONE, _NONE, _NONE, _NONE), table=_NONE)
        if self.has_begun:
            self._arrange(self._whole, sparse=self.is_sparse)

    def as_plain(self) -> dict[str, Any]:
        """Return the arrays as numbers and lists, for a model file."""
        tally = self.tally
        sums = _SUMS | {name: place for name, place in _LOSSES.items() if tally[place] > 0}
        sums |= {} if self.has_equal_weights else _WEIGHTS
        plain: dict[str, Any] = {name: int(tally[place]) for name, place in _COUNTS.items()}
        plain |= {name: float(tally[place]) for name, place in sums.items()}
        plain |= {name: int(tally[place]) for name, place in _RARE.items() if tally[place] > 0}
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
        for name, place in (_COUNTS | _RARE).items():
            self.tally[place] = whole_number(name, plain.get(name, 0) if name in _RARE else plain[name])
        self.tally[ROUND_WEIGHT], self.tally[UPDATE_WEIGHT] = self.tally[ROUNDS], self.tally[UPDATES]
        self.tally[LARGEST_WEIGHT] = 1.0 if self.tally[ROUNDS] > 0 else 0.0
        weighted = any(name in plain for name in _WEIGHTS)
        sums = _SUMS | (_WEIGHTS if weighted else {}) | {name: _LOSSES[name] for name in _LOSSES if name in plain}
        for name, place in sums.items():
            self.tally[place] = finite_numbers(name, [plain[name]], 1)[0]
            if self.tally[place] < 0:
                raise ValueError(f"{name} must not be negative, got {plain[name]}")
        self._check_weights()
        for name in self.never_negative:
            if name in more and (more[name] < 0).any():
                raise ValueError(f"{name} must not be negative")
        factor, since = more.get("faded", (1.0, 0.0))
        if not (0.0 < factor <= 1.0 and since >= 0.0):
            raise ValueError(f"faded must be a factor from 0 to 1 and a sum of weights, got {factor} and {since}")

    def _check_weights(self) -> None:
        """Raise if the sums of query weights, read from a file, are none that rounds can have."""
        places = ROUNDS, UPDATES, ROUND_WEIGHT, UPDATE_WEIGHT, LARGEST_WEIGHT
        rounds, updates, weight, moved, largest = self.tally[[*places]]
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


def is_mean_safe(tally: Floats) -> bool:
    """Tell whether the next query is ranked by the mean of all iterates; always, unless a learner counts its losses."""
    return bool(tally[MEAN_LOSS] <= MEAN_FACTOR * tally[CURRENT_LOSS] + HEAD_START * tally[LARGEST_WEIGHT])


def width_of(plain: dict[str, Any]) -> int:
    """Return the number of weights of a state that `Model.as_plain` converted."""
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


def _difference(names: tuple[str, ...] | None, learned: tuple[str, ...] | None) -> str:
    """Describe how names differ from those that were learned, and what to do if only order and additions differ."""
    if not names or not learned:
        return ""
    lacking = [name for name in learned if name not in set(names)]
    if lacking:
        shown = ", ".join(map(repr, lacking[:3])) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        return f"; of these, it lacks {shown}"
    return "; stream.select(ranker.feature_names_in_) takes those that were learned, in their order"


def _dense_blocks(stream: QueryStream) -> Iterator[QueryStream]:
    """Iterate over blocks of sparse features that are small as dense ones, except for a single query that is not."""
    for block in stream.blocks(TRANSFORMED_BYTES):
        most = max(1, TRANSFORMED_BYTES // (block.n_features * block.X.dtype.itemsize))
        start = 0
        while start < len(block):
            stop = int(np.searchsorted(block.offsets, block.offsets[start] + most, side="right")) - 1
            stop = max(stop, start + 1)
            yield block[start:stop]
            start = stop


def fixed_copy(weights: Floats) -> Floats:
    """Return a copy that refuses assignment: it would change no ranker."""
    return read_only(weights.copy())


def as_learned(model: Model, X: AnyFeatures) -> AnyFeatures:
    """Return features sparse or dense, as those were that the model has learned from."""
    if isinstance(X, SparseFeatures):
        return X if model.takes_sparse else X.toarray()
    return SparseFeatures.from_dense(X) if model.takes_sparse else X


def named(model: Model, transforms: list[Transform], names: tuple[str, ...] | None) -> list[Transform]:
    """Return transforms, the first of which knows the names of the columns if those are what was learned by."""
    if model.feature_names is None or not transforms:
        return transforms
    return [transforms[0].for_columns(names), *transforms[1:]]


def transformed(
    transforms: list[Transform], X: Any, offsets: Ints, names: tuple[str, ...] | None, *, learning: bool = False
) -> Any:
    """Return the features of queries with these offsets after some transforms; names are those of X, for an error."""
    return share(transforms, X, lambda: _transformed(transforms, X, offsets, names, learning))


def _transformed(
    transforms: list[Transform], X: Any, offsets: Ints, names: tuple[str, ...] | None, learning: bool
) -> AnyFeatures:
    before = X
    for transform in transforms if len(X) else []:
        try:
            outputs = transform.learn_and_apply(X, offsets) if learning else transform.apply(X, offsets)
        except ValueError:
            bad = find_bad_feature(before, names, keep_missing=transforms[0].accepts_missing)
            if bad is None:
                raise
            raise bad from None
        X = read_only(check_outputs(transform, outputs, X))
    return X


def as_named_features(X: Any, model: Model) -> tuple[AnyFeatures, tuple[str, ...] | None]:
    """Convert features; return them with the names of a data frame's columns, its categories as a model knows them."""
    names = column_names(X)
    if names and model.feature_names and is_frame(X):
        X, names = encode_frame(X, names, model.feature_names)
    return as_any_features(X), tuple(names) if names else None
