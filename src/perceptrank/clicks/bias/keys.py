"""Numbers of 64 bits in place of texts: counts are kept per query and document without keeping their names.

The numbers are the same in every process, so that counts of several machines can be added up. Two of ten million
documents share a number with a probability of 1 %; then they are counted as one document, which is harmless.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Words
from perceptrank.stream.texts import Texts, mix


def id_keys(values: npt.NDArray[Any]) -> Words:
    """Return a key for each identifier, that of its text: 7 and "7" are the same."""
    return Texts(map(str, values.tolist())).hashes()


def row_keys(X: Floats) -> Words:
    """Return a key for each row of features."""
    keys = np.zeros(len(X), np.uint64)
    for column in np.ascontiguousarray(X.T, np.float64).view(np.uint64):
        keys = mix(keys, column)
    return keys
