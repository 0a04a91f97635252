"""Filling in missing values."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from perceptrank.io.model_file import finite_numbers
from perceptrank.kernels.arrays import Features, FloatRows, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import ParameterError, as_number, check_finite, check_flag, read_only
from perceptrank.transforms.forms import Filling, Nodes
from perceptrank.transforms.lineage import Form, Lineage, Outputs
from perceptrank.transforms.transform import WritingTransform, learned_or_zeros

Fill = Literal["mean", "zero"] | float
Vectors: TypeAlias = tuple[Floats, Floats, FloatRows]  # counts, means, and three rows of scratch


class Missing(WritingTransform):
    """Replace missing values, which are NaN; as the first transform of a learner, which then takes them.

    The mean of a feature is over the values that were not missing so far, those of the query included; it is 0 while
    there are none. Means are merged query by query, so the division into blocks does not change a bit of the result.

    Parameters
    ----------
    fill : "mean", "zero", or float
        What missing values become.
    indicator : bool
        Append a feature for each, that is 1 where the value is missing and 0 elsewhere.

    Examples
    --------
    >>> import perceptrank as pr
    >>> nan = float("nan")
    >>> stream = pr.QueryStream.from_arrays([[1.0, nan], [nan, nan], [5.0, 2.0]], [0, 1, 0], missing="keep")
    >>> Missing(indicator=True).learn_and_apply(stream.X, stream.offsets)
    array([[1., 2., 0., 1.],
           [3., 2., 1., 1.],
           [5., 2., 0., 0.]])
    """

    name = "missing"
    accepts_missing = True

    def __init__(self, fill: Fill = "mean", *, indicator: bool = False) -> None:
        number = as_number(fill)
        if not math.isfinite(number) and not (isinstance(fill, str) and fill in ("mean", "zero")):
            raise ParameterError("fill", "must be 'mean', 'zero' or a number", fill)
        self.fill: str | float = number if math.isfinite(number) else fill
        self.indicator = check_flag("indicator", indicator)
        self._counts: Floats = np.zeros(0)
        self._means: Floats = np.zeros(0)

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return self.fill == "mean"

    @property
    def counts(self) -> Floats:
        """Number of values of each feature that were not missing, if means are learned."""
        return self._counts.copy()

    @property
    def means(self) -> Floats:
        """Mean of each feature, if means are learned."""
        return self._means.copy()

    def merge(self, other: Missing) -> Self:
        self._check_kind(other)
        if self.settings() != other.settings():
            raise ValueError(f"{self!r} and {other!r} differ in their settings")
        if len(other._counts):
            counts, means = learned_or_zeros(self._counts, self._means, len(other._counts))
            merge_means(counts, means, other._counts, other._means)
            _check_means(means)
            self._counts, self._means = counts, means
        return self

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        learning = learning and self.learns
        counts, means = learned_or_zeros(self._counts, self._means, X.shape[1])
        if not self.learns:
            means = self.filling(X.shape[1]).values
            if np.abs(means[0]) > np.finfo(X.dtype).max:
                raise ParameterError("fill", f"must be a number that {X.dtype} holds, as the features are", self.fill)
        vectors = counts, means, np.empty((3, X.shape[1]))
        missing_pass(read_only(X), read_only(offsets), learning, vectors, self.indicator, outputs, first)
        if learning:
            if not np.isfinite(means).all():
                check_finite(X, None, keep_missing=True)
                _check_means(means)
            self._counts, self._means = counts, means

    def n_outputs(self, n_features: int) -> int:
        return 2 * n_features if self.indicator else n_features

    def sources(self, n_features: int) -> Ints:
        own = np.arange(n_features)
        return np.concatenate([own, -1 - own]) if self.indicator else own

    def filling(self, n_features: int) -> Filling:
        if not self.learns:
            return Filling(np.full(n_features, 0.0 if self.fill == "zero" else float(self.fill)), self.indicator)
        return Filling(self._means.copy() if len(self._means) else np.zeros(n_features), self.indicator)

    def trace(self, lineage: Lineage, inputs: Outputs) -> Outputs:
        if not self.indicator:
            return inputs
        n = len(inputs.source)
        indicators = lineage.bend(inputs, lambda form: Form("missing", "missing value", "whether it is missing"))
        indicators = indicators._replace(base=lineage.new_bases(n), rises=np.zeros(n, bool))
        return Outputs.beside([inputs, indicators])

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        is_missing = nodes.add("IsNaN", X)
        filled = nodes.add("Where", is_missing, self.filling(n_features).values, X)
        return str(nodes.add("Concat", filled, nodes.as_double(is_missing), axis=1) if self.indicator else filled)

    def slopes(self, n_features: int) -> Floats | None:
        return None if self.indicator else np.ones(n_features)

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is None or not self.indicator:
            return names
        return (*names, *(f"{name} missing" for name in names))

    def state(self) -> dict[str, Any]:
        return self.settings() | {"counts": self._counts.tolist(), "means": self._means.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        n_features = len(state["counts"])
        counts = finite_numbers("counts", state["counts"], n_features)
        means = finite_numbers("means", state["means"], n_features)
        if (counts < 0).any() or (counts != np.floor(counts)).any():
            raise ValueError("counts must be whole numbers, not negative")
        if n_features and not self.learns:
            raise ValueError(f"there must be no means to fill in {self.fill!r}")
        self._counts, self._means = counts, means

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # its arrays are replaced, never changed

    def __repr__(self) -> str:
        return f"Missing({self.fill!r}, indicator=True)" if self.indicator else f"Missing({self.fill!r})"


def _check_means(means: Floats) -> None:
    if not np.isfinite(means).all():
        j = int(np.argmin(np.isfinite(means)))
        raise ValueError(f"feature {j} is too large to have a mean: differences of its values overflow")


@compiled
def merge_means(counts: Floats, means: Floats, other_counts: Floats, other_means: Floats) -> None:
    """Add the means of other values to counts and means, in place; those of no values change nothing."""
    for j in range(len(counts)):
        if other_counts[j] > 0.0:
            counts[j] += other_counts[j]
            means[j] += (other_means[j] - means[j]) * (other_counts[j] / counts[j])


@compiled
def missing_pass(
    X: Features, offsets: Ints, learning: bool, vectors: Vectors, indicator: bool, outputs: Features, first: int
) -> None:
    """Write every query with missing values replaced by the means, which its own values belong to if it is learned.

    The mean of a query is its first value plus the mean difference from that, so that of a constant is exact.
    """
    n_features = X.shape[1]
    counts, means, rows = vectors
    query_counts, query_means, origins = rows[0], rows[1], rows[2]
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        if learning:
            for j in range(n_features):
                query_counts[j], query_means[j], origins[j] = 0.0, 0.0, math.nan
            for i in range(start, stop):
                for j in range(n_features):
                    x = np.float64(X[i, j])
                    origins[j] = x if math.isnan(origins[j]) else origins[j]
                    difference = x - origins[j]
                    query_means[j] += 0.0 if math.isnan(x) else difference
                    query_counts[j] += 0.0 if math.isnan(x) else 1.0
            for j in range(n_features):
                query_means[j] = origins[j] + query_means[j] / query_counts[j]  # if there are any
            merge_means(counts, means, query_counts, query_means)
        for i in range(start, stop):
            for j in range(n_features):
                x = X[i, j]
                outputs[i, first + j] = means[j] if math.isnan(x) else x
            if indicator:
                for j in range(n_features):
                    outputs[i, first + n_features + j] = 1.0 if math.isnan(X[i, j]) else 0.0
