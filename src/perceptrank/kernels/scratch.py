"""Room for the work on one query: a matrix of floats and one of integers, with a row for each purpose.

Kernels hand on the two matrices and name rows by number. Handing on the rows themselves, as arrays of their own, takes
longer than the work done on a short query: every array means nine arguments and a reference to count.
"""

from typing import Any

import numpy as np

from perceptrank.kernels.arrays import FloatRows, IntRows
from perceptrank.kernels.compiled import compiled

COUNTING_LIMIT = 64

# Numba compiles a kernel anew for every Python integer that it is called with by name; not for integers of NumPy.
_NUMBERS: Any = np.arange(12)

# Rows of floats. The last two belong to whichever sort is running.
SCORES, GRADES, COEFFICIENTS, WEIGHTS, BEST, SHARE, SUMS, RANKED, RANKED_GRADES, KEYS, RUN, N_FLOATS = _NUMBERS

# Rows of integers. The last four belong to whichever sort is running.
ORDER, IDEAL, RIVAL, PLACE, REACH, COUNTS, CHOSEN, RANKS, BUCKETS, SPARE, N_INTS = _NUMBERS[:11]


@compiled
def allocate_floats(longest: int) -> FloatRows:
    """A place per document, and one over."""
    return np.empty((N_FLOATS, max(longest, COUNTING_LIMIT) + 1))


@compiled
def allocate_ints(longest: int) -> IntRows:
    """A place per document, and one over; zeros, so that no unchecked key can lead an index astray."""
    return np.zeros((N_INTS, max(longest, COUNTING_LIMIT) + 1), np.int64)
