"""`evaluate` with several models: the verdict, its exit status, slices, the queries that lost most, and the page."""

import json
import re

import numpy as np
import polars as pl
import pytest

import perceptrank as pr

STREAM = pr.separable(300, n_features=4, n_documents=8, label_noise=0.2, seed=5).stream
NAMES = ["title", "body", "age", "price"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Day 1 to learn from; day 3 with a category, as Parquet, CSV and JSON lines; the engine's weights; a new model."""
    monkeypatch.chdir(tmp_path)
    frame = STREAM.to_frame("polars").rename(dict(zip(["f1", "f2", "f3", "f4"], NAMES, strict=True)))
    frame = frame.with_columns(
        pl.format("query {}", "qid").alias("qid"), pl.format("sku-{}", pl.int_range(pl.len())).alias("docid")
    )
    categories = np.random.default_rng(1).choice(["shoes", "hats", "<rare>"], p=[0.6, 0.35, 0.05], size=300)
    frame[:800].write_parquet("day1.parquet")
    day = frame.with_columns(
        pl.Series("category", np.repeat(categories, 8)), pl.Series("frequency", np.repeat(np.arange(300), 8))
    )[800:]
    day.write_parquet("day3.parquet")
    day.write_csv("day3.csv")
    day.write_ndjson("day3.jsonl")
    pr.write_letor(STREAM[100:], "day3.txt")
    (tmp_path / "current.json").write_text(json.dumps(dict(zip(NAMES, [1.0, 0.2, 0.0, -0.3], strict=True))))
    learned = pr.ListwisePerceptron()
    learned.learn(pr.read_parquet("day1.parquet"))
    learned.save("new.json")
    return tmp_path


def test_the_answer_is_the_exit_status(run, folder):
    yes = run("evaluate", "current.json", "new.json", "day3.parquet", "--column", "feature=title", *chosen())
    assert "Yes: new.json may replace current.json: ndcg@10 rises by" in " ".join(yes.stdout.split())
    no = run("evaluate", "new.json", "current.json", "day3.csv", code=3)
    assert "No: current.json must not replace new.json" in " ".join(no.stdout.split())
    (folder / "twin.json").write_bytes((folder / "new.json").read_bytes())
    same = run("evaluate", "new.json", "twin.json", "day3.csv", code=4)
    assert "Not decided: twin.json and new.json have the same ndcg@10" in " ".join(same.stdout.split())


def test_queries_are_not_called_held_out(run, folder):
    """Here the model has learned from them: nobody checks, and it says so."""
    result = run("evaluate", "current.json", "new.json", "day1.parquet", "--page", "report.html")
    for text in (result.stdout, (folder / "report.html").read_text()):
        assert "held-out" not in text
        assert "it is not checked whether a model has learned from them" in " ".join(text.split())
    *_, verdict, note = result.stdout.splitlines()  # a line of its own, where a table's title is as narrow as the table
    assert verdict.startswith("Yes: new.json may replace current.json")
    assert note == "These queries may not be new: it is not checked whether a model has learned from them."


def test_a_model_that_is_not_there_is_named(run, folder):
    missing = run("evaluate", "current.json", "newer.json", "day3.parquet", "--worst", "3", code=1)
    assert missing.stderr == "error: there is no file newer.json\n"


def chosen():
    return [word for name in NAMES[1:] for word in ("--column", f"feature={name}")]


@pytest.mark.parametrize("file", ["day3.parquet", "day3.csv", "day3.jsonl"])
def test_slices_and_losers_in_json(run, folder, file):
    words = ["current.json", "new.json", file, "--by", "category", "--worst", "3", "--json"]
    found = json.loads(run("evaluate", *words).stdout)
    day = pl.read_parquet("day3.parquet")
    stream = pr.QueryStream.from_frame(day.drop("category", "frequency"))
    labels = day.group_by("qid", maintain_order=True).first()["category"].to_list()
    models = {"current.json": pr.FixedRanker(json.loads((folder / "current.json").read_text()))}
    models["new.json"] = pr.load("new.json")
    expected = pr.evaluate(models, stream, ["ndcg@10", "ap"], by=labels, worst=3)
    assert found["answer"] == "yes"
    assert found["verdict"] == expected.verdict
    assert [one["label"] for one in found["slices"]] == ["shoes", "hats", "<rare>"]
    assert [one["small"] for one in found["slices"]] == [False, False, True]
    for one, other in zip(found["slices"], expected.slices, strict=True):
        assert one["differences"][0]["difference"] == pytest.approx(other.differences[0].difference, abs=1e-6)
    assert [one["qid"] for one in found["worst"]["new.json"]] == [one.qid for one in expected.worst()]
    first = found["worst"]["new.json"][0]["documents"][0]
    assert first["docid"] == expected.worst()[0].documents[0].docid
    assert first["docid"].startswith("sku-")


def test_other_slices(run, folder):
    numbers = run("evaluate", "current.json", "new.json", "day3.csv", "--by", "frequency").stdout
    assert re.search(r"100 to 149 +50 ", numbers)
    assert "few queries" not in numbers
    assert " 8 " in run("evaluate", "current.json", "new.json", "day3.csv", "--by", "length").stdout
    assert run("evaluate", "current.json", "new.json", "day3.csv", "--by", "feature:price").stdout.count(" to ") > 8


def test_a_feature_of_weight_files_is_a_slice_too(run, folder):
    """No model has learned its name, and it is still a feature."""
    for name, weight in (("old.json", 1.0), ("same.json", 2.0)):
        (folder / name).write_text(json.dumps({"title": 1.0, "frequency": weight}))
    result = run("evaluate", "old.json", "same.json", "day3.parquet", "--by", "frequency", "--json", code=4)
    assert json.loads(result.stdout)["slices"][0]["label"] == "100 to 149"


def test_the_page(run, folder):
    words = ["current.json", "new.json", "day3.parquet", "--by", "category", "--page", "out.html", "--margin", "0.01"]
    run("evaluate", *words)
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert '<p class="verdict yes"><b>Yes:</b> new.json may replace current.json' in page
    assert "Slices by category" in page
    assert "&lt;rare&gt;" in page
    assert "<rare>" not in page
    assert page.count('<details class="query"') == 10
    assert "lies above −0.01" in page
    assert not re.search(r"https?://", page)
    assert page.count("<svg") == page.count("</svg>") == 2 + 3
    assert "would replace day3.parquet" in run("evaluate", *words[:3], "--page", "day3.parquet", code=1).stderr


def test_the_latex_table(run, folder):
    words = ["current.json", "new.json", "day3.parquet", "--latex", "out.tex"]
    found = json.loads(run("evaluate", *words, "--json").stdout)
    table = (folder / "out.tex").read_text()
    assert r"\toprule" in table
    for model in found["models"]:
        row = next(line for line in table.splitlines() if line.startswith(model["model"]))
        assert f"{model['ndcg@10']:.4f}" in row
    assert "would replace day3.parquet" in run("evaluate", *words[:3], "--latex", "day3.parquet", code=1).stderr


def test_one_model_is_as_before_and_may_be_weights(run, folder):
    found = json.loads(run("evaluate", "current.json", "day3.csv", "--record", "trec_eval:ndcg@10", "--json").stdout)
    assert found["rows"][0]["measure"] == "ndcg@10:ties=reverse,empty=zero,gain=linear"
    assert list(found) == ["model", "queries", "held_out_by", "seconds", "rows"]
    several = ["--by", "length"], ["--worst", "3"], ["--margin", "0.1"], ["--page", "x.html"], ["--confidence", "0.9"]
    several += (["--latex", "x.tex"],)
    for option in several:
        message = run("evaluate", "current.json", "day3.csv", *option, code=1).stderr
        assert f"{option[0]}: needs several models, of which the first is live; got only current.json" in message


def test_queries_of_weight_0_do_not_count(run, folder):
    is_hat = pl.col("category") == "hats"
    day = pl.read_csv("day3.csv").with_columns(pl.when(is_hat).then(0.0).otherwise(2.0).alias("importance"))
    day.write_csv("weighted.csv")
    words = ["weighted.csv", "--column", "weight=importance", "--record", "err"]
    expected = day.filter(~is_hat)["qid"].n_unique()
    one = json.loads(run("evaluate", "new.json", *words, "--json").stdout)
    assert [row["counted"] for row in one["rows"]] == [expected]
    both = run("evaluate", "new.json", "current.json", *words, "--by", "category", code=3).stdout
    assert re.search(r"hats +\d+ +current.json +- +few queries", both)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["current.json", "new.json"], "no queries to rank: current.json, new.json are models"),
        (["new.json", "new.json", "day3.csv"], "new.json is given twice"),
        (["current.json", "none.json", "day3.csv"], "there is no file none.json"),
        (["current.json", "new.json", "day3.txt", "--by", "category"], "only tables and Parquet files have columns"),
        (["current.json", "new.json", "day3.csv", "--by", "colour"], "day3.csv has no column 'colour'"),
        (["current.json", "new.json", "day3.jsonl", "--by", "colour"], "day3.jsonl has no column 'colour'"),
        (["current.json", "new.json", "day3.parquet", "--by", "docid"], "column 'docid' must have one value per query"),
        (["current.json", "new.json", "day3.csv", "--confidence", "95"], "--confidence must be between 0 and 1"),
        (["new.json", "other.json", "day3.csv"], "other.json"),
    ],
)
def test_errors(run, folder, words, message):
    (folder / "other.json").write_text('{"title": 1.0, "colour": 2.0}')
    assert message in run("evaluate", *words, code=1).stderr
