"""Simulated streams whose target moves."""

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.datasets.drifting import DRIFTS, moving_rankers


@pytest.mark.parametrize("drift", DRIFTS)
def test_rankers_move_as_said(drift):
    rankers = moving_rankers(np.random.default_rng(3), 1000, drift, 250, 6)
    np.testing.assert_allclose(np.linalg.norm(rankers, axis=1), 1.0)
    steps = np.linalg.norm(np.diff(rankers, axis=0), axis=1)
    if drift == "none":
        assert steps.max() == 0
    elif drift == "abrupt":
        assert np.flatnonzero(steps).tolist() == [249, 499, 749]
    elif drift == "gradual":
        assert 0 < steps.min() <= steps.max() < 0.1
    else:
        np.testing.assert_allclose(steps, 2 * np.sin(np.pi / 4 / 250))
        assert abs(rankers[0] @ rankers[250]) < 1e-12


@pytest.mark.parametrize("drift", DRIFTS)
def test_without_noise_the_rankers_are_right(drift):
    stream = pr.drifting(60, drift=drift, period=25, n_documents=8, n_features=3, noise=0, seed=2)
    rankers = moving_rankers(np.random.default_rng(2), 60, drift, 25, 3)
    for query, ranker in zip(stream, rankers, strict=True):
        if query.relevance.any():
            assert pr.NDCG()(query.X @ ranker, query.relevance) == 1
    shares = np.bincount(stream.relevance.astype(int), minlength=5) / stream.n_documents
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.13, 0.05, 0.02], atol=0.005)


def test_the_same_stream_every_time():
    one, again, other = (pr.drifting(40, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.X, again.X)
    assert np.array_equal(one.relevance, again.relevance)
    assert not np.array_equal(one.X, other.X)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"drift": "fast"}, "drift must be one of"),
        ({"period": 0}, "period"),
        ({"n_features": 1}, "n_features"),
        ({"noise": -1}, "noise"),
    ],
)
def test_wrong_arguments(given, problem):
    with pytest.raises(ValueError, match=problem):
        pr.drifting(10, **given)
