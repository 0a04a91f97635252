"""The command `judge`."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.click_logs import write_lines
from support.clusters import has_java

import perceptrank as pr


@pytest.fixture
def impressions(tmp_path, monkeypatch):
    """A log of two queries with swaps, as a stream; the current folder is an empty one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    orders = [["a", "b"] if rng.random() < 0.5 else ["b", "a"] for _ in range(600)]
    chances = np.array([[{"a": 0.95, "b": 0.03}[docid] for docid in order] for order in orders])
    return pr.QueryStream.from_arrays(
        np.empty((1200, 0)),
        group=[2] * 600,
        docids=np.ravel(orders),
        place=[1, 2] * 600,
        clicked=(rng.random((600, 2)) < chances * [1.0, 0.6]).ravel(),
        columns={"user_query": ["shoes", "hats"] * 300, "policy": ["fair-pairs:1"] * 600},
    )


def read_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_judgements_are_those_of_the_library(run, impressions):
    pr.write_store(impressions, "log")
    pr.write_parquet(impressions, "log.parquet")
    expected = pr.clicks.judgements(impressions)
    for log, out in (("log", "judged.jsonl"), ("log.parquet", "other.jsonl")):
        printed = json.loads(run("judge", log, "--out", out, "--json").stdout)
        assert printed["written"] == printed["documents"] == 4
        assert printed["grades"] == expected.as_plain()["grades"]
        rows = read_lines(out)
        assert [row["docid"] for row in rows] == expected.docid.tolist()
        assert [row["low"] for row in rows] == expected.low.tolist()
    text = run("judge", "log", "--out", "judged.csv", "--thresholds", "0.5").stdout
    assert "judged.csv: 4 of 4 documents of 2 queries, 600 impressions" in text
    assert "grade 0" in text


def test_a_log_of_events_is_judged_as_it_is(run, impressions):
    events, queries = [], []
    ids = impressions.docids.tolist()
    for i, query in enumerate(impressions.columns["user_query"].tolist()):
        common = {"query_id": f"q{i}", "timestamp": "2026-01-01T12:00:00Z"}
        queries.append(common | {"user_query": query, "query_response_hit_ids": ids[2 * i : 2 * i + 2]})
        for row in (2 * i, 2 * i + 1):
            position = {"object": {"object_id": ids[row]}, "position": {"ordinal": int(impressions.place[row])}}
            actions = ["impression", *["click"] * int(impressions.clicked[row])]
            events += [common | {"action_name": action, "event_attributes": position} for action in actions]
    write_lines(Path("events.ndjson"), events)
    write_lines(Path("queries.ndjson"), queries)
    run("judge", "events.ndjson", "--queries", "queries.ndjson", "--first-place", 1, "--out", "judged.jsonl")
    rows = read_lines("judged.jsonl")
    expected = pr.clicks.judgements(impressions.with_columns({"policy": None}))
    assert [(row["query"], row["docid"], row["high"]) for row in rows] == list(
        zip(expected.query.tolist(), expected.docid.tolist(), expected.high.tolist(), strict=True)
    )


def test_position_bias_may_come_from_another_log(run, impressions):
    pr.write_store(impressions, "log")
    Path("bias.json").write_text(run("position-bias", "log", "--json").stdout)
    printed = json.loads(run("judge", "log", "--bias", "bias.json", "--out", "judged.csv", "--json").stdout)
    assert printed["position bias"] == pr.clicks.position_bias(impressions).as_plain()
    plain = pr.clicks.position_bias(impressions).as_plain()
    dark = [plain["places"][0], plain["places"][1] | {"examination": -1}]
    for wrong, problem in (
        ([1, 0.5], "TypeError"),
        (plain | {"places": [], "log_covariance": []}, "for 0 places"),
        (plain | {"log_covariance": [[0]]}, "log_covariance must have a row and a column for each place"),
        (
            plain | {"places": dark, "log_covariance": [[0, 0], [0, 0]]},
            "examination of place 2 must be above 0, got -1",
        ),
    ):
        Path("bias.json").write_text(json.dumps(wrong))
        error = run("judge", "log", "--bias", "bias.json", "--out", "judged.csv", code=1).stderr
        assert "bias.json is not what 'perceptrank position-bias --json' prints" in error
        assert problem in error


def test_other_tools_get_their_formats(run, impressions):
    pr.write_store(impressions, "log")
    run("judge", "log", "--out", "ratings.csv", "--to", "quepid", "--ratings", "estimate", "--model", "coec")
    assert Path("ratings.csv").read_text().startswith("query,docid,rating\nshoes,")
    run("judge", "log", "--out", "workbench.json", "--model", "cascade")
    assert json.loads(Path("workbench.json").read_text())["type"] == "IMPORT_JUDGMENT"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--thresholds", "0.5;0.6"], "--thresholds must be numbers with commas between them, got '0.5;0.6'"),
        (["--thresholds", "0.6,0.5"], "--thresholds must be increasing numbers between 0 and 1"),
        (["--confidence", "2"], "--confidence must be between 0 and 1, got 2.0"),
        (["--model", "coec", "--to", "quepid"], "none of 4 documents has a rating: model coec has no intervals"),
        (["--model", "dbn", "--bias", "bias.json"], "--bias is for the model 'position'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(run, impressions, arguments, problem):
    pr.write_store(impressions, "log")
    Path("bias.json").write_text(json.dumps(pr.clicks.position_bias(impressions).as_plain()))
    assert problem in run("judge", "log", "--out", "judged.csv", *arguments, code=1).stderr
    assert not Path("judged.csv").exists()


def test_judgements_without_clicks_or_a_known_suffix_are_refused(run, impressions):
    pr.write_store(pr.mslr_shaped(3, n_documents=4), "graded")
    assert "judging needs the columns 'place'" in run("judge", "graded", "--out", "judged.csv", code=1).stderr
    pr.write_store(impressions, "log")
    assert "the suffix of a file of judgements" in run("judge", "log", "--out", "judged.txt", code=1).stderr
    full = run("judge", "log", "--out", "judged.json", "--to", "full", code=1).stderr
    assert "the suffix of a file with all columns must be one of .csv, .jsonl, .ndjson" in full


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("engine", "shards"), [("dask", None), ("dask", 3), ("spark", 3)])
def test_files_are_counted_on_local_processes(run, impressions, engine, shards):
    pytest.importorskip({"dask": "distributed", "spark": "pyspark"}[engine])
    if engine == "spark" and not has_java():
        pytest.skip("Spark needs Java")
    for name, part in (("one", impressions[:100]), ("two", impressions[100:])):
        pr.write_store(part, name)
    cluster = [f"--{engine}", "--workers", 1, *([] if shards is None else ["--shards", shards])]
    run("judge", "one", "two", "--out", "here.jsonl")
    result = run("judge", "one", "two", "--out", "there.jsonl", *cluster)
    assert read_lines("there.jsonl") == read_lines("here.jsonl")
    assert "there.jsonl: 4 of 4 documents of 2 queries, 600 impressions" in result.stdout
    here, there = (json.loads(run("position-bias", "one", "two", "--json", *more).stdout) for more in ([], cluster))
    assert here | {"seconds": 0} == there | {"seconds": 0}


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
def test_logs_are_counted_on_local_processes(run, impressions):
    pytest.importorskip("distributed")
    frame = impressions.to_frame()
    for day, rows in ((1, frame[:400]), (2, frame[400:])):
        rows.to_csv(f"day{day}.csv", index=False)
    run("judge", "day1.csv", "day2.csv", "--out", "here.jsonl", "--first-place", 1)
    cluster = ["--dask", "--workers", 1]
    result = run("judge", "day1.csv", "day2.csv", "--out", "there.jsonl", "--first-place", 1, *cluster)
    assert read_lines("there.jsonl") == read_lines("here.jsonl")
    assert "table log: 600 impressions, 1,200 documents" in result.stderr
    Path("bad.csv").write_text("qid,docid,place,clicked\n1,a,first,0\n")
    error = run("judge", "day1.csv", "bad.csv", "--out", "there.jsonl", *cluster, code=1).stderr
    assert "shard 1 (bad.csv) failed on" in " ".join(error.split())


def test_what_a_cluster_refuses(run, impressions):
    pr.write_store(impressions, "log")
    for arguments, problem in (
        (["log", "--shards", 2], "--shards can only be given with --dask"),
        (["-", "--dask"], "standard input cannot be one"),
        (["log", "--dask", "--first-place", 1], "--first-place applies to logs of clicks only: give --clicks"),
    ):
        error = run("judge", *arguments, "--out", "judged.csv", code=1).stderr
        assert problem in " ".join(error.split())
