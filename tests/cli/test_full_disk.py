"""On a full or read-only disk a command says so, exits with 1, and leaves what was there before as it was."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.small_disk import mounted

import perceptrank as pr

STREAM = pr.separable(300, n_documents=6, n_features=5, label_noise=0.2, seed=3).stream


@pytest.fixture
def disk(tmp_path, monkeypatch):
    with mounted(tmp_path / "small", "256k") as small:
        monkeypatch.chdir(tmp_path)
        pr.write_letor(STREAM, "data.txt")
        yield small
        monkeypatch.undo()


FULL = "No space left on device"


def test_learning_and_ranking_on_a_full_disk(run, disk):
    run("learn", "data.txt", "--save", "small/m.json", "--trace", "small/t.npz")
    run("rank", "small/m.json", "data.txt", "--out", "run.txt")
    Path("small/run.txt").write_text("an earlier run\n")
    disk.fill()
    before = disk.contents()
    for words, name in {
        "learn data.txt --save small/m.json": "m.json",
        "learn data.txt --trace small/t.npz": "t.npz",
        "learn data.txt --plot small/c.png": "c.png",
        "rank small/m.json data.txt --out small/run.txt": "run.txt",
    }.items():
        assert run(*words.split(), code=1).stderr == f"error: cannot write small/{name}: {FULL}\n"
        assert disk.contents() == before
    disk.free()
    run("learn", "data.txt", "--save", "small/m.json", "--resume")


def test_converting_on_a_full_disk(run, disk):
    few = STREAM[:5]
    pr.write_letor(few, "small/a.txt")
    pr.write_parquet(few, "small/a.parquet")
    pr.write_store(few, "small/a.store")
    disk.fill(but=8192)
    before = disk.contents()
    for words in (
        "a.txt --overwrite",
        "a.parquet --overwrite",
        "a.store --overwrite",
        "a.store --append",
        "new.txt.gz",
    ):
        result = run("convert", "data.txt", *f"small/{words}".split(), code=1)
        assert re.fullmatch(rf"error: cannot write \S*small/{re.escape(words.split()[0])}: {FULL}\n", result.stderr)
        assert disk.contents() == before
    pr.open_store("small/a.store").verify()
    disk.free()
    run("convert", "data.txt", "small/a.store", "--append")
    assert len(pr.open_store("small/a.store")) == 305


def test_a_disk_that_runs_full_is_resumed_from_its_last_checkpoint(run, disk):
    disk.fill(but=20 * 1024)
    measures = [f"ndcg@{k}" for k in range(1, 9)]
    words = ["learn", "data.txt", "--save", "small/m.json", "--trace", "small/t.npz", "--checkpoint", 20]
    words += [word for measure in measures for word in ("--record", measure)]
    assert FULL in run(*words, code=1).stderr
    assert 0 < pr.load("small/m.json").n_queries < 300
    disk.free()
    run(*words, "--resume")
    expected = pr.ListwisePerceptron()
    trace = expected.learn(pr.read_letor("data.txt"), measures)
    assert pr.load("small/m.json").as_document() == expected.as_document()
    assert np.array_equal(pr.Trace.load("small/t.npz").masses, trace.masses)


def test_a_read_only_disk_is_noticed_at_once(run, disk):
    pr.write_store(STREAM[:5], "small/a.store")
    before = disk.contents()
    remounted = subprocess.run(["mount", "-o", "remount,ro", disk.path], capture_output=True, text=True, check=False)
    if remounted.returncode:
        pytest.skip(f"it cannot be made read-only: {remounted.stderr.strip()}")
    wrong = ": Read-only file system\n"
    for words in (
        "learn missing.txt --save small/m.json",
        "learn missing.txt --trace small/t.npz",
        "compare missing.txt --plot small/c.png",
        "rank missing.json missing.txt --out small/run.txt",
        "convert data.txt small/new.txt",
        "convert data.txt small/new.store",
        "convert data.txt small/a.store --append",
        "reproduce --quick --out small/report",
    ):
        assert run(*words.split(), code=1).stderr.endswith(wrong), words
    assert disk.contents() == before


@pytest.mark.deep
def test_a_report_on_a_full_disk_has_whole_files_only(run, disk):
    subprocess.run(["mount", "-o", "remount,size=4m", disk.path], check=True)
    words = ["reproduce", "--quick", "--seeds", 1, "--out", "small/report"]
    run(*words)
    disk.fill()
    before = disk.contents()
    assert FULL in run(*words, code=1).stderr
    assert disk.contents() == before
    shutil.rmtree("small/report")
    disk.free()
    disk.fill(but=400_000)
    assert FULL in run(*words, code=1).stderr
    found = [path for path in Path("small/report").rglob("*") if path.is_file()]
    assert len(found) > 3
    for path in found:
        if path.suffix == ".svg":
            ElementTree.parse(path)
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82")
        else:
            assert path.suffix in (".csv", ".html")
            assert path.read_text(encoding="utf-8").endswith("\n")
