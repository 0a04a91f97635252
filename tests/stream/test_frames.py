"""Data frames wherever a stream is taken: as the stream of the same rows, with categories encoded as they were."""

import importlib

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder

import perceptrank as pr

BOTH = pytest.mark.parametrize("library", ["pandas", "polars"])
STREAM = pr.mslr_shaped(60, n_documents=6, n_features=4, seed=2)


def apart(library, stream=STREAM):
    """A frame whose rows of a query are apart."""
    frame = stream.to_frame("pandas")
    rows = np.random.default_rng(0).permutation(len(frame))
    frame = frame.iloc[rows].reset_index(drop=True)
    return frame if library == "pandas" else importlib.import_module("polars").from_pandas(frame)


def coloured(library, rows, qids=None):
    """A frame with two columns of categories and a number."""
    columns = {"qid": qids or [1 + i // 4 for i in range(len(rows))]}
    columns |= {name: [row[j] for row in rows] for j, name in enumerate(["relevance", "colour", "price", "shop"])}
    return importlib.import_module(library).DataFrame(columns)


ROWS = [(2, "red", 1.0, 7), (0, "blue", 2.0, 9), (1, "red", 3.0, 9), (0, None, 4.0, 7)]
ROWS += [(0, "blue", 2.5, 7), (2, "red", 1.5, 7), (0, "green", 1.0, 9), (1, "red", 0.5, 7)]


@BOTH
def test_a_frame_is_taken_as_the_stream_of_its_rows(library):
    frame = apart(library)
    stream = pr.QueryStream.from_frame(frame)
    ours, of_frame = pr.ListwisePerceptron(), pr.ListwisePerceptron()
    trace = ours.learn(stream)
    np.testing.assert_array_equal(of_frame.learn(frame).values("ndcg"), trace.values("ndcg"))
    np.testing.assert_array_equal(of_frame.weights, ours.weights)
    in_blocks = pr.ListwisePerceptron()
    in_blocks.learn([pr.QueryStream.from_frame(frame)[:20], stream[20:]])
    np.testing.assert_array_equal(in_blocks.weights, ours.weights)

    scores = ours.scores(stream)
    ids = np.repeat(stream.qids, np.diff(stream.offsets)).tolist()
    by_document = {(qid, *row): score for qid, row, score in zip(ids, stream.X.tolist(), scores.tolist(), strict=True)}
    documents = frame[["qid", *stream.feature_names]].to_numpy().tolist()
    for found in (ours.scores(frame), ours.predict(frame)):
        assert found.tolist() == [by_document[tuple(row)] for row in documents]
    unjudged = frame.drop(columns="relevance") if library == "pandas" else frame.drop("relevance")
    np.testing.assert_array_equal(ours.scores(unjudged), ours.scores(frame))
    assert pr.evaluate(ours, frame).means() == pr.evaluate(ours, stream).means()

    np.testing.assert_array_equal(pr.ListwisePerceptron().fit(frame).weights, ours.weights)
    np.testing.assert_array_equal(pr.ListwisePerceptron().partial_fit(frame).weights, ours.weights)
    assert ours.score(frame) == ours.score(stream)
    for orders in (None, 2):
        found, expected = (
            pr.compare({"a": pr.SlamPerceptron(), "b": Ridge()}, data, test=data, orders=orders)
            for data in (frame, stream)
        )
        assert found.standings() == expected.standings()


@BOTH
def test_rank_takes_the_rows_of_one_query(library):
    ranker = pr.ListwisePerceptron()
    ranker.learn(pr.QueryStream.from_frame(STREAM.to_frame()))
    one = STREAM[5:6].to_frame(library)
    assert ranker.rank(one).tolist() == ranker.rank(STREAM[5].X).tolist()
    with pytest.raises(ValueError, match="rank takes the documents of one query, and the frame has several"):
        ranker.rank(STREAM[5:8].to_frame(library))
    with pytest.raises(ValueError, match="frame has no column 'qid'; it has"):
        ranker.learn(one[["relevance", "f1"]])


@BOTH
def test_text_columns_are_all_named_with_what_to_do(library):
    frame = importlib.import_module(library).DataFrame(
        {
            "qid": [1, 1],
            "relevance": [0, 1],
            "x": [0.5, 1.5],
            "colour": ["a", "b"],
            "size": ["1", "2"],
            "brand": ["c", "d"],
        }
    )
    problem = (
        r"columns 'colour', 'brand' do not: .*; leave them out, or encode them: .*categories=\['colour', 'brand'\]"
    )
    ranker = pr.ListwisePerceptron()
    ranker.learn(pr.QueryStream.from_frame(STREAM.to_frame()))
    before = ranker.weights
    for use in (
        pr.ListwisePerceptron().learn,
        pr.ListwisePerceptron().fit,
        ranker.scores,
        lambda frame: pr.evaluate(ranker, frame),
        lambda frame: pr.compare([pr.SlamPerceptron()], frame),
    ):
        with pytest.raises(ValueError, match=problem):
            use(frame)
    assert np.array_equal(ranker.weights, before)


@BOTH
def test_categories_are_those_of_the_one_hot_encoder(library):
    frame = coloured(library, ROWS)
    stream = pr.QueryStream.from_frame(frame, categories=["colour", "shop"])
    assert stream.feature_names == ("colour=blue", "colour=green", "colour=red", "price", "shop=7", "shop=9")
    encoder = OneHotEncoder(sparse_output=False)
    colours = np.array([[row[1] or "none", str(row[3])] for row in ROWS])
    expected = encoder.fit_transform(colours)[:, [0, 1, 3, 4, 5]]  # "none" has no column
    np.testing.assert_array_equal(np.asarray(stream.X)[:, [0, 1, 2, 4, 5]], expected)
    assert np.asarray(stream.X)[:, 3].tolist() == [row[2] for row in ROWS]
    with pytest.warns(UserWarning, match="values of column 'shop' that are no feature count as none: '7'"):
        one = pr.QueryStream.from_frame(frame, features=["shop=9", "price"])
    assert one.feature_names == ("shop=9", "price")
    assert np.asarray(one.X)[:, 0].tolist() == [float(row[3] == 9) for row in ROWS]
    with pytest.raises(ValueError, match="no column 'color'"):
        pr.QueryStream.from_frame(frame, categories="color")
    with pytest.raises(ValueError, match="no column 'color=red'"):
        pr.QueryStream.from_frame(frame, features=["color=red"])


@BOTH
def test_a_model_encodes_later_frames_as_it_learned_them(library, tmp_path):
    ranker = pr.ListwisePerceptron()
    stream = pr.QueryStream.from_frame(coloured(library, ROWS), categories=["colour", "shop"])
    ranker.learn(stream)
    ranker.save(tmp_path / "model.json")
    ranker = pr.load(tmp_path / "model.json")
    later = coloured(library, [ROWS[5], ROWS[0], (1, None, 2.0, 9), ROWS[7]])
    expected = ranker.scores(pr.QueryStream.from_frame(later, features=list(ranker.feature_names_in_)))
    np.testing.assert_array_equal(ranker.scores(later), expected)
    documents = later[["shop", "price", "colour"]]  # in any order
    np.testing.assert_array_equal(ranker.predict(documents), expected)
    assert ranker.rank(later).tolist() == np.argsort(-expected, kind="stable").tolist()
    assert pr.evaluate(ranker, later, "ap").mean("ap") == pytest.approx(
        pr.AP()(expected, [row[0] for row in [ROWS[5], ROWS[0], (1,), ROWS[7]]])
    )
    twin = pr.load(tmp_path / "model.json")
    twin.learn(pr.QueryStream.from_frame(later, features=list(ranker.feature_names_in_)))
    ranker.learn(later)
    np.testing.assert_array_equal(ranker.weights, twin.weights)

    odd = coloured(library, [(0, "pink", 1.0, 7), (1, "red", 2.0, 8)], qids=[1, 1])
    with pytest.warns(UserWarning, match="values of column") as warned:
        scores = ranker.scores(odd)
    told = " ".join(str(each.message) for each in warned)
    assert "column 'colour' that are no feature count as none: 'pink'" in told
    assert "column 'shop' that are no feature count as none: '8'" in told
    plain = pr.QueryStream.from_arrays(
        [[0, 0, 0, 1.0, 1, 0], [0, 0, 1, 2.0, 0, 0]], [0, 1], feature_names=stream.feature_names
    )
    np.testing.assert_array_equal(scores, ranker.scores(plain))
    with pytest.raises(ValueError, match="it lacks 'price'"):
        ranker.scores(later.drop(columns="price") if library == "pandas" else later.drop("price"))


def test_held_out_frames_are_encoded_as_the_stream_was():
    frame = coloured("pandas", ROWS * 3)
    stream = pr.QueryStream.from_frame(frame, categories=["colour", "shop"])
    rankers = {"a": pr.SlamPerceptron(), "b": Ridge()}
    found = pr.compare(rankers, stream, test=frame[["shop", "price", "colour", "relevance", "qid"]])
    expected = pr.compare({"a": pr.SlamPerceptron(), "b": Ridge()}, stream, test=stream)
    assert [each.mean for each in found.standings()] == [each.mean for each in expected.standings()]


def test_categories_of_pandas_and_whole_numbers_with_gaps():
    pd = pytest.importorskip("pandas")
    frame = coloured("pandas", ROWS).assign(colour=lambda frame: frame["colour"].astype("category"))
    frame["shop"] = pd.Series([7, 9, None, 7, 7, None, 9, 7])  # floats
    stream = pr.QueryStream.from_frame(frame, categories=["shop", "colour"])
    assert set(stream.feature_names) == {"colour=blue", "colour=green", "colour=red", "price", "shop=7", "shop=9"}
    assert np.asarray(stream.X)[2].sum() == 1 + 3.0


@BOTH
def test_missing_numbers_are_for_learners_that_take_them(library):
    frame = coloured(library, [(0, "a", None, 1), (1, "a", 2.0, 2)])[["qid", "relevance", "price", "shop"]]
    with pytest.raises(ValueError, match=r"got NaN at document 0, feature 0 \('price'\)"):
        pr.SlamPerceptron().learn(frame)
    ranker = pr.ListwisePerceptron(transforms="missing")
    ranker.learn(frame)
    assert np.isfinite(ranker.scores(frame)).all()


def test_notebooks_show_the_first_documents():
    stream = pr.QueryStream.from_arrays(
        np.arange(24).reshape(12, 2) / 8,
        np.arange(12) % 3,
        qid=["<b>"] * 3 + ["c"] * 9,
        docids=[f"d{i}" for i in range(12)],
    )
    html = stream._repr_html_()
    assert "QueryStream(2 queries, 12 documents, 2 features)" in html
    assert html.count("<tr>") == 9
    assert "<td>&lt;b&gt;</td><td>0</td><td>d0</td><td>0</td><td>0.125</td>" in html
    assert "4 more documents" in html
    wide = pr.QueryStream.from_arrays(np.eye(20), np.zeros(20), feature_names=[f"x{j}" for j in range(20)])
    assert "12 more documents, 12 more features" in wide._repr_html_()
    assert "<th>x8</th>" not in wide._repr_html_()
    assert "clicked" in pr.QueryStream.from_arrays(np.eye(2), place=[1, 2], clicked=[0, 1])._repr_html_()
    assert "1 non-zeros" in pr.QueryStream.from_arrays([[0.0, 1.0]], [1]).to_sparse()._repr_html_()


@pytest.mark.parametrize("dtype", ["string", "object", "Int64"])
def test_na_of_pandas_is_a_missing_value(dtype):
    pandas = importlib.import_module("pandas")
    values = pandas.array([7 if dtype == "Int64" else "7", pandas.NA, None, pandas.NA], dtype=dtype)
    frame = pandas.DataFrame({"qid": [1, 1, 2, 2], "relevance": [1, 0, 1, 0], "shop": values})
    frame["comment"] = pandas.array(["good", None, "", "bad"], dtype="string")
    stream = pr.QueryStream.from_frame(frame, categories=["shop"])
    assert stream.feature_names == ("shop=7",)
    assert stream.X.tolist() == [[1.0], [0.0], [0.0], [0.0]]
    assert stream.comments.tolist() == ["good", "", "", "bad"]


def test_a_name_of_two_columns_is_said():
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame([[1, 1, 0.5, 0.5], [1, 0, 0.2, 0.1]], columns=["qid", "relevance", "price", "price"])
    with pytest.raises(ValueError, match="columns of a frame must have different names, got 'price' twice"):
        pr.ListwisePerceptron().learn(frame)


@BOTH
@pytest.mark.parametrize("name", ["qid", "relevance"])
@pytest.mark.parametrize("argument", ["features", "categories"])
def test_grades_and_queries_are_no_features(library, name, argument):
    with pytest.raises(ValueError, match=f"features must not have '{name}', which is the column of queries or grades"):
        pr.QueryStream.from_frame(coloured(library, ROWS), **{argument: ["price", name]})


@BOTH
def test_categories_beside_features_are_features(library):
    stream = pr.QueryStream.from_frame(coloured(library, ROWS), features=["price"], categories=["colour"])
    assert stream.feature_names == ("price", "colour=blue", "colour=green", "colour=red")
