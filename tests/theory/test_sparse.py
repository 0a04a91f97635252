"""Geometry, margins and comparators of sparse streams."""

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.theory.margins import worst_pairs_pass


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


def test_the_worst_pairs_of_documents_that_have_much_in_common():
    rng = np.random.default_rng(0)
    X = rng.integers(-40, 41, (30 * 6, 3)) / 8
    scores = X @ [1.0, 2.0, -1.5]
    date = np.repeat(rng.uniform(6e14, 1e15, 30).round(), 6)
    dense = pr.QueryStream.from_arrays(X + date[:, None], np.floor(scores - scores.min()), group=[6] * 30)
    ranker = rng.normal(size=3)
    sparse = dense.to_sparse()
    offsets, grades, zeros = dense.offsets, dense.relevance, np.zeros(30)
    gaps, higher, lower = zeros.copy(), zeros.astype(np.int64), zeros.astype(np.int64)
    scratch = np.empty((5, 9)), np.empty((4, 9), np.int64)
    worst_pairs_pass(False, 0, sparse.X.arrays, grades, offsets, ranker, gaps, higher, lower, *scratch)
    for q, query in enumerate(dense):
        apart = (query.X[:, None] - query.X[None]) @ ranker
        expected = np.where(query.relevance[:, None] > query.relevance, apart, np.inf).min()
        assert gaps[q] == pytest.approx(expected, abs=1e-9)


def test_the_margin_of_many_features_is_that_of_those_that_occur():
    rng = np.random.default_rng(2)
    few = np.where(rng.random((120, 90)) < 0.2, rng.normal(size=(120, 90)), 0.0)
    many = np.zeros((120, 5000))
    many[:, rng.choice(5000, 90, replace=False)] = few
    grades = np.floor(np.clip(few @ rng.normal(size=90) + 1, 0, 2))
    expected, found = (
        pr.theory.margin(pr.QueryStream.from_arrays(X, grades, group=[6] * 20).to_sparse()) for X in (few, many)
    )
    assert expected.separable
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), rel=2e-3)
    assert found.separable
