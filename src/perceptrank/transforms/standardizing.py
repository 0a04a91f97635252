"""Answers and compiled steps of transforms that standardise."""

from __future__ import annotations

import math

import numpy as np

from perceptrank.kernels.arrays import Features, Floats
from perceptrank.kernels.compiled import compiled, helper
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import are_finite, bad_feature
from perceptrank.transforms.forms import Affine
from perceptrank.transforms.transform import LearningTransform


class RunningScale(LearningTransform):
    """A transform that divides features by their standard deviations over all documents so far."""

    rises = True
    label, unit = "deviation", "standard deviation over all documents"
    count: float
    deviation: Floats

    def affine(self, n_features: int) -> Affine:
        deviation = self.deviation if self.count else np.zeros(n_features)
        inverse = np.divide(1.0, deviation, out=np.zeros(len(deviation)), where=deviation > 0.0)
        return Affine(self._centre(len(deviation)), inverse)

    def _centre(self, n_features: int) -> Floats:
        """Return what is subtracted from features first."""
        return np.zeros(n_features)

    def slopes(self, n_features: int) -> Floats | None:
        return super().slopes(n_features) if self.count else None

    def spreads(self, before: Floats) -> Floats:
        return (self.affine(len(before)).inverse > 0.0).astype(np.float64)


@helper
def describe_rows(X: Features, start: int, stop: int, mean: Floats, squares: Floats) -> None:
    """Write mean and sum of squared deviations of each column of X[start:stop].

    Values are taken relative to the first row, so that a constant column has exactly zero deviation.
    """
    for j in range(X.shape[1]):
        mean[j], squares[j] = 0.0, 0.0
    for i in range(start, stop):
        for j in range(X.shape[1]):
            mean[j] += X[i, j] - np.float64(X[start, j])
    for j in range(X.shape[1]):
        mean[j] /= stop - start
    for i in range(start, stop):
        for j in range(X.shape[1]):
            deviation = X[i, j] - np.float64(X[start, j]) - mean[j]
            squares[j] += deviation * deviation
    for j in range(X.shape[1]):
        mean[j] += X[start, j]


@helper
def invert_deviations(squares: Floats, count: float, inverse: Floats) -> None:
    """Write 1 / standard deviation of each column, 0 for a constant one."""
    for j in range(len(squares)):
        deviation = math.sqrt(squares[j] / count) if count > 0.0 else 0.0
        inverse[j] = 1.0 / deviation if deviation > 0.0 else 0.0


@helper
def standardize_rows(
    X: Features, start: int, stop: int, mean: Floats, inverse: Floats, scaled: Features, first: int
) -> None:
    """Write (X - mean) * inverse to rows start to stop of `scaled`, from column `first` on."""
    for i in range(start, stop):
        for j in range(X.shape[1]):
            scaled[i, first + j] = (X[i, j] - mean[j]) * inverse[j]


@compiled
def first_overflow(values: Floats) -> int:
    """Return the first feature whose value is not finite, -1 if all are."""
    for j in range(len(values)):
        if not math.isfinite(values[j]):
            return j
    return -1


def check_overflow(feature: int, X: AnyFeatures | None = None) -> None:
    """Raise if a pass over X returned a feature that overflows, or is not finite to begin with, rather than -1."""
    if feature >= 0:
        if X is not None and not are_finite(X):
            raise bad_feature(X, 0, None)
        raise ValueError(f"feature {feature} is too large to be scaled: its spread or its squares overflow")
