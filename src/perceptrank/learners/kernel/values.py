"""Values of kernels, from inner products and squared norms: what remains to do after one product of matrices.

Every function here is one sweep over the products, in place. The exponential is written out, so that it runs in the
vector unit: a library's, called number by number, takes as long as the product of the matrices. It is the same in
every lane, so that values do not depend on how many there are.
"""

import math

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.compiled import compiled, compiled_fused, compiled_sums, helper_fused

KERNELS = "gaussian", "laplacian", "polynomial"

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number, which is then in the lowest bits
_LEAST = -708.0  # below, the exponential has less than full precision
_FACTORIALS = tuple(1.0 / math.factorial(k) for k in range(14))
_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8, _P9, _P10, _P11, _P12, _P13 = _FACTORIALS


@helper_fused
def exponential(t: float) -> float:
    """Return exp(t) for t ≤ 0, to about the last bit; 0 below -708."""
    clamped = t if t > _LEAST else _LEAST
    shifted = clamped * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (clamped - n * _LN2_HIGH) - n * _LN2_LOW
    p = _P12 + r * _P13
    p = _P11 + r * p
    p = _P10 + r * p
    p = _P9 + r * p
    p = _P8 + r * p
    p = _P7 + r * p
    p = _P6 + r * p
    p = _P5 + r * p
    p = _P4 + r * p
    p = _P3 + r * p
    p = _P2 + r * p
    p = _P1 + r * p
    p = _P0 + r * p
    power = np.int64((np.float64(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)
    return p * power if t > _LEAST else 0.0 * t


@compiled_fused
def gaussian_values(scale: float, norms: Floats, support_norms: Floats, products: FloatRows) -> None:
    """Replace inner products by exp(-scale |x - y|²)."""
    for i in range(products.shape[0]):
        row, norm = products[i], norms[i]
        for j in range(len(row)):
            squared = (norm + support_norms[j]) - 2.0 * row[j]
            row[j] = exponential(-scale * (squared if squared > 0.0 else 0.0 * squared))


@compiled_fused
def laplacian_values(scale: float, norms: Floats, support_norms: Floats, products: FloatRows) -> None:
    """Replace inner products by exp(-scale |x - y|)."""
    for i in range(products.shape[0]):
        row, norm = products[i], norms[i]
        for j in range(len(row)):
            squared = (norm + support_norms[j]) - 2.0 * row[j]
            row[j] = exponential(-scale * math.sqrt(squared if squared > 0.0 else 0.0 * squared))


@compiled
def polynomial_values(scale: float, degree: int, products: FloatRows) -> None:
    """Replace inner products by (1 + scale x . y)^degree."""
    for i in range(products.shape[0]):
        row = products[i]
        for j in range(len(row)):
            base, value = 1.0 + scale * row[j], 1.0
            for _ in range(degree):
                value *= base
            row[j] = value


@compiled_sums
def squared_norms(X: FloatRows, norms: Floats) -> None:
    """Write the squared norm of every row."""
    for i in range(X.shape[0]):
        total = 0.0
        for k in range(X.shape[1]):
            total += X[i, k] * X[i, k]
        norms[i] = total
