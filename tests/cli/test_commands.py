"""The commands that learn: each agrees with the library, and can be stopped and gone on with."""

import json
import signal
import subprocess
import sys
import time

import ir_measures
import numpy as np
import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.cli.making import parse_rates, parse_settings
from perceptrank.cli.progress import ProgressBar

STREAM = pr.separable(120, n_features=5, label_noise=0.2, seed=3).stream


@pytest.fixture
def run():
    runner = CliRunner()

    def call(*arguments, code=0):
        result = runner.invoke(app, [str(one) for one in arguments])
        assert result.exit_code == code, result.output
        return result

    return call


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
    arguments += ["--scaling", "query-zscore", "--scaling", "running", "--set", "margin=2", "--record", "ndcg@5"]
    run("learn", files, *arguments, "--save", model)
    expected = pr.SlamPerceptron("ap", learning_rate=0.5, average=True, scaling=["query-zscore", "running"], margin=2)
    expected.learn(stream)
    assert np.array_equal(pr.load(model).coef_, expected.coef_)


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
    keeping = ["--save", model, "--trace", trace, "--checkpoint", 25, "--scaling", "running"]
    run("learn", tmp_path / "begun.txt", *keeping)
    recorded = pr.Trace.load(trace)
    pr.Trace.concatenate([recorded, recorded]).save(trace)  # the power went after the trace was saved
    run("learn", tmp_path / "whole.txt", *keeping, "--resume")
    expected = pr.ListwisePerceptron(scaling="running")
    values = expected.learn(pr.read_letor(tmp_path / "whole.txt"), ["ndcg@10", "ap"])
    found = pr.load(model)
    assert np.array_equal(found.weights, expected.weights)
    assert found.n_queries == 120
    again = pr.Trace.load(trace)
    assert len(again) == 120
    assert np.array_equal(again.values("ap"), values.values("ap"), equal_nan=True)
    assert "no more than that" in run("learn", tmp_path / "whole.txt", "--save", model, "--resume", code=1).stderr


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
    assert found["rows"] == [one._asdict() for one in expected.standings("ap")]
    only = json.loads(run("compare", files, "--algorithm", "listwise", "--learning-rate", 5, "--json").stdout)
    assert [row["name"] for row in only["rows"]] == ["listwise 5"]
    assert found["queries"] == 120
    assert (tmp_path / "c.svg").stat().st_size > 1000
    table = run("compare", files).stdout
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
        (["learn", "FILES", "--scaling", "big"], "scaling must be one of"),
        (["evaluate", "nothing.json", "FILES"], "nothing.json"),
        (["compare", "FILES", "--learning-rate", "a:b"], "learning rates must be like"),
        (["compare", "FILES", "--algorithm", "none"], "algorithm must be one of"),
        (["compare", "FILES", "--algorithm", "slam", "--set", "margn=2"], "none of slam has a setting margn"),
        (["compare", "FILES", "--plot", "x.foo"], "a plot must end with"),
        (["learn", "FILES", "--save", "m.json", "--resume", "--from", "x"], "not both"),
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


def test_debug_shows_the_traceback(files):
    command = [sys.executable, "-m", "perceptrank", "--debug", "learn", str(files), "--algorithm", "none"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_every_command_has_help_with_an_example(run):
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
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
    assert "learned with measure 'ap', not 'ndcg'" in run(*again, "--measure", "ndcg", code=1).stderr
    assert "other measures" in run(*again, "--trace", trace, "--record", "ap", code=1).stderr
    assert "there is no" in run(*again, "--trace", tmp_path / "other.npz", code=1).stderr
    pr.Trace.load(trace)[:5].save(trace)
    assert "too few queries" in run(*again, "--trace", trace, code=1).stderr
    assert pr.load(model).n_queries == 120


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
    assert "no more than that" in run(*again, *wrapped, code=1).stderr
    compared = ["compare", files, "--algorithm", "slam", "--algorithm", "bagging:slam", "--learning-rate", "0.1,1"]
    rows = json.loads(run(*compared, "--set", "n_members=2", "--json").stdout)["rows"]
    assert {one["name"] for one in rows} == {"slam 0.1", "slam 1", "bagging:slam 0.1", "bagging:slam 1"}
    run("learn", files, "--algorithm", "adagrad:listnet", "--set", "learner__learning_rate=0.3", "--save", model)
    assert pr.load(model).learner.learning_rate == 0.3
    twice = ["--algorithm", "adagrad:listnet", "--learning-rate", 0.1, "--set", "learner__learning_rate=0.3"]
    assert "is set twice" in run("learn", files, *twice, code=1).stderr
    named = ["--algorithm", "bagging:committee", "--set", "n_members=2", "--set", "learner__n_members=3"]
    run("learn", files, *named, "--save", tmp_path / "c.json")
    assert [one.n_members for one in pr.load(tmp_path / "c.json").members] == [3, 3]
    other = run("learn", files, "--save", tmp_path / "c.json", "--resume", "--set", "learner__n_members=4", code=1)
    assert "learner__n_members 3, not 4" in other.stderr
    for wrong, message in {
        "slam:slam": "around a learner must be one of 'adagrad', 'bagging', got 'slam'",
        "bagging:": "algorithm must be one of",
        "adagrad:prank": "learner must be one whose steps have a rate, got PRank()",
        "adagrad": "adagrad goes around a learner: say adagrad:listwise",
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
        run("compare", tmp_path / source, "--threads", 1)


def test_names_that_look_like_markup(run, files, tmp_path):
    model = tmp_path / "m[bold]x.json"
    run("learn", files, "--save", model)
    assert "m[bold]x.json" in run("evaluate", model, files).stdout.replace("\n", "")


def test_skipped_lines_are_one_warning(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\nnonsense\n")
    command = [sys.executable, "-m", "perceptrank", "learn", str(tmp_path / "a.txt"), "--skip-errors"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.startswith("warning: skipped 1 wrong lines")
    assert "UserWarning" not in result.stderr


def test_simulate_takes_nothing_that_has_no_effect(run, tmp_path):
    assert "--kind separable" in run("simulate", tmp_path / "m", "--kind", "mslr", "--margin", 1, code=1).stderr


def test_the_first_use_says_that_it_compiles_and_has_help(tmp_path, monkeypatch, capsys):
    started = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("subprocess.run", lambda command, **_: started.append(command))
    (tmp_path / "kernels").mkdir()
    monkeypatch.setattr("perceptrank.cli.first_use.cache_folder", lambda: tmp_path)
    ProgressBar("x")
    assert "compiling for the first use" in capsys.readouterr().err
    (tmp_path / "kernels" / "list_pass.list_pass-50.py311.nbi").touch()
    ProgressBar("x")
    assert capsys.readouterr().err == ""
    assert started == [[sys.executable, "-m", "perceptrank.cli.first_use"]]


def test_the_help_of_the_first_use_runs():
    subprocess.run([sys.executable, "-m", "perceptrank.cli.first_use"], check=True)


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
    assert "running" in run("bound", tmp_path / "a.txt", "--scaling", "running", code=1).stderr
    assert "empty=skip" in run("bound", tmp_path / "a.txt", "--measure", "ndcg:empty=zero", code=1).stderr
    words = ["--algorithm", "minimax", "--learning-rate", 0.1]
    assert "for slam" in run("bound", tmp_path / "a.txt", *words, code=1).stderr
    (tmp_path / "c.txt").write_text("2000 qid:1 1:1\n1 qid:1 1:0.5\n0 qid:1 1:0\n")
    assert json.loads(run("bound", tmp_path / "c.txt", "--json").stdout)["v_max"] is None
    (tmp_path / "b.txt").write_text("1 qid:1 1:1\n1 qid:1 1:2\n")
    assert "different grades" in run("bound", tmp_path / "b.txt", code=1).stderr


def test_the_adversary_shows_bounds_and_separator(run):
    words = ["adversary", "--margin", 0.3, "--json"]
    result = json.loads(run(*words, "--learner", "listwise", "--set", "average=false").stdout)
    (row,) = result["rows"]
    assert row["loss"] >= row["lower bound"] - 1e-9
    assert row["loss"] <= row["upper bound"]
    assert row["per round"] == pytest.approx(row["loss"] / row["rounds"])
    assert np.linalg.norm(result["separator"]) == pytest.approx(1)
    for name in ("listnet", "listwise", "perceptron"):  # the second ranks with the mean of its weights
        assert json.loads(run(*words, "--algorithm", name).stdout)["rows"][0]["upper bound"] is None
    text = run("adversary", "--margin", 0.3).stdout
    assert "(-0.1" in text
    assert "--set average=false" in text
    run("adversary", "--radius", 1e-170, "--margin", 1e-171, "--algorithm", "slam")


def test_all_learners_are_compared_as_far_as_settings_suit_them(run, tmp_path):
    run("simulate", tmp_path / "a.txt", "--queries", 40)
    printed = run("compare", tmp_path / "a.txt", "--measure", "ap", "--json")
    names = {row["name"] for row in json.loads(printed.stdout)["rows"]}
    assert names == set(pr.algorithms()) - {"structured-ndcg"}
    assert "structured-ndcg is left out" in printed.stderr
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
    assert "warning: prank did not come to the end" in printed.stderr
    assert "slam" in printed.stdout
