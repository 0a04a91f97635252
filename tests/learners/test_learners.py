"""What every learner does while it learns; the checks find the learners by themselves."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import (
    LEARNERS,
    at_weights,
    bits,
    checks,
    current_of,
    every_implementation,
    every_learner,
    every_setting,
    innermost,
    scales,
    taken_by,
    used_of,
)
from support.strategies import examples, streams

import perceptrank as pr


def learn_in_pieces(make, stream, size):
    """In one go, block by block and query by query it learns the same and records the same, to the bit."""
    measures = ["ndcg@3", "ap:ties=random"]
    whole, pieces, generated, single = make(), make(), make(), make()
    trace = whole.learn(stream, measures)
    parts = [pieces.learn(block, measures) for block in stream.blocks(size)]
    streamed = generated.learn(stream.blocks(size), measures)
    moved = [single.learn_one(query.X, query.relevance) for query in stream]
    assert bits(whole) == bits(pieces) == bits(generated) == bits(single)
    for measure in measures:
        joined = np.concatenate([part.values(measure) for part in parts])
        assert np.array_equal(trace.values(measure), joined, equal_nan=True)
        assert np.array_equal(trace.values(measure), streamed.values(measure), equal_nan=True)
    assert np.array_equal(moved, trace.masses > 0)
    return whole


@pytest.mark.kernel
@every_setting
@examples(0.5, suite=0.3)
@given(stream=streams(), size=st.integers(1, 300))
def test_blocks_and_single_queries_give_the_same_bits(make, stream, size):
    learn_in_pieces(make, stream, size)


@every_implementation
@given(stream=streams(dtypes=[np.float32]), size=st.integers(1, 300))
def test_the_same_in_single_precision(make, stream, size):
    learn_in_pieces(make, stream, size)


@every_implementation
def test_single_precision_is_that_of_the_features_only(make):
    """Features as float32 teach the same, but for the order of sums, as the same numbers in double precision."""
    X = np.random.default_rng(7).normal(size=(200, 4)).astype(np.float32)
    narrow = pr.QueryStream.from_arrays(X, np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0]), 0, 4), group=[10] * 20)
    one, other = make(), make()
    one.learn(narrow)
    other.learn(narrow.with_features(X.astype(float)))
    np.testing.assert_allclose(used_of(one), used_of(other), rtol=1e-5, atol=1e-6)


@every_learner
@examples(0.5)
@given(stream=streams(), cut=st.integers(1, 11))
def test_save_load_and_continue_equals_never_stopping(make, stream, cut, tmp_path):
    cut = min(cut, len(stream))
    whole = make()
    trace = whole.learn(stream, "ap:ties=random")
    first = make()
    first.learn(stream[:cut])
    first.save(tmp_path / "model.json")
    second = pr.load(tmp_path / "model.json")
    assert bits(first) == bits(second)
    assert second.average == first.average
    if cut < len(stream):
        rest = second.learn(stream[cut:], "ap:ties=random")
        assert np.array_equal(rest.values("ap:ties=random"), trace.values("ap:ties=random")[cut:], equal_nan=True)
    assert bits(whole) == bits(second)
    assert np.array_equal(used_of(whole), used_of(second))


@checks(LEARNERS, where=lambda learner: not scales(learner))  # while learning, a running one includes the query at hand
def test_the_trace_is_what_predict_would_have_said(make, stream):
    learner, trace_learner = make(), make()
    trace = trace_learner.learn(stream, ["ndcg@3", "ap"])
    for q, query in enumerate(stream):
        scores = learner.predict(query.X)
        for name in ("ndcg@3", "ap"):
            assert np.array_equal(pr.parse(name)(scores, query.relevance), trace.values(name)[q], equal_nan=True)
        learner.learn_one(query.X, query.relevance)


@every_learner
def test_cold_start(make):
    learner = make()
    assert learner.predict(np.ones((3, 2))).tolist() == [0, 0, 0]
    assert learner.rank(np.ones((3, 2))).tolist() == [0, 1, 2]
    assert learner.n_updates == learner.n_rounds == 0
    for name in ("weights", "coef_", "n_features_in_"):
        with pytest.raises(AttributeError, match="has not learned anything yet"):
            getattr(learner, name)


@every_learner
def test_it_learns(make, stream):
    """Better at the end of the stream than by chance, and better held out than a constant."""
    learner = make()
    learner.fit(stream, n_passes=5)
    chance = np.mean(
        [pr.NDCG(10, ties="expected")(np.zeros(len(q.X)), q.relevance) for q in stream if q.relevance.any()]
    )
    assert pr.evaluate(learner, stream, "ndcg@10").mean("ndcg@10") > chance + 0.05


@every_learner
def test_pickling_and_copying(make, stream):
    learner = make()
    learner.learn(stream[:30])
    for other in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner), copy.copy(learner)):
        assert bits(other) == bits(learner)
        other.learn(stream[30:])
        assert bits(other) != bits(learner)


@checks(LEARNERS, where=lambda learner: taken_by(learner) != "documents")  # of which every one may teach something
def test_queries_that_teach_nothing_change_nothing_but_the_count(make):
    learner = make()
    learner.learn_one([[1.0, 2.0], [0.0, 1.0]], [0, 2])
    lists = [one for one in innermost(learner) if taken_by(one) != "documents"]
    before = [current_of(one) for one in lists]
    for X, grades in (([[5.0, 1.0]], [1]), ([[5.0, 1.0], [2.0, 2.0]], [0, 0]), ([[5.0, 1.0], [2.0, 2.0]], [3, 3])):
        rounds = learner.n_rounds
        assert learner.learn_one(X, grades) is False
        assert all(np.array_equal(current_of(one), old) for one, old in zip(lists, before, strict=True))
        assert learner.n_rounds == rounds + 1


@every_learner
@pytest.mark.parametrize("grades", [[0, 32, 40], [0.25, 0.5, 0], [0, 2000, 1999], [0, 1e-300, 1.0]])
def test_unusual_grades_are_legal(make, grades):
    learner = make()
    rng = np.random.default_rng(0)
    for _ in range(20):
        learner.learn_one(rng.normal(size=(3, 2)), grades)
    assert np.isfinite(current_of(learner)).all()
    assert learner.n_updates > 0


@every_learner
def test_fit_starts_anew_and_passes_are_reshuffled(make, stream):
    X, y, sizes = stream.X, stream.relevance, np.diff(stream.offsets)
    once = make()
    once.learn(stream)
    fitted = make().fit(stream).fit(X, y, group=sizes)
    assert bits(fitted) == bits(once)
    again = make().partial_fit(stream)
    assert bits(again) == bits(once)
    twice = make()
    twice.learn(stream)
    twice.learn(stream)
    passes = make().fit(stream, n_passes=2)
    assert passes.n_rounds == twice.n_rounds
    assert bits(passes) != bits(twice)
    assert bits(passes) == bits(make().fit(stream, n_passes=2, seed=0))
    assert bits(passes) != bits(make().fit(stream, n_passes=2, seed=1))


def inside(stream, seed):
    """The queries in order, the documents of each shuffled."""
    order = np.argsort(stream.shuffled(seed).qids)
    return stream.shuffled(seed, documents=True)[order]


def sorted_by_grade(stream):
    """The documents of each query, the best first."""
    rows = np.lexsort((-stream.relevance, np.repeat(np.arange(len(stream)), np.diff(stream.offsets))))
    return pr.QueryStream.from_arrays(stream.X[rows], stream.relevance[rows], group=np.diff(stream.offsets))


@every_learner
def test_the_first_query_is_not_won_by_the_order_of_its_documents(make, stream):
    assert make().learn(sorted_by_grade(stream)[1:8], "ndcg@10").values("ndcg@10")[0] < 1


@checks(LEARNERS, where=lambda learner: taken_by(learner) == "lists")  # else the order is part of what is learned
def test_label_sorted_input_leaks_nothing(make, stream):
    """Grades in descending order, as files often have them, must not look better than shuffled ones."""
    best_first = sorted_by_grade(stream)
    leaked = make().learn(best_first, "ndcg@10").mean("ndcg@10")
    fair = np.mean([make().learn(inside(stream, seed), "ndcg@10").mean("ndcg@10") for seed in range(8)])
    assert leaked <= fair + 0.02


@every_learner
def test_threads_do_not_disturb_each_other(make, stream):
    expected = make()
    expected.learn(stream)
    learners = [make() for _ in range(4)]
    threads = [threading.Thread(target=learner.learn, args=(stream,)) for learner in learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(bits(learner) == bits(expected) for learner in learners)


@checks(LEARNERS, where=lambda learner: not scales(learner))  # which would bring any number down to 0..1
@pytest.mark.parametrize("size", [1e170, 1e250])
def test_overflow_is_an_error_and_changes_nothing(make, stream, size, tmp_path):
    """Too large a step, and too large a score; steps that shrink as documents grow may stay finite at the first."""
    learner = make()
    learner.learn(stream)
    learner = at_weights(learner, np.full(4, 1e100))
    before = bits(learner)
    query = [[size, 0, 0, 0], [0, size, 0, 0], [0, 0, size, -size]], [0, 0, 1]
    if size == 1e250 or all(one.depends_on_rate for one in innermost(learner)):
        with pytest.raises(ValueError, match="overflow at query number 60"):
            learner.learn_one(*query)
    else:
        try:
            learner.learn_one(*query)
        except ValueError as error:
            assert "overflow at query number 60" in str(error)  # noqa: PT017
        else:
            learner.save(tmp_path / "model.json")
            pr.load(tmp_path / "model.json")  # refuses what is not finite
            return
    assert bits(learner) == before


def test_an_overflow_is_located_in_the_whole_stream():
    X = np.ones((300, 2))
    X[2 * 149] = 1e200
    stream = pr.QueryStream.from_arrays(X, np.tile([0, 1], 150), group=[2] * 150)
    with pytest.raises(
        ValueError, match="query number 149, counted from the first that was ever learned: the features"
    ):
        pr.MinimaxPerceptron().learn(stream)
    with pytest.raises(ValueError, match="query number 149"):
        pr.MinimaxPerceptron().learn(stream.blocks(100))


@pytest.mark.parametrize("grades", [[600, 1, 0], [1e19, 5e18, 0], [1e300, 1, 0], [5e-324, 0, 0]])
@pytest.mark.parametrize(
    "make", [pr.ListwisePerceptron, pr.SlamPerceptron, lambda: pr.ListwisePerceptron("ndcg:gain=linear")]
)
def test_grades_of_any_size_keep_the_state_sound(make, grades, tmp_path):
    learner = make()
    for _ in range(3):
        learner.learn_one(np.eye(3), grades)
        learner.learn_one(np.eye(3)[::-1], grades)
    learner.save(tmp_path / "m.json")
    assert bits(pr.load(tmp_path / "m.json")) == bits(learner)


def test_the_classification_perceptron_takes_examples():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    y = np.where(X @ [1.0, 2.0, -1.0] > 0, 1, -1)
    one_by_one = pr.Perceptron()
    mistakes = sum(one_by_one.learn_one(x, label) for x, label in zip(X, y, strict=True))
    fitted = pr.Perceptron().fit(X, y)
    assert np.array_equal(fitted.weights, one_by_one.weights)
    assert fitted.n_updates == mistakes
    assert fitted.n_rounds == 200
    assert (fitted.fit(X, y, n_passes=20).classify(X) == y).mean() > 0.97
    for labels in ((y > 0).astype(int), y[:, None], list(y)):
        assert np.array_equal(pr.Perceptron().fit(X, labels).weights, one_by_one.weights)
    with pytest.raises(ValueError, match="not negative"):
        fitted.partial_fit(X[:1], [-2])
