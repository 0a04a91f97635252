"""Lower and upper bounds of the best margin of a stream.

A unit ranker w has the margin min w . d over all differences d = x_i - x_j of two documents of a query with R_i > R_j.
The best margin is the norm of the shortest vector in the convex hull of all differences (the two problems are dual):
any convex combination of differences bounds it from above by its norm, any unit vector from below by its own margin.
If the hull contains 0, no ranker orders all pairs correctly, and the combination that is 0 proves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, SparseArrays
from perceptrank.kernels.compiled import by_layout, compiled, helper, helper_sums
from perceptrank.kernels.levels import find_levels, read_grades
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.measures import AP, MeasureLike
from perceptrank.stream.blocks import Blocks, as_blocks, check_repeatable
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.sparse import SparseFeatures, dense
from perceptrank.stream.validation import check_positive, check_positive_whole, read_only
from perceptrank.theory.geometry import check_cutoff, lengths
from perceptrank.theory.surrogates import parse_learnable

NO_COLUMN = 2**31 - 1  # beyond all

Pairing: TypeAlias = tuple[bool, int]  # binary grades, cut-off (0 for none)


@helper_sums
def score_from_first(X: Features, start: int, m: int, weights: Floats, scores: Floats) -> bool:
    """Write the difference of each document's score to the first one's; return whether all are finite.

    Features are subtracted before they are multiplied, since their common part may be large.
    """
    zero = 0.0
    for i in range(m):
        score = 0.0
        for j in range(X.shape[1]):
            score += (np.float64(X[start + i, j]) - np.float64(X[start, j])) * weights[j]
        scores[i] = score
        zero += score * 0.0
    return zero == 0.0


@helper
def score_from_first_sparse(X: SparseArrays, start: int, m: int, weights: Floats, scores: Floats) -> bool:
    """As `score_from_first`, for sparse features."""
    values, indices, starts = X
    zero = 0.0
    for i in range(start, start + m):
        score = 0.0
        k, other = starts[i], starts[start]
        while k < starts[i + 1] or other < starts[start + 1]:
            own = indices[k] if k < starts[i + 1] else NO_COLUMN
            theirs = indices[other] if other < starts[start + 1] else NO_COLUMN
            apart = np.float64(0.0)
            if own <= theirs:
                apart += np.float64(values[k])
                k += 1
            if theirs <= own:
                apart -= np.float64(values[other])
                other += 1
            score += apart * weights[min(own, theirs)]
        scores[i - start] = score
        zero += score * 0.0
    return zero == 0.0


score_any_from_first: Callable[..., bool] = by_layout(score_from_first, score_from_first_sparse)


@compiled
def worst_pairs_pass(
    binary: bool,
    cutoff: int,
    X: Features | SparseArrays,
    relevance: Floats,
    offsets: Ints,
    weights: Floats,
    gaps: Floats,
    higher: Ints,
    lower: Ints,
    floats: FloatRows,
    ints: IntRows,
) -> int:
    """Write for each query the smallest lead of a document over one of a lower grade, and the rows of the two.

    With a cut-off, only documents of at least the grade at that place of the ideal ranking lead; 0 stands for none. A
    query without a pair has an infinite gap. Returns how many queries were done before an infinite score or an invalid
    grade.
    """
    scores, grades, levels, most, least = floats[0], floats[1], floats[2], floats[3], floats[4]
    level_of, first, strongest, weakest = ints[0], ints[1], ints[2], ints[3]
    for q in range(len(offsets) - 1):
        start, m = offsets[q], offsets[q + 1] - offsets[q]
        if (
            not score_any_from_first(X, start, m, weights, scores)
            or read_grades(relevance, start, m, binary, grades) < 0
        ):
            return q
        n_levels = find_levels(grades, m, levels, first, level_of)
        for level in range(n_levels):
            most[level], strongest[level], least[level], weakest[level] = -math.inf, -1, math.inf, -1
        for i in range(m):
            level = level_of[i]
            if scores[i] > most[level]:
                most[level], strongest[level] = scores[i], i
            if scores[i] < least[level]:
                least[level], weakest[level] = scores[i], i
        gaps[q], higher[q], lower[q] = math.inf, -1, -1
        above, weakest_above = math.inf, -1  # of all documents of better grades, the one with the smallest score
        for level in range(n_levels):
            if weakest_above >= 0 and above - most[level] < gaps[q]:
                gaps[q] = above - most[level]
                higher[q], lower[q] = start + weakest_above, start + strongest[level]
            if least[level] < above and (cutoff == 0 or first[level] < cutoff):
                above, weakest_above = least[level], weakest[level]
    return len(offsets) - 1


_NEW_PAIRS = 50  # added by a pass at most
_LARGEST = 1e150  # its square is finite
_TOO_LARGE = "features must be finite, and not so large that scores overflow"
_UNITS = 6  # in which the least squares are solved, each smaller by two orders of magnitude or more
_ROUNDING = 1e-12  # of a combination that is 0, in each feature, relative to the largest difference in it
_MANY_FEATURES = 2048  # from which on least squares are solved in fewer dimensions
_PASSES_IN_VAIN = 20  # before the search gives up


@dataclass(frozen=True)
class Margin:
    """Bounds of the best margin, with the ranker and the pairs that prove them.

    Attributes
    ----------
    lower, upper : float
        The best margin is between the two.
    ranker : array
        Unit vector whose margin is `lower`.
    separable : bool or None
        True if `lower` is positive; False if the convex combination below is 0 in every feature up to rounding (1e-12
        of the largest difference); None if undecided.
    higher, lower_graded : array of int
        Rows, counted over all documents of the stream, of pairs whose differences have a convex combination of norm
        `upper`.
    shares : array
        Coefficients of that combination, positive with sum 1.
    n_passes : int
        Number of passes over the stream.
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
        """Difference of the upper and the lower bound."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        verdict = {True: "separable", False: "not separable", None: "undecided"}[self.separable]
        return f"Margin({self.lower:.6g} <= best <= {self.upper:.6g}, {verdict}, {self.n_passes} passes)"


def margin(
    stream: Blocks,
    measure: MeasureLike = "ndcg",
    *,
    cutoff: int | None = None,
    tolerance: float = 1e-3,
    max_passes: int = 1000,
) -> Margin:
    """Bound the best margin of a linear ranker on a stream from below and above.

    Parameters
    ----------
    stream : QueryStream or re-iterable blocks
        Read once in each pass; pairs of documents are never enumerated.
    measure : str or Measure
        For "ap" two documents are a pair if one is relevant and the other is not; otherwise if their grades differ.
    cutoff : int, optional
        Count only pairs whose better document belongs in the first `cutoff` places, so that its grade is at least that
        of the document there in the ideal ranking. Theorems with the same `cutoff` need no more.
    tolerance : float
        Stop when `upper` - `lower` is at most this fraction of `upper`.
    max_passes : int
        Maximum number of passes. If features differ in scale by many orders of magnitude, the bounds may stay apart;
        separability is then decided with every feature divided by its scale.

    Examples
    --------
    >>> from perceptrank import QueryStream
    >>> stream = QueryStream.from_arrays([[1.0, 0.0], [-0.9, 0.2], [0.0, 0.0]], [1, 1, 0])
    >>> best = margin(stream)
    >>> round(best.lower, 4), round(best.upper, 4), best.separable
    (0.1047, 0.1047, True)
    >>> graded = QueryStream.from_arrays([[1.0], [0.0], [0.5]], [2, 1, 0])  # the last two are in the wrong order
    >>> margin(graded).separable, margin(graded, cutoff=1).lower
    (False, 0.5)
    """
    check_positive("tolerance", tolerance)
    check_positive_whole("max_passes", max_passes, least=2)
    check_repeatable(stream)
    kind = isinstance(parse_learnable(measure), AP), check_cutoff(cutoff)
    first = _worst_pairs(kind, stream, None)
    if first is None:
        raise ValueError("the stream has no two documents of one query with different grades")
    best = _search(kind, stream, first, np.ones(first.differences.shape[1]), tolerance, max_passes - 1)
    if best.separable is not None or best.n_passes >= max_passes - 1:
        return replace(best, n_passes=best.n_passes + 1)
    scales = np.abs(first.differences).max(axis=0)
    scales = np.where(scales > 0, scales, max(float(scales.max()), 1e-300))
    scaled = _search(kind, stream, first, scales, np.inf, max_passes - 1 - best.n_passes)
    n_passes = 1 + best.n_passes + scaled.n_passes
    if scaled.separable is False:
        return replace(scaled, n_passes=n_passes)
    tighter = scaled if scaled.lower > best.lower else best
    separable = True if tighter.lower > 0 else None
    return replace(best, lower=tighter.lower, ranker=tighter.ranker, separable=separable, n_passes=n_passes)


def _search(kind: Pairing, stream: Blocks, pairs: _Pairs, scales: Floats, tolerance: float, max_passes: int) -> Margin:
    """Search with every feature divided by its scale; the bounds returned are those of the unscaled features."""
    best, best_ranker, separable = -np.inf, np.zeros(len(scales)), None
    n_passes = in_vain = 0
    shortest, before = np.inf, -np.inf
    while True:
        shares = shortest_combination(pairs.differences / scales)
        pairs, shares = pairs.take(shares > 0), shares[shares > 0]
        shares = shares / shares.sum()
        combined: Floats = shares @ pairs.differences
        upper = float(lengths(combined[None])[0])
        if (np.abs(combined) <= _ROUNDING * np.abs(pairs.differences).max(axis=0)).all():
            separable = False
            break
        direction = combined / scales / scales
        ranker = direction / lengths(direction[None])[0]
        worse = _worst_pairs(kind, stream, ranker)
        n_passes += 1
        if worse is None:
            raise ValueError("the stream has changed between two passes")
        if worse.gaps[0] > best:
            best, best_ranker = float(worse.gaps[0]), ranker
        separable = True if best > 0 else None
        in_vain = in_vain + 1 if upper > shortest * (1 - 1e-9) and worse.gaps[0] <= before else 0
        shortest, before = min(shortest, upper), best
        known = set(map(tuple, pairs.rows.tolist()))
        is_new = np.array([tuple(row) not in known for row in worse.rows.tolist()])
        more = worse.take((worse.gaps < ranker @ combined) & is_new)
        is_close = upper - best <= tolerance * upper and best > 0
        if is_close or n_passes >= max_passes or not len(more.gaps) or in_vain >= _PASSES_IN_VAIN:
            break
        pairs = pairs.with_more(more)
    return Margin(min(best, upper), upper, best_ranker, separable, pairs.rows[:, 0], pairs.rows[:, 1], shares, n_passes)


class _Pairs(NamedTuple):
    """Differences of pairs of documents, their rows, and the gaps of a ranker's scores, smallest first."""

    differences: Floats
    rows: Ints
    gaps: Floats

    def take(self, chosen: npt.NDArray[Any]) -> _Pairs:
        return _Pairs(*(values[chosen] for values in self))

    def with_more(self, other: _Pairs) -> _Pairs:
        return _Pairs(*(np.concatenate(both) for both in zip(self, other, strict=True)))


def _worst_pairs(kind: Pairing, stream: Blocks, ranker: Floats | None) -> _Pairs | None:
    """Return the pairs with the smallest gaps, one per query, if any; those of the first queries without a ranker."""
    worst: _Pairs | None = None
    before = 0
    for whole in as_blocks(stream):
        for block in whole.blocks(BLOCK_BYTES):
            weights = np.zeros(block.n_features) if ranker is None else ranker
            expected = len(weights) if worst is None else worst.differences.shape[1]
            if block.n_features != expected:
                raise ValueError(f"all blocks must have {expected} features, as the first has, got {block.n_features}")
            pairs = _worst_pairs_of_block(kind, block, weights, before)
            worst = pairs if worst is None else worst.with_more(pairs)
            worst = worst.take(np.argsort(worst.gaps, kind="stable")[:_NEW_PAIRS])
            before += block.n_documents
    return worst if worst is not None and len(worst.gaps) else None


def _worst_pairs_of_block(kind: Pairing, block: QueryStream, weights: Floats, before: int) -> _Pairs:
    n = len(block)
    gaps, higher, lower = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    X = block.X.arrays if isinstance(block.X, SparseFeatures) else read_only(block.X)
    grades, offsets = read_only(block.relevance), read_only(block.offsets)
    scratch = borrow_scratch(int(np.diff(offsets).max()), 1, 5, 4, 0)[:2]
    if worst_pairs_pass(*kind, X, grades, offsets, weights, gaps, higher, lower, *scratch) < n:
        raise ValueError(_TOO_LARGE)
    chosen = np.argsort(gaps, kind="stable")[:_NEW_PAIRS]
    chosen = chosen[np.isfinite(gaps[chosen])]
    rows = np.column_stack([higher[chosen], lower[chosen]])
    with np.errstate(over="ignore"):
        differences = dense(block.X[rows[:, 0]]).astype(np.float64) - dense(block.X[rows[:, 1]])
    if not (np.abs(differences) < _LARGEST).all():
        raise ValueError(_TOO_LARGE)
    gaps = differences @ weights
    in_order = np.argsort(gaps, kind="stable")
    return _Pairs(differences[in_order], rows[in_order] + before, gaps[in_order])


def shortest_combination(points: Floats) -> Floats:
    """Return the coefficients of the shortest vector in the convex hull of points.

    They are proportional to those of the point nearest to (0, 1) in the cone generated by all (p, 1): non-negative
    least squares, Lawson and Hanson's solution of least-distance problems. A much shorter vector cannot be told from 0,
    so while the result is small, the problem is solved again in units of its length.

    >>> shortest_combination(np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]]))
    array([0.5, 0.5, 0. ])
    """
    from scipy.optimize import nnls

    if points.shape[1] > _MANY_FEATURES:  # as sparse ones are, of which most are 0 in all points
        points = points[:, points.any(axis=0)]
        if len(points) < points.shape[1]:  # the columns of R have the inner products of the points
            points = np.ascontiguousarray(np.transpose(np.linalg.qr(points.T, mode="r")))
    longest = float(lengths(points).max())
    unit = longest or 1.0
    target = np.append(np.zeros(points.shape[1]), 1.0)
    best: Floats = np.eye(len(points))[0]
    shortest = np.inf
    for _ in range(_UNITS):
        generators = np.vstack([points.T / unit, np.ones(len(points))])
        try:
            shares: Floats = nnls(generators, target, maxiter=100 * generators.shape[1])[0]
        except RuntimeError:  # it did not converge
            break
        shares = shares / (shares.sum() or 1.0)
        length = float(lengths((shares @ points)[None])[0])
        if length < shortest and shares.any():
            best, shortest = shares, length
        if length <= 1e-15 * longest or length > 0.01 * unit:
            break
        unit = length
    return best
