"""Reading LETOR text with bounded memory and time, whatever the text and its compression."""

import io
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zstandard
from support import bombs
from support.comparing import assert_same

import perceptrank as pr
from perceptrank.io import text as text_module
from perceptrank.io.letor import lines

TESTS = Path(__file__).parents[1]
kernel = pytest.mark.kernel
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc")


def read(text, **settings):
    return pr.read_letor(io.BytesIO(text), **settings)


def scanned(text, **settings):
    return pr.QueryStream.concatenate(pr.scan_letor(io.BytesIO(text), max_bytes=2**16, **settings))


def run(code, *arguments):
    """What a process of its own prints."""
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n{code}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Sections of a file: lines, features of each, documents of a query, and what stands before each line.
SHAPES = {
    "short lines, then long ones": [(40_000, 1, 10, b""), (300, 400, 10, b"")],
    "long lines, then short ones": [(300, 400, 10, b""), (40_000, 1, 10, b"")],
    "longer and longer lines": [(600, width, 5, b"") for width in range(1, 600, 11)],
    "mostly blank": [(6000, 400, 10, b"\n" * 1500)],
    "mostly comments": [(500, 1, 1, b""), (5000, 500, 10, b"# no document\n" * 150)],
    "queries of one document": [(600_000, 1, 1, b"")],
}


def shaped_text(sections):
    first = 0
    for n_lines, width, n_documents, before in sections:
        pairs = b" ".join(b"%d:%d" % (k, k % 7) for k in range(1, width + 1))
        yield from (before + b"1 qid:%d %b\n" % ((first + i) // n_documents, pairs) for i in range(n_lines))
        first += n_lines


# Prints the share of memory beyond the dense arrays of each file named, after what text and tables may take.
BEYOND_ARRAYS = """
import io
import perceptrank as pr
from support.limits import forget_peak, memory
pr.read_letor(io.BytesIO(b"1 qid:1 1:1\\n2 qid:2 3:1\\n1 qid:1 1:1\\n"), n_threads=2)
pr.read_letor(io.BytesIO(b"1 qid:1 1:1\\n" * 200_000 + b"1 qid:1 900:1\\n"), n_threads=2)  # compiles what widens
for path in sys.argv[1:]:
    forget_peak()
    before = memory("VmRSS")
    stream = pr.read_letor(path, n_threads=2, sparse=False)
    arrays = sum(array.nbytes for array in (stream.X, stream.relevance, stream.offsets, stream.qids))
    print((memory("VmHWM") - before - arrays - 32 * 2**20) / arrays)
    del stream
"""


@pytest.mark.engine
@needs_linux
def test_memory_beyond_the_arrays_whatever_the_order_of_lines(tmp_path):
    for name, sections in SHAPES.items():
        (tmp_path / name).write_bytes(b"".join(shaped_text(sections)))
    beyond = dict(
        zip(SHAPES, map(float, run(BEYOND_ARRAYS, *(tmp_path / name for name in SHAPES)).split()), strict=True)
    )
    assert max(beyond.values()) <= 0.2, beyond


@needs_linux
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
def test_memory_beyond_the_arrays_for_any_order_of_lines(tmp_path, seed):
    rng = random.Random(seed)
    paths = []
    for k in range(6):
        sections = []
        for _ in range(rng.randrange(1, 8)):
            width = int(10 ** rng.uniform(0, 3.2))
            n_lines = min(int(10 ** rng.uniform(5.5, 7.5)) // (30 + 8 * width), 100_000)
            before = rng.choice([b"", b"", b"\n", b"# x\n", b"\n" * 300])
            sections.append((n_lines + 1, width, rng.choice([1, 10, 100]), before))
        paths.append(tmp_path / str(k))
        paths[-1].write_bytes(b"".join(shaped_text(sections)))
    beyond = list(map(float, run(BEYOND_ARRAYS, *paths).split()))
    assert max(beyond) <= 0.2, beyond


# Prints the most memory that each reader takes for each file named, and what becomes of it.
WITHIN_LIMITS = """
import io
import perceptrank as pr
from support.limits import forget_peak, limit_memory, memory, time_limit
READERS = pr.read_letor, lambda *a, **k: pr.QueryStream.concatenate(pr.scan_letor(*a, **k))
for reader in READERS:
    reader(io.BytesIO(b"1 qid:1 1:1\\n2 qid:2 3:1\\n"), n_threads=2)
limit_memory(700 * 2**20)
for name in sys.argv[1:]:
    for reader in READERS:
        forget_peak()
        before = memory("VmRSS")
        with time_limit(60):
            try:
                found = reader(name, n_threads=2)
            except ValueError as error:
                found = error
        print(f"{(memory('VmHWM') - before) >> 20} {found}".replace("\\n", " "))
"""


@needs_linux
@pytest.mark.parametrize("kinds", ["zst txt", pytest.param("gz xz bz2 zst txt", marks=pytest.mark.deep)])
def test_small_files_do_not_take_gigabytes(tmp_path, kinds):
    window = "needs a window of more than 128 MiB; decompress the file first"
    wide = "QueryStream(1 queries, 1500 documents, 1048576 features, 1500 non-zeros)"
    late = "QueryStream(1 queries, 5001 documents, 1048576 features, 5001 non-zeros)"
    lines = b"\n" * 2**25
    files = {  # and the megabytes that they may take
        "lines.gz": (bombs.COMPRESS["gzip"](lines), "no documents", 50),
        "lines.bz2": (bombs.COMPRESS["bzip2"](lines), "no documents", 50),
        "lines.xz": (bombs.COMPRESS["xz"](lines), "no documents", 50),
        "lines.zst": (bombs.zstd_blocks(2**10, b"\n"), "1", 50),
        "zeros.zst": (bombs.zstd_blocks(2**10, b"\0"), "a line longer than 64 MiB", 200),
        "window.zst": (bombs.zstd_blocks(9, b"\n", window_log=31), window, 50),
        "window.xz": (bombs.xz_window(bombs.LINE), window, 50),
        "name.txt": (b"#1048576:x\n" + b"1 qid:1 1:1\n" * 1500, wide, 150),
        "id.txt": (b"1 qid:1 1048576:1\n" * 1500, wide, 50),
        "late.txt": (b"1 qid:1 1:1\n" * 5000 + b"1 qid:1 1048576:1\n", late, 50),
    }
    files = {name: file for name, file in files.items() if name.split(".")[1] in kinds.split()}
    for name, (data, _, _) in files.items():
        (tmp_path / name).write_bytes(data)
        assert len(data) < 2**19
    found = iter(run(WITHIN_LIMITS, *(tmp_path / name for name in files)).splitlines())
    for name, (_, expected, megabytes) in files.items():
        for line in (next(found), next(found)):
            peak, _, outcome = line.partition(" ")
            assert expected in outcome, (name, line)
            assert int(peak) < megabytes, (name, line)


@kernel
@pytest.mark.parametrize("start", [read, scanned])
def test_more_features_than_their_text_has_are_to_be_declared(monkeypatch, start):
    monkeypatch.setattr(lines, "ALWAYS_ALLOWED_BYTES", 2**16)
    text = b"1 qid:1 1:1\n" * 50 + b"1 qid:1 9000:1\n" * 9
    problem = r"^<stream>:51:1: because of feature 9000 a document takes 0.036 MB.*`n_features=9000` or `sparse=True`$"
    with pytest.raises(pr.FormatError, match=problem):
        start(text, sparse=False)
    assert start(text, n_features=9000, sparse=False).X.shape == (59, 9000)
    with pytest.raises(
        pr.FormatError, match=r"^<stream>:2:1: because of feature 8999 .* use `n_features=9000` or `sparse"
    ):
        start(b"#1:x\n#8999:x\n" + b"1 qid:1 1:1\n" * 50, zero_based=True, sparse=False)
    assert start(b"1 qid:1 9000:1\n", sparse=False).n_features == 9000
    assert start(text).X.shape == (59, 9000)


def test_features_named_by_a_later_file_are_limited_too(monkeypatch, tmp_path):
    monkeypatch.setattr(lines, "ALWAYS_ALLOWED_BYTES", 2**16)
    (tmp_path / "a").write_bytes(b"1 qid:1 1:1\n" * 50)
    (tmp_path / "b").write_bytes(b"# x\n\n#9000:x\n1 qid:2 1:1\n")
    with pytest.raises(pr.FormatError, match=r"b:3:1: because of feature 9000 .*`n_features=9000` or `sparse=True`$"):
        pr.read_letor(tmp_path)
    assert pr.read_letor(tmp_path, n_features=9000).n_features == 9000


@kernel
def test_a_scan_does_not_add_up_the_features_of_blocks(monkeypatch):
    monkeypatch.setattr(lines, "ALWAYS_ALLOWED_BYTES", 2**20)
    text = b"".join(b"1 qid:%d 9000:1\n" % i for i in range(300))
    assert sum(len(block) for block in pr.scan_letor(io.BytesIO(text), max_bytes=2**18, sparse=False)) == 300
    with pytest.raises(pr.FormatError, match="n_features=9000"):
        read(text, sparse=False)


def test_skipping_wrong_lines_takes_time_in_proportion():
    text = b"x\n" * 60_000 + b"1 qid:1 1:1\n"
    for start in (read, scanned):
        begin = time.process_time()
        with pytest.warns(UserWarning, match="skipped 60000 "):
            assert start(text, on_error="skip").n_documents == 1
        assert time.process_time() - begin < 2  # it took a quadratic time, 5 s


SKIPPING = """
import io, warnings
import perceptrank as pr
from support.limits import forget_peak, memory
warnings.simplefilter("ignore")
text = b"x y z\\n" * 7_000_000 + b"1 qid:1 1:1\\n"
for reader in pr.read_letor, lambda *a, **k: sum(len(block) for block in pr.scan_letor(*a, **k)):
    reader(io.BytesIO(text[-1000:]), on_error="skip", n_threads=2)
    forget_peak()
    before = memory("VmRSS")
    reader(io.BytesIO(text), on_error="skip", n_threads=2)
    print((memory("VmHWM") - before) / 2**20)
"""


@needs_linux
@pytest.mark.deep
def test_skipping_wrong_lines_takes_no_memory_for_each():
    assert max(map(float, run(SKIPPING).split())) < 80


@kernel
def test_a_scan_makes_the_names_of_features_once(monkeypatch, tmp_path):
    monkeypatch.setattr(text_module, "_CHUNK_BYTES", 256)
    path = tmp_path / "named.txt"
    names = b"".join(b"#%d:name%d\n" % (k, k) for k in range(1, 40))
    path.write_bytes(names + b"".join(b"1 qid:%d 3:1\n" % i for i in range(500)))
    blocks = list(pr.scan_letor(path, max_bytes=1000))
    assert len(blocks) > 10
    assert all(block.feature_names is blocks[0].feature_names for block in blocks)


@kernel
def test_documents_of_scattered_queries_are_moved_in_place():
    rng = np.random.default_rng(0)
    qids = rng.integers(20, size=300)
    stream = read(b"".join(b"%d qid:%d 1:%d 2:%d\n" % (i, qid, i, -i) for i, qid in enumerate(qids)))
    rows = np.concatenate([np.flatnonzero(qids == qid) for qid in dict.fromkeys(qids.tolist())])
    np.testing.assert_array_equal(stream.X, np.stack([rows, -rows], 1))
    np.testing.assert_array_equal(stream.relevance, rows)


@needs_linux
def test_hostile_files_within_limits_of_memory_and_time():
    command = [sys.executable, TESTS / "fuzz_letor.py", "--seed", "0", "--cases", "30", "--seconds", "600"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "30 cases, nothing wrong\n"), done.stdout + done.stderr


def test_zstd_frames_of_every_kind():
    lines = [b"%d qid:%d 1:%d # %d\n" % (i % 5, i // 9, i, i * 7919 % 10007) for i in range(30_000)]
    text = b"".join(lines)
    whole = read(text)

    def compressed(data=text, **options):
        return zstandard.ZstdCompressor(**options).compress(data)

    in_blocks = io.BytesIO()
    with zstandard.ZstdCompressor(write_checksum=True).stream_writer(in_blocks, closefd=False) as writer:
        for k in range(0, len(lines), 50):
            writer.write(b"".join(lines[k : k + 50]))
            writer.flush(zstandard.FLUSH_BLOCK)
    skipped = b"\x5a\x2a\x4d\x18" + (300_000).to_bytes(4, "little") + bytes(300_000)
    for data in (
        compressed(level=19, write_checksum=True),
        compressed(level=-5, write_content_size=False),
        compressed(text[:999]) + skipped + compressed(b"") + compressed(text[999:]) + b"\x50\x2a\x4d\x18" + bytes(4),
        in_blocks.getvalue(),
        skipped + compressed(),
        b"\x5f\x2a\x4d\x18\1\0\0\0\n" + b"\x50\x2a\x4d\x18\0\0\0\0" * 200_000 + compressed(),  # quickly
    ):
        assert_same(read(data), whole)
        assert_same(scanned(data), whole)
    with pytest.raises(pr.FormatError, match="the zstd data is damaged: it is truncated"):
        read(compressed() + skipped[:-1])
    damaged = bytearray(compressed(write_checksum=True))
    damaged[-1] ^= 1
    with pytest.raises(pr.FormatError, match="the zstd data is damaged"):
        read(bytes(damaged))


def test_a_wider_window_is_allowed_for_larger_files(monkeypatch, tmp_path):
    from perceptrank.io import compression

    monkeypatch.setattr(compression, "_WINDOW_BYTES", 2**18)
    path = tmp_path / "judged.zst"
    path.write_bytes(bombs.zstd_blocks(1, window_log=20))
    with pytest.raises(pr.FormatError, match=r"judged.zst:1:1: the zstd data needs a window of more than 0 MiB"):
        pr.read_letor(path)
    monkeypatch.setattr(compression, "_WINDOW_SHARE", 2**20)
    assert len(pr.read_letor(path)) == 1
    with pytest.raises(pr.FormatError, match="window"):
        read(path.read_bytes())
