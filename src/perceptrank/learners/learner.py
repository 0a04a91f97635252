"""The interface of every linear learner."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.learners.parameters import differ
from perceptrank.learners.saving import SavedRanker
from perceptrank.learners.state import State
from perceptrank.measures import NDCG, Measure, MeasureLike, parse, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import (
    AdvisingValueError,
    ParameterError,
    Setting,
    as_grades,
    describe_bad_feature,
    read_only,
)
from perceptrank.transforms.parsing import make_scalings
from perceptrank.transforms.scaling import checked


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
        Time for a query, in documents m, features d, grades g, members N, buffer size s.
    theorem : Theorem
        The guarantee for the current settings.
    depends_on_rate : bool
        True if rankings, with default settings, change with `learning_rate`.
    wraps : bool
        True if it is constructed around one other learner, and named together with it.
    fixed : tuple of str
        Parameters that cannot change once something was learned.
    by_blocks : bool
        True if a failed query may leave the state changed, so that `learn_one` has to restore a copy.
    """

    takes: ClassVar[str] = "lists"
    cost: ClassVar[str]
    depends_on_rate: ClassVar[bool] = True
    wraps: ClassVar[bool] = False
    fixed: ClassVar[tuple[str, ...]] = ()
    by_blocks: ClassVar[bool] = False

    def _start(self) -> None:
        """Check the parameters and forget everything; the last line of every constructor."""
        self._check_parameters()
        self._state = None
        self._scalings = make_scalings(self.scaling)
        self._n_queries = 0
        self._feature_names = None

    @abstractmethod
    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        """Rank and learn the queries of a block of validated arrays.

        Returns the number of queries before an invalid value or an overflow. Writes the scores that queries were ranked
        by to `predicted` and the weight moved in each to `masses`.
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

        An error leaves the learner as it was before the call (before the block, for an iterable of blocks).

        Parameters
        ----------
        stream : QueryStream or iterable of blocks
            The queries, in the order of learning.
        measures : str, Measure or list of them, optional
            Measures to record; by default the measure that is learned, or NDCG@10.

        Returns
        -------
        Trace
            Each measure's value for every query, of the ranking before its grades were known.
        """
        recorded = [self._own_measure()] if measures is None else parse_all(measures)
        traces = [self._learn_whole(block, recorded) for block in as_blocks(stream)]
        if not traces:
            raise ValueError("the stream has no queries")
        return Trace.concatenate(traces)

    def _learn_whole(self, stream: QueryStream, recorded: list[Measure]) -> Trace:
        self._check_features(stream.n_features, stream.feature_names)
        for measure in recorded:
            measure.check_grades(stream.relevance)
        with self._all_or_nothing():
            self._feature_names = stream.feature_names or self._feature_names
            return Trace.concatenate(self._learn_block(block, recorded) for block in stream.blocks())

    def _learn_block(self, block: QueryStream, recorded: list[Measure]) -> Trace:
        X = self._learn_scaling(block.X, block.offsets)
        predicted, masses = np.empty(block.n_documents), np.empty(len(block))
        self._learn_arrays(X, block.relevance, block.offsets, predicted, masses)
        first = self._n_queries
        self._n_queries += len(block)
        values = {one: one.per_query(predicted, block.relevance, block.offsets, first) for one in recorded}
        return Trace(values, masses)

    def _learn_scaling(self, X: Features, offsets: Ints) -> Features:
        for scaling in self._scalings:
            X = read_only(checked(scaling, scaling.learn_and_scale(X, offsets), X))
        return X

    def _learn_arrays(
        self,
        X: Features,
        relevance: Floats,
        offsets: Ints,
        predicted: Floats,
        masses: Floats,
    ) -> None:
        done = self._pass(self._ensure_state(X.shape[1]), X, relevance, offsets, predicted, masses)
        if done < len(offsets) - 1:
            rows = slice(offsets[done], offsets[done + 1])
            as_grades(relevance[rows], len(relevance[rows]))
            if not np.isfinite(X[rows]).all():
                raise ValueError(describe_bad_feature(X[rows], 0, self._feature_names))
            raise AdvisingValueError(
                f"scores or weights overflow at query number {self._n_queries + done}, counted from the first that was "
                "ever learned: the features or the learning rate are too large; scale the features, for example with ",
                Setting("scaling", "running"),
            )

    def _ensure_state(self, n_features: int) -> State:
        """Return the state, initialised if nothing was learned yet."""
        if self._state is None:
            self._state = State.zero(n_features, self.extra_state(n_features))
        return self._state

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore everything if an error is raised or the user interrupts."""
        kept = self._snapshot()
        try:
            yield
        except BaseException:
            self._restore(kept)
            raise

    def _snapshot(self) -> tuple[Any, ...]:
        """Return a copy of everything that learning changes, for `_restore`."""
        state = self._state.copy() if self._state is not None else None
        return state, make_scalings(self._scalings), self._n_queries, self._feature_names

    def _restore(self, kept: tuple[Any, ...]) -> None:
        self._state, self._scalings, self._n_queries, self._feature_names = kept

    def learn_one(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> bool:
        """Learn from one query; return whether there was an update.

        Parameters
        ----------
        X : array of shape (documents, features) or data frame
            The documents.
        relevance : array of shape (documents,)
            Their grades.
        """
        X, relevance = self._as_query(X, relevance)
        features, given = self._as_features(X)
        m = features.shape[0]
        if type(relevance) is np.ndarray and relevance.dtype == np.float64 and relevance.shape == (m,):
            grades = np.ascontiguousarray(relevance)
        else:
            grades = as_grades(relevance, m)
        if m == 0:
            raise ValueError("a query must have at least one document, got none")
        offsets = one_query(m)
        if self._scalings or self.by_blocks:
            with self._all_or_nothing():
                self._feature_names = given or self._feature_names
                return self._learn_block(QueryStream(features, grades, offsets), []).n_updates > 0
        fresh = self._state is None
        predicted, masses = np.empty(m), np.empty(1)
        try:
            self._learn_arrays(read_only(features), read_only(grades), offsets, predicted, masses)
        except BaseException:
            if fresh:
                self._state = None
            raise
        if given:
            self._feature_names = given
        self._n_queries += 1
        return bool(masses[0] > 0.0)

    def _as_query(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Convert the arguments of `learn_one` to documents and grades."""
        return X, relevance

    @property
    def _scales_features(self) -> bool:
        """True if the weights apply to transformed features."""
        return bool(make_scalings(self.scaling))

    def _room(self, n_features: int) -> int:
        """Return the approximate size of its state, in float64 numbers."""
        return 250 + 2 * n_features + sum(values.size for values in self.extra_state(n_features).values())

    def __copy__(self) -> Self:
        return deepcopy(self)

    def _check_change(self, parameters: dict[str, Any]) -> None:
        """Raise if a parameter that determines the state is changed once something was learned."""
        for name in self.fixed:
            if name in parameters and differ(parameters[name], getattr(self, name)) and self._has_learned():
                raise ValueError(
                    f"{name} cannot be changed once something was learned: make a new {type(self).__name__}"
                )

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        if "scaling" in parameters and not self._has_learned():
            self._scalings = make_scalings(self.scaling)

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid."""
        if not isinstance(self.average, (bool, np.bool_)):
            raise ParameterError("average", "must be True or False", self.average)
        make_scalings(self.scaling)


@cache
def one_query(m: int) -> Ints:
    """Return the offsets of a block that is a single query."""
    offsets: Ints = read_only(np.array([0, m]))
    return offsets
