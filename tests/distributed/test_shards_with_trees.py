"""Trees for shards: fitted once, to a sample of queries of all shards, which the learners leave out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.distributed import InProcess, ShardError, learn, mix
from perceptrank.distributed.sampling import fit_to_sample
from perceptrank.distributed.shards import as_shards
from perceptrank.transforms.trees.memory import Memory

pytest.importorskip("lightgbm")


def shaped(n=90, n_documents=8, seed=0):
    """Grades that a linear function cannot tell: of the product of two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * n_documents, 4))
    heights = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X))
    return pr.QueryStream.from_arrays(X, np.clip(np.round(heights), 0, 3), group=[n_documents] * n)


def with_trees(**settings):
    return pr.WithTrees(**{"n_trees": 3, "first_fit": 20} | settings)


def shards_of(stream, n):
    return [stream[place::n] for place in range(n)]


def fitted(ranker, parts):
    model, left_out = fit_to_sample(ranker, as_shards(parts), InProcess())
    return model.transforms[0], [left_out[f"stream {n}"] for n in range(len(parts))]


def with_grades_reversed(stream, queries):
    grades = np.array(stream.relevance)
    for q in queries:
        rows = slice(stream.offsets[q], stream.offsets[q + 1])
        grades[rows] = grades[rows][::-1]
    return pr.QueryStream.from_arrays(np.asarray(stream.X), grades, group=np.diff(stream.offsets))


@pytest.mark.parametrize("transforms", ["auto", "running"])
@pytest.mark.parametrize("n", [1, 3])
def test_it_is_learning_the_other_queries_with_these_trees(transforms, n):
    parts = shards_of(shaped(), n)
    ranker = with_trees(learner=pr.ListwisePerceptron(transforms=transforms))
    trees, left_out = fitted(ranker, parts)
    learned = learn(ranker, parts, epochs=3)
    others = [part[np.setdiff1d(np.arange(len(part)), out)] for part, out in zip(parts, left_out, strict=True)]
    twin = learn(pr.ListwisePerceptron(transforms=[trees, transforms]), others, epochs=3)
    assert ranker.trees.is_settled
    assert ranker.trees.queries == sum(map(len, left_out)) == 30
    assert ranker.as_document()["state"] == twin.ranker.as_document()["state"]
    assert np.array_equal(ranker.scores(shaped(9)), twin.ranker.scores(shaped(9)))
    for one, other in zip(learned.traces, twin.traces, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.values("ndcg"), b.values("ndcg"))
    assert len(learned.trace(2)) == 60


def test_trees_have_not_seen_the_grades_of_queries_that_are_learned():
    parts = shards_of(shaped(), 2)
    trees, left_out = fitted(with_trees(), parts)
    others = [np.setdiff1d(np.arange(45), out) for out in left_out]
    same, again = fitted(with_trees(), list(map(with_grades_reversed, parts, others)))
    assert same.forest.as_plain() == trees.forest.as_plain()
    assert list(map(list, again)) == list(map(list, left_out))
    changed, _ = fitted(with_trees(), list(map(with_grades_reversed, parts, left_out)))
    assert changed.forest.as_plain() != trees.forest.as_plain()


@settings(max_examples=30)
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_at_most_a_third_of_each_shard_is_left_out_and_nothing_else(lengths, seed):
    rng = np.random.default_rng(seed)
    parts = [shaped(40, 3, seed)[:n].with_query_weights(rng.integers(0, 2, n).astype(float)) for n in lengths]
    if sum(part.query_weights.sum() for part in parts) < 20:
        return
    ranker = with_trees(n_trees=1, seed=seed)
    traces = learn(ranker, parts).traces[0]
    thirds = [int(part.query_weights.sum()) // 3 for part in parts]
    assert ranker.trees.queries == sum(thirds)
    assert sum(map(len, traces)) == sum(lengths) - sum(thirds)


def test_samples_differ_between_shards_and_seeds_and_fit_into_the_memory():
    parts = [shaped(60), shaped(60)]
    _, (one, other) = fitted(with_trees(), parts)
    assert list(one) != list(other)
    assert list(fitted(with_trees(seed=1), parts)[1][0]) != list(one)
    size = 8 * 4 * 4 + 8 * 8 + 1000
    small, (one, other) = fitted(with_trees(memory=20 * size / 1e6), parts)
    assert 5 < len(one) <= 10
    assert 5 < len(other) <= 10
    assert small.forest is not None


@pytest.mark.parametrize("part", [0, 7])
def test_the_sample_is_uniform(part):
    """Over many seeds, each query of a shard is left out in a third of the samples."""
    counts, stream = np.zeros(30), shaped(30, 2)
    for seed in range(300):
        memory = Memory(10**9, seed, part)
        memory.add(stream.X, stream.relevance, stream.offsets, np.ones(30))
        counts[[query.number for query in memory.sample(10)]] += 1
    assert counts.sum() == 300 * 10
    assert (np.abs(counts - 100) < 4.5 * np.sqrt(300 * 2 / 9)).all()


def test_trees_find_in_shards_what_no_linear_function_can():
    pytest.importorskip("sklearn")
    stream = pr.QueryStream.concatenate(pr.teacher_stream(shaped(60, 12), 900, n_trees=30))
    parts = shards_of(stream[:700], 3)
    means = []
    for ranker in (pr.ListwisePerceptron(), pr.WithTrees(n_trees=30)):
        learn(ranker, parts, epochs=2)
        means.append(pr.evaluate(ranker, stream[700:], "ndcg@10").mean("ndcg@10"))
    assert means[1] > means[0] + 0.05, means


class Interrupted:
    """An engine that fails in the work of some number, as a cluster does that goes away."""

    def __init__(self, works):
        self.left = works

    def map(self, task, shards):
        if self.left == 0:
            raise ConnectionError("the cluster is gone")
        self.left -= 1
        yield from reversed(list(InProcess().map(task, shards)))


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("works", [0, 1, 2, 3])
def test_resuming_is_never_having_stopped(tmp_path, works, fresh):
    parts, ranker = shards_of(shaped(), 3), with_trees()
    whole = learn(with_trees(), parts, epochs=3)
    with pytest.raises(ConnectionError):
        learn(ranker, parts, Interrupted(works), epochs=3, checkpoint=tmp_path)
    if works < 2:  # nothing was learned: the trees, too, will be fitted again
        assert ranker.as_document() == with_trees().as_document()
    again = learn(with_trees() if fresh else ranker, parts, epochs=3, checkpoint=tmp_path)
    assert again.ranker.as_document() == whole.ranker.as_document()
    assert [list(map(len, epoch)) for epoch in again.traces] == [[20, 20, 20]] * 3


def test_few_queries_are_learned_without_trees_and_that_is_said():
    parts, ranker = shards_of(shaped(19), 2), with_trees()
    with pytest.warns(
        UserWarning, match="no trees were fitted.*the shards have 19 queries in all, fewer than first_fit=20"
    ):
        learned = learn(ranker, parts, epochs=2)
    assert [len(learned.trace(epoch)) for epoch in range(2)] == [19, 19]
    said = " ".join(str(pr.deploy.explain(ranker)).split())
    assert "there are no trees: the shards have 19 queries in all, fewer than first_fit=20" in said
    assert type(ranker).from_document(ranker.as_document()).as_document() == ranker.as_document()


def test_without_grades_to_fit_to_nothing_is_left_out():
    stream = shaped(30)
    equal = pr.QueryStream.from_arrays(np.asarray(stream.X), np.ones(stream.n_documents), group=[8] * 30)
    with pytest.warns(UserWarning, match="no query that is remembered has documents of different grades"):
        learned = learn(with_trees(), shards_of(equal, 2))
    assert len(learned.trace()) == 30


def test_transforms_before_the_trees_are_applied_first():
    stream = shaped()
    X = np.array(stream.X)
    X[::5, 3] = np.nan
    holed = pr.QueryStream.from_arrays(X, stream.relevance, group=[8] * 90, missing="keep")
    ranker = with_trees(learner=pr.ListwisePerceptron(transforms=["missing", "auto"]))
    learn(ranker, shards_of(holed, 3), epochs=2)
    assert ranker.trees.forest.n_features == ranker.transforms_[0].n_outputs(4)
    assert np.isfinite(ranker.scores(holed)).all()


def test_a_bad_shard_names_itself_and_leaves_the_ranker_as_it_was(tmp_path):
    stream, ranker = shaped(60), with_trees()
    files = [tmp_path / "good.txt", tmp_path / "bad.txt"]
    for file, part in zip(files, shards_of(stream, 2), strict=True):
        pr.write_letor(part, file)
    files[1].write_text(files[1].read_text() + "2 qid:x 1:nonsense\n")
    with pytest.raises(ShardError, match=r"shard 1 \(.*bad.txt\) failed: FormatError: .*nonsense"):
        learn(ranker, files)
    assert ranker.as_document() == with_trees().as_document()


def test_a_ranker_that_goes_on_keeps_its_trees():
    stream, ranker = shaped(), with_trees()
    ranker.learn(stream[:30])
    forest = ranker.trees.forest
    learned = learn(ranker, shards_of(stream[30:], 2))
    assert learned.ranker.trees.forest.as_plain() == forest.as_plain()
    assert len(learned.trace()) == 60


@pytest.mark.parametrize("transforms", [["trees", "trees"], "learned"])
def test_what_cannot_be_sampled_is_refused(transforms):
    if transforms == "learned":
        sample = with_trees()
        sample.learn(shaped(30))
        transforms = [sample.trees]
    with pytest.raises(TypeError, match=r"statistics of Trees cannot be merged.*freeze\(\) them"):
        learn(pr.ListwisePerceptron(transforms=transforms), shards_of(shaped(), 2))
    with pytest.raises(TypeError, match="statistics of Trees cannot be merged"):
        mix(with_trees(), [])
