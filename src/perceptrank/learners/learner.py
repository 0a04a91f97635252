"""The interface of every linear learner."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.io import model_file
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.scoring import score_rows
from perceptrank.learners.estimator import Estimator, differ
from perceptrank.learners.guarantees import Guaranteed
from perceptrank.learners.rounds import ROUNDS, UPDATES
from perceptrank.learners.state import State
from perceptrank.measures import NDCG, Measure, MeasureLike, parse, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.grouping import group_rows
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import (
    AdvisingValueError,
    Setting,
    as_features,
    as_grades,
    as_identifiers,
    column_names,
    describe_bad_feature,
    read_only,
)
from perceptrank.transforms.parsing import as_plain, from_plain, make_scalings
from perceptrank.transforms.scaling import Scaling, ScalingLike


class Learner(Guaranteed, Estimator):
    """A linear ranker that learns online: score = features . weights.

    This is what all learners have in common. To write one, derive from `NumpyLearner` or `CompiledLearner`.

    Attributes
    ----------
    algorithm : str
        The name on the command line and in model files.
    takes : str
        What it learns from: lists, pairs of a list, or documents, one after the other.
    cost : str
        Of a query, in documents m, features d, grades g, members N, a buffer's size s.
    theorem : Theorem
        What is certain.
    depends_on_rate : bool
        Whether rankings, with default settings, change with `learning_rate`.
    wraps : bool
        Whether it is put around one other learner, and named together with it.
    fixed : tuple of str
        Parameters that cannot change once something was learned.
    by_blocks : bool
        Whether a failed query leaves traces in the state, so that `learn_one` restores a copy.
    """

    takes: ClassVar[str] = "lists"
    cost: ClassVar[str]
    depends_on_rate: ClassVar[bool] = True
    wraps: ClassVar[bool] = False
    fixed: ClassVar[tuple[str, ...]] = ()
    by_blocks: ClassVar[bool] = False
    average: bool = False
    scaling: ScalingLike = None

    _state: State | None
    _scalings: list[Scaling]
    _n_queries: int
    _feature_names: tuple[str, ...] | None

    def _start(self) -> None:
        """Forget everything."""
        self._check_parameters()
        self._state = None
        self._scalings = make_scalings(self.scaling)
        self._n_queries = 0
        self._feature_names = None

    @abstractmethod
    def _pass(
        self, state: State, X: Features, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        """Rank and learn the queries of a block of checked arrays; return how many before an invalid value."""

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return the arrays that a learner carries beside weights and counts, by name, as they are in the beginning."""
        return {}

    def _is_finished(self) -> bool:
        return "_state" in self.__dict__

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.algorithm

    def _own_measure(self) -> Measure:
        """What `learn` records and `score` returns unless told otherwise."""
        return parse(getattr(self, "measure", NDCG(10)))

    # Learning

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Go over a stream once: rank each query, record how well, then learn from its answer.

        `stream` is a `QueryStream` or an iterable of them. `measures` names what to record, by default the learner's
        own measure. An error leaves the learner as it was before the call (before the block, for an iterable).
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
            X = read_only(scaling.learn_and_scale(X, offsets))
        return X

    def _learn_arrays(
        self,
        X: Features,
        relevance: Floats,
        offsets: Ints,
        predicted: Floats,
        masses: Floats,
    ) -> None:
        done = self._pass(self._begin(X.shape[1]), X, relevance, offsets, predicted, masses)
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

    def _begin(self, n_features: int) -> State:
        """What was learned so far, or the state to begin with."""
        if self._state is None:
            self._state = State.zero(n_features, self.extra_state(n_features))
        return self._state

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Put everything back if an error is raised, or the user interrupts."""
        kept = self._keep()
        try:
            yield
        except BaseException:
            self._put_back(kept)
            raise

    def _keep(self) -> tuple[Any, ...]:
        """All that was learned, for `_put_back`."""
        state = self._state.copy() if self._state is not None else None
        return state, make_scalings(self._scalings), self._n_queries, self._feature_names

    def _put_back(self, kept: tuple[Any, ...]) -> None:
        self._state, self._scalings, self._n_queries, self._feature_names = kept

    def learn_one(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> bool:
        """Learn from one query: documents x features and a grade per document. Returns whether there was an update."""
        X, relevance = self._as_query(X, relevance)
        names = column_names(X)
        features = as_features(X)
        m = features.shape[0]
        if type(relevance) is np.ndarray and relevance.dtype == np.float64 and relevance.shape == (m,):
            grades = np.ascontiguousarray(relevance)
        else:
            grades = as_grades(relevance, m)
        if m == 0:
            raise ValueError("a query must have at least one document, got none")
        given = tuple(names) if names else None
        self._check_features(features.shape[1], given)
        offsets = one_query(m)
        predicted, masses = np.empty(m), np.empty(1)
        if self._scalings or self.by_blocks:
            with self._all_or_nothing():
                self._feature_names = given or self._feature_names
                return self._learn_block(QueryStream(features, grades, offsets), []).n_updates > 0
        fresh = self._state is None
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
        """What `learn_one` was given, as documents and grades."""
        return X, relevance

    # Predicting

    def predict(
        self, X: npt.ArrayLike | QueryStream, *, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None
    ) -> Floats:
        """Scores; the larger, the better. Before anything was learned, all are 0.

        Scaling within a query needs to know the queries (`qid`, or `group` sizes); without, X is taken as one query.
        """
        if isinstance(X, QueryStream):
            return self.scores(X)
        names = column_names(X)
        features = as_features(X)
        self._check_features(features.shape[1], tuple(names) if names else None)
        if qid is not None:
            if group is not None:
                raise ValueError("give qid or group, not both")
            identifiers = as_identifiers(qid)
            if identifiers.shape != (len(features),):
                raise ValueError(f"qid must have one entry per document ({len(features)}), got {identifiers.shape}")
        if len(features) == 0 or (not self.scalings_ and group is None):
            return self._scores(features)
        if qid is None:
            return self.scores(QueryStream.from_arrays(features, np.zeros(len(features)), group=group))
        rows, _, _ = group_rows(identifiers, len(features))
        ordered = slice(None) if rows is None else rows
        scores = np.empty(len(features))
        grouped = QueryStream.from_arrays(features[ordered], np.zeros(len(features)), qid=identifiers[ordered])
        scores[ordered] = self.scores(grouped)
        return scores

    def scores(self, stream: QueryStream) -> Floats:
        """Scores of all documents of a stream, scaled query by query."""
        self._check_features(stream.n_features, stream.feature_names)
        scores = np.empty(stream.n_documents)
        start = 0
        for block in stream.blocks():
            X = block.X
            for scaling in self.scalings_:
                X = scaling.scale(X, block.offsets)
            scores[start : start + block.n_documents] = self._scores(X)
            start += block.n_documents
        return scores

    def _scores(self, X: Features) -> Floats:
        weights = self.coef_ if self._has_learned() else np.zeros(X.shape[1])
        scores = np.empty(X.shape[0])
        if not score_rows(read_only(X), 0, len(X), weights, scores):
            if np.isfinite(X).all():
                raise ValueError("scores overflow: the features are too large")
            raise ValueError(describe_bad_feature(X, 0, self._feature_names))
        return scores

    def rank(self, X: npt.ArrayLike) -> Ints:
        """Row numbers of one query's documents, best first; equal scores keep the input order."""
        return np.argsort(-self.predict(X), kind="stable")

    # What was learned

    def _has_learned(self) -> bool:
        return self._state is not None

    def _learned(self) -> State:
        if self._state is None:
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet")
        return self._state

    @property
    def weights(self) -> Floats:
        """The current iterate."""
        return self._learned().weights.copy()

    @property
    def coef_(self) -> Floats:
        """The weights that `predict` uses: the mean of all iterates after the first if averaging, else the current."""
        return self._coefficients(self._learned())

    def _coefficients(self, state: State) -> Floats:
        rounds = state.tally[ROUNDS]
        return state.total * (1.0 / rounds) if self.average and rounds > 0 else state.weights.copy()

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return len(self._learned().weights)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the features, if the data had them."""
        if self._feature_names is None:
            raise AttributeError("the features have no names")
        return np.array(self._feature_names, dtype=object)

    @property
    def n_queries(self) -> int:
        """Number of queries learned from."""
        return self._n_queries

    @property
    def n_rounds(self) -> int:
        """Number of rounds: queries, or documents for a learner that takes them one by one."""
        return int(self._state.tally[ROUNDS]) if self._state is not None else 0

    @property
    def n_updates(self) -> int:
        """Number of rounds with an update."""
        return int(self._state.tally[UPDATES]) if self._state is not None else 0

    @property
    def scalings_(self) -> list[Scaling]:
        """The transforms that features go through, with what they have learned; freezing one takes effect.

        They follow `scaling` until something is learned; a `scaling` set later waits for the next `fit`.
        """
        return self._scalings

    @property
    def _scales_features(self) -> bool:
        """Whether its weights are for other features than those it is given."""
        return bool(make_scalings(self.scaling))

    def _room(self, n_features: int) -> int:
        """How many numbers it takes to keep it, roughly."""
        return 250 + 2 * n_features + sum(values.size for values in self.extra_state(n_features).values())

    def _check_features(self, n_features: int, names: tuple[str, ...] | None) -> None:
        if self._has_learned() and n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        if names and self._feature_names and names != self._feature_names:
            pairs = zip(names, self._feature_names, strict=True)
            found, expected = next((one, other) for one, other in pairs if one != other)
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"got {found!r} where {expected!r} was learned"
            )

    # Saving

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, whole or not at all. `perceptrank.load` reads it."""
        model_file.write_model(path, self.as_document())

    def as_document(self) -> dict[str, Any]:
        """The model as a dictionary of plain values, as `save` writes it."""
        parameters = self.get_params(deep=False)
        if isinstance(parameters.get("measure"), Measure):
            parameters["measure"] = str(parameters["measure"])
        if "scaling" in parameters:
            parameters["scaling"] = as_plain(self.scaling)
        document: dict[str, Any] = {"algorithm": self.algorithm, "parameters": parameters, "queries": self._n_queries}
        document["feature_names"] = list(self._feature_names) if self._feature_names else None
        document["scalings"] = as_plain(self._scalings)
        document["state"] = None if self._state is None else self._state.as_plain()
        return document

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """The model of a dictionary that `as_document` made; raises if it does not hold together."""
        parameters = dict(document["parameters"])
        if "scaling" in parameters:
            parameters["scaling"] = from_plain(parameters["scaling"])
        learner = cls(**parameters)
        learner._n_queries = model_file.whole_number("queries", document["queries"])
        names, state = document["feature_names"], document["state"]
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("feature_names must be a list of names, or null")
        learner._feature_names = tuple(names) if names else None
        if state is not None:
            learner._state = State.from_plain(state, learner.extra_state(len(state["weights"])))
            width = len(learner._state.weights)
            if names and len(names) != width:
                raise ValueError(f"{len(names)} feature names for {width} features")
        learner._scalings = make_scalings(from_plain(document["scalings"]))
        if learner._state is not None:
            nothing = np.zeros((1, len(learner._state.weights)))
            for scaling in learner._scalings:
                scaling.scale(nothing, one_query(1))  # raises if it was learned from another number of features
        return learner

    def __copy__(self) -> Self:
        return deepcopy(self)

    def _check_change(self, parameters: dict[str, Any]) -> None:
        """Some, which what was learned depends on, can be changed only before anything was learned."""
        for name in self.fixed:
            if name in parameters and differ(parameters[name], getattr(self, name)) and self._has_learned():
                raise ValueError(
                    f"{name} cannot be changed once something was learned: make a new {type(self).__name__}"
                )

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        if "scaling" in parameters and not self._has_learned():
            self._scalings = make_scalings(self.scaling)

    def _check_parameters(self) -> None:
        """Raise if a parameter is wrong."""
        if not isinstance(self.average, (bool, np.bool_)):
            raise ValueError(f"average must be True or False, got {self.average!r}")
        make_scalings(self.scaling)


@cache
def one_query(m: int) -> Ints:
    """The offsets of a block that is a single query."""
    offsets: Ints = read_only(np.array([0, m]))
    return offsets
