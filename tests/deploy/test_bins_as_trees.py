"""Models of bins as sums of functions of features: trees, conditions, expressions, graphs.

Documents are at the edges, right beside them, and beyond the outermost ones. RankLib, Vespa and the JPMML evaluator
come from Maven's local repository; test_live_engines.py asks Solr and OpenSearch.
"""

import json
import math
import os
import re
import runpy
import shutil
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import java_engines, real_streams
from support.boundaries import around_edges, learned_bins
from support.engines import classpath

import perceptrank as pr
from perceptrank.deploy import parity
from perceptrank.deploy.additive import raw_thresholds, read_additive
from perceptrank.deploy.engines.solr import SLACK, threshold_before_slack, with_slack
from perceptrank.deploy.engines.trees import float_trees, in_float
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.transforms.registry import make_transforms

IN_DOUBLE = ["python", "javascript", "sql", "onnx", "vespa", "pmml"]
TREES = ["elasticsearch", "opensearch", "solr", "ranklib"]
STEPS = [
    ["bins:kind=one-hot"],
    ["bins:kind=thermometer,n_bins=40"],
    ["running", "bins:kind=thermometer"],
    ["running-spread", "bins:kind=one-hot", "running"],
    ["signed-log", "running", "clip:limit=1.5", "bins:n_bins=5,kind=one-hot,after=100"],
    ["bins:n_bins=2,kind=one-hot,sparse=true", "running"],
]
HATS = [["bins"], ["running", "bins:n_bins=3"], ["running-spread", "running", "bins", "running"]]


def options_of(target):
    if target == "ranklib":
        return {"jar": next(one for one in classpath("ranklib").split(os.pathsep) if "RankyMcRankFace" in one)}
    if target == "javascript" and shutil.which("node") is None:
        pytest.skip("there is no node")
    return {}


def without_late(model, edges):
    """Queries of which no document is between a threshold and the next one that Solr can have."""
    chosen, late = make_target("solr", {}), []
    forest = float_trees("solr", read_additive(RankingFunction.of(model))).forest
    for place, threshold in zip(forest.features.tolist(), forest.thresholds.tolist(), strict=True):
        reached, values = with_slack(threshold_before_slack(threshold)), edges.X[:, place]
        late.append((values > threshold) != (values > reached))
    spoiled = np.add.reduceat(np.any(late, axis=0), edges.offsets[:-1])
    exported = chosen.export(RankingFunction.of(model))
    assert any("undone here, but for" in note for note in exported.notes) == (spoiled.sum() > 0)
    assert spoiled.sum() < 0.1 * len(edges.X)
    return edges[np.flatnonzero(spoiled == 0)]


@pytest.mark.parametrize("target", IN_DOUBLE)
@pytest.mark.parametrize("transforms", STEPS + HATS, ids=str)
def test_documents_at_the_edges_score_as_for_the_model(target, transforms):
    model, stream = learned_bins(transforms)
    edges = around_edges(model, stream, np.float64)
    options = options_of(target)
    for one in (stream, edges):
        found = parity(model, one, target, **options)
        assert found.agrees, found
        assert found.same == found.queries


@pytest.mark.parametrize(
    ("target", "transforms"),
    [
        pytest.param(target, steps, marks=pytest.mark.engine if target == "ranklib" and steps is STEPS[1] else ())
        for target in TREES
        for steps in (STEPS[1:3] if target == "ranklib" else STEPS)
    ],
)
def test_documents_of_float32_are_in_their_bins(target, transforms):
    model, stream = learned_bins(transforms)
    edges = around_edges(model, stream, np.float32)
    if target == "solr":  # which cannot have all thresholds, and says so
        edges = without_late(model, edges)
    options = options_of(target)
    for one in (stream, edges):
        found = parity(model, one, target, **options)
        assert found.agrees, found
        assert found.same == found.queries
    said = "a document whose features float32 holds is in the bins that it is in for the model"
    assert any(said in note for note in found.notes)


def check_random_models(seed, n):
    """Any number of bins of any kind, features of any scale, documents of float32 at the edges."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        kind = rng.choice(["one-hot", "thermometer"])
        before = [[], ["running"], ["running-spread"], ["signed-log"], ["running", "clip"]][rng.integers(5)]
        after = [[], ["running"]][rng.integers(2)]
        transforms = [*before, f"bins:kind={kind},n_bins={rng.integers(2, 60)},after={rng.integers(1, 400)}", *after]
        X = rng.normal(size=(120, 4)) * 10.0 ** rng.uniform(0, 6, size=4) + 10.0 ** rng.uniform(-3, 3, size=4)
        X = np.round(X, rng.integers(0, 5)).astype(np.float32).astype(np.float64)
        stream = pr.QueryStream.from_arrays(X, rng.integers(0, 4, 120), group=[6] * 20)
        model = pr.ListwisePerceptron(transforms=transforms)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "features differ in spread")
            model.learn(stream)
        for one in (stream, around_edges(model, stream, np.float32)):
            for target in ("python", "onnx", "elasticsearch"):
                found = parity(model, one, target)
                assert found.agrees, (transforms, found)


def test_random_models_in_float32():
    check_random_models(1, 8)


@pytest.mark.deep
def test_many_random_models_in_float32():
    check_random_models(None, 400)


@pytest.mark.parametrize("target", TREES)
def test_documents_that_are_rounded_stay_at_the_edge(target):
    """Values of double precision that float32 does not hold, and many that are equal to an edge."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 30, size=(300, 3)) / 10
    assert (X.astype(np.float32) != X).any()
    stream = pr.QueryStream.from_arrays(X, np.digitize(X.sum(axis=1), [3, 5]), group=[10] * 30)
    model = pr.ListwisePerceptron(transforms="bins:kind=one-hot")
    model.learn(stream)
    found = parity(model, stream, target, **options_of(target))
    assert found.agrees, found
    assert any("in another bin than for the model if float32 does not tell" in note for note in found.notes)


@pytest.mark.engine
@pytest.mark.parametrize("target", ["vespa", "pmml"])
def test_the_engines_themselves_score_as_the_model_does(target):
    options = {"harness": java_engines.harness(target)}
    for transforms in (STEPS[4], HATS[2]):
        model, stream = learned_bins(transforms)
        found = parity(model, around_edges(model, stream, np.float64), target, **options)
        assert found.agrees, found
        assert found.same == found.queries


def test_postgresql_scores_as_the_model_does(postgresql):
    for transforms in (STEPS[1], STEPS[4], HATS[2]):
        model, stream = learned_bins(transforms)
        edges = around_edges(model, stream, np.float64)
        found = parity(model, edges, "sql", dialect="postgresql", url=postgresql)
        assert found.agrees, found
        assert found.same == found.queries


@pytest.mark.parametrize("name", [pytest.param("MSLR sample", marks=pytest.mark.deep), "MQ2008 Fold1 train"])
@pytest.mark.parametrize("transforms", [["bins:n_bins=16,kind=one-hot"], ["running", "bins:kind=thermometer"], "bins"])
def test_real_streams_are_in_the_same_order(name, transforms):
    real = pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms=transforms)
    model.learn(real)
    for target in ["sql", "onnx", "vespa", "pmml", *([] if transforms == "bins" else ["elasticsearch", "solr"])]:
        found = parity(model, real[:60], target)
        assert found.agrees, found
        assert found.same == found.queries


def test_ties_of_the_model_may_be_in_any_order():
    """0.1 + 0.6 > 0.7 > 0.8 - 0.1 by the rounding of double precision, and float32 has other ties."""
    weights = {"a": 0.1, "b": 0.7, "c": 0.8, "d": 1.1}
    X = np.array(
        [[i, j, k, m] for i in range(-3, 4) for j in range(3) for k in range(3) for m in range(3)], dtype=np.float64
    )
    stream = pr.QueryStream.from_arrays(X, np.arange(len(X)) % 3, feature_names=list(weights))
    model = pr.FixedRanker(weights)
    model.learn(stream)
    found = parity(model, stream, "elasticsearch")
    assert found.agrees
    assert (found.same, found.queries) == (1, 1)


@pytest.mark.parametrize("transforms", [None, "running", "signed-log", "clip:limit=0.3", ["running", "signed-log"]])
def test_thresholds_are_the_last_number_that_is_not_above_the_edge(transforms):
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=50), 1e6 + rng.normal(size=50), 1e-9 * rng.normal(size=50), np.full(50, 2.0)])
    made = make_transforms(transforms) if transforms else []
    for one in made:
        X = one.learn_and_apply(X, np.array([0, 50]))
    edges = np.sort(X[:9].T, axis=1)
    edges = np.concatenate([np.full((4, 1), -0.4), edges, np.full((4, 1), 900.0)], axis=1)
    found = raw_thresholds(made, edges)

    def transformed(values):
        values = values.T.copy()
        for one in made:
            values = one.apply(values, np.array([0, len(values)]))
        return values.T

    finite = np.isfinite(found)
    assert finite.any()
    at = np.where(finite, found, 0.0)
    assert (transformed(at) <= edges)[finite].all()
    assert (transformed(np.nextafter(at, np.inf)) > edges)[finite].all()
    huge = np.full(edges.shape, 1e300)
    assert (transformed(huge) <= edges)[found == np.inf].all()
    assert (transformed(-huge) > edges)[found == -np.inf].all()


@given(st.floats(-(2.0**126), 2.0**126, width=32))
def test_solr_adds_its_slack_to_a_smaller_number(threshold):
    given = threshold_before_slack(threshold)
    below, above = (float(np.nextafter(np.float32(given), np.float32(way * np.inf))) for way in (-1, 1))
    if with_slack(given) < threshold:
        assert with_slack(given) < threshold < 0.0 <= with_slack(above)  # a value of 0 stays above the threshold
    else:
        assert with_slack(given) == threshold or with_slack(below) < threshold
    assert abs(with_slack(given) - threshold) <= max(float(np.spacing(np.float32(abs(threshold)))), 2 * 1.2e-13)


@given(st.floats(-1e37, 1e37), st.booleans())
def test_edges_in_float32(edge, rounded_down):
    number = in_float(edge, rounded_down=rounded_down)
    assert number == np.float32(number)
    if rounded_down:
        assert number <= edge < float(np.nextafter(np.float32(number), np.float32(np.inf)))
    else:
        assert number == np.float32(edge)


def depth_of(node):
    return 1 + max(map(depth_of, node.get("children", [])), default=0)


def test_a_tree_per_feature_that_is_balanced():
    model, _ = learned_bins(["bins:kind=one-hot,n_bins=64"])
    additive = read_additive(RankingFunction.of(model))
    body = json.loads(pr.deploy.export(model, "elasticsearch", model_name="shop").text)["model"]
    assert (body["name"], body["model"]["type"]) == ("shop", "model/xgboost+json")
    trees = json.loads(body["model"]["definition"])
    assert [tree["split"] for tree in trees] == list(additive.used)
    for tree, curve in zip(trees, additive.curves, strict=True):
        assert tree["split_condition"] == np.finfo(np.float32).max  # what does not match is told from the rest
        assert depth_of(tree["children"][0]) == 1 + math.ceil(math.log2(len(curve.heights)))
    solr = json.loads(pr.deploy.export(model, "solr", store="shop").text)
    assert solr["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert [one["name"] for one in solr["features"]] == list(additive.used)
    exported = pr.deploy.export(model, "ranklib")
    assert exported.text.startswith("## LambdaMART\n")
    assert exported.text.count("<tree ") == len(additive.curves)
    assert exported.text.count("<output>") == sum(len(curve.heights) for curve in additive.curves)


def test_what_a_feature_adds_by_hand():
    """Edges of one-hot bins are 1 and 2, of which values up to 1 are in the first bin; f2 is constant."""
    X = np.array([[0.0, 7.0], [1.0, 7.0], [1.5, 7.0], [2.0, 7.0], [3.0, 7.0], [4.0, 7.0]])
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2, 2, 0, 0], feature_names=["price", "same"])
    model = pr.ListwisePerceptron(transforms="bins:n_bins=3,kind=one-hot")
    model.learn(stream)
    curve = read_additive(RankingFunction.of(model)).curves[0]
    assert (curve.name, curve.edges) == ("price", (1.0, 2.0))
    assert curve.heights == tuple(model.coef_[:3])
    text = pr.deploy.export(model, "sql").text
    assert "    WHEN CAST(\"price\" AS DOUBLE) <= CAST('1.0' AS DOUBLE) THEN" in text
    model = pr.ListwisePerceptron(transforms=["running", "bins:n_bins=3,kind=one-hot"])
    model.learn(stream)
    notes = pr.deploy.export(model, "python").notes
    assert "1 of 2 features change no score and are left out" in notes
    assert "edges of bins are those that the model has now: export it again when it has learned on" in notes


def test_values_that_are_missing_or_not_finite(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    for transforms in ("bins:kind=one-hot", "bins"):
        model, stream = learned_bins([transforms])
        names = [f"f{j}" for j in range(1, stream.n_features + 1)]
        pr.deploy.export(model, "python").save(tmp_path / "scoring.py")
        scoring = runpy.run_path(str(tmp_path / "scoring.py"))
        row = dict(zip(names, stream.X[0].tolist(), strict=True))
        assert scoring["score"](row) == pytest.approx(float(model.predict(stream.X[:1])[0]), rel=1e-12)
        assert scoring["rank"]([row, row]) == [0, 1]
        for wrong in (math.nan, math.inf):
            with pytest.raises(ValueError, match="feature f1 must be a finite number"):
                scoring["score"]({**row, "f1": wrong})
        with pytest.raises(KeyError, match="f1"):
            scoring["score"]({})
        text = pr.deploy.export(model, "sql").text
        with duckdb.connect() as connection:
            columns = ", ".join(f"{name} DOUBLE" for name in names)
            connection.execute(f"CREATE TABLE documents ({columns})")
            rest = ", ".join(map(repr, stream.X[0, 1:].tolist()))
            connection.execute(f"INSERT INTO documents VALUES (NULL, {rest}), ('NaN', {rest}), (0.5, {rest})")
            null, nan, number = (score for (score,) in connection.execute(f"SELECT score FROM ({text})").fetchall())
        assert null is None
        assert math.isnan(nan)
        assert math.isfinite(number)
        vespa = make_target("vespa", {})
        function = RankingFunction.of(model)
        X = stream.X[:2].copy()
        X[0, 0] = math.nan
        one, other = vespa.scores(function, vespa.export(function), X, np.array([0, 2]))
        assert math.isnan(one)
        assert math.isfinite(other)


@pytest.mark.parametrize("target", TREES)
def test_hats_are_no_trees(target):
    model, _ = learned_bins(["bins"])
    with pytest.raises(ValueError, match=f"^{target} takes bins as trees, .* hats are linear there: learn again with"):
        pr.deploy.export(model, target)
    if target != "ranklib":
        with pytest.raises(ValueError, match="hats are linear there"):
            pr.deploy.export(model, target, part="features")


def test_other_transforms_before_and_after_bins_are_refused():
    for transforms, said in [
        (["query-zscore", "bins:kind=one-hot"], r"QueryZScore\(\), which depends on the other documents of the query"),
        (["bins:kind=one-hot", "query-zscore"], r"QueryZScore\(\), which depends on the other documents of the query"),
        (["bins:kind=one-hot", "clip"], r"Clip\(3\), which is not linear in each feature.*export to 'onnx'"),
        (["signed-log", "bins"], r"by hats of features after SignedLog\(\), .*: export to 'onnx', or learn again with"),
        (["missing", "bins:kind=one-hot"], "Missing.*export to 'onnx'"),
        (["running+bins"], "which is not linear in each feature.*export to 'onnx'"),
    ]:
        model, stream = learned_bins(transforms)
        for target in ("python", "solr", "vespa"):
            with pytest.raises(ValueError, match=said):
                pr.deploy.export(model, target)
        assert parity(model, stream, "onnx").agrees


def test_bins_that_float32_cannot_tell_apart_are_said_or_refused():
    rng = np.random.default_rng(0)
    for offset, scale, target, said in [
        (1e6, 1e-2, "elasticsearch", "float32 cannot tell all edges of 'near' apart: bins between equal ones are left"),
        (1e6, 1e-2, "ranklib", "float32 cannot tell all edges of 'near' apart"),
        (0.0, 1e-6, "solr", r"Solr adds 1e-06 to thresholds, which is undone here, but for \d+ of \d+ that"),
    ]:
        X = rng.normal(offset, scale, size=(200, 1))
        stream = pr.QueryStream.from_arrays(X, (X[:, 0] > offset).astype(int), group=[10] * 20, feature_names=["near"])
        model = pr.ListwisePerceptron(transforms="bins:kind=one-hot,n_bins=50")
        model.learn(stream)
        notes = " ".join(pr.deploy.export(model, target).notes)
        assert re.search(said, notes), notes
    X = rng.normal(0.0, 1e-14, size=(200, 1))
    model = pr.ListwisePerceptron(transforms="bins:kind=one-hot")
    model.learn(pr.QueryStream.from_arrays(X, (X[:, 0] > 0).astype(int), group=[10] * 20, feature_names=["tiny"]))
    with pytest.raises(
        ValueError, match="Solr adds 1e-06 to thresholds in float32, which makes those of the feature 'tiny' equal"
    ):
        pr.deploy.export(model, "solr")
    assert pr.deploy.export(model, "elasticsearch").notes
    assert float(SLACK) == pytest.approx(1e-6)


@pytest.mark.parametrize("target", ["opensearch", "solr"])
def test_a_shift_is_in_the_leaves_of_the_first_tree(target):
    model, stream = learned_bins(["running", "bins:kind=one-hot"])
    function = RankingFunction.of(model)

    def scores(**options):
        chosen = make_target(target, options).settled(model, function)
        return chosen.scores(function, chosen.export(function), stream.X, stream.offsets)

    plain = scores()
    assert plain.min() < 0.0
    np.testing.assert_allclose(scores(shift=12.5) - 12.5, plain, atol=1e-4)
    for shift in ("auto", stream):
        assert scores(shift=shift).min() >= 0.0
        assert parity(model, stream, target, shift=shift).agrees
    notes = pr.deploy.export(model, target, shift="auto").notes
    assert any("in the leaves of the first tree: all documents score 0 or more" in note for note in notes)
    notes = pr.deploy.export(model, target, shift=12.5).notes
    assert any("documents that scored -12.5 or more score 0 or more, others may not" in note for note in notes)
    drafted = pr.deploy.export(model, target, shift=12.5, part="features").text
    assert "f1" in drafted
    assert "perceptrank_shift" not in drafted


def test_names_of_any_kind():
    names = ["title bm25", 'quo"te', "__proto__", "naïve 検索", "back\\slash'", "curve(x)"]
    model, stream = learned_bins(["running", "bins"], names=names)
    for target in ("python", "javascript", "sql", "onnx", "vespa", "pmml"):
        assert parity(model, stream, target, **options_of(target)).agrees


def test_parity_of_a_sparse_stream():
    """Bins learn from dense features; zeros of sparse ones are zeros."""
    model, stream = learned_bins(["bins:kind=one-hot"])
    for target in ("python", "onnx", "solr", "pmml"):
        assert parity(model, stream.to_sparse(), target).agrees
