"""Trees that are fitted again as queries come: the forest, the memory, the transform and what learners make of it."""

import copy
import itertools
import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.transforms.trees import fitting
from perceptrank.transforms.trees.fitting import as_labels, fit_forest
from perceptrank.transforms.trees.memory import Memory
from perceptrank.transforms.trees.reading import parse_lightgbm

lightgbm = pytest.importorskip("lightgbm")


def shaped(n=120, n_documents=12, n_features=5, seed=0):
    """Grades that a linear function cannot tell: of the product of two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * n_documents, n_features))
    heights = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X))
    return pr.QueryStream.from_arrays(X, np.clip(np.round(heights), 0, 3), group=[n_documents] * n)


def remembered(stream, room=10**9, seed=0):
    memory = Memory(room, seed)
    memory.add(stream.X, stream.relevance, stream.offsets, np.ones(len(stream)))
    return memory


# The forest


def booster_of(stream, n_trees=5, **settings):
    data = lightgbm.Dataset(np.asarray(stream.X), stream.relevance, group=np.diff(stream.offsets))
    fixed = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "num_leaves": 8}
    return lightgbm.train(fixed | settings, data, n_trees)


def slow_leaf(forest, row, tree):
    """The leaf of one document, by the definition."""
    node = forest.roots[tree]
    while node >= 0:
        value, kind = row[forest.features[node]], int(forest.missing[node])
        counts, goes_left = kind & 3, bool(kind & 4)
        value = 0.0 if np.isnan(value) and counts == 0 else value
        is_missing = (counts > 0 and np.isnan(value)) or (counts == 1 and abs(value) <= 1e-35)
        left = goes_left if is_missing else value <= forest.thresholds[node]
        node = (forest.left if left else forest.right)[node]
    return -1 - node


@pytest.mark.kernel
@pytest.mark.parametrize("settings", [{}, {"zero_as_missing": True}, {"use_missing": False}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_and_leaves_are_those_of_lightgbm_and_of_the_definition(settings, dtype):
    stream = shaped()
    X = np.asarray(stream.X).astype(dtype)
    X[::3, 2], X[::7, 1] = 0.0, np.nan
    holed = pr.QueryStream.from_arrays(X, stream.relevance, group=np.diff(stream.offsets), missing="keep")
    booster = booster_of(holed, **settings)
    forest = parse_lightgbm(booster.model_to_string())
    assert np.array_equal(forest.scores(X), booster.predict(X, raw_score=True))
    leaves = forest.leaves(X)
    starts = np.cumsum([0, *(tree["num_leaves"] for tree in booster.dump_model()["tree_info"])])[:-1]
    assert np.array_equal(leaves - starts, booster.predict(X, pred_leaf=True))
    assert leaves[:50].tolist() == [[slow_leaf(forest, row, tree) for tree in range(5)] for row in X[:50]]
    again = pr.Forest.from_plain(json.loads(json.dumps(forest.as_plain())))
    assert np.array_equal(again.scores(X), forest.scores(X))


def test_importance_finds_the_features_that_decide():
    forest = fit_forest(remembered(shaped()).queries(), 20, 0)
    shares = forest.importance()
    assert shares.sum() == pytest.approx(1.0)
    assert set(np.argsort(-shares)[:2].tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_features": 1}, "columns from 0 to 0"),
        ({"left": [5]}, "as many as its nodes"),
        ({"features": [10**9]}, "as many as its nodes"),
        ({"values": [1.0]}, "must have one parent"),
        ({"missing": [3]}, "as many as its nodes"),
        ({"thresholds": ["x"]}, "must be 1 numbers"),
        ({"is_single": 1}, "true or false"),
        ({"names": ["a"]}, "must be 5 texts"),
    ],
)
def test_a_damaged_forest_is_refused(change, said):
    plain = parse_lightgbm(booster_of(shaped(), 1).model_to_string()).as_plain()
    with pytest.raises(ValueError, match=said):
        pr.Forest.from_plain(plain | change)


def test_a_loop_is_no_tree():
    plain = parse_lightgbm(booster_of(shaped(), 1).model_to_string()).as_plain()
    for side in ("left", "right"):
        for place, child in enumerate(plain[side]):
            if child >= 0:
                looped = copy.deepcopy(plain)
                looped[side][place] = place
                with pytest.raises(ValueError, match="higher numbers than their parents"):
                    pr.Forest.from_plain(looped)


# The memory


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=60),
    room=st.integers(600, 40_000),
    seed=st.integers(0, 2**40),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_memory_keeps_the_smallest_draws_that_fit(lengths, room, seed, cuts):
    """In blocks, resumed, or in one go: the same queries, in their order, never more than there is room for."""
    rng = np.random.default_rng(0)
    X, grades = rng.normal(size=(sum(lengths), 3)), rng.integers(0, 3, sum(lengths)).astype(float)
    stream = pr.QueryStream.from_arrays(X, grades, group=lengths)
    whole, parts = remembered(stream, room, seed), Memory(room, seed)
    ends = sorted({0, len(lengths), *(min(cut, len(lengths)) for cut in cuts)})
    for start, stop in itertools.pairwise(ends):
        block = stream[start:stop]
        parts.add(block.X, block.relevance, block.offsets, np.ones(len(block)))
        parts = Memory.from_plain(json.loads(json.dumps(parts.as_plain())), room, seed, 3 if len(parts) else 0)
    assert whole.as_plain() == parts.as_plain()
    assert whole.size == sum(query.size for query in whole.queries()) <= room
    for query in whole.queries():
        rows = slice(stream.offsets[query.number], stream.offsets[query.number + 1])
        assert np.array_equal(query.X, X[rows].astype(np.float32))
        assert np.array_equal(query.relevance, grades[rows])
    assert whole.seen == len(lengths)


def test_memory_is_a_uniform_sample():
    """Early and late queries are kept alike: of 400, in 200 memories, each as often as the others up to chance."""
    kept = np.zeros(400)
    X, offsets = np.zeros((800, 2)), np.arange(0, 801, 2)
    for seed in range(200):
        memory = Memory(40 * 1_032, seed)
        memory.add(X, np.zeros(800), offsets, np.ones(400))
        kept[[query.number for query in memory.queries()]] += 1
    share = kept.mean() / 200
    assert 35 / 400 <= share <= 40 / 400
    deviation = np.sqrt(200 * share * (1 - share))
    assert abs(kept - kept.mean()).max() < 5 * deviation
    assert abs(kept[:200].mean() - kept[200:].mean()) < 5 * deviation / np.sqrt(100)


def test_a_copy_of_a_memory_can_go_another_way():
    stream = shaped(3)
    memory = remembered(stream[:1])
    twin = memory.copy()
    for one, block in ((memory, stream[1:2]), (twin, stream[2:])):
        one.add(block.X, block.relevance, block.offsets, np.ones(1))
    assert np.array_equal(memory.queries()[1].X, np.float32(stream[1].X))
    assert np.array_equal(twin.queries()[1].X, np.float32(stream[2].X))


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": [3, 2]},
        {"lengths": [0, 24]},
        {"lengths": [10**12, 1]},
        {"features": "AAAA"},
        {"features": "?"},
        {"grades": None},
        {"weights": [0.0, 1.0]},
        {"limit": 2.0},
        {"seen": -1},
    ],
)
def test_a_damaged_memory_is_refused(change):
    plain = remembered(shaped(2)).as_plain()
    with pytest.raises(ValueError, match=r"remember|must"):
        Memory.from_plain(plain | change, 10**6, 0, 5)


def test_grades_become_labels_with_their_gains():
    labels, gains = as_labels(np.array([0.0, 2.0, 0.5, 2.0]))
    assert labels.tolist() == [0, 2, 1, 2]
    np.testing.assert_allclose(gains, [0, 2**0.5 - 1, 3])
    labels, gains = as_labels(np.linspace(0, 40, 10_000))
    assert len(gains) <= 256
    assert labels.max() == len(gains) - 1
    assert gains.max() == 2**31 - 1


# Learning


def test_trees_are_fitted_at_doublings_and_rank_a_tenth_later():
    stream, ranker = shaped(90), pr.WithTrees(n_trees=3, first_fit=20)
    fitted = []
    for number, query in enumerate(stream, 1):
        ranker.learn_one(query.X, query.relevance)
        fitted.append((number, ranker.trees.forest))
    changes = [number for (_, before), (number, after) in itertools.pairwise(fitted) if after is not before]
    assert changes == [22, 44, 88]
    expected = fit_forest(remembered(stream[:40]).queries(), 3, 0)
    assert np.array_equal(fitted[50][1].scores(stream.X), expected.scores(stream.X))


def test_the_timing_of_a_fit_changes_nothing(monkeypatch):
    """A fit that takes long is waited for at the query from which on it ranks, and not before."""
    gate, stream = threading.Event(), shaped(60)

    def slow(*given):
        assert gate.wait(60)
        return fit_forest(*given)

    prompt = pr.WithTrees(n_trees=3, first_fit=20)
    prompt.learn(stream)
    monkeypatch.setattr(fitting, "fit_forest", slow)
    late = pr.WithTrees(n_trees=3, first_fit=20)
    late.learn(stream[:21])
    assert late.trees.forest is None
    gate.set()
    late.learn(stream[21:])
    assert late.as_document() == prompt.as_document()


@pytest.mark.parametrize("cut", [10, 20, 21, 22, 23, 41, 59])
def test_saved_between_fit_and_swap_it_goes_on_with_the_same_bits(cut, tmp_path):
    stream, whole, resumed = (shaped(60), *(pr.WithTrees(n_trees=3, first_fit=20, memory=0.05) for _ in range(2)))
    trace = whole.learn(stream, "ndcg@10")
    first = resumed.learn(stream[:cut], "ndcg@10")
    resumed.save(tmp_path / "model.json")
    resumed = pr.load(tmp_path / "model.json")
    rest = resumed.learn(stream[cut:], "ndcg@10")
    assert resumed.as_document() == whole.as_document()
    assert whole.trees.n_remembered < 60
    both = np.concatenate([first.values("ndcg@10"), rest.values("ndcg@10")])
    assert np.array_equal(both, trace.values("ndcg@10"), equal_nan=True)


def test_each_query_is_ranked_before_the_trees_see_its_grades():
    """Whatever the grades of a query are, the rankings of it and of all before it stay the same."""
    stream = shaped(60)
    grades = np.array(stream.relevance)
    grades[stream.offsets[40] :] = grades[stream.offsets[40] :][::-1]
    other = pr.QueryStream.from_arrays(np.asarray(stream.X), grades, group=np.diff(stream.offsets))
    rankers = [pr.WithTrees(n_trees=3, first_fit=20) for _ in range(2)]
    for ranker, one in zip(rankers, (stream, other), strict=True):
        ranker.learn(one[:40])
    assert np.array_equal(rankers[0].scores(stream[40:]), rankers[1].scores(stream[40:]))


def test_trees_find_what_no_linear_function_can():
    stream = shaped(500)
    linear, trees = pr.ListwisePerceptron(), pr.WithTrees(first_fit=125)
    values = [np.nanmean(ranker.learn(stream, "ndcg@10").values("ndcg@10")[-200:]) for ranker in (linear, trees)]
    assert values[1] > values[0] + 0.1


def test_queries_of_weight_0_are_not_remembered():
    stream = shaped(30)
    weights = np.arange(30) % 3.0
    ranker = pr.WithTrees(n_trees=3, first_fit=20)
    ranker.learn(stream.with_query_weights(weights))
    assert ranker.trees.n_remembered == ranker.trees.queries == 20
    assert ranker.trees.forest is None
    ranker.learn(stream)
    plain = pr.WithTrees(n_trees=3, first_fit=20)
    plain.learn(stream)
    assert not np.array_equal(plain.trees.forest.values, ranker.trees.forest.values)


def test_without_grades_to_learn_from_there_are_no_trees_and_a_reason():
    stream = shaped(30)
    equal = pr.QueryStream.from_arrays(np.asarray(stream.X), np.ones(stream.n_documents), group=np.diff(stream.offsets))
    ranker = pr.WithTrees(n_trees=3, first_fit=10)
    ranker.learn(equal)
    assert ranker.trees.forest is None
    assert "different grades" in ranker.trees.problem
    ranker.learn(stream)
    assert ranker.trees.forest is not None
    assert ranker.trees.problem == ""


def test_a_fit_that_fails_leaves_the_trees_before_it(monkeypatch):
    stream, ranker = shaped(60), pr.WithTrees(n_trees=3, first_fit=20)
    ranker.learn(stream[:30])
    before = ranker.trees.forest

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(fitting, "fit_forest", fail)
    with pytest.warns(UserWarning, match="the fit after 40 queries failed, so the trees before it stay: MemoryError"):
        ranker.learn(stream[30:])
    assert ranker.trees.forest is before
    assert ranker.n_queries == 60


def test_queries_too_long_for_lightgbm_are_left_out_of_fits_and_that_is_said(monkeypatch):
    monkeypatch.setattr("perceptrank.transforms.trees.fitting._LONGEST", 7)
    ranker = pr.WithTrees(n_trees=3, first_fit=20)
    with pytest.warns(UserWarning, match="all queries that are remembered have more than the 7 documents"):
        ranker.learn(pr.QueryStream.from_arrays(np.eye(8)[np.arange(240) % 8], [0, 1] * 120, group=[8] * 30))
    assert ranker.trees.forest is None


def test_an_error_leaves_learner_and_memory_as_they_were():
    stream, ranker, twin = (shaped(60), *(pr.WithTrees(n_trees=3, first_fit=20) for _ in range(2)))
    ranker.learn(stream[:30])
    bad = np.array(stream[30:45].X)
    bad[-1, 0] = np.nan
    with pytest.raises(ValueError, match=r"missing|finite"):
        ranker.learn(pr.QueryStream.from_arrays(bad, stream[30:45].relevance, group=[12] * 15, missing="keep"))
    ranker.learn(stream[30:])
    twin.learn(stream)
    assert ranker.as_document() == twin.as_document()


def test_missing_values_are_filled_in_before_trees_see_them():
    stream = shaped(60)
    X = np.array(stream.X)
    X[::5, 3] = np.nan
    holed = pr.QueryStream.from_arrays(X, stream.relevance, group=np.diff(stream.offsets), missing="keep")
    ranker = pr.WithTrees(pr.ListwisePerceptron(transforms=["missing", "auto"]), n_trees=3, first_fit=20)
    ranker.learn(holed)
    assert ranker.trees.forest.n_trees == 3
    assert np.isfinite(ranker.scores(holed)).all()


def test_the_transform_can_be_part_of_any_learner():
    stream = shaped(60)
    by_hand = pr.ListwisePerceptron(transforms=[pr.Trees(n_trees=3, first_fit=20), "auto"])
    named = pr.ListwisePerceptron(transforms=["trees:n_trees=3,first_fit=20", "auto"])
    wrapped = pr.WithTrees(n_trees=3, first_fit=20)
    for ranker in (by_hand, named, wrapped):
        ranker.learn(stream)
    assert np.array_equal(by_hand.scores(stream), wrapped.scores(stream))
    assert np.array_equal(by_hand.scores(stream), named.scores(stream))


@pytest.mark.parametrize("around", [pr.Tournament, pr.Sum])
def test_in_an_ensemble_it_learns_as_alone(around):
    stream = shaped(60)
    alone = pr.WithTrees(n_trees=3, first_fit=20)
    ensemble = around([pr.ListwisePerceptron(), pr.WithTrees(n_trees=3, first_fit=20)])
    alone.learn(stream)
    ensemble.learn(stream)
    assert ensemble.members[1].as_document() == alone.as_document()


def test_frozen_trees_stay_and_need_no_memory():
    stream, ranker = shaped(60), pr.WithTrees(n_trees=3, first_fit=20)
    ranker.learn(stream[:30])
    forest = ranker.trees.freeze().forest
    assert ranker.trees.n_remembered == 0
    ranker.learn(stream[30:])
    assert ranker.trees.forest is forest
    assert ranker.trees.n_remembered == 0
    assert type(ranker).from_document(ranker.as_document()).as_document() == ranker.as_document()


@given(seed=st.integers(0, 1000))
def test_the_theorem_holds_on_the_features_as_they_were(seed):
    """The score depends on the past alone: moved weight is bounded against every fixed ranker of [X, score]."""
    stream = shaped(50, n_documents=6, n_features=3, seed=seed)
    ranker = pr.WithTrees(pr.ListwisePerceptron(transforms=None, average=False), n_trees=2, first_fit=10)
    seen = []
    for query in stream:
        seen.append(np.column_stack([query.X, ranker.trees.apply(query.X, np.array([0, 6]))[:, -1]]))
        ranker.learn_one(query.X, query.relevance)
    as_it_was = pr.QueryStream.from_arrays(np.concatenate(seen), stream.relevance, group=[6] * 50)
    twin = pr.ListwisePerceptron(transforms=None, average=False)
    twin.learn(as_it_was)
    assert np.array_equal(twin.weights, ranker.weights)
    diameter = pr.theory.diameter(as_it_was)
    comparator = pr.theory.comparator(as_it_was, "ndcg", penalty=diameter**2 / 4, surrogate="level-pair")
    certificate = ranker.certificate(comparator=comparator, diameter=diameter)
    assert certificate.holds
    assert len(certificate.promises) == 3
    assert ranker.guarantee(comparator=comparator, diameter=diameter) >= certificate.loss_bound * (1 - 1e-9)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_trees": 0}, "n_trees must be a whole number > 0, got 0"),
        ({"memory": 0}, "memory must be a number of megabytes > 0, got 0"),
        ({"first_fit": 1.5}, "first_fit must be a whole number > 0, got 1.5"),
        ({"seed": -1}, "seed must be"),
        ({"learner": pr.ClickPerceptron()}, "learner must be one that learns from grades"),
        ({"learner": pr.FixedRanker({"a": 1.0})}, "learner must be one that learns from grades"),
        ({"learner": "listwise"}, "learner must be a learner"),
    ],
)
def test_bad_settings(settings, said):
    with pytest.raises(ValueError, match=said):
        pr.WithTrees(**settings)


def test_clicks_are_no_grades():
    ranker = pr.ClickPerceptron(transforms=["trees", "auto"])
    shown = ranker.show(np.eye(3), rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"clicks learns from clicks, and its transform Trees\(100\) from grades"):
        ranker.learn_clicks(shown, [1, 0, 0])


def test_shards_can_share_frozen_trees():
    stream = shaped(60)
    sample = pr.WithTrees(n_trees=3, first_fit=20)
    sample.learn(stream[:30])
    shared = pr.ListwisePerceptron(transforms=[sample.trees.freeze(), "auto"])
    ranker, _ = pr.distributed.learn(shared, [stream[:30], stream[30:]], epochs=2)
    assert ranker.n_queries == 120
    assert ranker.transforms_[0].forest is not None


def test_sparse_features_are_refused():
    stream = pr.QueryStream.from_arrays(np.eye(4), [0, 1, 0, 1], group=[2, 2]).to_sparse()
    with pytest.raises(TypeError, match="trees take dense features only"):
        pr.WithTrees().learn(stream)


@given(data=st.data())
def test_a_damaged_model_file_is_an_error_or_a_ranker(data, tmp_path_factory):
    ranker = pr.WithTrees(n_trees=2, first_fit=20)
    ranker.learn(shaped(21))
    text = json.dumps(ranker.as_document()["transforms"])
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from('0123456789-.eE[]{}",ntf')) + text[place + 1 :]
    try:
        document = ranker.as_document() | {"transforms": json.loads(changed)}
        restored = pr.WithTrees.from_document(document)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
        return
    assert np.isfinite(restored.scores(shaped(3))).all()


# Road out


@pytest.mark.parametrize("queries", [15, 90])
@pytest.mark.parametrize("transforms", ["auto", "running"])
def test_an_onnx_graph_ranks_as_the_model_does(transforms, queries):
    """With and without trees, and with one that is nothing but a leaf."""
    pytest.importorskip("onnxruntime")
    stream = shaped(90)
    ranker = pr.WithTrees(pr.ListwisePerceptron(transforms=transforms), n_trees=5, first_fit=20)
    ranker.learn(stream[:queries])
    forest = ranker.trees.forest
    assert (forest is None) == (queries == 15)
    parity = pr.deploy.parity(ranker, stream, "onnx")
    assert parity.same == parity.queries == 90
    assert parity.difference < 1e-9


def test_other_targets_say_the_way_out():
    ranker = pr.WithTrees(n_trees=5, first_fit=20)
    ranker.learn(shaped(30))
    with pytest.raises(ValueError, match="export to 'onnx', whose graph ranks a whole query"):
        pr.deploy.export(ranker, "python")


def test_an_explanation_says_what_the_trees_are_made_of():
    ranker = pr.WithTrees(n_trees=5, first_fit=20)
    ranker.learn(shaped(15))
    assert "there are no trees yet: the first are fitted after 20 queries" in str(pr.deploy.explain(ranker))
    ranker.learn(shaped(90, seed=1))
    explanation = pr.deploy.explain(ranker, shaped(20, seed=2))
    assert "trees" in explanation.importance
    assert set(explanation.importance) <= {"f1", "f2", "f3", "f4", "f5", "trees"}
    assert "5 trees of" in str(explanation)


def test_a_wrapper_around_a_wrapper(tmp_path):
    """Each of them passes the state on to the learner that is its own."""
    stream = pr.mslr_shaped(60, n_documents=6, n_features=4, seed=1)
    whole, part = (pr.WithTrees(pr.AdaGrad(pr.RankNet()), first_fit=30, n_trees=5) for _ in range(2))
    whole.learn(stream)
    part.learn(stream[:31])
    part.save(tmp_path / "model.json")
    part = pr.load(tmp_path / "model.json")
    part.learn(stream[31:])
    np.testing.assert_array_equal(part.weights, whole.weights)
    assert whole.weights.any()
