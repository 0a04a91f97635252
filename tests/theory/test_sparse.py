"""Geometry, margins and comparators of sparse streams."""

import numpy as np
import pytest

import perceptrank as pr


def test_geometry_margins_and_comparators_of_sparse_streams():
    made = pr.separable(60, seed=4, n_features=8, margin=0.05).stream
    dense = made.with_features(np.where(np.abs(made.X) > 0.2, made.X, 0.0))
    sparse = dense.to_sparse()
    assert pr.theory.radius(sparse) == pytest.approx(pr.theory.radius(dense))
    assert pr.theory.diameter(sparse) == pytest.approx(pr.theory.diameter(dense))
    found, expected = pr.theory.margin(sparse, max_passes=30), pr.theory.margin(dense, max_passes=30)
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), rel=1e-6)
    for surrogate in ("slam", "max-pair", "level-pair"):
        one = pr.theory.comparator(sparse, penalty=0.1, surrogate=surrogate, max_passes=20)
        other = pr.theory.comparator(dense, penalty=0.1, surrogate=surrogate, max_passes=20)
        assert one.loss + 0.1 * one.norm**2 == pytest.approx(other.loss + 0.1 * other.norm**2, rel=1e-6)
