"""Transforms of sparse features."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import EITHER_PRECISION, streams

import perceptrank as pr
from perceptrank.transforms.registry import named_transforms, sparse_transforms

TRANSFORMS = named_transforms()

pytestmark = pytest.mark.kernel


def spread_twin(X, offsets):
    """Each query divided by the deviations of all rows up to its end, 0 where there is none."""
    X = X.astype(np.float64)
    scaled = np.zeros_like(X)
    for start, stop in pairwise(offsets):
        deviation = X[:stop].std(axis=0)
        constant = (X[:stop] == X[0]).all(axis=0)
        scaled[start:stop] = np.where(
            constant, 0.0, X[start:stop] / np.where(constant | (deviation == 0), 1, deviation)
        )
    return scaled


@given(streams(dtypes=EITHER_PRECISION), st.integers(1, 3))
def test_the_running_spread_is_that_of_all_rows_so_far(stream, n_blocks):
    expected = spread_twin(stream.X, stream.offsets)
    transform = pr.RunningSpread()
    cuts = np.linspace(0, len(stream), n_blocks + 1).astype(int)
    blocks = [stream.to_sparse()[a:b] for a, b in pairwise(cuts) if b > a]
    made = [transform.learn_and_apply(block.X, block.offsets) for block in blocks]
    whole = pr.SparseFeatures.concatenate(made)
    np.testing.assert_allclose(
        whole.toarray(), expected, rtol=1e-4 if stream.X.dtype == np.float32 else 1e-6, atol=1e-9
    )
    at_once = pr.RunningSpread()
    assert at_once.learn_and_apply(stream.to_sparse().X, stream.offsets) == whole
    assert at_once == transform
    np.testing.assert_array_equal(pr.RunningSpread().learn_and_apply(stream.X, stream.offsets), whole.toarray())
    np.testing.assert_allclose(transform.deviation, stream.X.astype(float).std(axis=0), rtol=1e-6, atol=1e-9)
    restored = pr.RunningSpread()
    restored.restore(transform.state())
    assert restored == transform
    np.testing.assert_array_equal(
        restored.apply(stream.X, stream.offsets), transform.apply(stream.to_sparse().X, stream.offsets).toarray()
    )


@given(streams(dtypes=EITHER_PRECISION), streams(dtypes=EITHER_PRECISION))
def test_spreads_of_two_streams_are_merged(one, other):
    width = min(one.n_features, other.n_features)
    parts = [s.with_features(np.ascontiguousarray(s.X[:, :width], dtype=np.float64)) for s in (one, other)]
    merged = pr.RunningSpread().learn(parts[0]).merge(pr.RunningSpread().learn(parts[1]))
    whole = pr.RunningSpread().learn(parts[0] + parts[1])
    assert merged.count == whole.count
    np.testing.assert_allclose(merged.deviation, whole.deviation, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["query-zscore", "query-minmax", "query-rank", "query-normal"])
def test_transforms_that_would_make_features_dense_refuse(name):
    stream = pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2]).to_sparse()
    with pytest.raises(TypeError, match=f"{name} would make sparse features dense, as zeros do not stay zeros"):
        TRANSFORMS[name]().transform(stream)
    learner = pr.ListwisePerceptron(transforms=["signed-log", name])
    with pytest.raises(TypeError, match="would make sparse features dense"):
        learner.learn(stream)
    assert learner.n_queries == 0


@given(streams(dtypes=EITHER_PRECISION), st.sampled_from(["clip", "signed-log", "clip+signed-log", "running+clip"]))
def test_what_leaves_zeros_makes_of_sparse_features_what_it_makes_of_dense_ones(stream, name):
    (dense,), (sparse,) = (make(name) for make in (one_transform, sparse_transforms))
    sparse_X = stream.to_sparse().X
    made = sparse.learn_and_apply(sparse_X, stream.offsets)
    if "running" in name:
        spread = pr.RunningSpread().learn_and_apply(stream.X, stream.offsets)
        expected = np.hstack([spread, pr.Clip().apply(stream.X, stream.offsets)])
    else:
        expected = dense.learn_and_apply(stream.X, stream.offsets)
    np.testing.assert_array_equal(made.toarray(), expected)
    assert made.dtype == stream.X.dtype


def one_transform(name):
    from perceptrank.transforms.registry import make_transforms

    return make_transforms(name)


def test_bad_input_changes_nothing():
    stream = pr.QueryStream.from_arrays([[1.0, 0.0], [0.0, 3.0]], [0, 1]).to_sparse()
    transform = pr.RunningSpread().learn(stream)
    before = transform.state()
    with pytest.raises(ValueError, match="feature 1 is too large"):
        transform.learn(stream.with_features(pr.SparseFeatures.from_dense(np.array([[1.0, 0.0], [0.0, 1e200]]))))
    with pytest.raises(ValueError, match="learned from 2 features, got 3"):
        transform.learn(pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2]).to_sparse())
    with pytest.raises(ValueError, match="learned from 2 features, got 3"):
        transform.merge(pr.RunningSpread().learn(pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2])))
    with pytest.raises(ValueError, match="got NaN at document 0, feature 1"):
        transform.learn_and_apply(np.array([[1.0, np.nan]]), [0, 1])
    assert transform.state() == before
    frozen = transform.freeze()
    frozen.learn(stream)
    assert frozen.state() == before | {"frozen": True}


def test_automatic_transforms_of_sparse_streams_need_no_scaling_by_hand():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12)) * (rng.random((400, 12)) < 0.3)
    grades = np.floor(np.clip(X @ rng.normal(size=12) + 1, 0, 2))
    scales = 10.0 ** rng.integers(-3, 4, 12)
    plain, scaled = (
        pr.ListwisePerceptron(transforms="auto").learn(
            pr.QueryStream.from_arrays(features, grades, group=[10] * 40).to_sparse(), "ndcg"
        )
        for features in (X, X * scales)
    )
    np.testing.assert_allclose(plain.values("ndcg"), scaled.values("ndcg"), rtol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("means", 1e200), ("means", -1e200), ("squares", 1e308)])
def test_statistics_that_would_overflow_are_refused(name, value):
    state = pr.RunningSpread().learn(pr.separable(5).stream).state()
    state[name][0] = value
    with pytest.raises(ValueError, match="means must be from"):
        pr.RunningSpread().restore(state)
