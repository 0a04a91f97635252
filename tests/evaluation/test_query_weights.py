"""Means and losses of queries that have weights."""

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.evaluation.comparison import Comparison

NAN = float("nan")


@pytest.fixture
def trace():
    values = {pr.NDCG(10): np.array([NAN, 0.5, 1.0, NAN, 0.0]), pr.AP(): np.array([0.25] + [NAN] * 4)}
    return pr.Trace(values, np.array([0.0, 0.5, 0.0, 1.0, 2.0]), np.array([0.0, 3.0, 1.0, 5.0, 2.0]))


def test_means_are_weighted(trace):
    assert trace.mean("ndcg@10") == (3 * 0.5 + 1 * 1.0) / 6
    assert np.isnan(trace.mean("ap"))  # the only query that counts has weight 0
    np.testing.assert_allclose(trace.running_mean("ndcg@10"), [NAN, 0.5, 2.5 / 4, 2.5 / 4, 2.5 / 6])
    np.testing.assert_allclose(trace.window_mean("ndcg@10", 2), [NAN, 0.5, 2.5 / 4, 1.0, 0.0])
    np.testing.assert_allclose(trace.window_mean("ap", 3), [NAN] * 5)
    assert trace.means()["ndcg@10"] == trace.mean("ndcg@10")


def test_cumulative_losses_are_weighted_and_single_ones_are_not(trace):
    np.testing.assert_array_equal(trace.losses("ndcg@10"), [0, 0.5, 0, 0, 1])
    np.testing.assert_array_equal(trace.cumulative_loss("ndcg@10"), [0, 1.5, 1.5, 1.5, 3.5])


def test_equal_weights_are_a_matter_of_units(trace):
    plain = pr.Trace({pr.NDCG(10): trace.values("ndcg@10")}, trace.masses)
    equal = pr.Trace({pr.NDCG(10): trace.values("ndcg@10")}, trace.masses, np.full(5, 0.1))
    assert equal.mean("ndcg@10") == pytest.approx(plain.mean("ndcg@10"))
    np.testing.assert_allclose(equal.window_mean("ndcg@10", 3), plain.window_mean("ndcg@10", 3))


def test_weights_are_sliced_concatenated_saved_and_shown(trace, tmp_path):
    pytest.importorskip("pandas")
    plain = pr.Trace({pr.NDCG(10): np.ones(2), pr.AP(): np.ones(2)}, np.zeros(2))
    both = pr.Trace.concatenate([trace[1:3], plain])
    np.testing.assert_array_equal(both.query_weights, [3, 1, 1, 1])
    assert pr.Trace.concatenate([plain, plain]).query_weights is None
    both.save(tmp_path / "trace.npz")
    np.testing.assert_array_equal(pr.Trace.load(tmp_path / "trace.npz").query_weights, both.query_weights)
    assert both.to_frame()["weight"].tolist() == [3, 1, 1, 1]
    assert "weight" not in plain.to_frame().columns
    for wrong, message in (
        (np.ones(3), "differ in length"),
        (-np.ones(4), "query weights must be finite and not negative"),
        (np.full(4, np.inf), "query weights must be finite and not negative"),
    ):
        pr.Trace(dict(zip(both.measures, map(both.values, both.measures), strict=True)), both.masses, wrong).save(
            tmp_path / "damaged.npz"
        )
        with pytest.raises(pr.FormatError, match=message):
            pr.Trace.load(tmp_path / "damaged.npz")


def test_evaluation_is_weighted():
    stream = pr.separable(20, seed=1).stream
    weights = np.arange(20.0)
    weighted, ranker = stream.with_query_weights(weights), pr.FixedRanker(np.random.default_rng(0).normal(size=20))
    trace = pr.evaluate(ranker, weighted.blocks(2000), "ndcg")
    np.testing.assert_array_equal(trace.query_weights, weights)
    assert trace.mean("ndcg") == pytest.approx(
        np.average(pr.evaluate(ranker, stream, "ndcg").values("ndcg"), weights=weights)
    )
    learned = pr.RankNet().learn(weighted.blocks(2000), "ndcg")
    np.testing.assert_array_equal(learned.query_weights, weights)


def test_standings_are_weighted():
    """The first learner is better where it counts; with equal weights it is behind."""
    rng = np.random.default_rng(0)
    n = 400
    heavy = np.arange(n) % 4 == 0
    noise = 0.05 * rng.normal(size=(2, n))
    values = {"a": np.where(heavy, 0.6, 0.4) + noise[0], "b": np.where(heavy, 0.5, 0.5) + noise[1]}
    weights = np.where(heavy, 10.0, 1.0)
    weights[5] = 0.0
    values["a"][5] = -100.0  # a query of weight 0 does not count
    found = [
        Comparison({name: pr.Trace({pr.NDCG(): one}, np.zeros(n), w) for name, one in values.items()}).standings()
        for w in (weights, None)
    ]
    assert [one[0].name for one in found] == ["a", "b"]
    assert found[0][1].is_behind
    for unit in (2.0**-700, 2.0**700):  # whose squares are not numbers
        traces = {name: pr.Trace({pr.NDCG(): one}, np.zeros(n), weights * unit) for name, one in values.items()}
        assert Comparison(traces).standings() == found[0]
    for one in found[0]:
        assert one.mean == pytest.approx(np.average(values[one.name], weights=weights))
        assert one.low < one.mean < one.high


def test_one_query_that_outweighs_all_proves_nothing():
    rng = np.random.default_rng(1)
    weights = np.where(np.arange(100) == 0, 1e6, 1.0)
    traces = {name: pr.Trace({pr.NDCG(): rng.random(100)}, np.zeros(100), weights) for name in "ab"}
    for one in Comparison(traces).standings():
        assert np.isnan(one.low)
        assert not one.is_behind


def test_intervals_of_equal_weights_are_those_of_none():
    rng = np.random.default_rng(2)
    values = rng.random((2, 60))
    found = [
        Comparison(
            {name: pr.Trace({pr.NDCG(): one}, np.zeros(60), weights) for name, one in zip("ab", values, strict=True)}
        ).standings()
        for weights in (None, np.full(60, 4.0))
    ]
    for plain, weighted in zip(*found, strict=True):
        assert plain.name == weighted.name
        np.testing.assert_allclose(plain[1:7], weighted[1:7], rtol=1e-9)
