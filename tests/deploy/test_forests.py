"""Models of trees, and of weights and trees: one sum of raw features, and what engines make of it.

Documents are at the thresholds of trees, right beside them, and beyond. RankLib, Vespa and the JPMML evaluator come
from Maven's local repository, and so do Solr and OpenSearch.
"""

import json
import math
import os
import runpy
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import java_engines, real_streams
from support.engines import classpath, opensearch_server, solr_server, write_solr_core
from support.ltr_stand_in import IndexesInMemory, LtrStandIn, RealIndexes, served
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.deploy import fold, parity
from perceptrank.deploy.engines.sql import quoted
from perceptrank.deploy.forests import join_forests
from perceptrank.transforms.trees.forest import NAN, ZERO
from perceptrank.transforms.trees.reading import ForestBuilder

IN_DOUBLE = ["python", "javascript", "sql", "onnx", "vespa", "pmml"]
TREES = ["elasticsearch", "opensearch", "solr", "ranklib"]
NAMES = ("title bm25", 'quo"te', "__proto__", "naïve 検索", "back\\slash'")


def shaped(n=60, seed=0, names=NAMES, rounded=None):
    """Grades that a linear function cannot tell, of features that float32 holds, some of them often 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * 8, 5)) * [1.0, 1.0, 1e-3, 100.0, 1.0] + [0.0, 0.0, 0.0, 500.0, 0.0]
    X[:, 4] = np.maximum(X[:, 4], 0.0)
    X = X.astype(np.float32).astype(np.float64)
    if rounded is not None:
        X = np.round(X / [1.0, 1.0, 1e-3, 100.0, 1.0] * rounded) / rounded
    grades = np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 4] + 0.3 * rng.normal(size=len(X))), 0, 3)
    return pr.QueryStream.from_arrays(X, grades, group=[8] * n, feature_names=names)


def random_forest(n_trees=6, seed=0, names=NAMES, *, is_single=False):
    """Trees of four splits; one that is a leaf, and one whose leaves are equal."""
    rng, builder = np.random.default_rng(seed), ForestBuilder()
    for _ in range(n_trees):
        thresholds = rng.normal(size=4).astype(np.float32) if is_single else rng.normal(size=4)
        features, values = rng.permutation([0, 1, 3, 4]), rng.normal(size=5)
        builder.add(features, thresholds, [1, -1, 3, -3], [2, -2, -4, -5], [NAN] * 4, values)
    builder.add([], [], [], [], [], [0.25])
    builder.add([2], [0.0], [-1], [-2], [0], [1.5, 1.5])
    return builder.forest(5, names, is_single=is_single)


def with_trees(stream, transforms="running", **settings):
    ranker = pr.WithTrees(pr.ListwisePerceptron(transforms=transforms), n_trees=6, first_fit=20, **settings)
    ranker.learn(stream)
    return ranker


def of_leaves(stream, **settings):
    leaves = pr.TreeLeaves(random_forest(names=stream.feature_names, **settings))
    ranker = pr.ListwisePerceptron(transforms=leaves, initial_weights=leaves.start_weights(stream))
    ranker.learn(stream)
    return ranker


def of_score(stream, ranker):
    learned = pr.ListwisePerceptron(transforms=[pr.ScoreOf(ranker), "running"])
    learned.learn(stream)
    return learned


MODELS = {
    "weights and trees": with_trees,
    "trees by hand": lambda stream: with_trees(stream, ["running-spread", "running"]),
    "raw weights and trees": lambda stream: with_trees(stream, None),
    "no trees yet": lambda stream: with_trees(stream[:15]),
    "leaves": of_leaves,
    "leaves in float32": lambda stream: of_leaves(stream, is_single=True),
    "score of weights": lambda stream: of_score(stream, pr.FixedRanker({NAMES[3]: 0.25, NAMES[0]: -2.0})),
    "score of unnamed weights": lambda stream: of_score(stream, pr.FixedRanker(np.arange(5.0))),
    "score of leaves": lambda stream: of_score(stream, of_leaves(stream, is_single=True)),
    "score of weights and trees": lambda stream: of_score(stream, with_trees(stream)),
    "score of trees and weights": lambda stream: learned_of(
        stream, [pr.Trees(n_trees=5, first_fit=20), pr.ScoreOf(pr.FixedRanker(np.arange(6.0))), "running"]
    ),
}


def learned_of(stream, transforms):
    ranker = pr.ListwisePerceptron(transforms=transforms)
    ranker.learn(stream)
    return ranker


@pytest.fixture(scope="module")
def models():
    stream = shaped()
    return {name: make(stream) for name, make in MODELS.items()}


def around_thresholds(model, kind=np.float64):
    """Documents in which one feature after the other is at a threshold, right beside it, 0, or beyond all of them."""
    forest, stream = fold(model).forest, shaped()
    rows = []
    for place, threshold in zip(forest.features.tolist(), forest.thresholds.tolist(), strict=True):
        at = kind(threshold)
        for value in (at, np.nextafter(at, kind(np.inf)), np.nextafter(at, kind(-np.inf)), kind(0.0), kind(1e30)):
            row = stream.X[len(rows) % len(stream.X)].copy()
            row[place] = float(value)
            rows.append(row)
    X = np.array(rows)
    return pr.QueryStream.from_arrays(X, np.arange(len(X)) % 3, qid=np.arange(len(X)) // 20, feature_names=NAMES)


def options_of(target):
    if target == "ranklib":
        return {"jar": next(one for one in classpath("ranklib").split(os.pathsep) if "RankyMcRankFace" in one)}
    if target == "javascript" and shutil.which("node") is None:
        pytest.skip("there is no node")
    return {}


def check(model, stream, target, **options):
    found = parity(model, stream, target, **options)
    assert found.agrees, found
    assert found.same == found.queries == len(stream)
    return found


# One sum


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_one_sum(models, name):
    model, stream = models[name], shaped(seed=3)
    folded, expected = fold(model), model.predict(stream)
    np.testing.assert_allclose(folded.scores(stream.X), expected, atol=1e-12 * np.abs(expected).max())
    assert (folded.forest is None) == (name in ("no trees yet", "score of weights", "score of unnamed weights"))
    assert folded.weights.any() == ("leaves" not in name.split(" in ")[0].split() or "score" in name.split())
    if folded.forest is not None:
        lows, highs = folded.forest.ranges()
        assert (lows < highs).all()
        at = around_thresholds(model)
        np.testing.assert_allclose(folded.scores(at.X), model.predict(at), rtol=1e-9, atol=1e-12)


def test_the_sum_of_forests_by_definition():
    """Trees of a sum, in double and in single precision, some constant."""
    X = shaped(names=None).X
    forests = [random_forest(3), random_forest(2, seed=1, is_single=True), random_forest(0), random_forest(1, seed=2)]
    joined, constant = join_forests(forests)
    assert joined.n_trees == 6
    assert constant == 4 * 1.75
    at = np.repeat(joined.thresholds, 5).reshape(-1, 5)
    for rows in (X, at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)):
        expected = sum(forest.scores(rows) for forest in forests)
        np.testing.assert_allclose(joined.scores(rows) + constant, expected, rtol=1e-12, atol=1e-12)
    assert join_forests([random_forest(0)]) == (None, 1.75)
    assert join_forests([]) == (None, 0.0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3))
@example(-(2.0**-149), 0)
def test_a_threshold_of_float32_in_double_precision(threshold, steps):
    builder = ForestBuilder()
    builder.add([0], [threshold], [-1], [-2], [NAN], [0.0, 1.0])
    single = builder.forest(1, is_single=True)
    double = single.in_double()
    assert not double.is_single
    value = double.thresholds[0]
    for _ in range(abs(steps)):
        value = np.nextafter(value, math.copysign(np.inf, steps))
    if abs(value) < 2.0**128:
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        assert (value <= double.thresholds[0]) == (rounded <= threshold)
        assert double.scores(np.array([[value]])) == (0.0 if rounded <= threshold else 1.0)


def test_trees_that_look_at_a_score_or_at_transformed_features_are_refused():
    stream = shaped()
    now = pr.ScoreOf(pr.FixedRanker({NAMES[0]: 0.5, NAMES[4]: 1.0}))
    for transforms, said in [
        (
            [now, pr.Trees(n_trees=5, first_fit=20), "running"],
            "by trees that look at what ScoreOf.* learn the trees without it",
        ),
        (["running", pr.Trees(n_trees=5, first_fit=20)], r"Trees\(5\) of features after Running.* the other way round"),
        (
            [pr.Trees(n_trees=5, first_fit=20), "auto"],
            r"other documents .* export to 'onnx', .* again with transforms=\['trees', 'running'\]",
        ),
        ([now, "auto"], "other documents of the query, so no weights .* rank alike: learn again with"),
        ([pr.Trees(n_trees=5, first_fit=20), "bins"], "Trees.*functions of all features together"),
    ]:
        model = learned_of(stream, transforms)
        for target in ("python", "solr", "vespa"):
            with pytest.raises(ValueError, match=said):
                pr.deploy.export(model, target)


def test_a_score_beside_sparse_features():
    """Features that are absent are 0 in the exported file, too."""
    stream = shaped().to_sparse()
    model = of_score(stream, pr.FixedRanker({NAMES[3]: 0.25, NAMES[0]: -2.0}))
    for target in ("python", "sql", "vespa", "solr"):
        check(model, stream, target)
    names = {}
    exec(pr.deploy.export(model, "python").text, names)
    assert names["score"]({}) == names["score"](dict.fromkeys(NAMES, 0.0))


@pytest.mark.parametrize("target", ["python", "javascript", "sql"])
def test_a_score_of_trees_beside_sparse_features(target, tmp_path):
    """Trees, too, take features that are absent for 0."""
    stream = shaped()
    model = of_score(stream.to_sparse(), of_leaves(stream))
    check(model, stream.to_sparse(), target)
    text = pr.deploy.export(model, target).text
    if target == "python":
        absent = runpy.run_path(str(write(tmp_path / "model.py", text)))["score"]({})
    elif target == "javascript":
        write(tmp_path / "model.mjs", text)
        run = write(tmp_path / "run.mjs", 'import { score } from "./model.mjs";\nconsole.log(score({}));')
        absent = float(subprocess.run(["node", run], capture_output=True, text=True, check=True).stdout)
    else:
        with pytest.importorskip("duckdb").connect() as connection:
            columns = ", ".join(f"CAST(NULL AS DOUBLE) AS {quoted(name)}" for name in NAMES)
            connection.execute(f"CREATE TABLE documents AS SELECT {columns}")
            absent = connection.execute(text).fetchone()[-1]
    assert absent == pytest.approx(float(model.predict(np.zeros((1, 5)))[0]), rel=1e-12)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_trees_that_take_zeros_as_missing_are_refused():
    stream = shaped()
    forest = random_forest()
    leaves = pr.TreeLeaves(replace(forest, missing=np.full_like(forest.missing, ZERO)))
    for target in (*IN_DOUBLE, *TREES):
        with pytest.raises(ValueError, match="that take zeros as missing cannot be exported: fit them without"):
            pr.deploy.export(learned_of(stream, leaves), target)


# Engines in double precision


@pytest.mark.parametrize("target", IN_DOUBLE)
@pytest.mark.parametrize("name", MODELS)
def test_documents_at_thresholds_score_as_for_the_model(models, target, name):
    options = options_of(target)
    check(models[name], shaped(seed=3), target, **options)
    if fold(models[name]).forest is not None:
        check(models[name], around_thresholds(models[name]), target, **options)


def test_postgresql_scores_as_the_model_does(models, postgresql):
    for name in ("weights and trees", "leaves in float32", "score of leaves"):
        check(models[name], around_thresholds(models[name]), "sql", dialect="postgresql", url=postgresql)


@pytest.mark.engine
@pytest.mark.parametrize("target", ["vespa", "pmml"])
def test_the_engines_themselves_score_as_the_model_does(models, target):
    for name in ("weights and trees", "leaves", "score of leaves"):
        check(models[name], around_thresholds(models[name]), target, harness=java_engines.harness(target))


def gapped():
    stream = shaped()
    X = np.where(np.random.default_rng(1).random(stream.X.shape) < 0.2, np.nan, stream.X)
    return pr.QueryStream.from_arrays(
        X, stream.relevance, group=np.diff(stream.offsets), feature_names=NAMES, missing="keep"
    )


@pytest.mark.parametrize("indicator", [False, True])
@pytest.mark.parametrize("target", ["vespa", "pmml"])
def test_missing_values_are_filled_in_before_the_trees(target, indicator):
    stream = gapped()
    model = with_trees(stream, [pr.Missing(indicator=indicator), "running"])
    check(model, stream, target)
    with pytest.raises(ValueError, match=r"Missing.*export to 'onnx'"):
        pr.deploy.export(model, "python")


@pytest.mark.engine
@pytest.mark.parametrize("target", ["vespa", "pmml"])
def test_the_engines_themselves_fill_in_missing_values(target):
    stream = gapped()
    model = with_trees(stream, [pr.Missing(indicator=True), "running"])
    check(model, stream, target, harness=java_engines.harness(target))


def test_values_that_are_missing_or_not_finite(tmp_path):
    """Of a feature that only trees look at, too."""
    duckdb = pytest.importorskip("duckdb")
    stream = shaped(names=None)
    model = of_leaves(stream)
    pr.deploy.export(model, "python").save(tmp_path / "scoring.py")
    scoring = runpy.run_path(str(tmp_path / "scoring.py"))
    row = {f"f{j}": value for j, value in enumerate(stream.X[0].tolist(), 1)}
    assert scoring["score"](row) == pytest.approx(float(model.predict(stream.X[:1])[0]), rel=1e-12)
    assert scoring["rank"]([row, row]) == [0, 1]
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="features must be finite numbers"):
            scoring["score"]({**row, "f1": wrong})
    with pytest.raises(KeyError, match="f1"):
        scoring["score"]({})
    text = pr.deploy.export(model, "sql").text
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE documents (f1 DOUBLE, f2 DOUBLE, f3 DOUBLE, f4 DOUBLE, f5 DOUBLE)")
        connection.execute("INSERT INTO documents VALUES (NULL, 1, 1, 1, 1), ('NaN', 1, 1, 1, 1), (0.5, 1, 1, 1, 1)")
        null, nan, number = (score for (score,) in connection.execute(f"SELECT score FROM ({text})").fetchall())
    assert null is None
    assert math.isnan(nan)
    assert math.isfinite(number)


# Engines of trees in float32


@pytest.mark.parametrize("target", TREES)
@pytest.mark.parametrize("name", ["leaves", "leaves in float32"])
def test_trees_alone_go_to_every_engine(models, target, name):
    model, options = models[name], options_of(target)
    assert fold(model).kind == "trees"
    check(model, shaped(seed=3), target, **options)
    at = around_thresholds(model, np.float32)
    if target == "solr":  # whose thresholds are a little larger near 0, and which says so
        assert not any("undone here, but for" in note for note in pr.deploy.export(model, "solr").notes)
    found = check(model, at, target, **options)
    said = "a document whose features float32 holds is in the leaves that it is in for the model"
    assert any(said in note for note in found.notes)


@pytest.mark.parametrize("target", TREES)
def test_weights_and_trees_are_refused_with_the_way_out(models, target):
    said = (
        rf"^{target} takes weights or trees, and this model has both: learn with `TreeLeaves\(model.trees.forest\)` as "
        f"the only transform, or export to 'python', .* by the option values of {target}$"
    )
    for name in ("weights and trees", "score of leaves"):
        with pytest.raises(ValueError, match=said):
            pr.deploy.export(models[name], target)
    for name in ("no trees yet", "score of weights"):
        check(models[name], shaped(seed=3), target, **options_of(target))


@pytest.mark.parametrize("target", TREES)
def test_weights_of_few_values_are_trees(target, tmp_path):
    """Of all values that there are, 0 and negative ones among them."""
    stream = shaped(120, rounded=2)
    model = with_trees(stream)
    pr.write_letor(stream, tmp_path / "documents.txt")
    options = options_of(target)
    found = check(model, stream, target, values=stream, **options)
    said = (
        "weights are trees with a leaf for each value that a feature has in the 960 documents of the stream: a document"
    )
    assert any(note.startswith(said) for note in found.notes)
    unnamed = shaped(120, rounded=2, names=None)
    check(with_trees(unnamed), unnamed, target, values=tmp_path / "documents.txt", **options)
    others = stream.with_features(stream.X + 0.2)
    assert not parity(model, others, target, values=stream, **options).agrees
    with pytest.raises(ValueError, match=f"values of {target}: '.*' has more than the 256 of a tree: learn with"):
        pr.deploy.export(model, target, values=shaped(120))
    with pytest.raises(ValueError, match=f"values of the target {target} must be a file or a stream, got 3"):
        pr.deploy.export(model, target, values=3)
    with pytest.raises(ValueError, match="are for models with weights and trees, got a linear model"):
        pr.deploy.export(pr.FixedRanker({"a": 1.0}), target, values=stream)


@pytest.mark.parametrize("target", ["opensearch", "solr"])
def test_a_shift_makes_scores_positive(models, target):
    stream = shaped(seed=3)
    for shift in ("auto", 90.0, stream):
        check(models["leaves"], stream, target, shift=shift)
    notes = pr.deploy.export(models["leaves"], target, shift="auto").notes
    assert any("in the leaves of the first tree: all documents score 0 or more" in note for note in notes)
    drafted = pr.deploy.export(models["leaves"], target, part="features").text
    assert "naïve" in json.dumps(json.loads(drafted), ensure_ascii=False)


@pytest.mark.parametrize("target", TREES)
def test_leaves_that_float32_cannot_hold(target):
    forest = random_forest()
    model = pr.ListwisePerceptron(transforms=pr.TreeLeaves(forest), initial_weights=forest.values * 1e39)
    model.learn(shaped(1))
    with pytest.raises(ValueError, match=rf"^{target} computes with float32, which cannot hold the .* adds to a score"):
        pr.deploy.export(model, target)


@pytest.mark.parametrize("version", ["2.19", "3.7", "3.8"])
def test_the_stand_in_scores_as_the_emulation_does(models, version):
    stream = shaped(12, seed=3)
    stand_in = LtrStandIn(IndexesInMemory(), version=version)
    with served(stand_in) as url:
        found = check(models["leaves"], stream, "opensearch", url=url)
    assert found.difference == parity(models["leaves"], stream, "opensearch").difference


@pytest.mark.engine
def test_opensearch_computes_the_features(models):
    stream = shaped(4, seed=3)
    with opensearch_server() as address, served(LtrStandIn(RealIndexes(address))) as url:
        check(models["leaves"], stream, "opensearch", url=url)


@pytest.mark.engine
def test_solr_scores_as_the_model_does(models, tmp_path):
    write_solr_core(tmp_path / "empty")
    few = shaped(120, rounded=2)
    with solr_server(tmp_path) as address:
        for model, stream, options in [
            (models["leaves"], around_thresholds(models["leaves"], np.float32), {"shift": "auto"}),
            (with_trees(few), few[:20], {"values": few}),
        ]:
            found = check(model, stream, "solr", url=f"{address}/empty", **options)
            assert found.difference == parity(model, stream, "solr", **options).difference  # to the bit


@pytest.mark.parametrize(
    "name", ["MQ2008 Fold1 train", *(pytest.param(one, marks=pytest.mark.deep) for one in ["MSLR sample"])]
)
def test_real_streams_are_in_the_same_order(name):
    real = pr.read_letor(real_streams.find(name))
    model = pr.WithTrees(pr.ListwisePerceptron(transforms="running"), n_trees=20, first_fit=40)
    model.learn(real)
    for target in IN_DOUBLE:
        found = parity(model, real[:40], target, **options_of(target))
        assert found.agrees, found
    leaves = pr.TreeLeaves(model.trees.forest)
    alone = pr.ListwisePerceptron(transforms=leaves, initial_weights=leaves.start_weights(real))
    alone.learn(real)
    for target in ("elasticsearch", "solr", "ranklib"):
        found = parity(alone, real[:40], target, **options_of(target))
        assert found.agrees, found


# Commands


def test_commands_take_models_of_trees(models, tmp_path):
    stream = shaped(12, seed=3)
    pr.write_parquet(stream, tmp_path / "test.parquet")
    for name, to in [("weights and trees", "javascript"), ("leaves", "solr"), ("score of leaves", "sql")]:
        models[name].save(tmp_path / "model.json")

        def run(command, *words):
            done = CliRunner().invoke(app, [command, str(tmp_path / "model.json"), *map(str, words)])
            assert done.exit_code == 0, done.output
            return done

        run("export", "--to", to, "--out", tmp_path / "exported")
        assert (tmp_path / "exported").stat().st_size > 1000
        assert "they rank alike" in run("parity", tmp_path / "test.parquet", "--to", to).stdout
        assert run("show", tmp_path / "test.parquet").stdout
