"""What every learner is given: it is checked, left alone, and understood in every form."""

import numpy as np
import pytest
from support.learners import bits, classifies, every_implementation, scales

import perceptrank as pr


@every_implementation
def test_inputs_are_left_alone(make, stream):
    X, y = np.array(stream.X), np.array(stream.relevance)
    before = X.copy(), y.copy()
    learner = make()
    learner.learn(pr.QueryStream.from_arrays(X, y, group=np.diff(stream.offsets)))
    learner.learn_one(X[:5], y[:5])
    learner.predict(X)
    learner.fit(X, y, group=np.diff(stream.offsets))
    assert np.array_equal(X, before[0])
    assert np.array_equal(y, before[1])
    assert X.flags.writeable


def bad_queries():
    X, grades = np.ones((3, 4)), np.array([0.0, 1.0, 2.0])
    yield "NaN feature", X * np.array([1, 1, np.nan, 1]), grades, "NaN at document 0, feature 2"
    yield "infinite feature", X * np.array([1, np.inf, 1, 1]), grades, "infinity at document 0, feature 1"
    yield "negative grade", X, grades - 1, "not negative, got -1.0 at document 0"
    yield "NaN grade", X, np.full(3, np.nan), "got nan at document 0"
    yield "infinite grade", X, np.full(3, np.inf), "relevance must be finite"
    yield "too few grades", X, grades[:2], "one (grade|value) per document"
    yield "other width", X[:, :3], grades, "X has 3 features, but .* is expecting 4"
    yield "a vector", X[0], grades[:1], "X must be a matrix"
    yield "no documents", X[:0], grades[:0], "at least one document"
    yield "no features", X[:, :0], grades, r"0 feature\(s\)"
    yield "words", [["a"]], [1], "numbers"


@every_implementation
@pytest.mark.parametrize("case", list(bad_queries()), ids=lambda case: case[0])
def test_bad_input_changes_nothing(make, stream, case):
    name, X, grades, message = case
    learner = make()
    learner.learn(stream)
    if classifies(learner) and name in ("a vector", "negative grade"):
        pytest.skip("an example and a label of -1 are legal for a classifier")
    before = bits(learner)
    with pytest.raises(ValueError, match=message):
        learner.learn_one(X, grades)
    assert bits(learner) == before
    with pytest.raises(ValueError, match=message):
        learner.partial_fit(X, grades)
    assert bits(learner) == before
    with pytest.raises(ValueError, match=message):
        learner.fit(X, grades) if name != "other width" else learner.partial_fit(X, grades)
    assert bits(learner) == before
    if "grade" not in name and name != "no documents":
        with pytest.raises(ValueError, match=message):
            learner.predict(X)


@every_implementation
def test_a_bad_first_query_leaves_a_learner_that_can_still_learn(make, stream):
    learner = make()
    with pytest.raises(ValueError, match="NaN"):
        learner.learn_one([[np.nan, 1.0], [0.0, 1.0]], [1, 0])
    learner.learn(stream)
    fresh = make()
    fresh.learn(stream)
    assert bits(learner) == bits(fresh)


@every_implementation
def test_empty_streams_and_wrong_things(make, stream):
    learner = make()
    learner.learn(stream)
    before = bits(learner)
    for nothing in (stream[:0], [], iter([])):
        with pytest.raises(ValueError, match="no queries"):
            learner.learn(nothing)
    with pytest.raises(TypeError, match="QueryStream"):
        learner.learn([np.eye(4)])
    with pytest.raises(ValueError, match=r"'foo'.*'bar'"):
        learner.learn(stream, ["foo", "bar"])
    with pytest.raises(ValueError, match="max_grade"):
        learner.learn(stream, pr.ERR(max_grade=1))
    with pytest.raises(ValueError, match="score needs qid"):
        learner.score(stream.X, stream.relevance)
    with pytest.raises(ValueError, match="n_passes must be a whole number > 0, got 0"):
        learner.fit(stream, n_passes=0)
    with pytest.raises(ValueError, match="requires y to be passed"):
        learner.fit(stream.X)
    with pytest.raises(ValueError, match="give it alone"):
        learner.fit(stream, stream.relevance)
    assert bits(learner) == before


@every_implementation
def test_a_bad_block_keeps_what_the_blocks_before_it_taught(make, stream):
    narrow = pr.QueryStream.from_arrays(np.eye(2), [0, 1])
    learner, expected = make(), make()
    expected.learn(stream)
    with pytest.raises(ValueError, match="X has 2 features"):
        learner.learn(iter([stream, narrow]))
    assert bits(learner) == bits(expected)


@every_implementation
def test_blocks_without_queries_are_passed_over(make, stream):
    learner, expected = make(), make()
    expected.learn(stream)
    learner.learn([stream[:5], stream[5:5], stream[5:]])
    assert bits(learner) == bits(expected)


@every_implementation
def test_rank_predict_and_score_agree(make, stream):
    learner = make()
    learner.fit(stream)
    scores = learner.scores(stream)
    qid = np.repeat(stream.qids, np.diff(stream.offsets))
    shuffle = np.random.default_rng(0).permutation(len(qid))
    found = learner.predict(stream.X[shuffle], qid=qid[shuffle])  # sums over documents in another order
    np.testing.assert_allclose(found, scores[shuffle], rtol=1e-12, atol=1e-14 if learner.transforms_ else 0)
    np.testing.assert_array_equal(learner.predict(stream.X, group=np.diff(stream.offsets)), scores)
    query = stream[5]
    np.testing.assert_array_equal(learner.rank(query.X), np.argsort(-learner.predict(query.X), kind="stable"))
    own = getattr(learner, "measure", "ndcg@10")
    own = (
        getattr(learner.learner, "measure", "ndcg@10") if own is None else own
    )  # of a wrapper that has none of its own
    expected = pr.evaluate(learner, stream, own).mean(own)
    assert learner.score(stream) == learner.score(stream.X, stream.relevance, qid=qid) == expected
    if not scales(learner):
        np.testing.assert_allclose(scores, stream.X @ learner.coef_, rtol=1e-9, atol=1e-9)


@every_implementation
def test_memory_mapped_features(make, stream, tmp_path):
    np.save(tmp_path / "x.npy", stream.X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    learner, expected = make(), make()
    learner.learn(pr.QueryStream.from_arrays(mapped, stream.relevance, group=np.diff(stream.offsets)))
    expected.learn(stream)
    assert bits(learner) == bits(expected)


@every_implementation
def test_feature_names_are_kept_and_checked(make, stream, tmp_path):
    names = ["a", "b", "c", "d"]
    named = pr.QueryStream(stream.X, stream.relevance, stream.offsets, feature_names=names)
    learner = make()
    learner.learn(named)
    assert list(learner.feature_names_in_) == names
    learner.save(tmp_path / "m.json")
    assert list(pr.load(tmp_path / "m.json").feature_names_in_) == names
    other = pr.QueryStream(stream.X, stream.relevance, stream.offsets, feature_names=["a", "x", "c", "d"])
    with pytest.raises(ValueError, match="got 'x' where 'b' was learned"):
        learner.learn(other)
    learner.learn(stream)


@every_implementation
def test_predict_takes_streams_and_checks_queries(make, stream):
    learner = make()
    learner.learn(stream)
    np.testing.assert_array_equal(learner.predict(stream), learner.scores(stream))
    with pytest.raises(ValueError, match="not both"):
        learner.predict(stream.X, qid=np.zeros(403), group=[403])
    with pytest.raises(ValueError, match="one entry per document"):
        learner.predict(stream.X, qid=[1, 2])
    with pytest.raises(ValueError, match="add up to the number of documents"):
        learner.predict(stream.X, group=[1, 2])
    with pytest.raises(ValueError, match="no queries"):
        learner.score(stream[:0])
    for wrong in (None, 5, [np.eye(2)]):
        with pytest.raises(TypeError, match="QueryStream"):
            learner.learn(wrong)
    with pytest.raises(TypeError, match="measures must be"):
        learner.learn(stream, 5)


@every_implementation
def test_columns_in_another_order_are_noticed(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    learner = make()
    learner.learn_one(frame, [1, 0])
    assert list(learner.feature_names_in_) == ["a", "b"]
    before = bits(learner)
    for method in (learner.predict, lambda X: learner.learn_one(X, [1, 0]), lambda X: learner.partial_fit(X, [1, 0])):
        with pytest.raises(ValueError, match="feature names should match"):
            method(frame[["b", "a"]])
    assert bits(learner) == before


@pytest.mark.parametrize("method", ["adopt", "with_model"])
@pytest.mark.parametrize("learner", [pr.OnlineRidge(), pr.Sum(), pr.AdaGrad(pr.SlamPerceptron())], ids=repr)
def test_a_model_of_another_learner_is_refused(learner, method, stream):
    other = pr.SlamPerceptron()
    other.learn(stream)
    for model, shown in ((other.model, "one of SlamPerceptron"), (3, "3")):
        with pytest.raises(ValueError, match=f"`model` must be a model of {type(learner).__name__}, got {shown}"):
            getattr(learner, method)(model)


@pytest.mark.parametrize("make", [np.array, list])
def test_learn_says_briefly_what_takes_arrays(make):
    X, grades = make([[1.0, 0.0], [0.0, 1.0]] * 100), make([1.0, 0.0] * 100)
    with pytest.raises(
        ValueError, match=r"^a measure must be a name .* got .*1\.0\)?; `fit\(X, y, qid=…\)` takes grades\."
    ):
        pr.ListwisePerceptron().learn(X, grades)
    with pytest.raises(ValueError, match="a measure must be a name") as error:
        pr.evaluate(pr.FixedRanker([1.0] * 136), pr.mslr_shaped(2), grades)
    assert len(str(error.value)) < 500
    with pytest.raises(TypeError, match=r"^stream must be a QueryStream.*`QueryStream.from_arrays\(X, y, qid=…\)`"):
        pr.ListwisePerceptron().learn(X)
