"""The best fixed ranker in hindsight, so that bounds for streams that are not separable become numbers."""

import numpy as np
import numpy.typing as npt

from perceptrank.arrays import Floats
from perceptrank.kernels.surrogate_pass import worst_slam_pass
from perceptrank.measures import AP, GAINS, NDCG, MeasureLike, discounts, parse
from perceptrank.stream import Blocks, QueryStream, as_blocks
from perceptrank.theory.bounds import Comparator
from perceptrank.validation import as_numbers, check_not_negative, check_positive_whole, check_seed, read_only

_MOST_FEATURES = 1000  # for which the square matrix that BFGS keeps is small


def cumulative_surrogate(ranker: npt.ArrayLike, stream: Blocks, measure: MeasureLike = "ndcg") -> float:
    """The sum of a fixed ranker's SLAM surrogates with margin 1 over all queries of a stream.

    Where SLAM leaves open in which order weights are laid inside a relevance class, the worst is taken. So it is at
    least what the theorems call L, whatever a learner's `class_order` and the rounds in which it made updates.

    >>> from perceptrank import QueryStream
    >>> cumulative_surrogate([1.0, 0.0], QueryStream.from_arrays([[0.5, 9.0], [0.0, 0.0]], [1, 0]))
    0.5
    """
    return _value_and_gradient(as_numbers("ranker", ranker).astype(np.float64), stream, measure)[0]


def comparator(
    stream: Blocks, measure: MeasureLike = "ndcg", *, penalty: float, max_passes: int = 500, seed: int = 0
) -> Comparator:
    """The ranker u that minimises its cumulative surrogate plus penalty times its squared norm.

    A bound L + U sqrt(C L) + U^2 C is at most 3/2 (L + C U^2), so with C as the penalty the ranker found makes it as
    small as it can be, up to that factor. The problem is convex, with corners; a quasi-Newton search (BFGS, L-BFGS for
    many features) gets near the minimum. How near does not matter for a bound, which holds for every ranker.

    Parameters
    ----------
    stream : QueryStream, or anything that gives blocks each time it is gone through
    measure : "ndcg", "ndcg@k" or "ap", or a Measure
    penalty : float, positive or 0
    max_passes : int
        About how often the stream may be gone through.
    seed : int
        Where the search starts, a tiny random ranker.

    >>> from perceptrank import QueryStream
    >>> found = comparator(QueryStream.from_arrays([[1.0], [0.0]], [1, 0]), penalty=0.1)
    >>> round(found.norm, 3), round(found.loss, 3)
    (1.0, 0.0)
    """
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise ImportError("comparators need SciPy: pip install 'perceptrank[theory]'") from None
    check_not_negative("penalty", penalty)
    check_positive_whole("max_passes", max_passes)
    check_seed(seed)
    if not isinstance(stream, QueryStream) and iter(stream) is stream:
        raise TypeError("the stream must be one that can be gone through again: a QueryStream, a Scan, or a list")
    first = next(iter(as_blocks(stream)))
    best = np.zeros(first.n_features)
    best_value = _value_and_gradient(best, stream, measure)[0]

    def objective(ranker: Floats) -> tuple[float, Floats]:
        nonlocal best_value, best
        loss, gradient = _value_and_gradient(ranker, stream, measure)
        value = loss + penalty * float(ranker @ ranker)
        if value < best_value:
            best_value, best = value, ranker.copy()
        return value, gradient + 2 * penalty * ranker

    # All documents tie at 0, which is a corner that no search leaves.
    typical = float(np.sqrt(np.square(first.X, dtype=np.float64).mean() * first.n_features)) or 1.0
    start = np.random.default_rng(seed).normal(size=first.n_features) * (1e-3 / typical)
    method, most = ("BFGS", "maxiter") if first.n_features <= _MOST_FEATURES else ("L-BFGS-B", "maxfun")
    minimize(objective, start, jac=True, method=method, options={most: max_passes})
    return Comparator(float(np.linalg.norm(best)), cumulative_surrogate(best, stream, measure), best)


def _value_and_gradient(ranker: Floats, stream: Blocks, measure: MeasureLike) -> tuple[float, Floats]:
    chosen = parse(measure)
    if not isinstance(chosen, (AP, NDCG)):
        raise ValueError(f"measure must be ndcg, ndcg@k or ap, got {chosen}")
    value, gradient = 0.0, np.zeros(len(ranker))
    for whole in as_blocks(stream):
        if whole.n_features != len(ranker):
            raise ValueError(f"ranker must have {whole.n_features} weights, one per feature, got {len(ranker)}")
        for block in whole.blocks():
            value += worst_slam_pass(
                chosen.kernel_code,
                chosen.cutoff or 0,
                GAINS[getattr(chosen, "gain", "exp2")],
                read_only(block.X),
                read_only(block.relevance),
                read_only(block.offsets),
                discounts(int(np.diff(block.offsets).max())),
                read_only(ranker),
                gradient,
            )
    if not np.isfinite(value):
        raise ValueError("features and ranker must be finite, and not so large that scores overflow")
    return value, gradient
