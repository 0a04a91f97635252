"""Every list learner against its slow twin, and rounds worked by hand."""

import numpy as np
import pytest
import twins
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr

pytestmark = pytest.mark.kernel

SETTINGS = {
    "slam ndcg@3": (
        pr.SlamPerceptron("ndcg@3", learning_rate=0.3, margin=0.7),
        {"k": 3, "learning_rate": 0.3, "margin": 0.7},
    ),
    "slam ndcg": (pr.SlamPerceptron("ndcg", learning_rate=0.3), {"learning_rate": 0.3, "margin": 1.0}),
    "slam ap": (pr.SlamPerceptron("ap"), {"name": "ap", "learning_rate": 0.1, "margin": 1.0}),
    "slam mean": (
        pr.SlamPerceptron("ndcg@2", class_order="mean"),
        {"k": 2, "learning_rate": 0.1, "margin": 1.0, "class_order": "mean"},
    ),
    "slam index averaged": (
        pr.SlamPerceptron("ndcg@2", class_order="index", average=True),
        {"k": 2, "learning_rate": 0.1, "margin": 1.0, "class_order": "index", "average": True},
    ),
    "minimax ndcg@2": (pr.MinimaxPerceptron("ndcg@2"), {"k": 2}),
    "minimax ap": (pr.MinimaxPerceptron("ap", average=True), {"name": "ap", "average": True}),
    "listnet": (pr.OnlineListNet(0.2), {"learning_rate": 0.2}),
    "listnet averaged": (pr.OnlineListNet(0.2, average=True), {"learning_rate": 0.2, "average": True}),
    "listwise": (pr.ListwisePerceptron(), {"relative_margin": 1.0, "average": True}),
    "listwise no margin": (pr.ListwisePerceptron(relative_margin=0, average=False), {}),
    "listwise margin": (
        pr.ListwisePerceptron("ndcg@4", margin=0.5, learning_rate=0.2),
        {"k": 4, "margin": 0.5, "learning_rate": 0.2, "average": True},
    ),
    "listwise top": (
        pr.ListwisePerceptron("ndcg", violators="top", relative_margin=0.5),
        {"violators": "top", "relative_margin": 0.5, "average": True},
    ),
    "listwise ap index": (
        pr.ListwisePerceptron("ap", class_order="index"),
        {"name": "ap", "relative_margin": 1.0, "average": True, "class_order": "index"},
    ),
    "listwise mean": (
        pr.ListwisePerceptron("ndcg@3", class_order="mean", relative_margin=2.0),
        {"k": 3, "relative_margin": 2.0, "average": True, "class_order": "mean"},
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
@given(seed=st.integers(0, 10**6), longest=st.sampled_from([4, 12, 90]), fractional=st.booleans())
def test_learners_equal_their_definitions(setting, seed, longest, fractional):
    template, options = SETTINGS[setting]
    learner = type(template)(**template.get_params())
    rng = np.random.default_rng(seed)
    twin = twins.TwinLearner(learner.algorithm, 3, **options)
    for _ in range(6):
        m = rng.integers(1, longest + 1)
        X = rng.normal(size=(m, 3))
        relevance = rng.integers(0, 5, size=m) * (rng.random(m) < 0.7)
        if fractional:
            relevance = relevance + np.round(rng.random(m), 2)
        mass = twin.learn_one(X, relevance)
        assert learner.learn_one(X, relevance) == (mass > 0)
        np.testing.assert_allclose(learner.weights, twin.weights, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(learner.coef_, twin.coef(), rtol=1e-8, atol=1e-10)
    assert learner.n_updates == twin.n_updates


@pytest.mark.parametrize("setting", SETTINGS)
@given(seed=st.integers(0, 10**6))
def test_ties_everywhere_are_broken_as_defined(setting, seed):
    """Features and weights are small whole numbers, so that many scores are equal and all of them exact."""
    template, options = SETTINGS[setting]
    learner = type(template)(**template.get_params())
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(9, 2)).astype(float)
    relevance = rng.integers(0, 3, size=9)
    twin = twins.TwinLearner(learner.algorithm, 2, **options)
    twin.learn_one(X, np.zeros(9))
    learner.learn_one(X, np.zeros(9))
    twin.weights = rng.integers(-1, 2, size=2).astype(float)
    learner._state.weights[:] = twin.weights
    mass = twin.learn_one(X, relevance)
    assert learner.learn_one(X, relevance) == (mass > 0)
    np.testing.assert_allclose(learner.weights, twin.weights, rtol=1e-9, atol=1e-12)


def test_slam_by_hand():
    """Two rounds of AP: weights 1/2 each; the rival is the best-scored irrelevant document, the first among equals."""
    ranker = pr.SlamPerceptron("ap", learning_rate=0.5, margin=1.0)
    X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    grades = [1, 0, 1, 0]
    ranker.learn_one(X, grades)
    # all scores are 0: documents 0 and 2 move against document 1
    assert ranker.weights.tolist() == [0.5 * (0.5 * 1 + 0.5 * 2), -0.5 * 1]
    # now scores are .75, -.5, 1.5, -1.5: perfectly ranked, so nothing moves though document 0 is within the margin
    assert ranker.learn_one(X, grades) is False
    # swapping the grades makes it a mistake: M = 1.5 for both, hinges 1 + 1.5 + .5 and 1 + 1.5 + 1.5
    before = ranker.weights
    ranker.learn_one(X, [0, 1, 0, 1])
    assert ranker.weights.tolist() == (before - 0.5 * (0.5 * (X[2] - X[1]) + 0.5 * (X[2] - X[3]))).tolist()


def test_minimax_by_hand():
    ranker = pr.MinimaxPerceptron()
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    ranker.learn_one(X, [0, 1, 2])  # ties: the first document of a higher grade against the first of a lower one
    assert ranker.weights.tolist() == [-1.0, 2.0]
    ranker.learn_one(X, [2, 1, 0])  # scores -1, 4, 3: the widest pair is document 0 below document 1
    assert ranker.weights.tolist() == [-1.0 + 1.0, 2.0 - 2.0]


def test_listwise_by_hand():
    ranker = pr.ListwisePerceptron("ap", relative_margin=1.0, average=True)
    X = np.array([[4.0], [1.0], [0.0]])
    ranker.learn_one(X, [0, 1, 0])  # document 1 against documents 0 and 2, half each
    assert ranker.weights.tolist() == [1.0 - (4.0 + 0.0) / 2]
    # the margin is now ||z||^2 / V^2 = 1; scores -4, -1, 0: document 0 has all others as violators
    ranker.learn_one(X, [1, 0, 0])
    assert ranker.weights.tolist() == [-1.0 + 4.0 - 0.5]
    assert ranker.coef_.tolist() == [(-1.0 + 2.5) / 2]
    # margin (1 + 3.5^2) / 2 = 6.625; scores 10, 2.5, 0: document 0 leads by 7.5 and 10, which is enough
    assert ranker.learn_one(X, [1, 0, 0]) is False
    assert ranker.coef_.tolist() == [(-1.0 + 2.5 + 2.5) / 3]


def test_listwise_by_hand_with_ndcg():
    ranker = pr.ListwisePerceptron("ndcg", relative_margin=0, average=False)
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    ranker.learn_one(X, [0, 1, 2])
    first, second = 3.0, 1 / np.log2(3)
    v2, v1 = first / (first + second), second / (first + second)
    np.testing.assert_allclose(ranker.weights, [-v2 / 2 - v1, v1 - v2 / 2, v2])


def test_perceptron_by_hand():
    classifier = pr.Perceptron(average=True)
    assert classifier.learn_one([1.0, 1.0], 1)  # a score of 0 is a mistake
    assert not classifier.learn_one([1.0, 0.0], 1)
    assert classifier.learn_one([0.0, 2.0], -1)
    assert classifier.weights.tolist() == [1.0, -1.0]
    assert classifier.coef_.tolist() == [1.0, (1 + 1 - 1) / 3]


@pytest.mark.parametrize("power", [-9, -1, 3, 20])
@given(seed=st.integers(0, 1000))
def test_rankings_do_not_depend_on_the_learning_rate_or_scale(power, seed):
    """To the bit, for powers of two."""
    scale = 2.0**power
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=25)
    X = rng.normal(size=(sizes.sum(), 3))
    y = rng.integers(0, 4, size=sizes.sum())
    stream = pr.QueryStream.from_arrays(X, y, group=sizes)
    scaled = pr.QueryStream.from_arrays(X * scale, y, group=sizes)

    def weights(learner, data):
        learner.learn(data)
        return learner.weights, learner.coef_

    for make in (
        pr.MinimaxPerceptron,
        pr.Perceptron,
        pr.ListwisePerceptron,
        lambda **options: pr.ListwisePerceptron(violators="top", relative_margin=0.5, **options),
        lambda **options: pr.ListwisePerceptron("ap", relative_margin=0, **options),
    ):
        for one, other in zip(weights(make(), stream), weights(make(learning_rate=scale), stream), strict=True):
            assert np.array_equal(one * scale, other)
        for one, other in zip(weights(make(), stream), weights(make(), scaled), strict=True):
            assert np.array_equal(one * scale, other)
    for one, other in zip(
        weights(pr.SlamPerceptron(learning_rate=0.1, margin=1.0), stream),
        weights(pr.SlamPerceptron(learning_rate=0.1 * scale, margin=scale), stream),
        strict=True,
    ):
        assert np.array_equal(one * scale, other)
