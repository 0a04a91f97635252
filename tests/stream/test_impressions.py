"""Impressions: streams with places and clicks, with or without grades and features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import assert_same

import perceptrank as pr
from perceptrank.stream.columns import count_gaps

EVERYTHING = {
    "place": [2, 1, 0, 1, 1, 3],
    "clicked": [0, 1, 0, 0.25, 0, 1],
    "examined": [1, 1, 0, np.nan, np.nan, 1],
    "propensity": [0.5, 0.5, np.nan, 1, 1, 0.25],
}
OF_QUERIES = {
    "time": np.array(["2026-11-01T10:00:00.250", "NaT", "2026-11-02"], "datetime64[ms]"),
    "policy": ["fair-pairs:1", "none", ""],
    "session": ["s1", "", "17"],
    "user_query": ["red shoes", "hats, straw", "hats, straw"],
}


def impressions(relevance=None, n_features=2, **changed):
    X = np.arange(6 * n_features, dtype=np.float32).reshape(6, n_features)
    arguments = EVERYTHING | {"columns": OF_QUERIES, "docids": list("abcabd")} | changed
    arguments["feature_names"] = ["x", "y"][:n_features] or None
    return pr.QueryStream.from_arrays(X, relevance, qid=["i1"] * 3 + ["i2"] + ["i3"] * 2, **arguments)


def same(one, other):
    """Compare streams; missing values are alike."""
    assert one.columns.keys() == other.columns.keys()
    missing = {"examined": None, "propensity": None, "time": None}
    assert_same(*(part.with_columns(missing) for part in (one, other)))
    for name in missing:
        np.testing.assert_array_equal(one.columns[name], other.columns[name])


def test_a_stream_may_have_clicks_only():
    stream = impressions()
    assert repr(stream) == "QueryStream(3 queries, 6 documents, 2 features, 5 shown, 3 clicked)"
    assert stream.place.tolist() == EVERYTHING["place"]
    assert stream.clicked.tolist() == EVERYTHING["clicked"]
    assert stream[0].relevance is None
    assert stream[2].columns["user_query"] == "hats, straw"
    assert stream[2].columns["place"].tolist() == [1, 3]
    assert "relevance" not in stream.columns
    with pytest.raises(ValueError, match="this needs the column 'relevance', and the stream has only docid, place, cl"):
        _ = stream.relevance
    assert impressions([0, 1, 0, 2, 0, 1]).relevance.sum() == 4


def test_what_learns_from_grades_says_that_it_needs_them():
    stream = impressions()
    ranker = pr.SlamPerceptron()
    for use in (ranker.learn, pr.theory.margin, lambda stream: pr.evaluate(pr.FixedRanker([1, 2]), stream, "ndcg")):
        with pytest.raises(ValueError, match="needs the column 'relevance', and the stream has only"):
            use(stream)
    assert not ranker.model.has_begun
    with pytest.raises(ValueError, match="slam needs the column 'relevance'"):
        ranker.learn(stream)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"place": [2, 2, 0, 1, 1, 3]},
            "place must differ between the documents of a query, got 2 twice in query 'i1'",
        ),
        (
            {"clicked": [0, 1, 1, 0, 0, 1]},
            r"clicked must be 0 where place is 0 \(not shown\), got a click at document 2",
        ),
        ({"place": [2, -1, 0, 1, 1, 3]}, "place must be counted from 1, or 0 .*, got -1 at document 1"),
        ({"place": [2, 1.5, 0, 1, 1, 3]}, "place must be int32, got 1.5 at document 1"),
        ({"place": [2**40, 1, 0, 1, 1, 3]}, "place must be int32, got 1099511627776"),
        ({"clicked": [0, 3, 0, 0, 0, 1]}, "clicked must be from 0 to 1, got 3.0 at document 1"),
        ({"clicked": [0, np.nan, 0, 0, 0, 1]}, "clicked must be from 0 to 1, got nan at document 1"),
        ({"examined": [0.5] * 6}, "examined must be 0, 1 or NaN, got 0.5 at document 0"),
        ({"propensity": [0] * 6}, "propensity must be above 0 and at most 1, or NaN, got 0.0 at document 0"),
        ({"clicked": None}, "a stream must have grades"),
        ({"columns": {"place": [1] * 6}}, "columns must not have 'place', which is an argument of its own"),
    ],
)
def test_invalid_impressions(changed, message):
    with pytest.raises(ValueError, match=message):
        impressions(**changed)


def test_columns_that_are_replaced_are_checked_with_those_that_stay():
    stream = impressions()
    with pytest.raises(ValueError, match="clicked must be 0 where place is 0"):
        stream.with_columns({"place": [0, 1, 2, 1, 0, 0]})
    with pytest.raises(ValueError, match="clicked must be 0 where place is 0"):
        stream.with_columns({"clicked": [1] * 6})
    with pytest.raises(ValueError, match="a stream must have grades"):
        stream.with_columns({"clicked": None})
    graded = stream.with_columns({"relevance": [0, 1, 2, 0, 1, 2]})
    assert graded.with_columns({"clicked": None}).clicked is None


@pytest.mark.parametrize("relevance", [None, [0, 1, 0, 2, 0, 1]])
@pytest.mark.parametrize("n_features", [2, 0])
def test_files_and_frames_keep_impressions(tmp_path, relevance, n_features):
    stream = impressions(relevance, n_features)
    store = pr.write_store(stream, tmp_path / "s")
    same(store, stream)
    assert repr(store).endswith("features))")
    store.append(stream)
    same(pr.open_store(tmp_path / "s")[3:], stream)
    same(pr.open_store(tmp_path / "s")[:], stream + stream)
    pr.write_parquet([stream[:1], stream[1:]], tmp_path / "p")
    same(pr.read_parquet(tmp_path / "p"), stream)
    same(pr.QueryStream.concatenate(pr.scan_parquet(tmp_path / "p", max_bytes=1)), stream)
    for library in ("pandas", "polars"):
        pytest.importorskip(library)
        same(pr.QueryStream.from_frame(stream.to_frame(library)), stream)
    with pytest.raises(ValueError, match="LETOR text has no place for the column 'clicked'"):
        pr.write_letor(stream, tmp_path / "l")


def test_graded_and_ungraded_queries_are_not_mixed(tmp_path):
    stream, graded = impressions(), impressions([0, 1, 0, 2, 0, 1])
    with pytest.raises(ValueError, match="all sources must have the column 'relevance', or none"):
        stream + graded
    for first, second in ((stream, graded), (graded, stream)):
        store = pr.write_store(first, tmp_path / "s", overwrite=True)
        with pytest.raises(ValueError, match="all sources must have the column 'relevance', or none"):
            store.append(second)
        same(pr.open_store(tmp_path / "s"), first)


def test_columns_of_impressions_without_clicks_are_features(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"qid": [1, 1], "relevance": [0, 1], "time": [3.5, 2.0], "place": [4.0, 9.0]})
    stream = pr.QueryStream.from_frame(frame)
    assert stream.feature_names == ("time", "place")
    assert stream.place is None
    pr.write_parquet(stream, tmp_path / "p")
    assert pr.read_parquet(tmp_path / "p").feature_names == ("time", "place")
    (tmp_path / "t.csv").write_text("qid,relevance,time,place\n1,0,3.5,4\n1,1,2,9\n")
    assert pr.read_table(tmp_path / "t.csv").feature_names == ("time", "place")
    assert pr.QueryStream.from_frame(stream.to_frame()).X.tolist() == stream.X.tolist()


def test_graded_queries_may_have_a_session(tmp_path):
    graded = pr.QueryStream.from_arrays(
        np.ones((2, 1)), [0, 1], qid=["a", "b"], columns={"session": ["x", ""], "time": OF_QUERIES["time"][:2]}
    )
    pr.write_parquet(graded, tmp_path / "p")
    again = pr.read_parquet(tmp_path / "p")
    assert again.columns["session"].tolist() == ["x", ""]
    np.testing.assert_array_equal(again.columns["time"], graded.columns["time"])


def test_a_table_of_impressions_has_no_features():
    with pytest.raises(ValueError, match="slam needs features, and the stream has none"):
        pr.SlamPerceptron().learn(impressions([0, 1, 0, 2, 0, 1], n_features=0))


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6, unique=True), min_size=1, max_size=5))
def test_gaps_are_counted(places):
    expected = sum(set(row) - {0} != set(range(1, max(row) + 1)) for row in places)
    offsets = np.cumsum([0, *map(len, places)])
    assert count_gaps(np.concatenate(places), offsets) == expected
