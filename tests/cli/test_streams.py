"""Closed streams, other encodings, and names that are not text: a command that succeeds says so, and nothing breaks."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import perceptrank as pr
from perceptrank.cli.terminal import streams
from perceptrank.cli.terminal.tables import _make_progress, console, make_table, print_json
from perceptrank.learners import registry

STREAM = pr.separable(12, n_features=3, seed=1).stream
ODD = b"a\xff\x1b[31m[/bold] :smile:\\"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(registry.REGISTRY, "registered", {})  # what plugins register is forgotten afterwards
    monkeypatch.chdir(tmp_path)
    pr.write_letor(STREAM, "in.txt")
    pr.ListwisePerceptron().save("m.json")
    return tmp_path


def shell(words, **settings):
    command = f"{sys.executable} -m perceptrank {words}"
    return subprocess.run(["bash", "-c", command], capture_output=True, env=os.environ | settings, check=False)


def test_closed_streams(folder):
    result = shell("learn in.txt --save saved.json <&- >&- 2>&-")
    assert result.returncode == 0
    assert pr.load("saved.json").n_queries == 12
    result = shell("--help > /dev/full")
    assert result.returncode == 1
    assert result.stderr == b"error: cannot write to standard output: No space left on device\n"


@pytest.mark.deep
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-"])
def test_any_stream_may_be_closed(folder, closed):
    result = shell(f"learn in.txt --save saved.json {closed}")
    assert (result.returncode, result.stderr) == (0, b"")
    assert pr.load("saved.json").n_queries == 12


@pytest.mark.deep
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("learn - <&-", b"error: standard input is closed"),
        ("rank m.json in.txt >&-", b"error: standard output is closed: name a file"),
        ("convert in.txt - >&-", b"error: standard output is closed: name a file"),
        ("algorithms > /dev/full", b"No space left on device\n"),
        ("algorithms --json > /dev/full", b"No space left on device\n"),
        ("rank m.json in.txt > /dev/full", b"cannot write to standard output: No space left on device\n"),
        ("convert in.txt - > /dev/full", b"cannot write to standard output: No space left on device\n"),
        ("learn none.txt 2>&-", b""),
        ("learn none.txt 2> /dev/full", b""),
    ],
)
def test_streams_that_are_needed_and_cannot_be_used(folder, words, message):
    result = shell(words)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.count(b"\n") == bool(message)


def test_closed_streams_are_replaced(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    monkeypatch.setattr(streams, "_closed", set())
    streams.prepare()
    with pytest.raises(ValueError, match="standard input is closed"):
        streams.standard_input()
    with pytest.raises(ValueError, match="standard output is closed"):
        streams.standard_output()
    assert sys.stdin.read() == ""
    print("nobody reads this")
    streams.complain("nor this")
    streams.finish()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def test_an_unbuffered_stream_takes_everything_or_fails(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # it takes 64 KiB, and then nothing
    with io.TextIOWrapper(io.FileIO(writer, "w"), encoding="ascii", write_through=True) as raw:
        monkeypatch.setattr(sys, "stdout", raw)
        streams.prepare()
        assert sys.stdout.encoding == "ascii"
        print("at once")
        assert os.read(reader, 100) == b"at once\n"
        with pytest.raises(BlockingIOError):
            streams.standard_output().write(bytes(2**20))
        os.read(reader, 2**20)
        with contextlib.suppress(BlockingIOError):  # since Python 3.14, buffers hold more than the pipe takes
            sys.stdout.close()
    os.close(reader)


@pytest.mark.parametrize(
    ("encoding", "errors"), [("ascii", "strict"), ("latin-1", "strict"), ("ascii", "surrogateescape")]
)
def test_characters_that_an_encoding_lacks_are_replaced(monkeypatch, encoding, errors):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
    monkeypatch.setattr(sys, "stdout", out)
    streams.prepare()
    print("\udcff γ …")
    out.flush()
    assert out.buffer.getvalue() == b"? ? ?\n"


@pytest.mark.deep
@pytest.mark.parametrize(
    "settings",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_encodings_that_lack_characters(folder, settings):
    result = shell("algorithms", **settings)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"listwise" in result.stdout
    assert b"D\xb2" in result.stdout or b"D?/" in result.stdout


def test_names_that_are_not_text(run, folder):
    odd = Path(os.fsdecode(ODD))
    odd.mkdir(parents=True)
    pr.write_letor(STREAM, odd / "in.txt")
    for words in (
        ["learn", odd / "in.txt", "--save", odd / "m.json", "--trace", odd / "t.npz"],
        ["learn", odd / "in.txt", "--save", odd / "m.json", "--resume"],
        ["evaluate", odd / "m.json", odd / "in.txt"],
        ["rank", odd / "m.json", odd / "in.txt", "--out", odd / "run"],
        ["convert", odd / "in.txt", odd / "store"],
        ["datasets", "--data", odd],
    ):
        result = run(*words)
        assert "\x1b" not in result.stderr
        assert "\x1b" not in result.stdout
    wrong = run("learn", odd / "none", code=1)
    assert wrong.stderr == "error: no file matches a\ufffd\ufffd[31m[/bold] :smile:\\/none\n"


def test_an_error_is_one_line_whatever_the_names(run, folder):
    odd = Path("a\nb\x1b")
    odd.mkdir()
    (odd / "bad.txt").write_text("1 qid:1 1:1\nx\n")
    for words in (
        ["learn", odd / "none"],
        ["learn", odd / "bad.txt"],
        ["learn", "in.txt", "--save", odd / "no" / "m.json"],
        ["learn", "in.txt", "--from", odd / "bad.txt"],
        ["convert", odd, odd / "two.txt"],
    ):
        said = run(*words, code=1).stderr
        assert said.count("\n") == 1
        assert r"a\nb" in said
    skipped = run("learn", odd / "bad.txt", "--skip-errors").stderr
    assert [line[:8] for line in skipped.splitlines()] == ["warning:", "a\\nb\ufffd/ba"]


def test_words_of_users_are_no_markup(folder, capsys):
    words = "[/bold] :smile: [red]x[/red] \\"
    progress = _make_progress()
    progress.add_task(words, total=3)
    Console(width=200).print(progress.get_renderable())
    assert words in capsys.readouterr().out
    console().print(make_table([{words: words}], words))
    assert capsys.readouterr().out.count(words) == 3


def test_json_has_no_numbers_that_json_does_not_know(run, folder, capsys):
    nan, inf = float("nan"), float("inf")
    print_json({"a": [nan, {"b": (inf, -inf, 1.5)}], "c": True})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": [None, None, 1.5]}], "c": True}
    printed = run("bound", "in.txt", "--algorithm", "slam", "--learning-rate", "1e-320:1:3", "--json").stdout
    rows = json.loads(printed, parse_constant=pytest.fail)["rows"]
    assert rows[0]["a priori"] is None


def test_words_of_users_stay_in_messages(run, folder):
    for name in ("clip", "n_features", "clip=2", "overwrite", "read_letor", "measure"):
        for words in (["learn", name], ["learn", name, "--clip", 2], ["learn", "in.txt", "--from", name]):
            assert run(*words, code=1).stderr == f"error: there is no file {name}\n"
    for words, message in {
        "learn in.txt --algorithm category-ranking --set pairs=bad": "pairs must be one of",
        "adversary --set margin=-1 --algorithm slam": "margin must be",
        "compare in.txt --algorithm tournament --set seed=-1": "seed must be",
    }.items():
        assert run(*words.split(), code=1).stderr.startswith(f"error: {message}")


PLUGIN = """
import perceptrank as pr

class Mine(pr.NumpyLearner):
    \"\"\"A learner of a user.\"\"\"
    algorithm = "mine"
    def __init__(self, size=1, learning_rate=1.0, *, average=False, transforms=None):
        self.size = size
        super().__init__(learning_rate, average=average, transforms=transforms)
    def check(self):
        if self.size < 0:
            raise ValueError(f"size must not be negative, got {self.size}")
    def update(self, scores, X, relevance):
        return ERROR
"""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("{}['weight']", "KeyError: 'weight'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("[] + 1", "TypeError: can only concatenate list"),
        ("int('x')", "ValueError: invalid literal for int()"),
    ],
)
def test_an_error_of_a_plugin_is_one_message(run, folder, error, message):
    Path("mine.py").write_text(PLUGIN.replace("ERROR", error))
    words = ["--plugin", "mine.py", "learn", "in.txt", "--algorithm", "mine"]
    said = run(*words, code=1).stderr
    assert said.startswith(f"error: Mine.update in {folder / 'mine.py'} raised {message}")
    assert said.endswith("; --debug shows the traceback\n")
    assert said.count("\n") == 1
    compared = run(*words[:2], "compare", *words[3:], code=1).stderr
    assert message.partition(": ")[2] in compared
    assert run(*words, "--set", "size=-1", code=1).stderr == "error: size must not be negative, got -1\n"
    raised = run("--debug", *words, code=1)
    assert type(raised.exception).__name__ == message.partition(":")[0]
