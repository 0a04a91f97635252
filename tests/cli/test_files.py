"""What a command reads is never replaced by what it writes; what cannot be written is said before anything is done."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import perceptrank as pr
from perceptrank.cli.options.files import Reads, What, Writes, check_files
from perceptrank.learners import registry

STREAM = pr.separable(12, n_features=3, seed=1).stream


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Something of every kind that is read. What plugins register is forgotten afterwards."""
    monkeypatch.setattr(registry.REGISTRY, "registered", {})
    monkeypatch.chdir(tmp_path)
    pr.write_letor(STREAM, "in.txt")
    Path("many").mkdir()
    pr.write_letor(STREAM, "many/one.txt")
    pr.write_store(STREAM, "in.store")
    pr.ListwisePerceptron().save("m.json")
    Path("plugin.py").write_text("import perceptrank as pr\nclass Mine(pr.SlamPerceptron):\n    algorithm = 'mine'\n")
    Path("symbolic").symlink_to("in.txt")
    os.link("in.txt", "hard")
    Path("symbolic.svg").symlink_to("in.txt")
    return tmp_path


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


REFUSED = [
    "learn in.txt --save in.txt",
    "learn in.txt --save ./many/../in.txt",
    "learn in.txt --save symbolic",
    "learn in.txt --save hard",
    "learn hard --save symbolic",
    "learn in.txt --trace in.txt",
    "learn in.txt --plot symbolic.svg",
    "learn i*.txt --save in.txt",
    "learn many --save many/one.txt",
    "learn many --save many/model.json",
    "learn many/* --save many/model.json",
    "learn ./*/o*.txt --save many/../many/other.txt",
    "learn m*/** --trace many/t.npz",
    "learn **/*.txt --plot new.txt",
    "learn in.store --save in.store/manifest.json",
    "learn in.store --save in.store/new.json",
    "learn in.txt --from m.json --trace m.json",
    "--plugin plugin.py learn in.txt --algorithm mine --save plugin.py",
    "rank m.json in.txt --out in.txt",
    "rank m.json in.txt --out m.json",
    "compare in.txt --algorithm slam --plot symbolic.svg",
    "bound in.txt --plot symbolic.svg",
    "convert in.txt in.txt --overwrite",
    "convert in.txt symbolic --to letor --overwrite",
    "convert many many/one.txt --overwrite",
    "convert many many/two.txt",
    "convert in.store in.store/00000000.X.npy --to letor --overwrite",
    "reproduce --quick --data . --out in.store",
]


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_read_is_not_replaced(run, folder, words):
    before = contents(folder)
    result = run(*words.split(), code=1)
    assert "which is read: name another file" in result.stderr or "which are read: name another file" in result.stderr
    assert contents(folder) == before


def test_a_store_is_not_added_to_itself(run, folder):
    before = contents(folder)
    said = run("convert", "in.store", "in.store", "--append", code=1).stderr
    assert "in.store is also an input: name another output file" in said
    assert contents(folder) == before


def test_the_destination_is_called_that(run, folder):
    said = run("convert", "many", "many/two.txt", code=1).stderr
    assert said.startswith("error: the destination many/two.txt would be one of the files in many, which are read")


def test_redirected_streams_are_known_by_their_files(folder, monkeypatch):
    data, file = [Reads(What.data)], [Writes()]
    with open("in.txt", "rb") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(ValueError, match=r"^`save` symbolic would replace standard input, which is read"):
            check_files({"files": data, "save": file}, {"files": ["-"], "save": Path("symbolic")}, [])
        check_files({"files": data, "save": file}, {"files": ["-"], "save": Path("new")}, [])
        monkeypatch.setattr("sys.stdout", stream)
        with pytest.raises(ValueError, match=r"^standard output would replace hard, which is read"):
            check_files({"files": data}, {"files": ["hard"]}, [])


@pytest.mark.deep
def test_standard_streams_are_files_too(folder):
    before = contents(folder)
    for words in (
        "learn - --save in.txt < in.txt",
        "learn /dev/stdin --save in.txt < in.txt",
        "learn in.txt >> in.txt",
        "rank m.json in.txt >> symbolic",
        "convert in.txt - 1<> in.txt",
    ):
        command = ["bash", "-c", f"{sys.executable} -m perceptrank {words}"]
        result = subprocess.run(command, capture_output=True, check=False)
        assert result.returncode == 1, words
        assert b"which is read: name another file" in result.stderr
        assert contents(folder) == before


def test_figures_of_a_report_are_not_written_through_links_to_data(run, folder):
    Path("data").mkdir()
    pr.write_letor(STREAM, "data/train.txt")
    Path("out/figures").mkdir(parents=True)
    Path("out/figures/figure-1.svg").symlink_to(folder / "data/train.txt")
    before = contents(folder)
    assert "which is read" in run("reproduce", "--quick", "--data", "data", "--out", "out", code=1).stderr
    assert contents(folder) == before


def test_what_replaces_nothing_is_allowed(run, folder):
    run("learn", "in.txt", "--save", "m.json", "--trace", "t.npz")
    run("learn", "in.txt", "--from", "m.json", "--save", "m.json")
    assert pr.load("m.json").n_queries == 24
    run("learn", "many", "--save", "many/.model.json")
    run("learn", "many/*", "--save", "many/.model.json")
    run("learn", "many/*.txt", "--save", "many/model.json")
    run("learn", "many/*.txt", "--save", "many/model.json", "--resume")
    run("learn", "*/one.txt", "--trace", "one.txt")
    Path("many/model.json").unlink()
    run("convert", "many", "many/store")
    run("rank", "m.json", "in.txt", "--out", "many/run.txt")
    run("convert", "in.txt", "in.store", "--append")
    assert len(pr.open_store("in.store")) == 24


def test_outputs_differ(run, folder):
    Path("link.json").symlink_to("m.json")
    for words in ("--save new.json --trace ./new.json", "--save m.json --trace link.json"):
        result = run("learn", "in.txt", *words.split(), code=1)
        assert "error: --save and --trace must be different files" in result.stderr


@pytest.mark.parametrize("option", ["--save", "--trace", "--plot"])
def test_what_cannot_be_written_is_said_first(run, folder, option):
    """Before the data is read, and so before it is known that there is none."""
    for place, message in {
        "none/x.svg": "there is no folder",
        "in.txt/x.svg": "there is no folder",
        "many": "it exists and is not a file",
        "m" * 300 + ".svg": "File name too long",
    }.items():
        assert message in run("learn", "missing.txt", option, place, code=1).stderr


def test_a_folder_that_is_read_only_is_noticed_at_once():
    if os.getuid():
        pytest.skip("only root can become someone who may not write")
    code = """
import os
from perceptrank.io.atomic import check_writable
check_writable("m.json")
os.setuid(65534)
check_writable("m.json")
"""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own cannot even be looked into
        os.chmod(folder, 0o755)
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert os.listdir(folder) == []
    assert "PermissionError: [Errno 13] cannot write m.json: no file can be created in " in result.stderr
    assert result.stderr.endswith(": Permission denied\n")
