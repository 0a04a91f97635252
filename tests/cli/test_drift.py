"""Forgetting, alerts and drifting streams on the command line."""

import json

import pytest

import perceptrank as pr

SIZES = "--documents", 8, "--features", 5


@pytest.fixture(scope="module")
def drifting(tmp_path_factory):
    path = tmp_path_factory.mktemp("drift") / "drifting.store"
    pr.write_store(pr.drifting(900, period=600, n_documents=8, n_features=5, seed=1), path)
    return path


def test_a_drifting_stream_is_simulated(run, tmp_path):
    written = tmp_path / "train.parquet"
    run("simulate", written, "--kind", "drifting", "--drift", "gradual", "--period", 20, "--queries", 30, *SIZES)
    expected = pr.drifting(30, drift="gradual", period=20, n_documents=8, n_features=5)
    assert (pr.read_parquet(written).relevance == expected.relevance).all()
    wrong = run("simulate", tmp_path / "x.txt", "--drift", "none", code=1).stderr
    assert "--drift and --period are for --kind drifting" in wrong
    assert "--margin" in run("simulate", tmp_path / "x.txt", "--kind", "drifting", "--margin", 1, code=1).stderr


def test_alerts_say_where_rankings_became_worse(run, drifting, tmp_path):
    pytest.importorskip("matplotlib")
    said = run("learn", drifting, "--alerts", "--plot", tmp_path / "plot.svg").stdout
    expected = pr.ListwisePerceptron().learn(pr.open_store(drifting), ["ndcg@10"]).changes()
    assert [600 <= one.alarm < 720 for one in expected] == [True]
    assert f"ndcg@10: {expected[0]}" in said
    assert "alarm" in (tmp_path / "plot.svg").read_text()
    plain = json.loads(run("learn", drifting, "--alerts", "--json").stdout)
    assert [one["alarm"] for one in plain["changes"]] == [one.alarm for one in expected]
    assert "changes" not in json.loads(run("learn", drifting, "--json").stdout)
    steady = tmp_path / "steady.store"
    pr.write_store(pr.open_store(drifting)[:500], steady)
    assert "no alarm" in run("learn", steady, "--alerts").stdout


def test_forgetting_by_name(run, drifting, tmp_path):
    model = tmp_path / "model.json"
    named = ["--algorithm", "forgetting:listwise", "--set", "half_lives=[20, 80]", "--set", "lag=2"]
    run("learn", drifting, *named, "--save", model)
    expected = pr.Forgetting(pr.ListwisePerceptron(), half_lives=[20, 80], lag=2)
    expected.learn(pr.open_store(drifting), ["ndcg@10", "ap"])
    assert pr.load(model).as_document() == expected.as_document()
    rows = json.loads(run("compare", drifting, *named[:2], "--algorithm", "listwise", "--json").stdout)["rows"]
    assert [one["name"] for one in rows] == ["forgetting:listwise", "listwise"]
    assert "Copies that forget" in run("show", model).stdout
