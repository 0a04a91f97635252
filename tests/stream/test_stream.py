import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import assert_same
from support.strategies import EITHER_PRECISION, streams

import perceptrank as pr


def make(n=6, d=3, **options):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, 3, size=n), options


def test_rows_in_any_order_are_grouped_by_first_appearance():
    X = np.arange(12.0).reshape(6, 2)
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2, 3, 4, 5], qid=["b", "a", "b", "c", "a", "b"])
    assert list(stream.qids) == ["b", "a", "c"]
    assert [list(query.relevance) for query in stream] == [[0, 2, 5], [1, 4], [3]]
    assert np.array_equal(stream[1].X, X[[1, 4]])
    assert stream[0].qid == "b"


@given(qid=st.lists(st.sampled_from("abcde"), min_size=1, max_size=30))
def test_grouping_loses_nothing(qid):
    X = np.arange(len(qid), dtype=float)[:, None]
    stream = pr.QueryStream.from_arrays(X, np.zeros(len(qid)), qid=qid)
    assert list(stream.qids) == list(dict.fromkeys(qid))
    for query in stream:
        assert list(query.X[:, 0]) == [i for i, name in enumerate(qid) if name == query.qid]


@pytest.mark.parametrize(
    "qid",
    [
        [3, 3, 1, 1, 2, 2],
        ["x", "x", "y", "y", "z", "z"],
        [(1, 2)] * 2 + [("1",)] * 2 + ["q"] * 2,
        [1, 1, "1", "1", 2.5, 2.5],
    ],
)
def test_identifiers_of_any_kind(qid):
    names = np.empty(6, dtype=object)
    names[:] = qid
    X, y, _ = make()
    for given_qid in (names, qid) if not isinstance(qid[0], tuple) else (names,):
        stream = pr.QueryStream.from_arrays(X, y, qid=given_qid)
        assert [query.qid for query in stream] == list(dict.fromkeys(qid))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_is_copied_that_need_not_be(dtype, tmp_path):
    X, y, _ = make()
    X = X.astype(dtype)
    y = y.astype(float)
    for options in ({"qid": [1, 1, 2, 2, 2, 3]}, {"group": [2, 3, 1]}):
        stream = pr.QueryStream.from_arrays(X, y, **options)
        assert np.shares_memory(stream.X, X)
        assert np.shares_memory(stream[1:].X, X)
        assert all(np.shares_memory(block.X, X) for block in stream.blocks(1))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    stream = pr.QueryStream.from_arrays(mapped, y, group=[2, 4])
    assert np.shares_memory(stream.X, mapped)


def test_a_stream_cannot_be_written_through_and_leaves_its_input_writable():
    X, y, _ = make()
    stream = pr.QueryStream.from_arrays(X, y, group=[6])
    for array in (stream.X, stream.relevance, stream.offsets, stream.qids, stream[0].X):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    X[0, 0] = 5.0


@pytest.mark.parametrize(
    ("dtype", "kept_as"),
    [
        (np.float16, np.float32),
        (np.bool_, np.float32),
        (np.uint8, np.float32),
        (np.int16, np.float32),
        (">f4", np.float32),
        (">f8", np.float64),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (object, np.float64),
    ],
)
def test_other_number_types(dtype, kept_as):
    X = np.array([[0, 1], [1, 1]]).astype(dtype)
    stream = pr.QueryStream.from_arrays(X, [0, 1])
    assert stream.X.dtype == kept_as
    assert stream.X.dtype.isnative
    assert stream.X.tolist() == [[0, 1], [1, 1]]


def test_other_memory_layouts():
    X = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    stream = pr.QueryStream.from_arrays(X[::2], [0, 1])
    assert stream.X.flags.c_contiguous
    assert np.array_equal(stream.X, X[::2])


@given(stream=streams(dtypes=EITHER_PRECISION), cut=st.integers(0, 12))
def test_slices_blocks_and_concatenation_are_the_stream_again(stream, cut):
    cut = min(cut, len(stream))
    if 0 < cut < len(stream):
        assert_same(stream[:cut] + stream[cut:], stream)
    for size in (1, 200, 10**9):
        blocks = list(stream.blocks(size))
        assert_same(pr.QueryStream.concatenate(blocks), stream)
        assert all(len(block) == 1 or block.X.nbytes <= max(size, 1) for block in blocks)
    for q, query in enumerate(stream):
        assert np.array_equal(query.X, query.X)
        assert np.array_equal(stream[q - len(stream)].X, query.X)


@given(stream=streams(dtypes=EITHER_PRECISION), seed=st.integers(0, 99), documents=st.booleans())
def test_shuffling_keeps_queries_whole(stream, seed, documents):
    shuffled = stream.shuffled(seed, documents=documents)
    assert_same(shuffled, stream.shuffled(seed, documents=documents))
    assert sorted(shuffled.qids) == sorted(stream.qids)
    by_qid = {query.qid: query for query in stream}
    for query in shuffled:
        original = by_qid[query.qid]
        if documents:
            rows = sorted(map(tuple, np.column_stack([query.X, query.relevance]).tolist()))
            assert rows == sorted(map(tuple, np.column_stack([original.X, original.relevance]).tolist()))
        else:
            assert np.array_equal(query.X, original.X)
            assert np.array_equal(query.relevance, original.relevance)


def test_documents_are_shuffled_on_request():
    stream = pr.QueryStream.from_arrays(np.arange(50.0)[:, None], np.zeros(50), group=[50])
    assert_same(stream.shuffled(1), stream)
    assert not np.array_equal(stream.shuffled(1, documents=True).X, stream.X)


def test_taking_queries():
    stream = pr.QueryStream.from_arrays(np.arange(6.0)[:, None], np.arange(6), group=[1, 2, 3])
    assert_same(stream[[2, 0]], stream[2:] + stream[:1])
    assert_same(stream[np.array([True, False, True])], stream[:1] + stream[2:])
    assert_same(stream[::2], stream[:1] + stream[2:])
    assert list(stream[::-1].qids) == [2, 1, 0]
    with pytest.raises(IndexError):
        stream[3]


def test_splitting():
    stream = pr.QueryStream.from_arrays(np.arange(10.0)[:, None], np.arange(10), group=[1] * 10)
    train, test = stream.split(0.7)
    assert_same(train + test, stream)
    parts = stream.split(0.5, 0.3, 0.2, seed=4)
    assert [len(part) for part in parts] == [5, 3, 2]
    assert sorted(np.concatenate([part.qids for part in parts])) == list(range(10))
    assert_same(parts[0], stream.split(0.5, 0.3, 0.2, seed=4)[0])
    for wrong in ((), (0.0,), (-0.5,), (0.8, 0.8)):
        with pytest.raises(ValueError, match="fractions"):
            stream.split(*wrong)
    with pytest.raises(ValueError, match="too short"):
        stream[:1].split(0.5)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(
        {"qid": ["b", "a", "b"], "bm25": [1.0, 2.0, 3.0], "relevance": [0, 1, 2], "length": [10, 20, 30]}
    )
    stream = pr.QueryStream.from_frame(frame)
    assert stream.feature_names == ("bm25", "length")
    assert list(stream.qids) == ["b", "a"]
    assert stream.X.tolist() == [[1, 10], [3, 30], [2, 20]]
    assert stream.relevance.tolist() == [0, 2, 1]
    assert pr.QueryStream.from_frame(frame, features=["length"]).feature_names == ("length",)
    with pytest.raises(ValueError, match="no column 'grade'; it has"):
        pr.QueryStream.from_frame(frame, relevance="grade")
    holes = frames.DataFrame({"qid": [1, 1], "relevance": [0, 1], "bm25": [1.0, None]})
    with pytest.raises(ValueError, match=r"NaN at document 1, feature 0 \('bm25'\)"):
        pr.QueryStream.from_frame(holes)
    assert pr.QueryStream.from_arrays(frame[["bm25", "length"]], [0, 1, 2]).feature_names == ("bm25", "length")


def test_feature_names_survive():
    X, y, _ = make()
    stream = pr.QueryStream.from_arrays(X, y, group=[2, 2, 2], feature_names=["a", "b", "c"])
    for other in (
        stream[1:],
        stream[[0]],
        stream.shuffled(0),
        stream + stream,
        *stream.split(0.5),
        *stream.blocks(1),
        pr.QueryZScore().transform(stream),
    ):
        assert other.feature_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.array([[1.0, np.nan], [0, 0]])}, "NaN at document 0, feature 1"),
        ({"X": np.array([[1.0, 0], [-np.inf, 0]])}, "infinity at document 1, feature 0"),
        ({"X": np.zeros(2)}, r"matrix.*X.reshape\(1, -1\)"),
        ({"X": np.zeros((0, 2)), "relevance": [], "qid": []}, "at least one document"),
        ({"X": [["a", "b"], ["c", "d"]]}, "X must hold numbers"),
        ({"relevance": [1]}, r"one value per document \(2\), got shape \(1,\)"),
        ({"relevance": [1, -2]}, "not negative, got -2.0 at document 1"),
        ({"relevance": [np.nan, 1]}, "got nan at document 0"),
        ({"relevance": [np.inf, 1]}, "got inf at document 0"),
        ({"relevance": ["good", "bad"]}, "relevance must hold numbers"),
        ({"qid": [1]}, r"one entry per document \(2\)"),
        ({"qid": [1.0, np.nan]}, "qid must not be missing, got nan at document 1"),
        ({"qid": np.array(["a", None], object)}, "qid must not be missing, got None at document 1"),
        ({"qid": ["a", np.nan]}, "qid must not be missing, got nan at document 1"),
        ({"qid": np.array(["2020-01-01", "NaT"], "M8[D]")}, "qid must not be missing, got NaT"),
        ({"X": np.ma.masked_less(np.eye(2), 0.5)}, "X must not have masked values"),
        ({"X": np.eye(2) * 1j}, "Complex data not supported"),
        ({"X": np.zeros((2, 2), "M8[D]")}, "X must hold numbers, got datetime64"),
        ({"X": [[1, 2], [3]]}, "X must hold numbers"),
        ({"relevance": [1j, 0]}, "relevance must hold real numbers"),
        ({"qid": None, "group": np.array([2**63 - 1, 2**63 - 1, 4])}, "add up to the number of documents"),
        ({"group": [2]}, "qid or group, not both"),
        ({"qid": None, "group": [1, 2]}, r"add up to the number of documents \(2\), got 3"),
        ({"qid": None, "group": [2, 0]}, "at least one document, got 0 for query number 1"),
        ({"qid": None, "group": [1.5, 0.5]}, "whole numbers"),
        ({"feature_names": ["a"]}, "each of the 2 features, got 1"),
    ],
)
def test_bad_input(changes, message):
    good = {"X": np.eye(2), "relevance": [0, 1], "qid": [1, 1]}
    with pytest.raises(ValueError, match=message):
        pr.QueryStream.from_arrays(**good | changes)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_categories_is_named(library):
    frame = pytest.importorskip(library).DataFrame(
        {"qid": [1, 1], "relevance": [0, 1], "x": [0.5, 1.5], "colour": ["a", "b"]}
    )
    problem = r"X must hold numbers, but column 'colour' does not: .*'a'\)?; leave it out, or encode it"
    features = frame[["x", "colour"]]
    learner = pr.ListwisePerceptron()
    for read in (
        lambda: pr.QueryStream.from_frame(frame),
        lambda: pr.QueryStream.from_frame(frame, features="colour"),
        lambda: pr.QueryStream.from_arrays(features, [0, 1]),
        lambda: pr.QueryStream(features.to_numpy(), [0, 1], [0, 2], feature_names=["x", "colour"]),
        lambda: learner.fit(features, [0, 1]),
        lambda: learner.rank(features),
    ):
        with pytest.raises(ValueError, match=problem):
            read()
    with pytest.raises(ValueError, match=r"column 1 \(from 0\) does not"):
        pr.QueryStream.from_arrays([[1, "a"]], [0])


def test_bad_offsets_and_mixed_widths():
    with pytest.raises(ValueError, match="offsets must run from 0"):
        pr.QueryStream(np.eye(2), [0, 1], [0, 1])
    with pytest.raises(ValueError, match=r"offsets must increase.*not after query number 0"):
        pr.QueryStream(np.eye(2), [0, 1], [0, 0, 2])
    with pytest.raises(ValueError, match="whole numbers"):
        pr.QueryStream(np.eye(2), [0, 1], [0.0, 2.0])
    with pytest.raises(ValueError, match="same features"):
        pr.QueryStream.concatenate([pr.QueryStream.from_arrays(np.eye(d), np.ones(d)) for d in (2, 3)])


def test_grades_changed_after_the_check_do_no_harm():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 3, size=200).astype(float)
    stream = pr.QueryStream.from_arrays(X, y, group=[100, 100])
    expected = pr.evaluate(pr.SlamPerceptron(), stream, "ndcg").mean("ndcg")
    y[3] = np.nan
    assert pr.evaluate(pr.SlamPerceptron(), stream, "ndcg").mean("ndcg") == expected


def test_large_identifiers_stay_apart_and_odd_ones_are_named():
    stream = pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2], qid=[2**63, 2**63 + 1, -1])
    assert list(stream.qids) == [2**63, 2**63 + 1, -1]
    odd = np.empty(2, object)
    odd[:] = [[1], [2]]
    with pytest.raises(TypeError, match="qid must hold values that can be compared and hashed"):
        pr.QueryStream.from_arrays(np.eye(2), [0, 1], qid=odd)


def test_wrong_ways_to_choose_queries():
    stream = pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2], group=[1, 1, 1])
    for wrong in (None, np.array(1), [[0, 1]], "a", [0.5]):
        with pytest.raises(TypeError, match="index must be an integer"):
            stream[wrong]
    with pytest.raises(TypeError, match="fractions must be numbers"):
        stream.split([0.5, 0.5])
    with pytest.raises(TypeError, match="pandas or polars DataFrame, got dict"):
        pr.QueryStream.from_frame({"qid": [1]})


@pytest.mark.parametrize(
    "make", [pr.QueryStream.from_arrays, lambda X, grades, group: pr.QueryStream(X, grades, [0, 2])]
)
def test_grades_are_needed(make):
    with pytest.raises(ValueError, match=r"must have grades \(relevance\) or clicks \(clicked\), got None for both"):
        make(np.ones((2, 1)), None, group=[2])
