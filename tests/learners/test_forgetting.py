"""Learners that forget; what every learner must pass is in test_learners.py and test_wrappers.py."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import twins
from support.learners import bits
from support.strategies import examples, streams

import perceptrank as pr
from perceptrank.learners.sparse_rounds import SMALLEST_FACTOR


class FadingTwin:
    """A learner by its definition, with weights that shrink before each update and a mean of iterates that fade."""

    def __init__(self, half_life, algorithm, n_features, **options):
        self.half_life, self.inner = half_life, twins.TwinLearner(algorithm, n_features, **options)
        self.total, self.rounds = 0.0, 0.0

    def learn_one(self, X, relevance):
        before = self.inner.weights
        mass = self.inner.learn_one(X, relevance)
        kept = 0.5 ** (mass / self.half_life)
        self.inner.weights = self.inner.weights - (1 - kept) * before
        self.total, self.rounds = kept * self.total + self.inner.weights, kept * self.rounds + 1
        self.inner.iterates = [self.total / self.rounds]
        return mass


SETTINGS = {
    "listwise": (pr.ListwisePerceptron(transforms=None), {"relative_margin": 1.0, "average": True}),
    "listwise@2": (
        pr.ListwisePerceptron("ndcg@2", violators="uniform", relative_margin=0.3, average=False, transforms=None),
        {"k": 2, "violators": "uniform", "relative_margin": 0.3},
    ),
    "slam": (
        pr.SlamPerceptron("ap", margin=0.5, learning_rate=0.2, average=True),
        {"name": "ap", "margin": 0.5, "learning_rate": 0.2, "average": True},
    ),
    "minimax": (pr.MinimaxPerceptron("ndcg"), {}),
    "ranknet": (pr.RankNet(0.3, average=True), {"learning_rate": 0.3, "average": True}),
}


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("setting", "sparse"),
    [
        # those that no other test compiles are left to deep runs
        pytest.param(one, sparse, marks=pytest.mark.deep if sparse and one == "listwise@2" else ())
        for one in SETTINGS
        for sparse in (False, True)
    ],
)
@given(seed=st.integers(0, 10**6), half_life=st.sampled_from([0.05, 1.0, 20.0]))
def test_fading_is_what_its_definition_says(setting, sparse, seed, half_life):
    template, options = SETTINGS[setting]
    learner = pr.Fading(template, half_life=half_life)
    rng = np.random.default_rng(seed)
    twin = FadingTwin(half_life, template.algorithm, 3, **options)
    for _ in range(8):
        m = rng.integers(1, 8)
        X, relevance = rng.normal(size=(m, 3)), rng.integers(0, 4, size=m)
        mass = twin.learn_one(X, relevance)
        given = pr.SparseFeatures.from_dense(X) if sparse else X
        assert learner.learn_one(given, relevance) == (mass > 0)
        np.testing.assert_allclose(learner.weights, twin.inner.weights, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(learner.coef_, twin.inner.coef(), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(learner.predict(given), X @ twin.inner.coef(), rtol=1e-7, atol=1e-9)


def test_fading_by_hand():
    ranker = pr.Fading(pr.MinimaxPerceptron(average=True), half_life=1)
    ranker.learn_one([[8.0], [0.0]], [1, 0])
    assert (ranker.weights[0], ranker.coef_[0]) == (8.0, 8.0)
    ranker.learn_one([[1.0], [0.0]], [1, 0])  # no mistake: nothing fades, and the mean has two rounds
    assert (ranker.weights[0], ranker.coef_[0]) == (8.0, 8.0)
    ranker.learn_one([[0.0], [1.0]], [1, 0])  # a mistake: half of 8, minus 1; total 16 / 2 + 3, rounds 2 / 2 + 1
    np.testing.assert_allclose((ranker.weights[0], ranker.coef_[0]), (3.0, 11 / 2))
    ranker.learn_one([[0.0], [1.0]], [1, 0])  # 3 / 2 - 1; total 11 / 2 + 1 / 2, rounds 2 / 2 + 1
    np.testing.assert_allclose((ranker.weights[0], ranker.coef_[0]), (0.5, 3.0))
    assert ranker.ranks_with == "mean"


def test_a_query_fades_by_its_weight():
    heavy, light = (pr.Fading(pr.MinimaxPerceptron(average=True), half_life=2) for _ in range(2))
    for ranker, weight in ((heavy, 4.0), (light, 0.5)):
        ranker.learn_one([[8.0], [0.0]], [1, 0])
        ranker.learn_one([[0.0], [1.0]], [1, 0], weight)
    np.testing.assert_allclose(heavy.weights, [8 / 4 - 4])
    np.testing.assert_allclose(heavy.coef_, [(8 / 4 + 4 * -2) / (1 / 4 + 4)])
    np.testing.assert_allclose(light.weights, [8 / 2**0.25 - 0.5])
    before = bits(light)
    light.learn_one([[0.0], [1.0]], [1, 0], 0.0)
    assert bits(light) == before | {"queries": 3}


def test_a_long_half_life_is_no_forgetting():
    stream = pr.drifting(60, n_documents=6, n_features=4)
    plain, fading = pr.ListwisePerceptron(), pr.Fading(pr.ListwisePerceptron(), half_life=1e15)
    values = [one.learn(stream, "ndcg").values("ndcg") for one in (plain, fading)]
    np.testing.assert_array_equal(*values)
    np.testing.assert_allclose(fading.coef_, plain.coef_, rtol=1e-12)


@examples(0.5)
@given(stream=streams(), half_life=st.sampled_from([0.02, 0.3, 5.0]), average=st.booleans(), cut=st.integers(0, 12))
def test_sparse_features_fade_lazily(stream, half_life, average, cut):
    """As dense ones do, with the same bits in one go, query by query and resumed; the table is folded on the way."""
    make = lambda: pr.Fading(  # noqa: E731
        pr.ListwisePerceptron(average=average, transforms=None), half_life=half_life
    )
    dense, whole, single, resumed = (make() for _ in range(4))
    sparse = stream.to_sparse()
    dense.learn(stream, "ndcg")
    trace = whole.learn(sparse, "ndcg")
    np.testing.assert_allclose(whole.weights, dense.weights, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(whole.coef_, dense.coef_, rtol=1e-8, atol=1e-10)
    for query in sparse:
        single.learn_one(query.X, query.relevance)
    if 0 < cut < len(sparse):
        resumed.learn(sparse[:cut])
        resumed = pr.Fading.from_document(json.loads(json.dumps(resumed.as_document())))
        resumed.learn(sparse[cut:])
        assert bits(resumed) == bits(whole)
    assert bits(single) == bits(whole)
    factor = whole.as_document()["state"]["faded"]
    factor = dict(zip(factor["places"], factor["values"], strict=True))[0]
    assert SMALLEST_FACTOR <= factor <= 1
    if trace.n_updates > 60 * half_life / 0.1:
        assert factor > 0.5 ** (0.1 * trace.n_updates / half_life)  # it was folded


@pytest.mark.parametrize("sparse", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_weights_keep_their_signs_and_start_where_they_should(sparse):
    stream = pr.drifting(80, n_documents=5, n_features=4, seed=3)
    learner = pr.Fading(
        pr.ListwisePerceptron(transforms=None, positive=[0], zero=[2], initial_weights=[1.0, 2.0, 0.0, -3.0]),
        half_life=9,
    )
    np.testing.assert_array_equal(learner.predict(np.eye(4)), [1, 2, 0, -3])
    for block in (stream[:40], stream[40:]):
        learner.learn(block.to_sparse() if sparse else block)
        assert learner.weights[0] >= 0
        assert learner.weights[2] == learner.coef_[2] == 0
    assert learner.n_updates > 10


@pytest.mark.parametrize(
    "inner", [pr.OnlineRidge(), pr.PRank(), pr.Perceptron(), pr.AdaGrad(pr.RankNet()), pr.Tournament(), "slam", None]
)
@pytest.mark.parametrize("around", [pr.Fading, pr.Forgetting])
def test_forgetting_needs_a_learner_of_steps(around, inner):
    with pytest.raises(ValueError, match="learner must be"):
        around(inner)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: pr.Fading(pr.RankNet(), half_life=0), "half_life must be from 0.01 to 1e"),
        (lambda: pr.Fading(pr.RankNet(), half_life=True), "half_life must be"),
        (lambda: pr.Forgetting(pr.RankNet(), half_lives=[]), "half_lives must be a list"),
        (lambda: pr.Forgetting(pr.RankNet(), half_lives="30"), "half_lives must be a list"),
        (lambda: pr.Forgetting(pr.RankNet(), half_lives=[30, -1]), r"half_lives must be from .*, got -1"),
        (lambda: pr.Forgetting(pr.RankNet(), lag=0.5), "lag must be a number of at least 1, got 0.5"),
        (lambda: pr.Forgetting(pr.RankNet(), measure="foo"), "foo"),
    ],
)
def test_settings_that_cannot_be(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


def test_there_is_no_certificate_and_no_mixture():
    for ranker in (pr.Fading(pr.ListwisePerceptron()), pr.Forgetting(pr.ListwisePerceptron())):
        with pytest.raises(ValueError, match="has no theorem of this kind"):
            ranker.guarantee(radius=1.0, margin=1.0)
        with pytest.raises(TypeError, match="cannot be mixed"):
            pr.distributed.mix(ranker, [])


def test_damaged_files_are_refused():
    ranker, stream = pr.Fading(pr.RankNet()), pr.drifting(5)
    ranker.learn(stream.with_features(stream.X.astype(float)).to_sparse())
    for faded in ({"places": [0], "values": [-1.0]}, {"places": [0], "values": [2.0]}, {"places": [], "values": []}):
        document = json.loads(json.dumps(ranker.as_document()))
        document["state"]["faded"] = faded
        with pytest.raises(ValueError, match="faded must be a factor"):
            pr.Fading.from_document(document)


# Forgetting


@pytest.mark.kernel
@pytest.mark.parametrize("inner", [pr.ListwisePerceptron(), pr.SlamPerceptron("ap", average=True)])
@given(stream=streams(), lag=st.sampled_from([1.0, 2.0]), weighted=st.booleans(), seed=st.integers(0, 999))
def test_forgetting_is_what_its_definition_says(inner, stream, lag, weighted, seed):
    """Copies apart, each with transforms of its own; the one that is ahead, nobody more than the lag behind, ranks."""
    if weighted:
        stream = stream.with_query_weights(np.random.default_rng(seed).choice([0.0, 1.0, 3.0], size=len(stream)))
    weights = np.ones(len(stream)) if stream.query_weights is None else stream.query_weights
    learner = pr.Forgetting(inner, half_lives=[0.5, 4], lag=lag)
    trace = learner.learn(stream, inner.measure)
    copies = [type(inner)(**inner.get_params()), pr.Fading(inner, half_life=0.5), pr.Fading(inner, half_life=4)]
    values = np.array([one.learn(stream, inner.measure).values(inner.measure) for one in copies])
    sums, largest, leader = np.zeros(3), 0.0, 0
    for q in range(len(stream)):
        leader = int(np.argmax(sums))
        np.testing.assert_allclose(trace.values(inner.measure)[q], values[leader, q])
        if largest == 0:
            sums = -lag * weights[q] * np.array([0, 1, 1])
        largest = max(largest, weights[q])
        sums = sums + weights[q] * np.nan_to_num(values[:, q])
        sums = np.maximum(sums - sums.max(), -lag * largest)
    assert [one.n_queries for one in learner.members] == [len(stream)] * 3
    np.testing.assert_allclose(learner.coef_, copies[int(np.argmax(sums))].coef_, rtol=1e-12, atol=1e-12)


def test_transforms_are_applied_once_unless_settings_are_about_features():
    stream = pr.drifting(30, n_documents=5, n_features=3)
    shared = pr.Forgetting(pr.ListwisePerceptron())
    shared.learn(stream)
    assert shared.model.transforms
    assert not any(one.model.transforms for one in shared.members)
    apart = pr.Forgetting(pr.ListwisePerceptron(positive=[0]))
    apart.learn(stream)
    assert not apart.model.transforms
    assert all((one.weights[[0, 3]] >= 0).all() for one in apart.members)
    assert len(shared.transforms_) == len(apart.transforms_) == 1
    np.testing.assert_array_equal(
        shared.predict(stream[:3].X),
        shared.leader.predict(shared.transforms_[0].apply(stream[:3].X, np.array([0, len(stream[:3].X)]))),
    )


def test_settings_of_the_learner_inside_take_effect_at_once():
    learner = pr.Forgetting(pr.RankNet(0.1), half_lives=[5])
    learner.learn(pr.drifting(5))
    learner.set_params(learner__learning_rate=0.3, lag=5.0)
    assert [getattr(one, "learner", one).learning_rate for one in learner.members] == [0.3, 0.3]
    with pytest.raises(ValueError, match="half_lives cannot be changed"):
        learner.set_params(half_lives=[6])


def test_it_is_ahead_where_targets_move_and_not_behind_where_they_stay():
    found = {}
    for kind in ("none", "abrupt", "rotating"):
        stream = pr.drifting(3000, drift=kind, period=1000, n_documents=10, n_features=10, seed=5)
        learners = pr.ListwisePerceptron(), pr.Forgetting(pr.ListwisePerceptron())
        found[kind] = [one.learn(stream, "ndcg@10").mean("ndcg@10") for one in learners]
    assert found["abrupt"][1] > found["abrupt"][0] + 0.03
    assert found["rotating"][1] > found["rotating"][0] + 0.03
    assert found["none"][1] > found["none"][0] - 0.002


def test_it_is_explained_by_its_leader():
    ranker = pr.Forgetting(pr.ListwisePerceptron())
    ranker.learn(pr.drifting(300, period=100))
    said = str(pr.deploy.explain(ranker))
    assert "Copies that forget" in said
    assert "half-life 30" in said
