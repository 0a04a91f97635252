import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import EITHER_PRECISION, streams

import perceptrank as pr
from perceptrank.kernels.lanes import LANES


def standardized(X, reference):
    deviation = reference.std(axis=0)
    return np.where(deviation > 0, (X - reference.mean(axis=0)) / np.where(deviation > 0, deviation, 1), 0)


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION))
def test_query_transforms_equal_their_definitions(stream):
    for query, zscore, minmax in zip(
        stream, pr.QueryZScore().transform(stream), pr.QueryMinMax().transform(stream), strict=True
    ):
        X = query.X.astype(float)
        np.testing.assert_allclose(zscore.X, standardized(X, X), atol=1e-5)
        spread = np.ptp(X, axis=0)
        expected = np.where(spread > 0, (X - X.min(axis=0)) / np.where(spread > 0, spread, 1), 0)
        np.testing.assert_allclose(minmax.X, expected, atol=1e-6)


@pytest.mark.kernel
@given(stream=streams(dtypes=EITHER_PRECISION))
def test_the_running_standardizer_equals_its_definition(stream):
    scaler = pr.RunningStandardizer()
    seen = np.empty((0, stream.n_features))
    for query in stream:
        seen = np.vstack([seen, query.X.astype(float)])
        scaled = scaler.learn_and_apply(query.X, np.array([0, len(query.X)]))
        np.testing.assert_allclose(scaled, standardized(query.X.astype(float), seen), atol=1e-4)
        assert scaler.count == len(seen)
    np.testing.assert_allclose(scaler.mean, seen.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(scaler.deviation, seen.std(axis=0), atol=1e-10)


@given(stream=streams(dtypes=EITHER_PRECISION), size=st.integers(1, 500))
def test_blocks_do_not_change_a_bit(stream, size):
    whole = pr.RunningStandardizer()
    expected = whole.learn_and_apply(stream.X, stream.offsets)
    pieces = pr.RunningStandardizer()
    found = [pieces.learn_and_apply(block.X, block.offsets) for block in stream.blocks(size)]
    assert np.array_equal(np.concatenate(found), expected)
    assert pieces == whole


@given(stream=streams(dtypes=EITHER_PRECISION), cut=st.integers(0, 12))
def test_statistics_merge(stream, cut):
    one, other = pr.RunningStandardizer(), pr.RunningStandardizer()
    for query_range, scaler in ((stream[:cut], one), (stream[cut:], other)):
        if len(query_range):
            scaler.learn(query_range)
    merged = one.merge(other)
    whole = pr.RunningStandardizer().learn(stream)
    np.testing.assert_allclose(merged.mean, whole.mean, atol=1e-10)
    np.testing.assert_allclose(merged.deviation, whole.deviation, atol=1e-10)
    assert merged.count == whole.count


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e8 + 0.1, -7.7e-9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_features_become_exactly_zero(value, dtype):
    """Rounding must not turn a constant into noise of unit size."""
    stream = pr.QueryStream.from_arrays(np.full((21, 1), value, dtype), np.zeros(21), group=[7, 3, 11])
    for scaling in (pr.QueryZScore(), pr.QueryMinMax()):
        assert not scaling.transform(stream).X.any()
    assert not pr.RunningStandardizer().learn_and_apply(stream.X, stream.offsets).any()


def test_frozen_statistics_stay():
    scaler = pr.RunningStandardizer().learn(pr.QueryStream.from_arrays([[0.0], [2.0]], [0, 1])).freeze()
    more = pr.QueryStream.from_arrays([[100.0], [300.0]], [0, 1])
    assert scaler.learn_and_apply(more.X, more.offsets).tolist() == [[99], [299]]
    assert scaler.count == 2


def test_one_document_queries_and_single_precision_stay_what_they_are():
    stream = pr.QueryStream.from_arrays(np.ones((2, 2), np.float32), [0, 1], group=[1, 1])
    for scaling in (pr.QueryZScore(), pr.QueryMinMax(), pr.RunningStandardizer()):
        scaled = scaling.transform(stream)
        assert scaled.X.dtype == np.float32
        assert not scaled.X.any()


@pytest.mark.parametrize("kind", [pr.QueryZScore, pr.QueryMinMax, pr.RunningStandardizer])
def test_numbers_too_large_to_scale_are_an_error(kind):
    stream = pr.QueryStream.from_arrays([[0.0, -1.7e308], [0.0, 1.7e308]], [0, 1])
    with pytest.raises(ValueError, match="feature 1 is too large to be scaled"):
        kind().learn_and_apply(stream.X, stream.offsets)


def test_spreads_too_small_to_divide_by_count_as_none():
    stream = pr.QueryStream.from_arrays([[0.0], [5e-324]], [0, 1])
    assert pr.QueryMinMax().transform(stream).X.tolist() == [[0], [0]]


def test_bad_input_changes_nothing():
    scaler = pr.RunningStandardizer().learn(pr.QueryStream.from_arrays([[0.0], [2.0]], [0, 1]))
    before = scaler.state()
    with pytest.raises(ValueError, match="learned from 1 features, got 2"):
        scaler.learn(pr.QueryStream.from_arrays(np.eye(2), [0, 1]))
    with pytest.raises(ValueError, match="feature 0 is too large"):
        scaler.learn(pr.QueryStream.from_arrays([[1e300], [-1e300]], [0, 1]))
    assert scaler.state() == before
    with pytest.raises(ValueError, match="'query-zscore', 'running', 'running-spread'"):
        pr.SlamPerceptron(transforms="z")


def standardized_in_order(column):
    """A column standardised, each sum taken from the first document to the last."""
    values = [float(value) for value in column]
    total = 0.0
    for value in values:
        total += value - values[0]
    mean, squares = total / len(values), 0.0
    for value in values:
        gap = value - values[0] - mean
        squares += gap * gap
    deviation = math.sqrt(squares / len(values))
    return [(value - (mean + values[0])) * (1 / deviation) if deviation > 0 else 0.0 for value in values]


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, LANES - 1, LANES, 2 * LANES + 3])
def test_z_scores_have_the_bits_of_sums_in_order(dtype, n_features):
    rng = np.random.default_rng(n_features)
    sizes = [1, 2, 7, 40]
    X = (rng.normal(size=(sum(sizes), n_features)) * 10.0 ** rng.integers(-9, 9, size=n_features)).astype(dtype)
    X[:, 0] = 0.1
    offsets = np.cumsum([0, *sizes])
    expected = np.empty_like(X)
    for start, stop in itertools.pairwise(offsets):
        for j in range(n_features):
            expected[start:stop, j] = standardized_in_order(X[start:stop, j])
    assert np.array_equal(pr.QueryZScore().apply(X, offsets), expected)
    joined = pr.Join("query-rank", "query-zscore").apply(X, offsets)
    assert np.array_equal(joined[:, n_features:], expected)


@pytest.mark.parametrize("n_features", [3, LANES + 5])
def test_the_first_feature_that_overflows_is_named(n_features):
    X = np.zeros((4, n_features))
    X[2, 1], X[2, -1] = 1e300, 1e300
    with pytest.raises(ValueError, match="feature 1 is too large"):
        pr.QueryZScore().apply(X, np.array([0, 2, 4]))
