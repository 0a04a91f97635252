"""Scratch of kernels: kept from call to call, unless it is large."""

import numpy as np

from perceptrank.kernels.scratch import borrow_scratch


def test_scratch_of_a_long_query_is_not_kept():
    assert np.shares_memory(borrow_scratch(1000, 3, 10, 9)[0], borrow_scratch(10, 3, 10, 9)[0])
    large = borrow_scratch(1_000_000, 3, 10, 9)
    assert large[0].shape == (10, 1_000_002)
    assert not np.shares_memory(large[0], borrow_scratch(10, 3, 10, 9)[0])
