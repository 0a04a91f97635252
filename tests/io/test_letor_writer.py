"""Writing LETOR text: what is written is read back to the bit, or refused."""

import io
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.comparing import assert_same
from support.letor_cases import COMPRESS

import perceptrank as pr

kernel = pytest.mark.kernel

ENDINGS = {"plain": ".txt", "gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}
LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
WORD = st.text(st.characters(exclude_characters="#\0", exclude_categories=["Z", "C"]), min_size=1, max_size=8)
EXTREMES = {
    np.float32: [
        *(0.0, -0.0, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 0.1, 16777217, 1 / 3, 1e-10, 1e15),
    ],
    np.float64: [
        *(0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3, 0.1 + 0.2),
        *(2.0**53, 2.0**53 + 2, 1e15, 1e15 - 0.125, 999999999999999.9, 1e-10, 9.999999999999999e-11, 1e22, 1e23),
    ],
}


def values(dtype):
    floats = st.floats(width=np.dtype(dtype).itemsize * 8, allow_nan=False, allow_infinity=False)
    short = st.integers(-99999, 99999).map(lambda number: float(dtype(number / 1000)))
    extremes = st.sampled_from([float(dtype(value)) for value in EXTREMES[dtype]])
    return floats | extremes | short | st.integers(-9, 9).map(float)


@st.composite
def any_streams(draw):
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    n_documents, n_features = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    X = draw(hnp.arrays(dtype, (n_documents, n_features), elements=values(dtype), fill=st.nothing()))
    grades = draw(
        st.lists(
            st.integers(0, 5) | st.floats(0, 1e308) | st.sampled_from([5e-324, 0.1, 1e15]),
            min_size=n_documents,
            max_size=n_documents,
        )
    )
    bounds = sorted(draw(st.sets(st.integers(1, n_documents - 1)))) if n_documents > 1 else []
    numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)
    words = WORD.filter(lambda word: not word.removeprefix("-").isdecimal())
    ids = draw(st.lists(draw(st.sampled_from([numbers, words])), min_size=8, max_size=8, unique=True))
    trimmed = LINE.map(str.strip)
    return pr.QueryStream(
        X,
        grades,
        [0, *bounds, n_documents],
        qids=ids[: len(bounds) + 1],
        feature_names=draw(st.none() | st.lists(trimmed, min_size=n_features, max_size=n_features)),
        comments=draw(st.none() | st.lists(trimmed, min_size=n_documents, max_size=n_documents)),
    )


def written(stream, **settings):
    file = io.BytesIO()
    pr.write_letor(stream, file, **settings)
    return file.getvalue()


def read_back(text, stream, **settings):
    has_comments = stream.comments is not None
    return pr.read_letor(io.BytesIO(text), dtype=stream.X.dtype, comments=has_comments, qid="field", **settings)


def small_stream(**settings):
    return pr.QueryStream.from_arrays([[0.5, 0.0], [0.1, 3.0], [1, 2]], [2, 0, 1], qid=[1, 1, 2], **settings)


@kernel
@given(any_streams(), st.booleans())
def test_what_is_written_is_read_back_to_the_bit(stream, zero_based):
    text = written(stream, zero_based=zero_based)
    assert_same(read_back(text, stream, zero_based=zero_based), stream)


@kernel
@given(any_streams(), st.booleans())
def test_sparse_text_is_read_back_to_the_bit(stream, zero_based):
    text = written(stream, sparse=True, zero_based=zero_based)
    assert_same(read_back(text, stream, zero_based=zero_based, n_features=stream.n_features), stream)


@kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_numbers_of_all_sizes(dtype):
    """Floats with random bits, floats with few decimals, neighbours of powers of ten and two."""
    rng = np.random.default_rng(0)
    size = np.dtype(dtype).itemsize
    anything = np.frombuffer(rng.bytes(size * 4000), dtype)
    decimals = np.round(rng.normal(size=4000) * 10.0 ** rng.integers(-8, 9, 4000), 6).astype(dtype)
    powers = np.concatenate([10.0 ** np.arange(-37, 38), 2.0 ** np.arange(-125, 127)]).astype(dtype)
    near = [np.nextafter(powers, dtype(to)) for to in (0, np.inf)]
    values = np.concatenate([anything[np.isfinite(anything)], decimals, powers, *near, EXTREMES[dtype]]).astype(dtype)
    X = values[: len(values) // 5 * 5].reshape(-1, 5)
    stream = pr.QueryStream.from_arrays(X, np.abs(X[:, 0]).astype(float), group=[len(X)])
    assert_same(read_back(written(stream), stream), stream)


@kernel
@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (np.float32, 0.1, "0.1"),
        (np.float64, 0.1, "0.1"),
        (np.float64, 0.1 + 0.2, "0.30000000000000004"),
        (np.float32, 1 / 3, "0.33333334"),
        (np.float64, 5.0, "5"),
        (np.float64, -0.0, "-0"),
        (np.float64, -2.5, "-2.5"),
        (np.float64, 123456.789, "123456.789"),
        (np.float32, 16777216, "16777216"),
        (np.float64, 1e-5, "0.00001"),
    ],
)
def test_as_few_decimals_as_it_takes(dtype, value, text):
    stream = pr.QueryStream.from_arrays(np.array([[value]], dtype), [1])
    assert written(stream) == f"1 qid:0 1:{text}\n".encode()


def test_how_it_looks():
    stream = small_stream(comments=["a b", "", "#c"], feature_names=["tf", "bm 25"])
    assert written(stream).decode() == (
        "#1:tf\n#2:bm 25\n2 qid:1 1:0.5 2:0 # a b\n0 qid:1 1:0.1 2:3\n1 qid:2 1:1 2:2 # #c\n"
    )
    assert written(stream, sparse=True, zero_based=True).decode() == (
        "#0:tf\n#1:bm 25\n2 qid:1 0:0.5 # a b\n0 qid:1 0:0.1 1:3\n1 qid:2 0:1 1:2 # #c\n"
    )


@kernel
@pytest.mark.parametrize("kind", ENDINGS)
def test_endings_choose_the_compression(tmp_path, kind):
    stream = pr.mslr_shaped(20, n_documents=10, n_features=20, seed=3)
    path = tmp_path / f"judged{ENDINGS[kind]}"
    for target in (path, str(path)):
        pr.write_letor(stream, target)
        assert_same(pr.read_letor(target), stream)
    assert path.read_bytes()[:2] == COMPRESS[kind](written(stream))[:2]
    pr.write_letor(stream.blocks(max_bytes=2000), path)
    assert_same(pr.read_letor(path), stream)
    assert os.listdir(tmp_path) == [path.name]


@kernel
def test_more_than_a_buffer(monkeypatch):
    stream = pr.mslr_shaped(30, n_documents=20, n_features=7, seed=1)
    whole = written(stream)
    monkeypatch.setattr("perceptrank.io.letor.writer._BUFFER_BYTES", 1000)
    assert written(stream) == whole
    assert_same(read_back(whole, stream), stream)


@kernel
def test_ids_and_comments_longer_than_lines():
    names = ["x" * 3000, "y" * 5]
    stream = pr.QueryStream.from_arrays(np.eye(2), [0, 1], qid=names, comments=["a", "é" * 4000])
    assert_same(read_back(written(stream), stream), stream)


@pytest.mark.parametrize("qid", [2**62, 10**18, -(10**18), np.iinfo(np.int64).max, np.iinfo(np.int64).min])
def test_the_largest_numbers_stay_numbers(qid):
    stream = pr.QueryStream.from_arrays(np.eye(2), [0, 1], qid=np.array([qid, 1]))
    assert_same(read_back(written(stream), stream), stream)


def failing_blocks(stream, error):
    yield stream
    raise error


@pytest.mark.parametrize("ending", ENDINGS.values())
@pytest.mark.parametrize("there", [True, False])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, ending, there):
    path = tmp_path / f"judged{ending}"
    if there:
        path.write_bytes(b"old")
    stream = small_stream()
    wider = pr.QueryStream.from_arrays(np.eye(3), [0, 1, 0])
    for blocks, error in [
        (failing_blocks(stream, KeyboardInterrupt()), KeyboardInterrupt),
        (failing_blocks(stream, OSError("no")), OSError),
        ([stream, wider], ValueError),
        ([stream, "text"], TypeError),
        ([], ValueError),
        (small_stream(comments=["a", "b\nc", "d"]), ValueError),
    ]:
        with pytest.raises(error):
            pr.write_letor(blocks, path)
        assert os.listdir(tmp_path) == [path.name] * there
        assert not there or path.read_bytes() == b"old"


@pytest.mark.parametrize("qid", ["", "a b", "a#b", "a\tb", "a\nb", "a\rb", "#", "a\0b"])
def test_ids_that_could_not_be_read_back(qid):
    stream = pr.QueryStream.from_arrays(np.eye(2), [0, 1], qid=["x", qid])
    with pytest.raises(ValueError, match="a query id must be text without spaces, zero bytes and '#', got "):
        written(stream)


@pytest.mark.parametrize("comment", ["a\nb", "a\r", "\n", " a", "a ", "\ta", "a\v"])
def test_comments_that_could_not_be_read_back(comment):
    with pytest.raises(ValueError, match="a comment must be one line"):
        written(small_stream(comments=["x", comment, "y"]))


@pytest.mark.parametrize("name", ["a\nb", "a\r", " a", "a\t"])
def test_names_that_could_not_be_read_back(name):
    with pytest.raises(ValueError, match="a feature name must be one line without spaces around it, got "):
        written(small_stream(feature_names=["x", name]))


def test_names_with_blanks_around_them_are_read_without_and_can_be_written():
    stream = pr.read_letor(io.BytesIO(b"#1: bm25 \n#2:\ttf\n1 qid:1 1:1 2:2\n"))
    assert stream.feature_names == ("bm25", "tf")
    assert_same(read_back(written(stream), stream), stream)


def test_queries_of_the_same_id_that_would_become_one():
    with pytest.raises(ValueError, match="0"):
        written([pr.QueryStream.from_arrays(np.eye(2), [0, 1])] * 2)
    with pytest.raises(ValueError, match="0"):
        written(pr.QueryStream.from_arrays(np.eye(2), [0, 1]) + pr.QueryStream.from_arrays(np.eye(2), [0, 1]))


def test_blocks_must_have_the_same_features():
    with pytest.raises(ValueError, match="blocks must have the same features, got 2 and then 3"):
        written([small_stream(), pr.QueryStream.from_arrays(np.eye(3), [0, 1, 0])])
    with pytest.raises(ValueError, match="blocks must have the same features"):
        written([small_stream(), small_stream(feature_names=["a", "b"])])
    with pytest.raises(ValueError, match="no queries"):
        written([])


def test_targets_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        pr.write_letor(small_stream(), tmp_path / "none" / "judged.txt")
    with pytest.raises(OSError, match="not a file"):
        pr.write_letor(small_stream(), tmp_path)


def test_without_the_package_for_zstd(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"pip install 'perceptrank\[zstd\]'"):
        pr.write_letor(small_stream(), tmp_path / "judged.zst")
    assert os.listdir(tmp_path) == []


@kernel
def test_a_simulated_stream_goes_through_text_unchanged(tmp_path):
    stream = pr.mslr_shaped(50, n_documents=30, seed=2)
    assert stream.n_features == 136
    assert set(stream.relevance) <= {0, 1, 2, 3, 4}
    pr.write_letor(stream, tmp_path / "a.txt")
    assert_same(pr.read_letor(tmp_path / "a.txt", n_threads=2), stream)
    pr.write_letor(pr.scan_letor(tmp_path / "a.txt", max_bytes=10_000), tmp_path / "b.txt")
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()


def test_a_raw_file_that_takes_little_at_once():
    class Few(io.RawIOBase):
        taken = b""

        def writable(self):
            return True

        def write(self, data):
            self.taken += bytes(data[:7])
            return len(data[:7])

    file = Few()
    pr.write_letor(small_stream(), file)
    assert file.taken == written(small_stream())
    assert not file.closed


@pytest.mark.parametrize("value", [1e20, 1e-12, 3e15, 1.5e-38, 1e-45, 3.4028235e38])
def test_large_and_small_float32_are_short(value):
    number = np.float32(value)
    text = io.BytesIO()
    pr.write_letor(pr.QueryStream.from_arrays(np.array([[number]]), [1]), text)
    written = text.getvalue().split(b":")[-1].strip()
    assert len(written) <= 14
    assert np.float32(float(written)) == number


NUMBERS = [1.0, -0.5, 1e-30, 3.4e38, 0.1, 123456.789, -1e-7, 16777216.0, 2.0**-149, 1 / 3]


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("buffer_bytes", [1, 1000, 2**22])
def test_sparse_streams_are_read_back_to_the_bit(dtype, buffer_bytes, monkeypatch):
    monkeypatch.setattr("perceptrank.io.letor.writer._BUFFER_BYTES", buffer_bytes)
    rng = np.random.default_rng(1)
    sizes = np.array([3, 0, 7, *rng.integers(0, 9, 96), 1])
    indices = [np.sort(rng.choice(2**31 - 1, size, replace=False)) for size in sizes[:-1]]
    values = rng.choice(NUMBERS, sizes.sum()).astype(dtype)
    X = pr.SparseFeatures(values, np.concatenate([*indices, [2**31 - 2]]), [0, *np.cumsum(sizes)], 2**31 - 1)
    comments = [f"document {i}" if i % 3 else "" for i in range(100)]
    stream = pr.QueryStream.from_arrays(X, rng.random(100), group=[5] * 20, comments=comments)
    text = io.BytesIO()
    pr.write_letor(stream, text)
    assert text.getvalue().count(b":") == sizes.sum() + 100
    text.seek(0)
    assert_same(pr.read_letor(text, sparse=True, dtype=dtype, comments=True), stream)
    for part in (stream[3:9], stream[1:2]):  # whose values are in the middle of arrays
        pr.write_letor(part, text := io.BytesIO())
        text.seek(0)
        found = pr.read_letor(text, n_features=2**31 - 1, dtype=dtype, comments=True)
        assert_same(found, part)


def test_zeros_among_the_non_zeros_are_not_written():
    X = pr.SparseFeatures([0.0, 2.0, -0.0], [1, 3, 5], [0, 2, 3], 6)
    pr.write_letor(pr.QueryStream.from_arrays(X, [1, 0]), text := io.BytesIO(), zero_based=True)
    assert text.getvalue() == b"1 qid:0 3:2\n0 qid:0\n"


def test_a_sparse_value_that_is_not_finite_is_named():
    X = pr.SparseFeatures([1.0, np.inf], [1, 70], [0, 0, 2], 99)
    stream = pr.QueryStream._trusted(X, np.array([0, 2]), {"relevance": np.zeros(2)}, {"qid": np.arange(1)})
    with pytest.raises(ValueError, match="X must be finite, got inf at document 1, feature 70"):
        pr.write_letor(stream, io.BytesIO())
