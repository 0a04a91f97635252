"""The commands that learn: each agrees with the library, and can be stopped and gone on with."""

import gzip
import importlib.util
import json
import os
import pickle
import re
import runpy
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import ir_measures
import numpy as np
import pytest
from support.shop import make_shop
from typer.main import get_command
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import Commands, app
from perceptrank.cli.making import parse_rates, parse_settings
from perceptrank.cli.reproduce import _print_losses
from perceptrank.cli.terminal.pace import Pace
from perceptrank.cli.terminal.tables import ProgressBar, announce_compiling
from perceptrank.stream.validation import ParameterError, check_positive

STREAM = pr.separable(120, n_features=5, label_noise=0.2, seed=3).stream


@pytest.fixture
def files(tmp_path):
    pr.write_letor(STREAM, tmp_path / "train.txt.gz")
    return tmp_path / "train.txt.gz"


@pytest.fixture
def stream(files):
    return pr.read_letor(files)


def test_learn_is_learn(run, files, stream, tmp_path):
    model, trace, plot = tmp_path / "m.json", tmp_path / "t.npz", tmp_path / "c.png"
    result = run("learn", files, "--save", model, "--trace", trace, "--plot", plot, "--json")
    expected = pr.ListwisePerceptron()
    recorded = expected.learn(stream, ["ndcg@10", "ap"])
    found = json.loads(result.stdout)
    assert found["rows"][0]["ndcg@10"] == recorded.mean("ndcg@10")
    assert found["queries"] == 120
    assert np.array_equal(pr.load(model).weights, expected.weights)
    assert np.array_equal(pr.Trace.load(trace).values("ap"), recorded.values("ap"), equal_nan=True)
    assert plot.stat().st_size > 1000
    assert "listwise" in run("learn", files).stdout


def test_learn_settings(run, files, stream, tmp_path):
    model = tmp_path / "m.json"
    arguments = ["--algorithm", "slam", "--measure", "ap", "--learning-rate", 0.5, "--average"]
    arguments += ["--transform", "query-zscore", "--transform", "running", "--set", "margin=2", "--record", "ndcg@5"]
    run("learn", files, *arguments, "--save", model)
    expected = pr.SlamPerceptron(
        "ap", learning_rate=0.5, average=True, transforms=["query-zscore", "running"], margin=2
    )
    expected.learn(stream)
    assert np.array_equal(pr.load(model).coef_, expected.coef_)


def test_transforms_are_a_flag_or_a_setting(run, files, tmp_path):
    run("learn", files, "--transform", "running", "--save", tmp_path / "1.json")
    run("learn", files, "--set", "transforms=running", "--save", tmp_path / "2.json")
    assert (tmp_path / "1.json").read_text() == (tmp_path / "2.json").read_text()
    assert (
        "transforms is given twice"
        in run("learn", files, "--transform", "auto", "--set", "transforms=clip", code=1).stderr
    )
    words = ["--save", tmp_path / "2.json", "--resume", "--set"]
    run("learn", files, *words, "transforms=running")
    assert "learned with" in run("learn", files, *words, "transforms=clip", code=1).stderr


@pytest.mark.parametrize("algorithm", ["listwise", "sum", "tournament", "bagging:listwise", "bagging:adagrad:listwise"])
def test_no_transforms_are_none_whatever_the_defaults(run, files, tmp_path, algorithm):
    run("learn", files, "--algorithm", algorithm, "--transform", "none", "--save", tmp_path / "m.json")
    assert pr.load(tmp_path / "m.json").transforms_ == []
    words = ["adversary", "--algorithm", algorithm, "--margin", 0.5, "--json"]
    assert json.loads(run(*words).stdout)["rows"][0]["lost"] == 15


def test_learning_goes_on_from_a_model(run, files, stream, tmp_path):
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    run("learn", files, "--save", one)
    run("learn", files, "--from", one, "--save", two)
    expected = pr.ListwisePerceptron()
    expected.learn(stream)
    expected.learn(stream)
    assert np.array_equal(pr.load(two).weights, expected.weights)
    assert "no settings" in run("learn", files, "--from", one, "--measure", "ap", code=1).stderr


def test_stopped_and_resumed_is_never_stopped(run, tmp_path):
    """A file with the first queries stands for a run that was cut off after them."""
    pr.write_letor(STREAM[:70], tmp_path / "begun.txt")
    pr.write_letor(STREAM, tmp_path / "whole.txt")
    model, trace = tmp_path / "m.json", tmp_path / "t.npz"
    keeping = ["--save", model, "--trace", trace, "--checkpoint", 25, "--transform", "running"]
    run("learn", tmp_path / "begun.txt", *keeping)
    recorded = pr.Trace.load(trace)
    pr.Trace.concatenate([recorded, recorded]).save(trace)  # the power went after the trace was saved
    run("learn", tmp_path / "whole.txt", *keeping, "--resume")
    expected = pr.ListwisePerceptron(transforms="running")
    values = expected.learn(pr.read_letor(tmp_path / "whole.txt"), ["ndcg@10", "ap"])
    found = pr.load(model)
    assert np.array_equal(found.weights, expected.weights)
    assert found.n_queries == 120
    again = pr.Trace.load(trace)
    assert len(again) == 120
    assert np.array_equal(again.values("ap"), values.values("ap"), equal_nan=True)
    before = model.read_bytes()
    finished = run("learn", tmp_path / "whole.txt", "--save", model, "--resume")  # a loop that tries again must end
    assert "has learned from all 120 queries of these files: nothing is left to do" in finished.stderr
    assert model.read_bytes() == before


@pytest.mark.deep
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_resumed_is_never_stopped(how, tmp_path):
    data = pr.separable(30_000, n_features=5, label_noise=0.2, seed=3).stream
    pr.write_store(data, tmp_path / "s")
    model = tmp_path / "m.json"
    command = [sys.executable, "-m", "perceptrank", "learn", tmp_path / "s", "--save", model]
    command += ["--checkpoint", "50", "--trace", tmp_path / "t.npz", "--resume"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not model.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(how)
    _, messages = process.communicate()
    stopped_at = pr.load(model).n_queries
    assert 0 < stopped_at < 30_000
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert b"--resume goes on from there" in messages
    subprocess.run([one if one != "50" else "10000" for one in command], check=True, stdout=subprocess.DEVNULL)
    expected = pr.ListwisePerceptron()
    values = expected.learn(data, ["ndcg@10"])
    assert np.array_equal(pr.load(model).weights, expected.weights)
    found = pr.Trace.load(tmp_path / "t.npz").values("ndcg@10")
    assert np.array_equal(found, values.values("ndcg@10"), equal_nan=True)


def test_evaluate_is_evaluate(run, files, stream, tmp_path):
    run("learn", files, "--save", tmp_path / "m.json")
    found = json.loads(run("evaluate", tmp_path / "m.json", files, "--record", "ap", "--json").stdout)
    expected = pr.evaluate(pr.load(tmp_path / "m.json"), stream, "ap")
    (row,) = found["rows"]
    assert row["mean"] == expected.mean("ap")
    assert row["low"] < row["mean"] < row["high"]
    assert "0." in run("evaluate", tmp_path / "m.json", files).stdout


def test_rank_writes_a_run_that_others_read(run, stream, tmp_path):
    comments = [f"docid = d{i} inc = 1" if i % 2 else f"d{i}" for i in range(stream.n_documents)]
    named = pr.QueryStream(stream.X, stream.relevance, stream.offsets, qids=stream.qids, comments=comments)
    pr.write_letor(named, tmp_path / "n.txt")
    run("learn", tmp_path / "n.txt", "--save", tmp_path / "m.json")
    run("rank", tmp_path / "m.json", tmp_path / "n.txt", "--out", tmp_path / "run.txt", "--tag", "mine")
    ranker = pr.load(tmp_path / "m.json")
    lines = [line.split() for line in (tmp_path / "run.txt").read_text().splitlines()]
    assert {line[5] for line in lines} == {"mine"}
    assert [int(line[3]) for line in lines[:20]] == list(range(1, 21))
    first = [f"d{row}" for row in ranker.rank(stream[0].X)]
    assert [line[2] for line in lines[:20]] == first
    qrels = [
        ir_measures.Qrel(str(qid), f"d{row}", int(stream.relevance[row]))
        for q, qid in enumerate(stream.qids)
        for row in range(stream.offsets[q], stream.offsets[q + 1])
    ]
    ap = ir_measures.calc_aggregate([ir_measures.AP], qrels, ir_measures.read_trec_run(str(tmp_path / "run.txt")))
    assert ap[ir_measures.AP] == pytest.approx(pr.evaluate(ranker, stream, "ap").mean("ap"))
    short = run("rank", tmp_path / "m.json", tmp_path / "n.txt", "--top", 3).stdout.splitlines()
    assert len(short) == 3 * 120
    assert "one word" in run("rank", tmp_path / "m.json", tmp_path / "n.txt", "--tag", "a b", code=1).stderr


@pytest.mark.parametrize("kind", ["text", "numbered"])
def test_trec_eval_finds_our_measures_in_the_run_and_the_judgements(run, stream, tmp_path, kind):
    """The files as trec_eval reads them, with ids of every kind; queries without relevant documents are 0 to it."""
    import pytrec_eval

    ids = [f"doc:{i}/ü#{'x' * (i % 3)}" for i in range(stream.n_documents)]
    grades = np.where(np.repeat(np.arange(120), 20) % 7 == 0, 0.0, stream.relevance)
    qids = [f"q-{q}?" for q in range(120)] if kind == "text" else None
    named = pr.QueryStream(stream.X, grades, stream.offsets, qids=qids, docids=ids if kind == "text" else None)
    pr.write_store(named, tmp_path / "s.store")
    run("learn", tmp_path / "s.store", "--save", tmp_path / "m.json")
    files = {"--out": tmp_path / "run.txt", "--qrels": tmp_path / "qrels.txt"}
    run("rank", tmp_path / "m.json", tmp_path / "s.store", *(word for pair in files.items() for word in pair))
    with open(files["--out"]) as found, open(files["--qrels"]) as judged:
        ranked, judgements = pytrec_eval.parse_run(found), pytrec_eval.parse_qrel(judged)
    theirs = pytrec_eval.RelevanceEvaluator(judgements, {"ndcg_cut", "map", "recip_rank", "P"}).evaluate(ranked)
    names = {"ndcg_cut_10": "ndcg@10", "map": "ap", "recip_rank": "rr", "P_5": "p@5"}
    ours = pr.evaluate(pr.load(tmp_path / "m.json"), named, [f"trec_eval:{one}" for one in names.values()])
    for their_name, name in names.items():
        expected = [theirs[str(qid)][their_name] for qid in named.qids]
        np.testing.assert_allclose(ours.values(f"trec_eval:{name}"), expected, rtol=1e-12, err_msg=name)
    assert 0 < ours.mean("trec_eval:ndcg@10") < 1
    short = ["rank", tmp_path / "m.json", tmp_path / "s.store", "--top", 1, "--qrels", tmp_path / "again.txt", "--json"]
    assert len(run(*short).stdout.splitlines()) == 120
    assert (tmp_path / "again.txt").read_bytes() == files["--qrels"].read_bytes()


@pytest.mark.parametrize(
    ("grade", "docids", "message"),
    [
        (0.5, ["a", "b"], "TREC judgements are whole numbers, got 0.5 for document 'b' of query 0"),
        (2, ["a", "b\u00a0c"], "cannot hold the document id 'b\\xa0c', which has spaces; --json can"),
        (2, ["a", "a"], "cannot hold the document 'a' twice, as query '0' has it; --json can"),
    ],
)
def test_what_trec_files_cannot_hold_is_refused_and_leaves_nothing(run, tmp_path, grade, docids, message):
    stream = pr.QueryStream([[1.0], [2.0]], [0, grade], [0, 2], docids=docids)
    pr.write_store(stream, tmp_path / "s.store")
    pr.FixedRanker([1.0]).save(tmp_path / "m.json")
    words = ["rank", tmp_path / "m.json", tmp_path / "s.store", "--out", tmp_path / "run.txt"]
    assert message in run(*words, "--qrels", tmp_path / "qrels.txt", code=1).stderr
    assert not {"run.txt", "qrels.txt"} & {path.name for path in tmp_path.iterdir()}
    assert run("rank", tmp_path / "m.json", tmp_path / "s.store", "--json").stdout.count("docid") == 2


def test_remarks_are_not_names_of_documents(run, tmp_path):
    (tmp_path / "s.txt").write_text("1 qid:1 1:0.5 # judged twice\n0 qid:1 1:1 # judged once\n1 qid:2 1:0.5 # judged\n")
    pr.FixedRanker([1.0]).save(tmp_path / "m.json")
    lines = run("rank", tmp_path / "m.json", tmp_path / "s.txt").stdout.splitlines()
    assert [line.split()[:3:2] for line in lines] == [["1", "2"], ["1", "1"], ["2", "judged"]]


def test_documents_without_names_are_numbered(run, files, tmp_path):
    run("learn", files, "--save", tmp_path / "m.json")
    lines = run("rank", tmp_path / "m.json", files).stdout.splitlines()
    assert sorted(int(line.split()[2]) for line in lines[:20]) == list(range(1, 21))


def test_compare_is_compare(run, files, stream, tmp_path):
    arguments = ["--algorithm", "slam", "--algorithm", "listwise", "--learning-rate", "0.1,1", "--record", "ap"]
    found = json.loads(run("compare", files, *arguments, "--plot", tmp_path / "c.svg", "--json").stdout)
    expected = pr.compare(
        {
            "slam 0.1": pr.SlamPerceptron(),
            "slam 1": pr.SlamPerceptron(learning_rate=1.0),
            "listwise": pr.ListwisePerceptron(),
        },
        stream,
        "ap",
    )
    assert found["rows"] == json.loads(json.dumps([one._asdict() for one in expected.standings("ap")]))
    only = json.loads(run("compare", files, "--algorithm", "listwise", "--learning-rate", 5, "--json").stdout)
    assert [row["name"] for row in only["rows"]] == ["listwise 5"]
    assert found["queries"] == 120
    assert (tmp_path / "c.svg").stat().st_size > 1000
    table = run("compare", files, "--float64").stdout
    for name in pr.algorithms():
        assert name in table


def test_algorithms(run):
    found = json.loads(run("algorithms", "--json").stdout)["rows"]
    assert [row["name"] for row in found] == sorted(pr.algorithms())
    assert "learning_rate" in found[0]["settings"]
    around = json.loads(run("algorithms", "--json").stdout)["wrappers"]
    assert [row["name"] for row in around] == sorted(pr.wrappers())
    printed = run("algorithms").stdout
    assert all(name in printed for name in pr.algorithms())
    assert "(1 + 2ρ) D²/γ²" in printed


@pytest.mark.parametrize("width", [80, 60])
def test_tables_without_room_are_written_row_by_row(run, monkeypatch, width):
    """At the width of a terminal no text is cut, and none is a ribbon of a few characters."""
    monkeypatch.setattr("perceptrank.cli.terminal.tables._WIDTH_OF_FILES", width)
    for words in (["algorithms"], ["adversary", "--algorithm", "slam"]):
        printed = run(*words).stdout
        assert "…" not in printed, words
    lines = run("algorithms").stdout.splitlines()
    listed = [line for line in lines if not line.startswith("m documents")]
    assert max(map(len, listed)) <= width
    for name, kind in pr.algorithms().items():
        told = lines[lines.index(name) + 1 :]
        described = " ".join(" ".join(told[: told.index("")]).split())
        assert kind.__doc__.strip().partition("\n")[0] in described
        assert f"cost of a query: {kind.cost}" in described
    texts = [line for line in listed if line.startswith("  what it does")]
    assert np.mean([len(line) for line in texts]) > 0.7 * width


def test_simulate(run, tmp_path):
    report = json.loads(run("simulate", tmp_path / "s.txt", "--queries", 40, "--seed", 2, "--json").stdout)
    simulated = pr.separable(40, seed=2)
    assert report["ranker"] == simulated.ranker.tolist()
    assert np.array_equal(pr.read_letor(tmp_path / "s.txt", dtype="float64").X, simulated.stream.X)
    run("simulate", tmp_path / "m.store", "--kind", "mslr", "--queries", 5, "--documents", 10, "--features", 7)
    assert pr.open_store(tmp_path / "m.store").n_features == 7
    assert "already" in run("simulate", tmp_path / "s.txt", code=1).stderr


def test_adversary(run):
    found = json.loads(run("adversary", "--algorithm", "slam", "--margin", 0.5, "--record", "ap", "--json").stdout)
    (row,) = found["rows"]
    assert row["rounds"] == row["lost"] == len(found["losses"]) == 15
    assert row["loss"] >= row["lower bound"] == 7.5
    assert "margin 0.5" in run("adversary", "--margin", 0.5, "--version", "paper").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn", "nothing.txt"], "there is no file nothing.txt"),
        (["learn", "FILES", "--algorithm", "none"], "algorithm must be one of"),
        (["learn", "FILES", "--algorithm", "listnet", "--measure", "ap"], "listnet has no setting measure"),
        (["learn", "FILES", "--measure", "nothing@3"], "nothing"),
        (["learn", "FILES", "--set", "x"], "name=value"),
        (["learn", "FILES", "--checkpoint", "5"], "need --save"),
        (["learn", "FILES", "--transform", "big"], "--transform must be one of"),
        (["evaluate", "nothing.json", "FILES"], "nothing.json"),
        (["compare", "FILES", "--learning-rate", "a:b"], "learning rates must be like"),
        (["compare", "FILES", "--algorithm", "none"], "algorithm must be one of"),
        (["compare", "FILES", "--algorithm", "slam", "--set", "margn=2"], "none of slam has a setting margn"),
        (["compare", "FILES", "--plot", "x.foo"], "a plot must end with"),
        (["learn", "FILES", "--save", "m.json", "--resume", "--from", "x"], "there is no file x"),
        (["rank", "nofile.json", "FILES"], "there is no file nofile.json"),
        (["rank", ".", "FILES"], "cannot use .: Is a directory"),
        (["learn", "FILES", "--trace", "no/such/t.npz"], "there is no folder"),
        (["learn", "FILES", "--trace", "x", "--save", "x"], "different files"),
        (["learn", "FILES", "--learning-rate", "2", "--set", "learning_rate=3"], "given twice"),
        (["learn", "FILES", "--set", "foo=null"], "no setting foo"),
        (["learn", "dtype_n_features.txt"], "there is no file dtype_n_features.txt"),
        (["adversary", "--margin", "9"], "too large for radius"),
    ],
)
def test_errors_are_one_message(run, files, arguments, message):
    result = run(*(str(files) if one == "FILES" else one for one in arguments), code=1)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", ["learn", "FILE", "--learning-rate", "-1"], "error: --learning-rate must be a number > 0, got -1.0\n"),
        ("", ["learn", "FILE", "--transform", "big"], "error: --transform must be one of "),
        ("", ["learn", "FILE", "--algorithm", "none"], "error: --algorithm must be one of "),
        ("", ["learn", "FILE", "--set", "relative_margin=-1"], "error: relative_margin must be"),
        ("", ["simulate", "new.txt", "--features", "1"], "error: --features must be at least 2, got 1\n"),
        ("", ["simulate", "new.txt", "--label-noise", "3"], "error: --label-noise must be a probability, got 3.0\n"),
        ("", ["adversary", "--margin", "0.5", "--rounds", "99"], "error: --rounds must be at most 15"),
        ("", ["convert", "FILE", "STORE"], "overwrite it (--overwrite)\n"),
        (
            "",
            ["learn", "STORE", "--n-features", "2", "--clip", "1"],
            "error: --n-features, --clip: applies to LETOR text only",
        ),
        ("1 qid:1 1:1\n", ["learn", "FILE", "--clip", "-2"], "error: --clip must be a number > 0, got -2.0\n"),
        ("1 qid:1 0:1\n", ["learn", "FILE"], "if they count from 0 here, use --zero-based\n"),
        (
            "1 1:1 # q\n",
            ["learn", "FILE", "--qid", "field"],
            "got '1:1'; if it is elsewhere, use --qid comment or group=…",
        ),
        ("1 qid:1 1:1 # q\n", ["learn", "FILE", "--qid", "comment"], "if the field does, use --qid field\n"),
        ("1 qid:1 1:1e39\n", ["learn", "FILE"], "--float64 keeps it, --clip bounds it\n"),
        (
            "1 qid:1 3:1\n",
            ["learn", "FILE", "--n-features", "2"],
            "with --n-features 2 ids go from 1 to 2, got '3:1'",
        ),
        ("1 qid:1 9999999:1\n", ["learn", "FILE"], "must be declared with --n-features, got"),
        ("1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:2\n", ["learn", "FILE"], "convert --group groups them"),
        (
            "1 qid:1 1:1e308\n0 qid:1 1:-1e308\n",
            ["learn", "FILE", "--float64", "--transform", "none"],
            "with --transform running\n",
        ),
    ],
)
def test_errors_name_flags(run, tmp_path, monkeypatch, text, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("n_features=clip.txt").write_text(text or "1 qid:1 1:1\n0 qid:1 1:0\n")
    pr.write_store(STREAM[:2], "store")
    names = {"FILE": "n_features=clip.txt", "STORE": "store"}
    result = run(*(names.get(one, one) for one in arguments), code=1)
    assert message in result.stderr
    assert "--n-features=" not in result.stderr  # what looks like a parameter in a file's name stays


def test_errors_carry_what_they_name():
    with pytest.raises(ParameterError, match=r"^learning_rate must be a number > 0, got -1$") as caught:
        check_positive("learning_rate", -1)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.parameter, error.rule, error.value) == ("learning_rate", "must be a number > 0", -1)
    assert str(error) == str(caught.value)
    assert isinstance(error, ValueError)
    wrong = pr.FormatError("a.txt", 2, 3, "expected qid:ID; `group=…` helps")
    again = pickle.loads(pickle.dumps(wrong))
    assert (again.path, again.line, again.column, again.problem) == ("a.txt", 2, 3, "expected qid:ID; `group=…` helps")
    assert str(again) == str(wrong)


def test_help_and_wrong_use_load_no_numbers():
    code = """
import sys
from typer.main import get_command
from typer.testing import CliRunner
from typer.main import get_command
from perceptrank.cli.app import Commands, app
runner = CliRunner()
names = list(get_command(app).commands)
assert len(names) > 10
for arguments in (["--help"], ["--version"], ["learn"], *([name, "--help"] for name in names)):
    assert runner.invoke(app, arguments).exit_code == (2 if arguments == ["learn"] else 0), arguments
print({"numpy", "numba", "scipy"} & set(sys.modules))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


def test_text_needs_no_pydantic_and_numbers_are_validated(run, files):
    command = [sys.executable, "-X", "importtime", "-m", "perceptrank", "learn", str(files), "--record", "ap", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [row.keys() for row in json.loads(result.stdout)["rows"]] == [
        {"algorithm": 0, "ap": 0, "queries": 0, "updates": 0}.keys()
    ]
    assert "pydantic" not in result.stderr
    for wrong in (["--checkpoint", "0"], ["--learning-rate", "x"], ["--qid", "there"], ["--threads", "1.5"]):
        assert f"Invalid value for '{wrong[0]}'" in run("learn", files, *wrong, code=2).stderr


def test_debug_shows_the_traceback(files):
    command = [sys.executable, "-m", "perceptrank", "--debug", "learn", str(files), "--algorithm", "none"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_progress_in_a_log_is_lines(monkeypatch, capsys):
    monkeypatch.setattr("perceptrank.cli.terminal.tables._LINE_SECONDS", 0.0)
    with ProgressBar("learning") as bar:
        bar(5, 10)
        bar(3, 0)
    assert capsys.readouterr().err.endswith("learning: 50 %\nlearning …\n")


def test_a_progress_bar_follows_what_there_is_to_do(monkeypatch):
    """It may become known late, or be of another unit in the next step: shards, then documents."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("perceptrank.cli.terminal.tables._PATIENCE_SECONDS", 0.0)
    with ProgressBar("judging") as bar:
        seen = []
        for done, total in ((1, 2), (2, 2), (10, 40)):
            bar(done, total)
            seen.append(bar._progress.tasks[0].percentage)
    assert seen == [50, 100, 25]


def test_a_slow_learner_gets_pieces_of_half_a_second(monkeypatch):
    """A block may take minutes: progress is seen and Ctrl-C is heeded between its pieces."""
    clock, told, sizes = [0.0], [], []
    monkeypatch.setattr("perceptrank.cli.terminal.pace.time.monotonic", lambda: clock[0])
    pace = Pace(lambda done, total: told.append(done / total))
    stream = pr.separable(600, n_documents=10, n_features=5, seed=3).stream

    def reading():
        pace(300, 600)
        yield stream[:300]
        pace(600, 600)
        yield stream[300:]

    learner = pr.ListwisePerceptron()
    for piece in pace.pieces(reading(), after=20):
        learner.learn(piece)
        clock[0] += 0.02 * len(piece)
        sizes.append(len(piece))
    assert sizes == [20, 100] + 7 * [25] + [5] + 12 * [25]  # the first as long as what is looked at for spreads
    assert told[0] == 300 / 600  # by the reader, before there is a block
    assert told[1:4] == [120 / 600, 145 / 600, 170 / 600]
    assert told[1:] == sorted(told[1:])
    assert told[-1] == 1
    expected = pr.ListwisePerceptron()
    expected.learn(stream)
    assert learner.as_document() == expected.as_document()


def test_a_fast_learner_gets_whole_blocks():
    blocks = list(pr.separable(400, n_documents=10, n_features=5, seed=3).stream.blocks(20_000))
    sizes = [len(piece) for piece in Pace(lambda *_: None).pieces(iter(blocks))]
    assert len(blocks) > 2
    assert sizes == [len(block) for block in blocks]


@pytest.mark.parametrize("format", ["parquet", "store"])
def test_learning_tells_how_far_it_is(run, tmp_path, monkeypatch, format):
    monkeypatch.setattr("perceptrank.cli.terminal.tables._LINE_SECONDS", 0.0)
    monkeypatch.setattr("perceptrank.cli.terminal.pace._SECONDS", 0.0)  # pieces of one query, after the first 1000 rows
    stream = pr.separable(103, n_documents=10, n_features=5, seed=3).stream
    path = tmp_path / f"big.{format}"
    pr.write_parquet(stream, path) if format == "parquet" else pr.write_store(stream, path)
    lines = run("learn", path).stderr.splitlines()
    assert [line for line in lines if line.startswith("learning")][-3:] == [f"learning: {n} %" for n in (98, 99, 100)]


def test_a_run_that_is_stopped_says_what_it_has_learned(run, files, monkeypatch):
    learn = pr.ListwisePerceptron.learn
    monkeypatch.setattr("perceptrank.cli.terminal.pace._FIRST_DOCUMENTS", 100)

    def interrupted(self, stream, measures=None):
        if self.n_queries >= allowed:
            raise KeyboardInterrupt
        return learn(self, stream, measures)

    monkeypatch.setattr(pr.ListwisePerceptron, "learn", interrupted)
    allowed = 0
    assert "stopped before a query was learned from: nothing is saved" in run("learn", files, code=130).stderr
    allowed = 1
    message = run("learn", files, code=130).stderr
    assert re.search(r"stopped after \d+ queries; not saved \(--save FILE\)", message)


def test_help_groups_commands_and_options(run):
    main = run("--help").stdout
    assert (
        main.index("A shop's day") < main.index("learn ") < main.index("Research and set-up") < main.index("reproduce")
    )
    options = run("learn", "--help").stdout
    for panel in ("Model", "Files", "Clicks", "Data", "Several processes"):
        assert f"─ {panel} ─" in options
    for text in (main, options, run("serve", "--help").stdout):
        assert not any(f"<{kind}" in text for kind in ("bool", "str", "list", "int", "float", "path"))


def test_every_command_has_help_with_an_example(run):
    for name in get_command(app).commands:
        assert f"Example: perceptrank {name}" in " ".join(run(name, "--help").stdout.split())


def test_rates_and_settings():
    assert parse_rates("0.5") == [0.5]
    assert parse_rates("1e-4:1:5") == [1e-4, 1e-3, 1e-2, 0.1, 1.0]
    for wrong in ("", "0", "1:2", "-1:1:3", "nan"):
        with pytest.raises(ValueError, match="learning rates must be"):
            parse_rates(wrong)
    assert parse_settings(["a-b=1", "c=true", "d=null", "e=top"]) == {"a_b": 1, "c": True, "d": None, "e": "top"}


def test_resuming_needs_the_same_settings_and_records(run, files, tmp_path):
    model, trace = tmp_path / "m.json", tmp_path / "t.npz"
    run("learn", files, "--save", model, "--trace", trace, "--measure", "ap")
    again = ["learn", files, "--save", model, "--resume"]
    assert "is a listwise, not a slam" in run(*again, "--algorithm", "slam", code=1).stderr
    assert "learned with --measure 'ap', not 'ndcg'" in run(*again, "--measure", "ndcg", code=1).stderr
    assert "other measures" in run(*again, "--trace", trace, "--record", "ap", code=1).stderr
    assert "there is no" in run(*again, "--trace", tmp_path / "other.npz", code=1).stderr
    pr.Trace.load(trace)[:5].save(trace)
    assert "too few queries" in run(*again, "--trace", trace, code=1).stderr
    assert pr.load(model).n_queries == 120


def test_trees_need_no_learner_to_be_named(run, files, tmp_path):
    few = ["--set", "n_trees=3", "--set", "first_fit=50"]
    for name, learner in {"trees": pr.ListwisePerceptron, "trees:sum": pr.Sum}.items():
        run("learn", files, "--algorithm", name, *few, "--save", tmp_path / "m.json")
        model = pr.load(tmp_path / "m.json")
        assert model.name == f"trees:{learner.algorithm}"
        assert model.trees.forest.n_trees == 3
        assert "3 trees of" in run("show", tmp_path / "m.json").stdout


def test_what_is_around_a_learner_is_named_before_it(run, files, stream, tmp_path):
    model = tmp_path / "m.json"
    wrapped = ["--algorithm", "bagging:adagrad:listnet", "--learning-rate", 0.1, "--set", "n_members=3"]
    row = json.loads(run("learn", files, *wrapped, "--set", "steps=norm", "--save", model, "--json").stdout)["rows"][0]
    expected = pr.Bagging(pr.AdaGrad(pr.OnlineListNet(0.1), steps="norm"), n_members=3)
    expected.learn(stream)
    assert row["algorithm"] == expected.name == "bagging:adagrad:listnet"
    assert pr.load(model).as_document() == expected.as_document()
    again = ["learn", files, "--save", model, "--resume"]
    assert "is a bagging:adagrad:listnet, not a bagging:listnet" in (
        run(*again, "--algorithm", "bagging:listnet", code=1).stderr
    )
    assert "learned with --learning-rate 0.1, not 0.2" in run(*again, "--learning-rate", 0.2, code=1).stderr
    assert "nothing is left to do" in run(*again, *wrapped).stderr
    compared = ["compare", files, "--algorithm", "slam", "--algorithm", "bagging:slam", "--learning-rate", "0.1,1"]
    rows = json.loads(run(*compared, "--set", "n_members=2", "--json").stdout)["rows"]
    assert {one["name"] for one in rows} == {"slam 0.1", "slam 1", "bagging:slam 0.1", "bagging:slam 1"}
    run("learn", files, "--algorithm", "adagrad:listnet", "--set", "learner__learning_rate=0.3", "--save", model)
    assert pr.load(model).learner.learning_rate == 0.3
    twice = ["--algorithm", "adagrad:listnet", "--learning-rate", 0.1, "--set", "learner__learning_rate=0.3"]
    assert "is set twice" in run("learn", files, *twice, code=1).stderr
    named = ["--algorithm", "bagging:committee", "--set", "n_members=2", "--set", "learner__n_members=3"]
    run("learn", files, "--float64", *named, "--save", tmp_path / "c.json")
    assert [one.n_members for one in pr.load(tmp_path / "c.json").members] == [3, 3]
    other = run("learn", files, "--save", tmp_path / "c.json", "--resume", "--set", "learner__n_members=4", code=1)
    assert "learner__n_members 3, not 4" in other.stderr
    for wrong, message in {
        "slam:slam": "around a learner must be one of 'adagrad', 'bagging', 'fading', 'forgetting', 'trees', got",
        "bagging:": "algorithm must be one of",
        "adagrad:prank": "learner must be one with a learning_rate, got PRank()",
        "adagrad": "adagrad wraps another learner: use adagrad:listwise",
        "foo:bagging": "got 'foo'",
    }.items():
        assert message in run("learn", files, "--algorithm", wrong, code=1).stderr


def test_a_setting_can_be_nothing(run, files, stream, tmp_path):
    run("learn", files, "--set", "relative_margin=null", "--save", tmp_path / "m.json")
    expected = pr.ListwisePerceptron(relative_margin=None)
    expected.learn(stream)
    assert np.array_equal(pr.load(tmp_path / "m.json").weights, expected.weights)


def test_other_formats_take_threads_and_have_no_comments(run, stream, tmp_path):
    pr.write_parquet(stream, tmp_path / "s.parquet")
    pr.write_store(stream, tmp_path / "s.store")
    for source in ("s.parquet", "s.store"):
        run("learn", tmp_path / source, "--save", tmp_path / "m.json", "--threads", 2)
        assert len(run("rank", tmp_path / "m.json", tmp_path / source).stdout.splitlines()) == stream.n_documents
        run("compare", tmp_path / source, "--threads", 1, "--algorithm", "listwise", "--algorithm", "listnet")


def test_names_that_look_like_markup(run, files, tmp_path):
    model = tmp_path / "m[bold]x.json"
    run("learn", files, "--save", model)
    assert "m[bold]x.json" in run("evaluate", model, files).stdout.replace("\n", "")


def test_skipped_lines_are_one_warning(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\nnonsense\n")
    command = [sys.executable, "-m", "perceptrank", "learn", str(tmp_path / "a.txt"), "--skip-errors"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.startswith("warning: skipped 1 invalid lines")
    assert "UserWarning" not in result.stderr


def test_simulate_takes_nothing_that_has_no_effect(run, tmp_path):
    assert "--kind separable" in run("simulate", tmp_path / "m", "--kind", "mslr", "--margin", 1, code=1).stderr


COUNTED = """
import sys
from perceptrank.kernels.compiled import on_compile
compiled = []
on_compile(compiled.append)
from perceptrank.cli.app import Commands, app
app(sys.argv[1:], standalone_mode=False)
print(len(compiled), file=sys.stderr)
"""


@pytest.mark.deep
def test_what_is_warmed_up_is_not_compiled_again(files, tmp_path):
    settings = os.environ | {"PERCEPTRANK_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", COUNTED]
    first = subprocess.run([*command, "warm-up", "--json"], env=settings, capture_output=True, text=True, check=True)
    report = json.loads(first.stdout)
    assert len(report["kernels"]) == int(first.stderr.split()[-1]) > 3
    assert [row["algorithm"] for row in report["rows"]] == ["listwise"]
    assert report["seconds"] > 0
    assert report["cache"].startswith(str(tmp_path / "cache"))
    assert any(Path(report["cache"]).rglob("*"))
    text = gzip.decompress(files.read_bytes())
    (tmp_path / "a.txt").write_bytes(text)
    for again in (["warm-up", "--json"], ["learn", str(tmp_path / "a.txt")]):
        result = subprocess.run([*command, *again], env=settings, capture_output=True, text=True, check=True)
        assert result.stderr == "0\n"


def test_the_query_of_the_last_loss_is_called_one(capsys):
    check = SimpleNamespace(losses=np.ones(2), second_half=np.zeros(2), last_losses=[88, 5], bounds=None)
    check.contender = SimpleNamespace(label="slam")
    simulated, source = SimpleNamespace(bound_checks=[check]), SimpleNamespace(n_rounds=1000)
    stream = SimpleNamespace(simulated=simulated, trials=SimpleNamespace(source=source))
    _print_losses(SimpleNamespace(streams=[stream]))
    assert re.search(r"last loss at query .*\bslam\b.* 88 ", capsys.readouterr().out, re.S)


def test_warm_up_says_what_it_did(run):
    printed = run("warm-up", "--algorithm", "bagging:perceptron", "--algorithm", "perceptron").stdout
    assert "bagging:perceptron" in printed
    assert "kernels compiled in" in printed
    assert "cache: " in printed
    assert "not both" in run("warm-up", "--all", "--algorithm", "slam", code=1).stderr
    assert "--algorithm must be one of" in run("warm-up", "--algorithm", "none", code=1).stderr


def test_warm_up_fails_if_nothing_can_be_kept(run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERCEPTRANK_CACHE_DIR", str(tmp_path / "file"))
    message = run("warm-up", code=1).stderr
    assert message.startswith(f"error: compiled kernels cannot be kept: {tmp_path}/file/perceptrank cannot be")


def test_compiling_is_said_once_and_on_a_terminal_only(tmp_path, monkeypatch, capsys):
    (tmp_path / "fresh.py").write_text(
        "from perceptrank.kernels.compiled import compiled\n"
        "@compiled\ndef one(x):\n    return x + 1\n@compiled\ndef two(x):\n    return x + 2\n"
    )
    spec = importlib.util.spec_from_file_location("fresh", tmp_path / "fresh.py")
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    announce_compiling.cache_clear()
    announce_compiling()
    assert fresh.one(1) == 2
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    announce_compiling.cache_clear()
    announce_compiling()
    assert (fresh.one(1.0), fresh.two(1), fresh.one(2)) == (2, 3, 3)
    assert capsys.readouterr().err == "compiling kernels for the first use…\n"


PLUGIN = """
import perceptrank as pr


class Mine(pr.SlamPerceptron):
    \"\"\"A learner of a user.\"\"\"

    algorithm = "mine"
"""


def test_learners_of_users_are_known_by_name(files, stream, tmp_path):
    plugin, model = tmp_path / "mine.py", tmp_path / "m.json"
    plugin.write_text(PLUGIN)
    (tmp_path / "other.py").write_text(PLUGIN.replace("mine", "other").replace("Mine", "Other"))
    command = [sys.executable, "-m", "perceptrank"]
    learn = ["learn", files, "--algorithm", "mine", "--save", model, "--json"]
    result = subprocess.run([*command, "--plugin", plugin, *learn], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)["rows"][0]["algorithm"] == "mine"
    expected = pr.SlamPerceptron()
    expected.learn(stream)
    assert json.loads(model.read_text())["algorithm"] == "mine"
    settings = os.environ | {"PERCEPTRANK_PLUGINS": f"{plugin}{os.pathsep}{tmp_path / 'other.py'}"}
    listed = subprocess.run([*command, "algorithms"], env=settings, capture_output=True, text=True, check=True).stdout
    assert "mine" in listed
    assert "other" in listed
    evaluated = subprocess.run([*command, "evaluate", model, files], env=settings, capture_output=True, check=False)
    assert evaluated.returncode == 0


def test_a_plugin_that_is_not_there_is_an_error(run, tmp_path):
    result = run("--plugin", tmp_path / "nothing.py", "algorithms", code=1)
    assert result.stderr.startswith("error: ")
    assert "nothing.py" in result.stderr


def test_bound_on_a_separable_stream(run, tmp_path):
    run("simulate", tmp_path / "a.txt", "--queries", 60, "--margin", 1)
    plot = tmp_path / "bounds.png"
    words = ["bound", tmp_path / "a.txt", "--learning-rate", "0.1,1", "--plot", plot, "--json"]
    result = json.loads(run(*words).stdout)
    stream = pr.read_letor(tmp_path / "a.txt")
    best = pr.theory.margin(stream)
    assert result["separable"] is True
    assert result["margin"] == pytest.approx([best.lower, best.upper], rel=1e-3)
    assert result["diameter"] == pytest.approx(pr.theory.diameter(stream))
    assert result["radius"] == pytest.approx(pr.theory.radius(stream))
    assert [row["name"] for row in result["rows"]] == ["slam 0.1", "slam 1", "minimax", "listwise"]
    for row in result["rows"]:
        assert row["holds"]
        assert row["loss"] <= row["S"] <= row["a posteriori"]
        assert row["loss"] <= row["loss at most"] <= row["a priori"]
        assert row["from the steps"] <= row["a priori"]
    slam = pr.SlamPerceptron(learning_rate=1.0)
    losses = slam.learn(stream, "ndcg@10").losses("ndcg@10").sum()
    assert result["rows"][1]["loss"] == pytest.approx(losses)
    assert plot.read_bytes().startswith(b"\x89PNG")
    text = run("bound", tmp_path / "a.txt").stdout
    assert "best margin: " in text


def test_bound_on_a_noisy_stream_and_from_standard_input(run, tmp_path):
    run("simulate", tmp_path / "a.txt", "--queries", 60, "--label-noise", 0.2)
    text = (tmp_path / "a.txt").read_bytes()
    printed = CliRunner().invoke(app, ["bound", "-", "--measure", "ap", "--json"], input=text)
    result = json.loads(printed.stdout)
    assert result["separable"] is False
    assert result["algorithm_2_as_in_the_paper"] is None
    assert all(row["holds"] for row in result["rows"])
    assert "not separable" in run("bound", tmp_path / "a.txt").stdout


def test_bound_says_what_has_none(run, tmp_path):
    run("simulate", tmp_path / "a.txt", "--queries", 5)
    for name in ("listnet", "perceptron"):
        assert "no theorem" in run("bound", tmp_path / "a.txt", "--algorithm", name, code=1).stderr
    assert "algorithm must be" in run("bound", tmp_path / "a.txt", "--algorithm", "best", code=1).stderr
    assert "running" in run("bound", tmp_path / "a.txt", "--transform", "running", code=1).stderr
    assert "empty=skip" in run("bound", tmp_path / "a.txt", "--measure", "ndcg:empty=zero", code=1).stderr
    words = ["--algorithm", "minimax", "--learning-rate", 0.1]
    assert "for slam" in run("bound", tmp_path / "a.txt", *words, code=1).stderr
    (tmp_path / "c.txt").write_text("2000 qid:1 1:1\n1 qid:1 1:0.5\n0 qid:1 1:0\n")
    assert json.loads(run("bound", tmp_path / "c.txt", "--json").stdout)["v_max"] is None
    (tmp_path / "b.txt").write_text("1 qid:1 1:1\n1 qid:1 1:2\n")
    assert "different grades" in run("bound", tmp_path / "b.txt", code=1).stderr


def test_the_adversary_of_budgets(run):
    found = json.loads(run("adversary", "--budget", 4, "--rounds", 30, "--json").stdout)
    assert len(found["losses"]) == 30
    assert min(found["losses"]) > 0.36
    text = run("adversary", "--budget", 4, "--set", "policy=random", "--set", "rule=minimax").stdout
    assert "won" in text
    assert "would go on losing" in text
    assert "gave up" in run("adversary", "--budget", 4, "--algorithm", "minimax").stdout


def test_the_adversary_shows_bounds_and_separator(run):
    words = ["adversary", "--margin", 0.3, "--json"]
    result = json.loads(run(*words, "--learner", "listwise", "--set", "average=false").stdout)
    (row,) = result["rows"]
    assert row["loss"] >= row["lower bound"] - 1e-9
    assert row["loss"] <= row["upper bound"]
    assert row["per round"] == pytest.approx(row["loss"] / row["rounds"])
    assert np.linalg.norm(result["separator"]) == pytest.approx(1)
    assert row["upper bound"] == pytest.approx(0.5 * 3 * 4 / 0.3**2, rel=0.05)  # 1 - 1/log2(4) is lost at most
    assert json.loads(run(*words).stdout)["rows"] == [row]  # by the current weights, unless told
    (averaged,) = json.loads(run(*words, "--learner", "listwise", "--set", "average=true").stdout)["rows"]
    assert averaged["upper bound"] == pytest.approx(2 * 3 * row["upper bound"] + 2)
    assert averaged["loss"] <= averaged["upper bound"]
    for name in ("listnet", "perceptron"):
        assert json.loads(run(*words, "--algorithm", name).stdout)["rows"][0]["upper bound"] is None
    assert "(-0.1" in run("adversary", "--margin", 0.3).stdout
    text = run("adversary", "--margin", 0.3, "--algorithm", "slam", "--set", "average=true").stdout
    assert "--set average=false" in text
    run("adversary", "--radius", 1e-170, "--margin", 1e-171, "--algorithm", "slam")
    (transformed,) = json.loads(run(*words, "--set", "transforms=query-rank").stdout)["rows"]
    assert transformed["upper bound"] is None  # it is about other features


@pytest.mark.parametrize("m", [2, 5])
def test_the_adversary_reaches_the_bound(run, m):
    words = ["adversary", "--version", "exact", "--documents", m, "--margin", 0.5, "--json"]
    for name in ("minimax", "listwise"):
        more = ["--set", "relative_margin=0"] if name == "listwise" else []
        (row,) = json.loads(run(*words, "--algorithm", name, "--record", "ap", *more).stdout)["rows"]
        assert row["loss"] == pytest.approx(row["upper bound"]) == pytest.approx(16 * (1 - 1 / m))


def test_the_adversary_of_simplices(run):
    words = ["adversary", "--algorithm", "minimax", "--json"]
    found = json.loads(run(*words, "--comparator", "10,25", "--record", "ap").stdout)
    (row,) = found["rows"]
    assert row["rounds"] == row["lost"] == 448
    assert row["loss"] == row["lower bound"] == 224.0
    assert 224.0 <= row["upper bound"] < 224.5
    assert found["comparator"] == [10.0, 25.0]
    (row,) = json.loads(run(*words, "--version", "simplex", "--margin", 0.5, "--documents", 3).stdout)["rows"]
    assert row["rounds"] == 9
    assert row["loss"] == pytest.approx(4.5)
    assert "comparator 1,5" in run("adversary", "--comparator", "1,5").stdout
    assert "two numbers like 10,25" in run("adversary", "--comparator", "1", code=1).stderr
    assert "--version simplex" in run("adversary", "--comparator", "1,5", "--version", "exact", code=1).stderr


def test_the_adversary_of_margins(run):
    words = ["adversary", "--version", "margin", "--margin", 0.1, "--measure", "ndcg@1", "--json"]
    (row,) = json.loads(run(*words, "--set", "violators=uniform").stdout)["rows"]
    assert row["loss"] == row["lost"] == row["outranked"] > 0.94 * row["upper bound"]
    assert row["upper bound"] == pytest.approx(300)
    (row,) = json.loads(run(*words, "--set", "violators=top").stdout)["rows"]
    assert 0.98 * 112.5 < row["loss"] <= row["upper bound"] == pytest.approx(112.5)
    assert "needs listwise" in run(*words, "--algorithm", "slam", code=1).stderr
    assert "without a cut-off" in run(*words, code=1).stderr
    (row,) = json.loads(run("adversary", "--version", "margin", "--documents", 300, "--json").stdout)["rows"]
    assert row["lost"] == row["outranked"] > 0.5 * row["upper bound"]
    assert "needs raw features" in run(*words, "--set", "transforms=query-rank", code=1).stderr


def test_all_learners_are_compared_as_far_as_settings_suit_them(run, tmp_path):
    run("simulate", tmp_path / "a.txt", "--queries", 40)
    printed = run("compare", tmp_path / "a.txt", "--float64", "--measure", "ap", "--json")
    names = {row["name"] for row in json.loads(printed.stdout)["rows"]}
    assert names == set(pr.algorithms()) - {"structured-ndcg"}
    assert "structured-ndcg is skipped: --measure must be ndcg or ndcg@k, got 'ap'" in printed.stderr
    printed = run(
        "compare",
        tmp_path / "a.txt",
        "--algorithm",
        "prank",
        "--algorithm",
        "slam",
        "--set",
        "n_grades=100000000000000",
    )
    assert "warning: prank failed and was dropped" in printed.stderr
    assert "slam" in printed.stdout


def test_a_document_whose_id_is_empty_is_called_by_its_number(run, stream, tmp_path):
    docids = ["", *(f"d{row}" for row in range(1, stream.n_documents))]
    named = pr.QueryStream(stream.X, stream.relevance, stream.offsets, docids=docids)
    pr.write_letor(named, tmp_path / "s.txt")
    run("learn", tmp_path / "s.txt", "--save", tmp_path / "m.json")
    ranked = json.loads(run("rank", tmp_path / "m.json", tmp_path / "s.txt", "--json").stdout.splitlines()[0])
    assert {one["docid"] for one in ranked["documents"]} == {"1", *docids[1 : stream.offsets[1]]}
    shown = json.loads(run("show", tmp_path / "m.json", tmp_path / "s.txt", "--json", "--documents", 999).stdout)
    assert "'docid'" not in str(shown["query"]["documents"])


def test_rank_names_documents_and_writes_json(run, stream, tmp_path):
    qids = [f"red shoes {q}" for q in range(len(stream))]
    docids = [f"d {row}" for row in range(stream.n_documents)]
    named = pr.QueryStream(stream.X, stream.relevance, stream.offsets, qids=qids, docids=docids)
    pr.write_store(named, tmp_path / "s.store")
    run("learn", tmp_path / "s.store", "--save", tmp_path / "m.json")
    refused = run("rank", tmp_path / "m.json", tmp_path / "s.store", code=1).stderr
    assert "cannot hold the query id 'red shoes 0', which has spaces; --json can" in refused
    lines = run("rank", tmp_path / "m.json", tmp_path / "s.store", "--json", "--top", 3).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    ranker = pr.load(tmp_path / "m.json")
    assert [one["qid"] for one in found] == qids
    for one, query in zip(found, named, strict=True):
        order = ranker.rank(query.X)[:3]
        assert [document["docid"] for document in one["documents"]] == [query.docids[row] for row in order]
        assert [document["score"] for document in one["documents"]] == ranker.predict(query.X)[order].tolist()


def test_compare_takes_contenders_and_tunes_on_validation_queries(run, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = {"train": stream[:60], "vali": stream[60:90], "test": stream[90:]}
    for name, part in parts.items():
        pr.write_letor(part, f"{name}.txt")
    Path("trees.py").write_text(
        "from lightgbm import LGBMRanker\n"
        "make = lambda n: LGBMRanker(n_estimators=n, min_child_samples=2, n_jobs=1, verbose=-1)\n"
        "contenders = {'trees': [make(1), make(5)], 'first': lambda stream: stream.X[:, 0]}\n"
    )
    words = ["--algorithm", "slam", "--learning-rate", "0.01,1", "--contenders", "trees.py", "--seeds", "3,1"]
    words += ["--vali", "vali.txt", "--test", "test.txt", "--record", "ndcg@10"]
    found = json.loads(run("compare", "train.txt", *words, "--json").stdout)
    make = runpy.run_path("trees.py")["contenders"]
    rates = {"0.01": pr.SlamPerceptron(learning_rate=0.01), "1": pr.SlamPerceptron(learning_rate=1.0)}
    read = {name: pr.read_letor(f"{name}.txt") for name in parts}
    expected = pr.compare(
        {"slam": rates, **make}, read["train"], "ndcg@10", vali=read["vali"], test=read["test"], orders=[3, 1]
    )
    assert found["tuned"] == expected.tuned
    means = {row["name"]: row["mean"] for row in found["sets"]["test"]["ndcg@10"]["standings"]}
    assert means == {each.name: each.mean for each in expected.standings()}
    said = run("compare", "train.txt", *words)
    table = said.stdout
    told = [line for line in said.stderr.splitlines() if line.startswith("fitting")]
    assert told == [f"fitting trees {k} to 60 queries: order 1 of 2" for k in (1, 2)]
    assert re.search(r"trees [12] was chosen among 2 by --vali: ndcg@10 0\.\d{4}", table)
    assert re.search(r"trees [12] .* -  ", table)
    Path("none.py").write_text("contenders = 3")
    Path("fails.py").write_text("1 / 0")
    for options, message in (
        (["--vali", "vali.txt"], "--vali chooses among candidates"),
        (["--contenders", "trees.py"], "'trees' has several candidates: --vali names"),
        (["--contenders", "none.py"], "none.py must define contenders, a dictionary of names and models, got 3"),
        (["--contenders", "fails.py"], "fails.py cannot be run: ZeroDivisionError: division by zero"),
        (["--contenders", "no.py"], "no.py"),
        (["--test", "./train.txt"], "train.txt is given twice: --vali and --test must have other queries"),
        ([*words, "--test", "vali.txt"], "vali.txt is given twice"),
        (["--contenders", "trees.py", "--dask"], "--contenders are run on this machine"),
    ):
        assert message in run("compare", "train.txt", "--algorithm", "slam", *options, code=1).stderr


def test_compare_over_orders_is_compare_in_python(run, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pr.write_letor(stream[:80], "train.txt")
    pr.write_store(stream[:80], "train.store")
    pr.write_letor(stream[80:], "test.txt")
    named = ["--algorithm", "slam", "--algorithm", "listwise", "--record", "ap", "--test", "test.txt"]
    written = ["--csv", "t.csv", "--latex", "t.tex", "--plot", "c.pdf"]
    found = json.loads(run("compare", "train.txt", *named, "--seeds", "3,1", *written, "--json").stdout)
    both = {"slam": pr.SlamPerceptron(), "listwise": pr.ListwisePerceptron()}
    expected = pr.compare(both, pr.read_letor("train.txt"), "ap", test=pr.read_letor("test.txt"), orders=[3, 1])
    assert {key: found[key] for key in expected.as_plain()} == json.loads(json.dumps(expected.as_plain()))
    expected.save_csv("e.csv")
    expected.save_latex("e.tex")
    assert Path("t.csv").read_bytes() == Path("e.csv").read_bytes()
    assert Path("t.tex").read_bytes() == Path("e.tex").read_bytes()
    assert Path("c.pdf").stat().st_size > 1000
    table = " ".join(run("compare", "train.store", *named, "--orders", 2).stdout.split())
    assert "2 learners, 2 orders of 80 queries, 40 held out" in table
    assert "±" in table
    alone = " ".join(run("compare", "train.store", *named[:-2], "--orders", 1).stdout.split())
    assert "one order of 80 queries, best first" in alone
    assert "±" not in alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "a"], "--seeds must be whole numbers like 3,5,8, got 'a'"),
        (["--seeds", "1,1"], "--seeds must all be different, and from 0 to below 2**63, got '1,1'"),
        (["--seeds", "-1"], "--seeds must all be different, and from 0 to below 2**63, got '-1'"),
        (["--seeds", "1,2", "--orders", 3], "--orders is 3, and --seeds names 2"),
        (["--orders", 2, "--dask"], "leave out --dask"),
        (["--test", "FILES", "--csv", "FILES"], "which is read"),
        (["--latex", "a.tex", "--csv", "a.tex"], "must be different files"),
    ],
)
def test_orders_that_are_refused(run, files, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    words = [files if one == "FILES" else one for one in options]
    assert message in run("compare", files, "--algorithm", "slam", *words, code=1).stderr


def test_held_out_queries_of_another_width_are_refused_before_anything_is_learned(run, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pr.write_letor(stream[:20], "train.txt")
    pr.write_letor(stream[20:].with_features(stream[20:].X[:, :3]), "test.txt")
    monkeypatch.setattr(pr, "compare", lambda *given, **settings: pytest.fail("it was run"))
    refused = run("compare", "train.txt", "--test", "test.txt", "--algorithm", "slam", code=1).stderr
    assert (
        f"--test must have the {stream.n_features} features of the queries to learn from, got 3 in test.txt" in refused
    )


def test_columns_that_are_left_out_are_told_once(run, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    make_shop(tmp_path)
    told = run("compare", "day3.parquet", "--algorithm", "slam", "--orders", 2).stderr
    assert told.count("columns of text are no features: category") == 1


def test_the_commands_of_a_shops_day_come_first(run):
    said = run("--help").stdout
    names = re.findall(r"^│ ([a-z][\w-]*)  ", said, re.M)
    assert names[:5] == ["learn", "evaluate", "show", "export", "serve"]


@pytest.mark.parametrize("name", list(Commands()))
def test_help_fills_its_lines_and_has_each_panel_once(run, name):
    said = run(name, "--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
    titles = re.findall(r"^╭─ (.*?) ─+╮$", said, re.M)
    assert len(set(titles)) == len(titles)
    about = said.partition("╭")[0].splitlines()
    for line, following in pairwise(line.strip() for line in about):
        if line and following:
            assert len(line) + 1 + len(following.split()[0]) > 78, f"{line!r} has room for the next word"
    whole = {"convert": "csv>", "simulate": "contrary>", "adversary": "margin>"}  # choices that are not cut
    assert re.search(rf"[ <]{whole.get(name, '')}", said)
