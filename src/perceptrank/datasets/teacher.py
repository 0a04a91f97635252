"""Streams whose truth is known and is not linear: a teacher grades documents resampled from real ones."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense
from perceptrank.stream.validation import (
    ParameterError,
    check_choice,
    check_not_negative,
    check_positive_whole,
    check_seed,
)

_BLOCK_QUERIES = 1000
_HIDDEN_UNITS, _GAIN = (64, 32), 3.0  # of a network


class Teacher(ABC):
    """The truth behind a `TeacherStream`.

    It is a ranker: `evaluate` takes it, and what it reaches is what the noise leaves to reach.
    """

    @abstractmethod
    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return the grade of each document, without noise and before it is rounded."""

    def scores(self, stream: QueryStream) -> Floats:
        """Return the grade of each document of a stream, without noise and before it is rounded."""
        return self.predict(dense(stream.X))


class TreeTeacher(Teacher):
    """A tree ensemble that was fitted to the real grades of a stream."""

    def __init__(self, stream: QueryStream, n_trees: int, seed: int) -> None:
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor
        except ImportError:
            raise ImportError("a teacher of trees needs scikit-learn: pip install 'perceptrank[sklearn]'") from None
        self._trees = HistGradientBoostingRegressor(
            max_iter=n_trees, max_leaf_nodes=15, min_samples_leaf=5, early_stopping=False, random_state=seed
        )
        self._trees.fit(dense(stream.X), stream.relevance)

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return the grade of each document, by the trees."""
        return cast(Floats, self._trees.predict(np.asarray(X)))


class NetworkTeacher(Teacher):
    """A neural network with random weights, which no grade has a part in: two hidden layers of tanh.

    Features are in units of their standard deviation over the stream, from its mean, at most 3; missing ones count as 0
    before. Weights are Gaussian with the deviation 3 / sqrt(inputs), so that most units are beyond their linear part.
    """

    def __init__(self, stream: QueryStream, seed: int) -> None:
        X = np.nan_to_num(np.asarray(dense(stream.X), np.float64))
        self._mean, deviation = X.mean(axis=0), X.std(axis=0)
        self._deviation = np.where(deviation > 0, deviation, 1.0)
        sizes = [X.shape[1], *_HIDDEN_UNITS, 1]
        rng = np.random.default_rng([seed, 0, 1])  # not what the stream draws from
        self._weights = [_GAIN / np.sqrt(n) * rng.normal(size=(n, m)) for n, m in pairwise(sizes)]
        self._biases = [rng.normal(size=m) for m in sizes[1:]]

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return the grade of each document, by the network."""
        X = np.nan_to_num(np.asarray(X, np.float64))
        values: Floats = np.clip((X - self._mean) / self._deviation, -3.0, 3.0)
        for weights, biases in zip(self._weights[:-1], self._biases[:-1], strict=True):
            values = np.tanh(values @ weights + biases)
        grades: Floats = values @ self._weights[-1][:, 0] + self._biases[-1]
        return grades


class TeacherStream:
    """Blocks of simulated queries, always the same ones; what `teacher_stream` returns.

    Attributes
    ----------
    teacher : Teacher
        The truth: a ranker.
    n_queries : int
    """

    def __init__(
        self, stream: QueryStream, teacher: Teacher, n_queries: int, noise: float, smoothing: float, seed: int
    ) -> None:
        self.teacher, self.n_queries = teacher, n_queries
        self._rows: npt.NDArray[Any] = dense(stream.X)
        self._lengths = np.diff(stream.offsets)
        self._names = stream.feature_names
        self._smoothing, self._seed = smoothing, seed
        truth = teacher.predict(self._rows)
        self._deviation = noise * float(truth.std())
        grades, counts = np.unique(stream.relevance, return_counts=True)
        rng = np.random.default_rng([seed, 0])
        heights = np.repeat(truth, 8) + self._deviation * rng.normal(size=8 * len(truth))
        self._grades = grades
        self._bounds: Floats = np.quantile(heights, np.cumsum(counts)[:-1] / counts.sum())

    def __iter__(self) -> Iterator[QueryStream]:
        for first in range(0, self.n_queries, _BLOCK_QUERIES):
            yield self._block(first)[: self.n_queries - first]

    def __repr__(self) -> str:
        return f"TeacherStream({self.n_queries} queries, {self._rows.shape[1]} features)"

    def _block(self, first: int) -> QueryStream:
        rng = np.random.default_rng([self._seed, 1 + first // _BLOCK_QUERIES])
        sizes = rng.choice(self._lengths, size=_BLOCK_QUERIES)
        n = int(sizes.sum())
        X = self._rows[rng.integers(len(self._rows), size=n)]
        if self._smoothing:
            others = self._rows[rng.integers(len(self._rows), size=n)]
            X += (self._smoothing * rng.random((n, 1))).astype(self._rows.dtype) * (others - X)
        heights = self.teacher.predict(X) + self._deviation * rng.normal(size=n)
        relevance = self._grades[np.searchsorted(self._bounds, heights)]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return QueryStream(X, relevance, offsets, qids=first + np.arange(len(sizes)), feature_names=self._names)


def teacher_stream(
    stream: QueryStream,
    n_queries: int = 50_000,
    *,
    noise: float = 0.5,
    smoothing: float = 0.1,
    n_trees: int = 200,
    teacher: Literal["trees", "network"] = "trees",
    seed: int = 0,
) -> TeacherStream:
    """Simulate a long stream with nonlinear grades, from real judgements.

    Documents are drawn from all queries and moved a little towards another one, so that none comes twice; queries have
    real lengths. The teacher scores the documents, noise is added, and the sums become grades with the frequencies of
    the real ones. Blocks are the same each time; `teacher` of the result is the ranker that knows the truth.

    Parameters
    ----------
    stream : QueryStream
        Real judgements.
    n_queries : int
    noise : float
        Standard deviation of the noise, relative to that of the teacher's grades.
    smoothing : float
        A document moves up to this share of the way to another, at least 0 and less than 1; 0 keeps documents as is.
    n_trees : int
        Number of trees of the teacher; a network has none.
    teacher : {"trees", "network"}
        "trees" (needs scikit-learn) are fitted to the real grades. A "network" has two hidden layers of random weights;
        only the frequencies of the grades are real then. It is smooth, so it does not favour learners of trees.
    seed : int

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.teacher_stream(pr.mslr_shaped(50, n_documents=20, n_features=6), 200, n_trees=20)
    >>> stream, next(iter(stream))
    (TeacherStream(200 queries, 6 features), QueryStream(200 queries, 4286 documents, 6 features))
    >>> linear = pr.ListwisePerceptron().learn(stream, "ndcg@10").mean("ndcg@10")
    >>> bool(linear < pr.evaluate(stream.teacher, stream, "ndcg@10").mean("ndcg@10"))
    True
    """
    if not isinstance(stream, QueryStream):
        raise TypeError(f"stream must be a QueryStream, got {type(stream).__name__}")
    check_positive_whole("n_queries", n_queries)
    check_positive_whole("n_trees", n_trees)
    check_not_negative("noise", noise)
    check_not_negative("smoothing", smoothing)
    if smoothing >= 1:
        raise ParameterError("smoothing", "must be less than 1", smoothing)
    check_choice("teacher", teacher, ["trees", "network"])
    check_seed(seed)
    if not len(stream) or (stream.relevance == stream.relevance[0]).all():
        raise ValueError("stream must have documents of different grades for the teacher to learn from")
    truth = TreeTeacher(stream, n_trees, seed) if teacher == "trees" else NetworkTeacher(stream, seed)
    return TeacherStream(stream, truth, n_queries, noise, smoothing, seed)
