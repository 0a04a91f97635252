"""Killed at any moment and started again, a command comes to the same bits as if it had never been killed.

`make test` has a few kills at moments that a seed chooses, `make deep` more than 200 at others in every run.
"""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import perceptrank as pr

STREAM = pr.separable(200, n_documents=6, n_features=5, label_noise=0.2, seed=3).stream
LARGE = pr.separable(4000, n_documents=10, n_features=20, seed=5).stream
DEEP = 56  # kills of each of the four commands
PATIENCE = 60
EARLY = 0.1  # share of kills that come before anything is written


@pytest.fixture(params=[1, pytest.param(DEEP, marks=pytest.mark.deep)], ids=["short", "deep"])
def kills(request):
    """How many, and what draws the moments; the seed of `make deep` draws them too."""
    seed = request.config.getoption("--hypothesis-seed", None) if request.param > 1 else None
    return request.param, random.Random(f"{seed} {request.node.name}")


def run_until_killed(words, folder, rng, longest, early=0.0):
    """Start a command and kill it some time after it first changes the folder; return whether it came to its end."""
    before = look(folder)
    command = [sys.executable, "-m", "perceptrank", *map(str, words)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stop = time.monotonic() + PATIENCE
    if rng.random() < early:  # before anything is written
        time.sleep(rng.uniform(0, 0.5))
    else:
        while look(folder) == before and process.poll() is None and time.monotonic() < stop:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, longest))
    process.send_signal(signal.SIGKILL)
    _, messages = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), messages
    return process.returncode == 0


def look(folder):
    """What is in a folder, and in the stores in it, and when it changed."""
    found = {}
    for one in [folder, *(path for path in folder.iterdir() if path.is_dir())]:
        for entry in os.scandir(one):
            try:
                found[entry.path] = entry.stat().st_mtime_ns
            except FileNotFoundError:
                continue
    return found


@pytest.fixture
def finish(run, monkeypatch):
    """Run a command in a folder to its end."""

    def call(words, folder):
        monkeypatch.chdir(folder)
        run(*words)

    return call


@pytest.mark.engine
@pytest.mark.parametrize("begins", ["from a model", pytest.param("from nothing", marks=pytest.mark.deep)])
def test_learning(tmp_path, kills, finish, begins):
    number, rng = kills
    text = tmp_path / "data.txt"
    pr.write_letor(STREAM, text)
    words = ["learn", "../data.txt", "--save", "m.json", "--trace", "t.npz", "--checkpoint", "3", "--resume"]
    expected = pr.ListwisePerceptron(transforms="running")
    if begins == "from a model":
        expected.learn(pr.separable(30, n_features=5, seed=9).stream)
        expected.save(tmp_path / "a.json")
        words += ["--from", "../a.json"]
    else:
        words += ["--transform", "running"]
    first = expected.n_queries
    trace = expected.learn(pr.read_letor(text), ["ndcg@10", "ap"])
    killed = amid = runs = 0
    while killed < number:
        runs += 1  # some end before they are killed
        folder = tmp_path / f"run-{runs}"
        folder.mkdir()
        while killed < number and not run_until_killed(words, folder, rng, 0.3, EARLY if killed else 0):
            killed += 1
            if (folder / "m.json").exists():
                found = pr.load(folder / "m.json")
                assert first < found.n_queries <= first + len(STREAM)
                amid += found.n_queries < first + len(STREAM)
                assert len(pr.Trace.load(folder / "t.npz")) >= found.n_queries - first
        finish(words, folder)
        assert pr.load(folder / "m.json").as_document() == expected.as_document()
        recorded = pr.Trace.load(folder / "t.npz")
        assert np.array_equal(recorded.masses, trace.masses)
        assert np.array_equal(recorded.values("ap"), trace.values("ap"), equal_nan=True)
    assert amid >= killed // 3  # most kills are to come while it learns


@pytest.mark.engine
def test_appending(tmp_path, kills, finish):
    number, rng = kills
    pr.write_parquet(LARGE, tmp_path / "data.parquet")
    folder = tmp_path / "run"
    folder.mkdir()
    pr.write_store(LARGE[:50], folder / "s.store")
    words = ["convert", "../data.parquet", "s.store", "--append"]
    killed, length = 0, 50
    while killed < number:
        killed += not run_until_killed(words, folder, rng, 0.1, EARLY if killed else 0)
        store = pr.open_store(folder / "s.store")
        store.verify()
        assert len(store) in (length, length + len(LARGE))
        if len(store) > 5 * len(LARGE):  # not to fill the disk
            pr.write_store(LARGE[:50], folder / "s.store", overwrite=True)
        length = len(pr.open_store(folder / "s.store"))
    finish(words, folder)
    store = pr.open_store(folder / "s.store")
    store.verify()
    assert len(store) == length + len(LARGE)
    for k, part in enumerate([LARGE[:50], *[LARGE] * ((len(store) - 50) // len(LARGE))]):
        start = 0 if k == 0 else 50 + (k - 1) * len(LARGE)
        assert_same(store[start : start + len(part)], part)


@pytest.mark.engine
def test_converting(tmp_path, kills, finish):
    """What is there before is there until all of the new is, and then nothing of the old."""
    number, rng = kills
    pr.write_store(LARGE, tmp_path / "data.store")
    folder = tmp_path / "run"
    folder.mkdir()
    readers = {"a.txt": lambda path: pr.read_letor(path, dtype=np.float64), "a.parquet": pr.read_parquet}
    readers |= {"a.txt.gz": readers["a.txt"], "a.store": pr.open_store}
    pr.write_letor(STREAM, folder / "a.txt")
    pr.write_letor(STREAM, folder / "a.txt.gz")
    pr.write_parquet(STREAM, folder / "a.parquet")
    pr.write_store(STREAM, folder / "a.store")
    names = list(readers)

    def words(name):
        return ["convert", "../data.store", name, "--overwrite"]

    killed = turns = 0
    while killed < number:
        name = names[turns % len(names)]
        turns += 1
        killed += not run_until_killed(words(name), folder, rng, 0.1, EARLY if killed else 0)
        found = readers[name](folder / name)
        assert_same(found, LARGE if len(found) == len(LARGE) else STREAM)
    for name in names[:turns]:
        finish(words(name), folder)
        assert_same(readers[name](folder / name), LARGE)


def assert_same(one, other):
    assert np.array_equal(one.X, other.X)
    assert np.array_equal(one.relevance, other.relevance)
    assert np.array_equal(one.offsets, other.offsets)
