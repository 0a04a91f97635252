"""Least squares with non-negative coefficients, which margins and comparators are found by."""

from perceptrank.kernels.arrays import Floats


def non_negative_least_squares(columns: Floats, target: Floats) -> Floats:
    """Return the x ≥ 0 that minimises |columns x - target|; raise RuntimeError if the search does not converge.

    Examples
    --------
    >>> import numpy as np
    >>> non_negative_least_squares(np.eye(2), np.array([3.0, -1.0]))
    array([3., 0.])
    """
    try:
        from scipy.optimize import nnls
    except ImportError:
        raise ImportError("margins and comparators need SciPy: pip install 'perceptrank[theory]'") from None
    coefficients: Floats = nnls(columns, target, maxiter=100 * columns.shape[1])[0]
    return coefficients
