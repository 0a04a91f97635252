"""Rank profiles of Vespa and regression models of PMML: scored by the engines themselves, and as they are read here."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support import java_engines, real_streams

import perceptrank as pr
from perceptrank.deploy.engines.vespa import RESERVED
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import fold_filled
from perceptrank.transforms import Missing

TARGETS = ["vespa", "pmml"]
NAMES = ["title bm25", "Price", "price", "if", "9 lives", "検索", "a'<&>\"\\"]


@pytest.fixture(scope="module")
def gaps():
    """Features of awkward names and very different scales, a fifth of them missing."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 7)) * [1.0, 1e-7, 1e5, 3.0, 1.0, 1e3, 2.0] + [1e6, 0.0, -5.0, 0.0, 1e-3, 0.0, 7.0]
    X[rng.random(X.shape) < 0.2] = np.nan
    grades = rng.integers(0, 3, 90)
    return pr.QueryStream.from_arrays(X, grades, group=[6] * 15, feature_names=NAMES, missing="keep")


def fixed(weights):
    model = pr.FixedRanker(weights)
    X = np.eye(2, len(weights))
    model.learn(pr.QueryStream.from_arrays(X, [0, 1], group=[2], feature_names=list(weights)))
    return model


def learned_with_gaps(gaps, fill="mean", indicator=True):
    model = pr.ListwisePerceptron(transforms=[Missing(fill, indicator=indicator), "running"])
    model.learn(gaps)
    return model


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transforms", [None, "running", "running-spread", ["running", "running"]], ids=str)
def test_files_mean_what_the_model_does(learned, stream, target, transforms):
    found = pr.deploy.parity(learned(transforms), stream, target)
    assert found.agrees, found
    assert (found.same, found.queries, found.documents) == (40, 40, stream.n_documents)
    assert found.engine == "emulated in double precision (no engine was asked: set harness)"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("indicator", [False, True])
@pytest.mark.parametrize("fill", ["mean", "zero", -2.5])
def test_missing_values_count_as_in_the_model(gaps, target, fill, indicator):
    model = learned_with_gaps(gaps, fill, indicator)
    found = pr.deploy.parity(model, gaps, target)
    assert found.agrees, found
    assert any("count" in note for note in found.notes)
    assert any("what missing values become is what the model has now" in note for note in found.notes) == (
        fill == "mean"
    )


@pytest.mark.engine
@pytest.mark.parametrize("target", TARGETS)
def test_the_engines_themselves_score_as_the_model_does(gaps, target):
    """All at once: names that must be changed, missing values, indicators, means far from 0, a second phase."""
    options = {"harness": java_engines.harness(target)}
    if target == "vespa":
        options |= {"phase": "second", "rerank_count": 20, "inherits": "base", "profile_name": "shop-2"}
    found = pr.deploy.parity(learned_with_gaps(gaps), gaps, target, **options)
    assert found.agrees, found
    assert (found.same, found.documents) == (15, 90)
    assert re.fullmatch(
        {"vespa": r"Vespa 8\.[\d.]+, its .*", "pmml": r"JPMML evaluator 1\.[\d.]+"}[target], found.engine
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_real_streams_are_in_the_same_order(target, name):
    real = pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = pr.deploy.parity(model, real, target)
    assert found.agrees
    assert found.same == found.queries == len(real)


@pytest.mark.engine
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "n"), [("MSLR sample", 4), pytest.param("MQ2008 Fold1 train", 471, marks=pytest.mark.deep)]
)
def test_the_engines_rank_real_streams_in_the_same_order(target, name, n):
    folder, real = java_engines.harness(target), pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = pr.deploy.parity(model, real[:n], target, harness=folder)
    assert found.agrees
    assert found.same == found.queries == n


def test_a_rank_profile():
    model = fixed({"title": 2.0, "price": -0.25, "unused": 0.0})
    exported = pr.deploy.export(model, "vespa", profile_name="shop", inherits="base", phase="second", rerank_count=50)
    assert "rank-profile shop inherits base {" in exported.text
    assert "function feature_title() {\n        expression: attribute(title)\n    }" in exported.text
    terms = ["            2.0 * feature_title", "            - 0.25 * feature_price"]
    inside = "\n".join(["        rerank-count: 50", "        expression {", *terms, "        }"])
    assert f"    second-phase {{\n{inside}\n    }}\n}}\n" in exported.text
    assert "1 of 3 features have no weight and are left out" in exported.notes
    assert any("is ranked last" in note for note in exported.notes)
    assert any("rerank-count" in note for note in exported.notes)


def test_names_of_vespa_are_unique_words_whatever_their_case(gaps):
    names = ["Index", "a b", "a_b", "A-B", "-", "_private", "ü", "plain"]
    model = fixed({name: 1.0 + place for place, name in enumerate(names)})
    exported = pr.deploy.export(model, "vespa")
    words = re.findall(r"attribute\((\w+)\)", exported.text)
    assert words == ["Index_field", "a_b", "a_b_2", "A_B_3", "x", "private", "x_2", "plain"]
    assert len({word.lower() for word in words}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z]\w*", word, re.ASCII) and not RESERVED.fullmatch(word) for word in words)
    said = next(note for note in exported.notes if "ignore case" in note)
    assert "'A-B' is A_B_3" in said
    assert "'plain'" not in said


def test_rank_features_of_vespa_are_taken_as_they_are():
    names = ["bm25(title)", "fieldMatch(title).completeness", "nativeRank", "closeness(field, vector)"]
    model = fixed(dict.fromkeys(names, 0.5))
    X = np.random.default_rng(0).normal(size=(9, 4))
    stream = pr.QueryStream.from_arrays(X, np.zeros(9), group=[9], feature_names=names)
    text = pr.deploy.export(model, "vespa", source="feature").text
    assert "expression: fieldMatch(title).completeness\n" in text
    assert pr.deploy.parity(model, stream, "vespa", source="feature").agrees
    for wrong in ["title bm25", "bm25(title", "a + b", "bm25(a)b", "a)"]:
        with pytest.raises(ValueError, match="is not written as a rank feature of Vespa"):
            pr.deploy.export(fixed({wrong: 1.0}), "vespa", source="feature")


@pytest.mark.deep
def test_vespa_takes_rank_features_as_they_are():
    names = ["bm25(title)", "fieldMatch(title).completeness", "nativeRank", "closeness(field, vector)"]
    X = np.random.default_rng(0).normal(size=(9, 4))
    stream = pr.QueryStream.from_arrays(X, np.zeros(9), group=[9], feature_names=names)
    folder = java_engines.harness("vespa")
    assert pr.deploy.parity(fixed(dict.fromkeys(names, 0.5)), stream, "vespa", harness=folder, source="feature").agrees


def test_a_regression_model_of_pmml(gaps):
    model = fixed({"title": 2.0, "price": -0.25})
    exported = pr.deploy.export(model, "pmml", model_name="shop", score="rank")
    space = {"p": "http://www.dmg.org/PMML-4_4"}
    document = ET.fromstring(exported.text)
    (found,) = document.findall("p:RegressionModel", space)
    assert found.attrib["normalizationMethod"] == "none"
    assert found.attrib["functionName"] == "regression"
    table = {one.attrib["name"]: one.attrib["coefficient"] for one in found.findall(".//p:NumericPredictor", space)}
    assert table == {"title": "2.0", "price": "-0.25"}
    (output,) = found.findall(".//p:OutputField", space)
    assert (output.attrib["name"], output.attrib["dataType"]) == ("rank", "double")
    treatments = {one.attrib["missingValueTreatment"] for one in found.findall(".//p:MiningField", space)}
    assert treatments == {"returnInvalid"}
    filled = ET.fromstring(pr.deploy.export(learned_with_gaps(gaps, -2.5, False), "pmml").text)
    replaced = {one.attrib["missingValueReplacement"] for one in filled.findall(".//p:MiningField", space)}
    assert replaced == {"-2.5"}


@pytest.mark.parametrize("target", TARGETS)
def test_sparse_models_take_an_absent_feature_for_0(target):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 20)) < 0.2, rng.normal(size=(60, 20)), 0.0)
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 60), group=[6] * 10).to_sparse()
    model = pr.ListwisePerceptron()
    model.learn(stream)
    assert pr.deploy.parity(model, stream, target).agrees
    function, chosen = RankingFunction.of(model), make_target(target, {})
    absent = np.where(X == 0.0, np.nan, X)
    expected = chosen.scores(function, chosen.export(function), X, np.array([0, 60]))
    np.testing.assert_array_equal(chosen.scores(function, chosen.export(function), absent, np.array([0, 60])), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_what_cannot_be_expressed_is_refused(learned, target):
    with pytest.raises(ValueError, match=r"depends on the other documents of the query.*export to 'onnx'"):
        pr.deploy.export(learned("auto"), target)
    with pytest.raises(ValueError, match=r"is not linear in each feature.*export to 'onnx'"):
        pr.deploy.export(learned("signed-log"), target)
    with pytest.raises(FileNotFoundError, match=r"harness must be a folder with a pom\.xml and a Harness\.java"):
        pr.deploy.parity(learned(), pr.separable(5).stream, target, harness="no such folder")


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("vespa", {"phase": "third"}, "phase of the target vespa must be one of 'first', 'second', got 'third'"),
        ("vespa", {"source": "query"}, "source of the target vespa must be one of 'attribute', 'feature'"),
        ("vespa", {"profile_name": "two words"}, "profile_name of the target vespa must be a word"),
        ("vespa", {"inherits": ""}, "inherits of the target vespa must be a word"),
        (
            "vespa",
            {"phase": "second", "rerank_count": 0},
            "rerank_count of the target vespa must be a whole number > 0",
        ),
        ("vespa", {"rerank_count": 10}, "rerank_count of the target vespa needs phase=second"),
        ("pmml", {"score": ""}, "score of the target pmml must be a name"),
        ("pmml", {"model_name": "a\nb"}, "model_name of the target pmml must be a name without control characters"),
        ("pmml", {"score": "title"}, "a feature is called 'title', as the output: set the option score of pmml"),
    ],
)
def test_bad_options_are_refused(target, options, said):
    with pytest.raises(ValueError, match=said):
        pr.deploy.export(fixed({"title": 1.0}), target, **options)


@pytest.mark.parametrize("name", ["tab\there", " space", "", "\x00"])
def test_names_that_xml_cannot_hold_are_refused(name):
    with pytest.raises(ValueError, match="PMML cannot hold a feature called"):
        pr.deploy.export(fixed({name: 1.0, "title": 2.0}), "pmml")


def test_columns_are_those_of_raw_features(gaps):
    """A feature whose own weight is 0 but whose indicator has one is still asked for."""
    model = learned_with_gaps(gaps)
    filled = fold_filled(RankingFunction.of(model))
    assert filled.used == tuple(NAMES)
    assert [one.is_indicator for one in filled.terms] == [False] * 7 + [True] * 7
    np.testing.assert_array_equal(filled.columns(gaps.X), gaps.X)
