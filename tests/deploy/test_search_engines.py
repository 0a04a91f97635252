"""Models for search engines that compute with float32: Solr and RankLib themselves, and the emulation of the others.

The artefacts of Solr and RankLib come from Maven's local repository. PERCEPTRANK_FETCH=1 lets Maven download them.
"""

import functools
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from support import real_streams

import perceptrank as pr
from perceptrank.deploy import fold, parity
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction

ENGINES = Path(__file__).parents[1] / "engines"
SOLR_CONFIG = """\
<config>
  <luceneMatchVersion>8.11.4</luceneMatchVersion>
  <directoryFactory name="DirectoryFactory" class="solr.RAMDirectoryFactory"/>
  <indexConfig><lockType>single</lockType></indexConfig>
  <schemaFactory class="ClassicIndexSchemaFactory"/>
  <updateHandler class="solr.DirectUpdateHandler2"/>
  <requestHandler name="/select" class="solr.SearchHandler"/>
  <queryParser name="ltr" class="org.apache.solr.ltr.search.LTRQParserPlugin"/>
</config>
"""
SOLR_SCHEMA = """\
<schema name="documents" version="1.6">
  <fieldType name="string" class="solr.StrField"/>
  <fieldType name="float" class="solr.FloatPointField"/>
  <field name="id" type="string" stored="true"/>
  <dynamicField name="*" type="float" indexed="false" stored="true"/>
  <uniqueKey>id</uniqueKey>
</schema>
"""
REAL = "MQ2008 Fold1 train"
FLOAT = np.finfo(np.float32).eps


@functools.cache
def classpath(engine):
    """The class path of an engine's artefacts; skip if Maven does not have them."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("there is no mvn or no java")
    fetch = [] if os.environ.get("PERCEPTRANK_FETCH") else ["--offline"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "classpath")
        command = ["mvn", "-q", "-B", *fetch, "-f", str(ENGINES / engine / "pom.xml")]
        command += [f"-Dmdep.outputFile={made}", "dependency:build-classpath"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode or not made.exists():
            pytest.skip(f"{engine} is not in Maven's local repository: set PERCEPTRANK_FETCH=1 to download it")
        return made.read_text().strip()


def learned_floats(seed=0, n=300, d=30, **settings):
    """A model and documents whose features float32 holds; scales over eight orders of magnitude."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, 4, size=d)
    X = (X + X.std(axis=0) * rng.uniform(-3, 3, size=d)).astype(np.float32).astype(np.float64)
    grades = np.digitize((X / X.std(axis=0)) @ rng.normal(size=d), [-4, 0, 4])
    stream = pr.QueryStream.from_arrays(
        X, grades, group=[10] * (n // 10), feature_names=[f"field_{j}" for j in range(d)]
    )
    model = pr.ListwisePerceptron(transforms="running", **settings)
    model.learn(stream)
    return model, stream


def write_core(folder, model, X, names, **options):
    """A core of Solr with fields for the features, and with features and model as they are when they were uploaded."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (folder / "core.properties").write_text(f"name={folder.name}\n")
    (conf / "solrconfig.xml").write_text(SOLR_CONFIG)
    (conf / "schema.xml").write_text(SOLR_SCHEMA)
    features = json.loads(pr.deploy.export(model, "solr", part="features", **options).text)
    exported = json.loads(pr.deploy.export(model, "solr", **options).text)
    for kind, stored in (("feature", features), ("model", [exported])):
        kept = {"initArgs": {}, "initializedOn": "2024-01-01T00:00:00.000Z", "managedList": stored}
        (conf / f"_schema_{kind}-store.json").write_text(json.dumps(kept))
    lines = ["\t".join(names), *("\t".join(map(repr, row)) for row in X.tolist())]
    (folder / "documents.tsv").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def solr(tmp_path_factory):
    """Scores of documents and their order by Solr, which runs once, in a process of its own, with three cores."""
    path, home = classpath("solr"), tmp_path_factory.mktemp("solr")
    (home / "solr.xml").write_text("<solr/>")
    model, stream = learned_floats()
    cases = {"standardised": (model, stream), "raw": (model, stream)}
    write_core(home / "standardised", model, stream.X, stream.feature_names)
    write_core(home / "raw", model, stream.X, stream.feature_names, normalizers=False)
    if (real_streams.FOLDER / real_streams.FILES[REAL]).exists():
        real = pr.read_letor(real_streams.find(REAL))
        model = pr.ListwisePerceptron(transforms="running")
        model.learn(real)
        cases["real"] = model, real[:60]
        write_core(home / "real", model, real[:60].X.astype(np.float64), [f"f{j}" for j in range(1, 47)])
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path, ENGINES / "solr" / "Harness.java", home]
    done = subprocess.run([*command, *cases], capture_output=True, text=True, check=False, cwd=home)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: (*case, *read_found(home / name / "found.tsv")) for name, case in cases.items()}


def read_found(path):
    pairs = [line.split("\t") for line in path.read_text().splitlines()]
    order = [int(document) for document, _ in pairs]
    scores = np.full(len(pairs), np.nan)
    scores[order] = [np.float32(score) for _, score in pairs]
    return scores, order


@pytest.mark.parametrize("how", ["standardised", "raw"])
def test_solr_scores_as_the_model_does(solr, how):
    model, stream, scores, order = solr[how]
    expected, folded = model.predict(stream), fold(model)
    left_out = folded.constant if how == "raw" else 0.0
    size = np.abs(expected).max() if how == "standardised" else (np.abs(stream.X) @ np.abs(folded.weights)).max()
    assert np.abs(scores + left_out - expected).max() <= 4 * FLOAT * 30 * size
    assert (np.diff(scores[order]) <= 0).all()
    target, function = make_target("solr", {"normalizers": how == "standardised"}), RankingFunction.of(model)
    emulated = target.scores(function, target.export(function), stream.X, stream.offsets)
    np.testing.assert_array_equal(scores, emulated)  # the emulation is Solr's to the bit


def test_solr_ranks_a_real_stream_in_the_same_order(solr):
    if "real" not in solr:
        pytest.skip(f"there is no {REAL}")
    model, part, scores, _ = solr["real"]
    expected = model.predict(part.with_features(part.X.astype(np.float64)))
    for start, stop in itertools.pairwise(part.offsets):
        assert_same_order(expected[start:stop], scores[start:stop])


def assert_same_order(expected, scores):
    """Pairs that differ by more than float32 can tell are in the same order."""
    gaps, found = expected[:, None] - expected[None, :], scores[:, None] - scores[None, :]
    tells = np.abs(gaps) > FLOAT * np.abs(expected).max()
    assert (np.sign(gaps)[tells] == np.sign(found)[tells]).all()


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr"])
@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_real_streams_are_in_the_same_order(target, name):
    real = pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = parity(model, real, target)
    assert found.agrees
    assert found.reversed == 0
    assert "emulation" in found.engine
    assert "no engine was asked" in found.engine


@pytest.mark.parametrize("target", ["elasticsearch", "solr"])
def test_random_models_are_within_four_units_of_float32_per_feature(target):
    for seed in range(20):
        model, stream = learned_floats(seed, n=60, d=1 + 2 * seed)
        found = parity(model, stream, target)
        assert found.agrees, (seed, found)
        assert found.tolerance == 4 * FLOAT * (fold(model).weights != 0).sum()


def test_the_request_of_elasticsearch():
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


def test_ranklib_scores_as_the_model_does():
    jar = next(one for one in classpath("ranklib").split(os.pathsep) if "RankyMcRankFace" in one)
    model, stream = learned_floats(d=12)
    found = parity(model, stream, "ranklib", jar=jar)
    assert found.agrees, found
    assert found.engine.startswith("RankLib (RankyMcRankFace")
    assert any("there is no bias" in note for note in found.notes)
    assert any("from 1 for 'field_0' to 12 for 'field_11'" in note for note in found.notes)


def test_ranklib_needs_its_jar(tmp_path):
    model, stream = learned_floats(d=3)
    with pytest.raises(FileNotFoundError, match="the option jar of ranklib must be RankLib's jar file, got None"):
        parity(model, stream, "ranklib")
