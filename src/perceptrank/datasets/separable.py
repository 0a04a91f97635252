"""The paper's simulated stream: linearly separable grades with a known margin."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.stream.blocks import Scan
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import (
    ParameterError,
    as_number,
    check_not_negative,
    check_positive,
    check_positive_whole,
    check_seed,
)

_BATCH = 256


class SeparableStream(NamedTuple):
    """A simulated stream and its comparator.

    Attributes
    ----------
    stream : QueryStream
    ranker : array of shape (features,)
        Unit vector that ranks every query correctly, apart from label noise.
    margin : float
        Margin of the ranker.
    """

    stream: QueryStream
    ranker: "Floats"
    margin: float


class SeparableBlocks(NamedTuple):
    """Simulated blocks and their comparator.

    Attributes
    ----------
    blocks : Scan
        Re-iterable blocks; endless if no number of queries was given.
    ranker : array of shape (features,)
        Unit vector that ranks every query correctly, apart from label noise.
    margin : float
        Margin of the ranker.
    """

    blocks: Scan
    ranker: "Floats"
    margin: float


def separable(
    n_queries: int,
    *,
    n_documents: int = 20,
    n_features: int = 20,
    n_grades: int = 5,
    margin: float = 0.5,
    noise: float = 1.0,
    label_noise: float = 0.0,
    seed: int = 0,
) -> SeparableStream:
    """Simulate queries that a unit vector u ranks correctly with at least the given margin.

    Features are Gaussian around a centre per grade, except for the component along u: that of grade g is uniform on
    [g (margin + 1), g (margin + 1) + 1], so documents of adjacent grades are at least `margin` apart along u.

    The queries are a prefix of an endless stream that depends on all parameters but `n_queries`; `separable_blocks`
    returns it in blocks. Ranker and margin of the result are those of the grades without label noise.

    Parameters
    ----------
    n_queries : int
    n_documents : int
        Number of documents per query.
    n_features : int
        Number of features, at least 2.
    n_grades : int
        Number of grades: 0 to n_grades - 1.
    margin : float
        Margin of w*.
    noise : float
        Standard deviation of the features within a grade.
    label_noise : float
        Probability of a wrong grade, uniform over the others.
    seed : int

    Examples
    --------
    >>> simulated = separable(100, seed=1)
    >>> simulated.stream
    QueryStream(100 queries, 2000 documents, 20 features)
    """
    check_positive_whole("n_queries", n_queries)
    simulation = _Simulation(n_documents, n_features, n_grades, margin, noise, label_noise, seed)
    return SeparableStream(simulation.queries(0, n_queries), simulation.ranker, float(margin))


def separable_blocks(
    n_queries: int | None = None,
    *,
    queries_per_block: int = 1000,
    n_documents: int = 20,
    n_features: int = 20,
    n_grades: int = 5,
    margin: float = 0.5,
    noise: float = 1.0,
    label_noise: float = 0.0,
    seed: int = 0,
) -> SeparableBlocks:
    """Simulate the queries of `separable` lazily, in re-iterable blocks.

    Other parameters are those of `separable`.

    Parameters
    ----------
    n_queries : int, optional
        Number of queries; default endless.
    queries_per_block : int

    Examples
    --------
    >>> from itertools import islice
    >>> simulated = separable_blocks(queries_per_block=50)
    >>> [len(block) for block in islice(simulated.blocks, 3)]
    [50, 50, 50]
    """
    if n_queries is not None:
        check_positive_whole("n_queries", n_queries)
    check_positive_whole("queries_per_block", queries_per_block)
    simulation = _Simulation(n_documents, n_features, n_grades, margin, noise, label_noise, seed)

    def start() -> Iterator[QueryStream]:
        for first in count(0, queries_per_block) if n_queries is None else range(0, n_queries, queries_per_block):
            last = first + queries_per_block
            yield simulation.queries(first, last if n_queries is None else min(last, n_queries))

    length = "endless" if n_queries is None else f"{n_queries} queries"
    return SeparableBlocks(Scan(start, f"separable, {length}"), simulation.ranker, float(margin))


@dataclass
class _Simulation:
    """Random access to the simulated queries: each batch has its own random generator."""

    n_documents: int
    n_features: int
    n_grades: int
    margin: float
    noise: float
    label_noise: float
    seed: int

    def __post_init__(self) -> None:
        check_positive_whole("n_documents", self.n_documents)
        check_positive_whole("n_grades", self.n_grades)
        check_positive_whole("n_features", self.n_features, least=2)
        check_positive("margin", self.margin)
        check_not_negative("noise", self.noise)
        if not 0 <= as_number(self.label_noise) <= 1:
            raise ParameterError("label_noise", "must be a probability", self.label_noise)
        check_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        ranker = rng.normal(size=self.n_features)
        self.ranker: Floats = ranker / np.linalg.norm(ranker)
        self._centers = rng.normal(size=(self.n_grades, self.n_features))

    def queries(self, first: int, last: int) -> QueryStream:
        """Return the queries ``first : last``."""
        batches = [self._batch(number) for number in range(first // _BATCH, (last - 1) // _BATCH + 1)]
        skipped = first // _BATCH * _BATCH * self.n_documents
        rows = slice(first * self.n_documents - skipped, last * self.n_documents - skipped)
        X = np.concatenate([batch[0] for batch in batches])[rows]
        grades = np.concatenate([batch[1] for batch in batches])[rows]
        offsets = np.arange(0, len(X) + 1, self.n_documents)
        return QueryStream(X, grades, offsets, qids=np.arange(first, last))

    def _batch(self, number: int) -> tuple[Floats, Floats]:
        rng = np.random.default_rng([self.seed, 1, number])
        grades = rng.integers(self.n_grades, size=_BATCH * self.n_documents)
        X = self._centers[grades] + self.noise * rng.normal(size=(len(grades), len(self.ranker)))
        heights = grades * (self.margin + 1) + rng.random(len(grades))
        X += np.outer(heights - X @ self.ranker, self.ranker)
        if self.label_noise and self.n_grades > 1:
            wrong = rng.random(len(grades)) < self.label_noise
            grades[wrong] = (grades[wrong] + rng.integers(1, self.n_grades, size=wrong.sum())) % self.n_grades
        return X, grades.astype(np.float64)
