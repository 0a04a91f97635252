"""Online ridge regression against normal equations that are solved anew, and what its scale does not depend on."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import EITHER_PRECISION, streams
from support.twins import TwinRidge

import perceptrank as pr

PENALTIES = st.sampled_from([0.1, 3.0, 1000.0])


def assert_alike(learner, twin, rtol=1e-8):
    """Weights agree in units, in which they are of the size of the targets."""
    np.testing.assert_allclose(learner.units_, twin.units, rtol=1e-9)
    np.testing.assert_allclose(learner.weights * twin.units, twin.weights * twin.units, rtol=rtol, atol=rtol)


@pytest.mark.kernel
@given(
    stream=streams(max_documents=40, max_features=14, dtypes=EITHER_PRECISION),
    penalty=PENALTIES,
    target=st.sampled_from(["grades", "gains"]),
    grows=st.booleans(),
)
def test_it_solves_the_normal_equations_after_every_query(stream, penalty, target, grows):
    learner, twin = pr.OnlineRidge(penalty, target=target), TwinRidge(stream.n_features, penalty, target)
    for number, query in enumerate(stream):
        X = query.X * (1 + number * (np.arange(stream.n_features) % 3)) if grows else query.X
        assert learner.learn_one(X, query.relevance) == (len(set(query.relevance)) > 1)
        twin.learn_one(X, query.relevance)
        if twin.is_close_call:
            return
        if twin.queries:
            assert_alike(learner, twin)


def test_it_is_least_squares_over_all_pairs_of_a_query():
    """Each with the weight 1 / m, which is the same as the squares of the deviations from the means."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(7, 3)), np.array([0, 2, 1, 0, 3, 0, 1.0])
    ranker = pr.OnlineRidge(5.0)
    ranker.learn_one(X, y)
    i, j = np.triu_indices(7, 1)
    apart, ahead = X[i] - X[j], y[i] - y[j]
    penalty = 5.0 * np.diag(X.var(axis=0))  # the unit is the deviation
    np.testing.assert_allclose(ranker.weights, np.linalg.solve(apart.T @ apart / 7 + penalty, apart.T @ ahead / 7))


@given(stream=streams(max_features=6), seed=st.integers(0, 10**6))
def test_rankings_do_not_depend_on_the_scale_of_any_feature(stream, seed):
    rng, d = np.random.default_rng(seed), stream.n_features
    stream = stream.with_features(stream.X + 0.01 * rng.normal(size=stream.X.shape))  # no variance is twice another
    plain = pr.OnlineRidge()
    trace = plain.learn(stream, "ndcg@10")
    powers = 2.0 ** rng.integers(-60, 60, size=d)
    scaled = pr.OnlineRidge()
    again = scaled.learn(stream.with_features(stream.X * powers), "ndcg@10")
    np.testing.assert_array_equal(again.values("ndcg@10"), trace.values("ndcg@10"))
    np.testing.assert_array_equal(scaled.weights * powers, plain.weights)
    factors = 10.0 ** rng.uniform(-9, 9, size=d)
    scaled.fit(stream.with_features(stream.X * factors))
    np.testing.assert_allclose(scaled.weights * factors * plain.units_, plain.weights * plain.units_, atol=1e-10)


@given(seed=st.integers(0, 10**6), exponent=st.sampled_from([1, 5, 12, 40, 140]))
def test_a_feature_that_was_all_but_constant_comes_alive(seed, exponent):
    rng = np.random.default_rng(seed)
    learner, twin = pr.OnlineRidge(2.0), TwinRidge(6, 2.0)
    for number in range(12):
        X, grades = rng.normal(size=(8, 6)), rng.integers(0, 3, size=8)
        X[:, 2] *= 10.0**-exponent if number < 5 else 1.0
        X[:, 4] += 10.0 ** min(exponent, 5) if number > 7 else 0.0
        learner.learn_one(X, grades)
        twin.learn_one(X, grades)
        assert_alike(learner, twin, rtol=1e-6)


def test_a_hundred_thousand_queries_leave_no_error_behind():
    """Against one fresh solve, with features of many sizes, two of them the same, and hardly a penalty."""
    rng, n = np.random.default_rng(1), 100_000
    X = rng.normal(size=(5 * n, 6))
    X[:, 3] = 2 * X[:, 0]
    X[:, 4] = X[:, 1] + 1e-3 * X[:, 4]
    grades = np.clip(np.round(X @ [1.0, 0, 0, 0, 0, 1.0] + rng.normal(size=len(X))), 0, 4)
    X = X * np.logspace(-6, 6, 6) + 1e3
    ranker = pr.OnlineRidge(1.0)
    ranker.learn(pr.QueryStream.from_arrays(X, grades, group=[5] * n), [])
    queries, y = X.reshape(n, 5, 6), grades.reshape(n, 5)
    learned = (y != y[:, :1]).any(axis=1)
    Z = (queries - queries.mean(axis=1, keepdims=True))[learned].reshape(-1, 6) / ranker.units_
    y = (y - y.mean(axis=1, keepdims=True))[learned].ravel()
    expected = np.linalg.solve(Z.T @ Z + np.eye(6), Z.T @ y)
    assert np.linalg.cond(Z.T @ Z + np.eye(6)) > 1e4
    np.testing.assert_allclose(ranker.weights * ranker.units_, expected, rtol=1e-7, atol=1e-9)


def test_by_hand():
    ranker = pr.OnlineRidge(penalty=2.0, target="gains")
    ranker.learn_one([[3.0], [1.0]], [2, 0])  # z = +-1, the unit; y = +-3/2: w = 3 / (2 + 2)
    assert ranker.weights.tolist() == [3 / 4]
    ranker.learn_one([[9.0], [1.0]], [2, 0])  # variance (2 + 32) / 4 > 2, > 8: the unit is 4, as it is not > 32
    assert ranker.units_.tolist() == [4.0]
    assert ranker.weights.tolist() == pytest.approx([(3 + 12) / (2 + 32 + 2 * 4**2)])
    ranker.learn_one([[0.0], [5.0]], [1, 1])  # equal grades say nothing of an order
    assert ranker.weights.tolist() == pytest.approx([15 / 66])
    assert (ranker.n_rounds, ranker.n_updates) == (3, 2)


def test_constant_features_have_no_weight_however_they_are_rounded():
    ranker = pr.OnlineRidge()
    for value in (0.1, 1e16 / 3, 1e-300):
        X = np.column_stack([np.full(7, value), np.arange(7.0)])
        ranker.learn_one(X, [0, 0, 1, 1, 2, 2, 2])
    assert ranker.weights[0] == ranker.units_[0] == 0.0
    assert ranker.weights[1] > 0


@pytest.mark.parametrize("wrong", [{"penalty": 0}, {"penalty": np.inf}, {"penalty": "1"}, {"target": "ranks"}])
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        pr.OnlineRidge(**wrong)


@pytest.mark.parametrize(
    ("X", "grades"), [(1e200 * np.eye(3), [0, 0, 1]), (np.eye(3), [0, 0, 2000]), (np.eye(3), [0, 0, 600])]
)
def test_what_overflows_is_refused_and_changes_nothing(X, grades):
    ranker = pr.OnlineRidge(target="gains")
    ranker.learn_one(np.arange(9.0).reshape(3, 3) ** 2, [0, 1, 2])
    before = ranker.as_document()
    with pytest.raises(ValueError, match="overflow at query number 1"):
        ranker.learn_one(X, grades)
    assert ranker.as_document() == before


@pytest.mark.parametrize("name", ["units", "sums", "counts"])
def test_damaged_files_are_refused(name):
    ranker = pr.OnlineRidge()
    ranker.learn(pr.separable(5).stream)
    document = ranker.as_document()
    document["state"][name][0] = -1.0
    with pytest.raises(ValueError, match=f"{name} must not be negative"):
        pr.OnlineRidge.from_document(document)


_LEARN = """
import numpy as np, perceptrank as pr
rng = np.random.default_rng(5)
stream = pr.QueryStream.from_arrays(rng.normal(size=(120, 4)), rng.integers(4, size=120), group=[6] * 20)
learner = pr.OnlineRidge()
learner.learn(stream, [])
print(learner.as_document()["state"])
"""


@pytest.mark.deep  # it compiles
def test_what_was_just_compiled_and_what_was_found_on_disk_give_the_same_bits(tmp_path):
    variables = os.environ | {"PERCEPTRANK_CACHE_DIR": str(tmp_path / "cache")}
    compiled, found = (
        subprocess.run([sys.executable, "-c", _LEARN], env=variables, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert compiled == found
