"""Random Fourier features by Walsh-Hadamard transforms, in time D log d in place of D d."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Features, Floats, Ints, aligned
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.lanes import LANES
from perceptrank.stream.memory import check_room
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense
from perceptrank.stream.validation import (
    ParameterError,
    check_flag,
    check_positive,
    check_positive_whole,
    check_seed,
    read_only,
)
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.median_distance import MedianDistance
from perceptrank.transforms.random.draws import draw_lengths, draw_normal, draw_order, draw_signs
from perceptrank.transforms.random.walsh_hadamard import transform_rows, turn_rows
from perceptrank.transforms.random.waves import store_waves
from perceptrank.transforms.transform import LearningTransform, Transform, WritingTransform, check_width

_SIGNS, _ORDER, _NUMBERS, _LENGTHS = range(2, 6)
_MOST_BYTES = 2**30  # of a matrix in a file of ONNX, which has at most twice that
_SHARE = 0.5  # of the norm of standardised features, that random features beside them have


class Drawn(NamedTuple):
    """The random numbers of blocks of n directions, one block in each row: directions are S H G P H B."""

    signs: Features
    order: Ints
    numbers: Features
    lengths: Features


class Fastfood(WritingTransform, LearningTransform):
    """Sines and cosines of random projections, beside the features: a linear ranker on them is a kernel machine.

    With P = n_features / 2 directions w, of which each is standard normal, x becomes

        √(1 / P) sin(w . x / width),  √(1 / P) cos(w . x / width)

    for all w, times `norm`. Without that, they have norm 1, and the product of those of two documents is the mean of
    cos(w . (x - y) / width), which is exp(-|x - y|² / (2 width²)), the Gaussian kernel, in expectation; it differs
    from that by about 1 / √(P).

    For d features, directions come in blocks of n, the power of 2 from d on and at least 8. Those of a block are the
    rows of

        S H G P H B

    with H the Walsh-Hadamard matrix, B random signs, P a random order, G independent standard normal numbers and S such
    that rows are as long as independent standard normal vectors. Each row by itself is standard normal; rows of a block
    depend on each other. This takes time n_features log d a document and memory n_features. What is drawn depends on
    the seed and the number of features alone, on every machine: model files have these two.

    Features should be on one scale: `transforms=["auto", "fastfood"]`. The width is `relative_width` times the median
    distance of documents of the same query, over the queries so far (`MedianDistance`); it stays as it is from the end
    of the query on that brings their number to `after` documents. It is 1 as long as all documents are equal. `width_`
    is the width as it is now, 0 before anything was seen; it stays as it is if `frozen`.

    Parameters
    ----------
    n_features : int
        Number of random features, even.
    width : float, optional
        Width of the kernel; by default it comes from the distances of documents.
    relative_width : float
        Width in units of the median distance.
    beside : bool
        Keep the features themselves, in front of the random ones.
    norm : float, optional
        Norm of the random features: by default √(d) / 2 beside d features, else 1.
    after : int
        Number of documents from which on the width stays as it is.
    seed : int
        Seed of the directions.

    References
    ----------
    - Q. Le, T. Sarlos and A. Smola, "Fastfood: Approximating Kernel Expansions in Loglinear Time".
    - A. Rahimi and B. Recht, "Random Features for Large-Scale Kernel Machines".

    Examples
    --------
    >>> import numpy as np
    >>> x, y = [0.0, 0.0], [1.0, 0.0]
    >>> waves = Fastfood(4096, width=1.0, beside=False).apply([x, y], [0, 2])
    >>> (waves @ waves.T).round(1), round(float(np.exp(-1 / 2)), 1)
    (array([[1. , 0.6],
           [0.6, 1. ]]), 0.6)
    """

    name = "fastfood"
    scope = "document"
    settles = True
    _drawn: dict[Any, Drawn] | None = None

    def __init__(
        self,
        n_features: int = 2048,
        *,
        width: float | None = None,
        relative_width: float = 0.5,
        beside: bool = True,
        norm: float | None = None,
        after: int = 1000,
        seed: int = 0,
    ) -> None:
        self.n_features = check_positive_whole("n_features", n_features)
        self.beside = check_flag("beside", beside)
        self.norm = None if norm is None else check_positive("norm", norm)
        check_seed(seed)
        self.seed = int(seed)
        self.width = None if width is None else check_positive("width", width)
        self.relative_width = check_positive("relative_width", relative_width)
        self.after = check_positive_whole("after", after)
        if self.n_features % 2:
            raise ParameterError("n_features", "must be even, as sines and cosines come in pairs", self.n_features)
        self.n_inputs = 0
        self._median: MedianDistance | None = None
        self.width_, self.frozen = self.width or 0.0, self.width is not None

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return self.width is None

    def _learn_block(self, block: QueryStream) -> None:
        for _ in self._spans(dense(block.X), block.offsets, learning=True):
            pass

    def freeze(self) -> Self:
        self._check_seen()
        self.frozen, self._median = True, None
        return self

    def merge(self, other: Self) -> Self:
        """Add the distances of another one with the same settings, whose width still moves, to this one's."""
        self._check_kind(other)
        if self.settings() != other.settings():
            raise ValueError(f"{self!r} and {other!r} differ in their settings")
        if not self.learns or not other.n_inputs:
            return self
        if self.n_inputs:
            check_width(self.n_inputs, other.n_inputs)
        if other._median is not None and not self.frozen:
            self._take(other._median if self._median is None else self._median.merge(other._median), other.n_inputs)
        elif other.frozen and (not self.n_inputs or (self.frozen and self.width_ == other.width_)):
            self.n_inputs, self.width_, self.frozen = other.n_inputs, other.width_, True
        else:
            raise ValueError(
                "widths that no longer move can be merged with equal ones alone: merge before, freeze, or give width"
            )
        return self

    def _take(self, median: MedianDistance, n_inputs: int) -> None:
        """Set the width by a median; keep that if the width moves on."""
        width = self.relative_width * median.value if median.value else 1.0
        if not 0.0 < width < math.inf:
            raise ValueError(
                f"{self.name} cannot have a width of {self.relative_width:g} times the median distance of documents, "
                f"{median.value:g}: scale the features first, or give width"
            )
        self.n_inputs, self.width_ = n_inputs, width
        self.frozen = median.n_documents >= self.after
        self._median = None if self.frozen else median

    def _spans(self, X: Features, offsets: Ints, *, learning: bool) -> Iterator[tuple[float, int, int]]:
        """Iterate over rows from start to stop with the width to write them by; learn, once all were written."""
        if self.n_inputs:
            check_width(self.n_inputs, X.shape[1])
        if not learning or self.frozen:
            self._check_seen()
            yield self.width_, 0, len(X)
            return
        learned, q = copy.copy(self), 0
        while q < len(offsets) - 1 and not learned.frozen:
            start, stop = int(offsets[q]), int(offsets[q + 1])
            learned._take((learned._median or MedianDistance()).add(X[start:stop]), X.shape[1])
            yield learned.width_, start, stop
            q += 1
        if q < len(offsets) - 1:
            yield learned.width_, int(offsets[q]), len(X)
        self.__dict__.update(learned.__dict__)

    def _check_seen(self) -> None:
        if not self.width_:
            raise ValueError(
                f"{self.name} has no width before anything was seen: learn from documents first, or give width"
            )

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        if self.beside:
            outputs[:, first : first + X.shape[1]] = X
            first += X.shape[1]
        scale = self._scale_in(X.dtype, X.shape[1])
        for width, start, stop in self._spans(X, offsets, learning=learning):
            with np.errstate(over="ignore"):
                factor = X.dtype.type(1.0 / (2.0 * math.pi) / width)
            if not 0.0 < factor < math.inf:
                raise ValueError(
                    f"{self.name} cannot divide {X.dtype} features by a width of {width:g}: scale the features first"
                )
            self._write_waves(X[start:stop], factor, scale, outputs[start:stop], first)

    def _write_waves(self, X: Features, factor: Any, scale: Any, outputs: Features, first: int) -> None:
        """Write sines, then cosines, of w . x times a factor in turns, times a scale, from column `first` on."""
        size = block_size(X.shape[1])
        scratch = aligned((3, size * LANES), X.dtype), aligned((2, LANES), X.dtype), np.arange(size)
        drawn = self._draw(X.shape[1], X.dtype)
        fastfood_pass(read_only(X), factor, drawn, self.n_features // 2, scale, outputs, first, scratch)

    def _draw(self, n_features: int, dtype: Any) -> Drawn:
        """Return what blocks of directions are made of."""
        size = block_size(n_features)
        key, kept = (size, np.dtype(dtype)), self._drawn or {}
        if key not in kept:
            kept = {**kept, key: draw_blocks(self.seed, -(-self.n_features // 2 // size), size, dtype)}
            self._drawn = kept
        return kept[key]

    def room(self, n_features: int) -> int:
        size = block_size(n_features)
        return 8 * -(-self.n_features // 2 // size) * size

    def directions(self, n_features: int) -> Floats:
        """Return the directions w, one in each row: half as many as there are random features."""
        check_room(
            f"random numbers of {self.n_features // 2} directions", self.n_features // 2 * block_size(n_features)
        )
        blocks = []
        for signs, order, numbers, lengths in zip(*self._draw(n_features, np.float64), strict=True):
            inner = _hadamard(np.diag(signs)[:, :n_features])[order]
            blocks.append(lengths[:, None] * _hadamard(numbers[:, None] * inner))
        return np.concatenate(blocks)[: self.n_features // 2]

    def norm_for(self, n_features: int) -> float:
        """Return the number that random features are multiplied by."""
        if self.norm is not None:
            return self.norm
        return _SHARE * math.sqrt(n_features) if self.beside else 1.0

    def _scale_in(self, dtype: Any, n_features: int) -> Any:
        """Return the factor of sines and cosines in the precision of features; raise if that cannot hold it."""
        scale = self.norm_for(n_features) / math.sqrt(self.n_features // 2)
        with np.errstate(over="ignore"):
            held = np.dtype(dtype).type(scale)
        if not np.finfo(dtype).tiny <= held < math.inf:
            raise ValueError(
                f"{self.name} cannot multiply {np.dtype(dtype)} features by {scale:g}: take another norm than "
                f"{self.norm!r}"
            )
        return held

    def sparse_form(self) -> Transform:
        raise TypeError(
            f"{self.name} makes dense features of all features at once, and takes no sparse ones; to_dense() makes a "
            "stream dense"
        )

    def n_outputs(self, n_features: int) -> int:
        return self.n_features + (n_features if self.beside else 0)

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        pairs = range(self.n_features // 2)
        random = [f"{wave} {k}" for wave in ("sine", "cosine") for k in pairs]
        return (*(names if self.beside else ()), *random)

    def largest_norm(self, n_features: int, longest: int) -> float:
        return self.largest_norm_after(math.inf, n_features, longest)

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        return math.hypot(norm if self.beside else 0.0, self.norm_for(n_features))

    def add_nodes(self, nodes: Nodes, X: str, n_features: int) -> str:
        n_bytes = 8 * (self.n_features // 2) * n_features
        if n_bytes > _MOST_BYTES:
            raise ValueError(
                f"{self!r} of {n_features} features is a matrix of {1e-9 * n_bytes:.1f} GB in a graph, "
                "which files of ONNX have no room for: take fewer random features"
            )
        matrix = np.ascontiguousarray(self.directions(n_features).T) / (self.width_ or 1.0)
        angles = nodes.product(X, matrix)
        factor = self.norm_for(n_features) / np.sqrt(self.n_features // 2)
        waves = [nodes.add("Mul", nodes.add(function, angles), factor) for function in ("Sin", "Cos")]
        return str(nodes.add("Concat", *([X] if self.beside else []), *waves, axis=1))

    def state(self) -> dict[str, Any]:
        return self.settings() | {
            "n_inputs": self.n_inputs,
            "width_now": self.width_,
            "frozen": self.frozen,
            "median": None if self._median is None else self._median.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.n_inputs = whole_number("n_inputs", state["n_inputs"])
        self.width_ = float(finite_numbers("width_now", [state["width_now"]], 1)[0])
        self.frozen, median = state["frozen"], state["median"]
        self._median = None if median is None else MedianDistance.restore(median)
        if type(self.frozen) is not bool or self.width_ < 0 or (self.width is not None and self.width_ != self.width):
            raise ValueError("frozen must be true or false, and width_now the width, if that is given")
        if self.width is None and ((self.width_ > 0) != (self.n_inputs > 0) or (self.frozen and not self.n_inputs)):
            raise ValueError("there must be a width, and a number of features, if and only if something was learned")
        if (self._median is not None) != (self.width is None and self.n_inputs > 0 and not self.frozen):
            raise ValueError("there must be distances if and only if the width still moves")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # what it holds is replaced, never changed

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_drawn": None}

    def __repr__(self) -> str:
        width = f"relative_width={self.relative_width:g}" if self.width is None else f"width={self.width:g}"
        return f"{type(self).__name__}({self.n_features}, {width}, beside={self.beside}, seed={self.seed})"


def block_size(n_features: int) -> int:
    """Return the number of directions of a block: the power of 2 from the number of features on, at least LANES."""
    return max(LANES, 1 << (n_features - 1).bit_length())


def draw_blocks(seed: int, n_blocks: int, size: int, dtype: Any) -> Drawn:
    """Draw the numbers of so many blocks; those of a block do not depend on how many there are."""
    n = n_blocks * size
    check_room(f"random numbers of {n} directions", 8 * n)
    shape = n_blocks, size
    numbers = draw_normal(seed, _NUMBERS, 0, n).reshape(shape)
    lengths = draw_lengths(seed, _LENGTHS, 0, n, size).reshape(shape)
    # A row of H G P H B has the length of G times the root of the size.
    squares = np.zeros(n_blocks)
    for j in range(size):
        squares += numbers[:, j] * numbers[:, j]
    lengths = lengths / np.sqrt(squares * size)[:, None]
    order = np.stack([draw_order(seed, _ORDER, block * size, size) for block in range(n_blocks)])
    signs = draw_signs(seed, _SIGNS, 0, n).reshape(shape)
    return Drawn(*map(read_only, (signs.astype(dtype), order, numbers.astype(dtype), lengths.astype(dtype))))


def _hadamard(columns: Floats) -> Floats:
    """Return H times a matrix."""
    mixed, distance = columns.copy(), 1
    while distance < len(mixed):
        pairs = mixed.reshape(-1, 2, distance, mixed.shape[1])
        mixed = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(mixed.shape)
        distance *= 2
    return mixed


@compiled
def fastfood_pass(
    X: Features,
    factor: float,
    drawn: Drawn,
    n_pairs: int,
    scale: float,
    outputs: Features,
    first: int,
    scratch: tuple[Features, Features, Ints],
) -> None:
    """Write sines and cosines of the products of rows, times a factor, with the directions of all blocks."""
    rows, waves, own = scratch  # own: 0, 1, ..., the order of the features themselves
    signs, order, numbers, lengths = drawn
    m, n_features, size, stride = X.shape[0], X.shape[1], signs.shape[1], outputs.shape[1]
    for start in range(0, m, LANES):
        n = min(LANES, m - start)
        inputs, inner, outer = rows[0], rows[1], rows[2]
        turns = inner  # when that is no longer needed: less for the fastest cache to hold
        inputs[:] = 0.0
        for k in range(n):
            for j in range(n_features):
                inputs[j * LANES + k] = X[start + k, j] * factor
        for block in range(len(signs)):
            column = block * size
            used = min(size, n_pairs - column)
            transform_rows(inputs, own, signs[block], n_features, size, inner)
            transform_rows(inner, order[block], numbers[block], size, size, outer)
            for j in range(0, used, LANES):
                turn_rows(outer, j, lengths[block], turns, size)
            whole = used // LANES
            for k in range(n):
                place = (start + k) * stride + first + column
                store_waves(turns, k * size, whole, scale, outputs, place, place + n_pairs)
                if whole * LANES < used:
                    store_waves(turns, k * size + whole * LANES, 1, scale, waves, 0, LANES)
                    for j in range(whole * LANES, used):
                        outputs[start + k, first + column + j] = waves[0, j - whole * LANES]
                        outputs[start + k, first + n_pairs + column + j] = waves[1, j - whole * LANES]
