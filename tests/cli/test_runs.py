"""A model file knows where in which run it stands: interrupted and resumed is never interrupted."""

import json

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.cli.runs import fingerprint
from perceptrank.learners.learner import Learner

OLD = pr.separable(40, n_features=5, label_noise=0.2, seed=3).stream
NEW = pr.separable(90, n_features=5, label_noise=0.2, seed=4).stream


@pytest.fixture
def files(tmp_path):
    """A model of old queries, the new queries, and the first of these alone."""
    pr.write_letor(OLD, tmp_path / "old.txt")
    pr.write_letor(NEW, tmp_path / "new.txt")
    pr.write_letor(NEW[:50], tmp_path / "begun.txt")
    expected = pr.ListwisePerceptron(transforms="running")
    expected.learn(pr.read_letor(tmp_path / "old.txt"))
    expected.save(tmp_path / "a.json")
    trace = expected.learn(pr.read_letor(tmp_path / "new.txt"), ["ndcg@10", "ap"])
    return tmp_path, expected, trace


def check(folder, expected, trace):
    found = pr.load(folder / "b.json")
    assert found.as_document() == expected.as_document()
    recorded = pr.Trace.load(folder / "t.npz")
    assert len(recorded) == len(trace) == 90
    assert np.array_equal(recorded.values("ap"), trace.values("ap"), equal_nan=True)
    assert np.array_equal(recorded.masses, trace.masses)


def interrupt_after(monkeypatch, n_queries):
    """Have the learner interrupted when it is about to learn from more queries than that."""
    learn = Learner.learn

    def interrupted(self, stream, measures=None):
        if self.n_queries >= n_queries:
            raise KeyboardInterrupt
        return learn(self, stream, measures)

    monkeypatch.setattr(Learner, "learn", interrupted)


@pytest.mark.parametrize("again", [["--resume"], ["--from", "a.json", "--resume"]])
def test_a_run_from_a_model_is_resumed_where_it_stood(run, files, monkeypatch, again):
    folder, expected, trace = files
    monkeypatch.chdir(folder)
    words = ["learn", "new.txt", "--save", "b.json", "--trace", "t.npz", "--checkpoint", 20]
    with monkeypatch.context() as patched:
        interrupt_after(patched, 40 + 60)
        stopped = run(*words, "--from", "a.json", code=130)
    assert "stopped after 60 queries of these files; the same command with --resume goes on" in stopped.stderr
    assert len(pr.Trace.load("t.npz")) == 60
    assert pr.load("b.json").n_queries == 100
    run(*words, *again)
    check(folder, expected, trace)
    assert "all 90 queries of these files" in run(*words, *again).stderr  # finished, which is no error
    check(folder, expected, trace)


def test_a_model_may_be_gone_on_with_in_place(run, files, monkeypatch):
    folder, expected, trace = files
    monkeypatch.chdir(folder)
    (folder / "a.json").rename("b.json")
    words = ["learn", "new.txt", "--save", "b.json", "--trace", "t.npz"]
    run("learn", "begun.txt", *words[2:], "--from", "b.json")  # the beginning of the file stands for a run cut off
    assert "both --from and --save" in run(*words, "--from", "b.json", "--resume", code=1).stderr
    run(*words, "--resume")
    check(folder, expected, trace)


def test_blocks_and_formats_may_differ_when_resuming(run, files, monkeypatch):
    folder, expected, trace = files
    monkeypatch.chdir(folder)
    pr.write_store(pr.read_letor("new.txt"), "new.store")
    words = ["--save", "b.json", "--trace", "t.npz"]
    run("learn", "begun.txt", *words, "--from", "a.json", "--checkpoint", 7)
    run("learn", "new.store", *words, "--resume", "--checkpoint", 11)
    check(folder, expected, trace)


def test_other_files_are_not_resumed_with(run, files, monkeypatch):
    folder, _, _ = files
    monkeypatch.chdir(folder)
    words = ["--save", "b.json", "--resume"]
    run("learn", "begun.txt", "--save", "b.json")
    before = (folder / "b.json").read_bytes()
    assert "was learned from other files" in run("learn", "old.txt", *words, code=1).stderr
    features = NEW.X.copy()
    features[NEW.offsets[49]] += 1
    pr.write_letor(NEW.with_features(features), "changed.txt")
    assert (
        "its run stopped at another query, but these files have " in run("learn", "changed.txt", *words, code=1).stderr
    )
    assert "other files or reading options" in run("learn", "new.txt", "--clip", 0.1, *words, code=1).stderr
    pr.write_letor(NEW[:30], "shorter.txt")
    assert "the files have 30" in run("learn", "shorter.txt", *words, code=1).stderr
    assert "not from a run that began with a.json" in run("learn", "new.txt", "--from", "a.json", *words, code=1).stderr
    assert (folder / "b.json").read_bytes() == before
    run("learn", "new.txt", *words)


def test_models_without_a_run_are_taken_for_one_from_nothing(run, files, monkeypatch):
    """Earlier versions, and Python, save no run."""
    folder, _, _ = files
    monkeypatch.chdir(folder)
    pr.ListwisePerceptron().save("fresh.json")
    begun = pr.ListwisePerceptron()
    begun.learn(pr.read_letor("begun.txt"))
    begun.save("b.json")
    resumed = run("learn", "new.txt", "--save", "b.json", "--resume")
    assert "warning: b.json does not say which queries it has learned from" in resumed.stderr
    begun.learn(pr.read_letor("new.txt")[50:])
    assert pr.load("b.json").as_document() == begun.as_document()
    assert run("learn", "new.txt", "--save", "b.json", "--resume").stderr.startswith("b.json has learned from all 90")
    document = json.loads((folder / "b.json").read_text())
    for damage in ([], {"first": 91}, document["run"] | {"first": 91}, document["run"] | {"ends": 3}):
        (folder / "b.json").write_text(json.dumps(document | {"run": damage}))
        assert "b.json is damaged: its run" in run("learn", "new.txt", "--save", "b.json", "--resume", code=1).stderr
        assert pr.load("b.json").n_queries == 90


def test_resuming_what_was_never_saved_begins(run, files, monkeypatch):
    folder, expected, trace = files
    monkeypatch.chdir(folder)
    words = ["learn", "new.txt", "--save", "b.json", "--trace", "t.npz", "--resume", "--from", "a.json"]
    assert "there is no b.json yet" in run(*words).stderr
    check(folder, expected, trace)


def test_a_finished_run_is_told_as_json_too(run, files, monkeypatch):
    folder, _, _ = files
    monkeypatch.chdir(folder)
    words = ["learn", "new.txt", "--save", "b.json", "--json"]
    run(*words)
    assert json.loads(run(*words, "--resume").stdout)["queries"] == 0
    run(*words, "--trace", "t.npz")
    (row,) = json.loads(run(*words, "--trace", "t.npz", "--resume", "--plot", "c.svg").stdout)["rows"]
    assert row["queries"] == 90
    assert (folder / "c.svg").exists()


def test_fingerprints_of_sparse_queries():
    X = pr.SparseFeatures([1.0, 2.0, 3.0, 1.0, 2.0], [0, 4, 1, 0, 4], [0, 2, 3, 5], 9)
    stream = pr.QueryStream.from_arrays(X, [1, 0, 1], group=[1, 1, 1])
    one, other, same = (fingerprint(stream, q) for q in range(3))
    assert one != other
    assert one != same  # which has another name
    assert fingerprint(stream[1:], 0) == other
    assert fingerprint(stream[2:], 0) == same
    moved = stream.with_features(pr.SparseFeatures(X.values, [0, 5, 1, 0, 4], X.starts, 9))
    assert fingerprint(moved, 0) != one
    assert fingerprint(moved, 1) == other
