"""Ids of documents and query weights in streams."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.stream.texts import Texts

TEXTS = st.lists(st.text(max_size=5), max_size=8)


@given(TEXTS, st.data())
def test_texts_are_a_list_of_texts(texts, data):
    ours = Texts(texts)
    assert ours.tolist() == list(ours) == texts
    assert np.asarray(ours).tolist() == texts
    assert ours.nbytes == sum(len(one.encode("utf-8", "surrogateescape")) for one in texts) + 8 * (len(texts) + 1)
    start, stop = data.draw(st.tuples(st.integers(-9, 9), st.integers(-9, 9)))
    step = data.draw(st.sampled_from([None, 1, 2, -1]))
    assert ours[start:stop:step].tolist() == texts[start:stop:step]
    rows = data.draw(st.lists(st.integers(0, max(0, len(texts) - 1)), max_size=6)) if texts else []
    assert ours[np.array(rows, dtype=int)].tolist() == [texts[row] for row in rows]
    assert (ours[start:stop] == texts[start:stop]).all()
    assert [ours[i] for i in range(len(texts))] == texts
    with pytest.raises(IndexError):
        ours[len(texts)]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 3))
def test_texts_concatenate(parts, cut):
    joined = Texts.concatenate([Texts(part)[cut:] for part in parts])
    assert joined.tolist() == [one for part in parts for one in part[cut:]]
    assert pickle.loads(pickle.dumps(joined)).tolist() == joined.tolist()


def test_texts_are_read_only():
    texts = Texts(["a", "b"])
    with pytest.raises(ValueError, match="read-only"):
        texts.content[0] = 0
    assert repr(texts) == "Texts(['a', 'b'], 2 texts)"
    assert (texts == "b").tolist() == [False, True]


def a_stream():
    X = np.arange(14.0).reshape(7, 2)
    return pr.QueryStream.from_arrays(
        X,
        [1, 0, 2, 1, 0, 0, 3],
        qid=list("abaabbc"),
        docids=["x", "yü", "z", 4, "", "w", "v"],
        query_weights=[2, 0.5, 0],
    )


def test_ids_and_weights_follow_their_documents():
    stream = a_stream()
    assert stream.docids.tolist() == ["x", "z", "4", "yü", "", "w", "v"]
    assert stream.query_weights.tolist() == [2, 0.5, 0]
    query = stream[1]
    X, relevance, qid = query
    assert (qid, query.docids.tolist(), query.weight) == ("b", ["yü", "", "w"], 0.5)
    assert X is query.X
    assert relevance is query.relevance
    again = pickle.loads(pickle.dumps(query))
    assert (again.docids.tolist(), again.weight) == (["yü", "", "w"], 0.5)
    assert stream[1:].docids.tolist() == ["yü", "", "w", "v"]
    assert stream[[2, 0]].docids.tolist() == ["v", "x", "z", "4"]
    assert stream[[2, 0]].query_weights.tolist() == [0, 2]
    shuffled = stream.shuffled(3, documents=True)
    names = dict(zip(map(tuple, stream.X), stream.docids, strict=True))
    assert [names[tuple(row)] for row in shuffled.X] == shuffled.docids.tolist()
    assert dict(zip(shuffled.qids, shuffled.query_weights, strict=True)) == {"a": 2, "b": 0.5, "c": 0}
    plain = pr.QueryStream(stream.X, stream.relevance, stream.offsets)
    both = stream + plain
    assert both.docids.tolist() == stream.docids.tolist() + [""] * 7
    assert both.query_weights.tolist() == [2, 0.5, 0, 1, 1, 1]
    assert plain[0].docids is None
    assert plain[0].weight == 1
    other = stream.with_features(stream.X[:, :1])
    assert other.docids is stream.docids
    assert other.query_weights.tolist() == [2, 0.5, 0]
    assert stream.with_query_weights(None).query_weights is None
    with pytest.raises(AttributeError, match="cannot be replaced"):
        stream.query_weights = None
    with pytest.raises(ValueError, match="read-only"):
        stream.query_weights[0] = 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_ids_and_weights_are_columns_of_frames(library):
    pytest.importorskip(library)
    stream = a_stream()
    frame = stream.to_frame(library)
    again = pr.QueryStream.from_frame(frame)
    assert again.docids.tolist() == stream.docids.tolist()
    assert again.query_weights.tolist() == stream.query_weights.tolist()
    assert again.n_features == 2
    chosen = pr.QueryStream.from_frame(frame, features=["f1", "query_weight"])
    assert chosen.query_weights is None
    assert chosen.X[:, 1].tolist() == [2, 2, 2, 0.5, 0.5, 0.5, 0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"docids": ["a"]}, r"docids must have one id per document \(3\), got 1"),
        ({"docids": ["a", "b", "\udc80"]}, r"docids must be text that UTF-8 can hold, got '\\udc80' at document 2"),
        ({"docids": "abc"}, r"docids must have one id per document \(3\), got 'abc'"),
        ({"docids": 5}, r"docids must have one id per document \(3\), got 5"),
        ({"docids": ["a", "b", 1.5]}, "docids must be text or whole numbers, got 1.5 at document 2"),
        ({"query_weights": [1, 2, 3, 4]}, r"one value per query \(2\) or per document \(3\), got shape \(4,\)"),
        ({"query_weights": [1, -2]}, "query_weights must be finite and not negative, got -2.0 at query 1"),
        ({"query_weights": [1, np.nan]}, "got nan at query 1"),
        ({"query_weights": [1, 2, 1]}, "the same for all documents of a query, got 1.0 and 2.0 in query 'a'"),
        ({"query_weights": ["x", "y"]}, "query_weights"),
    ],
)
def test_wrong_ids_and_weights(given, problem):
    with pytest.raises((ValueError, TypeError), match=problem):
        pr.QueryStream.from_arrays(np.eye(3), [1, 0, 2], qid=["a", "a", "b"], **given)


def test_weights_of_documents():
    qid = ["a", "b", "a"]
    stream = pr.QueryStream.from_arrays(np.eye(3), [1, 0, 2], qid=qid, query_weights=[3, 0.5, 3])
    assert stream.query_weights.tolist() == [3, 0.5]


@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_selected_by_name(sparse):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 5)) * (rng.random((9, 5)) < 0.5)
    stream = pr.QueryStream.from_arrays(X, np.zeros(9), group=[4, 5], feature_names=list("abcde"), query_weights=[1, 2])
    stream = stream.to_sparse() if sparse else stream
    chosen = stream[1:].select(["d", "a", "e"])
    assert chosen.is_sparse is sparse
    assert chosen.to_dense().X.tolist() == X[4:][:, [3, 0, 4]].tolist()
    assert chosen.feature_names == ("d", "a", "e")
    assert chosen.query_weights.tolist() == [2]
    assert stream.select("abcde") is stream
    with pytest.raises(ValueError, match="has no feature 'x'; it has a, b, c, d, e"):
        stream.select(["a", "x"])
    with pytest.raises(ValueError, match="have none"):
        pr.QueryStream.from_arrays(X, np.zeros(9)).select(["a"])


@pytest.mark.parametrize("sparse", [False, True])
def test_missing_values_become_zero(sparse):
    X = np.array([[1.0, np.nan], [0.0, 2.0]], dtype=np.float32)
    given = scipy.sparse.csr_array(X) if sparse else X
    stream = pr.QueryStream.from_arrays(given, [0, 1], missing="zero")
    assert stream.to_dense().X.tolist() == [[1, 0], [0, 2]]
    assert stream.X.dtype == np.float32
    assert np.isnan(X[0, 1])
    with pytest.raises(ValueError, match="got inf"):
        pr.QueryStream.from_arrays([[np.inf, np.nan]], [0], missing="zero")


def test_features_that_differ_from_those_learned_are_named():
    X = np.random.default_rng(0).normal(size=(6, 3))
    ranker = pr.ListwisePerceptron()
    ranker.learn(pr.QueryStream.from_arrays(X, [0, 1, 2] * 2, group=[3, 3], feature_names=["a", "b", "c"]))
    fewer = pr.QueryStream.from_arrays(X[:, :2], [0, 1, 2] * 2, group=[3, 3], feature_names=["a", "b"])
    with pytest.raises(ValueError, match="expecting 3 features as input; of these, it lacks 'c'"):
        ranker.scores(fewer)
    other = pr.QueryStream.from_arrays(X, [0, 1, 2] * 2, group=[3, 3], feature_names=["c", "b", "a"])
    with pytest.raises(ValueError, match=r"got 'c' where 'a' was learned; stream.select\("):
        ranker.scores(other)
    ranker.scores(other.select(ranker.feature_names_in_))


def test_whole_numbers_of_numpy_are_ids():
    stream = pr.QueryStream.from_arrays(np.eye(2), [0, 1], docids=[np.int64(3), np.uint8(7)])
    assert stream.docids.tolist() == ["3", "7"]


@given(st.lists(st.text("ab 7é", max_size=20), min_size=1, max_size=30), st.data())
def test_hashes_tell_texts_apart(texts, data):
    names = Texts(texts)
    assert len(set(names.hashes().tolist())) == len(set(texts))
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1)))
    assert names[rows].hashes().tolist() == names.hashes()[rows].tolist()
    assert names[1:].hashes().tolist() == names.hashes()[1:].tolist()


@given(st.lists(st.text("ab", max_size=2), max_size=8), st.data())
def test_texts_are_compared_one_by_one(texts, data):
    others = data.draw(st.lists(st.text("ab", max_size=2), min_size=len(texts), max_size=len(texts)))
    expected = [text == other for text, other in zip(texts, others, strict=True)]
    assert (Texts(texts) == Texts(others)).tolist() == expected
    assert (Texts(["a", *texts])[1:] == Texts(["bb", *others])[1:]).tolist() == expected
