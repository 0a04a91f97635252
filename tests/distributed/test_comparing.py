"""Comparing learners on a cluster: the bits of the comparison in one pass."""

import numpy as np
import pytest
from support.learners import bits

import perceptrank as pr
from perceptrank.distributed import ShardError, compare

MEASURES = ["ndcg@10", "ap"]


@pytest.fixture(scope="module")
def stream():
    return pr.mslr_shaped(120, n_documents=8, n_features=5, seed=0)


def some_learners():
    return {
        "listwise": pr.ListwisePerceptron(transforms="running"),
        "slam 1": pr.SlamPerceptron(learning_rate=1.0),
        "slam 2": pr.SlamPerceptron(learning_rate=0.01, average=True),
        "ridge": pr.OnlineRidge(),
        "bagging": pr.Bagging(pr.SlamPerceptron(), n_members=3),
    }


def assert_same(one, other):
    assert list(one.traces) == list(other.traces)
    for name, trace in one.traces.items():
        np.testing.assert_array_equal(trace.masses, other.traces[name].masses)
        for measure in MEASURES:
            np.testing.assert_array_equal(trace.values(measure), other.traces[name].values(measure))
    assert one.standings() == other.standings()
    assert one.dropped == other.dropped


@pytest.fixture(scope="module", params=["here", pytest.param("threads", marks=pytest.mark.engine)])
def client(request):
    if request.param == "here":
        yield None
        return
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    )
    with cluster, distributed.Client(cluster) as made:
        yield made


@pytest.mark.filterwarnings("default")
def test_the_bits_of_compare(client, stream, tmp_path):
    """From a stream in memory and from files, and learners that have learned before go on."""
    pr.write_store(stream[:70], tmp_path / "1.store")
    pr.write_store(stream[70:], tmp_path / "2.store")
    files = [tmp_path / "1.store", tmp_path / "2.store"]
    here, there, read = some_learners(), some_learners(), some_learners()
    told = []
    for _ in range(2):
        expected = pr.compare(here, stream, MEASURES)
        assert_same(compare(there, stream, MEASURES, client, progress=lambda *done: told.append(done)), expected)
        assert_same(compare(read, files, MEASURES, client), expected)
    for name, learner in here.items():
        assert bits(learner) == bits(there[name]) == bits(read[name])
    assert told == [(n, 5) for n in range(1, 6)] * 2


@pytest.mark.filterwarnings("default")
def test_learners_that_fail(client, stream):
    huge = stream.with_features(stream.X.astype(np.float64) * 1e200)

    def failing():
        return {
            "slam": pr.SlamPerceptron(transforms=None),
            "ridge": pr.OnlineRidge(),
            "ranks": pr.SlamPerceptron(transforms="query-rank"),
        }

    expected = pr.compare(failing(), huge, MEASURES, on_error="drop")
    assert expected.dropped
    assert_same(compare(failing(), huge, MEASURES, client, on_error="drop"), expected)
    name, reason = next(iter(expected.dropped.items()))
    with pytest.raises((ValueError, ArithmeticError)) as error:
        compare({name: failing()[name]}, huge, MEASURES, client)
    assert str(error.value) == f"{name}: {reason}"
    with pytest.raises(ValueError, match="all learners failed; " + name):
        compare({name: failing()[name]}, huge, MEASURES, client, on_error="drop")


@pytest.mark.filterwarnings("default")
def test_a_bad_file_is_not_the_learners_fault(client, stream, tmp_path):
    (tmp_path / "bad.txt").write_text("1 qid:1 1:nonsense\n")
    learner = pr.SlamPerceptron()
    with pytest.raises(ShardError, match=r"learner 0 \(slam\) failed.*FormatError: .*bad.txt:1:.*nonsense"):
        compare([learner], tmp_path / "bad.txt", client=client, on_error="drop")
    assert learner.n_queries == 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"learners": []}, ValueError, "at least one learner"),
        ({"learners": [3]}, TypeError, "learners must be learners"),
        ({"stream": iter([])}, TypeError, "re-iterable"),
        ({"measures": []}, ValueError, "at least one measure"),
        ({"on_error": "ignore"}, ValueError, "on_error"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"client": 3}, TypeError, "client must be"),
        ({"n_features": 3}, TypeError, "n_features apply to files only"),
        ({"stream": "no such file"}, FileNotFoundError, "no such file"),
    ],
)
def test_what_is_refused(stream, given, error, message):
    with pytest.raises(error, match=message):
        compare(**({"learners": [pr.SlamPerceptron()], "stream": stream} | given))
