"""Feature scaling as transforms of streams.

`QueryZScore` and `QueryMinMax` look at one query at a time and remember nothing. `RunningStandardizer` learns from all
documents seen so far. A learner takes any of them, or several in a row, as its `scaling`.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from perceptrank.io.model_file import finite_numbers
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import ParameterError, as_features, read_only
from perceptrank.transforms import scaling_pass as kernel


class Scaling(ABC):
    """A transform of features that works query by query."""

    name: ClassVar[str]

    def transform(self, stream: QueryStream) -> QueryStream:
        """A copy of the stream with scaled features."""
        return stream.with_features(self.scale(stream.X, stream.offsets))

    @abstractmethod
    def scale(self, X: Features, offsets: Ints) -> Features:
        """Scaled copy of checked features."""

    def learn_and_scale(self, X: Features, offsets: Ints) -> Features:
        """As `scale`, after learning from these features, if this transform learns."""
        return self.scale(X, offsets)

    def state(self) -> dict[str, Any]:
        """All it has learned, as numbers and lists."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned; raises if it does not hold together."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaling) and self.name == other.name and self.state() == other.state()

    def __hash__(self) -> int:
        return hash(self.name)


class QueryZScore(Scaling):
    """Each feature to mean 0 and standard deviation 1 among the documents of a query; constant features to 0.

    >>> stream = QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0]], [0, 1])
    >>> QueryZScore().transform(stream).X
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    name = "query-zscore"

    def scale(self, X: Features, offsets: Ints) -> Features:
        """Scaled copy of checked features."""
        scaled = np.empty_like(X)
        _check_overflow(kernel.query_zscore_pass(read_only(X), read_only(offsets), scaled, np.empty((3, X.shape[1]))))
        return scaled


class QueryMinMax(Scaling):
    """Each feature to the range 0..1 among the documents of a query; constant features to 0.

    >>> stream = QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]], [0, 1, 0])
    >>> QueryMinMax().transform(stream).X[:, 0]
    array([0. , 1. , 0.5])
    """

    name = "query-minmax"

    def scale(self, X: Features, offsets: Ints) -> Features:
        """Scaled copy of checked features."""
        scaled = np.empty_like(X)
        _check_overflow(kernel.query_minmax_pass(read_only(X), read_only(offsets), scaled, np.empty((3, X.shape[1]))))
        return scaled


class RunningStandardizer(Scaling):
    """Each feature to mean 0 and standard deviation 1 over all documents seen so far, the query at hand included.

    Statistics are merged query by query (Welford's recurrence in Chan's form), so however a stream is cut into blocks
    the result is the same to the bit. Statistics of two streams can be merged, and they can be frozen.

    >>> scaler = RunningStandardizer().learn(QueryStream.from_arrays([[1.0], [3.0]], [0, 1]))
    >>> scaler.mean, scaler.deviation
    (array([2.]), array([1.]))
    """

    name = "running"

    def __init__(self) -> None:
        self.count = 0.0
        self.frozen = False
        self._mean = np.zeros(0)
        self._squares = np.zeros(0)

    @property
    def mean(self) -> Floats:
        """Mean of each feature."""
        return self._mean.copy()

    @property
    def deviation(self) -> Floats:
        """Standard deviation of each feature."""
        deviation: Floats = np.sqrt(self._squares / max(self.count, 1.0))
        return deviation

    def freeze(self) -> "RunningStandardizer":
        """Learn no more."""
        self.frozen = True
        return self

    def learn(self, stream: Blocks) -> "RunningStandardizer":
        """Take in the features of a stream, or of an iterable of blocks."""
        for part in as_blocks(stream):
            for block in part.blocks():
                self.learn_and_scale(block.X, block.offsets)
        return self

    def merge(self, other: "RunningStandardizer") -> "RunningStandardizer":
        """Take in all that another one has seen."""
        if other.count > 0:
            mean, squares = self._moments(len(other._mean))
            count = kernel.merge_moments(self.count, mean, squares, other.count, other._mean, other._squares)
            _check_overflow(kernel.first_overflow(squares))
            self.count, self._mean, self._squares = count, mean, squares
        return self

    def scale(self, X: Features, offsets: Ints) -> Features:
        """Scaled copy of checked features; nothing is learned."""
        return self._pass(X, offsets, learning=False)

    def learn_and_scale(self, X: Features, offsets: Ints) -> Features:
        """Learn from each query, unless frozen, and scale it."""
        return self._pass(X, offsets, learning=not self.frozen)

    def _pass(self, X: Features, offsets: Ints, *, learning: bool) -> Features:
        X = as_features(X)
        mean, squares = self._moments(X.shape[1])
        scaled = np.empty_like(X)
        count = kernel.running_pass(
            read_only(X), read_only(offsets), learning, self.count, mean, squares, scaled, np.empty((3, X.shape[1]))
        )
        if learning:
            _check_overflow(kernel.first_overflow(squares))
            self.count, self._mean, self._squares = count, mean, squares
        return scaled

    def _moments(self, n_features: int) -> tuple[Floats, Floats]:
        """Copies of what was learned, or zeros, for this many features."""
        if len(self._mean) == 0:
            return np.zeros(n_features), np.zeros(n_features)
        if len(self._mean) != n_features:
            raise ValueError(f"the scaling was learned from {len(self._mean)} features, got {n_features}")
        return self._mean.copy(), self._squares.copy()

    def state(self) -> dict[str, Any]:
        """All it has learned, as numbers and lists."""
        return {
            "count": self.count,
            "frozen": self.frozen,
            "mean": self._mean.tolist(),
            "squares": self._squares.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned; raises if it does not hold together."""
        n_features = len(state["mean"])
        mean = finite_numbers("mean", state["mean"], n_features)
        squares = finite_numbers("squares", state["squares"], n_features)
        count = finite_numbers("count", [state["count"]], 1)[0]
        if count < 0 or (squares < 0).any() or not isinstance(state["frozen"], bool):
            raise ValueError("count and squares must not be negative, and frozen must be true or false")
        if (count > 0) != (n_features > 0):
            raise ValueError("count must be 0 where there are no statistics, and only there")
        self.count, self.frozen = float(count), state["frozen"]
        self._mean, self._squares = mean, squares


def _check_overflow(feature: int) -> None:
    if feature >= 0:
        raise ValueError(f"feature {feature} is too large to be scaled: its spread or its squares overflow")


SCALINGS: dict[str, type[Scaling]] = {kind.name: kind for kind in (QueryZScore, QueryMinMax, RunningStandardizer)}


def as_plain(scaling: Any) -> Any:
    """A learner's `scaling` as names and dictionaries, for a model file; `from_plain` reads it back."""
    if scaling is None or isinstance(scaling, str):
        return scaling
    if isinstance(scaling, Scaling):
        if SCALINGS.get(scaling.name) is not type(scaling):
            raise ValueError(f"a model with {scaling!r} cannot be saved: only scalings of perceptrank can")
        return {"name": scaling.name, **scaling.state()}
    return [as_plain(part) for part in scaling]


def from_plain(scaling: Any) -> Any:
    """What `as_plain` was given; raises if it is nothing of the kind."""
    if isinstance(scaling, list):
        return [from_plain(part) for part in scaling]
    if isinstance(scaling, dict):
        made = make_scalings(str(scaling["name"]))[0]
        made.restore(scaling)
        return made
    return scaling


ScalingLike: TypeAlias = str | Scaling | Sequence[str | Scaling] | None


def make_scalings(scaling: ScalingLike) -> list[Scaling]:
    """Fresh copies of the transforms that a learner's `scaling` stands for."""
    if scaling is None:
        return []
    if not isinstance(scaling, (str, Scaling, list, tuple)):
        raise ParameterError("scaling", "must be a name, a Scaling, or a list of these", scaling)
    parts = [scaling] if isinstance(scaling, (str, Scaling)) else scaling
    made = []
    for part in parts:
        if isinstance(part, Scaling):
            made.append(copy.deepcopy(part))
        elif isinstance(part, str) and part in SCALINGS:
            made.append(SCALINGS[part]())
        else:
            raise ParameterError("scaling", f"must be one of {', '.join(map(repr, SCALINGS))} or a Scaling", part)
    return made
