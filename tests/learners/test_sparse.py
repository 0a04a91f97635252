"""Learning from sparse features: against dense ones, and against a twin in the documented order of operations."""

import json
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support import twins
from support.strategies import EITHER_PRECISION

import perceptrank as pr

pytestmark = pytest.mark.kernel

SPARSE = sorted(name for name, kind in pr.algorithms().items() if kind.accepts_sparse)
DENSE = sorted(
    name for name, kind in pr.algorithms().items() if not kind.accepts_sparse and name not in ("sum", "tournament")
)


def make_stream(seed=0, n_queries=25, n_features=30, dtype=np.float64, density=0.3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_queries)
    shape = sizes.sum(), n_features
    X = rng.normal(size=shape) * (rng.random(shape) < density)
    relevance = np.floor(np.clip(X @ rng.normal(size=n_features) + 1, 0, 2))
    return pr.QueryStream.from_arrays(X.astype(dtype), relevance, group=sizes)


def make(name, **settings):
    kind = pr.algorithms()[name]
    if "transforms" in kind.parameter_names:
        settings.setdefault("transforms", None)
    return kind(**settings)


def assert_agree(sparse, dense, stream):
    one, other = sparse.learn(stream.to_sparse()), dense.learn(stream)
    for measure in one.measures:
        np.testing.assert_allclose(one.values(measure), other.values(measure), rtol=1e-9)
    np.testing.assert_allclose(one.masses, other.masses, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-8, atol=1e-10)
    assert (sparse.n_rounds, sparse.n_updates, sparse.n_queries) == (dense.n_rounds, dense.n_updates, dense.n_queries)
    np.testing.assert_allclose(sparse.predict(stream.to_sparse()), dense.predict(stream), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(sparse.predict(stream), dense.predict(stream), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("average", [False, True])
def test_sparse_and_dense_features_agree(name, average):
    given = {"average": average} if "average" in pr.algorithms()[name].parameter_names else {}
    assert_agree(make(name, **given), make(name, **given), make_stream())


@pytest.mark.parametrize("name", DENSE)
def test_others_refuse_sparse_features_and_say_what_to_do(name):
    learner = make(name)
    with pytest.raises(TypeError, match=rf"{name} learns from dense features only.*to_dense\(\)"):
        learner.learn(make_stream().to_sparse())
    assert learner.n_queries == 0
    learner.learn(make_stream())
    dense = learner.predict(make_stream())
    np.testing.assert_array_equal(learner.predict(make_stream().to_sparse()), dense)


WRAPPERS = {
    "adagrad": lambda: pr.AdaGrad(pr.ListwisePerceptron(transforms=None)),
    "adagrad norm": lambda: pr.AdaGrad(pr.OnlineListNet(0.1, average=True), steps="norm"),
    "bagging": lambda: pr.Bagging(pr.ListwisePerceptron(relative_margin=0.3, transforms=None), n_members=3),
    "bagging of adagrad": lambda: pr.Bagging(pr.AdaGrad(pr.OnlineListNet(0.1)), n_members=2),
    "bagging of a tournament": lambda: pr.Bagging(
        pr.Tournament([pr.RankNet(), pr.AdaGrad(pr.OnlineListNet(0.1), steps="norm")]), n_members=2
    ),
    "sum": lambda: pr.Sum([pr.ListwisePerceptron(transforms=None), pr.SlamPerceptron()]),
    "tournament": lambda: pr.Tournament([pr.ListwisePerceptron(transforms=None), pr.RankNet()]),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_agree(name):
    stream = make_stream(3)
    sparse, dense = WRAPPERS[name](), WRAPPERS[name]()
    one, other = sparse.learn(stream.to_sparse(), "ndcg"), dense.learn(stream, "ndcg")
    np.testing.assert_allclose(one.values("ndcg"), other.values("ndcg"), rtol=1e-9)
    np.testing.assert_allclose(sparse.predict(stream.to_sparse()), dense.predict(stream), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-7, atol=1e-9)


def two_phases(n=60):
    """A stream whose second half contradicts the first, so that the mean of the iterates is not safe to rank with."""
    X, grades = np.tile([[1.0, 0.0], [0.0, 1.0]], (2 * n, 1)), np.repeat([[1, 0], [0, 1]], n, axis=0).ravel()
    return pr.QueryStream.from_arrays(X, grades, group=np.full(2 * n, 2))


@pytest.mark.parametrize("wrap", [lambda one: one, pr.AdaGrad, lambda one: pr.Bagging(one, n_members=1, seed=3)])
def test_sparse_features_are_ranked_with_the_weights_that_safe_averaging_chooses(wrap):
    stream = two_phases()
    learner = wrap(pr.ListwisePerceptron(transforms=None, average=True))
    learner.learn(stream.to_sparse())
    assert (learner.weights == learner.coef_).all()
    np.testing.assert_allclose(learner.predict(stream.to_sparse()), stream.X @ learner.coef_)


def test_an_ensemble_names_the_member_that_needs_dense_features():
    with pytest.raises(TypeError, match="learns from dense features only"):
        pr.Tournament().learn(make_stream().to_sparse())


# The twin


def in_four(terms):
    """The sum of terms in the documented order."""
    sums = [0.0] * 4
    for k, term in enumerate(terms):
        sums[k % 4] += term
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


class Twin:
    """Averaged updates of sparse weights, feature by feature, as `sparse_rounds` documents them."""

    def __init__(self):
        self.weights, self.lags, self.rounds, self.lengths = {}, {}, 0, []

    def scores(self, rows, averaged):
        current = [in_four([v * self.weights.get(j, 0.0) for j, v in row]) for row in rows]
        lags = [in_four([v * self.lags.get(j, 0.0) for j, v in row]) for row in rows]
        share = 1.0 / self.rounds if averaged and self.rounds else 0.0
        return np.array([score - lag * share for score, lag in zip(current, lags, strict=True)])

    def close(self, rows, coefficients, rate):
        step = {}
        for row, coefficient in zip(rows, coefficients, strict=True):
            if coefficient != 0.0:
                for j, v in row:
                    change = rate * coefficient * v
                    self.weights[j] = self.weights.get(j, 0.0) - change
                    self.lags[j] = self.lags.get(j, 0.0) - self.rounds * change
                    step[j] = step.get(j, 0.0) + coefficient * v
        self.rounds += 1
        self.lengths.append(sum(s * s for s in step.values()))


def rows_of(X):
    features = pr.SparseFeatures.from_dense(X)
    return [
        [(int(j), float(v)) for j, v in zip(row.to_scipy().indices, row.to_scipy().data, strict=True)]
        for row in (features[i : i + 1] for i in range(len(features)))
    ]


@given(st.integers(0, 2**32 - 1), st.sampled_from(EITHER_PRECISION), st.booleans())
def test_weights_are_those_of_the_documented_order_bit_for_bit(seed, dtype, average):
    stream = make_stream(seed, 12, 9, dtype, 0.5)
    learner = pr.MinimaxPerceptron("ndcg", average=average, learning_rate=0.7)
    twin = Twin()
    for query in stream.to_sparse():
        rows = rows_of(query.X.toarray())
        np.testing.assert_array_equal(learner.predict(query.X), twin.scores(rows, average))
        current, coefficients = twin.scores(rows, averaged=False), np.zeros(len(rows))
        if twins.is_mistake(current, query.relevance, "ndcg", None):
            _, i, j = twins.widest_pair(current, query.relevance)
            coefficients[[i, j]] = -1.0, 1.0
        learner.learn_one(query.X, query.relevance)
        twin.close(rows, coefficients, 0.7)
        assert learner.weights.tolist() == [twin.weights.get(j, 0.0) for j in range(9)]
    assert learner.certificate(margin=1.0).squared_steps == pytest.approx(sum(twin.lengths), rel=1e-9, abs=1e-12)


def test_an_adapted_step_counts_a_feature_once_whose_sum_came_back_to_zero():
    X = np.array([[1.0, 2.0], [1.0, 0.0], [0.0, 5.0]])
    dense, sparse = (pr.AdaGrad(pr.RankNet(0.5)) for _ in range(2))
    for _ in range(3):
        dense.learn_one(X, [2, 1, 0])
        sparse.learn_one(sp.csr_array(X), [2, 1, 0])
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-12)


def in_common(rng):
    """Documents that have much in common, such as a date."""
    X = rng.normal(size=(60, 4))
    X[:, 0] += 1e9
    return X


def huge_first(rng):
    """Weights that are much larger than later steps."""
    X = rng.normal(size=(60, 4))
    X[:10, :2] *= 1e9
    return X


@pytest.mark.parametrize("make_rows", [in_common, huge_first])
@pytest.mark.parametrize("rate", [1.0, 1e-180])
def test_lengths_of_steps_are_right_where_most_of_a_sum_cancels(make_rows, rate):
    rng = np.random.default_rng(8)
    X, grades = make_rows(rng), rng.integers(0, 3, 60)
    stream = pr.QueryStream.from_arrays(X, grades, group=[5] * 12)
    sparse, dense = (pr.MinimaxPerceptron("ndcg", learning_rate=rate, average=False) for _ in range(2))
    for query in stream:
        sparse.learn_one(sp.csr_array(query.X), query.relevance)
        dense.learn_one(query.X, query.relevance)
        np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-5, atol=1e-6 * rate)
        found, expected = (one.certificate(margin=1.0) for one in (sparse, dense))
        assert found.squared_steps == pytest.approx(expected.squared_steps, rel=1e-6)
    assert found.reach == pytest.approx(expected.reach, rel=1e-6)


# The state


def test_blocks_single_queries_and_a_saved_model_make_no_difference(tmp_path):
    stream = make_stream(5).to_sparse()
    whole, cut, single, saved = (pr.ListwisePerceptron(transforms="running") for _ in range(4))
    whole.learn(stream)
    cut.learn(list(stream.blocks(100)))
    for query in stream:
        single.learn_one(query.X, query.relevance)
    saved.learn(stream[:9])
    saved.save(tmp_path / "model.json")
    resumed = pr.load(tmp_path / "model.json")
    assert resumed.as_document() == saved.as_document()
    resumed.learn(stream[9:])
    for one in (cut, single, resumed):
        np.testing.assert_array_equal(one.weights, whole.weights)
        np.testing.assert_array_equal(one.coef_, whole.coef_)
        np.testing.assert_array_equal(one.predict(stream), whole.predict(stream))
    assert pickled(whole).predict(stream).tolist() == whole.predict(stream).tolist()


def pickled(learner):
    return pickle.loads(pickle.dumps(learner))


@pytest.mark.parametrize("learner", [pr.ListwisePerceptron(transforms=None), pr.AdaGrad(pr.RankNet())])
def test_a_model_file_holds_the_non_zeros(tmp_path, learner):
    X = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 10**6 - 1, 5])), shape=(3, 10**6))
    learner = pickled(learner)
    learner.learn_one(X, [0, 1, 2])
    learner.save(tmp_path / "model.json")
    assert (tmp_path / "model.json").stat().st_size < 3000
    loaded = pr.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))
    assert loaded.n_features_in_ == 10**6


def change(document, path, value):
    *parts, last = path
    for part in parts:
        document = document[part]
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("state", "features"), 0, "features must be from 1"),
        (("state", "features"), 2**31, "features must be from 1"),
        (("state", "features"), 2, "4 features are transformed to 4, got 2 weights"),
        (("state", "weights", "places"), [0, 1.5, 2, 3], "places of weights"),
        (("state", "weights", "places"), [3, 2, 1, 0], "places of weights"),
        (("state", "lags", "values"), [1.0], "must be"),
        (("features",), 7, "7 features are transformed to 7, got 4 weights"),
        (("transforms", 0, "seen"), [0, 1, 9, 10], "seen must be whole numbers that increase"),
        (("transforms", 0, "counts"), [-1, 1, 1, 1], "counts must be from 1 to count"),
        (("transforms", 0, "count"), 0, "count"),
    ],
)
def test_damaged_model_files(tmp_path, path, value, message):
    learner = pr.MinimaxPerceptron(transforms="running")
    learner.learn_one(sp.csr_array([[1.0, 0, 0, 2], [0, 3, 1, 0]]), [0, 1])
    learner.learn_one(sp.csr_array([[0, 1.0, 0, 2], [1, 0, 1, 0]]), [0, 1])
    learner.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    change(document, path, value)
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(pr.FormatError, match=message):
        pr.load(tmp_path / "model.json")


def test_sparse_and_dense_blocks_can_be_mixed():
    stream = make_stream(6)
    reference, sparse_first, dense_first = (pr.ListwisePerceptron(transforms=None) for _ in range(3))
    reference.learn(stream)
    sparse_first.learn([stream[:9].to_sparse(), stream[9:]])
    dense_first.learn([stream[:9], stream[9:].to_sparse()])
    np.testing.assert_array_equal(dense_first.coef_, reference.coef_)
    np.testing.assert_allclose(sparse_first.coef_, reference.coef_, rtol=1e-8)


def test_nothing_is_lost_by_bad_input():
    learner = pr.ListwisePerceptron(transforms=None)
    X = sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    learner.learn_one(X, [0, 1])
    before = learner.as_document()
    with pytest.raises(ValueError, match="got NaN at document 1, feature 1"):
        learner.learn_one(sp.csr_array([[1.0, 0.0, 2.0], [0.0, np.nan, 0.0]]), [0, 1])
    with pytest.raises(ValueError, match="has 4 features, but ListwisePerceptron is expecting 3"):
        learner.learn_one(sp.csr_array((2, 4)), [0, 1])
    with pytest.raises(ValueError, match="overflow"):
        learner.learn_one(X * 1e200, [1, 0])
    with pytest.raises(ValueError, match="duplicated in row 0"):
        learner.learn_one(sp.csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 3)), [1])
    with pytest.raises(ValueError, match="got infinity at document 0, feature 2"):
        learner.predict(sp.csr_array([[1.0, 0.0, np.inf]]))
    assert learner.as_document() == before


def test_empty_rows_one_document_and_equal_grades():
    learner = pr.ListwisePerceptron(transforms="auto")
    for X, relevance in [
        (sp.csr_array((1, 5)), [1]),
        (sp.csr_array((3, 5)), [0, 1, 2]),
        (sp.csr_array(np.eye(3, 5)), [1, 1, 1]),
        (sp.csr_array(np.ones((2, 5))), [0, 1]),
    ]:
        learner.learn_one(X, relevance)
    assert learner.n_queries == 4
    np.testing.assert_array_equal(learner.predict(sp.csr_array((2, 5))), [0.0, 0.0])
    assert pr.ListwisePerceptron().predict(sp.csr_array(np.eye(2))).tolist() == [0.0, 0.0]


def test_more_features_than_memory_holds():
    learner = pr.ListwisePerceptron(transforms=None)
    with pytest.raises(MemoryError, match="weights of 2000000000 features"):
        learner.learn_one(sp.csr_array((2, 2 * 10**9)), [0, 1])
    assert learner.n_queries == 0


def test_spreads_are_warned_of():
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) * (rng.random((60, 3)) < 0.5) * [1.0, 1e6, 1.0]
    X[:, 2] = 0.0
    X[0, 2] = 1e-9  # one value says little about the scale of a feature
    with pytest.warns(UserWarning, match="differ in spread"):
        pr.SlamPerceptron().learn(pr.QueryStream.from_arrays(sp.csr_array(X), np.arange(60) % 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.SlamPerceptron(transforms="running").learn(pr.QueryStream.from_arrays(sp.csr_array(X), np.arange(60) % 3))
        X[:, 1] /= 1e6
        pr.SlamPerceptron().learn(pr.QueryStream.from_arrays(sp.csr_array(X), np.arange(60) % 3))


# Everything that takes a stream


def test_compare_evaluate_fit_and_score():
    stream = make_stream(8)
    sparse = stream.to_sparse()
    learners = {"listwise": pr.ListwisePerceptron(transforms=None), "slam": pr.SlamPerceptron()}
    expected = {name: pickled(learner).learn(stream, "ndcg@5") for name, learner in learners.items()}
    compared = pr.compare(learners, sparse, "ndcg@5")
    for name, trace in expected.items():
        np.testing.assert_allclose(compared.traces[name].values("ndcg@5"), trace.values("ndcg@5"))
    X, qid = sparse.X.to_scipy(), np.repeat(sparse.qids, np.diff(sparse.offsets))
    fitted = pr.ListwisePerceptron(transforms=None).fit(X, sparse.relevance, qid=qid)
    dense = pr.ListwisePerceptron(transforms=None).fit(stream.X, stream.relevance, qid=qid)
    np.testing.assert_allclose(fitted.predict(X, qid=qid), dense.predict(stream.X, qid=qid), rtol=1e-8, atol=1e-12)
    assert fitted.score(X, sparse.relevance, qid=qid) == pytest.approx(dense.score(stream))
    assert pr.evaluate(fitted, sparse, "ndcg").mean("ndcg") == pytest.approx(
        pr.evaluate(dense, stream, "ndcg").mean("ndcg")
    )
    shuffled = np.random.default_rng(0).permutation(len(qid))
    np.testing.assert_array_equal(fitted.predict(X[shuffled], qid=qid[shuffled]), fitted.predict(X, qid=qid)[shuffled])


def test_scikit_learn_is_told():
    from sklearn.utils import get_tags

    assert get_tags(pr.ListwisePerceptron()).input_tags.sparse
    assert get_tags(pr.AdaGrad(pr.RankNet())).input_tags.sparse
    assert not get_tags(pr.PRank()).input_tags.sparse
    assert not get_tags(pr.Tournament()).input_tags.sparse


def test_a_model_of_dense_features_makes_sparse_ones_dense_a_few_queries_at_a_time():
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(750), (np.arange(750), rng.integers(0, 20_000, 750))), shape=(1000, 20_000))
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 1000), group=[10] * 100)
    learner = pr.ListwisePerceptron(transforms=None)
    learner.learn(stream[:5].to_dense())
    tracemalloc.start()
    learner.learn(stream[5:])
    scores = learner.predict(stream)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6  # of 160 MB in all
    assert len(scores) == 1000
    one_by_one = pr.ListwisePerceptron(transforms=None)
    for query in stream:
        one_by_one.learn_one(query.X.toarray(), query.relevance)
    np.testing.assert_array_equal(one_by_one.weights, learner.weights)
