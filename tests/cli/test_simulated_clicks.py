"""`simulate --clicks`: what is written is what the library simulates, and options without effect are refused."""

import json

import numpy as np
import pytest

import perceptrank as pr


@pytest.fixture
def graded(tmp_path):
    stream = pr.mslr_shaped(12, n_documents=8, n_features=3, seed=1)
    stream = stream.with_features(np.asarray(stream.X), feature_names=["title", "body", "price"])
    pr.write_store(stream, tmp_path / "graded.store")
    return tmp_path / "graded.store"


def test_clicks_are_written(run, tmp_path, graded):
    (tmp_path / "weights.json").write_text('{"price": -1.0, "title": 2.0}')
    options = ["--ranker", tmp_path / "weights.json", "--policy", "fair-pairs", "--impressions", 40, "--top", 4]
    options += ["--stop", "any", "--seed", 3, "--json"]
    log = tmp_path / "log.parquet"
    report = json.loads(run("simulate", log, "--clicks", "informational", "--data", graded, *options).stdout)
    expected = pr.simulate_clicks(
        pr.open_store(graded),
        pr.clicks.user("informational", stop="any"),
        ranker=[2.0, 0.0, -1.0],
        policy="fair-pairs",
        n=4,
        impressions=40,
        seed=3,
    )
    written = pr.read_parquet(log)
    assert written.feature_names == ("title", "body", "price")
    for name in ("place", "clicked", "examined", "propensity", "relevance"):
        np.testing.assert_array_equal(written.columns[name], expected.columns[name])
    for name in ("policy", "user_query", "docid"):
        assert written.columns[name].tolist() == expected.columns[name].tolist()
    assert report == {
        "destination": str(log),
        "impressions": 40,
        "documents": expected.n_documents,
        "shown": int((expected.place > 0).sum()),
        "clicks": int(expected.clicked.sum()),
        "user": "informational",
        "grades": 5,
        "stop": "any",
        "top": 4,
        "policy": "fair-pairs",
        "seed": 3,
    }


def test_other_users_and_simulated_grades(run, tmp_path, graded):
    log = tmp_path / "log.store"
    said = run("simulate", log, "--clicks", "perfect", "--queries", 9, "--shown-only").stdout
    assert said.startswith(f"{log}: 9 impressions, ")
    assert (pr.open_store(log).place > 0).all()
    examination = ["--examination", "1,0.5", "--top", 2, "--grades", 6]
    run("simulate", log, "--overwrite", "--clicks", "position-based", "--data", graded, *examination)
    assert pr.open_store(log).place.max() == 2
    run("simulate", log, "--overwrite", "--clicks", "contrary", "--data", graded)
    assert pr.open_store(log).clicked.sum() == len(pr.open_store(log)) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "fair-pairs"], "--policy is for simulated clicks: name a user by --clicks"),
        (["--top", 3], "--top is for simulated clicks"),
        (["--shown-only"], "--shown-only is for simulated clicks"),
        (["--clicks", "perfect", "--data", "graded.store", "--queries", 1000], "--queries is for simulated grades"),
        (["--clicks", "contrary", "--stop", "any"], "--stop is for --clicks perfect, navigational"),
        (["--clicks", "contrary", "--grades", 3], "--grades is for users who know grades"),
        (["--clicks", "perfect", "--examination", "1"], "--examination is for --clicks position-based"),
        (["--clicks", "position-based", "--examination", "a"], "--examination must be numbers with commas"),
        (["--clicks", "position-based", "--examination", "2"], "--examination must be probabilities, which number 1"),
        (["--clicks", "perfect", "--grades", 4], "--grades must be 5, 3 or 2"),
        (["--clicks", "perfect", "--policy", "chaos"], "--policy must be none, fair-pairs"),
        (["--clicks", "perfect", "--to", "letor"], "LETOR text has no place for clicks"),
        (["--clicks", "perfect", "--data", "absent.txt"], "there is no file absent.txt"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, tmp_path, graded, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in run("simulate", "log.store", *options, code=1).stderr
    assert not (tmp_path / "log.store").exists()
