"""The best fixed ranker in hindsight, for bounds on streams that are not separable."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Features, FloatRows, Floats, IntRows, Ints, SparseArrays
from perceptrank.kernels.compiled import compiled
from perceptrank.kernels.levels import grades_differ, read_grades
from perceptrank.kernels.scoring import add_any_rows, score_any_rows
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.measures import MeasureLike
from perceptrank.measures.gains import discounts
from perceptrank.stream.blocks import Blocks, as_blocks, check_repeatable
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import as_numbers, check_choice, check_positive, check_positive_whole, read_only
from perceptrank.theory.hinges import HINGE_ROWS, Weighing
from perceptrank.theory.surrogates import LEVEL_PAIR, MAX_PAIR, SLAM, descend_hinges, parse_learnable, weighing_of
from perceptrank.theory.theorem import SURROGATES, Comparator

ROWS = 4 + HINGE_ROWS[0], 1 + HINGE_ROWS[1]


@compiled
def surrogate_pass(
    kind: int,
    weighing: Weighing,
    X: Features | SparseArrays,
    relevance: Floats,
    offsets: Ints,
    discounts: Floats,
    weights: Floats,
    gradient: Floats,
    query_weights: Floats,
    floats: FloatRows,
    ints: IntRows,
) -> float:
    """Return the sum over queries of SLAM, max-pair or level-pair with margin 1; add a subgradient to `gradient`.

    In each relevance class the documents of the smallest scores have SLAM's largest weights: a maximum of convex
    functions of the ranker, hence convex. NaN if a score is infinite or a grade invalid.
    """
    scores, grades, coefficients, keys, moved = floats[0], floats[1], floats[2], floats[3], ints[0]
    total = 0.0
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        m = stop - start
        if not score_any_rows(X, start, stop, weights, scores):
            return np.nan
        n_relevant = read_grades(relevance, start, m, weighing[0], grades)
        if n_relevant < 0:
            return np.nan
        if not grades_differ(grades, m, n_relevant):
            continue
        for i in range(m):
            coefficients[i], keys[i] = 0.0, -scores[i]
        query = scores[:m], grades[:m], n_relevant, 1.0, discounts
        value = descend_hinges(kind, weighing, query, keys, coefficients, (floats[4:], ints[1:]))
        if len(query_weights) > 0:
            value *= query_weights[q]
            for i in range(m):
                coefficients[i] *= query_weights[q]
        total += value
        n_moved = start - start
        for i in range(m):
            moved[n_moved] = i
            n_moved += 1 if coefficients[i] != 0.0 else 0
        add_any_rows(X, start, moved, n_moved, coefficients, gradient)
    return total


_ROUNDING = 1e-13  # relative error of a plane's height
_NO_WEIGHTS: Floats = read_only(np.empty(0))
_KINDS = dict(zip(SURROGATES, (SLAM, MAX_PAIR, LEVEL_PAIR), strict=True))


def cumulative_surrogate(
    ranker: npt.ArrayLike, stream: Blocks, measure: MeasureLike = "ndcg", *, surrogate: str = "slam"
) -> float:
    """Return the sum of a fixed ranker's surrogates with margin 1 over all queries of a stream, times their weights.

    It bounds the L of the theorems from above for every `class_order`, whichever rounds had an update.

    Parameters
    ----------
    ranker : array of shape (features,)
        The weights of the ranker.
    stream : QueryStream or iterable of blocks
    measure : "ndcg", "ndcg@k", "ap", or a Measure
    surrogate : "slam", "max-pair", or "level-pair"
        That of the learner's `theorem`, such as "slam" for Algorithm 2 and "max-pair" for Algorithm 3.

    Examples
    --------
    >>> from perceptrank import QueryStream
    >>> cumulative_surrogate([1.0, 0.0], QueryStream.from_arrays([[0.5, 9.0], [0.0, 0.0]], [1, 0]))
    0.5
    """
    weights = as_numbers("ranker", ranker).astype(np.float64)
    if weights.ndim != 1:
        raise ValueError(f"ranker must be a vector, got an array of {weights.ndim} dimensions")
    return _value_and_gradient(weights, stream, measure, surrogate)[0]


def comparator(
    stream: Blocks,
    measure: MeasureLike = "ndcg",
    *,
    penalty: float,
    surrogate: str = "slam",
    tolerance: float = 1e-3,
    max_passes: int = 300,
) -> Comparator:
    """Minimise the cumulative surrogate of a ranker plus penalty times its squared norm.

    Queries count by their weights. A bound L + U √(C L) + U² C is at most 3/2 (L + C U²), so with C as the penalty the
    minimiser gives the smallest bound, up to that factor. Each pass adds a cutting plane below the surrogate, and the
    minimiser of the maximum of all planes comes next: C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle
    Methods for Regularized Risk Minimization".

    The other parameters are those of `cumulative_surrogate`; the stream must be re-iterable.

    Parameters
    ----------
    penalty : float > 0
        Factor of the squared norm, the constant C of the bound.
    tolerance : float
        Stop when the objective is within this relative distance of its lower bound.
    max_passes : int
        Maximum number of passes. Missing the minimum makes bounds larger, not wrong; `excess` of the result says by how
        much at most.

    Examples
    --------
    >>> from perceptrank import QueryStream
    >>> best = comparator(QueryStream.from_arrays([[1.0], [0.0]], [1, 0]), penalty=0.1)
    >>> round(best.norm, 2), round(best.loss, 2)
    (1.0, 0.0)
    """
    check_positive("penalty", penalty)
    check_positive("tolerance", tolerance)
    check_positive_whole("max_passes", max_passes)
    check_repeatable(stream)
    ranker = np.zeros(next(as_blocks(stream, required=True)).n_features)
    slopes, heights = np.empty((0, len(ranker))), np.empty(0)
    best, best_value, best_loss, least = ranker, np.inf, np.inf, 0.0
    for _ in range(max_passes):
        loss, slope = _value_and_gradient(ranker, stream, measure, surrogate)
        value = loss + penalty * float(ranker @ ranker)
        if value < best_value:
            best, best_value, best_loss = ranker, value, loss
        rounding = _ROUNDING * (loss + float(np.abs(slope) @ np.abs(ranker)))
        slopes, heights = np.vstack([slopes, slope]), np.append(heights, loss - slope @ ranker - rounding)
        shares = _highest_plane(slopes / (2 * np.sqrt(penalty)), heights)
        ranker = -(shares @ slopes) / (2 * penalty)
        least = max(least, float(shares @ heights) - penalty * float(ranker @ ranker))
        if best_value - least <= tolerance * best_value:
            break
    distance, learned = max(0.0, best_value - least), parse_learnable(measure)
    return Comparator(float(np.linalg.norm(best)), best_loss, best, distance, surrogate, learned)


def _highest_plane(slopes: Floats, heights: Floats) -> Floats:
    """Maximise shares . heights - |shares . slopes|² over the simplex; any shares give a valid lower bound.

    Solved as non-negative least squares: heights enter through a small multiple of the identity, whose square is the
    error of the result, and the constraint on the sum through a large row.
    """
    from scipy.optimize import nnls

    n = len(heights)
    scale = float(np.sqrt(max(1.0, np.abs(heights).max())))
    small, large = 1e-3 * scale, 30 * scale
    rows = np.vstack([slopes.T, small * np.eye(n), np.full(n, large)])
    target = np.concatenate([np.zeros(slopes.shape[1]), (heights - heights.min()) / (2 * small), [large]])
    shares: Floats = nnls(rows, target, maxiter=100 * n)[0]
    shares /= shares.sum()
    return shares


def _value_and_gradient(ranker: Floats, stream: Blocks, measure: MeasureLike, surrogate: str) -> tuple[float, Floats]:
    check_choice("surrogate", surrogate, SURROGATES)
    weighing = weighing_of(measure)
    value, gradient = 0.0, np.zeros(len(ranker))
    for whole in as_blocks(stream):
        if whole.n_features != len(ranker):
            raise ValueError(f"ranker must have {whole.n_features} weights, one per feature, got {len(ranker)}")
        for block in whole.blocks():
            longest = int(np.diff(block.offsets).max())
            X = block.X.arrays if isinstance(block.X, SparseFeatures) else read_only(block.X)
            data = X, read_only(block.relevance), read_only(block.offsets), discounts(longest), read_only(ranker)
            own = _NO_WEIGHTS if block.query_weights is None else block.query_weights
            scratch = borrow_scratch(longest, len(ranker), *ROWS, 0)[:2]
            value += surrogate_pass(_KINDS[surrogate], weighing, *data, gradient, own, *scratch)
    if not np.isfinite(value):
        raise ValueError("features and ranker must be finite, and not so large that scores overflow")
    return value, gradient
