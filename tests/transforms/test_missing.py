"""Missing values: streams that keep them, the transform that fills them in, and learners that take them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits, every_implementation
from support.strategies import EITHER_PRECISION, streams
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.transforms.registry import as_plain, from_plain

NAN = np.nan


@st.composite
def gapped_streams(draw):
    """Streams with missing values, in some all values of a feature."""
    stream = draw(streams(dtypes=EITHER_PRECISION))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.where(rng.random(stream.X.shape) < draw(st.sampled_from([0.0, 0.3, 0.9])), NAN, stream.X)
    X[:, rng.random(X.shape[1]) < 0.2] = NAN
    return pr.QueryStream(X.astype(stream.X.dtype), stream.relevance, stream.offsets, missing="keep")


def filled_by_definition(stream):
    """Means of all that was seen of a feature up to the end of the query, 0 if that is nothing."""
    filled = np.array(stream.X, dtype=float)
    for start, stop in zip(stream.offsets, stream.offsets[1:], strict=False):
        for j in range(stream.n_features):
            seen = [float(x) for x in stream.X[:stop, j] if not np.isnan(x)]
            mean = sum(seen) / len(seen) if seen else 0.0
            for i in range(start, stop):
                filled[i, j] = mean if np.isnan(filled[i, j]) else filled[i, j]
    return filled


@pytest.mark.kernel
@given(stream=gapped_streams())
def test_means_equal_their_definition(stream):
    transform = pr.Missing(indicator=True)
    found = transform.learn_and_apply(stream.X, stream.offsets)
    d = stream.n_features
    assert found.dtype == stream.X.dtype
    np.testing.assert_allclose(found[:, :d], filled_by_definition(stream), rtol=1e-5, atol=1e-6)
    present = ~np.isnan(stream.X)
    assert np.array_equal(found[:, :d][present], stream.X[present])
    assert np.array_equal(found[:, d:], ~present)
    assert np.array_equal(transform.counts, present.sum(axis=0))
    applied = transform.apply(stream.X, stream.offsets)
    expected = np.broadcast_to(transform.means.astype(stream.X.dtype), stream.X.shape)
    assert np.array_equal(applied[:, :d][~present], expected[~present])


@given(stream=gapped_streams(), size=st.integers(1, 500))
def test_blocks_and_saving_do_not_change_a_bit(stream, size):
    whole, pieces = pr.Missing(), pr.Missing()
    expected = whole.learn_and_apply(stream.X, stream.offsets)
    found = []
    for block in stream.blocks(size):
        found.append(pieces.learn_and_apply(block.X, block.offsets))
        pieces = from_plain(json.loads(json.dumps(as_plain(pieces))))
    assert np.array_equal(np.concatenate(found), expected)
    assert pieces == whole


@given(stream=gapped_streams(), cut=st.integers(0, 12))
def test_statistics_merge(stream, cut):
    one, other, whole = pr.Missing(), pr.Missing(), pr.Missing()
    for part, transform in ((stream[:cut], one), (stream[cut:], other), (stream, whole)):
        if len(part):
            transform.learn_and_apply(part.X, part.offsets)
    merged = one.merge(other)
    np.testing.assert_allclose(merged.means, whole.means, rtol=1e-12, atol=1e-12)
    assert np.array_equal(merged.counts, whole.counts)


@pytest.mark.parametrize(("fill", "value"), [("zero", 0.0), (-2.5, -2.5), (3, 3.0)])
def test_numbers_to_fill_in(fill, value):
    X = np.array([[NAN, 1.0], [2.0, NAN]], np.float32)
    transform = pr.Missing(fill)
    assert transform.learn_and_apply(X, [0, 2]).tolist() == [[value, 1.0], [2.0, value]]
    assert not transform.learns
    assert from_plain(as_plain(transform)) == transform
    assert transform.merge(pr.Missing(fill)) is transform


def test_the_mean_of_a_constant_is_exact():
    X = np.full((9, 1), 0.1)
    X[4:] = NAN
    assert set(pr.Missing().learn_and_apply(X, [0, 1, 3, 6, 9])[:, 0]) == {0.1}


def test_names_of_outputs():
    stream = pr.QueryStream.from_arrays([[1.0, NAN]], [0], feature_names=["age", "price"], missing="keep")
    assert pr.Missing().transform(stream).feature_names == ("age", "price")
    names = pr.Missing("zero", indicator=True).transform(stream).feature_names
    assert names == ("age", "price", "age missing", "price missing")


def test_streams_keep_missing_values_if_they_are_asked_to():
    X = np.array([[1.0, NAN], [NAN, 2.0], [3.0, 4.0]])
    for make in (
        lambda **options: pr.QueryStream(X, [0, 1, 2], [0, 1, 3], **options),
        lambda **options: pr.QueryStream.from_arrays(X, [0, 1, 2], qid=[7, 8, 8], **options),
        lambda **options: pr.QueryStream.from_arrays(X, [0, 1, 2], group=[1, 2], **options),
    ):
        stream = make(missing="keep")
        assert np.array_equal(stream.X, X, equal_nan=True)
        for refuse in (make, lambda make=make: make(missing="error")):
            with pytest.raises(ValueError, match=r"got NaN at document 0, feature 1; .* .missing='keep'.*transforms="):
                refuse()
        with pytest.raises(ValueError, match="missing must be one of 'error', 'keep', 'zero', got 'drop'"):
            make(missing="drop")
    assert np.isnan(stream[1:].X).sum() == 1
    assert np.isnan((stream + stream).shuffled(3, documents=True).X).sum() == 4
    for rows in ([[NAN, np.inf]], [[NAN, -np.inf]]):
        with pytest.raises(ValueError, match="got infinity at document 0, feature 1"):
            pr.QueryStream.from_arrays(rows, [0], missing="keep")


def test_data_frames_keep_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"qid": [1, 1], "relevance": [0, 1], "age": [None, 3.0], "price": [1.0, NAN]})
    stream = pr.QueryStream.from_frame(frame, missing="keep")
    assert np.isnan(stream.X).tolist() == [[True, False], [False, True]]
    with pytest.raises(ValueError, match=r"got NaN at document 0, feature 0 \('age'\)"):
        pr.QueryStream.from_frame(frame)


def test_what_pandas_calls_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"age": pandas.array([1, None, 3], "Int64"), "price": pandas.array([None, 2.5, 1.0], "Float64")}
    )
    ranker = pr.SlamPerceptron(transforms="missing").fit(frame, [0, 1, 2])
    assert ranker.transforms_[0].means.tolist() == [2.0, 1.75]
    with pytest.raises(ValueError, match=r"got NaN at document 0, feature 1 \('price'\)"):
        pr.SlamPerceptron().fit(frame, [0, 1, 2])
    with pytest.raises(ValueError, match="relevance must be finite and not negative, got nan at document 1"):
        ranker.fit(frame, frame["age"])
    for wrong in ([["a", 1.0]], [[[1.0], [2.0, 3.0]]], [[object(), 1.0]]):
        with pytest.raises((TypeError, ValueError), match="X must hold numbers"):
            ranker.predict(np.array(wrong, dtype=object) if not isinstance(wrong[0][0], list) else wrong)


def gapped(n_queries=30, n_features=4):
    stream = pr.separable(n_queries, n_features=n_features, seed=5).stream
    X = np.where(np.random.default_rng(5).random(stream.X.shape) < 0.2, NAN, stream.X)
    return pr.QueryStream(X, stream.relevance, stream.offsets, missing="keep")


@pytest.mark.parametrize(
    "make",
    [
        lambda: pr.ListwisePerceptron(transforms=["missing", "auto"]),
        lambda: pr.OnlineRidge(transforms=[pr.Chain("missing", "running")]),
        lambda: pr.SlamPerceptron(transforms=pr.Join("missing", pr.Missing("zero", indicator=True))),
        lambda: pr.Bagging(pr.SlamPerceptron(), transforms="missing", n_members=2),
        lambda: pr.Sum([pr.SlamPerceptron(transforms="missing"), pr.OnlineRidge(transforms=pr.Missing("zero"))]),
        lambda: pr.AdaGrad(pr.RankNet(transforms="missing")),
    ],
    ids=["list", "chain", "join", "bagging", "sum", "adagrad"],
)
def test_learners_take_them_and_go_on_as_if_they_had_never_stopped(make, tmp_path):
    stream = gapped()
    whole, resumed, one_by_one, fitted = make(), make(), make(), make()
    whole.learn(stream)
    resumed.learn(stream[:13])
    resumed.save(tmp_path / "m.json")
    resumed = pr.load(tmp_path / "m.json")
    resumed.learn(stream[13:])
    for query in stream:
        one_by_one.learn_one(query.X, query.relevance)
    fitted.fit(np.array(stream.X), stream.relevance, group=np.diff(stream.offsets))
    assert bits(whole) == bits(resumed) == bits(one_by_one) == bits(fitted)
    scores = whole.predict(stream)
    assert np.isfinite(scores).all()
    assert np.array_equal(scores, whole.predict(np.array(stream.X), group=np.diff(stream.offsets)))
    assert np.array_equal(whole.rank(stream[3].X), np.argsort(-whole.predict(stream[3].X), kind="stable"))
    assert whole.score(stream) > 0.5


@pytest.mark.parametrize("transforms", [None, "auto", "running", "clip", "query-minmax", "clip+missing"])
def test_other_learners_refuse_them_and_say_what_to_do(transforms):
    stream = gapped(4)
    X = np.array(stream.X)
    X[: stream.offsets[2]] = 0.0  # where the stream is right
    i, j = (int(place) for place in np.argwhere(np.isnan(X))[0])
    where = f"got NaN at document {i}, feature {j}; missing values .* learners with .transforms='missing'. as first"
    stream = stream.with_features(X)
    ranker = pr.ListwisePerceptron(transforms=transforms)
    ranker.learn(stream[:2])
    before = bits(ranker)
    group = np.diff(stream.offsets)
    for attempt in (
        lambda: ranker.learn(stream),
        lambda: ranker.partial_fit(X, stream.relevance, group=group),
        lambda: ranker.predict(stream),
        lambda: ranker.predict(X, group=group),
        lambda: ranker.fit(X, stream.relevance, group=group),
    ):
        with pytest.raises(ValueError, match=where):
            attempt()
    query = stream[2]
    i, j = np.argwhere(np.isnan(query.X))[0]
    for attempt in (lambda: ranker.learn_one(query.X, query.relevance), lambda: ranker.rank(query.X)):
        with pytest.raises(ValueError, match=f"got NaN at document {i}, feature {j}; missing"):
            attempt()
    assert bits(ranker) == before


@pytest.mark.parametrize("transforms", ["auto", "clip"])
def test_documents_are_counted_from_the_first_of_a_stream_of_many_blocks(transforms):
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    ranker = pr.SlamPerceptron(transforms=transforms)
    ranker.learn(pr.QueryStream.from_arrays(X[:40], np.arange(40) % 3, group=[20] * 2))
    X[19_990, 2] = NAN
    stream = pr.QueryStream.from_arrays(X, np.arange(20_000) % 3, group=[20] * 1000, missing="keep")
    for attempt in (ranker.learn, ranker.predict):
        with pytest.raises(ValueError, match="NaN at document 19990, feature 2"):
            attempt(stream)


def test_errors_of_other_kinds_are_not_taken_for_missing_values():
    X = np.array([[1e200, NAN], [-1e200, 1.0]])
    stream = pr.QueryStream.from_arrays(X, [0, 1], missing="keep")
    ranker = pr.SlamPerceptron(transforms=["missing", "running"])
    for attempt in (lambda: ranker.learn(stream), lambda: ranker.learn_one(X, [0, 1])):
        with pytest.raises(ValueError, match="feature 0 is too large to be scaled"):
            attempt()
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="got infinity at document 0, feature 0"):
        ranker.learn_one(X, [0, 1])


def test_scikit_learn_is_told():
    pytest.importorskip("sklearn")
    for transforms, takes in ((["missing", "auto"], True), ("auto", False), (None, False)):
        ranker = pr.ListwisePerceptron(transforms=transforms)
        assert ranker.__sklearn_tags__().input_tags.allow_nan == takes


@every_implementation
def test_no_learner_passes_over_them(make):
    """Whichever document it is: of a query of one document, or of equal grades, as well."""
    offsets, grades = [0, 4, 5, 8, 13], np.array([0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0.0])
    for row in (0, 4, 6, 12):
        X = np.random.default_rng(row).normal(size=(13, 3))
        learner = make()
        learner.learn(pr.QueryStream(X, grades, offsets))
        X[row, 1] = NAN
        stream = pr.QueryStream(X, grades, offsets, missing="keep")
        for attempt in (learner.learn, learner.predict, make().learn):
            with pytest.raises(ValueError, match=f"NaN at document {row}, feature 1"):
                attempt(stream)


def test_theory_does_not_pass_over_them():
    stream = gapped(3)
    for measured in (pr.theory.radius, pr.theory.diameter, pr.theory.margin):
        with pytest.raises(ValueError, match="must"):
            measured(stream)


def test_bad_input_changes_nothing():
    transform = pr.Missing()
    transform.learn_and_apply(np.array([[1.0, NAN]]), [0, 1])
    before = transform.state()
    with pytest.raises(ValueError, match="learned from 2 features, got 3"):
        transform.learn_and_apply(np.zeros((1, 3)), [0, 1])
    with pytest.raises(ValueError, match="learned from 2 features, got 3"):
        transform.merge(from_plain(as_plain(pr.Missing()) | {"counts": [1.0] * 3, "means": [0.0] * 3}))
    with pytest.raises(ValueError, match="differ in their settings"):
        transform.merge(pr.Missing("zero"))
    with pytest.raises(ValueError, match="got infinity at document 1, feature 1"):
        transform.learn_and_apply(np.array([[NAN, 1.0], [2.0, np.inf]]), [0, 2])
    with pytest.raises(ValueError, match="feature 1 is too large to have a mean"):
        transform.learn_and_apply(np.array([[0.0, 1.7e308], [0.0, -1.7e308]]), [0, 2])
    assert transform.state() == before
    for fill in ("median", None, NAN, np.inf, True, [1]):
        with pytest.raises(ValueError, match="fill must be 'mean', 'zero' or a number"):
            pr.Missing(fill)
    with pytest.raises(ValueError, match="indicator must be True or False, got 'yes'"):
        pr.Missing(indicator="yes")
    with pytest.raises(ValueError, match="fill must be a number that float32 holds"):
        pr.Missing(1e300).apply(np.zeros((1, 1), np.float32), [0, 1])
    for change in ({"counts": [-1.0, 1.0]}, {"counts": [0.5, 1.0]}, {"means": [1.0]}, {"fill": "zero"}):
        with pytest.raises(ValueError, match="must"):
            from_plain({"name": "missing", **before, **change})


def test_parquet_files_and_the_command_line(tmp_path):
    pytest.importorskip("pyarrow")
    stream, path, model = gapped(), tmp_path / "gapped.parquet", tmp_path / "m.json"
    pr.write_parquet(stream, path)
    learn = ["learn", str(path), "--transform", "missing", "--transform", "auto", "--save", str(model)]
    refused = CliRunner().invoke(app, learn)
    assert refused.exit_code == 1
    assert "are for streams with --keep-missing and learners with --transform missing" in refused.output
    assert not model.exists()
    done = CliRunner().invoke(app, [*learn, "--keep-missing"])
    assert done.exit_code == 0, done.output
    expected = pr.ListwisePerceptron(transforms=["missing", "auto"])
    expected.learn(stream)
    assert np.array_equal(pr.load(model).coef_, expected.coef_)
    (tmp_path / "train.txt").write_text("1 qid:1 1:1\n")
    refused = CliRunner().invoke(app, ["learn", str(tmp_path / "train.txt"), "--keep-missing"])
    assert refused.exit_code == 1
    assert "--keep-missing: LETOR text has no missing values" in refused.output


def test_stores_keep_them_and_the_command_line_takes_them(tmp_path):
    stream = gapped()
    pr.write_store(stream, tmp_path / "gapped.store")
    assert np.array_equal(pr.open_store(tmp_path / "gapped.store").X, stream.X, equal_nan=True)
    command = ["learn", str(tmp_path / "gapped.store"), "--save", str(tmp_path / "m.json")]
    done = CliRunner().invoke(app, [*command, "--transform", "missing", "--transform", "auto"])
    assert done.exit_code == 0, done.output
    expected = pr.ListwisePerceptron(transforms=["missing", "auto"])
    expected.learn(stream)
    assert bits(pr.load(tmp_path / "m.json")) == bits(expected)
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "learners with --transform missing as first transform" in refused.output
    assert bits(pr.load(tmp_path / "m.json")) == bits(expected)
