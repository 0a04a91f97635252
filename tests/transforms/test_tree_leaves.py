"""Leaves of trees as features: a learner starts as the forest, learns its values on, and is a forest again."""

import copy
import json
import pickle

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.transforms.registry import as_plain, from_plain, make_transforms
from perceptrank.transforms.trees.forest import GOES_LEFT, NAN
from perceptrank.transforms.trees.reading import ForestBuilder

NAMES = ("a", "b", "c", "d")


def random_forest(n_trees=7, names=None, seed=0):
    """Trees of three splits: a root, its left child, and the right child of that; and one that is a leaf."""
    rng, builder = np.random.default_rng(seed), ForestBuilder()
    for _ in range(n_trees):
        missing = rng.choice([NAN, NAN + GOES_LEFT], 3)
        builder.add(rng.integers(4, size=3), rng.normal(size=3), [1, -1, -2], [-4, 2, -3], missing, rng.normal(size=4))
    builder.add([], [], [], [], [], [0.25])
    return builder.forest(4, names)


def shaped(n=40, n_documents=9, names=None, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * n_documents, 4))
    grades = np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 2]), 0, 3)
    return pr.QueryStream.from_arrays(X, grades, group=[n_documents] * n, feature_names=names)


def started(forest=None, stream=None, **settings):
    leaves = pr.TreeLeaves(forest or random_forest())
    weights = leaves.start_weights(stream or shaped())
    return pr.ListwisePerceptron(transforms=[leaves], initial_weights=weights, **settings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_are_the_leaves_that_documents_reach(dtype):
    forest, X = random_forest(), np.array(shaped().X, dtype)
    X[::5, 1] = np.nan
    outputs = pr.TreeLeaves(forest).apply(X, np.array([0, len(X)]))
    assert isinstance(outputs, SparseFeatures)
    assert outputs.dtype == dtype
    expected = np.zeros((len(X), 29), dtype)
    np.put_along_axis(expected, forest.leaves(X).astype(np.int64), 1, axis=1)
    assert np.array_equal(outputs.toarray(), expected)
    assert (outputs.toarray() ** 2).sum(axis=1).max() == pytest.approx(pr.TreeLeaves(forest).largest_norm(4, 9) ** 2)


def test_names_of_outputs():
    names = pr.TreeLeaves(random_forest(2)).output_names(None)
    assert names == (*(f"tree {tree} leaf {leaf}" for tree in (0, 1) for leaf in range(4)), "tree 2 leaf 0")


def test_before_it_learns_a_ranker_ranks_as_the_forest():
    forest, stream = random_forest(), shaped()
    ranker, theirs = started(forest, stream), forest.scores(np.asarray(stream.X))
    scores = ranker.scores(stream)
    spread = np.mean([query.std() for query in np.split(theirs, stream.offsets[1:-1])])
    assert np.allclose(scores, theirs * 3.0 * 8 / spread, rtol=1e-12, atol=1e-12)
    for own, other in zip(np.split(scores, stream.offsets[1:-1]), np.split(theirs, stream.offsets[1:-1]), strict=True):
        order = np.argsort(-other, kind="stable")
        assert (np.diff(own[order]) <= 1e-9).all()


def test_start_weights_of_blocks_and_of_constant_scores():
    leaves, stream = pr.TreeLeaves(random_forest()), shaped()
    blocks = [stream[:15], stream[15:]]
    assert np.allclose(leaves.start_weights(blocks), leaves.start_weights(stream), rtol=1e-14)
    assert np.array_equal(leaves.start_weights(stream, 6.0), 2 * leaves.start_weights(stream, 3.0))
    constant = pr.TreeLeaves(random_forest(0))
    assert constant.start_weights(stream).tolist() == [0.75]
    with pytest.raises(ValueError, match="strength must be"):
        leaves.start_weights(stream, 0.0)
    with pytest.raises(ValueError, match="stream must have queries"):
        leaves.start_weights([])


@pytest.mark.parametrize("average", [True, False])
def test_learning_goes_on_to_the_bit_and_by_one_query_as_by_many(tmp_path, average):
    stream, ranker = shaped(), started(average=average)
    ranker.learn(stream)
    looped, stopped = started(average=average), started(average=average)
    for query in stream:
        looped.learn_one(query.X, query.relevance)
    stopped.learn(stream[:17])
    stopped.save(tmp_path / "model.json")
    resumed = pr.load(tmp_path / "model.json")
    resumed.learn(stream[17:])
    assert ranker.n_updates > 0
    for other in (looped, resumed, pickle.loads(pickle.dumps(ranker)), copy.deepcopy(ranker)):
        assert np.array_equal(other.coef_, ranker.coef_)
        assert np.array_equal(other.scores(stream), ranker.scores(stream))


def test_a_learned_ranker_is_a_forest_again():
    stream, ranker = shaped(), started()
    assert np.allclose(pr.forest_of(ranker).scores(np.asarray(stream.X)), ranker.scores(stream), rtol=1e-12)
    ranker.learn(stream)
    assert np.allclose(pr.forest_of(ranker).scores(np.asarray(stream.X)), ranker.scores(stream), rtol=1e-12)


def test_other_rankers_are_no_forest():
    with pytest.raises(ValueError, match="must be TreeLeaves alone"):
        pr.forest_of(pr.ListwisePerceptron())
    with pytest.raises(ValueError, match="must have learned, or have initial weights"):
        pr.forest_of(pr.ListwisePerceptron(transforms=pr.TreeLeaves(random_forest())))


def test_missing_values_go_where_the_trees_send_them():
    stream = shaped()
    X = np.asarray(stream.X).copy()
    X[::4, 0] = np.nan
    holed = pr.QueryStream.from_arrays(X, stream.relevance, group=np.diff(stream.offsets), missing="keep")
    ranker = started(stream=holed)
    ranker.learn(holed)
    assert np.allclose(pr.forest_of(ranker).scores(X), ranker.scores(holed), rtol=1e-12)


def test_columns_are_found_by_name():
    forest, stream = random_forest(names=NAMES), shaped(names=NAMES)
    leaves, expected = pr.TreeLeaves(forest), forest.scores(np.asarray(stream.X))
    wider = np.column_stack([np.zeros(len(expected)), np.asarray(stream.X)[:, ::-1]])
    other = pr.QueryStream.from_arrays(
        wider, stream.relevance, group=np.diff(stream.offsets), feature_names=["new", *NAMES[::-1]]
    )
    assert leaves.transform(other).X == leaves.transform(stream).X
    assert np.array_equal(leaves.start_weights(other), leaves.start_weights(stream))
    ranker, renamed = started(forest, stream), started(forest, other)
    ranker.learn(stream)
    renamed.learn(other)
    assert np.array_equal(ranker.coef_, renamed.coef_)
    with pytest.raises(ValueError, match="needs the feature 'd', which the data lacks"):
        leaves.transform(shaped(names=("a", "b", "c", "x")))


@pytest.mark.parametrize("inside", ["leaves", "score"])
@pytest.mark.parametrize(
    "around", [lambda one: pr.Tournament([one]), lambda one: pr.Sum([one]), lambda one: pr.Bagging(one, n_members=1)]
)
def test_members_of_an_ensemble_find_columns_by_name(around, inside, tmp_path):
    forest, stream = random_forest(names=NAMES), shaped(names=NAMES)
    other = pr.QueryStream.from_arrays(
        np.column_stack([np.zeros(stream.n_documents), np.asarray(stream.X)[:, ::-1]]),
        stream.relevance,
        group=np.diff(stream.offsets),
        feature_names=["new", *NAMES[::-1]],
    )
    leaves = pr.TreeLeaves(forest)
    own = leaves if inside == "leaves" else pr.ScoreOf(pr.FixedRanker(forest.values, transforms=leaves))
    alone, ranker = (make(pr.ListwisePerceptron(transforms=[own])) for make in (lambda one: one, around))
    alone.learn(other)
    ranker.learn(other)
    ranker.save(tmp_path / "model.json")
    for each in (ranker, pr.load(tmp_path / "model.json")):
        assert np.corrcoef(each.scores(other), alone.scores(other))[0, 1] > 0.9
    reference = around(pr.ListwisePerceptron(transforms=[pr.TreeLeaves(forest)]))
    if inside == "leaves":
        reference.learn(stream)
        assert np.allclose(reference.scores(stream), ranker.scores(other), rtol=1e-12)


def test_state_and_copies():
    leaves = pr.TreeLeaves(random_forest(names=NAMES))
    assert copy.deepcopy(leaves) is leaves
    assert make_transforms([leaves]) == [leaves]
    assert from_plain(json.loads(json.dumps(as_plain(leaves)))) == leaves


def test_a_path_is_read(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text('<ensemble><tree weight="1"><split><output>2</output></split></tree></ensemble>')
    assert pr.TreeLeaves(path).forest.values.tolist() == [2.0]
    assert repr(pr.TreeLeaves(str(path))) == "TreeLeaves(1 trees, 1 leaves)"


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match="forest must be a Forest, or the path"):
        pr.TreeLeaves(3)
    leaves, stream = pr.TreeLeaves(random_forest()), shaped()
    with pytest.raises(ValueError, match="4 features, got 3"):
        leaves.apply(np.zeros((2, 3)), np.array([0, 2]))
    with pytest.raises(TypeError, match="dense features only"):
        leaves.transform(stream.to_sparse())
    mixed = random_forest(2).as_plain()
    mixed["right"][0], mixed["right"][3] = mixed["right"][3], mixed["right"][0]
    with pytest.raises(ValueError, match="tree after tree"):
        pr.TreeLeaves(pr.Forest.from_plain(mixed))
