"""Models for search engines that compute with float32: their emulation, and RankLib itself.

RankLib comes from Maven's local repository. PERCEPTRANK_FETCH=1 lets Maven download it.
"""

import json
import os
import re

import numpy as np
import pytest
from support import real_streams
from support.boundaries import learned_bins
from support.engines import classpath

import perceptrank as pr
from perceptrank.deploy import fold, parity
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.io.weights_file import read_weights

FLOAT = np.finfo(np.float32).eps


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr"])
@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_real_streams_are_in_the_same_order(target, name):
    real = pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = parity(model, real, target)
    assert found.agrees
    assert found.reversed == 0
    assert found.engine.startswith("emulated in float32")
    assert "no engine was asked" in found.engine


@pytest.mark.parametrize("target", ["elasticsearch", "solr"])
def test_random_models_are_within_four_units_of_float32_per_feature(target, learned_floats):
    for seed in range(20):
        model, stream = learned_floats(seed, n=60, d=1 + 2 * seed)
        found = parity(model, stream, target)
        assert found.agrees, (seed, found)
        assert found.tolerance == 4 * FLOAT * (fold(model).weights != 0).sum()


def test_the_request_of_elasticsearch(learned_floats):
    model, _ = learned_floats(d=3)
    exported = pr.deploy.export(model, "elasticsearch", model_name="shop")
    body = json.loads(exported.text)["model"]
    weights = json.loads(body["model"]["definition"])
    folded = fold(model)
    assert body["name"] == "shop"
    assert body["model"]["type"] == "model/linear"
    for j, name in enumerate(["field_0", "field_1", "field_2"]):
        how = body["model"]["feature_normalizers"][name]["standard"]
        assert weights[name] == np.float32(folded.weights[j] * folded.spreads[j])
        assert how == {"mean": np.float32(folded.offsets[j]), "standard_deviation": np.float32(folded.spreads[j])}
    raw = json.loads(pr.deploy.export(model, "elasticsearch", normalizers=False).text)["model"]["model"]
    assert "feature_normalizers" not in raw
    assert json.loads(raw["definition"])["field_1"] == np.float32(folded.weights[1])
    assert any("scores may be negative" in note for note in exported.notes)
    assert any("is 0 before it is standardised" in note for note in exported.notes)
    notes = pr.deploy.export(model, "elasticsearch", normalizers=False).notes
    assert f"there is no bias: {folded.constant:g} is left out of every score, which changes no order" in notes


def test_what_float32_cannot_hold_is_refused_or_said(learned):
    stream = pr.QueryStream.from_arrays([[1e-42, 1.0], [3e-42, 2.0], [2e-42, 0.5]], [0, 2, 1], feature_names=["a", "b"])
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(stream)
    assert pr.deploy.export(model, "python").notes
    with pytest.raises(
        ValueError, match=r"solr computes with float32, which cannot hold the weight .* of the feature 'a'"
    ):
        pr.deploy.export(model, "solr", normalizers=False)
    for weight in (1e-46, 1e-40, 4e38):  # of 1e-40 float32 holds a few digits only
        with pytest.raises(ValueError, match=f"cannot hold the weight {weight:g}".replace("+", r"\+")):
            pr.deploy.export(pr.FixedRanker({"a": weight, "b": 1.0}), "solr")
    notes = pr.deploy.export(learned(), "elasticsearch").notes
    assert any("float32 holds few digits of what distinguishes documents in 'title bm25'" in note for note in notes)
    with pytest.raises(ValueError, match="depends on the other documents of the query"):
        pr.deploy.export(learned("auto"), "solr")
    for options, said in [
        ({"model_name": "two words"}, "model_name of the target solr must be a word"),
        ({"normalizers": 1}, "normalizers of the target solr must be true or false"),
        ({"part": "all"}, "part of the target solr must be one of 'model', 'features'"),
        ({"store": ""}, "store of the target solr must be a name"),
    ]:
        with pytest.raises(ValueError, match=said):
            pr.deploy.export(learned(), "solr", **options)


def test_a_float32_engine_that_cannot_tell_documents_apart_does_not_agree(learned, stream):
    """One feature is 1,000,000 plus a few units."""
    found = parity(learned(), stream, "elasticsearch")
    assert not found.agrees


@pytest.mark.engine
def test_ranklib_scores_as_the_model_does(learned_floats):
    jar = next(one for one in classpath("ranklib").split(os.pathsep) if "RankyMcRankFace" in one)
    model, stream = learned_floats(d=12)
    found = parity(model, stream, "ranklib", jar=jar)
    assert found.agrees, found
    assert found.engine.startswith("RankLib (RankyMcRankFace")
    assert any("there is no bias" in note for note in found.notes)
    assert any("from 1 for 'field_0' to 12 for 'field_11'" in note for note in found.notes)


def test_ranklib_needs_its_jar(tmp_path, learned_floats):
    model, stream = learned_floats(d=3)
    with pytest.raises(FileNotFoundError, match="the option jar of ranklib must be RankLib's jar file, got None"):
        parity(model, stream, "ranklib")


def emulated(model, stream, target, **options):
    """The scores of the emulation."""
    function = RankingFunction.of(model)
    chosen = make_target(target, options).settled(model, function)
    return chosen.scores(function, chosen.export(function), stream.X, stream.offsets)


@pytest.mark.parametrize("target", ["opensearch", "solr"])
def test_a_shift_is_added_by_a_feature_that_is_one(learned_floats, target):
    model, stream = learned_floats(d=4)
    plain, shifted = emulated(model, stream, target), emulated(model, stream, target, shift=12.5)
    assert np.abs(shifted - 12.5 - plain).max() <= 4 * FLOAT * 5 * np.abs(shifted).max()
    assert (plain < 0).any()
    assert parity(model, stream, target, shift=12.5).agrees
    exported = pr.deploy.export(model, target, shift=12.5)
    assert any("documents that scored -12.5 or more score 0 or more, others may not" in note for note in exported.notes)
    assert not any("scores may be negative" in note for note in exported.notes)
    body, features = (
        json.loads(exported.text),
        json.loads(pr.deploy.export(model, target, shift=12.5, part="features").text),
    )
    if target == "solr":
        assert body["params"]["weights"]["perceptrank_shift"] == 12.5
        assert body["features"][-1] == {"name": "perceptrank_shift"}
        assert (features[-1]["class"], features[-1]["params"]) == (
            "org.apache.solr.ltr.feature.ValueFeature",
            {"value": 1},
        )
    else:
        assert json.loads(body["model"]["model"]["definition"])["perceptrank_shift"] == 12.5
        assert "perceptrank_shift" not in body["model"]["model"]["feature_normalizers"]
        assert features["featureset"]["features"][-1]["template"] == {"match_all": {}}
    assert pr.deploy.export(model, target, shift=0).text == pr.deploy.export(model, target).text


@pytest.mark.parametrize("normalizers", [True, False])
def test_a_shift_for_the_documents_of_a_stream(learned_floats, normalizers):
    for seed in range(15):
        model, stream = learned_floats(seed, n=60, d=1 + 2 * seed)
        plain = emulated(model, stream, "opensearch", normalizers=normalizers)
        shifted = emulated(model, stream, "opensearch", normalizers=normalizers, shift=stream)
        assert shifted.min() >= 0.0
        size = (np.abs(stream.X) + np.abs(fold(model).offsets)) @ np.abs(fold(model).weights)
        assert shifted.min() <= 0.011 * max(-plain.min(), 0.0) + 8 * FLOAT * (2 * seed + 3) * size.max() + max(
            plain.min(), 0
        )
        assert parity(model, stream, "opensearch", normalizers=normalizers, shift=stream).agrees


def test_a_shift_for_the_documents_of_a_file(learned_floats, tmp_path):
    model, stream = learned_floats(d=4)
    part = stream[3:9]
    path = tmp_path / "part.txt"
    pr.write_letor(part, path)
    exported = pr.deploy.export(model, "opensearch", shift=str(path))
    assert any(f"the 60 documents of {path} score 0 or more, others may not" in note for note in exported.notes)
    assert exported.text == pr.deploy.export(model, "opensearch", shift=part).text
    best = int(np.argmax(model.predict(stream)))
    alone = pr.QueryStream.from_arrays(stream.X[best : best + 1], [1], group=[1], feature_names=stream.feature_names)
    exported = pr.deploy.export(model, "opensearch", shift=alone)
    assert "no shift is needed: the 1 documents of the stream score 0 or more" in exported.notes
    assert "perceptrank_shift" not in exported.text


def test_a_shift_for_all_documents_without_negative_features():
    rng = np.random.default_rng(3)
    X = rng.exponential(size=(200, 3)) * [1.0, 50.0, 1e-3] + [5.0, 0.0, 0.0]
    stream = pr.QueryStream.from_arrays(
        X, np.round(X @ [1.0, 0.02, 1e3] - 5), group=[10] * 20, feature_names=["a", "b", "c"]
    )
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(stream)
    assert (fold(model).weights > 0).all()
    others = pr.QueryStream.from_arrays(
        np.vstack([np.zeros((1, 3)), rng.exponential(size=(99, 3)) * 1e-2]),
        np.zeros(100),
        group=[100],
        feature_names=["a", "b", "c"],
    )
    assert emulated(model, others, "opensearch").min() < 0.0
    shifted = emulated(model, others, "opensearch", shift="auto")
    assert 0.0 <= shifted.min() <= 0.011 * -fold(model).constant
    notes = pr.deploy.export(model, "opensearch", shift="auto").notes
    assert any("documents without negative features score 0 or more, others may not" in note for note in notes)
    notes = pr.deploy.export(model, "opensearch", shift="auto", normalizers=False).notes
    assert "no shift is needed: documents without negative features score 0 or more" in notes


def test_bad_shifts(learned_floats, tmp_path):
    model, _ = learned_floats(d=5)
    falling = [name for name, weight, _ in fold(model).terms() if weight < 0]
    with pytest.raises(ValueError, match=rf"no shift suffices for all documents, because {falling[0]!r}"):
        pr.deploy.export(model, "opensearch", shift="auto")
    for shift, said in [
        (-1, "shift of the target opensearch must be >= 0 and within float32, got -1"),
        (float("nan"), "must be >= 0 and within float32, got nan"),
        (1e39, "must be >= 0 and within float32"),
        (True, "must be a number, 'auto', a file or a stream, got True"),
        (None, "must be a number, 'auto', a file or a stream, got None"),
    ]:
        with pytest.raises(ValueError, match=said):
            pr.deploy.export(model, "opensearch", shift=shift)
    with pytest.raises(FileNotFoundError):
        pr.deploy.export(model, "opensearch", shift=str(tmp_path / "missing.txt"))
    with pytest.raises(ValueError, match="timeout of the target solr must be a number > 0, got 0"):
        pr.deploy.export(model, "solr", timeout=0)
    stream = pr.QueryStream.from_arrays([[1.0], [0.0]], [1, 0], feature_names=["perceptrank_shift"])
    model = pr.ListwisePerceptron(transforms=None)
    model.learn(stream)
    with pytest.raises(ValueError, match="a feature is called 'perceptrank_shift', as that of the shift: rename it"):
        pr.deploy.export(model, "solr", shift=1.0)


def test_what_many_features_need_is_said():
    """A search of the plugin has a query per feature, or three for a difference of two."""
    for n, said in [(341, False), (342, True), (1026, True)]:
        model = pr.FixedRanker({f"g{j}": 1.0 for j in range(n)})
        for part in ("model", "features"):
            notes = " ".join(pr.deploy.export(model, "opensearch", part=part).notes)
            limit = f"each of {n:,} features.* more than 1,025 are 'too many nested clauses'.*bool.max_clause_count is"
            assert bool(re.search(limit, notes)) == said
    assert "clauses" not in " ".join(pr.deploy.export(model, "solr").notes)


def test_trees_say_that_parts_of_a_feature_must_match():
    model, _ = learned_bins(["bins:kind=one-hot"])
    notes = pr.deploy.export(model, "opensearch").notes
    assert any(
        "the parts of a feature that is a derived_expression must match every document" in note for note in notes
    )


@pytest.mark.parametrize("target", ["opensearch", "solr"])
def test_exported_weights_of_columns_without_names_are_a_model(target, tmp_path):
    """They name columns f1, f2, ..., which streams of LETOR files do not."""
    rng = np.random.default_rng(0)
    stream = pr.QueryStream.from_arrays(rng.normal(size=(60, 12)), rng.integers(0, 3, 60), group=[6] * 10)
    model = pr.ListwisePerceptron(transforms="running", zero=[0, 4])
    model.learn(stream)
    pr.deploy.export(model, target).save(tmp_path / "weights.json")
    again = pr.FixedRanker(read_weights(tmp_path / "weights.json"))
    assert parity(again, stream, "python").agrees
    for query in stream:
        assert again.rank(query.X).tolist() == model.rank(query.X).tolist()
    with pytest.raises(ValueError, match=r"must use f1 to f12, column numbers or a vector: .*no names, got 'f13'"):
        pr.FixedRanker({"f13": 1.0}).learn(stream)


def test_the_draft_of_a_feature_set(learned_floats):
    model, stream = learned_floats(d=2)
    exported = pr.deploy.export(model, "elasticsearch", part="features")
    first, second = json.loads(exported.text)["featureset"]["features"]
    assert (first["name"], second["name"]) == ("field_0", "field_1")
    how = first["template"]["function_score"]
    assert how["field_value_factor"] == {"field": "field_0", "missing": 0}
    assert any("no query may have negative scores" in note for note in exported.notes)
    for target in ("opensearch", "solr"):
        with pytest.raises(ValueError, match=f"parity with {target} needs part='model', got 'features'"):
            parity(model, stream, target, part="features")
    named = pr.QueryStream.from_arrays([[1.0], [0.0]], [1, 0], feature_names=["{{a}}"])
    model = pr.ListwisePerceptron(transforms=None)
    model.learn(named)
    with pytest.raises(ValueError, match=r"a name with {{ stands for a parameter: rename it"):
        pr.deploy.export(model, "elasticsearch", part="features")
