"""The paper's simulated stream: graded documents that some linear ranker orders perfectly, with a known margin."""

from typing import NamedTuple

import numpy as np

from perceptrank.arrays import Floats
from perceptrank.stream import QueryStream


class SeparableStream(NamedTuple):
    """A stream, the unit vector that ranks all of it correctly, and by how much."""

    stream: QueryStream
    ranker: Floats
    margin: float


def separable(
    n_queries: int,
    *,
    n_documents: int = 20,
    n_features: int = 20,
    n_grades: int = 5,
    margin: float = 0.5,
    noise: float = 1.0,
    seed: int = 0,
) -> SeparableStream:
    """Simulate queries that a unit vector w* ranks with exactly the given margin or more.

    Every grade has a Gaussian cloud of its own, with standard deviation `noise`. Gaussians alone overlap, so the
    component along w* is set instead: grade g lies in [g (margin + 1), g (margin + 1) + 1], hence documents of
    neighbouring grades are at least `margin` apart along w*.

    >>> simulated = separable(100, seed=1)
    >>> simulated.stream
    QueryStream(100 queries, 2000 documents, 20 features)
    """
    for name, value in {"n_queries": n_queries, "n_documents": n_documents, "n_grades": n_grades}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if n_features < 2:
        raise ValueError(f"n_features must be at least 2, got {n_features}")
    if margin <= 0 or noise < 0:
        raise ValueError(f"margin must be > 0 and noise >= 0, got {margin} and {noise}")
    rng = np.random.default_rng(seed)
    ranker = rng.normal(size=n_features)
    ranker /= np.linalg.norm(ranker)
    centers = rng.normal(size=(n_grades, n_features))
    grades = rng.integers(n_grades, size=n_queries * n_documents)
    X = centers[grades] + noise * rng.normal(size=(len(grades), n_features))
    heights = grades * (margin + 1) + rng.random(len(grades))
    X += np.outer(heights - X @ ranker, ranker)
    stream = QueryStream.from_arrays(X, grades, group=np.full(n_queries, n_documents))
    return SeparableStream(stream, ranker, margin)
