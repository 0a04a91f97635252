"""Checks that every learner passes; they find the learners by themselves."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import streams

import perceptrank as pr

pytestmark = pytest.mark.kernel

VARIANTS = {}
for algorithm, kind in pr.algorithms().items():
    VARIANTS[algorithm] = kind
    if "average" in kind.parameter_names:
        VARIANTS[f"{algorithm} averaged"] = lambda kind=kind: kind(average=True)
    VARIANTS[f"{algorithm} scaled"] = lambda kind=kind: kind(scaling=["query-minmax", "running"])
VARIANTS["tournament hedge"] = lambda: pr.Tournament.over(
    pr.ListwisePerceptron, relative_margin=[0.1, 1, 3], tournament={"strategy": "hedge", "seed": 3}
)
VARIANTS["tournament of all kinds"] = lambda: pr.Tournament(
    [pr.SlamPerceptron(), pr.OnlineListNet(), pr.Perceptron(), pr.ListwisePerceptron("ap")], measure="ap"
)
for kind in (pr.Perceptron, pr.CommitteePerceptron, pr.RankNet, pr.Opauc, pr.BufferedPairwise):
    VARIANTS[f"adagrad:{kind.algorithm}"] = lambda kind=kind: pr.AdaGrad(kind())
for kind in (pr.Perceptron, pr.ListwisePerceptron, pr.SolarI):
    VARIANTS[f"bagging:{kind.algorithm}"] = lambda kind=kind: pr.Bagging(kind(), n_members=3)
VARIANTS["bagging:tournament"] = lambda: pr.Bagging(
    pr.Tournament.over(pr.ListwisePerceptron, relative_margin=[0.5, 1]), n_members=3
)
VARIANTS["adagrad norm"] = lambda: pr.AdaGrad(pr.ListwisePerceptron(), steps="norm")
VARIANTS["adagrad scaled"] = lambda: pr.AdaGrad(pr.OnlineListNet(0.1, target="gains", scaling="running"), steps="norm")
VARIANTS["bagging scaled"] = lambda: pr.Bagging(pr.SlamPerceptron(), scaling="running")
VARIANTS["bagging:adagrad"] = lambda: pr.Bagging(pr.AdaGrad(pr.RankNet(average=True)), n_members=2, seed=4)
VARIANTS["tournament of wrappers"] = lambda: pr.Tournament(
    [pr.Bagging(pr.MinimaxPerceptron(), n_members=2), pr.AdaGrad(pr.Perceptron())]
)
VARIANTS["listwise top"] = lambda: pr.ListwisePerceptron(violators="top", class_order="mean")
VARIANTS["listwise margin"] = lambda: pr.ListwisePerceptron("ndcg@3", margin=1.0, learning_rate=0.1, average=False)
VARIANTS["listwise ap"] = lambda: pr.ListwisePerceptron("ap", class_order="index")
VARIANTS["slam ap"] = lambda: pr.SlamPerceptron("ap", class_order="index")
VARIANTS["slam ndcg mean"] = lambda: pr.SlamPerceptron("ndcg", class_order="mean")

every_learner = pytest.mark.parametrize("make", VARIANTS.values(), ids=VARIANTS.keys())


@pytest.fixture(scope="module")
def stream():
    """Noisy, learnable, with one-document queries, queries of equal grades, and duplicates."""
    rng = np.random.default_rng(11)
    sizes = rng.integers(1, 12, size=60)
    X = np.round(rng.normal(size=(sizes.sum(), 4)), 1).astype(np.float32)
    scores = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=len(X))
    grades = np.clip(np.round(scores), 0, 4)
    grades[: sizes[0]] = 0
    return pr.QueryStream.from_arrays(X, grades, group=sizes)


def innermost(learner):
    """The learners that have weights: itself, or those it is made of."""
    if not hasattr(learner, "members"):
        return [learner]
    return [inner for member in learner.members for inner in innermost(member)]


def taken_by(learner):
    """What a learner, or the one it is around, learns from."""
    return taken_by(learner.learner) if hasattr(learner, "learner") else learner.takes


def bits(learner):
    """All that a learner has learned."""
    document = learner.as_document()
    del document["parameters"]
    return document


@every_learner
@given(stream=streams(), size=st.integers(1, 300))
def test_blocks_and_single_queries_give_the_same_bits(make, stream, size):
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


@every_learner
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
    assert np.array_equal(whole.coef_, second.coef_)


@every_learner
def test_the_trace_is_what_predict_would_have_said(make, stream):
    learner, trace_learner = make(), make()
    if learner._scales_features:
        pytest.skip("while learning, the running standardiser includes the query at hand")
    trace = trace_learner.learn(stream, ["ndcg@3", "ap"])
    for q, query in enumerate(stream):
        scores = learner.predict(query.X)
        for name in ("ndcg@3", "ap"):
            assert np.array_equal(pr.parse(name)(scores, query.relevance), trace.values(name)[q], equal_nan=True)
        learner.learn_one(query.X, query.relevance)


@every_learner
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


@every_learner
def test_queries_that_teach_nothing_change_nothing_but_the_count(make):
    learner = make()
    learner.learn_one([[1.0, 2.0], [0.0, 1.0]], [0, 2])
    lists = [one for one in innermost(learner) if taken_by(one) != "documents"]
    before = [one.weights for one in lists]
    if taken_by(learner) == "documents":
        pytest.skip("learns from single documents, so every document may teach it something")
    for X, grades in (([[5.0, 1.0]], [1]), ([[5.0, 1.0], [2.0, 2.0]], [0, 0]), ([[5.0, 1.0], [2.0, 2.0]], [3, 3])):
        rounds = learner.n_rounds
        assert learner.learn_one(X, grades) is False
        assert np.array_equal([one.weights for one in lists], before)
        assert learner.n_rounds == rounds + 1


@every_learner
@pytest.mark.parametrize("grades", [[0, 32, 40], [0.25, 0.5, 0], [0, 2000, 1999], [0, 1e-300, 1.0]])
def test_unusual_grades_are_legal(make, grades):
    learner = make()
    rng = np.random.default_rng(0)
    for _ in range(20):
        learner.learn_one(rng.normal(size=(3, 2)), grades)
    assert np.isfinite(learner.weights).all()
    assert learner.n_updates > 0


def bad_queries():
    X, grades = np.ones((3, 4)), np.array([0.0, 1.0, 2.0])
    yield "NaN feature", X * np.array([1, 1, np.nan, 1]), grades, "NaN at document 0, feature 2"
    yield "infinite feature", X * np.array([1, np.inf, 1, 1]), grades, "infinity at document 0, feature 1"
    yield "negative grade", X, grades - 1, "not negative, got -1.0 at document 0"
    yield "NaN grade", X, np.full(3, np.nan), "got nan at document 0"
    yield "infinite grade", X, np.full(3, np.inf), "relevance must be finite"
    yield "too few grades", X, grades[:2], "one grade per document"
    yield "other width", X[:, :3], grades, "X has 3 features, but .* is expecting 4"
    yield "a vector", X[0], grades[:1], "X must be a matrix"
    yield "no documents", X[:0], grades[:0], "at least one document"
    yield "no features", X[:, :0], grades, r"0 feature\(s\)"
    yield "words", [["a"]], [1], "numbers"


@every_learner
@pytest.mark.parametrize("case", list(bad_queries()), ids=lambda case: case[0])
def test_bad_input_changes_nothing(make, stream, case):
    name, X, grades, message = case
    learner = make()
    learner.learn(stream)
    if learner.name.split(":")[-1] == "perceptron" and name in ("a vector", "negative grade"):
        pytest.skip("an example and a label of -1 are legal for the classification perceptron")
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


@every_learner
def test_a_bad_first_query_leaves_a_learner_that_can_still_learn(make, stream):
    learner = make()
    with pytest.raises(ValueError, match="NaN"):
        learner.learn_one([[np.nan, 1.0], [0.0, 1.0]], [1, 0])
    learner.learn(stream)
    fresh = make()
    fresh.learn(stream)
    assert bits(learner) == bits(fresh)


@every_learner
def test_overflow_is_an_error_and_changes_nothing(make, stream):
    learner = make()
    if learner._scales_features:
        pytest.skip("scaling within the query brings any numbers down to 0..1")
    learner.learn(stream)
    for one in innermost(learner):
        one._state.weights[:] = 1e100
    before = bits(learner)
    is_bounded = isinstance(
        innermost(learner)[0], (pr.SolarI, pr.SolarII)
    )  # its steps are the shorter, the longer the documents
    for size in (1e250,) if is_bounded else (1e170, 1e250):  # too large a step; too large a score
        with pytest.raises(ValueError, match="overflow at query number 60"):
            learner.learn_one([[size, 0, 0, 0], [0, size, 0, 0], [0, 0, size, -size]], [0, 0, 1])
        assert bits(learner) == before


@every_learner
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
    with pytest.raises(ValueError, match="n_passes must be a whole number of at least 1, got 0"):
        learner.fit(stream, n_passes=0)
    with pytest.raises(ValueError, match="requires y to be passed"):
        learner.fit(stream.X)
    with pytest.raises(ValueError, match="give it alone"):
        learner.fit(stream, stream.relevance)
    assert bits(learner) == before


@every_learner
def test_a_bad_block_keeps_what_the_blocks_before_it_taught(make, stream):
    narrow = pr.QueryStream.from_arrays(np.eye(2), [0, 1])
    learner, expected = make(), make()
    expected.learn(stream)
    with pytest.raises(ValueError, match="X has 2 features"):
        learner.learn(iter([stream, narrow]))
    assert bits(learner) == bits(expected)


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


@every_learner
def test_rank_predict_and_score_agree(make, stream):
    learner = make()
    learner.fit(stream)
    scores = learner.scores(stream)
    qid = np.repeat(stream.qids, np.diff(stream.offsets))
    shuffle = np.random.default_rng(0).permutation(len(qid))
    np.testing.assert_array_equal(learner.predict(stream.X[shuffle], qid=qid[shuffle]), scores[shuffle])
    np.testing.assert_array_equal(learner.predict(stream.X, group=np.diff(stream.offsets)), scores)
    query = stream[5]
    np.testing.assert_array_equal(learner.rank(query.X), np.argsort(-learner.predict(query.X), kind="stable"))
    own = getattr(learner, "measure", "ndcg@10")
    expected = pr.evaluate(learner, stream, own).mean(own)
    assert learner.score(stream) == learner.score(stream.X, stream.relevance, qid=qid) == expected
    if not learner._scales_features:
        np.testing.assert_allclose(scores, stream.X @ learner.coef_, rtol=1e-9, atol=1e-9)


def inside(stream, seed):
    """The queries in order, the documents of each shuffled."""
    order = np.argsort(stream.shuffled(seed).qids)
    return stream.shuffled(seed, documents=True)[order]


@every_learner
def test_label_sorted_input_leaks_nothing(make, stream):
    """Grades in descending order, as files often have them, must not look better than shuffled ones."""
    rows = np.lexsort((-stream.relevance, np.repeat(np.arange(len(stream)), np.diff(stream.offsets))))
    best_first = pr.QueryStream.from_arrays(stream.X[rows], stream.relevance[rows], group=np.diff(stream.offsets))
    first = best_first[1:8]
    assert make().learn(first, "ndcg@10").values("ndcg@10")[0] < 1
    if taken_by(make()) != "lists":
        pytest.skip("takes documents or pairs one by one, so their order is part of what it learns from")
    leaked = make().learn(best_first, "ndcg@10").mean("ndcg@10")
    fair = np.mean([make().learn(inside(stream, seed), "ndcg@10").mean("ndcg@10") for seed in range(8)])
    assert leaked <= fair + 0.02


@every_learner
def test_memory_mapped_features(make, stream, tmp_path):
    np.save(tmp_path / "x.npy", stream.X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    learner, expected = make(), make()
    learner.learn(pr.QueryStream.from_arrays(mapped, stream.relevance, group=np.diff(stream.offsets)))
    expected.learn(stream)
    assert bits(learner) == bits(expected)


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


@every_learner
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


@every_learner
def test_parameters_can_be_read_set_and_shown(make):
    learner = make()
    other = type(learner)(**learner.get_params(deep=False))
    assert other.get_params() == learner.get_params()
    assert repr(learner).startswith(type(learner).__name__)
    with pytest.raises(ValueError, match="has no parameter 'foo'"):
        learner.set_params(foo=1)
    before = learner.get_params()
    for name, wrong in {"learning_rate": 0, "average": "yes", "scaling": "none"}.items():
        if name not in learner.parameter_names:
            continue
        with pytest.raises(ValueError, match=name):
            learner.set_params(**{name: wrong})
        assert learner.get_params() == before
        with pytest.raises(ValueError, match=name):
            type(learner)(**learner.get_params(deep=False) | {name: wrong})


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "0.1", None])
@pytest.mark.parametrize("kind", [kind for kind in pr.algorithms().values() if "learning_rate" in kind.parameter_names])
def test_wrong_learning_rates(kind, wrong):
    with pytest.raises(ValueError, match="learning_rate must be a number > 0, got"):
        kind(learning_rate=wrong)


def test_a_changed_parameter_takes_effect():
    learner = pr.SlamPerceptron("ap", learning_rate=1.0)
    learner.learning_rate = 0.5
    learner.learn_one([[1.0], [0.0]], [0, 1])
    assert learner.weights.tolist() == [-0.5]
    listwise = pr.ListwisePerceptron()
    listwise.set_params(relative_margin=None, margin=0.5)
    listwise.margin = None
    listwise.scaling = "running"
    listwise.learn_one([[1.0], [3.0]], [0, 1])
    assert listwise.scalings_[0].count == 2


@every_learner
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("learning_rate", -1),
        ("learning_rate", 10**400),
        ("learning_rate", 1j),
        ("average", "no"),
        ("scaling", "bogus"),
        ("scaling", 5),
        ("scaling", [["running"]]),
        ("scaling", (name for name in ["running"])),
    ],
)
def test_a_wrong_parameter_is_refused_and_the_old_one_kept(make, name, wrong, stream):
    learner = make()
    if name not in learner.parameter_names:
        pytest.skip(f"it has no {name}")
    learner.learn(stream)
    before = learner.get_params(), bits(learner)
    with pytest.raises(ValueError, match=name):
        setattr(learner, name, wrong)
    with pytest.raises(ValueError, match=name):
        learner.set_params(**{name: wrong})
    assert (learner.get_params(), bits(learner)) == before


def test_a_refused_parameter_leaves_the_scaling_alone(stream):
    learner = pr.ListwisePerceptron(scaling="running")
    learner.scalings_[0].learn(stream).freeze()
    before = bits(learner)
    for name, wrong in {"margin": -1, "scaling": "bogus"}.items():
        with pytest.raises(ValueError, match=name):
            setattr(learner, name, wrong)
        assert bits(learner) == before


@every_learner
def test_interrupting_leaves_the_learner_as_it_was(make, stream, monkeypatch):
    learner = make()
    learner.learn(stream)
    before = bits(learner)

    def n_rounds():
        return sum(one.n_rounds for one in innermost(learner))

    rounds = [n_rounds()]

    def interrupt(*_):
        rounds.append(n_rounds())
        raise KeyboardInterrupt

    monkeypatch.setattr(pr.NDCG, "per_query", interrupt)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(stream, "ndcg")
    assert rounds[1] > rounds[0]
    assert bits(learner) == before


@every_learner
def test_blocks_without_queries_are_passed_over(make, stream):
    learner, expected = make(), make()
    expected.learn(stream)
    learner.learn([stream[:5], stream[5:5], stream[5:]])
    assert bits(learner) == bits(expected)


@every_learner
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


@every_learner
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


def test_an_overflow_is_located_in_the_whole_stream():
    X = np.ones((300, 2))
    X[2 * 149] = 1e200
    stream = pr.QueryStream.from_arrays(X, np.tile([0, 1], 150), group=[2] * 150)
    with pytest.raises(
        ValueError, match="query number 149, counted from the first that was ever learned: the features or"
    ):
        pr.MinimaxPerceptron().learn(stream)
    with pytest.raises(ValueError, match="query number 149"):
        pr.MinimaxPerceptron().learn(stream.blocks(100))


def test_at_most_one_margin():
    for margin in (0, 1.0):
        with pytest.raises(ValueError, match="margin or relative_margin, not both"):
            pr.ListwisePerceptron(margin=margin, relative_margin=0.5)
    for name in ("margin", "relative_margin"):
        with pytest.raises(ValueError, match=f"{name} must be a number >= 0 or None, got -1"):
            pr.ListwisePerceptron(**{name: -1})
    with pytest.raises(ValueError, match="violators must be one of 'places', 'uniform', 'top'"):
        pr.ListwisePerceptron(violators="all")


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


@pytest.mark.parametrize("kind", pr.algorithms().values())
def test_every_learner_says_what_it_takes_costs_and_promises(kind):
    assert kind.takes in ("lists", "pairs", "documents")
    assert kind.cost
    assert (kind.compared_by is None) or (kind.promise != "-")
    assert "Reference" in kind.__doc__ or kind in (pr.ListwisePerceptron,)


FIXED = [
    (pr.PRank(), "n_grades", 9),
    (pr.OapBpm(), "n_members", 30),
    (pr.OapBpm(), "n_grades", 9),
    (pr.CommitteePerceptron(), "n_members", 30),
    (pr.BufferedPairwise(), "buffer_size", 300),
    (pr.SolarII(), "covariance", "full"),
    (pr.SolarII(covariance="full"), "covariance", "diagonal"),
    (pr.AdaGrad(pr.RankNet()), "steps", "norm"),
    (pr.AdaGrad(pr.RankNet()), "learner", pr.OnlineListNet()),
    (pr.Bagging(pr.RankNet()), "learner", pr.OnlineListNet()),
    (pr.Bagging(pr.RankNet()), "n_members", 3),
    (pr.Tournament(), "learners", [pr.SlamPerceptron()]),
]


@pytest.mark.parametrize(("learner", "name", "value"), FIXED)
def test_what_was_learned_depends_on_cannot_be_changed(learner, name, value, stream, tmp_path):
    before_learning = type(learner)(**learner.get_params(deep=False)).set_params(**{name: value})
    assert getattr(before_learning, name) == value
    before_learning.learn(stream)
    learner = type(learner)(**learner.get_params(deep=False))
    learner.learn(stream)
    learner.set_params(**{name: getattr(learner, name)})
    kept = bits(learner), learner.get_params()
    with pytest.raises(ValueError, match=f"{name} cannot be changed"):
        setattr(learner, name, value)
    assert (bits(learner), learner.get_params()) == kept
    learner.save(tmp_path / "model.json")
    assert bits(pr.load(tmp_path / "model.json")) == bits(learner)


@pytest.mark.parametrize("learner", [pr.OnlineListNet(), pr.SlamPerceptron(), pr.UnevenMargins()])
def test_a_change_that_is_wrong_in_part_changes_nothing(learner):
    rule = learner._rule
    wrong = "target" if "target" in learner.parameter_names else "margin"
    with pytest.raises(ValueError, match=wrong):
        learner.set_params(learning_rate=5.0, **{wrong: "x"})
    assert learner._rule == rule
