"""Reading LETOR text into sparse features; that they are those of dense reading is tested with the twin."""

import io
import time

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.io import text as text_module

kernel = pytest.mark.kernel


def read(text, **settings):
    return pr.read_letor(io.BytesIO(text), **settings)


def scanned(text, **settings):
    return pr.QueryStream.concatenate(pr.scan_letor(io.BytesIO(text), **settings))


def lines(n_nonzeros, n_features, n=40):
    """Documents of so many features, of which each has so many."""
    ids = range(n_features - n_nonzeros + 1, n_features + 1)
    return (b"1 qid:1 " + b" ".join(b"%d:2" % one for one in ids) + b"\n") * n


@kernel
@pytest.mark.parametrize("start", [read, scanned])
def test_few_values_of_many_features_are_sparse(start):
    assert start(lines(124, 1001)).is_sparse
    assert start(lines(125, 1001)).is_sparse  # 125.1 is an eighth
    assert not start(lines(126, 1001)).is_sparse
    assert not start(lines(1, 1000)).is_sparse
    assert start(lines(1, 50), n_features=1001).is_sparse
    assert not start(lines(1, 50)).is_sparse
    assert start(lines(1, 50), sparse=True).is_sparse
    assert not start(lines(1, 5000), sparse=False).is_sparse
    assert start(b"# no document\n" * 9 + b"#1200:name\n" + lines(1, 50)).is_sparse


@pytest.mark.parametrize("start", [read, scanned])
def test_values_that_are_zero_decide_as_if_they_were_not_there(start):
    zeros = b"1 qid:1 " + b" ".join(b"%d:0" % one for one in range(1, 2000)) + b" 2000:1\n"
    assert start(zeros * 3).X.n_nonzeros == 3


def test_the_choice_is_the_same_for_all_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(text_module, "_CHUNK_BYTES", 4096)
    text = b"".join(b"1 qid:%d 2000:1\n" % i for i in range(600))
    text += b"".join(b"1 qid:%d " % i + b" ".join(b"%d:1" % k for k in range(1, 2500)) + b"\n" for i in range(600, 620))
    (tmp_path / "judged.txt").write_bytes(text)
    blocks = list(pr.scan_letor(tmp_path / "judged.txt", max_bytes=2000))
    assert len(blocks) > 5
    assert all(block.is_sparse and block.n_features == 2499 for block in blocks)
    assert sum(block.X.n_nonzeros for block in blocks) == 600 + 20 * 2499


@kernel
def test_a_block_ends_with_the_last_query_that_is_whole():
    text = b"".join(b"1 qid:%d 1:1 2:1 900000:1\n" % (i // 4) for i in range(4000))
    blocks = list(pr.scan_letor(io.BytesIO(text), max_bytes=10_000))
    assert [len(blocks[0]), sum(map(len, blocks))] == [999, 1000]  # the text is one chunk, all of it one piece
    whole = read(text)
    for block, expected in zip(blocks, [whole[:999], whole[999:]], strict=True):
        assert block.X == expected.X


@kernel
@pytest.mark.parametrize("start", [read, scanned])
def test_ids_up_to_ten_digits(start):
    text = b"1 qid:1 3:1 99999999:2 100000000:3 2147483647:4\n0 qid:1 2147483647:6 0000000004:5 "
    stream = start(text, sparse=True)
    assert stream.X.shape == (2, 2**31 - 1)
    assert stream.X.indices.tolist() == [2, 10**8 - 2, 10**8 - 1, 2**31 - 2, 3, 2**31 - 2]
    assert stream.X.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert start(text, n_features=2**31 - 1).X == stream.X
    assert start(b"1 qid:1 0:1\n", sparse=True, zero_based=True, n_features=2**31 - 1).X.indices.tolist() == [0]


@kernel
@pytest.mark.parametrize(
    ("line", "settings", "problem"),
    [
        ("2147483648:1", {}, ":1:9: feature id too large: ids go from 1 to 2147483647, got '2147483648:1'"),
        ("12345678901:1", {}, ":1:9: feature id too large: ids go from 1 to 2147483647, got '12345678901:1'"),
        ("9:1", {"n_features": 8}, ":1:9: feature id too large: with `n_features=8` ids go from 1 to 8, got '9:1'"),
        ("0:1", {}, ":1:9: feature ids count from 1, got '0:1'"),
        ("5:1 3:1 5:2 x", {}, ":1:17: a feature must occur once in a line, got '5:2' again"),
        ("5:0 5:x", {}, ":1:13: a feature must occur once in a line, got '5:x' again"),
        ("5:1 5000000:1 3:0 5000000:x", {}, ":1:27: a feature must occur once in a line, got '5000000:x' again"),
        ("5:1 3:1 x:2 5:2", {}, ":1:17: expected feature:value, got 'x:2'"),
        ("5:1 3:1/2 5:2", {}, ":1:15: expected a number, got '1/2'"),
        ("5:1 3:1-2 5:2", {}, ":1:15: expected a number, got '1-2'"),
        ("5:1 3:1:2 5:2", {}, ":1:15: expected a number, got '1:2'"),
        ("5:1 6:1e39 7:2", {}, ":1:15: a value must fit into float32, got '1e39'"),
    ],
)
def test_errors_say_what_is_wrong_where(line, settings, problem):
    text = f"1 qid:1 {line}\n".encode()
    for start in (read, scanned):
        with pytest.raises(pr.FormatError) as error:
            start(text, sparse=True, **settings)
        assert problem in str(error.value)
        with pytest.warns(UserWarning, match="skipped 1 invalid"):
            kept = start(text + b"1 qid:1 4:1 2:3\n", sparse=True, on_error="skip", **settings)
        assert kept.X.toarray()[:, :4].tolist() == [[0, 3, 0, 1]]


def test_settings_are_checked():
    with pytest.raises(ValueError, match="n_features must be at most 2147483647, got 2147483648"):
        read(b"1 qid:1 1:1\n", n_features=2**31)
    with pytest.raises(ValueError, match="n_features must be at most 99999999, got 100000000"):
        read(b"1 qid:1 1:1\n", n_features=10**8, sparse=False)
    with pytest.raises(ValueError, match="sparse must be True, False or None, got 'yes'"):
        read(b"1 qid:1 1:1\n", sparse="yes")


@pytest.mark.parametrize("start", [read, scanned])
def test_names_do_not_take_the_memory_that_features_do_not(start):
    text = b"#7:seven\n1 qid:1 7:1 2000000000:1\n"
    with pytest.raises(
        pr.FormatError, match=r"^<stream>:1:1: of 2000000000 features none can be named, only of up to 1048576"
    ):
        start(text, sparse=True)
    assert start(b"#7:seven\n1 qid:1 9000:1\n").feature_names[5:8] == ("6", "seven", "8")


@kernel
def test_long_lines_of_falling_ids_take_no_quadratic_time():
    n = 300_000
    text = b"1 qid:1 " + b" ".join(b"%d:%d" % (k, k % 9 + 1) for k in range(n, 0, -1)) + b"\n"
    read(b"1 qid:1 2:1 1:1\n", sparse=True)
    begin = time.process_time()
    X = read(text, sparse=True).X
    assert time.process_time() - begin < 2
    np.testing.assert_array_equal(X.indices, np.arange(n))
    np.testing.assert_array_equal(X.values, np.arange(1, n + 1) % 9 + 1)
    begin = time.process_time()
    with pytest.raises(
        pr.FormatError, match=f":1:{len(text) + 1}: a feature must occur once in a line, got '7:1' again"
    ):
        read(text[:-1] + b" 7:1\n", sparse=True)
    assert time.process_time() - begin < 2


def test_documents_of_a_query_are_brought_together():
    stream = read(b"1 qid:a 9:1\n2 qid:b 8:2\n3 qid:a 7:3\n4 qid:b 6:4\n", sparse=True)
    assert stream.qids.tolist() == ["a", "b"]
    assert stream.relevance.tolist() == [1, 3, 2, 4]
    assert stream.X.toarray()[:, 5:].tolist() == [[0, 0, 0, 1], [0, 3, 0, 0], [0, 0, 2, 0], [4, 0, 0, 0]]
    grouped = read(b"1 9:1\n2 8:2\n3 7:3\n", sparse=True, group=[1, 2])
    assert [query.X.shape for query in grouped] == [(1, 9), (2, 9)]
