"""Learners that start from given weights, and rankers that stay as they are."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from support.strategies import streams

import perceptrank as pr

NAMES = ("title", "price", "stock")
KINDS = [kind for kind in pr.algorithms().values() if kind.accepts_sparse]  # that step by `close_query`


def named_stream(n_queries=30, seed=0, names=NAMES, sparse=False):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_queries * 6, len(names))), rng.integers(3, size=n_queries * 6)
    stream = pr.QueryStream.from_arrays(X, y, group=[6] * n_queries, feature_names=names)
    return stream.to_sparse() if sparse else stream


def learned_pairs(stream, first, rate=1.0, project=lambda w: w):
    """Category ranking's iterates from its definition: w_1, w_2, …, with every step followed by a projection."""
    weights = [np.array(first, dtype=float)]
    for query in stream:
        w, X, R = weights[-1], np.asarray(query.X, dtype=float), query.relevance
        s = X @ w
        pairs = [(i, j) for i in range(len(R)) for j in range(len(R)) if R[i] > R[j] and s[i] <= s[j]]
        step = np.mean([X[i] - X[j] for i, j in pairs], axis=0) if pairs else np.zeros(len(w))
        weights.append(project(w + rate * step))
    return np.array(weights)


@pytest.mark.parametrize("sparse", [False, True])
def test_iterates_and_their_mean_are_those_of_the_definition(sparse):
    stream, first = named_stream(), [2.0, -1.0, 0.5]
    iterates = learned_pairs(stream, first, rate=0.5)
    given_stream = named_stream(sparse=sparse)
    for average in (False, True):
        learner = pr.CategoryRanking(learning_rate=0.5, average=average, initial_weights=first)
        learner.learn(given_stream)
        expected = iterates[1:].mean(axis=0) if average else iterates[-1]
        np.testing.assert_allclose(learner.weights, iterates[-1], rtol=1e-10)
        np.testing.assert_allclose(learner.coef_, expected, rtol=1e-9)
        np.testing.assert_allclose(learner.predict(stream), stream.X @ expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_query_is_ranked_by_the_initial_weights(kind, sparse):
    stream, by_name = named_stream(1, sparse=sparse), {"stock": 2.0, "title": 1.0}
    learner = kind(initial_weights=by_name)
    expected = named_stream(1).X @ [1.0, 0.0, 2.0]
    np.testing.assert_allclose(learner.predict(stream), expected)  # before anything was learned
    assert not learner.model.has_begun
    assert learner.learn(stream, "ndcg").mean("ndcg") == pr.FixedRanker(by_name).learn(stream, "ndcg").mean("ndcg")


def test_names_columns_and_vectors_are_the_same_start():
    stream, models = named_stream(), []
    for given_weights in ({"price": 3.0}, {1: 3.0}, [0, 3, 0], np.array([0.0, 3.0, 0.0]), {"price": np.float32(3)}):
        learner = pr.ListwisePerceptron(initial_weights=given_weights, transforms=None)
        learner.learn(stream)
        models.append(learner.weights.tolist())
    assert models[1:] == models[:-1]


def test_a_block_and_its_queries_one_by_one_agree_to_the_bit():
    stream = named_stream()
    whole, one_by_one = (pr.ListwisePerceptron(initial_weights=[1.0, 2.0, 3.0], transforms=None) for _ in range(2))
    whole.learn(stream)
    for query in stream:
        one_by_one.learn_one(query.X, query.relevance)
    assert whole.weights.tobytes() == one_by_one.weights.tobytes()
    assert whole.coef_.tobytes() == one_by_one.coef_.tobytes()


def test_zeros_are_the_usual_start():
    stream = named_stream()
    usual = pr.ListwisePerceptron(transforms=None)
    zeros = pr.ListwisePerceptron(transforms=None, initial_weights=[0.0, 0.0, 0.0])
    usual.learn(stream), zeros.learn(stream)
    assert usual.coef_.tobytes() == zeros.coef_.tobytes()


def test_auto_with_weights_by_feature_leaves_features_as_they_are():
    assert pr.ListwisePerceptron(initial_weights={"title": 1.0}).transforms_ == []
    assert len(pr.ListwisePerceptron(initial_weights=[1.0]).transforms_) == 1
    learner = pr.ListwisePerceptron().set_params(initial_weights={"title": 1.0})
    assert learner.transforms_ == []
    assert pr.AdaGrad(learner).transforms_ == []


def test_weights_by_feature_become_those_of_standardized_features():
    """Frozen standardizers divide by fixed spreads: scores are those of raw features, up to a constant."""
    stream, weights = named_stream(seed=4), {"title": 2.0, "stock": -1.0}
    raw = pr.FixedRanker(weights).predict(stream)
    for standardizer in (pr.RunningStandardizer, pr.RunningSpread):
        transforms = [pr.Missing("zero"), standardizer().learn(stream).freeze()]
        for learner in (
            pr.FixedRanker(weights, transforms=transforms),
            pr.SlamPerceptron(initial_weights=weights, transforms=transforms),
            pr.SlamPerceptron(initial_weights=weights, transforms=pr.Chain(*transforms)),
        ):
            difference = learner.predict(stream) - raw
            np.testing.assert_allclose(difference, difference[0], atol=1e-12)


@pytest.mark.parametrize("transforms", ["running", "query-zscore", "clip", "query-zscore+query-normal", "bins"])
def test_weights_by_feature_are_refused_where_they_mean_nothing(transforms):
    learner = pr.ListwisePerceptron(initial_weights={"title": 1.0}, transforms=transforms)
    with pytest.raises(ValueError, match=r"weights of features as they are, which .* does not multiply by fixed"):
        learner.learn(named_stream())
    assert not learner.model.has_begun


def test_a_constant_feature_cannot_have_a_weight_after_it_is_standardized():
    X = np.column_stack([np.arange(6.0), np.ones(6)])
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2, 0, 1, 2], feature_names=["a", "b"])
    transforms = pr.RunningStandardizer().learn(stream).freeze()
    pr.FixedRanker({"a": 1.0}, transforms=transforms).predict(stream)
    with pytest.raises(ValueError, match=r"initial_weights of 'b' must be 0, since .* makes it constant, got 2.0"):
        pr.FixedRanker({"b": 2.0}, transforms=transforms).predict(stream)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("title", "must be a mapping from features to weights, or a vector"),
        (3.0, "must be a mapping"),
        ([["a"]], "must be a mapping"),
        ([1.0, np.nan], "must be finite at 1, got nan"),
        ({"title": np.inf}, "of 'title' must be a finite number, got inf"),
        ({"title": "1"}, "of 'title' must be a finite number, got '1'"),
        ({"title": True}, "of 'title' must be a finite number, got True"),
        ({-1: 1.0}, "must name features, or columns by numbers >= 0, got -1"),
        ({None: 1.0}, "must name features"),
    ],
)
def test_what_is_no_start(wrong, message):
    with pytest.raises(ValueError, match=f"initial_weights {message}"):
        pr.ListwisePerceptron(initial_weights=wrong)
    with pytest.raises(ValueError, match=f"initial_weights {message}"):
        pr.FixedRanker(wrong)


@pytest.mark.parametrize("kind", [pr.ListwisePerceptron, pr.FixedRanker])
def test_a_start_that_does_not_fit_the_data(kind):
    stream = named_stream()
    nameless = pr.QueryStream.from_arrays(stream.X, stream.relevance, group=[6] * 30)
    for weights, data, message in (
        ({"colour": 1.0}, stream, "unknown features 'colour'; the data has 3: 'title', 'price', 'stock'"),
        ({7: 1.0}, nameless, "unknown features 7; the data has 3$"),
        ({"title": 1.0}, nameless, "the features have no names, got 'title'"),
        ({"title": 1.0, 0: 2.0}, stream, "must not have a feature twice, by name and by column, got {'title': 1.0"),
    ):
        learner = kind(initial_weights=weights)
        for use in (learner.learn, learner.predict):
            with pytest.raises(ValueError, match=message):
                use(data)
        assert not learner.model.has_begun
    with pytest.raises(ValueError, match="must have one entry for each of 3 features, got"):
        kind(initial_weights=[1.0, 2.0], transforms=None).learn(stream)
    with pytest.raises(ValueError, match="one entry for each of 6 features, as the transforms make of 3"):
        kind(initial_weights=[1.0, 2.0, 3.0], transforms="query-zscore+query-rank").learn(stream)


@pytest.mark.parametrize("weights", [{"title": 1.5, "stock": -2.0}, {0: 1.5, 2: -2.0}, [1.5, 0.0, -2.0]])
@pytest.mark.parametrize("sparse", [False, True])
def test_models_are_restored(weights, sparse, tmp_path):
    first, second = named_stream(20, 1, sparse=sparse), named_stream(20, 2, sparse=sparse)
    learner = pr.ListwisePerceptron(initial_weights=weights, transforms=None)
    for n in range(2):  # before anything is learned, and after
        learner.save(tmp_path / "model.json")
        others = [pr.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)]
        learner.learn((first, second)[n])
        for other in others:
            other.learn((first, second)[n])
            assert other.coef_.tobytes() == learner.coef_.tobytes()
            assert other.get_params()["initial_weights"] == weights
            assert other.guarantee(diameter=2.0, margin=0.1) == learner.guarantee(diameter=2.0, margin=0.1)


def test_scikit_learn_clones_it():
    weights = np.array([1.0, 2.0, 3.0])
    learner = pr.ListwisePerceptron(initial_weights=weights, positive=["title"])
    cloned = clone(learner)
    np.testing.assert_array_equal(cloned.initial_weights, weights)
    assert cloned.positive == ["title"]
    assert pr.AdaGrad(learner).set_params(learner__learning_rate=0.5).learner.initial_weights is weights


def test_later_changes_of_a_vector_change_nothing():
    weights = np.array([1.0, 2.0, 3.0])
    learner = pr.SlamPerceptron(initial_weights=weights)
    weights[:] = 9.0
    np.testing.assert_array_equal(learner.predict(np.eye(3)), [1.0, 2.0, 3.0])


def test_wrappers_and_ensembles_start_where_their_learners_do():
    stream, weights = named_stream(), {"title": 100.0}
    expected = stream.X @ [100.0, 0.0, 0.0]
    learner = pr.SlamPerceptron(initial_weights=weights)
    for made in (pr.AdaGrad(learner), pr.Bagging(learner, n_members=3), pr.Tournament([learner, pr.RankNet()])):
        np.testing.assert_allclose(made.predict(stream), expected)
        made.learn(stream)
        assert made.weights[0] > 90
        assert copy.deepcopy(made).weights.tobytes() == made.weights.tobytes()
    for made in (pr.Bagging(learner), pr.Tournament([learner])):
        with pytest.raises(ValueError, match="the features have no names, got 'title'"):
            made.set_params(transforms="query-zscore").learn(stream)


def test_others_refuse():
    assert len(KINDS) == 11
    for kind in pr.algorithms().values():
        if kind not in KINDS:
            with pytest.raises(TypeError, match="initial_weights"):
                kind(initial_weights=[1.0])


# Rankers that stay as they are


@given(stream=streams(max_features=3), vector=st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_a_fixed_ranker_ranks_and_records_and_stays(stream, vector):
    ranker = pr.FixedRanker(vector[: stream.n_features])
    expected = stream.X @ np.array(vector[: stream.n_features])
    np.testing.assert_allclose(ranker.predict(stream), expected, atol=1e-12)
    trace = ranker.learn(stream, ["ndcg@3", "ap"])
    np.testing.assert_array_equal(
        trace.values("ap"), pr.AP().per_query(ranker.predict(stream), stream.relevance, stream.offsets)
    )
    assert not trace.masses.any()
    assert not ranker.learn_one(stream[0].X, stream[0].relevance)
    np.testing.assert_array_equal(ranker.weights, vector[: stream.n_features])
    assert (ranker.n_queries, ranker.n_updates) == (len(stream) + 1, 0)


def test_a_fixed_ranker_is_a_baseline_and_a_member():
    stream = named_stream(60)
    now = pr.FixedRanker({"title": 1.0})
    result = pr.compare({"now": now, "new": pr.ListwisePerceptron()}, stream, "ndcg@10")
    alone = now.learn(stream, "ndcg@10")
    np.testing.assert_array_equal(result.traces["now"].values("ndcg@10"), alone.values("ndcg@10"))
    assert pr.evaluate(pr.FixedRanker({"title": 1.0}), stream, "ndcg@10").mean("ndcg@10") == alone.mean("ndcg@10")
    tournament = pr.Tournament([pr.FixedRanker({"title": 1.0}), pr.ListwisePerceptron(transforms=None)])
    tournament.learn(stream)
    assert tournament.members[0].weights.tolist() == [1.0, 0.0, 0.0]
    pr.Sum([now, pr.RankNet()]).learn(stream)
    with pytest.raises(ValueError, match="no theorem"):
        now.guarantee(diameter=1.0, margin=1.0)


def test_a_fixed_ranker_finds_features_in_any_order(tmp_path):
    ranker = pr.FixedRanker({"stock": 2.0, "title": 1.0})
    ranker.save(tmp_path / "now.json")
    loaded = pr.load(tmp_path / "now.json")
    X = np.random.default_rng(0).normal(size=(5, 4))
    for names in (("a", "title", "b", "stock"), ("stock", "title", "a", "b")):
        stream = pr.QueryStream.from_arrays(X, np.zeros(5), feature_names=names)
        expected = 2 * X[:, names.index("stock")] + X[:, names.index("title")]
        np.testing.assert_allclose(loaded.predict(stream), expected)
    assert "fixed" not in pr.algorithms()


def test_a_fixed_ranker_learns_no_statistics_either():
    for unknown in ("running", "missing", "query-zscore+running", ["clip", pr.Bins()]):
        with pytest.raises(ValueError, match="transforms must have learned already"):
            pr.FixedRanker([1.0], transforms=unknown)
    stream = named_stream()
    known = pr.RunningStandardizer().learn(stream)
    ranker = pr.FixedRanker([1.0, 2.0, 3.0], transforms=known)
    before = ranker.predict(stream)
    ranker.learn(stream)
    assert ranker.predict(stream).tobytes() == before.tobytes()


def test_a_fixed_ranker_notices_bad_values():
    ranker = pr.FixedRanker([1.0, 2.0])
    with pytest.raises(ValueError, match="weights, or a vector, got None"):
        pr.FixedRanker()
    for X, grades, message in (
        ([[np.nan, 1.0]], [1], "must be finite"),
        ([[1.0, 1.0]], [-1], "-1"),
        ([[1.0, 1.0]], [np.nan], "nan"),
    ):
        with pytest.raises(ValueError, match=message):
            ranker.learn_one(X, grades)
    assert ranker.n_queries == 0


# Weights that are read


@pytest.mark.parametrize(
    "make",
    [
        pr.ListwisePerceptron,
        pr.OnlineRidge,
        pr.CommitteePerceptron,
        lambda: pr.AdaGrad(pr.RankNet()),
        lambda: pr.Bagging(pr.RankNet(), n_members=2),
        lambda: pr.Sum([pr.RankNet()]),
        lambda: pr.Tournament([pr.RankNet()]),
    ],
)
def test_weights_refuse_assignment(make):
    learner = make()
    learner.learn(named_stream(), "ndcg")
    for vector in (learner.weights, learner.coef_):
        with pytest.raises(ValueError, match="read-only"):
            vector[0] = 1.0
