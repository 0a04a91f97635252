"""Bounds against a target that moves, Theorems M and T of docs/theory/.

Without forgetting, U + P takes the place of U: `theorem.bound(comparator=(U + P, L), ...)`.
"""

import math

import numpy as np

from perceptrank.stream.validation import check_not_negative, check_positive, check_positive_whole
from perceptrank.theory.theorem import AnyComparator


def largest_weights(constant: float, rate: float, *, largest_weight: float = 1.0, start: float = 0.0) -> float:
    """Return W, the largest norm of the weights, per learning rate, of a learner that forgets at this rate.

    W² = C c / (1 - exp(-2 rate c)), c being the largest weight of a query; or the norm of the start, if that is larger.

    Parameters
    ----------
    constant : float
        C of the learner's theorem; for `violators="places"` with a relative margin ρ, (1 + 2ρk) c D², if no query has
        more than k + 1 grades.
    rate : float > 0
        ln(2) / half_life.
    largest_weight : float > 0
        Largest weight c of a query.
    start : float
        Norm of the weights to start from, divided by the learning rate.

    Examples
    --------
    >>> round(largest_weights(4.0, 0.5 * math.log(2.0)), 9)
    2.828427125
    """
    check_not_negative("constant", constant)
    exponent = 2.0 * check_positive("rate", rate) * check_positive("largest_weight", largest_weight)
    return max(math.sqrt(constant * largest_weight / -math.expm1(-exponent)), check_not_negative("start", start))


def fading(
    constant: float,
    comparator: AnyComparator,
    path: float,
    rate: float,
    *,
    growth: float | None = None,
    largest_weight: float = 1.0,
    start: float = 0.0,
    product: float | None = None,
) -> float:
    """Bound the loss of a learner that forgets against a ranker that moves; infinite if the rate is too large.

    The largest S with S ≤ G + U √((C S + start²) (1 + rate S / 2)), where G = L - product + W P, for every stream and
    every sequence u_1, u_2, … that satisfies the learner's constraints, if it ranks with its current weights
    (`average=False`). The other parameters are those of `largest_weights`; C is that of the wrapped learner's theorem.

    Parameters
    ----------
    comparator : Comparator or (norm, loss)
        U, the largest norm of a u_t; and L, the sum of the surrogates of u_t on query t, over queries with an update.
    path : float
        P, the sum of |u_{t+1} - u_t|.
    growth : float, optional
        The constant that `largest_weights` takes, if it differs.
    product : float, optional
        Inner product of u_1 and the weights to start from, divided by the learning rate; by default the worst.

    Examples
    --------
    >>> round(fading(4.0, (0.5, 0.0), 0.0, 1e-9), 6), round(fading(4.0, (0.5, 10.0), 2.0, 0.01), 3)
    (1.0, 45.942)
    """
    norm, loss = (check_not_negative("comparator", value) for value in comparator[:2])
    W = largest_weights(constant if growth is None else growth, rate, largest_weight=largest_weight, start=start)
    far = norm * start
    G = loss + W * check_not_negative("path", path) + (far if product is None else -product)
    squared = norm * norm * constant
    left = 1.0 - squared * rate / 2
    if not left > 0.0:
        return math.inf
    half = G + (squared + far * far * rate / 2) / 2
    return (half + math.sqrt(max(0.0, half * half - left * (G * G - far * far)))) / left


def tracking(losses: np.typing.ArrayLike, n_learners: int, lag: float, *, largest_weight: float = 1.0) -> float:
    """Bound the loss of `Forgetting`, whose learners are never counted as further behind the leader than `lag`.

    N (sum of losses + (K - 1) lag) + lag + N - 1; the largest weight of a query multiplies all but the losses.

    Parameters
    ----------
    losses : list of float
        The loss of the best learner in each of K parts of the stream, cut anywhere.
    n_learners : int
        N, those that forget and the one that does not.
    lag : float ≥ 1
        The furthest that a learner is counted as behind.
    largest_weight : float > 0
        Largest weight of a query.

    Examples
    --------
    >>> tracking([2.0, 1.0], 3, 3.0), tracking([5.0], 3, 3.0)
    (23.0, 20.0)
    """
    parts = np.atleast_1d(np.asarray(losses, dtype=np.float64))
    n = check_positive_whole("n_learners", n_learners)
    largest = check_positive("largest_weight", largest_weight)
    return float(n * (parts.sum() + (len(parts) - 1) * lag * largest) + (lag + n - 1) * largest)
