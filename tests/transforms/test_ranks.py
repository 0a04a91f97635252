"""Transforms by ranks within a query, against their definitions."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import EITHER_PRECISION, examples, streams

import perceptrank as pr
from perceptrank.kernels.lanes import LANES
from perceptrank.transforms.column_ranks import MOST_SORTED


def mean_ranks(X):
    """From 1: of each value, the mean of the places that it and its equals could have."""
    smaller, equal = (X[None] < X[:, None]).sum(axis=1), (X[None] == X[:, None]).sum(axis=1)
    return smaller + (equal + 1) / 2


def by_definition(stream):
    """Ranks from -1 to 1, and normal scores."""
    ranks, normal = np.empty(stream.X.shape), np.empty(stream.X.shape)
    quantile = np.vectorize(NormalDist().inv_cdf)
    for query, start in zip(stream, stream.offsets, strict=False):
        m, rows = len(query.X), slice(start, start + len(query.X))
        found = mean_ranks(query.X)
        ranks[rows] = 2 * (found - 1) / (m - 1) - 1 if m > 1 else 0
        normal[rows] = quantile((found - 0.5) / m)
    return ranks, normal


def check(stream):
    ranks, normal = by_definition(stream)
    precision = 1e-6 if stream.X.dtype == np.float32 else 1e-14
    for transform, expected in ((pr.QueryRank(), ranks), (pr.QueryNormal(), normal)):
        found = transform.apply(stream.X, stream.offsets)
        assert found.dtype == stream.X.dtype
        np.testing.assert_allclose(found, expected, rtol=10 * precision, atol=precision)
        longest = int(np.diff(stream.offsets).max())
        largest = np.linalg.norm(found.astype(float), axis=1).max()
        assert largest <= transform.largest_norm(stream.n_features, longest) * (1 + 1e-6)


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION))
def test_they_equal_their_definitions(stream):
    check(stream)


KINDS = {
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "few values": lambda rng, shape: rng.integers(-3, 3, size=shape),
    "one value": lambda rng, shape: np.full(shape, rng.normal()),
    "signed zeros": lambda rng, shape: rng.choice([0.0, -0.0, 1.0], size=shape),
    "far from 0": lambda rng, shape: 1.6e9 + 128 * rng.integers(0, 50, size=shape),
    "all but equal": lambda rng, shape: 1 + 2e-7 * rng.integers(0, 9, size=shape),
    "near the largest": lambda rng, shape: 1.0 - 1e-6 * rng.random(shape) ** 8 - (rng.random(shape) < 0.1),
    "few bits at both ends": lambda rng, shape: (
        1 + rng.integers(0, 3, size=(3, *shape)).T.dot([0.25, 2**-22, 2**-51]).T
    ),
    "beside the largest and the smallest": lambda rng, shape: (
        rng.choice([-1, 1], size=shape) * rng.choice([0, 1e-45, 3e-45, 1.2e-38, 1, 3.3e38, 3.4e38], size=shape)
    ),
    "many sizes": lambda rng, shape: rng.choice([-1, 1], size=shape) * 10 ** rng.uniform(-35, 35, size=shape),
}


@pytest.mark.kernel
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@examples(6, suite=1)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 13, 16, 31, 33, 64, 65, 100]), min_size=1, max_size=3),
    n_features=st.sampled_from([1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 5]),
)
def test_values_of_every_kind(kind, dtype, seed, sizes, n_features):
    rng = np.random.default_rng(seed)
    X = KINDS[kind](rng, (sum(sizes), n_features)).astype(dtype)
    check(pr.QueryStream.from_arrays(X, np.zeros(len(X)), group=sizes))


@pytest.mark.kernel
@pytest.mark.parametrize("m", [MOST_SORTED, MOST_SORTED + 1])
def test_long_queries(m):
    rng = np.random.default_rng(m)
    X = np.column_stack([rng.normal(size=m), rng.integers(0, 9, size=m), np.arange(m) // 7 % 50])
    check(pr.QueryStream.from_arrays(X, np.zeros(m)))
    check(pr.QueryStream.from_arrays(np.vstack([X[:3], X, X[:5]]).astype(np.float32), np.zeros(m + 8), group=[3, m, 5]))


@pytest.mark.parametrize("document", [1, 5, 5 + MOST_SORTED])
def test_values_that_are_not_finite_are_refused_around_a_long_query(document):
    X = np.zeros((5 + MOST_SORTED + 3, 2))
    X[document:, 1] = np.nan
    with pytest.raises(ValueError, match=f"document {document}, feature 1"):
        pr.QueryNormal().apply(X, np.array([0, 4, 5 + MOST_SORTED, len(X)]))


@pytest.mark.kernel
def test_values_at_the_ends_of_the_range():
    for largest in (float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)):
        X = np.array([[largest, 0.0], [-largest, 5e-324], [0.0, -5e-324], [largest / 2, 1e-310]])
        check(pr.QueryStream.from_arrays(X.astype(np.float32) if largest < 1e39 else X, np.zeros(4)))


@pytest.mark.parametrize("kind", [pr.QueryRank, pr.QueryNormal])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 0), (4, 17)])
def test_values_that_are_not_finite_are_refused(kind, wrong, place):
    X = np.zeros((5, 18))
    X[place] = wrong
    with pytest.raises(ValueError, match=f"document {place[0]}, feature {place[1]}"):
        kind().apply(X, np.array([0, 2, 5]))


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION), size=st.integers(1, 500))
def test_they_depend_on_the_query_and_on_the_order_of_values_alone(stream, size):
    for transform in (pr.QueryRank(), pr.QueryNormal(), pr.Join("query-rank", "query-normal")):
        whole = transform.apply(stream.X, stream.offsets)
        pieces = [transform.apply(block.X, block.offsets) for block in stream.blocks(size)]
        assert np.array_equal(np.concatenate(pieces), whole)
        stretched = transform.apply(np.cbrt(stream.X.astype(np.float64)) * 3 + 1, stream.offsets)
        assert np.array_equal(stretched.astype(whole.dtype), whole)


def test_a_block_that_was_refused_leaves_nothing_behind():
    """Scratch is used again: after values that need a second look, and after some that are not finite."""
    rng = np.random.default_rng(5)
    close = 1.0 + rng.permutation(40 * 2 * LANES).reshape(40, -1) * 2.0**-50  # differ in their last bits alone
    stream = pr.QueryStream.from_arrays(close, np.zeros(40))
    transform = pr.transforms.QueryNormal()
    expected = by_definition(stream)[1]
    wrong = close.copy()
    wrong[3, -1] = np.nan
    for _ in range(3):
        with pytest.raises(ValueError, match="finite"):
            transform.apply(wrong, stream.offsets)
        np.testing.assert_allclose(transform.apply(close, stream.offsets), expected, atol=1e-12)
