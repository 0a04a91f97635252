"""docs/deploy.md and docs/explain.md: commands and Python, run one after the other as a reader would."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
GUIDE, EXPLAINING = ((DOCS / name).read_text(encoding="utf-8") for name in ("deploy.md", "explain.md"))


def test_the_guide_can_be_followed(tmp_path, monkeypatch, capsys):
    for package in ("duckdb", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    n_commands, names = follow(GUIDE)
    assert n_commands >= 14
    assert sorted(names["best_first"]) == [0, 1]
    assert names["scores"].shape == (names["query"].n_documents,)
    assert Path("scores.sql").read_text().startswith("-- Scores")


def test_explanations_can_be_followed(tmp_path, monkeypatch):
    for package in ("pandas", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    n_commands, names = follow(EXPLAINING)
    assert n_commands == 11
    assert names["query"].qid == 3
    assert names["changes"]
    assert "adds to the score" in Path("curves.svg").read_text(encoding="utf-8")


def follow(guide):
    """Run what a guide says; return how many commands there were, and the names of its Python."""
    for name in ("train", "test"):
        pr.write_letor(pr.mslr_shaped(12, n_documents=5, n_features=6, seed=len(name)), f"{name}.txt")
    names = {}
    n_commands = 0
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", guide, re.S | re.M):
        if kind == "python":
            exec(block, names)
            continue
        for line in block.splitlines() if kind == "" else ():
            if not line.startswith("perceptrank ") or "url=" in line or "--url" in line or not can_run(line):
                continue
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            assert done.exit_code == 0, (line, done.output)
            n_commands += 1
    return n_commands, names


def can_run(line):
    return "javascript" not in line or shutil.which("node") is not None


def test_every_target_has_a_section():
    for target in pr.deploy.targets():
        assert re.search(rf"^## .*\b{target}\b", GUIDE, re.M), target
        assert f"`{target}`" in GUIDE
