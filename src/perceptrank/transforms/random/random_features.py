"""The base of transforms to random features."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from perceptrank.kernels.arrays import Features
from perceptrank.stream.validation import check_flag, check_positive, check_positive_whole, check_seed
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.random.directions import Directions, draw_directions
from perceptrank.transforms.transform import Transform, WritingTransform

_MOST_BYTES = 2**30  # of a matrix in a file of ONNX, which has at most twice that
_SHARE = 0.5  # of the norm of standardised features, that random features beside them have


class RandomFeatures(WritingTransform):
    """Random functions of all features at once: a linear ranker on them is a non-linear one of the features.

    What is drawn depends on the seed and the number of features alone, on every machine: model files have these two.

    Parameters
    ----------
    n_features : int
        Number of random features; an even number for `RandomFourier` and `Fastfood`.
    orthogonal : bool
        Make directions orthogonal. It takes time n_features d² for d features, once.
    beside : bool
        Keep the features themselves, in front of the random ones.
    norm : float, optional
        Norm of the random features: by default √(d) / 2 beside d features, else 1.
    seed : int
        Seed of the directions.
    """

    scope = "document"
    orthogonal = False
    _drawn: Any = None

    def __init__(self, n_features: int, *, beside: bool, norm: float | None, seed: int) -> None:
        self.n_features = check_positive_whole("n_features", n_features)
        self.beside = check_flag("beside", beside)
        self.norm = None if norm is None else check_positive("norm", norm)
        check_seed(seed)
        self.seed = int(seed)

    def _draw_directions(self, n: int, n_columns: int) -> Directions:
        """Return n directions, and keep them: they are drawn once for all transforms that hold them."""
        kept: Directions | None = self._drawn
        if kept is None or kept.rows.shape[1] != n_columns:
            kept = self._drawn = draw_directions(self.seed, n, n_columns, orthogonal=self.orthogonal)
        return kept

    def norm_for(self, n_features: int) -> float:
        """Return the number that random features are multiplied by."""
        if self.norm is not None:
            return self.norm
        return _SHARE * math.sqrt(n_features) if self.beside else 1.0

    def _factor_in(self, dtype: Any, factor: float) -> Any:
        """Return a factor of random features in the precision of features; raise if that cannot hold it."""
        with np.errstate(over="ignore"):
            held = np.dtype(dtype).type(factor)
        if not np.finfo(dtype).tiny <= held < math.inf:
            raise ValueError(
                f"{self.name} cannot multiply {np.dtype(dtype)} features by {factor:g}: take another norm than "
                f"{self.norm!r}"
            )
        return held

    def sparse_form(self) -> Transform:
        raise TypeError(
            f"{self.name} makes dense features of all features at once, and takes no sparse ones; to_dense() makes a "
            "stream dense"
        )

    def write(self, X: Features, offsets: Any, outputs: Features, first: int, *, learning: bool) -> None:
        if self.beside:
            outputs[:, first : first + X.shape[1]] = X
            first += X.shape[1]
        self._write_random(X, offsets, outputs, first, learning=learning)

    @abstractmethod
    def _write_random(self, X: Features, offsets: Any, outputs: Features, first: int, *, learning: bool) -> None:
        """Write random features, from column `first` on."""

    def n_outputs(self, n_features: int) -> int:
        return self.n_features + (n_features if self.beside else 0)

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        kept = [X] if self.beside else []
        return str(nodes.add("Concat", *kept, *self._add_random(nodes, X, n_features), axis=1))

    @abstractmethod
    def _add_random(self, nodes: Nodes, X: str, n_features: int) -> list[str]:
        """Add random features to an ONNX graph; return the names of matrices that stand side by side."""

    def _check_matrix(self, n_rows: int, n_features: int) -> None:
        """Raise if a matrix of so many directions is too large for an ONNX graph."""
        if 8 * n_rows * n_features > _MOST_BYTES:
            raise ValueError(
                f"{self!r} of {n_features} features is a matrix of {8e-9 * n_rows * n_features:.1f} GB in a graph, "
                "which files of ONNX have no room for: take fewer random features"
            )

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        return (*(names if self.beside else ()), *(f"random {k}" for k in range(self.n_features)))

    def largest_norm(self, n_features: int, longest: int) -> float:
        return self.largest_norm_after(math.inf, n_features, longest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # what it holds is replaced, never changed

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_drawn": None}
