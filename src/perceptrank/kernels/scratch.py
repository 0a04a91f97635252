"""Room for the work on one query, allocated once for a pass."""

from typing import NamedTuple

import numpy as np

from perceptrank.arrays import Floats, Ints
from perceptrank.kernels.compiled import compiled


class Scratch(NamedTuple):
    """A place per document, and one over. `spare` belongs to whichever sort is running."""

    scores: Floats
    grades: Floats
    v: Floats
    best: Floats
    keys: Floats
    sums: Floats
    order: Ints
    ideal: Ints
    rival: Ints
    level: Ints
    ends: Ints
    spare: Ints
    place: Ints
    reach: Ints
    counts: Ints


@compiled
def allocate(m: int) -> Scratch:
    """Scratch for queries of up to m documents."""
    floats = np.empty((6, m + 1))
    ints = np.empty((9, m + 1), np.int64)
    return Scratch(
        floats[0],
        floats[1],
        floats[2],
        floats[3],
        floats[4],
        floats[5],
        ints[0],
        ints[1],
        ints[2],
        ints[3],
        ints[4],
        ints[5],
        ints[6],
        ints[7],
        ints[8],
    )
