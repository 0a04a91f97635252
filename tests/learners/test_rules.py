"""Every list learner against its slow twin, and rounds worked by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from support import twins
from support.learners import at_weights
from support.strategies import examples

import perceptrank as pr
from perceptrank.learners.published.structured_ndcg import find_worst_ranking

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
    "listwise": (pr.ListwisePerceptron(transforms=None), {"relative_margin": 1.0, "average": True}),
    "listwise uniform": (
        pr.ListwisePerceptron(violators="uniform", transforms=None),
        {"relative_margin": 1.0, "average": True, "violators": "uniform"},
    ),
    "listwise uniform mean": (
        pr.ListwisePerceptron("ndcg@3", violators="uniform", class_order="mean", relative_margin=2.0, transforms=None),
        {"k": 3, "relative_margin": 2.0, "average": True, "class_order": "mean", "violators": "uniform"},
    ),
    "listwise uniform margin": (
        pr.ListwisePerceptron("ap", violators="uniform", class_order="index", margin=0.5, transforms=None),
        {"name": "ap", "margin": 0.5, "average": True, "class_order": "index", "violators": "uniform"},
    ),
    "listwise no margin": (pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None), {}),
    "listwise margin": (
        pr.ListwisePerceptron("ndcg@4", margin=0.5, learning_rate=0.2, transforms=None),
        {"k": 4, "margin": 0.5, "learning_rate": 0.2, "average": True},
    ),
    "listwise top": (
        pr.ListwisePerceptron("ndcg", violators="top", relative_margin=0.5, transforms=None),
        {"violators": "top", "relative_margin": 0.5, "average": True},
    ),
    "listwise ap index": (
        pr.ListwisePerceptron("ap", class_order="index", transforms=None),
        {"name": "ap", "relative_margin": 1.0, "average": True, "class_order": "index"},
    ),
    "listwise mean": (
        pr.ListwisePerceptron("ndcg@3", class_order="mean", relative_margin=2.0, transforms=None),
        {"k": 3, "relative_margin": 2.0, "average": True, "class_order": "mean"},
    ),
}

SETTINGS |= {
    "listnet gains": (pr.OnlineListNet(0.2, target="gains"), {"learning_rate": 0.2, "target": "gains"}),
    "category": (pr.CategoryRanking(learning_rate=0.5), {"learning_rate": 0.5}),
    "category ap averaged": (pr.CategoryRanking(measure="ap", average=True), {"name": "ap", "average": True}),
    "category max": (pr.CategoryRanking("max"), {"pairs": "max"}),
    "uneven": (pr.UnevenMargins(0.2, margin=0.7), {"learning_rate": 0.2, "margin": 0.7}),
    "predtron ndcg@2": (pr.Predtron("ndcg@2", learning_rate=0.5), {"k": 2, "learning_rate": 0.5}),
    "predtron ap": (pr.Predtron("ap", average=True), {"name": "ap", "average": True}),
    "predtron ndcg": (pr.Predtron("ndcg"), {}),
    "ranknet": (pr.RankNet(0.3), {"learning_rate": 0.3}),
    "ranknet adagrad": (pr.AdaGrad(pr.RankNet(0.3)), {"learning_rate": 0.3, "adagrad": "diagonal"}),
    "ranknet norm": (
        pr.AdaGrad(pr.RankNet(0.3, average=True), steps="norm"),
        {"learning_rate": 0.3, "adagrad": "norm", "average": True},
    ),
    "listnet adagrad": (pr.AdaGrad(pr.OnlineListNet(0.2)), {"learning_rate": 0.2, "adagrad": "diagonal"}),
    "listwise adagrad": (
        pr.AdaGrad(pr.ListwisePerceptron(learning_rate=0.2, transforms=None)),
        {"learning_rate": 0.2, "relative_margin": 1.0, "average": True, "adagrad": "diagonal"},
    ),
    "slam norm": (
        pr.AdaGrad(pr.SlamPerceptron("ap", margin=0.5, learning_rate=0.2), steps="norm"),
        {"name": "ap", "learning_rate": 0.2, "margin": 0.5, "adagrad": "norm"},
    ),
    "ranknet averaged": (pr.RankNet(0.3, average=True), {"learning_rate": 0.3, "average": True}),
    "toppush": (pr.TopPush(0.2), {"name": "ap", "learning_rate": 0.2}),
    "toppush hinge": (pr.TopPush(0.2, loss="hinge"), {"name": "ap", "learning_rate": 0.2, "loss": "hinge"}),
}


@pytest.mark.kernel
@pytest.mark.parametrize("setting", SETTINGS)
@examples(0.5)
@given(seed=st.integers(0, 10**6), longest=st.sampled_from([4, 12, 90]), fractional=st.booleans())
def test_learners_equal_their_definitions(setting, seed, longest, fractional):
    template, options = SETTINGS[setting]
    learner = type(template)(**template.get_params(deep=False))
    rng = np.random.default_rng(seed)
    twin = twins.TwinLearner(learner.name.removeprefix("adagrad:"), 3, **options)
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
    if isinstance(learner, pr.ListwisePerceptron):
        losses = learner.mean_loss, learner.current_loss, learner.used_loss
        np.testing.assert_allclose(losses, (twin.mean_loss, twin.current_loss, twin.used_loss), rtol=1e-9, atol=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize("setting", [name for name in SETTINGS if SETTINGS[name][1].get("adagrad") is None])
@given(seed=st.integers(0, 10**6))
def test_ties_everywhere_are_broken_as_defined(setting, seed):
    """Features and weights are small whole numbers, so that many scores are equal and all of them exact."""
    template, options = SETTINGS[setting]
    learner = type(template)(**template.get_params(deep=False))
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(9, 2)).astype(float)
    relevance = rng.integers(0, 3, size=9)
    twin = twins.TwinLearner(learner.name.removeprefix("adagrad:"), 2, **options)
    twin.learn_one(X, np.zeros(9))
    learner.learn_one(X, np.zeros(9))
    twin.weights = rng.integers(-1, 2, size=2).astype(float)
    learner = at_weights(learner, twin.weights)
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
    ranker = pr.ListwisePerceptron("ap", transforms=None)
    X = np.array([[4.0], [1.0], [0.0]])
    # equal scores: lower grades first, so 0, 2, 1; document 1 goes from place 3 to 1, 0 from 1 to 2, 2 from 2 to 3
    ranker.learn_one(X, [0, 1, 0])
    part = np.log(2) / np.log(3)
    first = 1 - 4 * part
    np.testing.assert_allclose(ranker.weights, [first])
    # margin first^2 = 2.3; scores -6.1, -1.5, 0: document 0 goes from place 3 to 1, 2 from 1 to 2, 1 from 2 to 3
    ranker.learn_one(X, [1, 0, 0])
    second = 4 - (1 - part)
    np.testing.assert_allclose(ranker.weights, [first + second])
    np.testing.assert_allclose(ranker.coef_, [first + second / 2])
    # margin (first^2 + second^2) / 2 = 7.8; scores 8.4, 2.1, 0: only document 1 is too near document 0
    ranker.learn_one(X, [1, 0, 0])
    np.testing.assert_allclose(ranker.weights, [first + second + 4 - 1])


def test_listwise_by_hand_with_three_grades():
    ranker = pr.ListwisePerceptron("ndcg", average=False, transforms=None)
    ranker.learn_one(np.eye(3), [0, 1, 2])  # equal scores: ranked 0, 1, 2
    two, three = np.log(2), np.log(3)
    # grade 2 gains 3 - 1 over 1: 2 goes from place 3 to 1, the others one down. Grade 1 gains 1: 1 to 1, 2 to 2, 0 to 3
    up = np.array([-2 * two - three, 2 * (two - three) + two, 2 * three + (three - two)])
    np.testing.assert_allclose(ranker.weights, up / (2 * three + two + three - two))


def test_listwise_by_hand_with_uniform_violators():
    ranker = pr.ListwisePerceptron("ap", violators="uniform", relative_margin=1.0, average=True, transforms=None)
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


def test_listwise_by_hand_with_ndcg_and_uniform_violators():
    ranker = pr.ListwisePerceptron("ndcg", violators="uniform", relative_margin=0, average=False, transforms=None)
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
        lambda **options: pr.ListwisePerceptron(**options, transforms=None),
        lambda **options: pr.ListwisePerceptron(violators="top", relative_margin=0.5, **options, transforms=None),
        lambda **options: pr.ListwisePerceptron("ap", relative_margin=0, **options, transforms=None),
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


@pytest.mark.kernel
@given(seed=st.integers(0, 10**6), m=st.integers(2, 8), tied=st.booleans())
def test_svm_map_takes_the_worst_of_all_rankings(seed, m, tied):
    """The greedy ranking is as bad as the worst one, and the step is a subgradient of the worst."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, 3)), 0 if tied else 6)
    grades = (rng.random(m) < 0.5).astype(float)
    ranker = pr.SvmMap(learning_rate=0.5)
    ranker.learn_one(X, np.zeros(m))
    start = np.round(rng.normal(size=3), 0 if tied else 6)
    ranker = at_weights(ranker, start)
    updated = ranker.learn_one(X, grades)
    if not 0 < grades.sum() < m:
        assert not updated
        return
    worst, _ = twins.svm_map(X @ start, grades)
    if worst > 1e-9:  # else a ranking may be as bad as none but for rounding: either is right, and the slope decides
        assert updated
    slope = (start - ranker.weights) / 0.5
    for nearby in rng.normal(size=(10, 3)):  # worst(v) >= worst(w) + slope . (v - w) for all v
        assert twins.svm_map(X @ nearby, grades)[0] >= worst + slope @ (nearby - start) - 1e-9


def test_related_systems_by_hand():
    """Two rounds each, on documents (1, 0), (0, 1), (0, 0)."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    category = pr.CategoryRanking()
    category.learn_one(X, [2, 1, 0])  # pairs 0-1, 0-2, 1-2, a third each
    assert category.weights.tolist() == pytest.approx([2 / 3, 0])
    category.learn_one(X, [0, 1, 0])  # document 1 at 0 against 0 at 2/3 and 2 at 0, half each
    assert category.weights.tolist() == pytest.approx([2 / 3 - 1 / 2, 1])
    uneven = pr.UnevenMargins(1.0, margin=1.0)
    uneven.learn_one(X, [2, 1, 0])  # g: 0-1 1/2, 0-2 2/3, 1-2 1/6
    assert uneven.weights.tolist() == pytest.approx([1 / 2 + 2 / 3, 1 / 6 - 1 / 2])
    uneven.learn_one(X, [2, 1, 0])  # scores 7/6, -1/3, 0: only 1-2 is closer than its margin
    assert uneven.weights.tolist() == pytest.approx([7 / 6, -1 / 3 + 1 / 6])
    predtron = pr.Predtron("ndcg")
    predtron.learn_one(X, [1, 0, 0])  # worst order 1, 2, 0; ideal 0, 1, 2
    assert predtron.weights.tolist() == [2, -1]
    predtron.learn_one(X, [0, 1, 0])  # scores 2, -1, 0: order 0, 2, 1; ideal 1, 0, 2
    assert predtron.weights.tolist() == [2 - 1, -1 + 2]
    net = pr.RankNet(1.0)
    net.learn_one(X[:2], [1, 0])
    net.learn_one(X[:2], [1, 0])  # scores 1/2, -1/2
    assert net.weights.tolist() == pytest.approx([1 / 2 + 1 / (1 + np.e), -1 / 2 - 1 / (1 + np.e)])
    push = pr.TopPush(1.0)
    push.learn_one(X, [1, 0, 0])  # hinge 1 against document 1
    assert push.weights.tolist() == [1, -1]
    push.learn_one(X, [0, 1, 0])  # scores 1, -1, 0: hinge 1 + 1 + 1 against document 0
    assert push.weights.tolist() == [1 - 3, -1 + 3]
    gain = pr.StructuredNdcg("ndcg", learning_rate=1.0)
    lost = 1 - 1 / np.log2(3)  # by the wrong order of two documents, and the length of a step
    gain.learn_one([[1.0], [0.0]], [1, 0])
    gain.learn_one([[1.0], [0.0]], [1, 0])  # the wrong order still loses more than its lead, lost^2, is behind
    assert gain.weights.tolist() == pytest.approx([2 * lost])
    gain.learn_one([[3.0], [0.0]], [1, 0])  # 6 lost^2 is more than lost: nothing to learn
    assert gain.weights.tolist() == pytest.approx([2 * lost])
    structured = pr.SvmMap(1.0)
    structured.learn_one(X, [1, 0, 0])  # both irrelevant ones first: 1 - 1/3; psi moves by 2/2 for each pair
    assert structured.weights.tolist() == [2, -1]
    structured.learn_one(X, [1, 0, 0])  # scores 2, -1, 0: every change of order loses more than it gains
    assert structured.weights.tolist() == [2, -1]


@pytest.mark.kernel
@given(n=st.integers(1, 9), cut=st.integers(1, 9), seed=st.integers(0, 10**6), tied=st.booleans())
def test_assignments(n, cut, seed, tied):
    scores, gains = np.random.default_rng(seed).normal(size=(2, n))
    scores, gains = (np.round(scores), np.round(gains)) if tied else (scores, gains)
    discount, places = 1 / np.log2(2 + np.arange(n)), np.empty(n, dtype=np.int64)
    values = discount * (scores[:, None] - np.where(np.arange(n) < cut, gains[:, None], 0.0))
    floats, ints = np.empty((3, n + 2)), np.zeros((3, n + 2), dtype=np.int64)
    total = find_worst_ranking(n, cut, scores, gains, discount, places, floats, ints)
    rows, columns = linear_sum_assignment(values, maximize=True)
    assert total == pytest.approx(values[rows, columns].sum())
    assert sorted(places) == list(range(n))
    assert total == pytest.approx(values[np.arange(n), places].sum())


def structured_ndcg(scores, grades, k):
    """The worst of all rankings, by trying them."""
    m = len(scores)
    discounts = 1 / np.log2(2 + np.arange(m))
    ideal = sorted(range(m), key=lambda i: (-grades[i], -scores[i], i))
    cut = m if k is None else min(k, m)
    gains = 2.0 ** np.asarray(grades) - 1
    best = sum(gains[i] * discounts[p] for p, i in enumerate(ideal[:cut]))
    values = []
    for order in itertools.permutations(range(m)):
        measured = sum(gains[i] * discounts[p] for p, i in enumerate(order[:cut])) / best
        lead = sum(discounts[p] * (scores[i] - scores[ideal[p]]) for p, i in enumerate(order))
        values.append(1 - measured + lead)
    return max(values)


@pytest.mark.kernel
@given(seed=st.integers(0, 10**6), m=st.integers(2, 6), k=st.sampled_from([None, 2, 10]), tied=st.booleans())
def test_structured_ndcg_takes_the_worst_of_all_rankings(seed, m, k, tied):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, 3)), 0 if tied else 6)
    grades = rng.integers(0, 3, size=m).astype(float)
    ranker = pr.StructuredNdcg(f"ndcg@{k}" if k else "ndcg", learning_rate=0.5)
    ranker.learn_one(X, np.zeros(m))
    start = np.round(rng.normal(size=3), 0 if tied else 6)
    ranker = at_weights(ranker, start)
    updated = ranker.learn_one(X, grades)
    if len(set(grades)) < 2:
        assert not updated
        return
    worst = structured_ndcg(X @ start, grades, k)
    if worst > 1e-9:
        assert updated
    slope = (start - ranker.weights) / 0.5
    if len(set(grades)) == m:  # else the ideal ranking changes with the scores, and so does the loss
        for nearby in rng.normal(size=(5, 3)):
            assert structured_ndcg(X @ nearby, grades, k) >= worst + slope @ (nearby - start) - 1e-9
