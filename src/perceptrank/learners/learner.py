"""The interface of every linear learner."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from threading import RLock
from typing import Any, ClassVar, Self, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.linear_ranker import as_learned, as_named_features, named, transformed
from perceptrank.learners.parameters import differ
from perceptrank.learners.saving import SavedRanker
from perceptrank.learners.starting import Feature, Origin, as_initial, as_signs, first_weights, signs_of
from perceptrank.learners.state import State
from perceptrank.measures import NDCG, Measure, MeasureLike, parse, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.memory import check_room
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import (
    ParameterError,
    are_finite,
    as_grades,
    bad_feature,
    check_not_negative,
    find_bad_feature,
    read_only,
    warn_renamed,
)
from perceptrank.theory import theorems
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.parsing import make_transforms, sparse_transforms
from perceptrank.transforms.transform import TransformLike

LARGEST_RATIO = 1e4  # of the spreads of features
LARGEST_QUERY_WEIGHT = 1e100  # beyond, sums of weighted iterates could overflow
_SEEN = 1000
_FEWEST = 10

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class Learner(SavedRanker):
    """A linear ranker that learns online: score = features . weights.

    Base class of all learners. To write one, derive from `NumpyLearner` or `CompiledLearner`.

    Attributes
    ----------
    algorithm : str
        Name on the command line and in model files.
    takes : str
        Unit of learning: "lists", "pairs" of a list, or "documents" one by one.
    cost : str
        Time for a query, in documents m, features d, grades g, members N, buffer size s, budget B.
    theorem : Theorem
        The guarantee for the current settings.
    depends_on_rate : bool
        True if rankings, with default settings, change with `learning_rate`.
    depends_on_scale : bool
        True if features of a larger scale count for more, so that those of very different scales need transforms.
    accepts_sparse : bool
        True if it learns from sparse features.
    accepts_weights : bool
        True if the weights of queries scale what it learns from them; if not, all must be 1.
    without_weights : str
        The reason, if it accepts no weights.
    learns : bool
        False of a ranker that stays as it is; it needs settings, and is not among `perceptrank.algorithms`.
    wraps : bool
        True if it is constructed around one other learner, and named together with it.
    fixed : tuple of str
        Parameters that cannot change once something was learned.

    Examples
    --------
    Every learner is used alike:

    >>> import perceptrank as pr
    >>> train, test = pr.mslr_shaped(60, n_documents=8, n_features=5, seed=1).split(0.8)
    >>> ranker = pr.ListwisePerceptron()
    >>> trace = ranker.learn(train, measures=["ndcg@10", "ap"])
    >>> len(trace), ranker.n_queries, len(ranker.rank(test[0].X)) == len(test[0].relevance)
    (48, 48, True)
    """

    takes: ClassVar[str] = "lists"
    cost: ClassVar[str]
    depends_on_rate: ClassVar[bool] = True
    depends_on_scale: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = False
    accepts_weights: ClassVar[bool] = False
    without_weights: ClassVar[str] = "its rule has no weights of queries"  # why, if it does not accept them
    learns: ClassVar[bool] = True
    wraps: ClassVar[bool] = False
    fixed: ClassVar[tuple[str, ...]] = ()

    # The name is not `transform`, since scikit-learn takes whatever has that for a transformer, and calls it.
    other_names: ClassVar[dict[str, str]] = {"transform": "transforms", "scaling": "transforms"}
    former_names: ClassVar[tuple[str, ...]] = ("scaling",)
    _lock: RLock
    _given: Origin = None
    _constraints: dict[Feature, float] = {}  # noqa: RUF012

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "scaling" in cls.parameter_names and "transforms" not in cls.parameter_names:
            warn_renamed(f"the parameter scaling of {cls.__name__}", "transforms")
            cls.transforms = property(lambda self: self.scaling)  # type: ignore[assignment]

    def _start(self) -> None:
        """Check the parameters and forget everything; the last line of every constructor."""
        self._check_parameters()
        self._lock = RLock()
        self._state = self._initial_state()

    def _initial_state(self) -> State:
        """Return the state before anything was learned."""
        return State(make_transforms(self._own_transform()))

    def _own_transform(self) -> TransformLike:
        """Return the transforms that features go through first, as settings name them."""
        # Weights of features as they are, known by name, stay what they are.
        by_feature = isinstance(self.transforms, str) and self.transforms == "auto" and isinstance(self._given, dict)
        return None if by_feature else self.transforms

    @abstractmethod
    def _pass(self, state: State, X: Any, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats) -> int:
        """Rank and learn the queries of a block of validated arrays; X is sparse if the state is.

        Returns the number of queries before an invalid value or an overflow. Writes the scores that queries were ranked
        by to `predicted`. `masses` has the weight of each query, and gets the mass that was moved times that weight; a
        query of weight 0 is ranked, and changes nothing.
        """

    def _is_finished(self) -> bool:
        return "_state" in self.__dict__

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.algorithm

    def _own_measure(self) -> Measure:
        """Return the measure that `learn` records and `score` returns by default."""
        return parse(getattr(self, "measure", NDCG(10)))

    # Learning

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Learn from a stream in one pass: rank each query, record the measures, then learn from its grades.

        An error or an interrupt leaves the learner as it was before the call (before the block, for an iterable of
        blocks). Other threads see the state before the call until it returns; if they learn too, they wait.

        Parameters
        ----------
        stream : QueryStream or iterable of blocks
            The queries, in the order of learning. If they have weights, these scale what is learned from each query
            (docs/learners/inputs.md says how), and the trace's means are weighted.
        measures : str, Measure or list of them, optional
            Measures to record; by default the measure that is learned, or NDCG@10.

        Returns
        -------
        Trace
            Each measure's value for every query, of the ranking before its grades were known.

        Raises
        ------
        ValueError
            If there are no queries, a grade or feature is invalid, the features are not those that were learned before,
            the weights of queries are not accepted, or scores overflow.
        TypeError
            If `stream` is none, or has sparse features and the learner takes dense ones only.

        Warns
        -----
        UserWarning
            If, the first time, features differ so much in spread that the largest decide alone.
        """
        recorded = [self._own_measure()] if measures is None else parse_all(measures)
        if isinstance(stream, QueryStream):
            return self._advance(self._learn_stream, stream, recorded)
        traces = [self._advance(self._learn_stream, block, recorded) for block in as_blocks(stream)]
        if not traces:
            raise ValueError("the stream has no queries")
        return Trace.concatenate(traces)

    def _advance(self, learn: Callable[[State, *Given], Result], *given: *Given) -> Result:
        """Call `learn` on a copy of the state, then replace the state by it: by all that was learned, or nothing."""
        before = after = self._state
        try:
            with self._lock:
                before = self._state
                after = before.copy()
                result = learn(after, *given)
                self._state = after
            return result
        except BaseException:
            if self._state is after:  # interrupted between learning and returning
                self._state = before
            raise

    def _adopt(self, learned: Self) -> None:
        with self._lock:
            self._state = learned._state

    def _learn_stream(self, state: State, stream: QueryStream, recorded: list[Measure]) -> Trace:
        if len(stream) == 0:
            raise ValueError("the stream has no queries")
        self._check_features(state, stream.n_features, stream.feature_names)
        for measure in recorded:
            measure.check_grades(stream.relevance)
        if not state.has_begun and self._takes_any_scale(state):
            warn_of_spreads(stream)
        state.feature_names, state.n_inputs = stream.feature_names or state.feature_names, stream.n_features
        try:
            return Trace.concatenate(self._learn_block(state, block, recorded) for block in self._blocks(state, stream))
        except ValueError:
            self._check_values(state, stream)
            raise

    def _takes_any_scale(self, state: State) -> bool:
        """Tell whether features of a larger scale count for more, and nothing is done about it."""
        return self.depends_on_scale and not state.transforms

    def _learn_block(self, state: State, block: QueryStream, recorded: list[Measure]) -> Trace:
        first, predicted, weights = state.queries, np.empty(block.n_documents), block.weights
        masses = np.ones(len(block)) if weights is None else weights.copy()
        if weights is not None:
            self._check_weights(state, weights)
        self._learn_arrays(state, block.X, block.relevance, block.offsets, predicted, masses)
        values = {one: one.per_query(predicted, block.relevance, block.offsets, first) for one in recorded}
        return Trace(values, masses, weights)

    def _check_weights(self, state: State, weights: Floats) -> None:
        """Raise if queries of these weights, finite and not negative, cannot be learned from."""
        if (weights == 1.0).all():
            return
        if not self.accepts_weights:
            raise ValueError(
                f"{self.name} takes no weights of queries, as {self.without_weights}: all must be 1, got "
                f"{weights[weights != 1.0][0]}; with_weights(None) leaves those of a stream out"
            )
        bad = (weights > LARGEST_QUERY_WEIGHT) | ((weights < 1 / LARGEST_QUERY_WEIGHT) & (weights != 0.0))
        if bad.any():
            smallest = 1 / LARGEST_QUERY_WEIGHT
            raise ValueError(
                f"weights must be 0, or from {smallest:g} to {LARGEST_QUERY_WEIGHT:g}, got {weights[bad][0]}"
            )

    def _learn_transforms(self, state: State, X: AnyFeatures, offsets: Ints) -> AnyFeatures:
        names = state.feature_names
        return transformed(named(state, state.transforms, names), X, offsets, names, learning=True)

    def _learn_arrays(
        self, state: State, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> None:
        """Learn a block of validated arrays; raise if a value is invalid or something overflows."""
        if not state.has_begun:
            self._begin(state, X.shape[1], sparse=isinstance(X, SparseFeatures))
        given, X = X, self._learn_transforms(state, as_learned(state, X), offsets)
        done = self._pass(state, X, relevance, offsets, predicted, masses)
        if done < len(offsets) - 1:
            rows = slice(offsets[done], offsets[done + 1])
            as_grades(relevance[rows], len(relevance[rows]))
            if not are_finite(X[rows]):
                bad = find_bad_feature(given[rows], state.feature_names, keep_missing=self._takes_missing(state))
                raise bad or bad_feature(X[rows], 0, None)
            raise ValueError(
                f"scores or weights overflow at query number {state.queries + done}, counted from the first that was "
                "ever learned: the features, the learning rate or the weights of queries are too large; scale the "
                "features, for example with `transforms='running'`"
            )
        state.queries += done

    def _begin(self, state: State, n_features: int, *, sparse: bool = False) -> None:
        """Initialise a state for so many features, before the transforms, and tell whether those are sparse."""
        makers = [transform for transform in state.transforms if transform.makes_sparse]
        if (sparse or makers) and not self._accepts_sparse(state):
            what = (
                "got sparse ones; to_dense() makes a stream dense"
                if sparse
                else f"its transform {makers[0]!r} makes sparse ones"
            )
            raise TypeError(f"{self.name} learns from dense features only, {what}")
        if sparse:
            state.transforms = sparse_transforms(self._own_transform())
        sparse = sparse or bool(makers)
        state.n_inputs = n_features
        for transform in state.transforms:
            n_features = transform.n_outputs(n_features)
        if sparse:
            check_room(f"weights of {n_features} features", 2 * n_features)
        weights, signs = self._first_weights(state, n_features), self._signs(state)
        state.begin(n_features, self.extra_state(n_features), sparse=sparse, weights=weights, signs=signs)

    def _starts_somewhere(self) -> bool:
        """Tell whether it ranks before it has learned anything, by weights that were given."""
        return self._given is not None

    def _goes_by_names(self) -> bool:
        """Tell whether its settings name features, so that it must know their names."""
        named = isinstance(self._given, dict) and any(isinstance(one, str) for one in self._given)
        return named or any(isinstance(one, str) for one in self._constraints)

    def _known_state(self) -> State:
        """Return the state; before anything was learned, one for the features whose weights were given by name."""
        given = self._given
        if self._state.has_begun or not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            return self._state
        return self._ready(self._state, len(given), tuple(map(str, given)), sparse=False)

    def _first_weights(self, state: State, n_features: int) -> Floats | None:
        """Return the weights to start from, of so many transformed features of a state; None if they are 0."""
        return first_weights(self._given, state.feature_names, state.n_inputs, state.transforms, n_features)

    def _given_norm(self) -> float:
        if isinstance(self._given, dict) and make_transforms(self._own_transform()):
            raise ValueError("the norm of initial_weights by feature depends on the transforms: learn first")
        given = self._given.values() if isinstance(self._given, dict) else self._given or ()
        return float(np.linalg.norm(np.array([*given])))

    def _with_start(self, promised: Theorem) -> Theorem:
        """Return the theorem of a learner that starts from 0, free of constraints, for its start and constraints."""
        promised = theorems.from_start(promised) if self._given is not None else promised
        return theorems.constrained(promised) if self._constraints else promised

    def _signs(self, state: State) -> Floats:
        """Return the signs that weights of transformed features keep, empty if none is constrained."""
        return signs_of(self._constraints, state.feature_names, state.n_inputs, state.transforms)

    def _ready(self, state: State, n_features: int, names: tuple[str, ...] | None, *, sparse: bool) -> State:
        if state.has_begun or not self._starts_somewhere():
            return state
        ready = state.copy()
        ready.feature_names = names
        self._begin(ready, n_features, sparse=sparse)
        return ready

    def _accepts_sparse(self, state: State) -> bool:
        return self.accepts_sparse

    def _is_linear(self) -> bool:
        """Tell whether it ranks by weights of features."""
        return True

    def _twin(self) -> Self:
        """Return a learner with the same settings, and a copy of the state that can be changed."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._state = self._state.copy()
        return twin

    def learn_one(self, X: npt.ArrayLike, relevance: npt.ArrayLike, weight: float = 1.0) -> bool:
        """Learn from one query.

        An error or an interrupt leaves the learner as it was before the call.

        Parameters
        ----------
        X : array of shape (documents, features), sparse matrix or data frame
            The documents.
        relevance : array of shape (documents,)
            Their grades.
        weight : float
            Weight of the query, which scales what is learned from it; with 0, nothing is.

        Returns
        -------
        bool
            True if there was an update.

        Raises
        ------
        ValueError
            If there are no documents, a grade, feature or weight is invalid, the features are not those that were
            learned before, or scores overflow.
        TypeError
            If the features are sparse and the learner takes dense ones only.
        """
        X, relevance = self._as_query(X, relevance)
        features, names = as_named_features(X)
        m = features.shape[0]
        if type(relevance) is np.ndarray and relevance.dtype == np.float64 and relevance.shape == (m,):
            grades = np.ascontiguousarray(relevance)
        else:
            grades = as_grades(relevance, m)
        if m == 0:
            raise ValueError("a query must have at least one document, got none")
        return self._advance(self._learn_query, features, names, grades, weight)

    def _learn_query(
        self, state: State, X: AnyFeatures, names: tuple[str, ...] | None, grades: Floats, weight: float
    ) -> bool:
        self._check_features(state, X.shape[1], names)
        state.feature_names, state.n_inputs = names or state.feature_names, X.shape[1]
        predicted, masses = np.empty(len(grades)), np.empty(1)
        masses[0] = 1.0  # `np.ones` takes a microsecond longer
        if weight != 1.0:
            masses[0] = check_not_negative("weight", weight)
            self._check_weights(state, masses)
        self._learn_arrays(state, read_only(X), read_only(grades), one_query(len(grades)), predicted, masses)
        return bool(masses[0] > 0.0)

    def _as_query(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Convert the arguments of `learn_one` to documents and grades."""
        return X, relevance

    @property
    def _transforms_features(self) -> bool:
        """True if the weights apply to transformed features."""
        return bool(make_transforms(self._own_transform()))

    def _room(self, n_features: int) -> int:
        """Return the approximate size of its state, in float64 numbers."""
        return 250 + 2 * n_features + sum(values.size for values in self.extra_state(n_features).values())

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor arguments; if one is invalid, none is changed."""
        with self._lock:
            return super().set_params(**parameters)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from perceptrank.learners.notebook_card import card_of

        return card_of(self)

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _lock=RLock())

    def _check_change(self, parameters: dict[str, Any]) -> None:
        """Raise if a parameter that determines the state is changed once something was learned."""
        for name in self.fixed:
            if name in parameters and differ(parameters[name], getattr(self, name)) and self._has_learned():
                raise ValueError(
                    f"{name} cannot be changed once something was learned: make a new {type(self).__name__}"
                )

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        if ("transforms" in parameters or "initial_weights" in parameters) and not self._has_learned():
            self._state = self._initial_state()

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid."""
        if not isinstance(self.average, (bool, np.bool_)):
            raise ParameterError("average", "must be True or False", self.average)
        make_transforms(self.transforms)
        self._given = as_initial(self.initial_weights)
        self._constraints = as_signs(positive=self.positive, negative=self.negative, zero=self.zero)


def warn_of_spreads(stream: QueryStream) -> None:
    """Warn if features differ so much in spread, over the first documents, that the largest decide alone."""
    X = next(stream.blocks()).X[:_SEEN].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = magnitudes(X) if isinstance(X, SparseFeatures) else X.std(axis=0)
    spreads = spreads[(spreads > 0) & np.isfinite(spreads)]
    if len(spreads) and spreads.max() / spreads.min() > LARGEST_RATIO:
        warnings.warn(
            f"features differ in spread by a factor of {spreads.max() / spreads.min():.1g}: the largest decide alone; "
            "transforms='auto', or 'running' for weights of single features (--transform on the command line), puts "
            "them on one scale",
            UserWarning,
            stacklevel=5,
        )


def magnitudes(X: SparseFeatures) -> Floats:
    """Return the root mean squares of the non-zeros of features that have several: one says little about a scale."""
    chosen = slice(X.starts[0], X.starts[-1])
    _, columns, counts = np.unique(X.indices[chosen], return_inverse=True, return_counts=True)
    squares = np.bincount(columns, X.values[chosen] ** 2, len(counts))
    return np.sqrt((squares / counts)[counts >= _FEWEST])


@cache
def one_query(m: int) -> Ints:
    """Return the offsets of a block that is a single query."""
    offsets: Ints = read_only(np.array([0, m]))
    return offsets
