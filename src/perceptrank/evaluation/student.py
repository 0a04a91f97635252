"""Quantiles of Student's t, for standard errors that few values tell."""

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def t_critical(z: float, df: float) -> float:
    """Return the number that |t| exceeds as often as a normal variable exceeds z in absolute value.

    By Hill's Algorithm 396 (Communications of the ACM 13, 1970), for df ≥ 1.

    Examples
    --------
    >>> round(t_critical(1.959964, 9), 3), round(t_critical(1.959964, 1), 2), round(t_critical(1.959964, 1e9), 3)
    (2.262, 12.71, 1.96)
    """
    p = math.erfc(z / math.sqrt(2))  # both tails
    if p <= 0 or df > 1e6:
        return z
    if df < 1.0001:
        return 1 / math.tan(p * math.pi / 2)
    if abs(df - 2) < 0.0001:
        return math.sqrt(2 / (p * (2 - p)) - 2)
    a = 1 / (df - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * df
    y = (d * p) ** (2 / df)
    if y > 0.05 + a:
        x = _NORMAL.inv_cdf(p / 2)
        y = x * x
        if df < 5:
            c += 0.3 * (df - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1 / (((df + 6) / (df * y) - 0.089 * d - 0.822) * (df + 2) * 3) + 0.5 / (df + 4)) * y - 1) * (df + 1) / (
            df + 2
        ) + 1 / y
    return max(z, math.sqrt(df * y))
