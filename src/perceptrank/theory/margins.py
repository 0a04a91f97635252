"""The best margin of a stream, known from both sides.

A unit ranker w has the margin min w . d over all differences d = x_i - x_j of two documents of a query with R_i > R_j.
The best margin is the norm of the shortest vector in the convex hull of all differences (the two problems are dual):
any convex combination of differences bounds it from above by its norm, any unit vector from below by its own margin.
If the hull contains 0, no ranker orders all pairs correctly, and the combination that is 0 proves it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.worst_pairs import worst_pairs_pass
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream import BLOCK_BYTES, Blocks, QueryStream, as_blocks
from perceptrank.validation import check_positive, check_positive_whole, read_only

_NEW_PAIRS = 50  # that a pass may add; each has to be read once more, a pass reads everything
_LARGEST = 1e150  # whose square is a number
_ZERO = 1e-10  # the length of a combination that is 0, in parts of the longest difference met


@dataclass(frozen=True)
class Margin:
    """The best margin lies between `lower` and `upper`.

    `ranker` is a unit vector whose margin is `lower`. The differences of the rows `higher` and `lower_graded` of `X`,
    numbers over all documents of the stream, combined with `shares`, positive and adding up to 1, have the norm
    `upper`. `separable` is True if `lower` is positive, False if `upper` is 0 but for rounding, None if it could not be
    decided in the given number of passes.
    """

    lower: float
    upper: float
    ranker: Floats
    separable: bool | None
    higher: Ints
    lower_graded: Ints
    shares: Floats
    n_passes: int

    @property
    def gap(self) -> float:
        """How far apart the two sides are."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        verdict = {True: "separable", False: "not separable", None: "undecided"}[self.separable]
        return f"Margin({self.lower:.6g} <= best <= {self.upper:.6g}, {verdict}, {self.n_passes} passes)"


def margin(stream: Blocks, measure: MeasureLike = "ndcg", *, tolerance: float = 1e-3, max_passes: int = 1000) -> Margin:
    """The best margin that a linear ranker can have on a stream.

    Parameters
    ----------
    stream : QueryStream, or anything that gives blocks each time it is gone through
        Each pass reads it once; pairs of documents are never listed.
    measure : str or Measure
        For "ap" two documents are a pair if one is relevant and the other is not; else if their grades differ.
    tolerance : float
        Stop when `upper` - `lower` is at most this part of `upper`; or when `upper` is 0, but for rounding: then the
        stream is not separable.
    max_passes : int

    Returns
    -------
    Margin
        With both sides, the ranker, and the pairs that prove the upper side.

    >>> from perceptrank import QueryStream
    >>> stream = QueryStream.from_arrays([[1.0, 0.0], [-0.9, 0.2], [0.0, 0.0]], [1, 1, 0])
    >>> found = margin(stream)
    >>> round(found.lower, 4), round(found.upper, 4), found.separable
    (0.1047, 0.1047, True)
    """
    check_positive("tolerance", tolerance)
    if check_positive_whole("max_passes", max_passes) < 2:
        raise ValueError(f"max_passes must be at least 2, got {max_passes}")
    if not isinstance(stream, QueryStream) and iter(stream) is stream:
        raise TypeError("the stream must be one that can be gone through again: a QueryStream, a Scan, or a list")
    code = parse(measure).kernel_code
    pairs = _worst_pairs(code, stream, None)
    if pairs is None:
        raise ValueError("the stream has no two documents of one query with different grades")
    best, best_ranker, longest = -np.inf, np.zeros(pairs.differences.shape[1]), 0.0
    n_passes = 1
    while True:
        shares = shortest_combination(pairs.differences)
        longest = max(longest, float(_lengths(pairs.differences).max()))
        pairs, shares = pairs.take(shares > 0), shares[shares > 0]
        point: Floats = shares @ pairs.differences
        upper = float(np.linalg.norm(point))
        if upper <= _ZERO * longest:
            separable: bool | None = best > 0
            break
        worse = _worst_pairs(code, stream, point / upper)
        assert worse is not None
        n_passes += 1
        if worse.gaps[0] > best:
            best, best_ranker = float(worse.gaps[0]), point / upper
        separable = True if best > 0 else None
        if upper - best <= tolerance * upper or n_passes >= max_passes:
            break
        pairs = pairs.with_more(worse.take(worse.gaps < upper))
    return Margin(best, upper, best_ranker, separable, pairs.rows[:, 0], pairs.rows[:, 1], shares, n_passes)


class _Pairs(NamedTuple):
    """Differences of documents, the rows they are of, and by how much a ranker has them apart, the worst first."""

    differences: Floats
    rows: Ints
    gaps: Floats

    def take(self, chosen: npt.NDArray[Any]) -> "_Pairs":
        return _Pairs(*(values[chosen] for values in self))

    def with_more(self, other: "_Pairs") -> "_Pairs":
        return _Pairs(*(np.concatenate(both) for both in zip(self, other, strict=True)))


def _worst_pairs(measure: int, stream: Blocks, ranker: Floats | None) -> _Pairs | None:
    """The worst pairs of the queries that have the worst; of the first ones if there is no ranker. None: no pairs."""
    found: _Pairs | None = None
    before = 0
    for whole in as_blocks(stream):
        for block in whole.blocks(BLOCK_BYTES):
            weights = np.zeros(block.n_features) if ranker is None else ranker
            expected = len(weights) if found is None else found.differences.shape[1]
            if block.n_features != expected:
                raise ValueError(f"blocks must have as many features as the first, {expected}, got {block.n_features}")
            pairs = _worst_pairs_of_block(measure, block, weights, before)
            found = pairs if found is None else found.with_more(pairs)
            found = found.take(np.argsort(found.gaps, kind="stable")[:_NEW_PAIRS])
            before += block.n_documents
    return found if found is not None and len(found.gaps) else None


def _worst_pairs_of_block(measure: int, block: QueryStream, weights: Floats, before: int) -> _Pairs:
    n = len(block)
    gaps, higher, lower = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    X, grades, offsets = read_only(block.X), read_only(block.relevance), read_only(block.offsets)
    sound = worst_pairs_pass(measure, X, grades, offsets, weights, gaps, higher, lower) == n
    chosen = np.argsort(gaps, kind="stable")[:_NEW_PAIRS]
    chosen = chosen[np.isfinite(gaps[chosen])]
    rows = np.column_stack([higher[chosen], lower[chosen]])
    with np.errstate(over="ignore"):
        differences = block.X[rows[:, 0]].astype(np.float64) - block.X[rows[:, 1]]
    if not sound or not (np.abs(differences) < _LARGEST).all():
        raise ValueError("features must be finite, and not so large that scores overflow")
    return _Pairs(differences, rows + before, gaps[chosen])


def _lengths(rows: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(rows, axis=1)
    return lengths


def shortest_combination(points: Floats) -> Floats:
    """Shares of the shortest vector in the convex hull of points.

    The point t of a cone that is nearest to (0, 1), over generators (p, 1), has its shares in proportion: least squares
    without negative coefficients, which is how Lawson and Hanson solve least-distance problems.

    >>> shortest_combination(np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]]))
    array([0.5, 0.5, 0. ])
    """
    try:
        from scipy.optimize import nnls
    except ImportError:
        raise ImportError("margins need SciPy: pip install 'perceptrank[theory]'") from None
    scale = float(_lengths(points).max())
    generators = np.vstack([points.T / (scale or 1.0), np.ones(len(points))])
    target = np.append(np.zeros(points.shape[1]), 1.0)
    shares: Floats = nnls(generators, target, maxiter=100 * len(points))[0]
    shares /= shares.sum()
    return shares
