"""Random projections, cut off below 0: the first layer of a neural network that is not trained."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from perceptrank.kernels.arrays import Features, Ints, aligned
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import check_flag, check_not_negative, read_only
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.random.directions import Directions
from perceptrank.transforms.random.projection import N_TILES, ROWS, fill_tiles, panel_width, project_tile
from perceptrank.transforms.random.random_features import RandomFeatures

Scratch: TypeAlias = tuple[Features, Features]  # tiles, and their products with a panel


class RandomRelu(RandomFeatures):
    """Random projections, cut off below 0, beside the features: a linear ranker on them is a network with one layer.

    With P = n_features directions w and numbers b, all of them standard normal, d features x become

        √(2 / P) max(0, w . x / √(d) + bias b)

    for all w and b, times `norm`. For z = (x / √(d), bias), the product of those of two documents is |z| |z'| (sin a
    + (pi - a) cos a) / pi in expectation, a being the angle between z and z': the arc-cosine kernel. Features should be
    on one scale: `transforms=["auto", "random-relu"]`. Nothing is learned. `norm` is that where |z| = 1, in the mean.

    Parameters
    ----------
    bias : float ≥ 0
        Spread of the thresholds; 0 for none.

    References
    ----------
    Y. Cho and L. K. Saul, "Kernel Methods for Deep Learning".

    Examples
    --------
    >>> random = RandomRelu(4096, bias=0.0, beside=False).apply([[1.0, 0.0], [0.0, 1.0]], [0, 2])
    >>> (2 * random @ random.T).round(1), round(1 / 3.14159, 1)
    (array([[1. , 0.3],
           [0.3, 1. ]]), 0.3)
    """

    name = "random-relu"

    def __init__(
        self,
        n_features: int = 2048,
        *,
        bias: float = 1.0,
        orthogonal: bool = True,
        beside: bool = True,
        norm: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_features, beside=beside, norm=norm, seed=seed)
        self.bias = check_not_negative("bias", bias)
        self.orthogonal = check_flag("orthogonal", orthogonal)

    def directions(self, n_features: int) -> Directions:
        """Return w and b of the projections, one in each row, which has one column more than features, for b."""
        return self._draw_directions(self.n_features, n_features + 1)

    def room(self, n_features: int) -> int:
        return self.n_features * (n_features + 1)

    def factor_for(self, n_features: int) -> float:
        """Return the number that a projection is multiplied by in the end."""
        return self.norm_for(n_features) * math.sqrt(2.0 / self.n_features)

    def _write_random(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        n_features = X.shape[1]
        factor = self._factor_in(X.dtype, self.factor_for(n_features) / math.sqrt(n_features))
        panels = self.directions(n_features).panels(X.dtype)
        tiles: Features = aligned((N_TILES, n_features + 1, ROWS), X.dtype)
        with np.errstate(over="ignore"):
            tiles[:, -1] = self.bias * self.factor_for(n_features)
        if not math.isfinite(tiles[0, -1, 0]):
            raise ValueError(
                f"{self.name} cannot add a bias of {self.bias:g} to {X.dtype} features: take a smaller one"
            )
        products: Features = aligned((ROWS, panel_width(X.dtype)), X.dtype)
        relu_pass(read_only(X), factor, panels, self.n_features, outputs, first, (tiles, products))

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        if norm == math.inf:
            return math.inf
        length = math.hypot(norm / math.sqrt(n_features), self.bias)
        random = self.factor_for(n_features) * length * math.sqrt(self.directions(n_features).largest_square)
        return math.hypot(norm if self.beside else 0.0, random)

    def _add_random(self, nodes: Nodes, X: str, n_features: int) -> list[str]:
        self._check_matrix(self.n_features, n_features)
        rows, factor = self.directions(n_features).rows, self.factor_for(n_features)
        matrix = np.ascontiguousarray(rows[:, :-1].T) * (factor / np.sqrt(n_features))
        heights = nodes.add("Add", nodes.product(X, matrix), factor * self.bias * rows[:, -1])
        return [nodes.add("Max", heights, 0.0)]

    def __repr__(self) -> str:
        return f"RandomRelu({self.n_features}, bias={self.bias:g}, beside={self.beside}, seed={self.seed})"


@compiled
def relu_pass(
    X: Features, factor: float, panels: Features, n_random: int, outputs: Features, first: int, scratch: Scratch
) -> None:
    """Write products of rows, times a factor, with all directions, cut off below 0; a tile ends with a row for b."""
    tiles, products = scratch
    m, n_inputs, width = X.shape[0], panels.shape[1], panels.shape[2]
    zero = factor - factor
    for start in range(0, m, N_TILES * ROWS):
        stop = min(m, start + N_TILES * ROWS)
        n_tiles = fill_tiles(X, start, stop, factor, tiles)
        for p in range(len(panels)):
            used = min(width, n_random - p * width)
            for number in range(n_tiles):
                row = start + number * ROWS
                project_tile(tiles, number * n_inputs * ROWS, n_inputs, panels, p * n_inputs * width, products)
                for k in range(min(ROWS, stop - row)):
                    for j in range(used):
                        value = products[k, j]
                        # Minus infinity becomes NaN, so that what is not finite is noticed.
                        outputs[row + k, first + p * width + j] = value if not value < zero else zero * value + zero
