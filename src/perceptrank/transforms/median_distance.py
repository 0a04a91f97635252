"""The median distance of documents of the same query, which says how wide a kernel should be."""

import copy
from typing import Any

import numpy as np

from perceptrank.io.model_file import whole_number
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.validation import bad_feature
from perceptrank.transforms.quantile_sketch import QuantileSketch

MOST = 64  # documents of a query that are compared with each other


class MedianDistance:
    """The median of the Euclidean distances between documents of a query, over the queries so far.

    Of each query, the first 64 documents are compared with each other; pairs of equal documents do not count. The
    median is that of a `QuantileSketch`: exact for fewer than 256 pairs, and for 10,000 off by at most 124 places among
    the sorted distances.

    It is never changed: adding and merging return new ones.
    """

    def __init__(self) -> None:
        self.n_documents = 0  # of all queries, compared or not
        self._sketch = QuantileSketch(1)

    @property
    def value(self) -> float:
        """The median, 0 if no documents differed."""
        return float(self._sketch.quantiles(2)[0, 1]) if self._sketch.count else 0.0

    def add(self, X: Features) -> "MedianDistance":
        """Return the median of the queries so far and one more; raise if a feature is not finite or far too large."""
        median = copy.copy(self)
        median.n_documents += len(X)
        lengths = distances(X[:MOST])
        if not np.isfinite(lengths).all():
            if not np.isfinite(X).all():
                raise bad_feature(X, 0, None)
            raise ValueError("distances of documents overflow, as features are too large: scale them first")
        median._sketch = self._sketch.add(lengths[lengths > 0.0][:, None])
        return median

    def merge(self, other: "MedianDistance") -> "MedianDistance":
        """Return the median of the queries of both."""
        median = copy.copy(self)
        median.n_documents += other.n_documents
        median._sketch = self._sketch.merge(other._sketch)
        return median

    def state(self) -> dict[str, Any]:
        """Return it as numbers and lists."""
        return {"n_documents": self.n_documents, "sketch": self._sketch.state() if self._sketch.count else None}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "MedianDistance":
        """Return what `state` was called on; raise if it is inconsistent."""
        median = cls()
        median.n_documents = whole_number("n_documents", state["n_documents"])
        if state["sketch"] is not None:
            median._sketch = QuantileSketch.restore(state["sketch"])
            if median._sketch.n_features != 1 or not median._sketch.count or not median._sketch.smallest[0] > 0.0:
                raise ValueError("a median distance must come from positive distances")
        return median


def distances(X: Features) -> Floats:
    """Return the Euclidean distances of all pairs of rows, in the order of the first row, then of the second."""
    rows = X.astype(np.float64)
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(rows) - 1):
            gaps = rows[i + 1 :] - rows[i]
            # Division by a power of 2 changes no bit, but keeps the squares of very small gaps.
            power = np.minimum(np.frexp(np.abs(gaps).max(axis=1))[1], 0)
            lengths = np.sqrt(np.square(np.ldexp(gaps, -power[:, None])).sum(axis=1))
            parts.append(np.ldexp(lengths, power))
    return np.concatenate(parts) if parts else np.zeros(0)
