import numpy as np
import pytest
from support.learners import bits

import perceptrank as pr

STREAM = pr.separable(400, n_features=6, label_noise=0.2, seed=5).stream


def traces(values):
    return {f"learner {i}": pr.Trace({pr.NDCG(10): row}, np.zeros(len(row))) for i, row in enumerate(values)}


@pytest.mark.parametrize("n_threads", [2, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 5))])
def test_each_learns_what_it_would_have_learned_alone(n_threads, monkeypatch):
    monkeypatch.setattr("perceptrank.evaluation.comparing.BLOCK_BYTES", 5000)
    together = {name: kind() for name, kind in pr.algorithms().items()}
    blocks = (STREAM[start : start + 90] for start in range(0, 400, 90))
    seen = []
    result = pr.compare(together, blocks, ["ndcg@10", "ap"], n_threads=n_threads, on_block=seen.append)
    for name, kind in pr.algorithms().items():
        alone = kind()
        trace = alone.learn(STREAM, ["ndcg@10", "ap"])
        assert bits(alone) == bits(together[name])
        for measure in ("ndcg@10", "ap"):
            assert np.array_equal(result.traces[name].values(measure), trace.values(measure), equal_nan=True)
    assert len(seen) > 5
    assert sum(len(block["slam"]) for block in seen) == 400


def test_learners_with_the_same_transforms_share_them():
    applied = []

    def counted(self, X, offsets):
        applied.append(len(X))
        return X / 2

    halves = type("Halves", (pr.Transform,), {"name": "halves", "apply": counted})()
    huge = pr.OnlineListNet(transforms=halves, learning_rate=1e200)
    kinds = {"a": pr.ListwisePerceptron, "b": pr.SlamPerceptron, "c": pr.ListwisePerceptron}
    together = {name: kind(transforms=halves) for name, kind in kinds.items()} | {"huge": huge}
    others = {
        "raw": pr.SlamPerceptron(),
        "learns": pr.ListwisePerceptron(transforms="running"),
        "d": pr.MinimaxPerceptron(),
    }
    result = pr.compare(together | others, STREAM, n_threads=1, on_error="drop")
    assert applied == [STREAM.n_documents, 20]  # the second is the query that failed, for its error
    assert list(result.dropped) == ["huge"]
    assert list(result.traces) == [*kinds, *others]
    for name, kind in kinds.items():
        alone = kind(transforms=halves)
        assert np.array_equal(result.traces[name].values("ndcg@10"), alone.learn(STREAM, "ndcg@10").values("ndcg@10"))
        assert np.array_equal(alone.weights, together[name].weights)


def test_names():
    learners = [pr.SlamPerceptron(), pr.ListwisePerceptron(), pr.SlamPerceptron(learning_rate=1.0)]
    assert list(pr.compare(learners, STREAM[:5]).traces) == ["slam 1", "listwise", "slam 2"]
    assert list(pr.compare({"a": pr.Perceptron()}, STREAM[:5]).traces) == ["a"]
    assert "1 learners, 5 queries" in repr(pr.compare({"a": pr.Perceptron()}, STREAM[:5]))


def test_standings_are_ordered_and_say_what_is_real():
    rng = np.random.default_rng(0)
    hard = rng.random(2000)  # what makes a query hard for all cancels in differences
    values = np.stack([0.5 * hard + 0.02 * rng.normal(size=2000) + lift for lift in (0.2, 0.26, 0.259)])
    best, second, third = pr.Comparison(traces(values)).standings()
    assert [best.name, third.name] == ["learner 1", "learner 0"]
    assert best.behind == best.behind_low == best.behind_high == 0
    assert not best.is_behind
    assert not second.is_behind
    assert second.behind_low < 0 < second.behind_high
    assert third.is_behind
    assert third.behind == pytest.approx(0.06, abs=0.005)
    assert third.behind_low < third.behind < third.behind_high
    for one in (best, second, third):
        assert one.low < one.mean < one.high
        assert one.high - one.low > 4 * (third.behind_high - third.behind_low)


@pytest.mark.parametrize("n_learners", [8, pytest.param(2, marks=pytest.mark.deep)])
def test_equal_learners_are_rarely_called_different(n_learners):
    """Not more often than the confidence says, though the best of them is chosen after the fact."""
    rng = np.random.default_rng(n_learners)
    wrong = 0
    for seed in range(150):
        values = rng.random(120) + rng.normal(size=(n_learners, 120)) * rng.uniform(0.1, 1, size=(n_learners, 1))
        standings = pr.Comparison(traces(values)).standings(confidence=0.9, n_resamples=400, seed=seed)
        wrong += any(one.is_behind for one in standings)
    assert wrong / 150 < 0.1 + 3 * np.sqrt(0.09 / 150)


def test_the_same_learner_twice_is_level():
    values = np.tile(np.random.default_rng(1).random(50), (2, 1))
    for one in pr.Comparison(traces(values)).standings():
        assert (one.behind, one.behind_low, one.behind_high, one.is_behind) == (0, 0, 0, False)


def test_few_queries_prove_nothing():
    values = np.array([[1.0] * 29, [0.0] * 29])
    best, other = pr.Comparison(traces(values)).standings()
    assert (best.mean, other.mean, other.behind) == (1, 0, 1)
    assert np.isnan([best.low, best.high, other.behind_low, other.behind_high]).all()
    assert not other.is_behind


def test_queries_that_do_not_count_are_left_out():
    values = np.array([[1.0, np.nan, 0.0], [0.5, np.nan, 0.0]])
    assert [one.mean for one in pr.Comparison(traces(values)).standings()] == [0.5, 0.25]
    with pytest.raises(ValueError, match="no query counts"):
        pr.Comparison(traces(np.full((2, 3), np.nan))).standings()


def test_bad_input():
    with pytest.raises(ValueError, match="at least one learner"):
        pr.compare([], STREAM)
    with pytest.raises(TypeError, match="got one learner"):
        pr.compare(pr.SlamPerceptron(), STREAM)
    with pytest.raises(ValueError, match="at least one measure"):
        pr.compare([pr.SlamPerceptron()], STREAM, [])
    with pytest.raises(TypeError, match="got str for 'str'"):
        pr.compare(["slam"], STREAM)
    one = pr.SlamPerceptron()
    with pytest.raises(ValueError, match="given twice"):
        pr.compare([one, one], STREAM)
    with pytest.raises(ValueError, match="no queries"):
        pr.compare([one], [])
    with pytest.raises(ValueError, match="n_threads"):
        pr.compare([one], STREAM, n_threads=0)
    with pytest.raises(ValueError, match="confidence"):
        pr.compare([one], STREAM).standings(confidence=2)
    with pytest.raises(ValueError, match="slam: X has 2 features"):
        pr.compare([one], pr.QueryStream.from_arrays(np.ones((2, 2)), [0, 1]))


def test_a_learner_that_fails_is_dropped_if_so_wanted():
    stream = pr.separable(40, n_features=3, seed=1).stream
    huge = stream.with_features(np.asarray(stream.X) * 1e120)
    blocks = [stream[:20], huge[20:]]
    learners = {"bounded": pr.SolarI(), "not": pr.Opauc(1.0)}
    with pytest.raises(ValueError, match="not: scores or weights overflow"):
        pr.compare({"bounded": pr.SolarI(), "not": pr.Opauc(1.0)}, blocks)
    result = pr.compare(learners, blocks, on_error="drop")
    assert list(result.traces) == ["bounded"]
    assert "overflow" in result.dropped["not"]
    alone = pr.SolarI().learn(blocks, "ndcg@10").values("ndcg@10")
    np.testing.assert_array_equal(result.traces["bounded"].values("ndcg@10"), alone)
    with pytest.raises(ValueError, match="all learners failed; opauc"):
        pr.compare([pr.Opauc(1.0)], blocks, on_error="drop")
    with pytest.raises(ValueError, match="on_error"):
        pr.compare([pr.SolarI()], blocks, on_error="skip")
