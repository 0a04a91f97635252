"""Weights that keep their signs."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import streams

import perceptrank as pr
from perceptrank.transforms.hybrid_scores import LOWEST
from perceptrank.transforms.registry import make_transforms, named_transforms

TRANSFORMS = named_transforms()

NAMES = ("title", "price", "stock", "age")
KINDS = (pr.ListwisePerceptron, pr.SlamPerceptron, pr.MinimaxPerceptron, pr.CategoryRanking)
CONSTRAINTS = {"positive": ["stock"], "negative": ["price"], "zero": ["age"]}


def named_stream(n_queries=60, seed=0, sparse=False):
    """Queries whose grades ask for other signs than the constraints allow, now and then."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * 6, 4))
    scores = X @ [1.0, 0.3, -0.3, 1.0] + rng.normal(size=len(X))
    y = np.digitize(scores, [0.0, 1.0])
    stream = pr.QueryStream.from_arrays(X, y, group=[6] * n_queries, feature_names=NAMES)
    return stream.to_sparse() if sparse else stream


def projected(weights):
    """The nearest weights with title free, price <= 0, stock >= 0 and age 0."""
    title, price, stock, _ = weights
    return np.array([title, min(price, 0.0), max(stock, 0.0), 0.0])


def step_of_pairs(X, R, weights):
    """Category ranking's step from its definition: the mean of x_i - x_j over misordered pairs."""
    s = X @ weights
    pairs = [(i, j) for i in range(len(R)) for j in range(len(R)) if R[i] > R[j] and s[i] <= s[j]]
    return np.mean([X[i] - X[j] for i, j in pairs], axis=0) if pairs else np.zeros(len(weights))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", [None, "diagonal", "norm"])
def test_iterates_are_projected_steps(sparse, steps):
    weights, squares, iterates = np.array([0.0, -0.5, 0.25, 0.0]), 0.0, []
    for query in named_stream():
        z = step_of_pairs(np.asarray(query.X), query.relevance, weights)
        if steps is not None and z.any():
            squares = squares + (z * z if steps == "diagonal" else z @ z)
            z = z / (np.sqrt(squares) + 1e-10)
        weights = projected(weights + 0.5 * z)
        iterates.append(weights)
    for average in (False, True):
        learner = pr.CategoryRanking(
            learning_rate=0.5, average=average, initial_weights={"price": -0.5, "stock": 0.25}, **CONSTRAINTS
        )
        learner = learner if steps is None else pr.AdaGrad(learner, steps=steps)
        learner.learn(named_stream(sparse=sparse), "ndcg")
        expected = np.mean(iterates, axis=0) if average else weights
        np.testing.assert_allclose(learner.weights, weights, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(learner.coef_, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(projected(learner.coef_), learner.coef_)
    assert (np.array(iterates)[:, 1:3] == 0).any(axis=0).all()  # both were projected at times


@pytest.mark.parametrize("violators", ["places", pytest.param("uniform", marks=pytest.mark.deep), "top"])
@pytest.mark.parametrize("average", [False, True])
def test_the_listwise_perceptron_projects_its_own_steps(violators, average):
    """A step from w is that of a learner without constraints that starts from w."""
    settings = {"violators": violators, "relative_margin": 0, "transforms": None, "learning_rate": 0.7}
    learner = pr.ListwisePerceptron(average=average, **settings, **CONSTRAINTS)
    weights = np.zeros(4)
    for query in named_stream(40):
        free = pr.ListwisePerceptron(initial_weights=weights, average=False, **settings)
        free.learn_one(query.X, query.relevance)
        weights = projected(free.weights)
    learner.learn(named_stream(40))
    np.testing.assert_allclose(learner.weights, weights, rtol=1e-12, atol=1e-14)


# Each of these is compiled for itself.
DEEP = {(pr.ListwisePerceptron, True), (pr.SlamPerceptron, True), (pr.MinimaxPerceptron, True)}


@pytest.mark.parametrize(
    ("kind", "sparse"),
    [
        pytest.param(kind, sparse, marks=pytest.mark.deep if (kind, sparse) in DEEP else ())
        for kind in KINDS
        for sparse in (False, True)
    ],
)
@given(stream=streams(max_features=4), average=st.booleans())
def test_weights_and_their_mean_keep_their_signs(kind, sparse, stream, average):
    signs = {"positive": [0], "zero": list(range(2, stream.n_features))}
    signs |= {"negative": [1]} if stream.n_features > 1 else {}
    learner = kind(average=average, transforms=None, **signs)
    learner.learn(stream.to_sparse() if sparse else stream)
    for weights in (learner.weights, learner.coef_):
        assert weights[0] >= 0
        assert (weights[1:2] <= 0).all()
        assert (weights[2:] == 0).all()


@pytest.mark.deep
@pytest.mark.parametrize("kind", [kind for kind in pr.algorithms().values() if "positive" in kind.parameter_names])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_learner_with_constraints_keeps_them(kind, sparse):
    learner = kind(average=False, transforms=None, **CONSTRAINTS)
    learner.learn(named_stream(sparse=sparse))
    np.testing.assert_array_equal(projected(learner.weights), learner.weights)
    free = kind(average=False, transforms=None)
    free.learn(named_stream(sparse=sparse))
    assert (projected(free.weights) != free.weights).any()


def test_constraints_that_never_bind_change_nothing():
    stream = named_stream()
    free = pr.ListwisePerceptron(initial_weights=[1e4, -1e4, 1e4, 1e4], transforms=None)
    bound = copy.deepcopy(free).set_params(positive=["title", 2, "age"], negative="price")
    free.learn(stream), bound.learn(stream)
    assert free.coef_.tobytes() == bound.coef_.tobytes()


def test_a_block_and_its_queries_one_by_one_agree_to_the_bit():
    whole, one_by_one = (pr.ListwisePerceptron(positive=[2], negative=[1]) for _ in range(2))
    stream = named_stream()
    whole.learn(stream)
    for query in stream:
        one_by_one.learn_one(query.X, query.relevance)
    assert whole.coef_.tobytes() == one_by_one.coef_.tobytes()


# Transforms


def test_auto_constrains_all_that_is_made_of_a_feature():
    learner = pr.ListwisePerceptron(average=False, **CONSTRAINTS)
    learner.learn(named_stream())
    zscores, normals = learner.weights[:4], learner.weights[4:]
    for weights in (zscores, normals):
        np.testing.assert_array_equal(projected(weights), weights)
        assert weights[0] > 0


RISING = [name for name in TRANSFORMS if TRANSFORMS[name]().sources(1) is not None and name != "bins"]
RISING += ["auto", "missing+clip"]


@given(stream=streams(max_documents=7, max_features=3), other=streams(max_documents=7, max_features=3))
@pytest.mark.parametrize("name", [*RISING, "bins"])
def test_transforms_say_what_their_outputs_are_made_of(name, stream, other):
    """Within a query an output rises with its feature, and depends on no other feature."""
    (transform,) = make_transforms(pr.Bins(4, "thermometer") if name == "bins" else name)
    sources = transform.sources(stream.n_features)
    assert len(sources) == transform.n_outputs(stream.n_features)
    made = transform.learn_and_apply(stream.X, stream.offsets)
    for start, stop in zip(stream.offsets[:-1], stream.offsets[1:], strict=True):
        for output, j in enumerate(sources):
            order = np.argsort(stream.X[start:stop, j], kind="stable")
            least = -LOWEST if name == "hybrid" else 0.0  # which OpenSearch gives the last, and less to the next to it
            assert (np.diff(made[start:stop][order, output]) >= least).all()
    for j in range(stream.n_features):
        changed = stream.X[:, ::-1] * 2.0 + 1.0
        changed[:, j] = stream.X[:, j]
        again = make_transforms(pr.Bins(4, "thermometer") if name == "bins" else name)[0]
        again = again.learn_and_apply(np.ascontiguousarray(changed), stream.offsets)
        np.testing.assert_array_equal(again[:, sources == j], made[:, sources == j])


@given(stream=streams(max_documents=7, max_features=4), seed=st.integers(0, 99))
@pytest.mark.parametrize("transforms", [None, "auto", ["running", "clip"], ["signed-log", "query-rank"]])
def test_more_of_a_positive_feature_never_ranks_below_an_equal_document(transforms, stream, seed):
    learner = pr.ListwisePerceptron(positive=[0], transforms=transforms)
    learner.learn(stream)
    query = np.array(stream[len(stream) - 1].X)
    rng = np.random.default_rng(seed)
    twin = query[rng.integers(len(query))].copy()
    twin[0] += rng.exponential()
    scores = learner.predict(np.vstack([query, twin]))
    same = (query[:, 1:] == twin[1:]).all(axis=1) & (query[:, 0] <= twin[0])
    assert same.any()
    assert (scores[-1] >= scores[:-1][same] - 1e-12).all()


@given(stream=streams(max_documents=7, max_features=4), seed=st.integers(0, 99))
@pytest.mark.parametrize("transforms", [None, ["running", "clip"], "query-rank", "query-normal"])
def test_a_rise_of_a_positive_feature_never_costs_a_place(transforms, stream, seed):
    """True without transforms within queries, and with ranks; not with z-scores, whose unit depends on the query."""
    learner = pr.ListwisePerceptron(positive=[0], transforms=transforms, average=False)
    learner.learn(stream)
    query = np.array(stream[len(stream) - 1].X)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(query))
    before = learner.predict(query)
    query[chosen, 0] += rng.exponential()
    after = learner.predict(query)
    assert (after[chosen] - after >= before[chosen] - before - 1e-9).all()


@given(stream=streams(max_documents=7, max_features=1), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", ["query-zscore", "query-minmax"])
def test_a_rise_never_lowers_the_own_value(name, stream, seed):
    query, rng = np.array(stream[0].X), np.random.default_rng(seed)
    chosen, offsets = rng.integers(len(query)), np.array([0, len(query)])
    (transform,) = make_transforms(name)
    before = transform.apply(query, offsets)[chosen, 0]
    query[chosen, 0] += rng.exponential()
    assert transform.apply(query, offsets)[chosen, 0] >= before - 1e-12


def test_a_rise_may_cost_a_place_with_z_scores():
    """What is not promised: as the spread grows with it, a lead over a third document shrinks."""
    x = np.array([[1.5], [-1.0], [-0.5]])
    leads = []
    for more in (0.0, 0.5):
        x[0, 0] += more
        z = pr.QueryZScore().apply(x, np.array([0, 3]))
        leads.append(z[0, 0] - z[1, 0])
    assert leads[1] < leads[0]


@pytest.mark.parametrize("transforms", ["bins", "hash", pr.Missing(indicator=True), pr.Bins(3, "one-hot")])
def test_transforms_that_do_not_rise_refuse(transforms):
    learner = pr.SlamPerceptron(positive=["title"], transforms=transforms)
    with pytest.raises(ValueError, match=r"need outputs that rise with the feature|does not say which feature"):
        learner.learn(named_stream())
    assert not learner.model.has_begun


def test_zero_needs_no_direction():
    for transforms in ("bins", pr.Missing(indicator=True)):
        learner = pr.SlamPerceptron(zero=["title"], transforms=transforms)
        learner.learn(named_stream())
        sources = learner.transforms_[0].sources(4)
        made_of_title = np.isin(sources, [0, -1])
        assert not learner.weights[made_of_title].any()
        assert learner.weights[~made_of_title].any()
    thermometer = pr.SlamPerceptron(positive=["title"], transforms=pr.Bins(4, "thermometer"))
    thermometer.learn(named_stream())
    assert (thermometer.weights[:3] >= 0).all()


class Unknown(pr.Transform):
    """A transform that says nothing about its outputs."""

    name = "unknown"

    def apply(self, X, offsets):
        return X


def test_transforms_of_others_say_nothing_unless_they_do():
    with pytest.raises(ValueError, match="does not say which feature each of its outputs is made of"):
        pr.SlamPerceptron(zero=["title"], transforms=Unknown()).learn(named_stream())


# Settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"positive": 1.5}, "positive must be a list of features, got 1.5"),
        ({"positive": {"title"}}, "positive must be a list of features"),
        ({"zero": [1.5]}, "zero must name features, or columns by numbers >= 0, got 1.5"),
        ({"negative": [-1]}, "negative must name features, or columns by numbers >= 0, got -1"),
        ({"negative": [True]}, "negative must name features, or columns by numbers >= 0, got True"),
        ({"positive": ["title"], "zero": ["title"]}, "zero must not name a feature twice"),
        ({"positive": ["title", "title"]}, "positive must not name a feature twice"),
    ],
)
def test_what_is_no_constraint(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.ListwisePerceptron(**wrong)


def test_constraints_that_do_not_fit_the_data():
    stream = named_stream()
    nameless = pr.QueryStream.from_arrays(stream.X, stream.relevance, group=[6] * 60)
    for signs, data, message in (
        ({"positive": ["colour"]}, stream, "`positive` names unknown features 'colour'; the data has "),
        ({"zero": [4]}, nameless, "`zero` names unknown features 4; the data has 4$"),
        ({"zero": "title"}, nameless, "zero must use f1 to f[0-9]+, column numbers or a vector"),
        ({"positive": [0], "negative": ["title"]}, stream, "negative must not have a feature twice"),
        ({"initial_weights": {"title": -1.0}, "positive": ["title"]}, stream, "must be >= 0, got -1.0"),
        ({"initial_weights": {"title": 1.0}, "zero": ["title"]}, stream, "must be 0, got 1.0"),
    ):
        learner = pr.ListwisePerceptron(**signs)
        with pytest.raises(ValueError, match=message):
            learner.learn(data)
        assert not learner.model.has_begun


@pytest.mark.parametrize("sparse", [False, True])
def test_models_keep_their_constraints(sparse, tmp_path):
    first, second = named_stream(30, 1, sparse), named_stream(30, 2, sparse)
    for learner in (
        pr.ListwisePerceptron(positive=["stock", np.int64(0)], negative="price", zero=(3,)),
        pr.AdaGrad(pr.SlamPerceptron(**CONSTRAINTS)),
        pr.Bagging(pr.SlamPerceptron(positive=[2]), n_members=2),
        pr.Tournament([pr.SlamPerceptron(**CONSTRAINTS), pr.MinimaxPerceptron()]),
    ):
        learner.learn(first)
        learner.save(tmp_path / "model.json")
        others = [pr.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)]
        learner.learn(second)
        for other in others:
            other.learn(second)
            assert other.coef_.tobytes() == learner.coef_.tobytes()
            assert other.coef_[2] >= 0


def test_a_model_file_that_breaks_its_constraints_is_damaged(tmp_path):
    learner = pr.SlamPerceptron(positive=["title"])
    learner.learn(named_stream())
    document = learner.as_document()
    document["state"]["weights"][0] = -1.0
    with pytest.raises(ValueError, match=r"weights must satisfy the constraints: .* must be >= 0, got -1.0"):
        pr.SlamPerceptron.from_document(document)
