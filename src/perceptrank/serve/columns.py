"""Features with names, as learners take them from data frames."""

from typing import Any

from perceptrank.kernels.arrays import Floats


class Columns:
    """Features with the names of their columns, as data frames have them."""

    def __init__(self, X: Floats, names: tuple[str, ...]) -> None:
        self.columns, self._X = names, X

    def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
        return self._X
