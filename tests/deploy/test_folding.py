"""Folding: the same scores from raw features, or an error that says why not."""

import numpy as np
import pytest
from support import real_streams

import perceptrank as pr
from perceptrank.deploy import fold
from perceptrank.transforms.running import RunningStandardizer

LINEAR = [None, "running", "running-spread", ["running", "running"], ["running-spread", "running"]]


def worst_difference(model, X):
    expected = model.predict(X)
    return np.abs(fold(model).scores(X) - expected).max() / (np.abs(expected).max() or 1.0)


def random_model(rng):
    """A model with random weights, statistics and documents; scales over twelve orders of magnitude.

    Means are up to 1000 deviations from 0, but up to 10 where `running` comes after `running-spread`: `predict` itself
    loses the digits of a larger mean there, as it divides before it subtracts. There are enough documents for the
    terms of the largest score not to cancel.
    """
    transforms = LINEAR[int(rng.integers(1, len(LINEAR)))]
    farthest = 1 if transforms == ["running-spread", "running"] else 3
    d = int(rng.integers(1, 40))
    X = rng.normal(size=(int(rng.integers(5, 12)), d)) * 10.0 ** rng.uniform(-6, 6, size=d)
    X += X.std(axis=0) * 10.0 ** rng.uniform(-2, farthest, size=d) * rng.choice([-1, 0, 1], size=d)
    model = pr.ListwisePerceptron(transforms=transforms)
    model.learn_one(X, np.arange(len(X)) % 3)
    state = model.model.copy()
    state.weights[:] = state.total[:] = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3, size=d)
    model._model = state
    return model, X


def check_random_models(seed, n):
    rng = np.random.default_rng(seed)
    assert max(worst_difference(*random_model(rng)) for _ in range(n)) <= 1e-12


def test_random_models_fold_to_the_same_scores():
    check_random_models(3, 400)


@pytest.mark.deep
def test_ten_thousand_random_models_fold_to_the_same_scores():
    check_random_models(None, 10_000)


@pytest.mark.parametrize("transforms", LINEAR, ids=str)
def test_scores_are_those_of_predict(learned, stream, transforms):
    model = learned(transforms)
    folded = fold(model)
    assert worst_difference(model, stream.X) <= 1e-12
    raw = stream.X @ folded.weights + folded.constant
    np.testing.assert_allclose(raw, folded.scores(stream.X), atol=1e-8 * np.abs(stream.X @ folded.weights).max())
    assert folded.names == stream.feature_names


def test_the_formula_by_hand():
    ranker = pr.ListwisePerceptron(transforms="running", average=False)
    X = np.array([[0.0, 10.0, 5.0], [4.0, 10.0, 5.0], [8.0, 13.0, 5.0]])
    ranker.learn_one(X, [0, 1, 2])
    mean, deviation, w = X.mean(axis=0), X.std(axis=0), ranker.coef_
    folded = fold(ranker)
    np.testing.assert_allclose(folded.weights, [w[0] / deviation[0], w[1] / deviation[1], 0.0], rtol=1e-15)
    assert folded.offsets.tolist() == [*mean[:2], 0.0]
    np.testing.assert_allclose(folded.constant, -(w[:2] / deviation[:2]) @ mean[:2])
    assert [term.name for term in folded.terms()] == ["f1", "f2"]
    assert folded.notes[0] == "the features have no names: they are f1 to f3, in the order of the columns"
    assert "export it again" in folded.notes[1]


def test_a_feature_that_is_constant_after_one_standardiser_and_not_after_the_next():
    """Statistics that do not belong together, as of transforms that were learned elsewhere."""
    flat, moved = RunningStandardizer(), RunningStandardizer()
    flat.learn(pr.QueryStream.from_arrays([[1.0, 5.0], [3.0, 5.0]], [0, 1]))
    moved.learn(pr.QueryStream.from_arrays([[1.0, 4.0], [2.0, 8.0]], [0, 1]))
    model = pr.ListwisePerceptron(transforms=[flat.freeze(), moved.freeze()])
    model.learn_one([[0.0, 1.0], [2.0, 3.0], [3.0, 3.0]], [0, 1, 2])
    state = model.model.copy()
    state.weights[:] = state.total[:] = [2.0, 3.0]
    model._model = state
    X = np.array([[0.5, 9.0], [7.0, -2.0]])
    folded = fold(model)
    assert folded.bias == 2.0 * (0.0 - 1.5) / 0.5 + 3.0 * (0.0 - 6.0) / 2.0
    np.testing.assert_allclose(folded.scores(X), model.predict(X), rtol=1e-14)


def test_sparse_models_fold():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 40)) < 0.1, rng.normal(size=(60, 40)), 0.0)
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 60), group=[6] * 10).to_sparse()
    model = pr.ListwisePerceptron()
    model.learn(stream)
    folded = fold(model)
    assert folded.is_sparse
    np.testing.assert_allclose(folded.scores(stream.X), model.predict(stream), atol=1e-13)
    np.testing.assert_allclose(folded.scores(stream.X[6:12]), model.predict(stream.X[6:12]), atol=1e-13)
    np.testing.assert_allclose(folded.scores(X), model.predict(stream), atol=1e-13)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pr.Sum([pr.SlamPerceptron(), pr.OnlineRidge()], transforms="running"),
        lambda: pr.Bagging(pr.SlamPerceptron(), n_members=3, transforms="running"),
        lambda: pr.Tournament([pr.SlamPerceptron(transforms="running"), pr.RankNet()], transforms="running"),
        lambda: pr.AdaGrad(pr.RankNet(transforms="running", average=True)),
        lambda: pr.CommitteePerceptron(transforms="running"),
        lambda: pr.PRank(transforms="running"),
    ],
)
def test_all_that_rank_by_one_vector_fold(stream, make):
    model = make()
    model.learn(stream)
    np.testing.assert_allclose(fold(model).scores(stream.X), model.predict(stream), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("transforms", "said"),
    [
        ("auto", "depends on the other documents of the query.*export to 'onnx'.*transforms='running'"),
        ("query-rank", "QueryRank.*depends on the other documents.*export to 'onnx'"),
        (["running", "clip"], r"Clip\(3\), which is not linear.*export to 'onnx'"),
        ("signed-log", "not linear"),
        (["clip", "bins"], r"Clip\(3\), which is not linear.*export to 'onnx'"),
        (["clip", "hash:n_features=8"], r"Clip\(3\), which is not linear in each feature, so no .* alike: learn again"),
        ("auto+bins", "depends on the other documents of the query.*export to 'onnx'"),
        ("missing", "Missing.*not linear.*export to 'onnx'"),
        ("bins", "Bins.*not linear in each feature, so no weights of raw features rank alike: export to 'onnx'"),
    ],
)
def test_what_is_not_linear_is_refused_with_the_way_out(learned, transforms, said):
    with pytest.raises(ValueError, match=said):
        fold(learned(transforms))


def test_what_cannot_be_exported_is_refused(stream):
    with pytest.raises(TypeError, match="must be a learner of perceptrank, got dict"):
        fold({"a": 1.0})
    with pytest.raises(ValueError, match="has not learned anything yet"):
        fold(pr.ListwisePerceptron())
    model = pr.Sum([pr.SlamPerceptron(transforms="running"), pr.OnlineRidge()])
    model.learn(stream)
    with pytest.raises(ValueError, match="this Sum cannot be exported: there is no single weight vector"):
        fold(model)
    model = pr.ListwisePerceptron(transforms=None)
    model.learn_one([[1.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="all weights are 0"):
        fold(model)


def test_weights_beyond_double_precision_are_refused():
    model = pr.ListwisePerceptron(transforms="running")
    model.learn_one([[0.0, 0.0], [2.0, 1.0]], [0, 1])
    state = model.model.copy()
    state.transforms[0]._squares[:] = [1e-320, 1.0]
    state.weights[:] = state.total[:] = [1e160, 1.0]
    model._model = state
    with pytest.raises(ValueError, match=r"feature 'f1' has a spread of .* beyond double precision"):
        fold(model)


@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_real_streams_are_in_the_same_order(name):
    real = pr.read_letor(real_streams.find(name), dtype="float64")
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = pr.deploy.parity(model, real[:200], "python")
    assert (found.agrees, found.same, found.queries) == (True, min(200, len(real)), min(200, len(real)))


def test_weights_by_name_are_exported_before_anything_was_learned():
    now = pr.FixedRanker({"title_bm25": 2.0, "price": -0.5})
    folded = pr.deploy.fold(now)
    assert folded.names == ("title_bm25", "price")
    assert folded.weights.tolist() == [2.0, -0.5]
    assert "title_bm25" in str(pr.deploy.explain(now))
    stream = pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2], feature_names=["price", "age", "title_bm25"])
    assert now.scores(stream).tolist() == [-0.5, 0.0, 2.0]
    assert '"title_bm25"' in pr.deploy.export(now, "solr").text
    with pytest.raises(ValueError, match="not learned anything yet"):
        pr.deploy.fold(pr.ListwisePerceptron())
