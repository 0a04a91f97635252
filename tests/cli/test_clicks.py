"""Logs of clicks on the command line."""

import json

import numpy as np
import pytest
from support.click_logs import write_lines

import perceptrank as pr

QUERY = {"query_id": "q1", "user_query": "shoes", "query_response_hit_ids": ["a", "b", "c"]}
EVENTS = [
    {
        "action_name": action,
        "query_id": "q1",
        "timestamp": "2026-01-01T12:00:00Z",
        "event_attributes": {"object": {"object_id": docid}, "position": {"ordinal": ordinal}},
    }
    for action, docid, ordinal in (("impression", "a", 0), ("impression", "b", 1), ("click", "b", 1), ("cart", "b", 1))
]


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "events.ndjson", EVENTS)
    write_lines(tmp_path / "queries.ndjson", [QUERY])
    (tmp_path / "features.csv").write_text("query,docid,x\nshoes,a,1\nshoes,b,2\nshoes,c,3\n")


def test_logs_are_converted_with_their_features(run):
    result = run("convert", "--clicks", "events.ndjson", "--queries", "queries.ndjson", "clicks.parquet")
    assert "1 queries, 3 documents, 0 features" in result.stdout
    assert "positions count from 0 (detected); left out are 1 events of the action 'cart'" in result.stderr
    assert pr.read_parquet("clicks.parquet").place.tolist() == [1, 2, 0]
    joined = ("--clicks", "events.ndjson", "--queries", "queries.ndjson", "--features", "features.csv")
    run(
        "convert",
        *joined,
        "--log",
        "click=cart",
        "--log",
        "impressions=shown",
        "--first-place",
        0,
        "--group",
        "c.store",
    )
    store = pr.open_store("c.store")
    assert store.X.ravel().tolist() == [1, 2, 3]
    assert store.clicked.tolist() == [0, 1, 0]


def test_learners_of_grades_say_what_is_missing(run):
    result = run("learn", "--clicks", "events.ndjson", "--queries", "queries.ndjson", code=1)
    assert "needs the column 'relevance'" in result.stderr
    assert (
        "clicks are not grades: the learner clicks learns from them, and perceptrank judge makes judgements of them"
        in result.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--queries", "queries.ndjson"], "error: --queries applies to logs of clicks only: give --clicks"),
        (["--first-place", "1"], "error: --first-place applies to logs of clicks only: give --clicks"),
        (["--clicks", "--log", "kinds=ubi"], "error: --log must be one of kind=, click=, "),
        (["--clicks", "--log", "kind=solr"], "error: kind must be one of"),
        (["--clicks", "--log", "max_session_clicks=few"], "max_session_clicks must be a whole number, or none"),
        (["--clicks", "--zero-based"], "error: --zero-based does not apply to logs of clicks"),
        (["--clicks", "--column", "relevance=x"], "error: relevance does not apply to logs of clicks"),
        (["--clicks", "--queries", "none.ndjson"], "error: there is no file none.ndjson"),
    ],
)
def test_options_that_do_not_apply_are_refused(run, arguments, problem):
    assert problem in run("convert", "events.ndjson", *arguments, "out.parquet", code=1).stderr


def test_a_file_that_is_cut_off_is_named_with_its_line(run, tmp_path):
    (tmp_path / "half.ndjson").write_text(json.dumps(EVENTS[0]) + '\n{"action_')
    result = run("convert", "--clicks", "half.ndjson", "out.parquet", code=1)
    assert result.stderr.startswith("error: half.ndjson:2:")


def test_the_option_that_says_the_kind_of_a_log_is_named(run, tmp_path):
    (tmp_path / "prices.ndjson").write_text('{"price": 3}\n')
    assert "; --log kind=… says what it is" in run("convert", "--clicks", "prices.ndjson", "out.parquet", code=1).stderr


def test_click_learners_on_the_command_line(run, tmp_path):
    shop = pr.mslr_shaped(60, n_documents=8, n_features=4, seed=1)
    random, plain = (
        pr.simulate_clicks(shop, pr.clicks.user("navigational"), policy=policy, impressions=300)
        for policy in ("fair-pairs", "none")
    )
    for name, log in {"random": random, "plain": plain, "mixed": pr.QueryStream.concatenate([plain, random])}.items():
        numbered = {"relevance": None, "qid": np.arange(len(log))}
        pr.write_parquet(log.with_columns(numbered), f"{name}.parquet")
    learned = run("learn", "random.parquet", "--algorithm", "clicks", "--save", "model.json").stdout
    assert "Learned from clicks" in learned
    assert "--set production=FEATURE" in learned
    expected = pr.ClickPerceptron()
    expected.learn(random)
    assert np.array_equal(pr.load("model.json").weights, expected.weights)
    for more in ([], ["--checkpoint", "100", "--save", "mixed.json"]):  # lists that are not randomised come first
        run("learn", "mixed.parquet", "--algorithm", "fair-pairs", *more)
    refused = run("learn", "plain.parquet", "--algorithm", "clicks", "--save", "none.json", code=1).stderr
    assert "clicks learns from lists that were randomised by plackett-luce or fair-pairs or shuffle" in refused
    assert not (tmp_path / "none.json").exists()
    refused = run("learn", "random.parquet", "--algorithm", "clicks", "--plot", "plot.svg", code=1).stderr
    assert "--plot, --alerts and --hold-out need grades" in refused
    refused = run("learn", "random.parquet", "--algorithm", "clicks", "--record", "ap", code=1).stderr
    assert "this log of clicks has no grades" in refused
    assert json.loads(run("algorithms", "--json").stdout)["clicks"][0]["name"] == "3pr"
    for name in pr.algorithms(clicks=True):
        run("warm-up", "--algorithm", name)
    kept = ["--save", "m.json", "--trace", "t.npz"]
    run("learn", "random.parquet", "--algorithm", "clicks", *kept, "--checkpoint", "100")
    done = run("learn", "random.parquet", "--algorithm", "clicks", *kept, "--resume")
    assert "nothing is left to do" in done.stderr


def test_a_table_of_impressions_is_read_as_a_log_without_being_told(run):
    rows = "qid,docid,place,clicked\ni1,a,1,0\ni1,b,2,1\ni2,b,1,0\n"
    with open("log.csv", "w") as file:
        file.write(rows)
    run("convert", "log.csv", "log.store")
    log = pr.open_store("log.store")
    assert log.place.tolist() == [1, 2, 1]
    assert log.clicked.tolist() == [0, 1, 0]
    assert "clicks are not grades: the learner clicks learns from them" in run("learn", "log.csv", code=1).stderr
    refused = run("learn", "log.csv", "--algorithm", "clicks", code=1).stderr
    assert "clicks needs features, and the stream has none: --features names a table that has them" in refused
    refused = run("bound", "log.csv", code=1).stderr
    assert "Places and clicks make it a log of clicks, which are not grades: convert --clicks reads it" in refused
    with pytest.raises(pr.FormatError, match=r"a log of clicks, which are not grades: `read_clicks` reads it"):
        pr.read_table("log.csv")


def test_a_table_with_columns_of_other_names_is_told_what_to_call_them(run, tmp_path):
    (tmp_path / "log.csv").write_text("impression,docid,place,klicks\n1,a,1,0\n")
    said = run("convert", "log.csv", "--clicks", "out.parquet", code=1).stderr
    assert "--log kind=… says what it is" in said
    said += run("convert", "log.csv", "--clicks", "--log", "kind=table", "out.parquet", code=1).stderr
    assert said.count("clicked or click or clicks or is_click or is_clicked") == 2


def test_examination_is_given_in_a_file_or_as_numbers(run, tmp_path):
    shop = pr.mslr_shaped(60, n_documents=8, n_features=4, seed=1)
    log = pr.simulate_clicks(shop, pr.clicks.user("navigational"), policy="fair-pairs", impressions=300)
    pr.write_parquet(log.with_columns({"relevance": None, "qid": np.arange(len(log))}), "log.parquet")
    (tmp_path / "bias.json").write_text(run("position-bias", "log.parquet", "--json").stdout)
    bias = pr.clicks.PositionBias.from_plain(json.loads((tmp_path / "bias.json").read_text()))
    for text, value in (("bias.json", bias), ("1,0.5,0.3", [1, 0.5, 0.3])):
        learn = ["learn", "log.parquet", "--algorithm", "ips-listwise", "--set", f"examination={text}"]
        run(*learn, "--save", "model.json")
        expected = pr.IpsListwise(examination=value)
        expected.learn(log)
        assert np.array_equal(pr.load("model.json").weights, expected.weights)
    assert "there is no file none.json" in run(*learn, "--set", "examination=none.json", code=1).stderr
    (tmp_path / "none.json").write_text("{}")
    assert "is not what 'perceptrank position-bias" in run(*learn, "--set", "examination=none.json", code=1).stderr
    with pytest.raises(ValueError, match=r"^examination must be a number >= 0 for each place"):
        pr.IpsListwise(examination="bias.json").learn(log)
