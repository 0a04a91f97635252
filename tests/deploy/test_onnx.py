"""ONNX graphs of one query, run by onnxruntime."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import real_streams

import perceptrank as pr
from perceptrank.deploy import parity
from perceptrank.deploy.engines.onnx import Graph
from perceptrank.transforms.query_normal import normal_scores

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TRANSFORMS = [
    None,
    "running",
    "running-spread",
    "query-zscore",
    "query-minmax",
    "query-rank",
    "query-normal",
    "auto",
    "clip",
    "signed-log",
    ["running", "clip"],
    ["signed-log", "running", "query-rank"],
    "query-minmax+query-rank+signed-log",
    pr.Join(["running", "clip"], pr.Chain("running", "signed-log", "query-zscore")),
    pr.Missing(indicator=True),
    [pr.Missing(7.5), "auto"],
    "bins",
    "auto+bins:kind=thermometer",
]


@pytest.mark.parametrize("transforms", TRANSFORMS, ids=str)
def test_graphs_score_as_the_model_does(learned, stream, transforms):
    found = parity(learned(transforms), stream, "onnx")
    assert found.agrees
    assert (found.same, found.queries, found.documents) == (40, 40, stream.n_documents)
    assert found.engine == f"onnxruntime {onnxruntime.__version__}"


@pytest.mark.parametrize("transforms", TRANSFORMS, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e45])
def test_a_single_feature_keeps_its_digits(transforms, scale):
    """Scales of one feature are constants of one element, which onnxruntime would round to float32."""
    rng = np.random.default_rng(0)
    stream = pr.QueryStream.from_arrays(scale * rng.normal(3.0, size=(60, 1)), rng.integers(0, 3, 60), group=[6] * 10)
    model = pr.ListwisePerceptron(transforms=transforms)
    model.learn(stream)
    assert parity(model, stream, "onnx").agrees


@pytest.mark.parametrize("operation", ["Mul", "Div"])
def test_a_constant_factor_before_a_product_keeps_its_digits(operation):
    nodes, X = Graph(), np.array([[1.0, 3.0], [0.7, -2.0]])
    weights = np.array([[0.3], [0.9]])
    scores = nodes.add("Reshape", nodes.product(nodes.add(operation, "features", 1e-45), weights), nodes.whole(-1))
    (found,) = onnxruntime.InferenceSession(nodes.model(2, scores, {})).run(None, {"features": X})
    expected = X * 1e-45 if operation == "Mul" else X / 1e-45
    np.testing.assert_allclose(found, (expected @ weights)[:, 0], rtol=1e-15)


@pytest.mark.parametrize("transforms", ["query-rank", "query-normal", "auto"])
@given(
    st.integers(1, 9).flatmap(
        lambda m: st.lists(
            st.tuples(*[st.sampled_from([-1e300, -2.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, 1e300])] * 3),
            min_size=m,
            max_size=m,
        )
    )
)
def test_ranks_with_ties(learned_ranks, transforms, rows):
    """Ties, zeros of both signs, the smallest and very large numbers."""
    X = np.array(rows)
    if transforms == "auto":
        X = np.clip(X, -1e100, 1e100)
    model, session = learned_ranks(transforms)
    (scores,) = session.run(None, {"features": X})
    expected = model.predict(X)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12 * max(np.abs(model.coef_).sum(), 1))


@pytest.fixture(scope="module")
def learned_ranks():
    made = {}

    def learn(transforms):
        if transforms not in made:
            model = pr.ListwisePerceptron(transforms=transforms)
            model.learn_one([[1.0, 5.0, 2.0], [2.0, 5.5, 2.0], [0.5, 9.0, 1.0]], [0, 2, 1])
            made[transforms] = model, onnxruntime.InferenceSession(pr.deploy.export(model, "onnx").content)
        return made[transforms]

    return learn


def test_normal_scores_of_long_queries():
    """Both approximations of the quantile, at every chance that 3000 documents can have."""
    model = pr.ListwisePerceptron(transforms="query-normal", average=False)
    model.learn_one([[1.0], [2.0]], [0, 1])
    (weight,) = model.coef_
    session = onnxruntime.InferenceSession(pr.deploy.export(model, "onnx").content)
    for m in (1, 2, 3, 40, 3000):
        X = np.random.default_rng(m).permutation(m)[:, None].astype(np.float64)
        (scores,) = session.run(None, {"features": X})
        np.testing.assert_allclose(scores, weight * normal_scores(m)[2 * X[:, 0].astype(int)], rtol=1e-14, atol=1e-16)


def test_small_numbers_keep_their_digits_in_logarithms():
    X = np.array([[1e-12, 3e-9], [5e-300, 2e-16], [-1e-8, 0.0], [1e300, -1e-3]])
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2, 1])
    model = pr.ListwisePerceptron(transforms="signed-log", average=False)
    model.learn(stream)
    session = onnxruntime.InferenceSession(pr.deploy.export(model, "onnx").content)
    for row in X:  # each by itself, so that a large score hides nothing
        (score,) = session.run(None, {"features": row[None]})
        np.testing.assert_allclose(score, model.predict(row[None]), rtol=1e-14)


def test_missing_values():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 4)) < 0.3, np.nan, rng.normal(size=(60, 4)))
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 60), group=[6] * 10, missing="keep")
    for transforms in (pr.Missing("mean", indicator=True), [pr.Missing("zero"), "auto"], pr.Missing(-2.0)):
        model = pr.ListwisePerceptron(transforms=transforms)
        model.learn(stream)
        found = parity(model, stream, "onnx")
        assert found.agrees
        assert any("NaN where they are missing" in note for note in found.notes)


def test_sparse_models_take_dense_features():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 40)) < 0.1, rng.normal(size=(60, 40)), 0.0)
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 60), group=[6] * 10).to_sparse()
    model = pr.ListwisePerceptron()
    model.learn(stream)
    assert parity(model, stream, "onnx").agrees


def test_the_file_says_what_it_takes(learned, stream, tmp_path):
    exported = pr.deploy.export(learned("auto"), "onnx")
    exported.save(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="the file of onnx is no text: save it"):
        _ = exported.text
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape, given.type) == ("features", ["documents", 6], "tensor(double)")
    assert (made.name, made.shape, made.type) == ("scores", ["documents"], "tensor(double)")
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["feature_names"]) == list(stream.feature_names)
    assert any("all documents of one query at once" in note for note in exported.notes)
    assert "LinearRegressor" not in {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}


def test_what_has_no_graph_is_refused(learned):
    with pytest.raises(ValueError, match=r"Hash.*, for which there is no ONNX graph: learn again with other"):
        pr.deploy.export(learned("hash:n_features=8"), "onnx")

    class Doubled(pr.QueryZScore):
        def apply(self, X, offsets):
            return 2 * super().apply(X, offsets)

    with pytest.raises(ValueError, match="no ONNX graph"):
        pr.deploy.export(learned(Doubled()), "onnx")


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_an_error_names_the_extra(learned, stream, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'perceptrank\[onnx\]'"):
        parity(learned("auto"), stream, "onnx")


@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_the_default_model_ranks_real_streams_in_the_same_order(name):
    real = pr.read_letor(real_streams.find(name), dtype="float64")
    model = pr.ListwisePerceptron()
    model.learn(real)
    found = parity(model, real[:150], "onnx")
    assert found.agrees
    assert found.same == found.queries


def test_every_learner_can_go_live():
    """With its default settings, whatever its transforms; learners are found, not listed."""
    rng = np.random.default_rng(3)
    stream = pr.QueryStream.from_arrays(rng.normal(size=(120, 4)), rng.integers(0, 2, 120), group=[6] * 20)
    for name, kind in pr.algorithms().items():
        model = kind()
        model.learn(stream)
        if not model.model.is_linear:
            with pytest.raises(ValueError, match="no weights of features"):
                parity(model, stream, "onnx")
            continue
        found = parity(model, stream, "onnx")
        assert found.agrees, (name, found)
        if not model.transforms_:
            assert parity(model, stream, "python").agrees, name
