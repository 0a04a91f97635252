import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import assert_same
from support.strategies import EITHER_PRECISION, streams

import perceptrank as pr
from perceptrank.io import npy_file, store, store_segments


@given(parts=st.lists(streams(max_queries=5, dtypes=EITHER_PRECISION), min_size=1, max_size=4))
def test_what_is_written_is_read(parts, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "s"
    parts = [pr.QueryStream(one.X[:, :1].astype(np.float32), one.relevance, one.offsets) for one in parts]
    opened = pr.write_store(parts[0], path)
    for part in parts[1:]:
        opened.append(part)
    whole = pr.QueryStream.concatenate(parts)
    for found in (opened, pr.open_store(path)):
        assert len(found) == len(whole)
        assert found.n_documents == whole.n_documents
        assert found.n_segments == len(parts)
        assert_same(pr.QueryStream.concatenate(found.blocks(100)), whole)
        assert np.array_equal(found.relevance, whole.relevance)
        for q in (0, len(whole) // 2, -1):
            assert np.array_equal(found[q].X, whole[q].X)
        middle = slice(len(whole) // 3, len(whole) - 1)
        assert_same(found[middle], whole[middle])
        assert_same(found[[0, len(whole) - 1]], whole[[0, len(whole) - 1]])
        assert_same(found.shuffled(1), whole.shuffled(1))
        assert_same(found, whole)
        found.verify()


def test_names_comments_and_text_ids_are_kept(stream, tmp_path):
    pr.write_store(stream, tmp_path / "s")
    assert_same(pr.open_store(tmp_path / "s", comments=True), stream)
    assert pr.open_store(tmp_path / "s").comments is None
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert manifest["feature_names"] == ["x", "y", "ž"]
    counts = {str(grade): int((stream.relevance == grade).sum()) for grade in (0, 1, 2)}
    assert manifest["segments"][0]["grades"] == counts


def test_arrays_are_mapped_not_read(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    base = opened.X
    while not isinstance(base, np.memmap):
        base = base.base
    assert np.load(tmp_path / "s" / "00000000.X.npy").shape == (30, 3)
    with pytest.raises(ValueError, match="read-only"):
        opened.X[0, 0] = 1


def test_learning_from_a_store_is_learning_from_the_stream(tmp_path):
    data = pr.separable(300, seed=1).stream
    opened = pr.write_store(data[:200], tmp_path / "s")
    opened.append(data[200:])
    one, other = pr.ListwisePerceptron(), pr.ListwisePerceptron()
    expected, found = one.learn(data, "ndcg@10"), other.learn(opened, "ndcg@10")
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(expected.values("ndcg@10"), found.values("ndcg@10"))
    assert "X" not in vars(opened)  # no segment was put together with another
    assert pr.evaluate(one, opened, "ap").mean("ap") == pr.evaluate(one, data, "ap").mean("ap")


def test_blocks_of_any_number_are_written(tmp_path):
    simulated = pr.separable_blocks(500, queries_per_block=70)
    opened = pr.write_store(simulated.blocks, tmp_path / "s")
    assert_same(opened, pr.separable(500).stream)


def test_ids_that_are_numbers_in_one_block_and_text_in_another(tmp_path):
    X = np.ones((2, 1))
    parts = [pr.QueryStream(X, [0, 1], [0, 2], qids=[qid]) for qid in (7, "q")]
    assert pr.write_store(parts, tmp_path / "s").qids.tolist() == ["7", "q"]


def test_all_comments_may_be_empty(tmp_path):
    stream = pr.QueryStream.from_arrays([[1.0], [2.0]], [0, 1], comments=["", ""])
    pr.write_store(stream, tmp_path / "s")
    assert pr.open_store(tmp_path / "s", comments=True).comments.tolist() == ["", ""]


class Stop(BaseException):
    """The power goes."""


def states(path):
    opened = pr.open_store(path)
    opened.verify()
    return len(opened)


def test_whenever_an_append_is_cut_off_the_store_is_before_or_after(stream, tmp_path, monkeypatch):
    """Every system call of the append in turn is the last one, and nothing is tidied up."""
    more = stream[:2]
    calls = []
    names = [
        (os, "fsync"),
        (os, "replace"),
        (os, "open"),
        (os, "chmod"),
        (npy_file, "open"),
        (store_segments, "write_atomically"),
    ]

    def counting(name, real, stop_at):
        def call(*arguments, **options):
            calls.append(name)
            if len(calls) == stop_at:
                raise Stop(name)
            return real(*arguments, **options)

        return call

    outcomes = set()
    for stop_at in range(1, 100):
        path = tmp_path / str(stop_at)
        opened = pr.write_store(stream, path)
        calls.clear()
        with monkeypatch.context() as patch:
            for module, name in names:
                real = getattr(module, name, open)
                patch.setattr(module, name, counting(name, real, stop_at), raising=False)
            patch.setattr(store.Path, "unlink", lambda *_, **__: None)
            try:
                opened.append(more)
            except Stop:
                pass
            else:
                break
        outcomes.add(before := states(path))
        pr.open_store(path).append(more)  # and it goes on working
        assert states(path) == before + 2
    else:
        pytest.fail("the append never went through")
    assert stop_at > 8
    assert outcomes == {3, 5}


@pytest.mark.deep
def test_killed_while_appending(tmp_path):
    code = (
        "import sys, numpy as np, perceptrank as pr\n"
        "opened = pr.open_store(sys.argv[1])\n"
        "more = pr.QueryStream.from_arrays(np.ones((4, 2)), [0, 1, 0, 1], group=[2, 2])\n"
        "print('ready', flush=True)\n"
        "while True: opened.append(more)"
    )
    path = tmp_path / "s"
    pr.write_store(pr.QueryStream.from_arrays(np.ones((2, 2)), [0, 1]), path)
    rng = np.random.default_rng(0)
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert states(path) % 2 == 1
    opened = pr.open_store(path)
    opened.append(pr.QueryStream.from_arrays(np.ones((2, 2)), [0, 1]))
    listed = {segment["name"] for segment in json.loads((path / "manifest.json").read_text())["segments"]}
    assert {file.name[:8] for file in path.glob("*.npy")} == listed  # what was cut off is gone


def test_an_error_in_the_stream_changes_nothing(stream, tmp_path):
    def broken():
        yield stream
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        pr.write_store(broken(), tmp_path / "s")
    opened = pr.write_store(stream, tmp_path / "s")
    before = sorted(os.listdir(tmp_path / "s"))
    with pytest.raises(RuntimeError, match="no more"):
        opened.append(broken())
    with pytest.raises(RuntimeError, match="no more"):
        pr.write_store(broken(), tmp_path / "s", overwrite=True)
    assert sorted(os.listdir(tmp_path / "s")) == before
    assert_same(pr.open_store(tmp_path / "s", comments=True), stream)


def test_overwriting(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    first = opened[0].X.copy()
    with pytest.raises(FileExistsError, match="overwrite"):
        pr.write_store(stream, tmp_path / "s")
    replaced = pr.write_store(stream[1:], tmp_path / "s", overwrite=True)
    assert len(replaced) == 2
    assert np.array_equal(opened[0].X, first)  # who had it open goes on with what was there
    assert len(list((tmp_path / "s").glob("*.X.npy"))) == 1


def test_appended_queries_must_have_the_same_features(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    with pytest.raises(ValueError, match=r"be the same throughout: 3 .*got 1"):
        opened.append(pr.QueryStream.from_arrays(np.ones((2, 1), np.float32), [0, 1]))
    with pytest.raises(ValueError, match="cannot hold float64"):
        opened.append(pr.QueryStream.from_arrays(np.ones((2, 3)), [0, 1]))
    with pytest.raises(ValueError, match="no queries"):
        opened.append([])
    with pytest.raises(ValueError, match="numbers or text"):
        pr.write_store(pr.QueryStream(np.ones((2, 1)), [0, 1], [0, 2], qids=np.array([b"x"])), tmp_path / "t")


def test_places_that_are_no_stores(stream, tmp_path):
    with pytest.raises(FileNotFoundError, match="no store"):
        pr.open_store(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        pr.open_store(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError, match="it is a file"):
        pr.write_store(stream, tmp_path / "file")
    with pytest.raises(FileExistsError, match="other files"):
        pr.write_store(stream, tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        pr.write_store(stream, tmp_path / "a" / "b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="other"), "its format must be"),
        (lambda m: m.update(version=4), "manifest.json has version 4, perceptrank .* wrote it"),
        (lambda m: m.update(version=2), "its version must be 3, got 2: write the store again"),
        (lambda m: m.update(n_features=0), "its feature_names do not name each feature"),
        (lambda m: m.update(dtype="object"), "'object'"),
        (lambda m: m.update(feature_names=["x"]), "name each feature"),
        (lambda m: m.update(segments=[]), "no segments"),
        (lambda m: m.update(segments={"a": 1}), "no segments"),
        (lambda m: m.update(segments=[1]), "is damaged"),
        (lambda m: m.update(feature_names=3), "is damaged"),
        (lambda m: m.pop("segments"), "'segments' is missing"),
        (lambda m: m["segments"][0].pop("qids"), "'qids' is missing"),
        (lambda m: m["segments"][0].update(qids="|O"), r"type of query ids '\|O'"),
        (lambda m: m["segments"][0].update(qids="<U99"), r"qid\.npy with <U99 of shape \(3,\) cannot have \d+ bytes"),
        (lambda m: m["segments"][0].update(qids=[]), "is damaged"),
        (lambda m: m["segments"][0].update(documents=10**12), "cannot have 616 bytes"),
        (lambda m: m["segments"][0]["files"]["X"].pop("sha256"), "'sha256' is missing"),
        (lambda m: m["segments"][0]["files"]["X"].update(sha256="x"), "invalid checksum"),
        (lambda m: m["segments"][0]["files"].pop("comment"), "unknown file, 'comment.starts'"),
        (lambda m: m["segments"][0]["files"].pop("comment.starts"), "lacks files: comment.starts"),
        (lambda m: m["segments"][0]["files"].update({"/../x": {"bytes": 1, "sha256": ""}}), "unknown file"),
        (lambda m: m["segments"][0].update(name="../../etc"), "invalid segment name"),
        (lambda m: m["segments"][0].update(documents=-1), "whole number"),
        (lambda m: m["segments"][0]["files"].pop("X"), "lacks files"),
        (lambda m: m["segments"][0]["files"]["X"].update(bytes=1), "1 are expected"),
    ],
)
def test_a_manifest_that_is_wrong(stream, tmp_path, change, message):
    pr.write_store(stream, tmp_path / "s")
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    change(manifest)
    (tmp_path / "s" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(pr.FormatError, match=message) as error:
        pr.open_store(tmp_path / "s")
    assert error.value.path == str(tmp_path / "s" / "manifest.json")


@pytest.mark.parametrize("content", [b"[]", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b""])
def test_a_manifest_that_is_something_else(stream, tmp_path, content):
    pr.write_store(stream, tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_bytes(content)
    with pytest.raises(pr.FormatError, match=r"manifest\.json is not the manifest of a store"):
        pr.open_store(tmp_path / "s")


@pytest.mark.parametrize("kind", ["X", "relevance", "offsets", "qid", "comment", "comment.starts"])
def test_every_byte_of_a_header_counts(stream, tmp_path, kind):
    """`fortran_order: True` would permute the features; other flips made NumPy's parser raise whatever it raises."""
    opened = pr.write_store(stream, tmp_path / "s")
    path = tmp_path / "s" / f"00000000.{kind}.npy"
    whole = path.read_bytes()
    wrong = [whole.replace(b"'fortran_order': False", b"'fortran_order': True ")]
    wrong += [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in range(0, 256, 5)]
    for content in wrong:
        path.write_bytes(content)
        with pytest.raises(pr.FormatError, match=r"\.npy is damaged: its header is not that of"):
            opened.verify()
        with pytest.raises(pr.FormatError, match=r"\.npy is damaged: its header is not that of"):
            pr.open_store(tmp_path / "s", comments=True)


@pytest.mark.parametrize(("kind", "content"), [("comment", b"\xff"), ("comment.starts", (2**62).to_bytes(8, "little"))])
def test_damaged_comments(stream, tmp_path, kind, content):
    opened = pr.write_store(stream, tmp_path / "s")
    path = tmp_path / "s" / f"00000000.{kind}.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:256] + content + whole[256 + len(content) :])
    with pytest.raises(pr.FormatError, match="its checksum is not the one"):
        opened.verify()
    if kind == "comment.starts":
        with pytest.raises(pr.FormatError, match="starts of comment must rise from 0"):
            pr.open_store(tmp_path / "s", comments=True)


def test_files_that_are_damaged(stream, tmp_path):
    folder = tmp_path / "s"
    pr.write_store(stream, folder)
    target = folder / "00000000.X.npy"
    data = target.read_bytes()
    target.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"X\.npy is damaged"):
        pr.open_store(folder).verify()
    target.write_bytes(data[:-4])
    with pytest.raises(ValueError, match=r"X\.npy has \d+ bytes"):
        pr.open_store(folder)
    target.unlink()
    with pytest.raises(ValueError, match="is missing"):
        pr.open_store(folder)
    target.write_bytes(b"x" * len(data))
    with pytest.raises(ValueError, match="damaged"):
        pr.open_store(folder).X  # noqa: B018
    target.write_bytes(data)
    offsets = folder / "00000000.offsets.npy"
    wrong = bytearray(offsets.read_bytes())
    wrong[-16:-8] = (2**40).to_bytes(8, "little")
    offsets.write_bytes(wrong)
    with pytest.raises(ValueError, match="offsets must rise"):
        pr.open_store(folder)[0]
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="not the manifest"):
        pr.open_store(folder)


def test_comments_that_begin_late_and_are_missing_later(tmp_path):
    X = np.ones((2, 1), np.float32)
    plain = pr.QueryStream(X, [0, 1], [0, 2], qids=["p"])
    noted = pr.QueryStream(X, [0, 1], [0, 2], qids=["n"], comments=["a", "b"])
    opened = pr.write_store([plain, noted, plain], tmp_path / "s")
    opened.append(plain)
    opened.append(noted)
    expected = ["", "", "a", "b", "", "", "", "", "a", "b"]
    with_comments = pr.open_store(tmp_path / "s", comments=True)
    assert with_comments.comments.tolist() == expected
    assert [block.comments is None for block in with_comments.blocks()] == [False] * 3
    copied = pr.write_store(pr.open_store(tmp_path / "s"), tmp_path / "t")  # one segment of several, nothing lost
    assert copied.n_segments == 1
    assert pr.open_store(tmp_path / "t", comments=True).comments.tolist() == expected


def test_ids_that_int64_cannot_hold_and_fractions(tmp_path):
    X = np.ones((2, 1))
    for number, (ids, kept) in enumerate(
        [(np.array([2**63 + 5, 1], np.uint64), [str(2**63 + 5), "1"]), (np.array([1.5, 2.0]), [1.5, 2.0])]
    ):
        stream = pr.QueryStream(X, [0, 1], [0, 1, 2], qids=ids)
        assert pr.write_store(stream, tmp_path / str(number)).qids.tolist() == kept


def test_grades_are_counted_exactly(tmp_path):
    stream = pr.QueryStream.from_arrays(np.ones((3, 1)), [1.0, 1.0000001, 1234567], group=[3])
    pr.write_store(stream, tmp_path / "s")
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert manifest["segments"][0]["grades"] == {"1": 1, "1.0000001": 1, "1234567": 1}


def test_a_first_write_that_fails_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="no queries"):
        pr.write_store([], tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_files_are_on_disk_before_the_manifest_names_them(stream, tmp_path, monkeypatch):
    opened = pr.write_store(stream, tmp_path / "s")
    calls = []
    real_fsync, real_replace, real_flush = os.fsync, os.replace, store_segments.flush_folder
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append("fsync"), real_fsync(file)))
    monkeypatch.setattr(store_segments, "flush_folder", lambda folder: (calls.append("folder"), real_flush(folder)))
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("replace"), real_replace(*names)))
    opened.append(stream)
    before = calls[: calls.index("replace")]
    assert before.count("fsync") >= 6 + 1 + 1  # the segment's six files, the folder, the new manifest
    assert "folder" in before


def test_what_a_cut_off_write_left_is_removed(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    stray = tmp_path / "s" / "00000009.X.npy"
    stray.write_bytes(b"x")
    opened.append(stream)
    assert not stray.exists()


@pytest.mark.deep
def test_several_processes_append_at_once(tmp_path):
    code = (
        "import sys, numpy as np, perceptrank as pr\n"
        "for i in range(12):\n"
        "    more = pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=[f'{sys.argv[2]}-{i}'])\n"
        "    pr.open_store(sys.argv[1]).append(more)"
    )
    path = tmp_path / "s"
    pr.write_store(pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=["first"]), path)
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    opened = pr.open_store(path)
    opened.verify()
    assert sorted(opened.qids) == sorted(["first", *(f"{name}-{i}" for name in "ab" for i in range(12))])


def test_progress_and_many_grades(tmp_path):
    stream = pr.QueryStream.from_arrays(np.ones((100, 1)), np.arange(100) / 7, group=[10] * 10)
    seen = []
    pr.write_store(stream, tmp_path / "s", progress=seen.append)
    assert seen[-1] == 100
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["segments"][0]["grades"] is None


def test_a_store_makes_streams_of_arrays_like_any_stream():
    assert type(pr.Store.from_arrays([[1.0]], [1])) is pr.QueryStream


def test_paths_are_kept_when_the_working_folder_changes(stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = pr.write_store(stream, "s")
    monkeypatch.chdir("/")
    assert len(opened[0].X) == 10
    opened.append(stream)
    assert len(opened) == 6


def test_a_damaged_store_can_be_overwritten(stream, tmp_path):
    pr.write_store(stream, tmp_path / "s")
    (tmp_path / "s" / "00000000.X.npy").write_bytes(b"x")
    assert_same(pr.write_store(stream[:2], tmp_path / "s", overwrite=True), pr.open_store(tmp_path / "s"))
    (tmp_path / "s" / "manifest.json").write_text("{")
    assert len(pr.write_store(stream, tmp_path / "s", overwrite=True)) == 3


def test_a_first_write_that_was_cut_off_can_be_repeated(stream, tmp_path):
    (tmp_path / "s").mkdir()
    for name in (".perceptrank-abc", "00000000.X.npy", "00000000.comment.npy"):
        (tmp_path / "s" / name).write_bytes(b"x")
    opened = pr.write_store(stream[:1], tmp_path / "s")
    opened.verify()
    assert not (tmp_path / "s" / ".perceptrank-abc").exists()
    assert len(list((tmp_path / "s").glob("*.X.npy"))) == 1


@pytest.mark.deep
def test_two_first_writers_do_not_replace_each_other(tmp_path):
    code = (
        "import sys, numpy as np, perceptrank as pr\n"
        "stream = pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=[sys.argv[2]])\n"
        "sys.stdin.readline()\n"
        "pr.write_store(stream, sys.argv[1])"
    )
    path = tmp_path / "s"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), name], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for name in "ab"
    ]
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    codes = []
    for process in processes:
        process.stdin.close()
        codes.append(process.wait())
    assert sorted(codes) == [0, 1]
    assert pr.open_store(path).qids.tolist() == ["ab"[codes.index(0)]]


def test_dates_as_ids_and_copies(tmp_path):
    ids = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
    opened = pr.write_store(pr.QueryStream(np.ones((2, 1)), [0, 1], [0, 1, 2], qids=ids), tmp_path / "s")
    assert opened.qids.tolist() == ids.tolist()
    opened.X  # noqa: B018
    assert len(pickle.dumps(opened)) < 1000
    assert_same(copy.deepcopy(opened), opened)


def test_a_store_that_is_replaced_while_it_is_open(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    pr.write_store(stream[:1], tmp_path / "s", overwrite=True)
    assert np.array_equal(opened.X, stream.X)


@pytest.mark.parametrize("first", ["relevance", "offsets", "qids", "comments", "X"])
def test_arrays_can_be_asked_for_in_any_order(first, tmp_path):
    """Also of one feature only, which the small arrays are put together with in its place."""
    stream = pr.QueryStream.from_arrays(np.arange(1.0, 5.0).reshape(4, 1), [0, 1, 2, 3], group=[2, 2])
    opened = pr.write_store(stream, tmp_path / "s")
    opened.append(stream)
    getattr(opened, first)
    assert_same(opened, pr.QueryStream.concatenate([stream, stream]))


def test_query_ids_that_are_no_unicode_are_damaged(tmp_path):
    pr.write_store(pr.QueryStream.from_arrays(np.eye(2), [0, 1], qid=["a", "b"]), tmp_path / "s")
    (path,) = (tmp_path / "s").glob("*.qid.npy")
    path.write_bytes(path.read_bytes()[:-4] + b"\xff\xff\xff\xff")
    with pytest.raises(pr.FormatError, match=r"qid.npy is damaged: query ids must be Unicode"):
        pr.open_store(tmp_path / "s")
