"""Random Fourier features: sines and cosines of projections on random directions."""

from __future__ import annotations

from typing import Any

from perceptrank.kernels.arrays import Features, Floats, aligned
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.lanes import LANES
from perceptrank.stream.validation import check_flag, read_only
from perceptrank.transforms.random.fourier_features import FourierFeatures
from perceptrank.transforms.random.projection import N_TILES, ROWS, fill_tiles, panel_width, project_tile
from perceptrank.transforms.random.waves import store_waves


class RandomFourier(FourierFeatures):
    """Sines and cosines of random projections, beside the features: a linear ranker on them is a kernel machine.

    With P = n_features / 2 directions w, of which each is standard normal, x becomes

        √(1 / P) sin(w . x / width),  √(1 / P) cos(w . x / width)

    for all w, times `norm`. Without that, they have norm 1, and the product of those of two documents is the mean of
    cos(w . (x - y) / width), which is exp(-|x - y|² / (2 width²)), the Gaussian kernel, in expectation; it differs
    from that by about 1 / √(P). Directions are orthogonal to each other in blocks of as many as there are features,
    which leaves each standard normal and makes the error smaller.

    Features should be on one scale: `transforms=["auto", "random-fourier"]`. The width is `relative_width` times the
    median distance of documents of the same query, over the queries so far (`MedianDistance`); it stays as it is from
    the end of the query on that brings their number to `after` documents. It is 1 as long as all documents are equal.

    References
    ----------
    - A. Rahimi and B. Recht, "Random Features for Large-Scale Kernel Machines".
    - F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice and S. Kumar, "Orthogonal Random Features".

    Examples
    --------
    >>> import numpy as np
    >>> x, y = [0.0, 0.0], [1.0, 0.0]
    >>> waves = RandomFourier(4096, width=1.0, beside=False).apply([x, y], [0, 2])
    >>> (waves @ waves.T).round(1), round(float(np.exp(-1 / 2)), 1)
    (array([[1. , 0.6],
           [0.6, 1. ]]), 0.6)
    """

    name = "random-fourier"

    def __init__(
        self,
        n_features: int = 2048,
        *,
        width: float | None = None,
        relative_width: float = 0.5,
        orthogonal: bool = True,
        beside: bool = True,
        norm: float | None = None,
        after: int = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(
            n_features, width=width, relative_width=relative_width, beside=beside, norm=norm, after=after, seed=seed
        )
        self.orthogonal = check_flag("orthogonal", orthogonal)

    def room(self, n_features: int) -> int:
        return self.n_features // 2 * n_features

    def directions(self, n_features: int) -> Floats:
        return self._draw_directions(self.n_features // 2, n_features).rows

    def _write_waves(self, X: Features, factor: Any, scale: Any, outputs: Features, first: int) -> None:
        panels = self._draw_directions(self.n_features // 2, X.shape[1]).panels(X.dtype)
        shapes = (N_TILES, X.shape[1], ROWS), (ROWS, panel_width(X.dtype)), (2, panel_width(X.dtype))
        tiles, products, waves = (aligned(shape, X.dtype) for shape in shapes)
        scratch = tiles, products, waves
        fourier_pass(read_only(X), factor, panels, self.n_features // 2, scale, outputs, first, scratch)


@compiled
def fourier_pass(
    X: Features,
    factor: float,
    panels: Features,
    n_pairs: int,
    scale: float,
    outputs: Features,
    first: int,
    scratch: tuple[Features, Features, Features],
) -> None:
    """Write sines and cosines of the products of rows, times a factor, with the directions of all panels."""
    tiles, products, waves = scratch  # and what of them does not fill a vector
    m, n_features, width, stride = X.shape[0], X.shape[1], panels.shape[2], outputs.shape[1]
    for start in range(0, m, N_TILES * ROWS):
        stop = min(m, start + N_TILES * ROWS)
        n_tiles = fill_tiles(X, start, stop, factor, tiles)
        for p in range(len(panels)):
            column, used = p * width, min(width, n_pairs - p * width)
            for number in range(n_tiles):
                row = start + number * ROWS
                project_tile(tiles, number * n_features * ROWS, n_features, panels, p * n_features * width, products)
                for k in range(min(ROWS, stop - row)):
                    place = (row + k) * stride + first + column
                    if used == width:
                        store_waves(products, k * width, width // LANES, scale, outputs, place, place + n_pairs)
                    else:
                        store_waves(products, k * width, width // LANES, scale, waves, 0, width)
                        for j in range(used):
                            outputs[row + k, first + column + j] = waves[0, j]
                            outputs[row + k, first + n_pairs + column + j] = waves[1, j]
