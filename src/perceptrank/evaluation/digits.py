"""Numbers with three digits."""

import math


def three_digits(value: float) -> str:
    """Write a number with three significant digits, in full where that is short.

    >>> [three_digits(one) for one in (0.99961, 0.0382, 78.339, 329521.0, 2.0, 0.0, 3.05e-5)]
    ['1.00', '0.0382', '78.3', '330,000', '2.00', '0', '3.05e-05']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-3:
        return f"{value:.3g}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"
