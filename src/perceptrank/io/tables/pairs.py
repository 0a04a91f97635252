"""Features by name: pairs of name and value in rows that need not have all of them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from perceptrank.io.tables.rows import parse_number
from perceptrank.kernels.arrays import Features
from perceptrank.stream.memory import free_memory

# Keys and columns that have all features of a row: Solr's transformer, and what people call theirs.
FEATURE_LISTS = ("[features]", "features", "fv", "feature_vector", "featurevector")
MOST_NAMES = 100_000
_SEPARATORS = re.compile(r"[,;\t]")


def parse_pairs(text: str) -> dict[str, float]:
    """Parse a vector as Solr logs it: ``name=value,name=value``, or ``name:value;name:value`` as it once did.

    Examples
    --------
    >>> parse_pairs("title=1.5,body=0.0")
    {'title': 1.5, 'body': 0.0}
    """
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, _SEPARATORS.split(text))):
        separator = "=" if "=" in part else ":"
        name, has_value, value = part.rpartition(separator)
        name = name.strip()
        if not has_value or not name:
            raise ValueError(f"features must be name=value,name=value, got {part[:80]!r}")
        if name in found:
            raise ValueError(f"feature {name!r} is there twice")
        try:
            found[name] = parse_number(value)
        except ValueError:
            raise ValueError(f"feature {name!r} must be a number, got {value[:80]!r}") from None
    return found


class VectorColumns:
    """Collects rows of features by name; the names are the union, in the order of their first appearance.

    Parameters
    ----------
    names : iterable of str, optional
        The only names to keep; default all.
    """

    def __init__(self, names: Iterable[str] | None) -> None:
        self._is_fixed = names is not None
        self._index: dict[str, int] = {name: j for j, name in enumerate(names or ())}
        self._seen: set[str] = set()
        self._columns: list[int] = []
        self._values: list[float] = []
        self._ends: list[int] = []

    @property
    def names(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self._index)

    @property
    def absent(self) -> list[str]:
        """Names that no row has had."""
        return [name for name in self._index if name not in self._seen]

    def __len__(self) -> int:
        return len(self._ends)

    def knows(self, name: str) -> bool:
        """Tell if a name is one of the features."""
        return name in self._index

    def add(self, pairs: Mapping[str, float]) -> None:
        """Add a row."""
        index = self._index
        for name, value in pairs.items():
            j = index.get(name)
            if j is None:
                if self._is_fixed:
                    continue
                if len(index) >= MOST_NAMES:
                    raise ValueError(
                        f"there are more than {MOST_NAMES} names of features: are these names of documents?"
                    )
                j = index[name] = len(index)
            self._seen.add(name)
            self._columns.append(j)
            self._values.append(value)
        self._ends.append(len(self._columns))

    def take(self, dtype: Any) -> tuple[Features, tuple[str, ...]]:
        """Return the rows since the last call as a matrix with NaN where a row has no value, and its names."""
        n_rows, width = len(self._ends), len(self._index)
        n_bytes = n_rows * width * np.dtype(dtype).itemsize
        if n_bytes > free_memory():
            raise MemoryError(f"{n_rows} rows of {width} features take {n_bytes / 1e9:.1f} GB, more than is available")
        X: Features = np.full((n_rows, width), np.nan, dtype)
        rows = np.repeat(np.arange(n_rows), np.diff([0, *self._ends]))
        with np.errstate(over="ignore"):  # too large for float32 is infinite, and then said with its place
            X[rows, self._columns] = np.array(self._values)
        self._columns, self._values, self._ends = [], [], []
        return X, self.names
