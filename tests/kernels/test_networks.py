"""Sorting networks, against NumPy."""

import numba
import numpy as np
import pytest

from perceptrank.kernels.lanes import LANES
from perceptrank.kernels.networks import LARGEST_KEY, ROWS, sort_lanes


@numba.njit
def sort(keys, m):
    sort_lanes(keys, m)


@pytest.mark.kernel
@pytest.mark.parametrize("values", [2, 2**31 - 1])
def test_networks_of_every_length_sort(values):
    rng = np.random.default_rng(values)
    for m in [*range(1, 140), 255, 256, 257, 511, 600, 1000, 1023, 1024]:
        keys = np.full((max(1 << (m - 1).bit_length(), ROWS), LANES), LARGEST_KEY, np.int32)
        keys[:m] = rng.integers(-values, values, size=(m, LANES))
        if values == 2:
            keys[:m, 0] = np.arange(m, 0, -1)
        expected = np.sort(keys, axis=0)
        sort(keys, m)
        assert np.array_equal(keys, expected)
