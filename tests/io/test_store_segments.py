import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from support.comparing import assert_same
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.cli.terminal.errors import describe

N_SEGMENTS = 32


@pytest.fixture
def whole():
    return pr.QueryStream.from_arrays(
        np.arange(4.0 * N_SEGMENTS).reshape(-1, 2), np.arange(2 * N_SEGMENTS) % 3, group=[2] * N_SEGMENTS
    )


@pytest.fixture
def many(whole, tmp_path, monkeypatch):
    """The path of a store of more segments than are mapped at once, one query each."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        opened = pr.write_store(whole[:1], tmp_path / "s")
        for q in range(1, N_SEGMENTS):
            opened.append(whole[q : q + 1])
    return opened.path


@contextmanager
def descriptors(n):
    """Let this process open only n more files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    listed = os.listdir("/proc/self/fd")  # including one for the folder itself
    used = {int(number) for number in listed if os.path.exists(f"/proc/self/fd/{number}")}
    free = [number for number in range(len(used) + n) if number not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[n - 1] + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def n_files(path):
    return len(list(path.glob("*.X.npy")))


def test_reading_more_segments_than_files_may_be_open(many, whole):
    with descriptors(28):
        opened = pr.open_store(many)
        for _ in range(2):
            assert [block.n_documents for block in opened.blocks()] == [2] * N_SEGMENTS
        assert_same(opened[1:-1], whole[1:-1])
        assert_same(opened[::-1], whole[::-1])
        assert_same(opened, whole)
        opened.verify()
        opened.compact()
    assert_same(opened, whole)


def test_a_limit_of_the_system_is_no_damage(many):
    opened = pr.open_store(many)
    with descriptors(12), pytest.raises(OSError, match=r"too many files are open .*ulimit -n.*Store.compact") as caught:
        list(opened.blocks())
    assert describe(caught.value).endswith("with perceptrank convert STORE STORE")


@pytest.mark.parametrize("n", [1, 2])
def test_opening_with_hardly_any_descriptors_left(tmp_path, whole, n):
    pr.write_store(whole, tmp_path / "s")
    ended = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it goes on for ever"))
    signal.alarm(10)
    try:
        with descriptors(n), pytest.raises(OSError, match=r"too many files are open .*/s.*ulimit -n"):
            pr.open_store(tmp_path / "s")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, ended)


@pytest.mark.parametrize("change", ["overwrite", "compact"])
def test_a_reader_goes_on_when_the_store_is_replaced(many, whole, change):
    reader = pr.open_store(many)
    blocks = reader.blocks()
    seen = [next(blocks) for _ in range(3)]
    if change == "overwrite":
        pr.write_store(whole, many, overwrite=True)
    else:
        pr.open_store(many).compact()
    writer = pr.open_store(many)
    writer.append(whole[:1])
    assert_same(pr.QueryStream.concatenate([*seen, *blocks]), whole)
    assert_same(reader, whole)
    assert n_files(many) == N_SEGMENTS + 2
    del reader, blocks
    writer.append(whole[:1])  # whoever writes when nobody needs them removes them
    assert n_files(many) == 3


def test_a_reader_of_files_that_are_gone_says_so(many):
    reader = pr.open_store(many)
    for path in many.glob("*.npy"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match="overwritten meanwhile, open it again"):
        list(reader.blocks())


def test_one_who_iterates_may_compact(many, whole):
    opened, seen = pr.open_store(many), []
    for block in opened.blocks():
        if len(seen) == 5:
            opened.compact()
        seen.append(block)
    assert_same(pr.QueryStream.concatenate(seen), whole)
    assert opened.n_segments == 1


def test_compacting(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    plain = pr.QueryStream(stream.X[:4], [0, 1, 0, 2], [0, 1, 4], qids=[5, 6], feature_names=stream.feature_names)
    opened.append(plain)
    opened.append(stream[1:])
    expected = pr.QueryStream.concatenate(pr.open_store(opened.path, comments=True).blocks())
    before = json.loads((opened.path / "manifest.json").read_text())
    reader = pr.open_store(opened.path)
    opened.compact()
    assert opened.n_segments == 1
    assert len(list(opened.path.iterdir())) == 7  # the manifest, and one segment with comments
    assert_same(pr.open_store(opened.path, comments=True), expected)
    assert np.array_equal(reader.X, expected.X)  # mapped before
    opened.verify()
    after = json.loads((opened.path / "manifest.json").read_text())
    assert {**before, "segments": []} == {**after, "segments": []}
    opened.compact()  # nothing to do
    assert json.loads((opened.path / "manifest.json").read_text()) == after


def test_converting_a_store_to_itself_compacts_it(stream, tmp_path):
    path = tmp_path / "s"
    pr.write_store(stream, path).append(stream)
    link = tmp_path / "link.store"
    link.symlink_to(path)
    result = CliRunner().invoke(app, ["convert", str(link), str(path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["queries"] == 6
    found = pr.open_store(path, comments=True)
    assert found.n_segments == 1
    assert_same(found, pr.QueryStream.concatenate([stream, stream]))
    copied = CliRunner().invoke(app, ["convert", str(path), str(tmp_path / "t"), "--comments"])
    assert copied.exit_code == 0, copied.output
    assert_same(pr.open_store(tmp_path / "t", comments=True), found)


def test_damage_is_not_compacted_away(stream, tmp_path):
    opened = pr.write_store(stream, tmp_path / "s")
    opened.append(stream)
    target = tmp_path / "s" / "00000000.relevance.npy"
    data = target.read_bytes()
    target.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(pr.FormatError, match=r"relevance\.npy is damaged"):
        opened.compact()
    assert pr.open_store(tmp_path / "s").n_segments == 2


def test_ids_that_cannot_be_stored_together(tmp_path):
    dates = np.array(["2026-01-01"], dtype="datetime64[D]")
    one, other = (pr.QueryStream(np.ones((1, 1)), [1], [0, 1], qids=qids) for qids in ([7], dates))
    opened = pr.write_store(one, tmp_path / "s")
    opened.append(other)
    with pytest.raises(ValueError, match="numbers or text"):
        opened.compact()
    assert [block.qids.tolist() for block in pr.open_store(tmp_path / "s").blocks()] == [[7], dates.tolist()]


def test_copying_a_store_of_many_segments_does_not_load_it(many, tmp_path, monkeypatch):
    monkeypatch.setattr(pr.Store, "_copy_features", None)
    assert pr.write_store(pr.open_store(many), tmp_path / "t").n_segments == 1


KILLED = """
import sys, numpy as np, perceptrank as pr
opened = pr.open_store(sys.argv[1])
more = pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=[1])
print("ready", flush=True)
while True:
    opened.append(more)
    opened.append(more)
    opened.compact()
"""


@pytest.mark.deep
def test_killed_while_compacting(tmp_path):
    path = tmp_path / "s"
    pr.write_store(pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=[0]), path)
    rng = np.random.default_rng(0)
    n_queries = 1
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        opened = pr.open_store(path)
        opened.verify()
        assert len(opened) >= n_queries
        assert opened.qids.tolist() == [0] + [1] * (len(opened) - 1)
        n_queries = len(opened)
    opened.compact()
    assert n_files(path) == 1
    assert len(opened) == n_queries


@pytest.mark.deep
def test_reading_appending_and_compacting_at_once(tmp_path):
    path = tmp_path / "s"
    pr.write_store(pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=[0]), path)
    append = (
        "import sys, numpy as np, perceptrank as pr\n"
        "for i in range(60):\n"
        "    more = pr.QueryStream(np.ones((2, 2)), [0, 1], [0, 2], qids=[i])\n"
        "    pr.open_store(sys.argv[1]).append(more)"
    )
    compact = "import sys, perceptrank as pr\nfor i in range(8): pr.open_store(sys.argv[1]).compact()"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for code in (append, append, compact)]
    n_reads = 0
    while any(writer.poll() is None for writer in writers):
        opened = pr.open_store(path)
        assert sum(len(block) for block in opened.blocks()) == len(opened)
        n_reads += 1
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert n_reads > 10
    opened = pr.open_store(path)
    opened.verify()
    assert sorted(opened.qids) == sorted([0, *range(60), *range(60)])
