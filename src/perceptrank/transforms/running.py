"""Standardising features by all documents seen so far."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import numpy as np

from perceptrank.io.model_file import finite_numbers
from perceptrank.kernels.arrays import Features, FloatRows, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import read_only
from perceptrank.transforms.running_spread import RunningSpread
from perceptrank.transforms.standardizing import (
    RunningScale,
    check_overflow,
    describe_rows,
    first_overflow,
    invert_deviations,
    standardize_rows,
)
from perceptrank.transforms.transform import Transform, WritingTransform, learned_or_zeros

Vectors: TypeAlias = tuple[Floats, Floats, FloatRows]  # mean, sum of squared deviations, and three rows of scratch


class RunningStandardizer(RunningScale, WritingTransform):
    """Standardise each feature by its mean and deviation over all documents so far, the current query included.

    Statistics are merged query by query (Welford's recurrence in Chan's form), so the division into blocks does not
    change a bit of the result. Statistics of two streams can be merged, and they can be frozen.

    Examples
    --------
    >>> import perceptrank as pr
    >>> scaler = RunningStandardizer().learn(pr.QueryStream.from_arrays([[1.0], [3.0]], [0, 1]))
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
    def deviation(self) -> Floats:  # type: ignore[override]
        """Standard deviation of each feature."""
        return np.sqrt(self._squares / max(self.count, 1.0))

    def sparse_form(self) -> Transform:
        """Return a `RunningSpread`, which does not subtract the mean; raise if this transform has learned already."""
        if self.count > 0:
            raise TypeError(
                "running has learned from dense features, and subtracts their means: sparse ones become dense"
            )
        form = RunningSpread()
        form.frozen = self.frozen
        return form

    def _centre(self, n_features: int) -> Floats:
        return self.mean if self.count else np.zeros(n_features)

    def evaluate(self, X: Floats) -> Floats:
        mean, inverse = self.affine(X.shape[1])
        return np.where(inverse > 0.0, (X - mean) * inverse, 0.0)

    def merge(self, other: RunningStandardizer) -> Self:
        self._check_kind(other)
        if other.count > 0:
            mean, squares = learned_or_zeros(self._mean, self._squares, len(other._mean))
            count = merge_moments(self.count, mean, squares, other.count, other._mean, other._squares)
            check_overflow(first_overflow(squares))
            self.count, self._mean, self._squares = count, mean, squares
        return self

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        learning = learning and not self.frozen
        mean, squares = learned_or_zeros(self._mean, self._squares, X.shape[1])
        vectors = mean, squares, np.empty((3, X.shape[1]))
        count = running_pass(read_only(X), read_only(offsets), learning, self.count, vectors, outputs, first)
        if learning and len(X):
            check_overflow(first_overflow(squares), X)
            self.count, self._mean, self._squares = count, mean, squares

    def state(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "frozen": self.frozen,
            "mean": self._mean.tolist(),
            "squares": self._squares.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        n_features = len(state["mean"])
        mean = finite_numbers("mean", state["mean"], n_features)
        squares = finite_numbers("squares", state["squares"], n_features)
        count = finite_numbers("count", [state["count"]], 1)[0]
        if count < 0 or (squares < 0).any() or not isinstance(state["frozen"], bool):
            raise ValueError("count and squares must not be negative, and frozen must be true or false")
        if (count > 0) != (n_features > 0):
            raise ValueError("count must be 0 if and only if there are no statistics")
        self.count, self.frozen = float(count), state["frozen"]
        self._mean, self._squares = mean, squares


@compiled
def merge_moments(
    count: float, mean: Floats, squares: Floats, other_count: float, other_mean: Floats, other_squares: Floats
) -> float:
    """Add the moments of other rows to mean and squares in place; return the new count."""
    merged = count + other_count
    if merged > 0.0:
        for j in range(len(mean)):
            gap = other_mean[j] - mean[j]
            mean[j] += gap * (other_count / merged)
            squares[j] += other_squares[j] + gap * gap * (count * (other_count / merged))
    return merged


@compiled
def running_pass(
    X: Features, offsets: Ints, learning: bool, count: float, vectors: Vectors, scaled: Features, first: int
) -> float:
    """Standardise every query by all rows seen so far, its own included; return the new row count."""
    mean, squares, rows = vectors
    query_mean, query_squares, inverse = rows[0], rows[1], rows[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if learning:
            describe_rows(X, start, stop, query_mean, query_squares)
            count = merge_moments(count, mean, squares, float(stop - start), query_mean, query_squares)
        invert_deviations(squares, count, inverse)
        standardize_rows(X, start, stop, mean, inverse, scaled, first)
    return count
