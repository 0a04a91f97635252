"""Learning from shards in this process: the definition, of which the tests of engines ask for the same bits."""

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.distributed import InProcess, ShardError, learn, mix
from perceptrank.learners.registry import from_document


@pytest.fixture(scope="module")
def stream():
    return pr.separable(120, n_features=6, seed=0).stream


def shards_of(stream, n):
    return [stream[place::n] for place in range(n)]


@pytest.mark.parametrize("transforms", [None, "auto", "running", ["auto", "clip"]], ids=str)
@pytest.mark.parametrize("epochs", [1, 3])
def test_one_shard_is_plain_learning(stream, transforms, epochs):
    plain = pr.ListwisePerceptron(transforms=transforms)
    traces = [plain.learn(stream, ["ndcg@10", "ap"]) for _ in range(epochs)]
    learned = learn(pr.ListwisePerceptron(transforms=transforms), [stream], epochs=epochs, measures=["ndcg@10", "ap"])
    assert learned.ranker.as_document() == plain.as_document()
    for epoch in range(epochs):
        np.testing.assert_array_equal(learned.trace(epoch).values("ap"), traces[epoch].values("ap"))
        np.testing.assert_array_equal(learned.trace(epoch).masses, traces[epoch].masses)


@pytest.mark.parametrize("kind", [pr.ListwisePerceptron, pr.SlamPerceptron, pr.RankNet])
def test_an_epoch_is_a_pass_from_the_common_state_and_a_mixture(stream, kind):
    parts = shards_of(stream, 3)
    common, traces = kind(), []
    for _ in range(3):
        apart = [from_document(common.as_document()) for _ in parts]
        traces.append([one.learn(part) for one, part in zip(apart, parts, strict=True)])
        common = mix(common, apart)
    ranker = kind()
    learned = learn(ranker, parts, epochs=3)
    assert learned.ranker is ranker
    assert ranker.as_document() == common.as_document()
    for epoch in range(3):
        for shard in range(3):
            np.testing.assert_array_equal(learned.traces[epoch][shard].masses, traces[epoch][shard].masses)


def test_statistics_are_learned_in_the_first_epoch_and_stay(stream):
    ranker, _ = learn(pr.SlamPerceptron(transforms="running"), shards_of(stream, 3))
    first = ranker.transforms_[0].state()
    assert first["count"] == stream.n_documents
    ranker, _ = learn(ranker, shards_of(stream, 3), epochs=2)
    assert ranker.transforms_[0].state() == first
    assert type(ranker.transforms_[0]) is pr.RunningStandardizer
    assert ranker.n_queries == 3 * len(stream)


def test_sparse_shards(stream):
    sparse = [one.to_sparse() for one in shards_of(stream, 3)]
    ranker, _ = learn(pr.ListwisePerceptron(), sparse, epochs=2)
    assert ranker.transforms_[0].count == stream.n_documents
    assert np.isfinite(ranker.predict(sparse[0])).all()


def test_the_ranker_is_an_ordinary_one(stream, tmp_path):
    ranker, _ = learn(pr.ListwisePerceptron(), shards_of(stream, 4), epochs=4)
    ranker.save(tmp_path / "model.json")
    again = pr.load(tmp_path / "model.json")
    assert again.as_document() == ranker.as_document()
    np.testing.assert_array_equal(again.predict(stream), ranker.predict(stream))
    again.learn(stream)
    assert again.n_queries == 5 * len(stream)
    weights, _ = learn(pr.ListwisePerceptron(transforms=None), shards_of(stream, 4))
    assert pr.deploy.export(weights, "python").text


def test_files_of_all_formats_are_shards(stream, tmp_path):
    parts = shards_of(stream, 3)
    expected = learn(pr.ListwisePerceptron(), parts, epochs=2).ranker.as_document()
    for n, part in enumerate(parts):
        pr.write_letor(part, tmp_path / f"{n}.txt")
        pr.write_store(part, tmp_path / f"{n}.store")
        pr.write_parquet(part, tmp_path / f"{n}.parquet")
    for suffix in ("txt", "store", "parquet"):
        files = [tmp_path / f"{n}.{suffix}" for n in range(3)]
        options = {"dtype": np.float64} if suffix == "txt" else {}
        made = learn(pr.ListwisePerceptron(), files, epochs=2, **options).ranker.as_document()
        assert made["state"] == expected["state"], suffix
    pattern = learn(pr.ListwisePerceptron(), str(tmp_path / "*.txt"), epochs=2, dtype=np.float64)
    assert (
        pattern.ranker.as_document()
        == learn(
            pr.ListwisePerceptron(), [tmp_path / f"{n}.txt" for n in range(3)], epochs=2, dtype=np.float64
        ).ranker.as_document()
    )


def test_several_files_can_be_one_shard(stream, tmp_path):
    for n in range(5):
        pr.write_letor(stream[24 * n : 24 * n + 24], tmp_path / f"{n}.txt")
    files = [tmp_path / f"{n}.txt" for n in range(5)]
    plain = pr.SlamPerceptron()
    plain.learn(pr.scan_letor(files))
    assert learn(pr.SlamPerceptron(), files, shards=1).ranker.as_document() == plain.as_document()
    two = learn(pr.SlamPerceptron(), files, shards=2)
    assert len(two.traces[0]) == 2
    assert sum(len(one) for one in two.traces[0]) == 120


def test_empty_shards_do_not_count(stream):
    ranker, traces = learn(pr.SlamPerceptron(), [stream[:60], stream[:0], stream[60:]], epochs=2)
    assert ranker.as_document() == learn(pr.SlamPerceptron(), [stream[:60], stream[60:]], epochs=2)[0].as_document()
    assert [len(epoch) for epoch in traces] == [2, 2]
    with pytest.raises(ValueError, match="all shards are empty"):
        learn(pr.SlamPerceptron(), [stream[:0]])


def test_progress_is_told_after_each_shard(stream):
    seen = []
    learn(pr.SlamPerceptron(), shards_of(stream, 2), epochs=2, progress=seen.append, measures="ap")
    assert [(one.epoch, one.done, one.shards) for one in seen] == [(0, 1, 2), (0, 2, 2), (1, 1, 2), (1, 2, 2)]
    assert all(0 <= one.means["ap"] <= 1 for one in seen)


def test_traces_can_be_left_where_they_are(stream):
    assert learn(pr.SlamPerceptron(), shards_of(stream, 2), traces=False).traces == []


class Interrupted:
    """An engine that fails in some epoch, as a cluster does that goes away."""

    def __init__(self, epoch):
        self.left = epoch

    def map(self, task, shards):
        for number, outcome in InProcess().map(task, shards):
            if self.left == 0 and number == 1:
                raise ConnectionError("the cluster is gone")
            yield number, outcome
        self.left -= 1


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("transforms", ["auto", "running"])
def test_resuming_is_never_having_stopped(stream, tmp_path, transforms, fresh):
    parts = shards_of(stream, 3)
    whole = learn(pr.ListwisePerceptron(transforms=transforms), parts, epochs=4)
    ranker = pr.ListwisePerceptron(transforms=transforms)
    with pytest.raises(ConnectionError):
        learn(ranker, parts, Interrupted(2), epochs=4, checkpoint=tmp_path)
    two = learn(pr.ListwisePerceptron(transforms=transforms), parts, epochs=2).ranker
    assert ranker.as_document() == two.as_document()
    assert pr.load(tmp_path / "model.json").as_document() == two.as_document()
    if fresh:
        ranker = pr.ListwisePerceptron(transforms=transforms)
    again = learn(ranker, parts, epochs=4, checkpoint=tmp_path)
    assert again.ranker.as_document() == whole.ranker.as_document()
    for one, other in zip(again.traces, whole.traces, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.masses, b.masses)
            assert a.means() == b.means()


def test_a_checkpoint_of_another_run_is_refused(stream, tmp_path):
    parts = shards_of(stream, 2)
    learn(pr.SlamPerceptron(), parts, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="another run, which has other shards"):
        learn(pr.SlamPerceptron(), shards_of(stream, 3), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="began with another ranker"):
        learn(pr.SlamPerceptron(learning_rate=2.0), parts, checkpoint=tmp_path)
    learn(pr.SlamPerceptron(), parts, epochs=2, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="epochs must be at least 2"):
        learn(pr.SlamPerceptron(), parts, epochs=1, checkpoint=tmp_path)


def test_a_bad_file_names_itself_and_what_was_learned_stays(stream, tmp_path):
    pr.write_letor(stream[:60], tmp_path / "good.txt")
    pr.write_letor(stream[60:], tmp_path / "other.txt")
    files = [tmp_path / "good.txt", tmp_path / "other.txt"]
    ranker, _ = learn(pr.SlamPerceptron(), files)
    before = ranker.as_document()
    text = (tmp_path / "other.txt").read_text()
    (tmp_path / "other.txt").write_text(text + "2 qid:x 1:nonsense\n")
    with pytest.raises(
        ShardError, match=r"shard 1 \(.*other.txt\) failed: FormatError: .*other.txt.*nonsense"
    ) as caught:
        learn(ranker, files)
    assert caught.value.shard == 1
    assert ranker.as_document() == before


def test_a_query_in_two_files_is_told(stream, tmp_path):
    """A file that is given twice, or documents of a query that are in two files: each part is learned by itself."""
    files = [tmp_path / name for name in ("one.txt", "other.txt", "more.txt")]
    for file, part in zip(files, (stream[:40], stream[39:80], stream[80:]), strict=True):
        pr.write_letor(part, file)
    told = r"1 of 120 queries is in several files, such as .*one.txt and .*other.txt: .* as a query of its own"
    with pytest.warns(UserWarning, match=told):
        learned = learn(pr.SlamPerceptron(), files, epochs=2)
    assert learned.ranker.n_queries == 2 * (len(stream) + 1)
    with pytest.warns(UserWarning, match="40 of 40 queries are in several files, such as .*one.txt and .*one.txt"):
        learn(pr.SlamPerceptron(), [files[0], files[0]], traces=False)
    learn(pr.SlamPerceptron(), files[1:], epochs=2)  # no warning, which would be an error here


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"epochs": 0}, ValueError, "epochs"),
        ({"mixed_by": "votes"}, ValueError, "mixed_by"),
        ({"client": 3}, TypeError, "client must be"),
        ({"parts": []}, ValueError, "parts must not be empty"),
        ({"parts": 3}, TypeError, "parts must be files"),
        ({"parts": "no such file"}, FileNotFoundError, "no such file"),
        ({"ranker": pr.OnlineRidge()}, TypeError, "ridge cannot be mixed: the mean of its"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"shards": 0}, ValueError, "shards"),
        ({"sparse": True}, TypeError, "sparse apply to files only"),
    ],
)
def test_what_is_refused(stream, given, error, message):
    arguments = {"ranker": pr.SlamPerceptron(), "parts": [stream]} | given
    with pytest.raises(error, match=message):
        learn(**arguments)
