"""Sines and cosines of random projections, which approximate the Gaussian kernel; the projections are up to others."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import dense
from perceptrank.stream.validation import ParameterError, check_positive, check_positive_whole
from perceptrank.transforms.forms import Nodes
from perceptrank.transforms.median_distance import MedianDistance
from perceptrank.transforms.random.random_features import RandomFeatures
from perceptrank.transforms.transform import LearningTransform, check_width


class FourierFeatures(RandomFeatures, LearningTransform):
    """Sines and cosines of w . x / width, for directions w that are standard normal each.

    `width_` is the width as it is now, 0 before anything was seen; it stays as it is if `frozen`.

    Parameters
    ----------
    width : float, optional
        Width of the kernel; by default it comes from the distances of documents.
    relative_width : float
        Width in units of the median distance.
    after : int
        Number of documents from which on the width stays as it is.
    """

    settles = True

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
        super().__init__(n_features, beside=beside, norm=norm, seed=seed)
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

    def _write_random(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        scale = self._factor_in(X.dtype, self.norm_for(X.shape[1]) / math.sqrt(self.n_features // 2))
        for width, start, stop in self._spans(X, offsets, learning=learning):
            with np.errstate(over="ignore"):
                factor = X.dtype.type(1.0 / (2.0 * math.pi) / width)
            if not 0.0 < factor < math.inf:
                raise ValueError(
                    f"{self.name} cannot divide {X.dtype} features by a width of {width:g}: scale the features first"
                )
            self._write_waves(X[start:stop], factor, scale, outputs[start:stop], first)

    @abstractmethod
    def _write_waves(self, X: Features, factor: Any, scale: Any, outputs: Features, first: int) -> None:
        """Write sines, then cosines, of w . x times a factor in turns, times a scale, from column `first` on."""

    @abstractmethod
    def directions(self, n_features: int) -> Floats:
        """Return the directions w, one in each row: half as many as there are random features."""

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

    def _add_random(self, nodes: Nodes, X: str, n_features: int) -> list[str]:
        self._check_matrix(self.n_features // 2, n_features)
        matrix = np.ascontiguousarray(self.directions(n_features).T) / (self.width_ or 1.0)
        angles = nodes.product(X, matrix)
        factor = self.norm_for(n_features) / np.sqrt(self.n_features // 2)
        return [nodes.add("Mul", nodes.add(function, angles), factor) for function in ("Sin", "Cos")]

    def output_names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        pairs = range(self.n_features // 2)
        random = [f"{wave} {k}" for wave in ("sine", "cosine") for k in pairs]
        return (*(names if self.beside else ()), *random)

    def largest_norm_after(self, norm: float, n_features: int, longest: int) -> float:
        return math.hypot(norm if self.beside else 0.0, self.norm_for(n_features))

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

    def __repr__(self) -> str:
        width = f"relative_width={self.relative_width:g}" if self.width is None else f"width={self.width:g}"
        return f"{type(self).__name__}({self.n_features}, {width}, beside={self.beside}, seed={self.seed})"
