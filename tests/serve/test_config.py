"""Configuration: files, the environment, what counts before what, and the service's messages."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.serve import Service
from perceptrank.serve.config import Config, ConfigError, line_of
from perceptrank.serve.http.log_lines import set_up
from perceptrank.serve.page.live import Live
from perceptrank.serve.settings import Limits, Settings


@pytest.fixture(autouse=True)
def _quiet_logs():
    """Leave the loggers as they were."""
    loggers = [logging.getLogger(name) for name in ("perceptrank.serve", "uvicorn")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    yield
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.fixture
def serve(tmp_path):
    """Run `perceptrank serve --check` with a configuration; return how that ended."""

    def run(text, *words, **environment):
        path = tmp_path / "serve.toml"
        path.write_text(text, encoding="utf-8")
        return CliRunner().invoke(app, ["serve", "--config", str(path), "--check", *words], env=environment)

    return run


# What a file says


def test_a_file_sets_options_settings_and_limits(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text("port = 0\n[settings]\nrankings = 7\n[limits]\nbody_bytes = 1000\nburst = 5\n")
    config = Config.read(path)
    assert config.options() == {"port": 0}
    assert config.table(Settings).rankings == 7
    assert (config.table(Limits).body_bytes, config.table(Limits).burst) == (1000, 5)
    assert config.table(Limits, rate_limit=3.0).rate_limit == 3.0
    assert config.table(Limits, rate_limit=None).rate_limit == np.inf
    assert Config.read(None).table(Settings) == pr.serve.Settings()


def test_paths_are_relative_to_the_file(serve, tmp_path):
    pr.ListwisePerceptron(learning_rate=0.5).save(tmp_path / "m.json")
    run = serve('port = 0\ndata = "kept"\n[model]\ntitle = "m.json"\n')
    assert run.exit_code == 0, run.output
    assert run.stderr == "all is well: title (version 1)\n"
    assert (tmp_path / "kept" / "title" / "log.sqlite").exists()
    run = serve(f'port = 0\ndata = "{tmp_path}/other"\nmodel = "m.json"\n')
    assert run.stderr == "all is well: default (version 1)\n"


def test_a_file_names_incumbents_and_challengers(serve, tmp_path):
    (tmp_path / "w.json").write_text('{"title": 1, "price": -0.5}')
    pr.SlamPerceptron().save(tmp_path / "m.json")
    text = 'port = 0\ndata = "kept"\nincumbent = "w.json"\npromote_at = 0.05\n'
    run = serve(text + '[challenger]\nnew = "listwise"\nold = "m.json"\n')
    assert run.exit_code == 0, run.output
    with pr.serve.Service(tmp_path / "kept") as service:
        found = service.ranker("default").standings()
    assert found["incumbent"] == {"algorithm": "fixed", "learns": False}
    assert [(one["name"], one["algorithm"]) for one in found["challengers"]] == [("new", "listwise"), ("old", "slam")]


def test_flags_count_before_the_environment_and_that_before_the_file(serve, tmp_path):
    text = f'port = 0\ndata = "{tmp_path}/file"\n'

    def folder(*words, **environment):
        assert serve(text, *words, **environment).exit_code == 0
        (made,) = [one for one in ("file", "environment", "flag") if (tmp_path / one).exists()]
        (tmp_path / made).rename(tmp_path / f"was-{made}")
        return made

    environment = {"PERCEPTRANK_SERVE_DATA": f"{tmp_path}/environment"}
    assert folder() == "file"
    assert folder(**environment) == "environment"
    (tmp_path / "was-environment").rename(tmp_path / "gone")
    assert folder("--data", f"{tmp_path}/flag", **environment) == "flag"


def test_every_option_can_come_from_the_environment(tmp_path):
    environment = {
        "PERCEPTRANK_SERVE_CONFIG": str(tmp_path / "c.toml"),
        "PERCEPTRANK_SERVE_PORT": "0",
        "PERCEPTRANK_SERVE_LOG_FORMAT": "json",
        "PERCEPTRANK_SERVE_ACCESS_LOG": "true",
    }
    (tmp_path / "c.toml").write_text('data = "d"\n')
    run = CliRunner().invoke(app, ["serve", "--check"], env=environment)
    assert run.exit_code == 0, run.output
    line = json.loads(run.stderr)
    assert line["message"] == "all is well: default (version 1)"
    assert line["versions"] == {"default": 1}
    assert (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1\n", ":1: there is no setting prot; did you mean port?"),
        ("\n# port\n[setings]\nrankings = 1\n", ":3: there is no setting setings; there are access_log, "),
        ("[limits]\n\nbrust = 1\n", ":3: there is no setting limits.brust; did you mean burst?"),
        ("limits.brust = 1\n", ":1: there is no setting limits.brust; did you mean burst?"),
        ("[settings]\nrankings = 0\n", ":2: rankings must be a number > 0, got 0"),
        ("settings = 1\n", ":1: settings must be a table, [settings], got 1"),
        ("[limits]\nbody_bytes = '1'\n", ":2: body_bytes must be a number > 0, got '1'"),
        ("host = 'localhost'\nport = 'eighty'\n", ":2: port: "),
        ("port = 70000\n", ":1: port: "),
        ("port = true\n", ":1: port must be text or a number, got True"),
        ("port = [1]\n", ":1: port must be text or a number, got [1]"),
        ("access_log = 'yes'\n", ":1: access_log must be true or false, got 'yes'"),
        ("model = 3\n", ":1: model must be a file, or a table of files by name, got 3"),
        ("challenger = 'x'\n", ":1: challenger must be a file, or a table of files by name, got 'x'"),
        ("verify = 'x'\n", ":1: there is no setting verify"),
        ("port = 1\nport = 2\n", " is not TOML: Cannot overwrite a value (at line 2"),
        ("log_format = 'xml'\n", ":1: log_format: "),
    ],
)
def test_what_is_wrong_is_named_with_its_line(serve, tmp_path, text, message):
    run = serve(text)
    assert run.exit_code == 1
    assert f"{tmp_path / 'serve.toml'}{message}" in run.stderr
    assert "Traceback" not in run.output


def test_other_mistakes_are_told_too(serve, tmp_path):
    run = serve("", PERCEPTRANK_SERVE_PROT="1")
    assert run.exit_code == 1
    assert "there is no variable PERCEPTRANK_SERVE_PROT; did you mean PERCEPTRANK_SERVE_PORT?" in run.stderr
    run = CliRunner().invoke(app, ["serve", "--config", str(tmp_path / "none.toml")])
    assert (run.exit_code, "there is no file" in run.stderr) == (1, True)
    with pytest.raises(ConfigError, match="must be a number > 0"):
        Config(tmp_path / "x", "", {"limits": {"rate_limit": -1}}).table(Limits)


def test_lines_are_found_however_keys_are_written():
    text = 'a = 1\n[t]\n"b" = 2\n[t.u]\nc=3\n[[v]]\nd = 4\n'
    assert [line_of(text, keys) for keys in (("a",), ("t",), ("t", "b"), ("t", "u", "c"), ("v",))] == [1, 2, 3, 5, 6]
    assert line_of(text, ("nothing",)) is None
    assert line_of("z = 0\nx = {y = 1}", ("x", "y")) == 2


# Messages


def test_messages_are_text_or_lines_of_json(capsys):
    log = set_up("text")
    log.info("serving")
    log.warning("careful")
    logging.getLogger("uvicorn.error").info("not of interest")
    logging.getLogger("uvicorn.error").error("of the server")
    assert capsys.readouterr().err == "serving\nwarning: careful\nerror: of the server\n"
    log = set_up("json")
    log.info("serving %s", "x\ny", extra={"fields": {"address": "http://a"}})
    try:
        raise RuntimeError("it broke")
    except RuntimeError:
        log.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"], first["address"]) == ("info", "serving x\ny", "http://a")
    assert abs(first["time"] - time.time()) < 60
    assert second["level"] == "error"
    assert "RuntimeError: it broke" in second["traceback"]


def test_a_ranker_that_cannot_learn_is_in_the_log_once(tmp_path, capsys):
    set_up("json")
    with Service(tmp_path) as service:
        live = Live(service)
        ranker = service.ranker("default")
        try:
            for problem in ("the disk is full", "the disk is full", "", ""):
                ranker.snapshot_problem = problem
                live._report()
        finally:
            live.close()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["level"], one["message"], one["ranker"]) for one in lines] == [
        ("error", "default: the disk is full", "default"),
        ("info", "default: all is well again", "default"),
    ]


WORK = """
import sys, time
from perceptrank.kernels.compiled import on_compile
compiled = []
on_compile(compiled.append)
from perceptrank.serve import Service
from perceptrank.serve.page import progress
from perceptrank.serve.documents import Document
from perceptrank.serve.page.live import Live
documents = [Document("a", {"x": 1.0, "y": 0.0}), Document("b", {"x": 0.0, "y": 1.0})]
with Service(sys.argv[1]) as service:
    ranker = service.ranker("default")
    live = Live(service)
    for k in range(3):
        ranked = ranker.rank(documents)
        ranker.feedback(ranked.ranking_id, {"a": 1.0}, event_id=str(k)).result(300)
    ranker.flush()
    live._step(time.monotonic())
    assert live.frame("default")["progress"]["measured"] == 3
    live.close()
print(compiled)
"""


@pytest.mark.deep
def test_after_a_check_nothing_is_compiled_any_more(tmp_path):
    environment = os.environ | {"PERCEPTRANK_CACHE_DIR": str(tmp_path / "cache")}

    def run(*words):
        words = [sys.executable, *map(str, words)]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=True).stdout

    run("-m", "perceptrank", "serve", "--check", "--port", 0, "--data", tmp_path / "warm")
    kept = sorted((tmp_path / "cache" / "perceptrank").iterdir())
    assert kept
    assert run("-c", WORK, tmp_path / "work") == "[]\n"
    assert sorted((tmp_path / "cache" / "perceptrank").iterdir()) == kept


def test_json_from_the_start_to_the_stop_of_the_command(tmp_path):
    words = ["serve", "--data", str(tmp_path), "--port", "0", "--log-format", "json", "--access-log"]
    process = subprocess.Popen([sys.executable, "-m", "perceptrank", *words], stderr=subprocess.PIPE, text=True)
    try:
        first = json.loads(process.stderr.readline())
        assert first["message"].startswith("serving default (version 1) at http://127.0.0.1:")
        with pr.Client(first["address"]) as client:
            client.rank({"a": [1.0]})
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in process.communicate(timeout=60)[1].splitlines()]
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    said = [one.get("path") or one["message"] for one in rest]
    (ready,) = [text for text in said[:-1] if text != "/v1/rank"]
    assert ready.startswith("default: ready to learn after ")
    assert said[-1] == "stopped; everything is logged and saved"
    assert len(said) == 3


def test_the_help_fits_into_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, ["serve", "--help"]).output
    assert max(map(len, text.splitlines())) <= 80
    assert "PERCEPTRANK_SERVE_LOG_FEATURES" in text  # no name is cut off
    assert "PERCEPTRANK_SERVE_RATE_LIMIT" in text
    assert "tables settings and limits" in " ".join(text.replace("│", " ").split())
