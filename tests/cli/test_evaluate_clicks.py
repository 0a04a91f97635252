"""`evaluate` on a log of clicks: the verdict, its exit status, what was used, and refusals."""

import json

import numpy as np
import polars as pl
import pytest

import perceptrank as pr

NAMES = ["title", "body", "age", "price"]
NOW = {"title": 1.0, "price": -0.3}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Logs of clicks, with and without swaps, as Parquet and CSV; the live weights; a new model."""
    monkeypatch.chdir(tmp_path)
    graded = pr.mslr_shaped(300, n_documents=8, n_features=4, seed=1)
    graded = graded.with_features(np.asarray(graded.X), feature_names=NAMES)
    learned = pr.ListwisePerceptron()
    learned.learn(graded[:100])
    learned.save("new.json")
    (tmp_path / "now.json").write_text(json.dumps(NOW))
    for name, policy in (("clicks", "fair-pairs"), ("plain", "none")):
        user, now = pr.clicks.user("navigational"), pr.FixedRanker(NOW)
        log = pr.simulate_clicks(graded[100:], user, ranker=now, policy=policy, impressions=3000, seed=2)
        category = pl.when(pl.col("qid") % 3 == 0).then(pl.lit("shoes")).otherwise(pl.lit("hats"))
        frame = log.to_frame("polars").with_columns(category=category)
        frame.drop("relevance").write_parquet(f"{name}.parquet")
        frame.write_parquet(f"graded-{name}.parquet")
        frame.drop("relevance", "category").write_csv(f"{name}.csv")
    return tmp_path


def words(result):
    return " ".join(result.stdout.split())


def test_the_answer_is_the_exit_status(run, folder):
    yes = words(run("evaluate", "now.json", "new.json", "clicks.parquet", "--by", "category", "--worst", "2"))
    assert "Yes: new.json may replace now.json: preferences rises by" in yes
    assert "2 models on 3,000 impressions" in yes
    assert "Impressions used: " in yes
    assert "document click old place new place" in yes
    assert "slice impressions model" in yes
    no = words(run("evaluate", "new.json", "now.json", "clicks.parquet", code=3))
    assert "No: now.json must not replace new.json: preferences falls by" in no
    (folder / "twin.json").write_bytes((folder / "new.json").read_bytes())
    same = words(run("evaluate", "new.json", "twin.json", "clicks.parquet", code=4))
    assert "Not decided: twin.json and new.json have the same preferences" in same


def test_a_log_without_swaps_is_refused(run, folder):
    refused = run("evaluate", "now.json", "new.json", "plain.parquet", code=1)
    assert "preferences cannot be estimated from this log; impressions not used: 3,000 of none" in refused.stderr
    assert "perceptrank judge" in refused.stderr


def test_grades_decide_unless_clicks_are_asked_for(run, folder):
    found = json.loads(run("evaluate", "now.json", "new.json", "graded-plain.parquet", "--json").stdout)
    assert list(found["models"][0]) == ["model", "ndcg@10", "ap"]
    words = [
        "now.json",
        "new.json",
        "graded-clicks.parquet",
        "--record",
        "preferences",
        "--json",
    ]
    found = json.loads(run("evaluate", *words).stdout)
    log = pr.read_parquet("graded-clicks.parquet", features=NAMES)
    expected = pr.evaluate(
        {"now.json": pr.FixedRanker(NOW), "new.json": pr.load("new.json")}, log, "preferences", worst=0
    )
    assert found["verdict"] == expected.verdict
    used, unused = expected.policies["fair-pairs"]
    assert found["policies"] == {"fair-pairs": {"used": used, "unused": unused}}
    assert used + unused == 3000


def test_logs_of_clicks_and_pages(run, folder):
    options = ["--record", "preferences", "--page", "report.html", "--by", "length"]
    result = words(run("evaluate", "now.json", "new.json", "clicks.csv", "--clicks", *options))
    assert "Yes: new.json may replace now.json" in result
    page = (folder / "report.html").read_text()
    assert "Impressions used: " in page
    assert "propensities that are wrong" in page
    assert ">click<" in page


def test_models_need_their_features(run, folder):
    (folder / "other.json").write_text('{"colour": 1.0}')
    missing = run("evaluate", "now.json", "other.json", "clicks.parquet", code=1)
    assert "colour" in missing.stderr
