"""The command `show`."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import perceptrank as pr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store of queries with ids of documents, and models of two days."""
    folder = tmp_path_factory.mktemp("show")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3)) * [1.0, 50.0, 0.01]
    grades = np.clip(np.round(X[:, 0] - X[:, 1] / 50), 0, 3)
    stream = pr.QueryStream.from_arrays(
        X,
        grades,
        group=[10] * 20,
        feature_names=["title", "price", "noise"],
        docids=[f"doc{row}" for row in range(200)],
    )
    pr.write_store(stream, folder / "day.store")
    for name, transforms in (("auto", "auto"), ("running", "running"), ("bins", pr.Bins(4))):
        ranker = pr.ListwisePerceptron(transforms=transforms)
        ranker.learn(stream[:10])
        ranker.save(folder / f"{name}-old.json")
        ranker.learn(stream[10:])
        ranker.save(folder / f"{name}.json")
    return folder


def test_a_model_is_shown_in_words_and_raw_units(run, folder):
    said = run("show", folder / "running.json").stdout
    ranker = pr.load(folder / "running.json")
    weight = pr.deploy.fold(ranker).weights[1]
    assert f"price: less is better; one unit more takes {-weight:.4g} from the score" in said
    assert "It has learned from 20 queries" in said
    assert "the spread as the model's transforms know it" in said
    assert "one standard deviation within its query" in run("show", folder / "auto.json").stdout
    assert "noise" not in run("show", folder / "running.json", "--top", 2).stdout


def test_contributions_to_a_query_add_up_in_json_too(run, folder):
    arguments = ["show", folder / "auto.json", folder / "day.store", "--query", 7, "--documents", 4, "--json"]
    found = json.loads(run(*arguments).stdout)
    ranker, stream = pr.load(folder / "auto.json"), pr.open_store(folder / "day.store")
    scores = ranker.predict(stream[7:8])
    order = np.argsort(-scores, kind="stable")[:4]
    query = found["query"]
    assert query["qid"] == 7
    assert [one["document"] for one in query["documents"]] == [f"doc{70 + row}" for row in order]
    for one, row in zip(query["documents"], order, strict=True):
        assert math.fsum([*one["contributions"].values(), *one["rounding"]]) == one["score"] == scores[row]
        assert one["relevance"] == stream.relevance[70 + row]
    explained = pr.deploy.explain(ranker, stream)
    assert {one["feature"]: one["importance"] for one in found["features"]} == pytest.approx(explained.importance)
    assert found["importance"] == explained.importance_is
    assert found["history"]["queries"] == 20


def test_queries_and_documents_are_found_in_files(run, folder):
    model, data = folder / "auto.json", folder / "day.store"
    said = run("show", model, data).stdout
    assert "query 0: 10 documents" in said
    said = run("show", model, data, "--query", 3, "--documents", 2, "--why", "doc31", "doc35").stdout
    assert "query 3: 10 documents, the best 2" in said
    assert "Why doc31" in said
    plain = json.loads(run("show", model, data, "--query", 3, "--why", "doc31", "doc35", "--json").stdout)
    assert {one["feature"] for one in plain["why"]} == {"title", "price", "noise"}
    assert "there is no query '99'" in run("show", model, data, "--query", 99, code=1).stderr
    assert "has no document 'doc99'" in run("show", model, data, "--why", "doc1", "doc99", code=1).stderr
    assert "--query needs a file" in run("show", model, "--query", 3, code=1).stderr
    assert "--why needs a file" in run("show", model, "--why", "a", "b", code=1).stderr


def test_what_changed_since_another_model(run, folder):
    arguments = ["show", folder / "running.json", "--since", folder / "running-old.json"]
    assert "Since the other model: " in run(*arguments).stdout
    changes = {one["feature"]: one for one in json.loads(run(*arguments, "--json").stdout)["changes"]}
    assert sum(abs(one["now"]) for one in changes.values()) == pytest.approx(1)
    expected = pr.deploy.explain(pr.load(folder / "running-old.json"))
    for one in expected.features:
        signed = -one.share if one.sign == "-" else one.share
        assert changes[one.feature]["before"] == pytest.approx(signed)
    both = run(*arguments[:2], folder / "day.store", *arguments[2:], "--json").stdout
    assert len(json.loads(both)["changes"]) == 3


def test_plots_are_drawn_and_never_over_what_is_read(run, folder):
    pytest.importorskip("matplotlib")
    run("show", folder / "bins.json", "--plot", folder / "curves.svg")
    assert "price" in (folder / "curves.svg").read_text(encoding="utf-8")
    before = (folder / "bins.json").read_bytes()
    assert "must end with one of" in run("show", folder / "bins.json", "--plot", folder / "x.txt", code=1).stderr
    assert "replace" in run("show", folder / "bins.json", "--plot", folder / "bins.json", code=1).stderr
    assert (folder / "bins.json").read_bytes() == before


def test_bars_in_encodings_that_lack_them(run, folder):
    said = run("show", folder / "running.json").stdout
    assert "█" in said
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    command = [sys.executable, "-m", "perceptrank", "show", str(folder / "running.json")]
    result = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert b"####" in result.stdout
    assert b"?" not in result.stdout
