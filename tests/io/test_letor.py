"""Reading LETOR text: every dialect and every mistake, against a slow twin."""

import gzip
import io
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import letor_cases, letor_twin, real_streams
from support.comparing import assert_same
from support.letor_cases import COMPRESS

import perceptrank as pr
from perceptrank.io import block_assembly
from perceptrank.io import text as text_module
from perceptrank.io.letor import settings as letor_settings
from perceptrank.stream import memory

kernel = pytest.mark.kernel

RANDOM = st.randoms(use_true_random=False)
CHUNK_BYTES = st.sampled_from([16, 64, 200, 2**20])


def read(text, **settings):
    return pr.read_letor(io.BytesIO(text.encode() if isinstance(text, str) else text), **settings)


def scanned(text, **settings):
    return list(pr.scan_letor(io.BytesIO(text.encode() if isinstance(text, str) else text), **settings))


@pytest.fixture
def tiny_chunks(monkeypatch):
    monkeypatch.setattr(text_module, "_CHUNK_BYTES", 64)


@kernel
@given(RANDOM, CHUNK_BYTES, st.sampled_from([1, 2, 3]))
def test_every_dialect_is_read_as_the_twin_reads_it(rng, chunk_bytes, n_threads):
    text, settings = letor_cases.random_case(rng)
    with letor_cases.small_limits(chunk_bytes):
        assert letor_cases.disagreement(text, settings, n_threads=n_threads) is None, text


@kernel
@given(RANDOM, CHUNK_BYTES, st.sampled_from([1, 2, 3]), st.booleans())
def test_what_is_wrong_is_found_where_the_twin_finds_it(rng, chunk_bytes, n_threads, skip):
    text, settings = letor_cases.random_case(rng)
    with letor_cases.small_limits(chunk_bytes):
        found = letor_cases.disagreement(letor_cases.mutated(rng, text), settings, n_threads=n_threads, skip=skip)
    assert found is None


@kernel
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in range(200, 5000, 1200))])
def test_fuzz(first):
    for seed in range(first, first + 1200 if first else 200):
        text, settings, how, found = letor_cases.run_case(seed)
        assert found is None, f"seed {seed}: {found}\n{text!r}\n{settings}\n{how}"


@kernel
@given(RANDOM, CHUNK_BYTES, st.sampled_from([1, 2, 3]), st.sampled_from([1, 60, 500, 2**24]))
def test_a_scan_is_the_stream_in_blocks(rng, chunk_bytes, n_threads, max_bytes):
    text, settings = letor_cases.random_case(rng)
    with letor_cases.small_limits(chunk_bytes):
        twin = letor_cases.expected(text, settings)
        settings["n_features"] = twin.X.shape[1]
        scan = pr.scan_letor(io.BytesIO(text), comments=True, n_threads=n_threads, max_bytes=max_bytes, **settings)
        if twin.again is not None:
            with pytest.raises(pr.FormatError, match="read_letor") as caught:
                list(scan)
            assert (caught.value.line, caught.value.column) == (twin.again, 1)
            return
        blocks = list(scan)
    stream = pr.QueryStream.concatenate(blocks)
    assert (stream.to_dense().X + 0.0).tobytes() == (twin.X + 0.0).tobytes()
    assert settings["sparse"] is None or stream.is_sparse == settings["sparse"]
    assert stream.relevance.tolist() == twin.relevance
    assert stream.offsets.tolist() == twin.offsets
    assert [str(qid) for qid in stream.qids] == [str(qid) for qid in twin.qids]
    assert stream.comments.tolist() == twin.comments
    assert stream.feature_names == twin.feature_names
    if max_bytes == 2**24:
        assert len(blocks) == 1


@kernel
def test_a_line_with_everything():
    text = "#1:bm25\n# a remark\n\n2 qid:10 1:0.5 3:-1e-7 # docid = GX001 \r\n+1\tqid:10\t3:2 1:1\n0.5 qid:x#"
    stream = read(text, comments=True)
    np.testing.assert_array_equal(stream.X, np.array([[0.5, 0, -1e-7], [1, 0, 2], [0, 0, 0]], np.float32))
    np.testing.assert_array_equal(stream.relevance, [2, 1, 0.5])
    assert stream.offsets.tolist() == [0, 2, 3]
    assert stream.qids.tolist() == ["10", "x"]
    assert stream.comments.tolist() == ["docid = GX001", "", ""]
    assert stream.feature_names == ("bm25", "2", "3")
    assert read(text).comments is None


@kernel
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_bare", [1, 2, 50])
@pytest.mark.parametrize("tail", ["", "1 qid:99 3:1\n"])
def test_documents_without_features_keep_their_grades(tiny_chunks, n_bare, tail, n_threads):
    text = "".join(f"{i % 5} qid:{i // 3}\n" for i in range(n_bare)) + tail
    for read_them in (read, lambda text, **settings: pr.QueryStream.concatenate(scanned(text, **settings))):
        stream = read_them(text, n_threads=n_threads, n_features=3)
        assert stream.relevance.tolist() == [i % 5 for i in range(n_bare)] + [1] * bool(tail)
    stream = read(text, n_threads=n_threads)
    assert stream.relevance.tolist() == [i % 5 for i in range(n_bare)] + [1] * bool(tail)
    assert stream.X.shape == (n_bare + bool(tail), 3 if tail else 1)
    assert stream.X.sum() == bool(tail)


@kernel
@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("ordered", [True, False])
def test_later_lines_may_have_larger_ids(tiny_chunks, n_threads, ordered):
    widths = [1, 2, 9, 10, 11, 98, 99, 100, 101, 7, 999, 1000, 1001, 9999, 10000, 10001, 3]
    lines = []
    for i, width in enumerate(widths):
        ids = sorted({1, max(1, width // 2), width}, reverse=not ordered)
        lines += [f"{i} qid:{i} " + " ".join(f"{one}:{one / 8}" for one in ids)] * 2
    text = "\n".join(lines).encode()
    assert letor_cases.disagreement(text, {}, n_threads=n_threads) is None


@kernel
@pytest.mark.parametrize("last", [9, 10, 11, 99, 100, 101, 10**6 - 1, 10**6, 10**6 + 1, 2**20])
@pytest.mark.parametrize("zero_based", [False, True])
def test_ids_around_powers_of_ten(last, zero_based):
    ids = [last - 3, last - 2, last - 1]
    text = f"1 qid:1 {ids[0]}:1 {ids[1]}:2 {ids[2]}:3\n0 qid:1 {ids[2]}:6 {ids[0]}:4 {ids[1]}:5 "
    stream = read(text, zero_based=zero_based, sparse=False)
    width = ids[-1] + zero_based
    assert stream.X.shape == (2, width)
    np.testing.assert_array_equal(stream.X[:, width - 3 :], [[1, 2, 3], [4, 5, 6]])
    assert not stream.X[:, : width - 3].any()


@kernel
def test_dense_lines_through_all_lengths_of_ids():
    n = 1200
    line = "1 qid:1 " + " ".join(f"{k}:{k}" for k in range(1, n + 1))
    X = read(f"{line}\n{line} \n").X
    np.testing.assert_array_equal(X, [np.arange(1, n + 1)] * 2)
    line = "1 qid:1 " + " ".join(f"{k}:{k}" for k in range(n))
    np.testing.assert_array_equal(read(line, zero_based=True).X, [np.arange(n)])


@kernel
def test_a_line_longer_than_a_chunk(tiny_chunks):
    text = "1 qid:1 1:2\n0 qid:1 " + " ".join(f"{k}:{k}.5" for k in range(1, 5000)) + "# end\n2 qid:2 4999:1"
    for n_threads in (1, 2):
        assert letor_cases.disagreement(text.encode(), {}, n_threads=n_threads) is None


def test_a_line_that_is_too_long(tiny_chunks, monkeypatch):
    monkeypatch.setattr(text_module, "LONGEST_LINE", 1024)
    text = "1 qid:1 1:1\n1 qid:1 # " + "x" * 5000
    with pytest.raises(pr.FormatError, match=r"^<stream>:2:1: a line longer than"):
        read(text)


@kernel
@pytest.mark.parametrize("length", range(56, 72))
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_texts_that_just_fill_a_chunk(tiny_chunks, length, end):
    line = "1 qid:1 1:2 # "
    text = line + "x" * (length - len(line)) + end
    assert letor_cases.disagreement(text.encode(), {}) is None
    assert letor_cases.disagreement(text.encode() * 2, {}, n_threads=2) is None


@kernel
def test_queries_that_are_not_adjacent_are_brought_together(tiny_chunks):
    lines = [f"{i % 3} qid:{'abcab'[i % 5]} 1:{i} # {i}" for i in range(40)]
    stream = read("\n".join(lines), comments=True, n_threads=2)
    assert stream.qids.tolist() == ["a", "b", "c"]
    rows = [i for query in "abc" for i in range(40) if "abcab"[i % 5] == query]
    assert stream.X[:, 0].tolist() == rows
    assert stream.comments.tolist() == [str(i) for i in rows]
    with pytest.raises(pr.FormatError, match=r"^<stream>:4:1: the documents of query 'a' are not adjacent; `read"):
        scanned("\n".join(lines))


@kernel
def test_ids_are_numbers_only_if_all_are():
    assert read("1 qid:1 1:1\n1 qid:-20 1:1\n1 qid:0 1:1").qids.tolist() == [1, -20, 0]
    assert read(f"1 qid:{2**63 - 1} 1:1\n1 qid:{-(2**63)} 1:1").qids.tolist() == [2**63 - 1, -(2**63)]
    assert read(f"1 qid:{2**63} 1:1\n1 qid:1 1:1").qids.tolist() == [str(2**63), "1"]
    assert read("1 qid:1 1:1\n1 qid:01 1:1\n1 qid:-0 1:1").qids.tolist() == ["1", "01", "-0"]
    assert read("1 qid:a:b 1:1\n1 qid:é 1:1\n1 qid:qid: 1:1").qids.tolist() == ["a:b", "é", "qid:"]
    assert read("1 qid:1.0 1:1\n1 qid:1 1:1\n1 qid:+1 1:1").qids.tolist() == ["1.0", "1", "+1"]
    assert read(b"1 qid:\xe9 1:1").qids.tolist() == ["é"]


@kernel
def test_ids_in_comments():
    text = "1 1:0.5 2:1 # 7\n0 1:0.25 # 7\n0 #8\n"
    stream = read(text, comments=True)
    assert stream.qids.tolist() == [7, 8]
    assert stream.comments.tolist() == ["7", "7", "8"]
    assert_same(read(text, qid="comment", comments=True), stream)
    with pytest.raises(pr.FormatError, match=r"^<stream>:1:3: expected qid:ID after the grade, got '1:0\.5'"):
        read(text, qid="field")


@kernel
def test_each_file_has_its_own_place_for_ids(tmp_path):
    (tmp_path / "a").write_text("1 qid:1 1:1 # x\n")
    (tmp_path / "b").write_text("1 1:2 # 1\n1 1:3 # 2\n")
    stream = pr.read_letor([tmp_path / "a", tmp_path / "b"])
    assert stream.qids.tolist() == [1, 2]
    assert stream.X[:, 0].tolist() == [1, 2, 3]


@kernel
@pytest.mark.parametrize("blank", [" ", "\t", "\v", "\f", "\r", "  \t "])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n\n", "\n \r\n", "\n#1:x\n"])
def test_blanks_and_line_ends(blank, newline):
    lines = [blank.join(fields) for fields in (["2", "qid:3", "1:4", "2:5"], ["", "1", "qid:3", "2:6", ""])]
    stream = read(newline.join(lines) + newline)
    np.testing.assert_array_equal(stream.X, [[4, 5], [0, 6]])
    assert stream.qids.tolist() == [3]


@kernel
def test_a_byte_order_mark():
    stream = read(b"\xef\xbb\xbf2 qid:1 1:1\n")
    assert stream.relevance.tolist() == [2]
    with pytest.raises(pr.FormatError, match=r"^<stream>:1:3: "):
        read(b"\xef\xbb\xbf2 x:1\n")
    with pytest.raises(pr.FormatError, match=r"^<stream>:2:1: "):
        read(b"2 qid:1\n\xef\xbb\xbf2 qid:1 1:1\n")
    assert read(b"\xef\xbb\xbf#1:name\n2 qid:1 1:1\n").feature_names == ("name",)
    with pytest.raises(ValueError, match="no documents"):
        read(b"\xef\xbb\xbf")


@kernel
def test_clip_and_dtype():
    text = "0 qid:1 1:5 2:-5 3:1e300 4:-0.5\n"
    np.testing.assert_array_equal(read(text, clip=2).X, np.array([[2, -2, 2, -0.5]], np.float32))
    assert read(text, dtype="float64").X[0, 2] == 1e300
    for dtype in (np.float16, np.int64, object):
        with pytest.raises(ValueError, match="dtype must be float32 or float64"):
            read(text, dtype=dtype)


def test_feature_names():
    text = "#2:tf idf\n#1:bm25\n#4:\n1 qid:1 1:1\n#3:late\n"
    assert read(text).feature_names == ("bm25", "tf idf", "3", "")
    assert read(text).n_features == 4
    assert read(text, n_features=5).feature_names == ("bm25", "tf idf", "3", "", "5")
    assert scanned(text)[0].feature_names == ("bm25", "tf idf", "3", "")
    assert read("#0:a\n1 qid:1 1:1", zero_based=True).feature_names == ("a", "1")
    assert read("1 qid:1 1:1\n#1:x\n").feature_names is None


def test_names_in_several_files(tmp_path):
    (tmp_path / "a").write_text("#1:x\n1 qid:1 1:1\n")
    (tmp_path / "b").write_text("#1:x\n#2:y\n1 qid:2 2:1\n")
    assert pr.read_letor(tmp_path).feature_names == ("x", "y")
    (tmp_path / "c").write_text("\n#2:z\n1 qid:3 2:1\n")
    with pytest.raises(pr.FormatError, match=r"c:2:1: feature 2 is named 'z', and was named 'y'"):
        pr.read_letor(tmp_path)


WRONG = {
    "no number as grade": ("x qid:1 1:1", {}, 1, 1, "expected a grade, got 'x'"),
    "a grade that goes on": ("1x qid:1 1:1", {}, 1, 1, "expected a grade, got '1x'"),
    "nan as grade": ("  nan qid:1 1:1", {}, 1, 3, "a grade must be finite, got 'nan'"),
    "infinite grade": ("1 qid:1 1:1\n-inf qid:1 1:1", {}, 2, 1, "a grade must be finite, got '-inf'"),
    "grade too large": ("1e999 qid:1 1:1", {}, 1, 1, "a grade must be finite, got '1e999'"),
    "negative grade": ("1 qid:1 1:1\n\n-1 qid:1 1:1", {}, 3, 1, "a grade must not be negative, got '-1'"),
    "no query": ("1 1:1 2:2", {}, 1, 3, "expected qid:ID after the grade, got '1:1'"),
    "only a grade": ("1", {}, 1, 2, "expected qid:ID after the grade, got nothing"),
    "only a grade and blanks": ("1 \t", {}, 1, 4, "expected qid:ID after the grade, got nothing"),
    "empty id": ("1 qid: 1:1", {}, 1, 3, "expected an id after 'qid:', got 'qid:'"),
    "empty id and comment": ("1 qid:# 1", {}, 1, 3, "expected an id after 'qid:', got 'qid:'"),
    "id twice": ("1 qid:1 1:1 qid:1", {}, 1, 13, "qid: must come right after the grade and once, got 'qid:1'"),
    "id late": ("1 qid:2\n1 1:1 qid:1", {}, 2, 3, "expected qid:ID after the grade, got '1:1'"),
    "id in both places": ("1 1:1 # 7\n1 qid:1 1:1 # 7", {}, 2, 3, "unexpected field 'qid:1': comments name"),
    "no id in a comment": ("1 1:1 # 7\n1 1:1 #  ", {}, 2, 10, "expected a comment that names the query, got nothing"),
    "no comment": ("1 1:1 # 7\n1 1:1", {}, 2, 6, "expected a comment that names the query, got nothing"),
    "zero byte in an id": (
        b"1 qid:a 1:1\n1 qid:a\0 1:1",
        {},
        2,
        3,
        "a query id must not have a zero byte, got 'qid:a\\x00'",
    ),
    "zero byte in a comment": (b"1 1:1 # 7\n1 1:1 #  7\0", {}, 2, 10, "a query id must not have a zero byte"),
    "no colon": ("1 qid:1 1:1 5", {}, 1, 13, "expected feature:value, got '5'"),
    "no id of a feature": ("1 qid:1 :1", {}, 1, 9, "expected feature:value, got ':1'"),
    "text as feature": ("1 qid:1 bm25:1", {}, 1, 9, "expected feature:value, got 'bm25:1'"),
    "negative feature": ("1 qid:1 -1:1", {}, 1, 9, "expected feature:value, got '-1:1'"),
    "no value": ("1 qid:1 1:", {}, 1, 11, "expected a number, got nothing"),
    "a blank before the value": ("1 qid:1 1: 5", {}, 1, 11, "expected a number, got nothing"),
    "text as value": ("1 qid:1 1:1 2:abc 3:1", {}, 1, 15, "expected a number, got 'abc'"),
    "two points": ("1 qid:1 1:1.2.3 2:1", {}, 1, 11, "expected a number, got '1.2.3'"),
    "two signs": ("1 qid:1 1:--1 2:1", {}, 1, 11, "expected a number, got '--1'"),
    "two colons": ("1 qid:1 1:2:3", {}, 1, 11, "expected a number, got '2:3'"),
    "hexadecimal": ("1 qid:1 1:0x10", {}, 1, 11, "expected a number, got '0x10'"),
    "underscore": ("1 qid:1 1:1_000", {}, 1, 11, "expected a number, got '1_000'"),
    "nan": ("1 qid:1 1:nan", {}, 1, 11, "a value must be finite, got 'nan'"),
    "inf": ("1 qid:1 1:1 12:-Infinity", {}, 1, 16, "a value must be finite, got '-Infinity'"),
    "too large": ("1 qid:1 1:1e39", {}, 1, 11, "must fit into float32, got '1e39'; `dtype='float64'` keeps it, `clip="),
    "too large for 64 bits": (
        "1 qid:1 1:1e309",
        {"dtype": "f8"},
        1,
        11,
        "must fit into float64, got '1e309'; `clip=",
    ),
    "feature 0": (
        "1 qid:1 1:1\n1 qid:1 0:1",
        {},
        2,
        9,
        "ids count from 1, got '0:1'; if they count from 0 here, use `z",
    ),
    "twice": ("1 qid:1 1:1 2:1 1:1", {}, 1, 17, "a feature must occur once in a line, got '1:1' again"),
    "twice in a row": ("1 qid:1 1:1 2:1 2:1", {}, 1, 17, "a feature must occur once in a line, got '2:1' again"),
    "twice in another form": ("1 qid:1 1:1 01:2", {}, 1, 13, "a feature must occur once in a line, got '01:2' again"),
    "beyond": ("1 qid:1 1:1 3:1", {"n_features": 2}, 1, 13, "with `n_features=2` ids go from 1 to 2, got '3:1'"),
    "beyond from 0": ("1 qid:1 2:1", {"n_features": 2, "zero_based": True}, 1, 9, "ids go from 0 to 1, got '2:1'"),
    "undeclared": ("1 qid:1 1048577:1", {}, 1, 9, "ids above 1048576 must be declared with `n_features`, got '1048577"),
    "huge": ("1 qid:1 99999999999:1", {}, 1, 9, "99999999999:1"),
    "very huge": (f"1 qid:1 {'9' * 30}:1", {}, 1, 9, "9" * 30),
    "long": (f"1 qid:1 1:{'x' * 90}", {}, 1, 11, f"expected a number, got '{'x' * 40}…'"),
    "bytes": (b"1 qid:1 1:\xff\xfe\0", {}, 1, 11, "expected a number, got 'ÿþ\\x00'"),
    "two names": ("#1:x\n#1:y\n1 qid:1 1:1", {}, 2, 1, "feature 1 is named 'y', and was named 'x'"),
    "empty": ("", {}, 1, 1, "the file is empty"),
    "the first of two": ("1 qid:1 1:x 0:1 y\nz", {}, 1, 11, "expected a number, got 'x'"),
}


@kernel
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("case", WRONG)
def test_errors_say_what_is_wrong_where(tmp_path, case, n_threads):
    text, settings, line, column, problem = WRONG[case]
    path = tmp_path / "judged.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for start in (pr.read_letor, lambda *args, **named: list(pr.scan_letor(*args, **named))):
        with pytest.raises(pr.FormatError) as caught:
            start(path, n_threads=n_threads, **settings)
        error = caught.value
        assert isinstance(error, ValueError)
        assert (error.path, error.line, error.column) == (str(path), line, column)
        assert problem in error.problem
        assert str(error) == f"{path}:{line}:{column}: {error.problem}"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.path, copy.line, copy.column) == (str(error), error.path, line, column)


@kernel
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_first_error_is_reported_whoever_finds_one_first(tiny_chunks, n_threads):
    """The first chunks have to be read again, as they are too narrow; the later ones do not."""
    text = "1 qid:1 1:1\n" * 20 + "1 qid:1 50:1\n1 qid:1 50:1 7:x\n" + "1 qid:1 1:1\n" * 6 + "y\n" * 50
    with pytest.raises(pr.FormatError, match=r"^<stream>:22:16: "):
        read(text, n_threads=n_threads)


@kernel
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_errors_in_text_come_before_damage_after_it(tiny_chunks, n_threads):
    data = b"1 qid:1 1:1\n" * 5 + b"1 qid:1 1:x\n" + b"1 qid:1 1:1\n" * 30
    data = gzip.compress(data[:200]) + gzip.compress(data[200:])[:-9]
    with pytest.raises(pr.FormatError, match=r"^<stream>:6:11: "):
        read(data, n_threads=n_threads)


@kernel
@pytest.mark.parametrize("n_threads", [1, 2])
def test_wrong_lines_are_skipped_and_counted(tiny_chunks, n_threads):
    lines = [f"{i % 3} qid:{i // 4} 1:{i}" for i in range(40)]
    wrong = {3: "x", 4: "1 qid:1 1:nan", 11: "-1 qid:2 1:1", 12: "1 qid:", 20: "1 qid:9 0:1", 39: "1 qid:9 1:1 1:1"}
    for i, line in wrong.items():
        lines[i] = line
    text = "\n".join(lines)
    message = "skipped 6 invalid lines or files:\n<stream>:4:1: expected a grade, got 'x'\n"
    with pytest.warns(UserWarning, match=re.escape(message) + r"(<stream>:.*\n){4}… and 1 more$"):
        stream = read(text, on_error="skip", n_threads=n_threads)
    assert stream.X[:, 0].tolist() == [i for i in range(40) if i not in wrong]
    with pytest.warns(UserWarning, match="skipped 6 "):
        blocks = scanned(text, on_error="skip", n_threads=n_threads)
    assert_same(pr.QueryStream.concatenate(blocks), stream)
    errors = []
    assert_same(read(text, on_error=errors.append, n_threads=n_threads), stream)
    assert [(error.line, error.column) for error in errors] == [(4, 1), (5, 11), (12, 1), (13, 3), (21, 9), (40, 13)]
    errors.clear()
    scanned(text, on_error=errors.append)
    assert [error.line for error in errors] == [i + 1 for i in wrong]


@kernel
@pytest.mark.parametrize("wrong", ["1 qid:1 9:x", "1 qid:1 9:1 8:1 7:x", "1 qid:1 9:1 9:1", "1 qid:1 9:1 8:1 0:1"])
@pytest.mark.parametrize("first", [True, False])
def test_a_skipped_line_leaves_no_trace(tmp_path, wrong, first):
    lines = [wrong, "1 qid:2 3:1 1:1"] if first else ["1 qid:2 3:1 1:1", wrong]
    path = tmp_path / "judged.txt"
    path.write_text("\n".join(lines))
    for start in (pr.read_letor, lambda *args, **named: pr.QueryStream.concatenate(pr.scan_letor(*args, **named))):
        stream = start(path, on_error=lambda error: None)
        np.testing.assert_array_equal(stream.X, [[1, 0, 1]])
        assert stream.qids.tolist() == [2]


def test_an_error_of_the_callers_own_ends_the_reading():
    class OwnError(Exception):
        pass

    def refuse(error):
        raise OwnError(str(error))

    with pytest.raises(OwnError, match=r"^<stream>:1:1: "):
        read("x\n", on_error=refuse, n_threads=2)


def test_nothing_is_left():
    for text in ("\n", "# only\n\n#1:x\n", " \r\n"):
        with pytest.raises(ValueError, match="there are no documents in <stream>"):
            read(text)
        with pytest.raises(ValueError, match="there are no documents in <stream>"):
            scanned(text)
    with pytest.warns(UserWarning, match="skipped 1 "), pytest.raises(ValueError, match="no documents"):
        read("x\n", on_error="skip")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"n_features": 0}, "n_features must be"),
        ({"n_features": 2.5}, "n_features must be"),
        ({"qid": "id"}, "qid must be one of 'auto', 'field', 'comment', got 'id'"),
        ({"clip": 0}, "clip must be"),
        ({"clip": np.nan}, "clip must be"),
        ({"on_error": "ignore"}, "on_error must be 'raise', 'skip' or a callable, got 'ignore'"),
        ({"n_threads": 0}, "n_threads must be"),
    ],
)
def test_settings_are_checked(settings, problem):
    for start in (read, scanned):
        with pytest.raises(ValueError, match=re.escape(problem)):
            start("1 qid:1 1:1\n", **settings)
    with pytest.raises(ValueError, match="max_bytes must be"):
        scanned("1 qid:1 1:1\n", max_bytes=0)


@pytest.fixture(scope="module")
def some_text():
    rng = np.random.default_rng(0)
    lines = [f"{i % 5} qid:{i // 7} 1:{rng.normal():.6f} 2:{rng.integers(100)} # {i}\n" for i in range(400)]
    return "".join(lines).encode()


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("n_threads", [2, pytest.param(1, marks=pytest.mark.deep)])
def test_compressed_files(tiny_chunks, tmp_path, some_text, kind, n_threads):
    """By content, not by name; one after the other; with zeros after them."""
    plain = read(some_text, comments=True)
    path = tmp_path / "judged"
    compress = COMPRESS[kind]
    cut = some_text.index(b"\n", 5000) - 3
    several = compress(some_text[:cut]) + compress(b"") + compress(some_text[cut:])
    padded = compress(some_text) + (b"" if kind == "plain" else bytes(8))
    for data in (compress(some_text), several, padded):
        path.write_bytes(data)
        assert_same(pr.read_letor(path, comments=True, n_threads=n_threads), plain)
        scan = pr.scan_letor(path, comments=True, n_threads=n_threads, max_bytes=300)
        assert_same(pr.QueryStream.concatenate(scan), plain)
        assert len(list(scan)) > 3


@pytest.mark.parametrize("kind", [kind for kind in COMPRESS if kind != "plain"])
def test_truncated_and_damaged_compression(some_text, kind):
    data = COMPRESS[kind](some_text)
    whole = read(some_text)
    for length in [*range(30), *range(30, len(data), len(data) // 20), *range(len(data) - 30, len(data))]:
        with pytest.raises(pr.FormatError):
            read(data[:length])
    for length in (len(data) // 2, len(data) - 1):
        with pytest.raises(pr.FormatError, match=f"^<stream>:1:1: the {kind} data is damaged: it is truncated"):
            read(data[:length], on_error="skip")
        with pytest.raises(pr.FormatError, match=f"the {kind} data is damaged"):
            scanned(data[:length])
    for garbage in (b"x", b"1 qid:1 1:1\n", b"\0\0\0\0garbage", data[:20]):
        with pytest.raises(pr.FormatError, match=f"the {kind} data is damaged"):
            read(data + garbage)
    rng = random.Random(0)
    for _ in range(60):
        broken = bytearray(data)
        broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            stream = read(bytes(broken))
        except ValueError:
            continue
        # Few bits of a header mean nothing, and zstd has no checksum by default: what is read is a stream nevertheless.
        assert kind == "zstd" or stream.X.tobytes() == whole.X.tobytes()


@pytest.mark.parametrize("kind", COMPRESS)
def test_empty_files(tmp_path, kind):
    (tmp_path / "a").write_text("1 qid:1 1:1\n")
    (tmp_path / "b").write_bytes(COMPRESS[kind](b""))
    for start in (pr.read_letor, lambda *args, **named: list(pr.scan_letor(*args, **named))):
        with pytest.raises(pr.FormatError, match="b:1:1: the file is empty"):
            start(tmp_path)
        with pytest.warns(UserWarning, match="b:1:1: the file is empty"):
            start(tmp_path, on_error="skip")


def test_without_the_package_for_zstd(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"<stream> is compressed with zstd; pip install 'perceptrank\[zstd\]'"):
        read(COMPRESS["zstd"](b"1 qid:1 1:1\n"))


def test_several_files_folders_and_patterns(tmp_path, some_text):
    lines = some_text.splitlines(keepends=True)
    parts = [b"".join(lines[start:stop]) for start, stop in pairwise([0, 90, 91, 250, 400])]
    for kind, name, part in zip(COMPRESS, ["p1.txt", "p2.gz", "p3.bz2", "p4.xz"], parts, strict=False):
        (tmp_path / name).write_bytes(COMPRESS[kind](part.rstrip(b"\n")))
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "_SUCCESS").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "q").write_text("x")
    whole = read(some_text, comments=True)
    names = [tmp_path / name for name in ("p1.txt", "p2.gz", "p3.bz2", "p4.xz")]
    for paths in (
        tmp_path,
        str(tmp_path),
        names,
        iter(map(str, names)),
        f"{tmp_path}/p*",
        f"{tmp_path}/p?.*",
        [f"{tmp_path}/p[12]*", names[2], io.BytesIO(names[3].read_bytes())],
    ):
        assert_same(pr.read_letor(paths, comments=True), whole)
    scan = pr.scan_letor(tmp_path, comments=True, max_bytes=100)
    assert_same(pr.QueryStream.concatenate(scan), whole)
    assert_same(pr.QueryStream.concatenate(scan), whole)
    assert "p1.txt" in repr(scan)
    odd = tmp_path / "folder" / "a[1]*.txt"
    odd.write_bytes(some_text)
    assert_same(pr.read_letor(str(odd), comments=True), whole)


def test_files_that_are_not_there(tmp_path):
    for paths, problem in [
        (tmp_path / "none.txt", "there is no file .*none.txt"),
        (f"{tmp_path}/*.txt", r"no file matches .*\*\.txt"),
        (tmp_path, "there are no files in the folder"),
    ]:
        for start in (pr.read_letor, pr.scan_letor):
            with pytest.raises(FileNotFoundError, match=problem):
                start(paths)
    with pytest.raises(ValueError, match="at least one file"):
        pr.read_letor([])
    with pytest.raises(TypeError, match="paths must be paths or files opened for reading, got int"):
        pr.read_letor([3])


def test_open_files(tmp_path, some_text):
    path = tmp_path / "judged.txt"
    path.write_bytes(some_text)
    whole = read(some_text)
    with path.open("rb") as file:
        assert_same(pr.read_letor(file), whole)
    with path.open("rb", buffering=0) as file:
        assert_same(pr.read_letor(file), whole)
    with path.open("rb") as file:
        file.seek(some_text.index(b"\n") + 1)
        assert len(pr.read_letor(file).X) == len(whole.X) - 1
    with path.open() as file, pytest.raises(TypeError, match=r"judged.txt is open as text; open it in binary mode"):
        pr.read_letor(file)
    with pytest.raises(TypeError, match="open as text"):
        pr.read_letor(io.StringIO("1 qid:1 1:1"))

    class Dripping:
        """Only read(), and never more than a few bytes."""

        def __init__(self, data):
            self._file = io.BytesIO(data)

        def read(self, size):
            return self._file.read(min(size, 7))

    for compress in COMPRESS.values():
        assert_same(pr.read_letor(Dripping(compress(some_text))), whole)
    scan = pr.scan_letor(io.BytesIO(some_text))
    assert_same(pr.QueryStream.concatenate(scan), whole)
    with pytest.raises(pr.FormatError, match="empty"):
        list(scan)


def test_scans_of_sparse_files_find_the_width_first(tiny_chunks, tmp_path):
    path = tmp_path / "sparse.txt"
    path.write_text("".join(f"1 qid:{i} {i % 3 + 2}:{i}\n" for i in range(50)) + "1 qid:99 1:1 77:1\n")
    for n_threads in (1, 2):
        stream = pr.QueryStream.concatenate(pr.scan_letor(path, max_bytes=1000, n_threads=n_threads))
        assert_same(stream, pr.read_letor(path))
        assert stream.n_features == 77


def test_scans_say_where_an_id_is_larger_than_all_of_the_first_documents(tiny_chunks, tmp_path):
    path = tmp_path / "dense.txt"
    path.write_text("1 qid:1 1:1 2:2\n" * 30 + "1 qid:1 1:1 3:2\n")
    with pytest.raises(pr.FormatError, match=r"dense.txt:31:13: .*n_features.*'3:2'"):
        list(pr.scan_letor(path))
    assert pr.QueryStream.concatenate(pr.scan_letor(path, n_features=3)).X[-1].tolist() == [1, 0, 2]


@pytest.mark.parametrize("start", [read, scanned])
def test_matrices_that_cannot_fit_are_refused(monkeypatch, start):
    monkeypatch.setattr(memory, "free_memory", lambda: 1e6)
    assert start("1 qid:1 1000:1\n" * 100)
    for text, settings in [("1 qid:1 1:1\n", {"n_features": 10**6}), ("1 qid:1 9999:1\n" * 60, {})]:
        with pytest.raises(MemoryError, match=r"take 0.0 GB, more than is available"):
            start(text, sparse=False, **settings)
        assert start(text, **settings)  # which are sparse


def test_memory_for_later_chunks_is_checked(monkeypatch, tiny_chunks):
    monkeypatch.setattr(memory, "free_memory", lambda: 1e6)
    for text in ("1 qid:1 1:1\n" * 100 + "1 qid:1 5000:1\n", "1 qid:1 100:1\n" * 3000):
        with pytest.raises(MemoryError, match="documents of"):
            read(text)


def test_a_query_that_exceeds_the_memory_is_noticed_while_it_is_read(monkeypatch, tiny_chunks):
    monkeypatch.setattr(block_assembly, "free_memory", lambda: 5000.0)
    short = b"".join(b"1 qid:%d 1:1\n" % (i // 100) for i in range(3000))
    assert len(pr.QueryStream.concatenate(pr.scan_letor(io.BytesIO(short), max_bytes=1000))) == 30
    read = []
    blocks = pr.scan_letor(
        io.BytesIO(short + b"1 qid:x 1:1\n" * 20_000), max_bytes=1000, progress=lambda n, _: read.append(n)
    )
    with pytest.raises(MemoryError, match=r"query 'x' has 1\d\d\d of them or more, and must fit into memory"):
        list(blocks)
    assert read[-1] < 100_000


def test_progress(tmp_path, tiny_chunks, some_text):
    path = tmp_path / "judged.gz"
    path.write_bytes(gzip.compress(some_text))
    steps = []
    for start in (pr.read_letor, lambda *args, **named: list(pr.scan_letor(*args, **named))):
        steps.clear()
        start(path, progress=lambda *step: steps.append(step))
        size = path.stat().st_size
        assert steps[-1] == (size, size)
        assert steps == sorted(steps)
    read(some_text, progress=lambda *step: steps.append(step))
    assert steps[-1] == (len(some_text), 0)


def test_no_warnings_and_arrays_that_cannot_be_written(some_text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = read(some_text, comments=True)
    for array in (stream.X, stream.relevance, stream.offsets, stream.qids, stream.comments.content):
        assert not array.flags.writeable
    assert stream.X.flags.c_contiguous


@pytest.mark.parametrize(
    "name",
    [  # the plain parser takes longest by far; all splits of a set look alike
        pytest.param(name, marks=pytest.mark.deep if name in ("MSLR sample", "MQ2008 Fold1 vali") else ())
        for name in real_streams.FILES
    ],
)
def test_real_files(name):
    path = real_streams.find(name)
    plain = real_streams.read_plainly(path)
    blocks = pr.scan_letor(path, n_threads=2, max_bytes=2**18)
    for stream in (pr.read_letor(path, n_threads=2), pr.read_letor(path), pr.QueryStream.concatenate(blocks)):
        assert stream.X.tobytes() == plain.X.tobytes()
        assert stream.X.shape == plain.X.shape
        assert stream.relevance.tolist() == plain.relevance.tolist()
        assert stream.offsets.tolist() == plain.offsets.tolist()
        assert [str(qid) for qid in stream.qids] == plain.qids.tolist()


@pytest.mark.parametrize("zero_based", [False, True])
def test_scikit_learn_reads_the_same(zero_based):
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(1)
    lines = []
    for i in range(300):
        ids = np.flatnonzero(rng.random(40) < 0.3) + (not zero_based)
        pairs = " ".join(f"{k}:{rng.normal():.{rng.integers(1, 17)}g}" for k in ids)
        lines.append(f"{rng.integers(5)} qid:{i // 9} {pairs} # {i}\n")
    text = "".join(lines).encode()
    X, y, qid = datasets.load_svmlight_file(io.BytesIO(text), n_features=40, query_id=True, zero_based=zero_based)
    stream = read(text, n_features=40, dtype="float64", zero_based=zero_based)
    assert stream.X.tobytes() == X.toarray().tobytes()
    assert stream.relevance.tolist() == y.tolist()
    assert np.repeat(stream.qids, np.diff(stream.offsets)).tolist() == qid.tolist()


def test_the_twin_itself():
    """Worked by hand, so that twin and reader cannot be wrong together on the basics."""
    twin = letor_twin.read(b"#2:b\r\n1 qid:7 2:-.5e1 # x\r\n\n+0.5\tqid:8 1:3#y\n2 qid:7 # z", dtype=np.float64)
    assert twin.X.tolist() == [[0, -5], [0, 0], [3, 0]]
    assert (twin.relevance, twin.offsets, twin.qids) == ([1, 2, 0.5], [0, 2, 3], [7, 8])
    assert (twin.comments, twin.feature_names, twin.again) == (["x", "z", "y"], ("1", "b"), 5)
    for case, (text, settings, line, column, _) in WRONG.items():
        with pytest.raises(letor_twin.WrongError) as caught:
            letor_twin.read(text if isinstance(text, bytes) else text.encode(), **settings)
        assert caught.value.place == (line, column), case


def test_the_limits_of_the_twin_are_those_of_the_reader():
    assert letor_twin.LARGEST_UNDECLARED == letor_settings.LARGEST_UNDECLARED


def test_a_name_for_no_feature_is_a_comment():
    assert pr.read_letor(io.BytesIO(b"#0:x\n#1:y\n1 qid:1 1:1\n")).feature_names == ("y",)
    assert pr.read_letor(io.BytesIO(b"#3:x\n1 qid:1 1:1\n"), n_features=2).feature_names is None


def test_sizes_of_queries_beside_the_text(tmp_path):
    text = b"1 1:1\n0 2:3 # a\n2 qid:9 1:1\n"
    sizes = tmp_path / "train.txt.query"
    sizes.write_text("2\n1\n")
    for group in ([2, 1], sizes, str(sizes)):
        found = pr.read_letor(io.BytesIO(text), group=group, comments=True)
        assert found.offsets.tolist() == [0, 2, 3]
        assert found.X.tolist() == [[1, 0], [0, 3], [1, 0]]
        assert found.comments.tolist() == ["", "a", ""]
    with pytest.raises(ValueError, match="add up to the number of documents"):
        pr.read_letor(io.BytesIO(text), group=[1, 1])
    with pytest.raises(ValueError, match="none can be skipped"):
        pr.read_letor(io.BytesIO(text), group=[2, 1], on_error="skip")
    sizes.write_text("2\nx\n")
    with pytest.raises(ValueError, match=r"train.txt.query:2:1: sizes must be whole numbers, one per line, got 'x'"):
        pr.read_letor(io.BytesIO(text), group=sizes)


@pytest.mark.parametrize(
    ("start", "kind"), [(b"PAR1\x15\x04", "Parquet"), (b"PK\x03\x04zip", "zip"), ("1 qid:1".encode("utf-16"), "UTF-16")]
)
def test_files_of_other_kinds_are_recognised(start, kind):
    with pytest.raises(pr.FormatError, match=kind):
        pr.read_letor(io.BytesIO(start))


def test_a_store_is_recognised(tmp_path):
    pr.write_store(pr.QueryStream.from_arrays([[1.0]], [1]), tmp_path / "s")
    with pytest.raises(ValueError, match="open_store"):
        pr.read_letor(tmp_path / "s")


def test_a_scan_with_wrong_settings_is_an_error_at_once(tmp_path):
    (tmp_path / "a").write_text("1 qid:1 1:1")
    for wrong in ({"n_threads": 0}, {"max_bytes": 0}, {"n_features": 0}, {"on_error": "x"}, {"dtype": "int8"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            pr.scan_letor(tmp_path / "a", **wrong)


@pytest.mark.parametrize("wrong", [None, 3, b"a.txt", [None]])
def test_paths_that_are_none(wrong):
    with pytest.raises(TypeError, match="paths must be"):
        pr.read_letor(wrong)


def sparse_lines(n, n_features, step=1):
    return b"".join(b"1 qid:%d %d:1\n" % (i, 1 + i * step % n_features) for i in range(n))


def test_a_pipe_by_its_path_is_read_whole(tmp_path, monkeypatch):
    """It cannot be read twice, so only the first documents tell how many features there are."""
    monkeypatch.setattr(text_module, "_CHUNK_BYTES", 4096)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = sparse_lines(5000, 20)
    for read in (lambda: sum(len(block) for block in pr.scan_letor(pipe)), lambda: len(pr.read_letor(pipe))):
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(pipe.write_bytes, content)
            assert read() == 5000
            writing.result()


@pytest.mark.deep
def test_scanning_wide_and_sparse_text_takes_little_memory(tmp_path):
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no /proc to read the peak from")
    path, small = tmp_path / "wide.txt", tmp_path / "small.txt"
    path.write_bytes(sparse_lines(20_000, 10_000, 7))  # 0.8 GB if it were all in memory at once
    small.write_bytes(sparse_lines(2, 5, 7))
    code = (
        "import sys, perceptrank as pr\n"
        "print(sum(len(block) for block in pr.scan_letor(sys.argv[1])))\n"
        "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    for one in (small, path):  # the first may compile
        found = subprocess.run([sys.executable, "-c", code, one], capture_output=True, check=True).stdout.split()
    assert int(found[0]) == 20_000
    assert int(found[1]) / 1024 < 400


def test_one_long_id_does_not_inflate_the_others():
    lines = [b"1 qid:" + b"x" * 200_000 + b" 1:1\n", *(b"1 qid:q%d 1:1\n" % i for i in range(3000))]
    found = pr.read_letor(io.BytesIO(b"".join(lines)))
    assert found.qids.nbytes < 10**6
    assert len(found.qids[0]) == 200_000
    assert found.qids[-1] == "q2999"


def test_an_empty_path():
    with pytest.raises(ValueError, match="must not be empty"):
        pr.read_letor("")


@pytest.mark.parametrize("n_threads", [1, 3])
def test_nothing_that_stands_after_an_error_is_delivered(n_threads, monkeypatch):
    monkeypatch.setattr(text_module, "_CHUNK_BYTES", 64)
    lines = [b"1 qid:%d 1:1\n" % i for i in range(200)]
    lines[100] = b"1 qid:100 1:x\n"
    delivered = []
    scan = pr.scan_letor(io.BytesIO(b"".join(lines)), n_threads=n_threads, max_bytes=1)
    with pytest.raises(pr.FormatError, match=":101:13: expected a number"):
        delivered.extend(qid for block in scan for qid in block.qids.tolist())
    assert delivered == list(range(len(delivered)))
    assert 80 < len(delivered) <= 100


@pytest.mark.parametrize("start", [pr.read_letor, lambda path: list(pr.scan_letor(path))])
def test_files_are_closed_when_a_line_is_wrong(start, tmp_path):
    path = tmp_path / "judged.txt"
    path.write_bytes(b"1 qid:1 1:1\n" * 200_000 + b"wrong\n")
    with pytest.raises(pr.FormatError) as error:
        start(path)
    assert error.value.line == 200_001
    if os.path.isdir("/proc/self/fd"):
        assert str(path) not in {os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")}
